"""The recipe of a step: which network, which objective and how long, by the name of a preset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from handful.demos import DemoSet, Gripper, TaskStep
from handful.errors import OptionError, unknown_name_message
from handful.learning._joint import JointNegatives
from handful.learning._near_target import NearTarget
from handful.learning._negatives import LatticeNegatives, Negatives, PaperNegatives
from handful.learning._objectives import GraspQueryObjective, LearnedQueryObjective
from handful.learning._rivals import Rivals
from handful.learning._schedule import Schedule
from handful.learning._trainer import TrainingConfig
from handful.learning.variation import (
    Augmentation,
    Clutter,
    Composition,
    ContextDropout,
    Sensor,
    Variation,
    Warp,
)
from handful.models import (
    EncoderConfig,
    GraspQueryConfig,
    LearnedQueryConfig,
    ModelConfig,
    VerifierConfig,
)
from handful.policy import Preparation, SearchConfig

PRESETS = ("fast", "paper")
"""`fast`: minutes on a laptop. `paper`: the paper's Markov chains; hours, for comparison."""

CHANNELS = (16, 8, 4, 4)
"""Channels of each type of a descriptor."""

ALL_TYPES = (0, 1, 2, 3)

AUGMENTATION = Augmentation(
    target_angle=0.06,
    target_distance=0.004,
    point_jitter=0.001,
    color_jitter=0.05,
    point_dropout=0.3,
)
"""What every training changes a little."""
RECOLORED = 0.8
"""Share of the training scenes whose colours are turned, and of those whose colours fade."""
WARP = Warp(size=0.4, proportion=0.35, profile=0.5)
"""Of objects that an empty gripper takes: sizes over a factor of more than two. With wider ones the
mug's pick took other things, and was less exact."""
JOINT_WARP, HELD_WARP = (
    Warp(size=0.25, proportion=0.25),
    Warp(size=0.45, proportion=0.5, profile=0.8),
)
"""Of scene and held object together, and of held objects besides."""
COMPOSED = 0.7
"""Share of the training scenes that are composed, where object and scene can be told apart."""
ONE_SIDED = 0.5
"""Share of the training scenes that show what is held from some sides only."""
FAR_CANDIDATES = 32
"""Points of a warped object that a model learns not to look at, in each early step."""
CLUTTERED = 14
"""Most shapes that are put into a training scene."""
THINGS = ContextDropout(probability=0.4, smallest=0.1, largest=0.2, nearest_cut=0.5, whole=0.7)
"""What is shown around an object that an empty gripper takes: it may stand anywhere."""
PLACES = ContextDropout(probability=0.3, smallest=0.13, largest=0.2, nearest_cut=0.65, whole=0.8)
"""What is shown around a place for what is held. The middle of a tray looks like a table: a crop
must not take away its edge, which tells them apart."""
NEAR_A_FLOOR = 0.5
"""Share of the scenes of an empty gripper, not composed, with a floor near the target."""
SENSOR = Sensor(partial=0.5, noisy=0.5, sparse=0.2, sparsest=0.6)

KEY_ENCODERS = {
    False: EncoderConfig(
        voxel_size=0.02, radius=0.06, shape_radius=0.024, convolution="depthwise", gate_sizes=True
    ),
    True: EncoderConfig(
        voxel_size=0.022, radius=0.06, shape_radius=0.026, convolution="depthwise", gate_sizes=True
    ),
}
HELD_ENCODER = EncoderConfig(
    voxel_size=0.02, radius=0.06, shape_radius=0.024, convolution="depthwise", gate_sizes=True
)
"""Of scenes, for an empty and for a full gripper, and of what is held. Few points that see far:
what tells the bottom of a bowl from its wall is centimetres away. What is lost by thinning is told
by the shape around each point. Steps are cheap with few points and depthwise convolutions, and many
cheap steps teach more than few dear ones."""

NEAR = NearTarget(count=63, distance=0.01, angle=0.2)
"""Poses near each target that compete with it: a lattice is too coarse to teach millimetres."""
RIVALS = {False: Rivals(most=12, share=1.0), True: Rivals()}
"""Minima elsewhere that compete with the target, of a model for an empty and for a full gripper:
what the search would answer instead. Distractors have many for an empty gripper. A model for a full
gripper had none worth the time: it was right with whole scenes alone, and less exact with them."""
PROBES = ((0.02, 6), (0.04, 8), (0.065, 12), (0.09, 12))
"""Radii, metres, and numbers of the points around the contact where a verifier looks."""
STEPS = {False: 1500, True: 1400}
"""Optimiser steps of a model for an empty and for a full gripper."""

