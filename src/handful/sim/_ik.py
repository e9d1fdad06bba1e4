"""Joint angles for gripper poses, by `mink` (differential inverse kinematics with limits)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from handful.sim._arm import HOME, LIMITS, add_arm
from handful.sim._errors import load_extra
from handful.sim.objects import Pose

Joints = Float[np.ndarray, "7"]

POSITION_OK = 1e-3
"""Metres that the gripper may be off."""
ROTATION_OK = 5e-3
"""Radians that it may be turned."""

_STEPS = 60
_STARTS = 7


class ArmSolver:
    """Inverse kinematics of the arm alone; the world it stands in plays no part."""

    def __init__(self) -> None:
        mj, mink = load_extra("mujoco"), load_extra("mink")
        spec = mj.MjSpec()
        spec.compiler.degree = False
        add_arm(spec, (0, 0))
        self._mink, self._model = mink, spec.compile()
        self._configuration = mink.Configuration(self._model)
        self._reach = mink.FrameTask("hand", "body", 1.0, 0.3, lm_damping=1e-3)
        self._rest = mink.PostureTask(self._model, cost=1e-3)
        self._limits = [mink.ConfigurationLimit(self._model)]
        self._hand = self._model.body("hand").id
        rng = np.random.default_rng(7)
        spread = rng.uniform(0.1, 0.9, (_STARTS - 3, 7)) * np.ptp(LIMITS, axis=1) + LIMITS[:, 0]
        left, right = HOME.copy(), HOME.copy()
        left[[0, 6]], right[[0, 6]] = (1.2, -1.5), (-1.2, 2.3)
        self._starts = np.vstack([HOME, left, right, spread])

    def pose(self, joints: Joints) -> Pose:
        """T_scene_gripper of joint angles."""
        self._configuration.update(self._full(joints))
        return self._where()

    def solve(self, target: Pose, near: Joints | None = None) -> Joints | None:
        """Joint angles within limits that bring the gripper to `target`, or None.

        Args:
            target: T_scene_gripper.
            near: Try from here first; then from a fixed set of starts.
        """
        for start in self._starts if near is None else np.vstack([near, self._starts]):
            found = self._descend(target, start)
            if found is not None:
                return found
        return None

    def plan(self, targets: list[Pose], near: Joints | None = None) -> list[Joints] | None:
        """Joint angles along a path from whichever start can go all the way, or None."""
        for start in self._starts if near is None else np.vstack([near, self._starts]):
            first = self._descend(targets[0], start)
            if first is not None and (rest := self.follow(targets[1:], first)) is not None:
                return [first, *rest]
        return None

    def follow(self, targets: list[Pose], start: Joints) -> list[Joints] | None:
        """Joint angles along a path, each near the one before, or None when it leaves the reach."""
        path, here = [], start
        for target in targets:
            found = self._descend(target, here)
            if found is None or np.abs(found - here).max() > 0.6:
                return None
            path.append(found)
            here = found
        return path

    def _descend(self, target: Pose, start: Joints) -> Joints | None:
        configuration, mink = self._configuration, self._mink
        configuration.update(self._full(start))
        self._rest.set_target(self._full(start))
        self._reach.set_target(mink.SE3.from_matrix(target))
        best = np.inf
        for step in range(_STEPS):
            error = self._error(target)
            if error[0] < POSITION_OK / 4 and error[1] < ROTATION_OK / 4:
                break
            # A start that stops getting nearer is in another basin; the next one is cheaper.
            if step % 12 == 11:
                total = error[0] + 0.3 * error[1]
                if total > 0.8 * best:
                    break
                best = total
            velocity = mink.solve_ik(
                configuration, [self._reach, self._rest], 1.0, "daqp", 1e-6, limits=self._limits
            )
            configuration.integrate_inplace(np.clip(velocity, -0.5, 0.5), 1.0)
        joints = np.clip(configuration.q[:7].copy(), LIMITS[:, 0], LIMITS[:, 1])
        configuration.update(self._full(joints))
        error = self._error(target)
        return joints if error[0] < POSITION_OK and error[1] < ROTATION_OK else None

    def _error(self, target: Pose) -> tuple[float, float]:
        here = self._where()
        turn = np.clip((np.trace(here[:3, :3].T @ target[:3, :3]) - 1.0) / 2.0, -1.0, 1.0)
        return float(np.linalg.norm(here[:3, 3] - target[:3, 3])), float(np.arccos(turn))

    def _where(self) -> Pose:
        pose = np.eye(4)
        pose[:3, :3] = self._configuration.data.xmat[self._hand].reshape(3, 3)
        pose[:3, 3] = self._configuration.data.xpos[self._hand]
        return pose

    def _full(self, joints: Joints) -> Any:
        return np.concatenate([joints, np.zeros(self._model.nq - 7)])


@lru_cache(maxsize=1)
def arm_solver() -> ArmSolver:
    """The one solver of this process."""
    return ArmSolver()
