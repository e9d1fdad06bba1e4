"""What training lowers, for one demonstration: the bound of `_bound`, on augmented clouds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from handful.clouds import NeighbourIndex, PointCloud
from handful.demos import Augmentation, Step
from handful.errors import DemoError
from handful.learning._bound import LatticeConfig, query_losses
from handful.learning._crops import ContextDropout
from handful.learning._surrogate import SurrogateConfig, SurrogateQueries
from handful.models import (
    EncodedCloud,
    PickModel,
    PlaceModel,
    QueryPoints,
    WeightedPoints,
)

DEFAULT_AUGMENTATION = Augmentation(
    target_angle=0.06,
    target_distance=0.004,
    point_jitter=0.001,
    color_jitter=0.05,
    point_dropout=0.3,
)


@dataclass(frozen=True, eq=False)
class Loss:
    """What one demonstration says.

    Attributes:
        total: The number to lower.
        likelihood: Its part that bounds -log P(T_target).
        weights: The largest query weights, for people to watch.
    """

    total: Float[Tensor, ""]
    likelihood: float
    weights: tuple[float, ...]


@dataclass(frozen=True)
class PickObjective:
    """-log P(T|X) of the pick model, bounded query by query.

    Attributes:
        lattice: The poses that compete with the target.
        augmentation: Changes of the step.
        context: Changes of what stands around the target.
    """

    lattice: LatticeConfig = field(default_factory=LatticeConfig)
    augmentation: Augmentation = DEFAULT_AUGMENTATION
    context: ContextDropout = field(default_factory=ContextDropout)

    def loss(self, model: PickModel, step: Step, rng: np.random.Generator, progress: float) -> Loss:
        """The loss of one demonstration; `progress` from 0 to 1 says how far training is."""
        changed = self.augmentation.apply(step, rng)
        query = model.queries().positions[0].detach().double().cpu().numpy()
        focus = changed.targets[0, :3, :3] @ query + changed.targets[0, :3, 3]
        scene = self.context.apply(changed.scene, focus, rng)
        key = model.key_field(scene)
        energy = model.energy(key)
        lattice = self.lattice.near(key.encoded.points, _torch_generator(rng))
        losses = query_losses(energy, _poses(changed, key.encoded), lattice)
        total = (energy.queries.weights * losses).sum()
        return Loss(total, total.item(), _largest(energy.queries.weights))


@dataclass(frozen=True)
class PlaceObjective:
    """-log P(T|X,Y) of the place model: the ELBO with the surrogate first, then the likelihood.

    Early on (eq. elbo) query points are points of the grasp cloud, about as many near the scene at
    the target as far from it. Near ones learn to recognise their place, weighted by the surrogate's
    noisy weights; the weights of far ones are pulled down by the KL divergence. Weights are
    normalised, so only differences of their logits mean anything: logits are taken relative to the
    log-sum-exp of the near ones, for a pull on absolute logits would drag all down together.

    Attributes:
        lattice: The poses that compete with the target.
        augmentation: Changes of the step.
        context: Changes of what stands around the target.
        surrogate: Of the surrogate query model.
        early: Share of the steps that use the surrogate.
        candidates: Near and far query points of the early stage, each at most.
        kl_weight: Factor of the KL divergence, which is a mean over far points.
    """

    lattice: LatticeConfig = field(default_factory=LatticeConfig)
    augmentation: Augmentation = DEFAULT_AUGMENTATION
    context: ContextDropout = field(
        default_factory=lambda: ContextDropout(smallest=0.08, largest=0.2)
    )
    surrogate: SurrogateConfig = field(default_factory=SurrogateConfig)
    early: float = 0.6
    candidates: int = 12
    kl_weight: float = 0.3

    def loss(
        self, model: PlaceModel, step: Step, rng: np.random.Generator, progress: float
    ) -> Loss:
        """The loss of one demonstration; `progress` from 0 to 1 says how far training is."""
        if step.grasp is None:
            raise DemoError("the place model learns from grasp clouds, and this step has none.")
        changed = self.augmentation.apply(step, rng)
        assert changed.grasp is not None
        focus = _contact(changed.scene, changed.grasp, changed.targets[0])
        scene = self.context.apply(changed.scene, focus, rng)
        key = model.key_field(scene)
        grasp = model.queries.encode(changed.grasp)
        lattice = self.lattice.near(key.encoded.points, _torch_generator(rng))
        poses = _poses(changed, key.encoded)
        if progress >= self.early:
            energy = model.energy(key, model.queries.describe(grasp, model.queries.draw(grasp)))
            total = (energy.queries.weights * query_losses(energy, poses, lattice)).sum()
            return Loss(total, total.item(), _largest(energy.queries.weights))
        surrogate = self._surrogate(model, grasp, key.encoded, poses[0], rng)
        queries, near = self._near_queries(model, grasp, surrogate, rng)
        losses = query_losses(model.energy(key, queries), poses, lattice)
        likelihood = (queries.weights * losses).sum()
        total = likelihood + self.kl_weight * surrogate.kl_divergence() / max(
            int(surrogate.far.sum()), 1
        )
        shares = surrogate.points.logits.softmax(0)
        return Loss(total, likelihood.item(), (shares[near].sum().item(),))

    def _surrogate(
        self,
        model: PlaceModel,
        grasp: EncodedCloud,
        scene: EncodedCloud,
        pose: Float[Tensor, "4 4"],
        rng: np.random.Generator,
    ) -> SurrogateQueries:
        """Surrogate over some points of the grasp cloud, near and far, logits relative to near."""
        everywhere = WeightedPoints(grasp.points, torch.zeros(len(grasp.points)))
        far = SurrogateQueries.at_pose(everywhere, scene, pose, self.surrogate).far
        if bool(far.all()):
            far = _all_but_nearest(grasp, scene, pose)
        chosen = torch.cat([_some(~far, self.candidates, rng), _some(far, self.candidates, rng)])
        positions, is_far = grasp.points[chosen], far[chosen]
        logits = model.queries.log_weight(grasp, positions)
        relative = logits - logits[~is_far].logsumexp(0)
        return SurrogateQueries(WeightedPoints(positions, relative), is_far, self.surrogate)

    def _near_queries(
        self,
        model: PlaceModel,
        grasp: EncodedCloud,
        surrogate: SurrogateQueries,
        rng: np.random.Generator,
    ) -> tuple[QueryPoints, Bool[Tensor, "candidates"]]:
        """Near query points with the surrogate's noisy weights; far ones have next to none."""
        near = ~surrogate.far
        noise = torch.from_numpy(rng.normal(size=len(near))).to(surrogate.points.logits)
        logits = surrogate.sample_logits(noise)[near]
        points = WeightedPoints(surrogate.points.positions[near], logits)
        return model.queries.describe(grasp, points), near


