"""Pick a bottle by its neck and place it upright on a tray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from handful.sim._errors import ObjectRefusedError
from handful.sim.objects import DEFAULT_BOTTLES, UNSEEN_BOTTLES, Pose, Thing
from handful.sim.tasks._grasps import neck_grasps
from handful.sim.tasks._tray import OnTray
from handful.sim.tasks._types import Variant


class BottleOnTray(OnTray):
    """A bottle goes on a tray, as in the paper."""

    kind = "bottle"

    def trained_things(self) -> Sequence[Thing]:
        """Five bottles."""
        return _trained()

    def unseen_things(self) -> Sequence[Thing]:
        """Ten others."""
        return _unseen()

    def grasps(
        self, thing: Thing, rng: np.random.Generator, variant: Variant
    ) -> Sequence[Iterator[Pose]]:
        """On neck and cap, along the bottle's axis."""
        if thing.neck is None:
            raise ObjectRefusedError(f"{thing.name}: a bottle needs a neck.")
        return (neck_grasps(thing.neck, rng),)


@lru_cache(maxsize=1)
def _trained() -> tuple[Thing, ...]:
    return tuple(shape.thing(f"bottle {n}") for n, shape in enumerate(DEFAULT_BOTTLES))


@lru_cache(maxsize=1)
def _unseen() -> tuple[Thing, ...]:
    return tuple(shape.thing(f"unseen bottle {n}") for n, shape in enumerate(UNSEEN_BOTTLES))