WITHOUT_ORIENTATION = {False: 10, True: 5}
"""Query points of a model whose descriptors have type 0 only, for an empty and for a full gripper,
as in the paper's ablation."""
_AROUND = 0.02
"""Those of an empty gripper are so far from the contact point, metres."""


@dataclass(frozen=True)
class Recipe:
    """All that training the model of one step needs besides demonstrations.

    Attributes:
        method: Name of the method that trains by it.
        step: Name and action of the step.
        model: Configuration of the network.
        objective: What is lowered.
        training: How long and how fast.
        preparation: How clouds are prepared, in training and in use.
        search: How the trained model looks for poses.
    """

    method: ClassVar[str] = "edf"
    step: TaskStep
    model: ModelConfig
    objective: LearnedQueryObjective | GraspQueryObjective
    training: TrainingConfig
    preparation: Preparation = field(default_factory=Preparation)
    search: SearchConfig = field(default_factory=SearchConfig)


def recipe_for(
    demos: DemoSet,
    step: str,
    *,
    preset: str = "fast",
    types: Sequence[int] = ALL_TYPES,
    queries: int | None = None,
    colors_matter: bool = False,
    steps: int | None = None,
    seed: int = 0,
) -> Recipe:
    """The recipe of one step.

    Args:
        demos: What will be learned from; colours are used if all clouds have them.
        step: Name of the step.
        preset: One of `PRESETS`.
        types: Which types the descriptors hold; (0,) is the paper's ablation.
        queries: Query points that are used, where the descriptors hold type 0 only.
        colors_matter: Objects of other colours than the demonstrated ones are not meant. Else
            training makes colours up, so that a red mug does not teach "red".
        steps: Optimiser steps, instead of the preset's.
        seed: The same seed gives the same model.
    """
    if preset not in PRESETS:
        raise OptionError(unknown_name_message("preset", preset, PRESETS))
    chosen = demos.task.step(step)
    paper = preset == "paper"
    count = WITHOUT_ORIENTATION[chosen.action.holding] if queries is None else queries
    model = _model(demos, chosen, types, paper, count)
    variation = _paper_variation() if paper else _variation(chosen, colors_matter)
    objective = _objective(chosen, _negatives(chosen, types, paper), variation)
    if isinstance(objective, GraspQueryObjective):
        far = objective.far_candidates if paper else FAR_CANDIDATES
        objective = replace(objective, far_candidates=far, as_in_paper=paper)
        if not _knows_orientation(types):
            objective = replace(objective, candidates=count, strongest=count)
    training = _paper_training() if paper else _training(chosen)
    training = replace(training, seed=seed, steps=training.steps if steps is None else steps)
    return Recipe(chosen, model, objective, training)


def _model(
    demos: DemoSet, step: TaskStep, types: Sequence[int], paper: bool, queries: int
) -> ModelConfig:
    use_colors = _has_colors(demos)
    key = replace(KEY_ENCODERS[step.action.holding], use_colors=use_colors)
    channels = descriptor_channels(types)
    if not step.action.holding:
        learned = LearnedQueryConfig(_learned_positions(demos.gripper, types, queries))
        # It learns from rivals, which joint energies of several query points do not have.
        trained = not paper and _knows_orientation(types)
        verifier = VerifierConfig(_probes(demos.gripper)) if trained else None
        return ModelConfig(key, channels, learned=learned, verifier=verifier)
    strongest = {} if _knows_orientation(types) else {"strongest": queries}
    grasp = GraspQueryConfig(
        **strongest,
        encoder=replace(HELD_ENCODER, use_colors=use_colors),
        count=24,
        cluster_radius=0.015,
        # Fewer and longer steps than the paper's hundred: as far in a tenth of the time.
        steps=100 if paper else 10,
        step_size=0.005 if paper else 0.05,
    )
    return ModelConfig(key, channels, grasp=grasp)


def _objective(
    step: TaskStep, negatives: Negatives, variation: Variation
) -> LearnedQueryObjective | GraspQueryObjective:
    kind = GraspQueryObjective if step.action.holding else LearnedQueryObjective
    return kind(negatives, variation)


