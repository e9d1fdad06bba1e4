"""Pick a mug by its rim and hang it on a hanger by its handle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float

from handful.demos.synthetic import HangerShape
from handful.policy import Verdict
from handful.sim._errors import ObjectRefusedError
from handful.sim._world import World
from handful.sim.objects import (
    DEFAULT_HANGER,
    DEFAULT_MUG,
    UNSEEN_MUGS,
    Pose,
    Thing,
    hanger_thing,
    placed,
    varied_hanger,
)
from handful.sim.tasks._grasps import handle_grasps, rim_grasps
from handful.sim.tasks._pick_and_place import PickAndPlace
from handful.sim.tasks._types import Variant

_UPRIGHT_DRAWS = 75
"""Goals with the mug nearly upright before any turn about the arm is tried."""

_SWING_TIME = 0.8
"""Seconds in which a mug that does not hang falls below the hanger's arm."""


class MugOnHanger(PickAndPlace):
    """A mug is hung on a hanger by its handle, as in the paper."""

    kind = "mug"

    def __init__(self, hanger: HangerShape = DEFAULT_HANGER) -> None:
        self.hanger = hanger

    @cached_property
    def _hanger_thing(self) -> Thing:
        return hanger_thing(self.hanger)

    def trained_things(self) -> Sequence[Thing]:
        """One red mug."""
        return _trained()

    def unseen_things(self) -> Sequence[Thing]:
        """Ten others."""
        return _unseen()

    def draw_target(self, rng: np.random.Generator) -> Thing:
        """Always the same hanger; its pose is what varies."""
        return self._hanger_thing

    def with_other_target(self, seed: int) -> MugOnHanger:
        """With another hanger."""
        return MugOnHanger(varied_hanger(np.random.default_rng(seed)))

    def grasps(
        self, thing: Thing, rng: np.random.Generator, variant: Variant
    ) -> Sequence[Iterator[Pose]]:
        """On the rim; in the mixed variant on the handle every other time, if that can be done."""
        if thing.rim is None or thing.handle is None:
            raise ObjectRefusedError(f"{thing.name}: a mug needs a rim and a handle.")
        rims = rim_grasps(thing.rim, rng, low_variance=variant is Variant.LOWVAR)
        if variant is Variant.MIXED and rng.uniform() < 0.5:
            # A handle that looks away from the robot is out of reach from outside.
            return (handle_grasps(thing.handle, rng), rims)
        return (rims,)

    def goals(self, world: World, rng: np.random.Generator, variant: Variant) -> Iterator[Pose]:
        """The arm through the handle, near its tip: lowering by 3 cm threads it.

        The mug is as upright as that allows, so that the hand comes from above; when that does
        not work, it is turned about the arm by any angle.
        """
        handle = world.item.thing.handle
        assert handle is not None
        hanger, T_scene_hanger = self.hanger, world.target.T_scene_thing
        arm = T_scene_hanger[:3, :3] @ hanger.arm_direction
        up = np.array([0.0, 0.0, 1.0])
        calm = variant is Variant.LOWVAR
        for number in itertools.count():
            # Between square to the arm and flat: both thread, and small holes need the latter.
            through = arm + (0.6 if calm else rng.uniform(0.2, 1.0)) * up
            through /= np.linalg.norm(through)
            along = hanger.arm_length - (0.0155 if calm else rng.uniform(0.013, 0.022))
            spot = (T_scene_hanger @ np.array([*hanger.arm_point(along), 1.0]))[:3]
            axis = (1.0 if calm else float(rng.choice([-1.0, 1.0]))) * handle.axis
            # Leaning a little away from the post.
            lean = -0.1 * float(axis @ handle.axis)
            roll = _upright_roll(through, axis) + rng.normal(lean, 0.04 if calm else 0.2)
            if number >= _UPRIGHT_DRAWS and not calm:
                roll = rng.uniform(-np.pi, np.pi)
            rotation = _turn_onto(through, roll) @ _turn_onto(axis, 0.0).T
            yield placed(spot - rotation @ handle.hole, rotation)

    def holds(self, world: World, T_scene_item: Pose) -> bool:
        """Let go in a rehearsal, it does not swing off the arm's tip, as large cups may."""
        end = world.rehearse(T_scene_item, _SWING_TIME)
        return end is not None and self._hangs(world.item.thing.lowest_at(end))

    def _hangs(self, low: float) -> bool:
        return low >= self.hanger.foot_height + 0.02

    def well_placed(self, world: World) -> Verdict:
        """It hangs: nothing of it is as low as the hanger's foot."""
        low = world.item.thing.lowest_at(world.T_scene_item)
        if not self._hangs(low):
            return Verdict(False, f"the mug does not hang: its lowest point is at {low:.3f} m")
        return Verdict(True, f"the mug hangs {low:.3f} m above the table")


def _upright_roll(through: Float[np.ndarray, "3"], axis: Float[np.ndarray, "3"]) -> float:
    """The turn about `through` that brings the mug's z axis nearest to upwards."""
    mug_up = _turn_onto(axis, 0.0).T @ np.array([0.0, 0.0, 1.0])
    quarter = [_turn_onto(through, turn) @ mug_up for turn in (0.0, np.pi / 2)]
    return float(np.arctan2(quarter[1][2], quarter[0][2]))


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
