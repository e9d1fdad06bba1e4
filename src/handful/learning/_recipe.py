"""The recipe of a step: which network, which objective and how long, by the name of a preset."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from handful.demos import DemoSet, Gripper, TaskStep
from handful.errors import OptionError, unknown_name_message
from handful.learning._negatives import LatticeNegatives, Negatives, PaperNegatives
from handful.learning._objectives import GraspQueryObjective, LearnedQueryObjective
from handful.learning._schedule import Schedule
from handful.learning._trainer import TrainingConfig
from handful.learning.variation import Augmentation, Clutter, ContextDropout, Stretch, Variation
from handful.models import EncoderConfig, GraspQueryConfig, LearnedQueryConfig, ModelConfig
from handful.policy import Preparation, SearchConfig

PRESETS = ("fast", "paper")
"""`fast`: minutes on a laptop. `paper`: the paper's Markov chains; hours, for comparison."""

CHANNELS = (16, 8, 4, 4)
"""Channels of each type of a descriptor."""

ALL_TYPES = (0, 1, 2, 3)

VARIATIONS = ("colors", "contrast", "shapes", "sides", "clutter")
"""What training can make up: turned colours, faded colours, stretched shapes, held objects of which
only some sides are seen, things around."""

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
STRETCHED = 0.25
"""Largest logarithm of the factors by which training scenes are stretched."""
ONE_SIDED = 0.5
"""Share of the training scenes that show what is held from some sides only."""
FAR_CANDIDATES = 32
"""Points of a stretched object that a model learns not to look at, in each early step."""
CLUTTERED = 6
"""Most shapes that are put into a training scene."""
WHOLE = 0.25
"""Share of the training scenes that are not cropped about the target and are shown as a whole."""
NEAR_A_FLOOR = 0.5
"""Share of the cluttered scenes of an empty gripper with a floor near the target."""

EASY_STEPS, HARD_STEPS = {False: 400, True: 450}, {False: 800, True: 700}
"""Optimiser steps of a model for an empty and for a full gripper."""

_WITHOUT_ORIENTATION = 10
"""Learned query points of a model whose descriptors have type 0 only, as in the paper's
ablation."""
_AROUND = 0.02
"""They are so far from the contact point, metres."""


@dataclass(frozen=True)
class Recipe:
    """All that training the model of one step needs besides demonstrations.

    Attributes:
        step: Name and action of the step.
        model: Configuration of the network.
        objective: What is lowered.
        training: How long and how fast.
        preparation: How clouds are prepared, in training and in use.
        search: How the trained model looks for poses.
    """

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
    vary: Collection[str] = (),
    steps: int | None = None,
    seed: int = 0,
) -> Recipe:
    """The recipe of one step.

    Args:
        demos: What will be learned from; colours are used if all clouds have them.
        step: Name of the step.
        preset: One of `PRESETS`.
        types: Which types the descriptors hold; (0,) is the paper's ablation.
        vary: Which of `VARIATIONS` training makes up, for a world that differs from the
            demonstrations in them. The preset `paper` makes up nothing.
        steps: Optimiser steps, instead of the preset's.
        seed: The same seed gives the same model.
    """
    if preset not in PRESETS:
        raise OptionError(unknown_name_message("preset", preset, PRESETS))
    for name in vary:
        if name not in VARIATIONS:
            raise OptionError(unknown_name_message("variation", name, VARIATIONS))
    chosen = demos.task.step(step)
    paper = preset == "paper"
    model = _model(demos, chosen, types, paper)
    variation = _paper_variation() if paper else _variation(chosen, vary)
    objective = _objective(demos.gripper, chosen, _negatives(types, paper), variation)
    if isinstance(objective, GraspQueryObjective):
        far = FAR_CANDIDATES if "shapes" in vary else objective.far_candidates
        objective = replace(objective, far_candidates=far, as_in_paper=paper)
    training = _paper_training() if paper else _training(chosen, vary)
    training = replace(training, seed=seed, steps=training.steps if steps is None else steps)
    return Recipe(chosen, model, objective, training)


