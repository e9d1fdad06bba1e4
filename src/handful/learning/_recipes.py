"""Recipes: which network, which objective and how long, by the name of a preset."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from handful.demos import DemoSet
from handful.errors import OptionError, unknown_name_message
from handful.learning._clutter import Clutter
from handful.learning._crops import ContextDropout
from handful.learning._negatives import LatticeNegatives, Negatives, SampledNegatives
from handful.learning._objectives import DEFAULT_AUGMENTATION, PickObjective, PlaceObjective
from handful.learning._schedule import Schedule
from handful.learning._stretch import Stretch
from handful.learning._trained import SearchConfig
from handful.learning._trainer import TrainingConfig
from handful.models import EncoderConfig, GraspQueryConfig, PickConfig, PlaceConfig

PRESETS = ("fast", "paper")
"""`fast`: minutes on a laptop. `paper`: the paper's Markov chains; hours, for comparison."""

CHANNELS = (16, 8, 4, 4)
"""Channels of each type of a descriptor."""

ALL_TYPES = (0, 1, 2, 3)

VARIATIONS = ("colors", "contrast", "shapes", "sides", "clutter")
"""What training can make up: turned colours, faded colours, stretched shapes, held objects of which
only some sides are seen, things around."""

RECOLORED = 0.8
"""Share of the training scenes whose colours are turned, and of those whose colours fade."""
STRETCHED = 0.25
"""Largest logarithm of the factors by which training scenes are stretched."""
ONE_SIDED = 0.5
"""Share of the training scenes with such held objects."""
FAR_CANDIDATES = 32
"""Points of a stretched object that a place model learns not to look at, in each early step."""
CLUTTERED = 6
"""Most shapes that are put into a training scene."""
NEAR_A_FLOOR = 0.5
"""Share of the pick model's cluttered scenes with a floor near the target, for objects that lie."""

_ABOVE_TIP = 0.005
"""The pick model's query point is so far above the finger tips, metres: between the fingers."""

_WITHOUT_ORIENTATION = 10
"""Query points of a pick model whose descriptors have type 0 only, as in the paper's ablation."""
_AROUND = 0.02
"""They are so far from the one query point that other models have, metres."""


@dataclass(frozen=True)
class Recipe:
    """All that training one model needs besides demonstrations.

    Attributes:
        model: Configuration of the network.
        objective: What is lowered.
        training: How long and how fast.
        search: How the trained model looks for poses.
    """

    model: PickConfig | PlaceConfig
    objective: PickObjective | PlaceObjective
    training: TrainingConfig
    search: SearchConfig = field(default_factory=SearchConfig)

    @property
    def kind(self) -> str:
        """`pick` or `place`."""
        return "pick" if isinstance(self.model, PickConfig) else "place"


def pick_recipe(
    demos: DemoSet,
    *,
    preset: str = "fast",
    types: Sequence[int] = ALL_TYPES,
    vary: Collection[str] = (),
    steps: int | None = None,
    seed: int = 0,
) -> Recipe:
    """The recipe of a pick model.

    Args:
        demos: What it will learn from; colours are used if all clouds have them.
        preset: One of `PRESETS`.
        types: Which types the descriptors hold; (0,) is the paper's ablation.
        vary: Which of `VARIATIONS` training makes up, for a world that differs from the
            demonstrations in them.
        steps: Optimiser steps, instead of the preset's.
        seed: The same seed gives the same model.
    """
    _check_preset(preset)
    encoder = EncoderConfig(radius=0.04, use_colors=_has_colors(demos))
    model = PickConfig(
        encoder,
        descriptor=descriptor_channels(types),
        query_positions=_pick_queries(demos.gripper.tip - _ABOVE_TIP, types),
        learn_positions=False,
    )
    objective = PickObjective(_negatives(preset, types), **_changes(vary))
    if "clutter" in vary:
        clutter = replace(objective.clutter, floor=NEAR_A_FLOOR)
        objective = replace(objective, clutter=clutter, context=_among_clutter(objective.context))
    if preset == "paper":
        return Recipe(model, objective, _paper_training(steps, seed))
    steps = steps or (1200 if _is_harder(vary) else 600)
    training = TrainingConfig(steps=steps, batch=1, schedule=Schedule(peak=4e-3), seed=seed)
    return Recipe(model, objective, training)


