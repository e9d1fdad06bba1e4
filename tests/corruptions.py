"""Demonstrations with the usual mistakes in them, each made as a person makes it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud, concatenate
from handful.demos import ContactFrame, Demonstration, DemoSet, Step
from handful.render import surface_points

CAMERA = np.eye(4)
"""T_camera_scene of a camera 85 cm from the table's middle that looks 42 degrees downwards."""
_FORWARD = np.array([-np.cos(0.73), 0.0, -np.sin(0.73)])
_RIGHT = np.array([0.0, 1.0, 0.0])
CAMERA[:3, :3] = np.stack([_RIGHT, np.cross(_FORWARD, _RIGHT), _FORWARD])
CAMERA[:3, 3] = -CAMERA[:3, :3] @ (-0.85 * _FORWARD)


def each(
    demos: DemoSet,
    change: Callable[[Step], Step],
    only: Callable[[int, Step], bool] = lambda number, step: True,
) -> DemoSet:
    """Every step changed that `only` (number of the demonstration, step) says."""
    return replace(
        demos,
        demonstrations=tuple(
            Demonstration(
                demo.name,
                tuple(change(step) if only(number, step) else step for step in demo.steps),
            )
            for number, demo in enumerate(demos)
        ),
    )


def moved(cloud: PointCloud | None, motion: np.ndarray) -> PointCloud | None:
    return None if cloud is None else cloud.transformed(motion)


def motion(rotation: Rotation | None = None, position=(0.0, 0.0, 0.0)) -> np.ndarray:
    found = np.eye(4)
    found[:3, 3] = position
    if rotation is not None:
        found[:3, :3] = rotation.as_matrix()
    return found


def with_rotations(step: Step, change: Callable[[Rotation], Rotation]) -> Step:
    targets = step.targets.copy()
    targets[:, :3, :3] = change(Rotation.from_matrix(targets[:, :3, :3])).as_matrix()
    return step.changed(targets=targets)


def xyzw_read_as_wxyz(step: Step) -> Step:
    """The file has x, y, z, w; its first number is taken for w."""

    def read(rotation: Rotation) -> Rotation:
        w, x, y, z = rotation.as_quat().T
        return Rotation.from_quat(np.stack([x, y, z, w], axis=1))

    return with_rotations(step, read)


def wxyz_read_as_xyzw(step: Step) -> Step:
    """The file has w, x, y, z; its last number is taken for w."""

    def read(rotation: Rotation) -> Rotation:
        x, y, z, w = rotation.as_quat().T
        return Rotation.from_quat(np.stack([w, x, y, z], axis=1))

    return with_rotations(step, read)


def inverted(step: Step) -> Step:
    return step.changed(targets=np.linalg.inv(step.targets))


def other_gripper_frame(demos: DemoSet, T_other_gripper: np.ndarray, grasp: bool = True) -> DemoSet:
    """Poses, and grasp clouds, of another frame of the gripper than the described one."""
    back = np.linalg.inv(T_other_gripper)
    return each(
        demos,
        lambda step: step.changed(
            targets=step.targets @ back,
            grasp=moved(step.grasp, T_other_gripper) if grasp else None,
        ),
    )


def other_contact(demos: DemoSet, longer: float) -> DemoSet:
    """The contact point that much farther from the gripper frame, the shape as it is."""
    contact = demos.gripper.contact
    along = demos.gripper.T_gripper_contact[:3, 2]
    position = tuple((np.array(contact.position) + longer * along).tolist())
    gripper = replace(demos.gripper, contact=ContactFrame(position, contact.quat_wxyz))
    return replace(demos, gripper=gripper)


def at_tool_frame(demos: DemoSet, grasp: bool) -> DemoSet:
    tool = motion(position=-demos.gripper.T_gripper_contact[:3, 3])
    return other_gripper_frame(demos, tool, grasp)


def exchanged_clouds(step: Step) -> Step:
    if step.grasp is None:
        return step
    return step.changed(scene=step.grasp, grasp=step.scene)


def grasp_in_scene(step: Step) -> Step:
    return step.changed(grasp=moved(step.grasp, step.targets[0]))


def grasp_where_taken(demos: DemoSet) -> DemoSet:
    """Grasp clouds cut out of a scene at the pose of the step before."""
    before = {
        (demo.name, after.name): step.targets[0]
        for demo in demos
        for step, after in zip(demo.steps, demo.steps[1:], strict=False)
    }
    return replace(
        demos,
        demonstrations=tuple(
            Demonstration(
                demo.name,
                tuple(
                    step.changed(grasp=moved(step.grasp, before[demo.name, step.name]))
                    if step.action.holding
                    else step
                    for step in demo.steps
                ),
            )
            for demo in demos
        ),
    )


def in_frame(T: np.ndarray, scene: bool = True, poses: bool = True) -> Callable[[Step], Step]:
    """The scene cloud, the poses, or both in another frame."""
    return lambda step: step.changed(
        scene=moved(step.scene, T) if scene else None,
        targets=T @ step.targets if poses else None,
    )


