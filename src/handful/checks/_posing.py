"""One step whose pose a person is moving: what is wrong with it now, within milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from handful.checks._limits import Measure
from handful.checks._measure import fresh_measures_of
from handful.checks._recorded import Shown, Surface, thinned_points
from handful.checks._report import told_amount
from handful.clouds import PointCloud
from handful.demos import Action, Gripper


@dataclass(frozen=True, eq=False)
class PosedStep:
    """A step with its clouds thinned once, to be measured at many poses.

    Attributes:
        scene: Of the scene cloud, scene frame.
        grasp: Of what the gripper holds, gripper frame, or None.
        action: What the gripper does.
    """

    scene: Surface
    grasp: Surface | None
    action: Action

    @classmethod
    def of(cls, scene: PointCloud, grasp: PointCloud | None, action: Action) -> PosedStep:
        """Thin the clouds of a step.

        Args:
            scene: Scene cloud, scene frame.
            grasp: What the gripper holds, gripper frame, or None.
            action: What the gripper does.
        """
        held = None if grasp is None else Surface(thinned_points(grasp))
        return cls(Surface(thinned_points(scene)), held, action)

    def changed(self, grasp: PointCloud | None, action: Action) -> PosedStep:
        """The same scene with something else in the gripper."""
        held = None if grasp is None else Surface(thinned_points(grasp))
        return replace(self, grasp=held, action=action)

    def measures(
        self, T_scene_gripper: Float[np.ndarray, "4 4"], gripper: Gripper, thorough: bool = True
    ) -> tuple[Measure, ...]:
        """The measures of one pose.

        Args:
            T_scene_gripper: The pose.
            gripper: What is there.
            thorough: Look at the approach and for the hand in the scene, too.
        """
        held = self.grasp if self.action.holding else None
        shown = Shown("", "", self.action.holding, self.scene, held, T_scene_gripper[None])
        return fresh_measures_of(shown, gripper, None, thorough)

    def told(
        self, T_scene_gripper: Float[np.ndarray, "4 4"], gripper: Gripper, thorough: bool = True
    ) -> list[tuple[Measure, str]]:
        """The measures of one pose, the worst first, each with its amount in words."""
        found = self.measures(T_scene_gripper, gripper, thorough)
        ranked = sorted(found, key=lambda one: (not one.wrong, not one.doubtful, -one.cost))
        return [(one, told_amount(one)) for one in ranked]
