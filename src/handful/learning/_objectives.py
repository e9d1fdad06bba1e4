"""What training lowers: for one augmented demonstration, -log of its target's likelihood."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from handful.clouds import NeighbourIndex
from handful.demos import Augmentation, Step, some_sides
from handful.errors import DemoError
from handful.learning._clutter import Clutter
from handful.learning._crops import ContextDropout
from handful.learning._negatives import LatticeNegatives, Likelihood, Negatives
from handful.learning._stretch import Stretch
from handful.learning._surrogate import SurrogateConfig, SurrogateQueries
from handful.models import (
    EncodedCloud,
    Field,
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
class PickObjective:
    """-log P(T|X) of the pick model.

    Attributes:
        negatives: The poses that compete with the target.
        augmentation: Changes of the step.
        context: Changes of what stands around the target.
        stretch: Changes of the scene's shapes.
        clutter: Shapes that stand around.
    """

    negatives: Negatives = field(default_factory=LatticeNegatives)
    augmentation: Augmentation = DEFAULT_AUGMENTATION
    context: ContextDropout = field(default_factory=ContextDropout)
    stretch: Stretch = field(default_factory=Stretch)
    clutter: Clutter = field(default_factory=Clutter)

    def loss(self, model: PickModel, step: Step, rng: np.random.Generator, progress: float) -> Loss:
        """The loss of one demonstration; `progress` from 0 to 1 says how far training is."""
        changed = self.augmentation.apply(step, rng)
        focus = focus_of_pick(model, changed)
        changed = self.stretch.apply(changed, focus, rng)
        scene = self.context.apply(changed.scene, focus, rng)
        key = model.key_field(self.clutter.apply(scene, focus, rng))
        energy = model.energy(key)
        likelihood = self.negatives.likelihood(
            energy, _poses(changed, key.encoded), key.encoded, _torch_generator(rng)
        )
        return Loss.of(likelihood, energy.queries.weights)


@dataclass(frozen=True)
class PlaceObjective:
    """-log P(T|X,Y) of the place model: the ELBO with the surrogate first, then the likelihood.

    Early on (eq. elbo) query points are points of the grasp cloud, about as many near the scene at
    the target as far from it. Near ones learn to recognise their place, weighted by the surrogate's
    noisy weights; the weights of far ones are pulled down by the KL divergence. Weights are
    normalised, so only differences of their logits mean anything: logits are taken relative to the
    log-sum-exp of the near ones, for a pull on absolute logits would drag all down together.

    Later on, query points are drawn as they are at inference. No gradient is taken through the way
    in which they move, only through their weights and descriptors where they arrive.

    Attributes:
        negatives: The poses that compete with the target.
        augmentation: Changes of the step.
        context: Changes of what stands around the target.
        held_context: The same for the grasp cloud, about where it touches the scene.
        one_sided: Probability that only some sides of the grasp cloud are shown.
        surrogate: Of the surrogate query model.
        early: Share of the steps that use the surrogate.
        stretch: Changes of the shapes of scene and held object.
        clutter: Shapes that stand around.
        candidates: Near query points of the early stage at most.
        far_candidates: Far ones at most. They are cheap, for only their weights are asked.
        strongest: Query points of the later stage at most.
        kl_weight: Factor of the KL divergence, which is a mean over far points.
    """

    negatives: Negatives = field(default_factory=LatticeNegatives)
    augmentation: Augmentation = DEFAULT_AUGMENTATION
    context: ContextDropout = field(
        default_factory=lambda: ContextDropout(smallest=0.08, largest=0.2)
    )
    held_context: ContextDropout = field(
        default_factory=lambda: ContextDropout(smallest=0.06, largest=0.14)
    )
    one_sided: float = 0.0
    surrogate: SurrogateConfig = field(default_factory=SurrogateConfig)
    stretch: Stretch = field(default_factory=Stretch)
    clutter: Clutter = field(default_factory=Clutter)
    early: float = 0.6
    candidates: int = 8
    far_candidates: int = 8
    strongest: int = 8
    kl_weight: float = 1.0

    def loss(
        self, model: PlaceModel, step: Step, rng: np.random.Generator, progress: float
    ) -> Loss:
        """The loss of one demonstration; `progress` from 0 to 1 says how far training is."""
        changed = self.augmentation.apply(step, rng)
        focus = focus_of_place(changed)
        changed = self.stretch.apply(changed, focus, rng)
        scene = self.context.apply(changed.scene, focus, rng)
        held, pose = changed.grasp, changed.targets[0]
        assert held is not None
        if self.one_sided > 0 and rng.uniform() < self.one_sided:
            held = some_sides(held, rng)
        held = self.held_context.apply(held, pose[:3, :3].T @ (focus - pose[:3, 3]), rng)
        key = model.key_field(self.clutter.apply(scene, focus, rng))
        grasp = model.queries.encode(held)
        poses = _poses(changed, key.encoded)
        stage = self._late if progress >= self.early else self._early
        return stage(model, key, grasp, poses, rng)

    def _late(
        self,
        model: PlaceModel,
        key: Field,
        grasp: EncodedCloud,
        poses: Float[Tensor, "targets 4 4"],
        rng: np.random.Generator,
    ) -> Loss:
        with torch.no_grad():
            drawn = model.queries.draw(grasp)
            kept = drawn.positions[
                drawn.logits.topk(min(self.strongest, len(drawn.logits))).indices
            ]
        points = WeightedPoints(kept, model.queries.log_weight(grasp, kept))
        energy = model.energy(key, model.queries.describe(grasp, points))
        likelihood = self.negatives.likelihood(energy, poses, key.encoded, _torch_generator(rng))
        return Loss.of(likelihood, energy.queries.weights)

    def _early(
        self,
        model: PlaceModel,
        key: Field,
        grasp: EncodedCloud,
        poses: Float[Tensor, "targets 4 4"],
        rng: np.random.Generator,
    ) -> Loss:
        surrogate = self._surrogate(model, grasp, key.encoded, poses[0], rng)
        queries, near = self._near_queries(model, grasp, surrogate, rng)
        likelihood = self.negatives.likelihood(
            model.energy(key, queries), poses, key.encoded, _torch_generator(rng)
        )
        divergence = surrogate.kl_divergence() / max(int(surrogate.far.sum()), 1)
        shares = surrogate.points.logits.softmax(0)
        return Loss.of(likelihood, shares[near].sum()[None], self.kl_weight * divergence)

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
        chosen = torch.cat(
            [_some(~far, self.candidates, rng), _some(far, self.far_candidates, rng)]
        )
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


def _some(mask: Bool[Tensor, "points"], count: int, rng: np.random.Generator) -> Tensor:
    """Up to `count` of the indices where the mask is true, drawn at random."""
    (where,) = np.nonzero(mask.numpy())
    return torch.from_numpy(rng.permutation(where)[:count])


def focus_of_pick(model: PickModel, step: Step) -> Float[np.ndarray, "3"]:
    """Where the gripper grasps: its first query point at the demonstrated pose."""
    query = model.queries().positions[0].detach().double().cpu().numpy()
    return step.targets[0, :3, :3] @ query + step.targets[0, :3, 3]


def focus_of_place(step: Step) -> Float[np.ndarray, "3"]:
    """Where the held object comes nearest to the scene when the gripper is at the target."""
    if step.grasp is None:
        raise DemoError("the place model learns from grasp clouds, and this step has none.")
    moved = step.grasp.transformed(step.targets[0]).points
    distance = NeighbourIndex(step.scene.points).distance(moved)
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