def place_recipe(
    demos: DemoSet,
    *,
    preset: str = "fast",
    types: Sequence[int] = ALL_TYPES,
    vary: Collection[str] = (),
    steps: int | None = None,
    seed: int = 0,
) -> Recipe:
    """The recipe of a place model; see `pick_recipe`."""
    _check_preset(preset)
    use_colors = _has_colors(demos)
    model = PlaceConfig(
        EncoderConfig(radius=0.04, use_colors=use_colors),
        EncoderConfig(voxel_size=0.012, radius=0.03, use_colors=use_colors),
        descriptor=descriptor_channels(types),
        # Fewer and longer steps than the paper's hundred: as far in a tenth of the time.
        queries=GraspQueryConfig(count=24, cluster_radius=0.015, steps=10, step_size=0.05),
    )
    objective = PlaceObjective(_negatives(preset, types), **_changes(vary))
    if "sides" in vary:
        objective = replace(objective, one_sided=ONE_SIDED)
    if "shapes" in vary:
        objective = replace(objective, far_candidates=FAR_CANDIDATES)
    if "clutter" in vary:
        objective = replace(objective, context=_among_clutter(objective.context))
    if preset == "paper":
        return Recipe(model, objective, _paper_training(steps, seed))
    steps = steps or (500 if _is_harder(vary) else 300)
    training = TrainingConfig(steps=steps, batch=2, schedule=Schedule(peak=3e-3), seed=seed)
    return Recipe(model, objective, training)


def _negatives(preset: str, types: Sequence[int]) -> Negatives:
    if preset == "paper":
        return SampledNegatives()
    return LatticeNegatives(learn_weights=_knows_orientation(types))


def _pick_queries(height: float, types: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    """Query points between the fingers, `height` metres from the gripper's origin.

    One is enough if its descriptor knows an orientation. Else they lie around, evenly on a sphere.
    """
    if _knows_orientation(types):
        return ((0.0, 0.0, height),)
    number = np.arange(_WITHOUT_ORIENTATION)
    z = 1.0 - (2.0 * number + 1.0) / _WITHOUT_ORIENTATION
    angle = number * math.pi * (3.0 - math.sqrt(5.0))
    ring = np.sqrt(1.0 - z**2)
    around = _AROUND * np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=1)
    around[:, 2] += height
    return tuple(tuple(row) for row in around.tolist())


def _knows_orientation(types: Sequence[int]) -> bool:
    return any(degree > 0 for degree in types)


def _changes(vary: Collection[str]) -> dict[str, Any]:
    """What both objectives change in the demonstrations."""
    for name in vary:
        if name not in VARIATIONS:
            raise OptionError(unknown_name_message("variation", name, VARIATIONS))
    recolor, fade = (RECOLORED if name in vary else 0.0 for name in ("colors", "contrast"))
    return {
        "augmentation": replace(DEFAULT_AUGMENTATION, recolor=recolor, fade=fade),
        "stretch": Stretch(STRETCHED if "shapes" in vary else 0.0),
        "clutter": Clutter(CLUTTERED if "clutter" in vary else 0),
    }


def _among_clutter(context: ContextDropout) -> ContextDropout:
    """Crops that leave enough of the target to tell it from clutter; more of them, to save time."""
    return replace(context, probability=0.8, smallest=0.08, nearest_cut=0.5)


def _is_harder(vary: Collection[str]) -> bool:
    """Whether training has so much to learn that it takes longer."""
    return not {"shapes", "clutter"}.isdisjoint(vary)


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


def _paper_training(steps: int | None, seed: int) -> TrainingConfig:
    """600 steps, learning rates from 0.005 to 0.001 (appendix on experiments)."""
    schedule = Schedule(peak=5e-3, warmup=0.0, floor=0.2)
    return TrainingConfig(steps=steps or 600, batch=1, schedule=schedule, averaging=0.0, seed=seed)


def _check_preset(preset: str) -> None:
    if preset not in PRESETS:
        raise OptionError(unknown_name_message("preset", preset, PRESETS))


def _has_colors(demos: DemoSet) -> bool:
    return all(
        cloud.has_colors
        for demo in demos
        for step in demo.steps
        for cloud in (step.scene, step.grasp)
        if cloud is not None
    )
