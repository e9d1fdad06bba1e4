"""Pick a bottle by its neck and place it upright on a tray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from handful.sim._errors import ObjectRefusedError
from handful.sim.objects import DEFAULT_BOTTLES, UNSEEN_BOTTLES, Pose, Thing
from handful.sim.tasks._episode import Episode
from handful.sim.tasks._grasps import neck_grasps
from handful.sim.tasks._task import Task
from handful.sim.tasks._tray import TRAY_THING, standing_goals, stands_on_tray
from handful.sim.tasks._types import Variant, Verdict


class BottleTask(Task):
    """The paper's bottle pick-and-place task."""

    name = "bottle"
    description = "Place a bottle upright on a tray (handful's simulated world)."

    def trained_things(self) -> Sequence[Thing]:
        """Five bottles."""
        return _trained()

    def unseen_things(self) -> Sequence[Thing]:
        """Ten others."""
        return _unseen()

    def draw_target(self, rng: np.random.Generator) -> Thing:
        """Always the same tray; its pose is what varies."""
        return TRAY_THING

    def grasps(self, thing: Thing, rng: np.random.Generator, variant: Variant) -> Iterator[Pose]:
        """On neck and cap, along the bottle's axis."""
        if thing.neck is None:
            raise ObjectRefusedError(f"{thing.name}: a bottle needs a neck.")
        return neck_grasps(thing.neck, rng)

    def goals(self, episode: Episode, rng: np.random.Generator) -> Iterator[Pose]:
        """Upright over the tray."""
        return standing_goals(episode, rng)

    def well_placed(self, episode: Episode) -> Verdict:
        """It stands on the tray."""
        return stands_on_tray(episode)


@lru_cache(maxsize=1)
def _trained() -> tuple[Thing, ...]:
    return tuple(shape.thing(f"bottle {n}") for n, shape in enumerate(DEFAULT_BOTTLES))


@lru_cache(maxsize=1)
def _unseen() -> tuple[Thing, ...]:
    return tuple(shape.thing(f"unseen bottle {n}") for n, shape in enumerate(UNSEEN_BOTTLES))
