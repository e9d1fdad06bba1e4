"""What bowl and bottle share: standing on a tray."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from handful.policy import Verdict
from handful.sim._world import World
from handful.sim.objects import Pose, Thing, TrayShape, varied_tray
from handful.sim.tasks._pick_and_place import PickAndPlace
from handful.sim.tasks._types import Variant

_DROP = 0.0025
"""Metres above the tray where the object is let go."""
UPRIGHT = 0.9
"""Least cosine between the object's axis and upwards."""


class OnTray(PickAndPlace):
    """An object is to stand on a tray."""

    def __init__(self, tray: TrayShape | None = None) -> None:
        self.tray = tray or TrayShape()

    @cached_property
    def _tray_thing(self) -> Thing:
        return self.tray.thing()

    def draw_target(self, rng: np.random.Generator) -> Thing:
        """Always the same tray; its pose is what varies."""
        return self._tray_thing

    def with_other_target(self, seed: int) -> OnTray:
        """With another tray."""
        return type(self)(varied_tray(np.random.default_rng(seed)))

    def goals(self, world: World, rng: np.random.Generator, variant: Variant) -> Iterator[Pose]:
        """Upright over the tray, any way round, with all of its foot on the tray; endless."""
        tray = self.tray
        foot = world.item.thing.vertices
        size = np.linalg.norm(foot[foot[:, 2] < 0.01][:, :2], axis=1).max()
        room = np.maximum(np.array([tray.length, tray.width]) / 2 - tray.edge - size - 0.006, 0.0)
        while True:
            yaw = rng.uniform(-np.pi, np.pi)
            spread = 0.005 if variant is Variant.LOWVAR else 0.04
            spot = rng.uniform(-1.0, 1.0, size=2) * np.minimum(room, spread)
            T_tray_item = np.eye(4)
            T_tray_item[:2, :2] = [[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]]
            T_tray_item[:3, 3] = (*spot, tray.floor + _DROP)
            yield world.target.T_scene_thing @ T_tray_item

    def well_placed(self, world: World) -> Verdict:
        """It stands upright, and over the tray."""
        tray, name = self.tray, world.item.thing.name
        upright = float(world.T_scene_item[2, 2])
        if upright < UPRIGHT:
            angle = np.degrees(np.arccos(np.clip(upright, -1.0, 1.0)))
            return Verdict(
                False,
                f"the {name} does not stand: it is tilted by {angle:.0f} degrees",
            )
        local = np.linalg.inv(world.target.T_scene_thing) @ world.T_scene_item[:, 3]
        if abs(local[0]) > tray.length / 2 or abs(local[1]) > tray.width / 2:
            return Verdict(False, f"the middle of the {name} is not over the tray")
        return Verdict(True, f"the {name} stands on the tray")
