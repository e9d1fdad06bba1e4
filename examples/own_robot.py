"""A robot of your own, with its models at the other end of a network.

    handful serve runs/mug --workspace -0.3 -0.3 0 0.3 0.3 0.4
    python examples/own_robot.py --url http://127.0.0.1:8720 --folder out/sample

`MyRobot` is the whole of what you write: five members (`handful.Robot`). `handful.run_task` does
the rest: look, ask, choose a pose that is feasible and sure enough, look ahead, execute. Here the
robot sees recorded clouds and prints its motions; put your camera and arm where the comments say.
"""

import argparse
from pathlib import Path

import numpy as np

import handful
from handful.client import Client
from handful.clouds import Box
from handful.policy import Limits, Motion, Verdict, remote_task


class MyRobot:
    """Sees what was recorded, and says where it goes."""

    def __init__(self, folder: Path) -> None:
        demos = handful.load_demos(folder)
        self.gripper = demos.gripper  # yours: handful.gripper_named(...) or a JSON file
        self._recorded = demos[0].steps
        self._done = 0

    def observe_scene(self) -> handful.PointCloud:
        """Your cameras, without the arm: scene frame, metres, z up."""
        return self._recorded[self._done].scene

    def observe_grasp(self) -> handful.PointCloud:
        """What the gripper holds: gripper frame."""
        return self._recorded[self._done].grasp

    def reach(self, step, T_scene_gripper: np.ndarray) -> Verdict:
        """Your inverse kinematics, for the pose and its pre-pose."""
        near = np.linalg.norm(T_scene_gripper[:3, 3]) < 0.85
        return Verdict(bool(near), "" if near else "out of reach")

    def execute(self, step, motion: Motion) -> Verdict:
        """Your arm: pre-pose, straight to the pose, close or open, straight back."""
        for name in ("T_scene_pre", "T_scene_gripper", "T_scene_retreat"):
            print(f"{step.name}: {name} {np.round(getattr(motion, name)[:3, 3], 3)}")
        self._done += 1
        return Verdict(True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8720")
    parser.add_argument("--folder", type=Path, required=True, help="recorded demonstrations")
    parser.add_argument("--token", default="")
    parser.add_argument("--least-confidence", type=float, default=0.2)
    options = parser.parse_args()
    robot = MyRobot(options.folder)
    limits = Limits(workspace=Box((-0.6, -0.6, -0.05), (0.6, 0.6, 0.6)))
    with Client(options.url, options.token) as client:
        client.wait_until_ready()
        task, predictors = remote_task(client, robot.gripper)
        for record in handful.run_task(
            robot, task, predictors, limits=limits, least_confidence=options.least_confidence
        ):
            print(record.name, "done" if record.ok else f"given up: {record.reason}")


if __name__ == "__main__":
    main()
