"""What training lowers: for one augmented demonstration, -log of its target's likelihood."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import softplus

from handful.demos import Step
from handful.learning._near_target import NearTarget
from handful.learning._negatives import Likelihood, Negatives, distance_to_scene
from handful.learning._on_target import on_something_else
from handful.learning._surrogate import SurrogateConfig, SurrogateQueries
from handful.learning.variation import Example, Variation
from handful.models import (
    EdfModel,
    EncodedCloud,
    GraspQueries,
    MatchEnergy,
    QueryPoints,
    Verifier,
    WeightedPoints,
)

AROUND = NearTarget(count=8, distance=0.004, angle=0.08)
"""Poses around a target that a verifier takes to be right: minima are as far from it."""
_FEWEST_NEAR = 3
"""Where no point of the grasp cloud is near the scene, so many nearest ones count as near."""


@dataclass(frozen=True, eq=False)
class Loss:
    """What one demonstration says.

    Attributes:
        total: The number to lower.
        likelihood: Its part that stands for -log P(T_target).
        target_energy: Energy of the demonstrated pose.
        negative_energy: Energy of what competes with it.
        weights: The largest query weights, for people to watch.
    """

    total: Float[Tensor, ""]
    likelihood: float
    target_energy: float
    negative_energy: float
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls,
        likelihood: Likelihood,
        weights: Float[Tensor, "queries"],
        extra: Float[Tensor, ""] | None = None,
    ) -> Loss:
        """A likelihood with something added to it."""
        return cls(
            likelihood.loss if extra is None else likelihood.loss + extra,
            likelihood.loss.item(),
            likelihood.target_energy,
            likelihood.negative_energy,
            tuple(weights.detach().topk(min(3, len(weights))).values.tolist()),
        )


@dataclass(frozen=True)
class LearnedQueryObjective:
    """-log P(T|X) of a model for an empty gripper, whose query points are parameters.

    Attributes:
        negatives: The poses that compete with the target.
        variation: What training makes up.
        verification: Weight of the verifier's loss, where the model has one.
    """

    negatives: Negatives
    variation: Variation
    verification: float = 1.0

    def loss(
        self, model: EdfModel, example: Example, rng: np.random.Generator, progress: float
    ) -> Loss:
        """The loss of one demonstration; `progress` from 0 to 1 says how far training is."""
        varied, thing = self.variation.apply_with_thing(example, rng)
        key = model.key_field(varied.scene)
        energy = model.energy(key, model.query_points(None))
        poses, generator = _poses(varied, key.encoded), _torch_generator(rng)
        likelihood = self.negatives.likelihood(energy, poses, key.encoded, generator, progress)
        extra = None
        if model.verifier is not None and likelihood.minima is not None:
            minima = likelihood.minima
            found = minima.rivals.double().numpy()
            elsewhere = on_something_else(found, varied, example.contact, thing)
            wrong = minima.rivals[torch.from_numpy(elsewhere)]
            right = torch.cat([poses, minima.right, self._around(energy, poses, generator)])
            extra = self.verification * verification_loss(model.verifier, energy, right, wrong)
        return Loss.of(likelihood, energy.queries.weights, extra)

    def _around(
        self, energy: MatchEnergy, poses: Float[Tensor, "poses 4 4"], generator: torch.Generator
    ) -> Float[Tensor, "around 4 4"]:
        """Poses around the targets that are as right as a minimum is."""
        center = energy.queries.center
        return torch.cat([AROUND.draw(pose, center, generator)[0] for pose in poses])


@dataclass(frozen=True)
class GraspQueryObjective:
    """-log P(T|X,Y) of a model for a full gripper: first the ELBO, then the likelihood.

    Early on (eq. elbo) query points are points of the grasp cloud, about as many near the scene at
    the target as far from it. Near ones learn to recognise their place, weighted by the surrogate's
    noisy weights; the weights of far ones are pulled down by the KL divergence. Weights are
    normalised, so only differences of their logits mean anything: logits are taken relative to the
    log-sum-exp of the near ones, for a pull on absolute logits would drag all down together.

    Later on, query points are drawn as they are in use. No gradient is taken through the way in
    which they move, only through their weights and descriptors where they arrive.

    With `as_in_paper`, query points are drawn by SVGD in both stages, with gradients through its
    steps, and the surrogate's weights are used for near and far ones as they are.

    Attributes:
        negatives: The poses that compete with the target.
        variation: What training makes up.
        surrogate: Of the surrogate query model.
        early: Share of the steps that use the surrogate.
        candidates: Near query points of the early stage at most.
        far_candidates: Far ones at most. They are cheap, for only their weights are asked.
        strongest: Query points of the later stage at most.
        kl_weight: Factor of the KL divergence, which is a mean over far points.
        as_in_paper: Draw query points as the paper does.
    """

    negatives: Negatives
    variation: Variation
    surrogate: SurrogateConfig = field(default_factory=SurrogateConfig)
    early: float = 0.6
    candidates: int = 4
    far_candidates: int = 8
    strongest: int = 4
    kl_weight: float = 1.0
    as_in_paper: bool = False

    def loss(
        self, model: EdfModel, example: Example, rng: np.random.Generator, progress: float
    ) -> Loss:
        """The loss of one demonstration; `progress` from 0 to 1 says how far training is."""
        varied = self.variation.apply(example, rng)
        assert varied.grasp is not None
        assert isinstance(model.queries, GraspQueries)
        key = model.key_field(varied.scene)
        grasp = model.queries.encode(varied.grasp)
        poses = _poses(varied, key.encoded)
        if progress >= self.early:
            queries, extra = self._late(model.queries, grasp), None
            shown = queries.weights
        elif self.as_in_paper:
            queries, extra = self._paper_early(model.queries, grasp, key.encoded, poses[0], rng)
            shown = queries.weights
        else:
            queries, extra, shown = self._early(model.queries, grasp, key.encoded, poses[0], rng)
        likelihood = self.negatives.likelihood(
            model.energy(key, queries), poses, key.encoded, _torch_generator(rng), progress
        )
        return Loss.of(likelihood, shown, extra)

    def _late(self, source: GraspQueries, grasp: EncodedCloud) -> QueryPoints:
        """The strongest query points, drawn as in use."""
        if self.as_in_paper:
            return source.describe(grasp, source.draw(grasp))
        with torch.no_grad():
            drawn = source.draw(grasp)
            kept = drawn.positions[
                drawn.logits.topk(min(self.strongest, len(drawn.logits))).indices
            ]
        points = WeightedPoints(kept, source.log_weight(grasp, kept))
        return source.describe(grasp, points)

    def _paper_early(
        self,
        source: GraspQueries,
        grasp: EncodedCloud,
        scene: EncodedCloud,
        pose: Float[Tensor, "4 4"],
        rng: np.random.Generator,
    ) -> tuple[QueryPoints, Float[Tensor, ""]]:
        """Drawn query points with the surrogate's weights, and the KL divergence (eq. elbo)."""
        points = source.draw(grasp)
        surrogate = SurrogateQueries.at_pose(points, scene, pose, self.surrogate)
        noise = torch.from_numpy(rng.normal(size=len(points.logits))).to(points.logits)
        noisy = WeightedPoints(points.positions, surrogate.sample_logits(noise))
        return source.describe(grasp, noisy), surrogate.kl_divergence()

    def _early(
        self,
        source: GraspQueries,
        grasp: EncodedCloud,
        scene: EncodedCloud,
        pose: Float[Tensor, "4 4"],
        rng: np.random.Generator,
    ) -> tuple[QueryPoints, Float[Tensor, ""], Float[Tensor, "1"]]:
        """Near query points, the pull on far ones, and the near ones' share of the weights."""
        surrogate = self._surrogate(source, grasp, scene, pose, rng)
        near = ~surrogate.far
        noise = torch.from_numpy(rng.normal(size=len(near))).to(surrogate.points.logits)
        logits = surrogate.sample_logits(noise)[near]
        points = WeightedPoints(surrogate.points.positions[near], logits)
        divergence = surrogate.kl_divergence() / max(int(surrogate.far.sum()), 1)
        share = surrogate.points.logits.softmax(0)[near].sum()[None]
        return source.describe(grasp, points), self.kl_weight * divergence, share

    def _surrogate(
        self,
        source: GraspQueries,
        grasp: EncodedCloud,
        scene: EncodedCloud,
        pose: Float[Tensor, "4 4"],
        rng: np.random.Generator,
    ) -> SurrogateQueries:
        """Surrogate over some points of the grasp cloud, near and far, logits relative to near."""
        distance = distance_to_scene(grasp.points, pose[None], scene)[0]
        far = distance >= self.surrogate.reach
        if bool(far.all()):
            far = torch.ones_like(far)
            far[distance.argsort(stable=True)[:_FEWEST_NEAR]] = False
        chosen = torch.cat(
            [_some(~far, self.candidates, rng), _some(far, self.far_candidates, rng)]
        )
        positions, is_far = grasp.points[chosen], far[chosen]
        logits = source.log_weight(grasp, positions)
        relative = logits - logits[~is_far].logsumexp(0)
        return SurrogateQueries(WeightedPoints(positions, relative), is_far, self.surrogate)


def verification_loss(
    verifier: Verifier,
    energy: MatchEnergy,
    right: Float[Tensor, "right 4 4"],
    wrong: Float[Tensor, "wrong 4 4"],
) -> Float[Tensor, ""]:
    """Cross entropy of a verifier; right and wrong poses weigh the same."""
    logits = verifier(energy, torch.cat([right, wrong]))
    good, bad = logits.split([len(right), len(wrong)])
    loss = softplus(-good).mean()
    return loss + softplus(bad).mean() if len(bad) else loss


def _poses(step: Step, encoded: EncodedCloud) -> Float[Tensor, "targets 4 4"]:
    return torch.tensor(step.targets).to(encoded.points)


def _torch_generator(rng: np.random.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(int(rng.integers(2**63)))


def _some(mask: Bool[Tensor, "points"], count: int, rng: np.random.Generator) -> Tensor:
    """Up to `count` of the indices where the mask is true, drawn at random."""
    (where,) = np.nonzero(mask.numpy())
    return torch.from_numpy(rng.permutation(where)[:count])
