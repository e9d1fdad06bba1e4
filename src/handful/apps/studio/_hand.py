"""The gripper on a stage: a gizmo at its contact point, the hand, and what it holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from handful.apps.studio._stage import Stage
from handful.clouds import PointCloud, voxel_filter
from handful.demos import Gripper
from handful.render import Color
from handful.viz import hand_mesh

Pose = Float[np.ndarray, "4 4"]

FINE: Color = (0.25, 0.62, 0.36)
DOUBTFUL: Color = (0.93, 0.66, 0.16)
WRONG: Color = (0.84, 0.25, 0.22)
CALM: Color = (0.16, 0.42, 0.93)
OPACITY = 0.82
GIZMO = 0.11
"""Length of the gizmo's arrows, metres."""
MOST_HELD = 20_000
"""Points of what is held that are shown."""


class Hand:
    """A gripper that is drawn at a pose, and may be dragged.

    Args:
        stage: Where.
        name: Of the hand among the stage's things.
    """

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage, self._name = stage, name
        self._gripper: Gripper | None = None
        self._look: tuple[float | None, Color, float] = (None, CALM, OPACITY)
        self._held: PointCloud | None = None

    def show(
        self,
        T_scene_gripper: Pose,
        gripper: Gripper,
        *,
        width: float | None = None,
        color: Color = CALM,
        opacity: float = OPACITY,
        held: PointCloud | None = None,
        on_move: Callable[[Pose], None] | None = None,
    ) -> None:
        """Draw the hand anew.

        Args:
            T_scene_gripper: Where.
            gripper: Which.
            width: Between its fingers, metres; open if not given.
            color: Of the hand.
            opacity: Of the hand.
            held: What it holds, gripper frame.
            on_move: Told the pose of the gripper when people drag it; without it they cannot.
        """
        self.hide()
        self._gripper = gripper
        contact = gripper.T_gripper_contact
        if on_move is None:
            self._stage.group(self._name, T_scene_gripper @ contact)
        else:
            back, move = np.linalg.inv(contact), on_move
            self._stage.gizmo(
                self._name, T_scene_gripper @ contact, GIZMO, lambda pose: move(pose @ back)
            )
        self._held, self._look = None, (width, color, opacity)
        self._draw()
        self.hold(held)

    def place(self, T_scene_gripper: Pose) -> None:
        """Move it."""
        assert self._gripper is not None
        self._stage.place(self._name, T_scene_gripper @ self._gripper.T_gripper_contact)

    def look(self, width: float | None, color: Color, opacity: float = OPACITY) -> None:
        """Another width or colour."""
        if self._gripper is not None and (width, color, opacity) != self._look:
            self._look = (width, color, opacity)
            self._draw()

    def hold(self, held: PointCloud | None) -> None:
        """Hold something else; it moves with the hand."""
        if self._gripper is None or held is self._held:
            return
        self._held = held
        if held is None:
            self._stage.remove(f"{self._name}/held")
            return
        few = held if len(held) <= MOST_HELD else voxel_filter(held, 0.003)
        local = few.transformed(np.linalg.inv(self._gripper.T_gripper_contact))
        self._stage.cloud(f"{self._name}/held", local)

    def hide(self) -> None:
        """Take it away."""
        self._stage.remove(self._name)
        self._gripper, self._held = None, None

    def _draw(self) -> None:
        assert self._gripper is not None
        width, color, opacity = self._look
        mesh = hand_mesh(self._gripper, color, opacity, width)
        local = mesh.transformed(np.linalg.inv(self._gripper.T_gripper_contact))
        self._stage.mesh(f"{self._name}/hand", local)
