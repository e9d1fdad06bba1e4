"""Preparation: clouds as a model sees them, in training and in use alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud, concatenate, principal_frame, voxel_filter
from handful.demos import Gripper, Step
from handful.errors import OptionError

AT_ONCE = 1_000_000
"""Points that are moved at once: double precision takes 24 bytes for each, several times."""


@dataclass(frozen=True)
class Preparation:
    """How clouds are prepared; lengths in metres.

    1. The hand's body is cut out of a grasp cloud, by the described shape of the gripper. What is
       held and the tips of the fingers stay. A network that has seen few bottles takes the flange
       for the bottom of one, and another gripper has another hand.
    2. Every cloud is moved to axes of its own. Voxels and lattices have axes; the answer for a
       scene that is moved as a whole is then the same answer, moved.
    3. Clouds are thinned.

    Attributes:
        scene_voxel: Scene clouds are thinned to this.
        grasp_voxel: Grasp clouds are thinned to this.
    """

    scene_voxel: float = 0.006
    grasp_voxel: float = 0.005

    def __post_init__(self) -> None:
        for name in ("scene_voxel", "grasp_voxel"):
            value = getattr(self, name)
            if not (np.isfinite(value) and 1e-4 <= value <= 1.0):
                raise OptionError(f"preparation {name} is {value}: need metres, 0.0001 to 1.")

    def clouds(
        self,
        scene: PointCloud,
        grasp: PointCloud | None,
        gripper: Gripper,
        own_frames: bool = True,
    ) -> PreparedClouds:
        """The clouds as the model sees them.

        Args:
            scene: Scene cloud, scene frame.
            grasp: What the gripper holds, in the gripper frame, or None.
            gripper: What holds it.
            own_frames: False leaves the clouds where they are, for pictures.
        """
        grasp, T_frame_gripper = self.held(grasp, gripper, own_frames)
        T_frame_scene = _frame_of(scene) if own_frames else np.eye(4)
        scene = voxel_filter(_moved(scene, T_frame_scene), self.scene_voxel)
        return PreparedClouds(scene, grasp, T_frame_scene, T_frame_gripper)

    def held(
        self, grasp: PointCloud | None, gripper: Gripper, own_frames: bool = True
    ) -> tuple[PointCloud | None, Float[np.ndarray, "4 4"]]:
        """The grasp cloud as the model sees it, and T_frame_gripper; see `clouds`."""
        if grasp is None:
            return None, np.eye(4)
        held = without_hand(grasp, gripper)
        T_frame_gripper = principal_frame(held) if own_frames else np.eye(4)
        return voxel_filter(held.transformed(T_frame_gripper), self.grasp_voxel), T_frame_gripper

    def step(self, step: Step, gripper: Gripper) -> Step:
        """A demonstrated step as the model sees it; its grasp cloud is in a frame of its own."""
        clouds = self.clouds(step.scene, step.grasp, gripper)
        targets = clouds.between_frames(step.targets)
        return Step(step.name, step.action, clouds.scene, targets, clouds.grasp)


@dataclass(frozen=True, eq=False)
class PreparedClouds:
    """Clouds in frames of their own.

    Attributes:
        scene: Thinned, in its frame.
        grasp: Without the hand, thinned, in its frame; or None.
        T_frame_scene: From the scene to the scene cloud's own frame.
        T_frame_gripper: From the gripper to the grasp cloud's own frame.
    """

    scene: PointCloud
    grasp: PointCloud | None
    T_frame_scene: Float[np.ndarray, "4 4"]
    T_frame_gripper: Float[np.ndarray, "4 4"]

    def gripper_poses(
        self, found: Float[np.ndarray, "poses 4 4"]
    ) -> Float[np.ndarray, "poses 4 4"]:
        """T_scene_gripper from poses of the grasp cloud's frame in the scene cloud's."""
        return np.linalg.inv(self.T_frame_scene) @ found @ self.T_frame_gripper

    def between_frames(
        self, T_scene_gripper: Float[np.ndarray, "poses 4 4"]
    ) -> Float[np.ndarray, "poses 4 4"]:
        """Poses of the grasp cloud's frame in the scene cloud's from T_scene_gripper."""
        return self.T_frame_scene @ T_scene_gripper @ np.linalg.inv(self.T_frame_gripper)


def _frame_of(scene: PointCloud) -> Float[np.ndarray, "4 4"]:
    """The scene's own frame; from every k-th point where there are millions, to save memory."""
    every = -(-len(scene) // AT_ONCE)
    return principal_frame(scene if every == 1 else scene.selected(np.arange(0, len(scene), every)))


def _moved(scene: PointCloud, T_frame_scene: Float[np.ndarray, "4 4"]) -> PointCloud:
    """The scene in its own frame, moved part by part where there are millions of points."""
    if len(scene) <= AT_ONCE:
        return scene.transformed(T_frame_scene)
    parts = np.array_split(np.arange(len(scene)), -(-len(scene) // AT_ONCE))
    return concatenate([scene.selected(part).transformed(T_frame_scene) for part in parts])


def without_hand(grasp: PointCloud, gripper: Gripper) -> PointCloud:
    """The grasp cloud without the hand's body; whole if hardly anything else is in it."""
    hand = gripper.is_hand(grasp.points)
    return grasp.selected(~hand) if (~hand).sum() >= 2 else grasp