def _model(demos: DemoSet, step: TaskStep, types: Sequence[int], paper: bool) -> ModelConfig:
    use_colors = _has_colors(demos)
    key = EncoderConfig(radius=0.04, use_colors=use_colors)
    channels = descriptor_channels(types)
    if not step.action.holding:
        learned = LearnedQueryConfig(_learned_positions(demos.gripper, types))
        return ModelConfig(key, channels, learned=learned)
    grasp = GraspQueryConfig(
        encoder=EncoderConfig(voxel_size=0.014, radius=0.03, use_colors=use_colors),
        count=24,
        cluster_radius=0.015,
        # Fewer and longer steps than the paper's hundred: as far in a tenth of the time.
        steps=100 if paper else 10,
        step_size=0.005 if paper else 0.05,
    )
    return ModelConfig(key, channels, grasp=grasp)


def _objective(
    gripper: Gripper, step: TaskStep, negatives: Negatives, variation: Variation
) -> LearnedQueryObjective | GraspQueryObjective:
    x, y, z = gripper.T_gripper_contact[:3, 3].tolist()
    kind = GraspQueryObjective if step.action.holding else LearnedQueryObjective
    return kind((x, y, z), negatives, variation)


def _variation(step: TaskStep, vary: Collection[str]) -> Variation:
    """What training makes up for a step."""
    recolor, fade = (RECOLORED if name in vary else 0.0 for name in ("colors", "contrast"))
    holding, cluttered = step.action.holding, "clutter" in vary
    context = ContextDropout(smallest=0.08, largest=0.2) if holding else ContextDropout()
    context = replace(context, whole=WHOLE)
    if cluttered:
        # Crops that leave enough of the target to tell it from clutter; more of them, to save time.
        context = replace(context, probability=0.8, smallest=0.08, nearest_cut=0.5)
    return Variation(
        replace(AUGMENTATION, recolor=recolor, fade=fade),
        Stretch(STRETCHED if "shapes" in vary else 0.0),
        context,
        held_context=ContextDropout(smallest=0.06, largest=0.14),
        one_sided=ONE_SIDED if "sides" in vary and holding else 0.0,
        clutter=Clutter(
            CLUTTERED if cluttered else 0,
            floor=NEAR_A_FLOOR if cluttered and not holding else 0.0,
        ),
    )


def _paper_variation() -> Variation:
    """Perturbed poses and jittered clouds, and nothing else (appendix on experiments)."""
    nothing = ContextDropout(probability=0.0)
    return Variation(
        replace(AUGMENTATION, point_dropout=0.0), context=nothing, held_context=nothing
    )


def _training(step: TaskStep, vary: Collection[str]) -> TrainingConfig:
    """How long and how fast; longer where shapes or clutter are made up."""
    harder = not {"shapes", "clutter"}.isdisjoint(vary)
    easy, hard = EASY_STEPS[step.action.holding], HARD_STEPS[step.action.holding]
    return TrainingConfig(steps=hard if harder else easy, schedule=Schedule(peak=4e-3))


def _paper_training() -> TrainingConfig:
    """600 steps, learning rates from 0.005 to 0.001 (appendix on experiments)."""
    schedule = Schedule(peak=5e-3, warmup=0.0, floor=0.2)
    return TrainingConfig(steps=600, batch=1, schedule=schedule, averaging=0.0)


def _negatives(types: Sequence[int], paper: bool) -> Negatives:
    if paper:
        return PaperNegatives()
    return LatticeNegatives(learn_weights=_knows_orientation(types))


def _learned_positions(gripper: Gripper, types: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    """Query points of an empty gripper, in the gripper frame: at the contact point.

    One is enough if its descriptor knows an orientation. Else they lie around the contact point,
    evenly on a sphere.
    """
    contact = gripper.T_gripper_contact
    if _knows_orientation(types):
        return (tuple(contact[:3, 3].tolist()),)
    number = np.arange(_WITHOUT_ORIENTATION)
    z = 1.0 - (2.0 * number + 1.0) / _WITHOUT_ORIENTATION
    angle = number * math.pi * (3.0 - math.sqrt(5.0))
    ring = np.sqrt(1.0 - z**2)
    around = _AROUND * np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=1)
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