def _poses(step: Step, encoded: EncodedCloud) -> Float[Tensor, "targets 4 4"]:
    return torch.tensor(step.targets).to(encoded.points)


def _torch_generator(rng: np.random.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(int(rng.integers(2**63)))


def _largest(weights: Float[Tensor, "queries"]) -> tuple[float, ...]:
    return tuple(weights.detach().topk(min(3, len(weights))).values.tolist())


def _some(mask: Bool[Tensor, "points"], count: int, rng: np.random.Generator) -> Tensor:
    """Up to `count` of the indices where the mask is true, drawn at random."""
    (where,) = np.nonzero(mask.numpy())
    return torch.from_numpy(rng.permutation(where)[:count])


def _contact(
    scene: PointCloud, grasp: PointCloud, pose: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "3"]:
    """Where the held object comes nearest to the scene when the gripper is at the pose."""
    moved = grasp.transformed(pose).points
    distance = NeighbourIndex(scene.points).distance(moved)
    return moved[np.argsort(distance)[:50]].mean(axis=0).astype(np.float64)


def _all_but_nearest(
    grasp: EncodedCloud, scene: EncodedCloud, pose: Float[Tensor, "4 4"]
) -> Bool[Tensor, "points"]:
    """Everything counts as far but the few points that come nearest to the scene."""
    rotation, translation = pose[:3, :3], pose[:3, 3]
    distance = scene.index.distance((grasp.points @ rotation.T + translation).numpy())
    far = torch.ones(len(grasp.points), dtype=torch.bool)
    far[torch.from_numpy(np.argsort(distance)[:3])] = False
    return far
