"""Demonstrations of hanging a mug, seen by virtual depth cameras; no physics, no noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from handful._checks import check_seed, whole_number
from handful.clouds import Box, Intrinsics, PointCloud, cloud_from_rgbd
from handful.demos._gripper import ContactFrame, Gripper, HandBox, HandShape
from handful.demos._task import Action
from handful.demos._types import Demonstration, DemoSet, Step
from handful.demos.synthetic._poses import TIP, Layout, hanging_pose, random_layout, rim_grasp
from handful.demos.synthetic._shapes import HangerShape, MugShape, table_mesh
from handful.render import Camera, ColoredMesh, gripper_mesh, look_at, render_rgbd

WORKSPACE = Box((-0.3, -0.3, -0.001), (0.3, 0.3, 0.45))
"""What is kept of a scene, in the scene frame, metres."""

HAND_SPACE = Box((-0.2, -0.2, -0.05), (0.2, 0.2, 0.35))
"""What is kept of a grasp, in the gripper frame, metres."""

GRIPPER = Gripper(
    contact=ContactFrame((0.0, 0.0, TIP - 0.005)),
    axis="x",
    opening=0.08,
    shape=HandShape(
        (
            HandBox((0.0, 0.0, 0.0), (0.06, 0.06, 0.04)),
            HandBox((0.0, 0.0, 0.0425), (0.124, 0.056, 0.045)),
            HandBox((0.0445, 0.0, 0.1075), (0.009, 0.022, 0.085), side=1),
            HandBox((-0.0445, 0.0, 0.1075), (0.009, 0.022, 0.085), side=-1),
        )
    ),
)
"""What `gripper_mesh(TIP, 0.08)` looks like; a box stands around its round wrist."""

_CLOSED_PLAY = 0.003
"""Metres by which closed fingers are wider apart than a wall is thick, for the wall is curved."""

DESCRIPTION = "Hang a mug on a hanger by its handle (made by handful, seen by virtual cameras)."


def make_sample(
    count: int = 10,
    seed: int = 0,
    mug: MugShape | None = None,
    hanger: HangerShape | None = None,
) -> DemoSet:
    """Demonstrations of picking a mug by its rim and hanging it on a hanger by its handle.

    The mug stands upright; its place and yaw and those of the hanger are random. The clouds are
    exact (no noise) and hold only what the cameras can see: three around the table for scenes, six
    around the hand for grasps. The first demonstrations of a larger set are those of a smaller one.

    Args:
        count: Number of demonstrations, 1 to 1000.
        seed: The same seed gives the same bytes.
        mug: Shape of the mug.
        hanger: Shape of the hanger.

    Raises:
        OptionError: `count` or `seed` is out of range.
        DemoError: The hanger's arm does not fit into the mug's handle.
    """
    count, seed = whole_number("count", count, 1, 1000), check_seed(seed)
    mug, hanger = mug or MugShape(), hanger or HangerShape()
    open_hand = see_hand([gripper_mesh(TIP, GRIPPER.opening)])
    demonstrations = []
    for index in range(count):
        layout = random_layout(np.random.default_rng([seed, index]), hanger)
        steps = (_pick_step(layout, mug, hanger, open_hand), _place_step(layout, mug, hanger))
        demonstrations.append(Demonstration(f"demo_{index:02d}", steps))
    return DemoSet(tuple(demonstrations), GRIPPER, DESCRIPTION)


def see_scene(meshes: Sequence[ColoredMesh]) -> PointCloud:
    """What three cameras around the table see in the workspace; scene frame."""
    intrinsics = Intrinsics.from_field_of_view(256, 192, np.deg2rad(48.0))
    cameras = [
        look_at(_around(0.85, azimuth, 42.0, (0.0, 0.0, 0.0)), (0.0, 0.0, 0.06), intrinsics)
        for azimuth in (-30.0, 90.0, 210.0)
    ]
    return _seen(meshes, cameras, WORKSPACE)


def see_hand(meshes: Sequence[ColoredMesh]) -> PointCloud:
    """What six cameras around the hand see of it and of what it holds; gripper frame."""
    intrinsics = Intrinsics.from_field_of_view(240, 180, np.deg2rad(38.0))
    middle = (0.0, 0.0, 0.14)
    cameras = [
        look_at(_around(0.55, 60.0 * number, 35.0 * (-1) ** number, middle), middle, intrinsics)
        for number in range(6)
    ]
    return _seen(meshes, cameras, HAND_SPACE)


def _pick_step(layout: Layout, mug: MugShape, hanger: HangerShape, open_hand: PointCloud) -> Step:
    scene = [
        table_mesh(),
        hanger.mesh().transformed(layout.T_scene_hanger),
        mug.mesh().transformed(layout.T_scene_mug),
    ]
    target = layout.T_scene_mug @ rim_grasp(mug, layout.rim_angle, layout.depth)
    return Step("pick", Action.PICK, see_scene(scene), target, open_hand)


def _place_step(layout: Layout, mug: MugShape, hanger: HangerShape) -> Step:
    T_mug_gripper = rim_grasp(mug, layout.rim_angle, layout.depth)
    closed = gripper_mesh(TIP, mug.wall + _CLOSED_PLAY)
    hand = see_hand([closed, mug.mesh().transformed(np.linalg.inv(T_mug_gripper))])
    scene = see_scene([table_mesh(), hanger.mesh().transformed(layout.T_scene_hanger)])
    target = layout.T_scene_hanger @ hanging_pose(mug, hanger) @ T_mug_gripper
    return Step("place", Action.PLACE, scene, target, hand)


def _seen(meshes: Sequence[ColoredMesh], cameras: Sequence[Camera], kept: Box) -> PointCloud:
    return cloud_from_rgbd([render_rgbd(meshes, camera) for camera in cameras], kept)


def _around(
    distance: float, azimuth: float, elevation: float, middle: tuple[float, float, float]
) -> Float[np.ndarray, "3"]:
    """A point at `distance` metres from `middle`; angles in degrees."""
    turn, rise = np.deg2rad(azimuth), np.deg2rad(elevation)
    direction = [np.cos(turn) * np.cos(rise), np.sin(turn) * np.cos(rise), np.sin(rise)]
    return np.asarray(middle) + distance * np.array(direction)