def scaled_poses(factor: float) -> Callable[[Step], Step]:
    def change(step: Step) -> Step:
        targets = step.targets.copy()
        targets[:, :3, 3] *= factor
        return step.changed(targets=targets)

    return change


def poses_of_previous(demos: DemoSet) -> DemoSet:
    """Each scene with the poses of the demonstration before it."""
    return replace(
        demos,
        demonstrations=tuple(
            Demonstration(
                demo.name,
                tuple(
                    step.changed(targets=demos[number - 1].step(step.name).targets)
                    for step in demo.steps
                ),
            )
            for number, demo in enumerate(demos)
        ),
    )


def exchanged_poses(demos: DemoSet) -> DemoSet:
    """The poses of the first and second step exchanged, and so on."""
    return replace(
        demos,
        demonstrations=tuple(
            Demonstration(
                demo.name,
                tuple(
                    step.changed(targets=demo.steps[number ^ 1].targets)
                    for number, step in enumerate(demo.steps)
                ),
            )
            for demo in demos
        ),
    )


def with_hand_in_view(demos: DemoSet) -> DemoSet:
    """Scenes that were recorded when the hand was at the target already."""
    shape = demos.gripper.shape
    triangles = np.concatenate([vertices[faces] for vertices, faces in shape.surfaces()])
    points = surface_points(triangles, 8000)

    def change(step: Step) -> Step:
        hand = PointCloud(points).transformed(step.targets[0])
        return step.changed(scene=concatenate([step.scene.without_colors(), hand]))

    return each(demos, change)


Y_UP = motion(Rotation.from_euler("x", -90, degrees=True))

CORRUPTIONS: dict[str, tuple[str, Callable[[DemoSet], DemoSet]]] = {
    "quaternions x y z w read as w x y z": (
        "quaternion xyzw as wxyz",
        lambda demos: each(demos, xyzw_read_as_wxyz),
    ),
    "quaternions w x y z read as x y z w": (
        "quaternion wxyz as xyzw",
        lambda demos: each(demos, wxyz_read_as_xyzw),
    ),
    "inverse poses": ("inverse pose", lambda demos: each(demos, inverted)),
    "rotations transposed": (
        "rotation inverted",
        lambda demos: each(demos, lambda step: with_rotations(step, Rotation.inv)),
    ),
    "approach along x": (
        "approach along x",
        lambda demos: other_gripper_frame(
            demos, motion(Rotation.from_euler("y", 90, degrees=True))
        ),
    ),
    "approach along -z": (
        "approach along -z",
        lambda demos: other_gripper_frame(
            demos, motion(Rotation.from_euler("x", 180, degrees=True))
        ),
    ),
    "fingers open along the other axis": (
        "fingers open along the other axis",
        lambda demos: other_gripper_frame(
            demos, motion(Rotation.from_euler("z", 90, degrees=True))
        ),
    ),
    "contact 5 cm too long": ("tip too long", lambda demos: other_contact(demos, 0.05)),
    "contact 5 cm too short": ("tip too short", lambda demos: other_contact(demos, -0.05)),
    "poses and grasps of the finger tips": (
        "tip too long",
        lambda demos: at_tool_frame(demos, grasp=True),
    ),
    "poses of the finger tips": ("tip too long", lambda demos: at_tool_frame(demos, grasp=False)),
    "scene and grasp exchanged": (
        "scene and grasp exchanged",
        lambda demos: each(demos, exchanged_clouds, lambda number, step: step.action.holding),
    ),
    "grasp cloud in the scene frame": (
        "grasp in scene frame",
        lambda demos: each(demos, grasp_in_scene, lambda number, step: step.action.holding),
    ),
    "grasp cloud in the scene frame, where taken": ("grasp in scene frame", grasp_where_taken),
    "all in the camera frame": ("camera frame", lambda demos: each(demos, in_frame(CAMERA))),
    "scenes in the camera frame": (
        "scene in camera frame",
        lambda demos: each(demos, in_frame(CAMERA, poses=False)),
    ),
    "poses in the camera frame": (
        "poses in another frame",
        lambda demos: each(demos, in_frame(CAMERA, scene=False)),
    ),
    "all with y up": ("y up", lambda demos: each(demos, in_frame(Y_UP))),
    "scenes with y up": ("scene axes", lambda demos: each(demos, in_frame(Y_UP, poses=False))),
    "poses with y up": ("pose axes", lambda demos: each(demos, in_frame(Y_UP, scene=False))),
    "positions a thousand times too small": (
        "unit of poses",
        lambda demos: each(demos, scaled_poses(0.001)),
    ),
    "poses of the previous demonstration": ("poses of another demonstration", poses_of_previous),
    "poses of two steps exchanged": ("poses of steps exchanged", exchanged_poses),
    "inverse poses in one demonstration": (
        "inverse pose",
        lambda demos: each(demos, inverted, lambda number, step: number == 1),
    ),
    "quaternion order of one kind of step": (
        "quaternion xyzw as wxyz",
        lambda demos: each(demos, xyzw_read_as_wxyz, lambda number, step: not step.action.holding),
    ),
}
"""What a person did, the mistake that should be named, and how it is done."""
