"""Pick a mug by its rim and hang it on a hanger by its handle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from handful.demos.synthetic import HangerShape
from handful.sim._errors import ObjectRefusedError
from handful.sim.objects import (
    DEFAULT_HANGER,
    DEFAULT_MUG,
    UNSEEN_MUGS,
    Pose,
    Thing,
    hanger_thing,
)
from handful.sim.tasks._episode import Episode, lowest_point
from handful.sim.tasks._grasps import handle_grasps, rim_grasps
from handful.sim.tasks._task import Task
from handful.sim.tasks._types import Variant, Verdict


class MugTask(Task):
    """The paper's mug-hanging task."""

    name = "mug"
    description = "Hang a mug on a hanger by its handle (handful's simulated world)."

    def __init__(self, hanger: HangerShape = DEFAULT_HANGER) -> None:
        self.hanger = hanger
        self._hanger_thing = hanger_thing(hanger)

    def trained_things(self) -> Sequence[Thing]:
        """One red mug."""
        return _trained()

    def unseen_things(self) -> Sequence[Thing]:
        """Ten others."""
        return _unseen()

    def draw_target(self, rng: np.random.Generator) -> Thing:
        """Always the same hanger; its pose is what varies."""
        return self._hanger_thing

    def grasps(self, thing: Thing, rng: np.random.Generator, variant: Variant) -> Iterator[Pose]:
        """On the rim; in the mixed variant on the handle every other time."""
        if thing.rim is None or thing.handle is None:
            raise ObjectRefusedError(f"{thing.name}: a mug needs a rim and a handle.")
        rims = rim_grasps(thing.rim, rng, low_variance=variant is Variant.LOWVAR)
        handles = handle_grasps(thing.handle, rng)
        by_handle = variant is Variant.MIXED and rng.uniform() < 0.5
        while True:
            yield next(handles) if by_handle else next(rims)

    def goals(self, episode: Episode, rng: np.random.Generator) -> Iterator[Pose]:
        """The arm through the handle, near its tip: lowering by 3 cm threads it."""
        world = episode.world
        handle = world.item.thing.handle
        assert handle is not None
        hanger, base = self.hanger, world.target.pose
        arm = base[:3, :3] @ hanger.arm_direction
        up = np.array([0.0, 0.0, 1.0])
        while True:
            # Between square to the arm and flat: both thread, and small holes need the latter.
            through = arm + rng.uniform(0.0, 1.0) * up
            through /= np.linalg.norm(through)
            along = hanger.arm_length - rng.uniform(0.014, 0.034)
            spot = (base @ np.array([*hanger.arm_point(along), 1.0]))[:3]
            axis = float(rng.choice([-1.0, 1.0])) * handle.axis
            roll = rng.uniform(-np.pi, np.pi)
            rotation = _turn_onto(through, roll) @ _turn_onto(axis, 0.0).T
            pose = np.eye(4)
            pose[:3, :3] = rotation
            pose[:3, 3] = spot - rotation @ handle.hole
            yield pose

    def well_placed(self, episode: Episode) -> Verdict:
        """It hangs: nothing of it is as low as the hanger's foot."""
        low = lowest_point(episode.world)
        if low < self.hanger.foot_height + 0.02:
            return Verdict(False, f"the mug does not hang: its lowest point is at {low:.3f} m")
        return Verdict(True, f"the mug hangs {low:.3f} m above the table")


def _turn_onto(axis: Float[np.ndarray, "3"], roll: float) -> Float[np.ndarray, "3 3"]:
    """A rotation whose z column is `axis`, turned about it by `roll`."""
    side = np.cross(axis, np.eye(3)[int(np.abs(axis).argmin())])
    side /= np.linalg.norm(side)
    other = np.cross(axis, side)
    x = np.cos(roll) * side + np.sin(roll) * other
    return np.stack([x, np.cross(axis, x), axis], axis=1)


@lru_cache(maxsize=1)
def _trained() -> tuple[Thing, ...]:
    return (DEFAULT_MUG.thing(),)


@lru_cache(maxsize=1)
def _unseen() -> tuple[Thing, ...]:
    return tuple(shape.thing(f"mug {n}") for n, shape in enumerate(UNSEEN_MUGS))
