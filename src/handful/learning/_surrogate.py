"""The surrogate query model of early training (eq. phat, query_model) and its KL divergence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from handful.errors import OptionError
from handful.learning._negatives import distance_to_scene
from handful.models import EncodedCloud, WeightedPoints


@dataclass(frozen=True)
class SurrogateConfig:
    """The surrogate's hyperparameters.

    Attributes:
        noise: sigma_H, standard deviation of the noise on the logits of the weights.
        reach: r, a query point farther than this from every point of the scene is far, metres.
        far_logit: alpha, the mean logit that the surrogate gives to far points.
    """

    noise: float = 1.0
    reach: float = 0.03
    far_logit: float = -5.0

    def __post_init__(self) -> None:
        if not (self.noise > 0 and self.reach > 0):
            raise OptionError(f"surrogate noise {self.noise}, reach {self.reach}: need positive.")


@dataclass(frozen=True, eq=False)
class SurrogateQueries:
    """H(w, Q | X, Y, T): log-normal weights whose mean is lowered for far query points.

    Attributes:
        points: q_i(Y) and log w(q_i | Y), the means of phat.
        far: Which points are far from the scene when the gripper is at T [queries].
        config: The hyperparameters.
    """

    points: WeightedPoints
    far: Bool[Tensor, "queries"]
    config: SurrogateConfig

    @classmethod
    def at_pose(
        cls,
        points: WeightedPoints,
        scene: EncodedCloud,
        pose: Float[Tensor, "4 4"],
        config: SurrogateConfig,
    ) -> SurrogateQueries:
        """The surrogate for a demonstrated pose T: far means d_min(T q_i, X) >= r."""
        far = distance_to_scene(points.positions, pose[None], scene)[0] >= config.reach
        return cls(points, far, config)

    @property
    def mean_logits(self) -> Float[Tensor, "queries"]:
        """Mean of log w_i under H."""
        return torch.where(self.far, self.config.far_logit, self.points.logits)

    def sample_logits(self, noise: Float[Tensor, "queries"]) -> Float[Tensor, "queries"]:
        """Logits drawn from H by moving standard normal noise (differentiable)."""
        return self.mean_logits + self.config.noise * noise

    def log_density(
        self, logits: Float[Tensor, "queries"], means: Float[Tensor, "queries"]
    ) -> Float[Tensor, ""]:
        """Log-density of weights exp(logits) when the logits are normal about `means`.

        The factor dl/dw = 1/w of eq. phat turns a density of logits into one of weights.
        """
        normal = torch.distributions.Normal(means, self.config.noise)
        return (normal.log_prob(logits) - logits).sum()

    def kl_divergence(self) -> Float[Tensor, ""]:
        """D_KL[H || phat] = sum over far points of (alpha - log w(q_i|Y))^2 / (2 sigma_H^2)."""
        gap = self.config.far_logit - self.points.logits
        return torch.where(self.far, gap.square(), 0.0).sum() / (2.0 * self.config.noise**2)