def _variation(step: TaskStep, colors_matter: bool) -> Variation:
    """What training makes up: the same for every step with a full, and with an empty gripper."""
    recolor = 0.0 if colors_matter else RECOLORED
    augmentation = replace(AUGMENTATION, recolor=recolor, fade=recolor)
    if step.action.holding:
        return Variation(
            augmentation,
            JOINT_WARP,
            HELD_WARP,
            context=PLACES,
            held_context=ContextDropout(smallest=0.06, largest=0.14),
            one_sided=ONE_SIDED,
            clutter=Clutter(CLUTTERED),
            sensor=SENSOR,
        )
    return Variation(
        augmentation,
        WARP,
        composition=Composition(COMPOSED, recolored=0.0 if colors_matter else 0.5),
        context=THINGS,
        clutter=Clutter(CLUTTERED, floor=NEAR_A_FLOOR),
        sensor=SENSOR,
    )


def _paper_variation() -> Variation:
    """Perturbed poses and jittered clouds, and nothing else (appendix on experiments)."""
    nothing = ContextDropout(probability=0.0)
    return Variation(
        replace(AUGMENTATION, point_dropout=0.0), context=nothing, held_context=nothing
    )


def _training(step: TaskStep) -> TrainingConfig:
    """How long and how fast."""
    return TrainingConfig(steps=STEPS[step.action.holding])


def _paper_training() -> TrainingConfig:
    """600 steps, learning rates from 0.005 to 0.001 (appendix on experiments)."""
    schedule = Schedule(peak=5e-3, warmup=0.0, floor=0.2)
    return TrainingConfig(steps=600, schedule=schedule, averaging=0.0, optimizer="adam")


def _negatives(step: TaskStep, types: Sequence[int], paper: bool) -> Negatives:
    if paper:
        return PaperNegatives()
    if not _knows_orientation(types):
        return JointNegatives(near=NEAR)
    return LatticeNegatives(near=NEAR, rivals=RIVALS[step.action.holding])


def _probes(gripper: Gripper) -> tuple[tuple[float, ...], ...]:
    """Where a verifier looks: at the contact point and on spheres around it, gripper frame."""
    contact = gripper.T_gripper_contact
    rows = [np.zeros((1, 3))] + [radius * _sphere(count) for radius, count in PROBES]
    around = np.concatenate(rows) @ contact[:3, :3].T + contact[:3, 3]
    return tuple(tuple(row) for row in around.tolist())


def _sphere(count: int) -> Float[np.ndarray, "count 3"]:
    """Directions that are spread evenly."""
    number = np.arange(count)
    z = 1.0 - (2.0 * number + 1.0) / count
    angle = number * math.pi * (3.0 - math.sqrt(5.0))
    ring = np.sqrt(1.0 - z**2)
    return np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=1)


def _learned_positions(
    gripper: Gripper, types: Sequence[int], count: int
) -> tuple[tuple[float, ...], ...]:
    """Query points of an empty gripper, in the gripper frame: at the contact point.

    One is enough if its descriptor knows an orientation. Else they lie around the contact point,
    evenly on a sphere.
    """
    contact = gripper.T_gripper_contact
    if _knows_orientation(types):
        return (tuple(contact[:3, 3].tolist()),)
    around = _AROUND * _sphere(count)
    return tuple(tuple(row) for row in (around @ contact[:3, :3].T + contact[:3, 3]).tolist())


def _knows_orientation(types: Sequence[int]) -> bool:
    return any(degree > 0 for degree in types)


def descriptor_channels(types: Sequence[int]) -> tuple[int, ...]:
    """Channels of each type from 0 for a choice of types.

    Type 0 alone gets as many channels as all types have components: a fair ablation.
    """
    chosen = sorted(set(types))
    if not chosen or not set(chosen) <= set(ALL_TYPES):
        raise OptionError(f"descriptor types are {tuple(types)}: choose some of {ALL_TYPES}.")
    if chosen == [0]:
        return (sum(count * (2 * degree + 1) for degree, count in enumerate(CHANNELS)),)
    return tuple(CHANNELS[t] if t in chosen else 0 for t in range(chosen[-1] + 1))


def _has_colors(demos: DemoSet) -> bool:
    return all(
        cloud.has_colors
        for demo in demos
        for step in demo.steps
        for cloud in (step.scene, step.grasp)
        if cloud is not None
    )
