"""Pick a bowl by its rim and place it on a tray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from handful.sim._errors import ObjectRefusedError
from handful.sim.objects import DEFAULT_BOWL, UNSEEN_BOWLS, Pose, Thing
from handful.sim.tasks._grasps import rim_grasps
from handful.sim.tasks._tray import OnTray
from handful.sim.tasks._types import Variant


class BowlOnTray(OnTray):
    """A bowl goes on a tray, as in the paper."""

    kind = "bowl"

    def trained_things(self) -> Sequence[Thing]:
        """One bowl."""
        return _trained()

    def unseen_things(self) -> Sequence[Thing]:
        """Ten others."""
        return _unseen()

    def grasps(
        self, thing: Thing, rng: np.random.Generator, variant: Variant
    ) -> Sequence[Iterator[Pose]]:
        """On the rim."""
        if thing.rim is None:
            raise ObjectRefusedError(f"{thing.name}: a bowl needs a rim.")
        return (rim_grasps(thing.rim, rng, low_variance=variant is Variant.LOWVAR),)


@lru_cache(maxsize=1)
def _trained() -> tuple[Thing, ...]:
    return (DEFAULT_BOWL.thing(),)


@lru_cache(maxsize=1)
def _unseen() -> tuple[Thing, ...]:
    return tuple(shape.thing(f"bowl {n}") for n, shape in enumerate(UNSEEN_BOWLS))
