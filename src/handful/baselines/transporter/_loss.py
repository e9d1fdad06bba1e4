"""The loss: -log softmax over pixels and yaws, and a Gaussian for what is regressed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

SCALE = (0.2 / 4.0, math.pi / 4.0, math.pi / 2.0 / 4.0)
"""Of z (metres), roll and pitch: a quarter of the half of their range."""
FINER = {False: (0.3, 1.0, 1.0), True: (1.0, 1.0, 1.0)}
"""Standard deviations as shares of `SCALE`, of models for an empty and for a full gripper."""


@dataclass(frozen=True, eq=False)
class PoseLoss:
    """What one demonstration says.

    Attributes:
        likelihood: -log of the softmax at the demonstrated pixel and yaw.
        regression: Half of the squared errors of z, roll and pitch there, in standard deviations.
        target: Logit of the demonstrated pixel and yaw.
        others: Log of the sum of the exponentials of all logits.
    """

    likelihood: Float[Tensor, ""]
    regression: Float[Tensor, ""]
    target: Float[Tensor, ""]
    others: Float[Tensor, ""]

    @property
    def total(self) -> Float[Tensor, ""]:
        """The number to lower."""
        return self.likelihood + self.regression


def sigmas(holding: bool) -> tuple[float, float, float]:
    """Standard deviations of z (metres), roll and pitch (radians)."""
    z, roll, pitch = (scale * share for scale, share in zip(SCALE, FINER[holding], strict=True))
    return z, roll, pitch


def pose_loss(
    logits: Float[Tensor, "yaws height width"],
    rest: Float[Tensor, "yaws 3 height width"],
    valid: Bool[Tensor, "yaws height width"],
    weights: Float[Tensor, "yaws"],
    target: tuple[int, int, int],
    target_rest: Float[Tensor, "3"],
    holding: bool,
) -> PoseLoss:
    """The loss of one demonstration.

    With all yaws, each of weight one, this is the softmax over all yaws and pixels. Where only some
    of the wrong yaws were drawn, each stands for those that were not: the sum of exponentials is
    right on average.

    Args:
        logits: Of pixels and yaws.
        rest: z, roll and pitch that are regressed there.
        valid: Pixels that count.
        weights: For how many yaws each one stands.
        target: Number of the demonstrated yaw among those given, row and column.
        target_rest: Demonstrated z, roll and pitch.
        holding: Whether the gripper holds something: it decides the standard deviations.
    """
    number, row, column = target
    masked = logits.masked_fill(~valid, -math.inf) + weights.log()[:, None, None]
    others = torch.logsumexp(masked.flatten(), 0)
    at_target = logits[number, row, column]
    error = rest[number, :, row, column] - target_rest
    turned = torch.remainder(error[1] + math.pi, 2.0 * math.pi) - math.pi
    error = torch.stack([error[0], turned, error[2]])
    regression = 0.5 * (error / error.new_tensor(sigmas(holding))).square().sum()
    return PoseLoss(others - at_target, regression, at_target, others)
