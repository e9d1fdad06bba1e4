"""What a predictor answers: gripper poses, the best first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.demos import Gripper
from handful.policy._confidence import SURE_ENOUGH
from handful.policy._motion import PRE_DISTANCE, Motion


@dataclass(frozen=True, eq=False)
class RankedPoses:
    """Poses that a predictor proposes, the best first.

    Attributes:
        T_scene_gripper: Gripper poses [poses, 4, 4].
        energy: E(T) of each; lower is better.
        confidence: Of each, 0 to 1, that the target is there and the pose is on it.
        seconds: Wall-clock time that the answer took.
        gripper: The gripper that the poses are of.
    """

    T_scene_gripper: Float[np.ndarray, "poses 4 4"]
    energy: Float[np.ndarray, "poses"]
    confidence: Float[np.ndarray, "poses"]
    seconds: float
    gripper: Gripper

    @classmethod
    def nothing(cls, gripper: Gripper) -> RankedPoses:
        """No pose at all."""
        return cls(np.zeros((0, 4, 4)), np.zeros(0), np.zeros(0), 0.0, gripper)

    def __len__(self) -> int:
        return len(self.energy)

    def __repr__(self) -> str:
        best = f", the best of confidence {self.confidence[0]:.2f}" if len(self) else ""
        return f"{type(self).__name__}({len(self)} poses{best}, {self.seconds:.2f} s)"

    @property
    def found(self) -> bool:
        """Whether the best pose is one to execute; if not, there is probably no target."""
        return len(self) > 0 and bool(self.confidence[0] >= SURE_ENOUGH)

    def motion(self, index: int, distance: float = PRE_DISTANCE) -> Motion:
        """A pose with the pre-pose and the retreat pose along its approach.

        Args:
            index: Which pose.
            distance: Between the pose and the other two, metres.
        """
        return Motion.along_approach(self.T_scene_gripper[index], self.gripper, distance)

    def chosen(self, numbers: list[int]) -> RankedPoses:
        """Some of the poses, in the order of their numbers."""
        return RankedPoses(
            self.T_scene_gripper[numbers],
            self.energy[numbers],
            self.confidence[numbers],
            self.seconds,
            self.gripper,
        )

    def followed_by(self, more: RankedPoses) -> RankedPoses:
        """These poses and then others; the result is in general not sorted."""
        return RankedPoses(
            np.concatenate([self.T_scene_gripper, more.T_scene_gripper]),
            np.concatenate([self.energy, more.energy]),
            np.concatenate([self.confidence, more.confidence]),
            self.seconds + more.seconds,
            self.gripper,
        )
