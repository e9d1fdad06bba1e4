"""A picture of demonstrations, to check at a glance what was recorded."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image
from scipy.spatial import cKDTree

from handful.clouds import Intrinsics, PointCloud, voxel_filter
from handful.demos._types import DemoSet, Gripper, Step
from handful.errors import OptionError
from handful.render import (
    Camera,
    ColoredMesh,
    PictureStyle,
    beside,
    best_view,
    draw_picture,
    frame_meshes,
    gripper_mesh,
    orbit,
    tile,
)

VIEW = (400, 340)
"""Width and height of the picture of a scene, pixels."""

STRIP = (140, 340)
"""Width and height of the picture of a grasp cloud beside it, pixels."""

_FIELD_OF_VIEW = 0.6
"""Vertical, radians; narrow, so that near things do not look too large."""

_STRIP_FIELD_OF_VIEW = 1.0

_CONTEXT = (1.15, 1.4)
"""What is shown reaches from its middle this many gripper lengths: at least, at most."""

_TRIAL_POINTS = 5000
"""Points of a cloud that are enough to choose a view."""

_SKETCH_COLOR = (0.18, 0.40, 0.88)

_XRAY = PictureStyle(hidden_opacity=0.65)


def picture_of_demos(
    demos: DemoSet, max_demos: int = 10, voxel: float | None = None
) -> Image.Image:
    """One panel per demonstration and step: the scene with the gripper at its target.

    The grasp cloud is drawn where the target pose puts it, and by itself, with the axes of the
    gripper frame, beside the scene. Without one, a see-through sketch of the gripper is drawn.

    Args:
        demos: What to draw.
        max_demos: How many demonstrations at most, from the first.
        voxel: Show the clouds after a voxel filter of this size in metres, as a model sees them.
    """
    if max_demos < 1:
        raise OptionError(f"max_demos is {max_demos}: need 1 or more.")
    shown = demos.demonstrations[:max_demos]
    per_demo = max(len(demonstration.steps) for demonstration in shown)
    blank = Image.new("RGB", VIEW, "white")
    panels: list[Image.Image] = []
    captions: list[str] = []
    for demonstration in shown:
        missing = per_demo - len(demonstration.steps)
        panels += [picture_of_step(step, demos.gripper, voxel) for step in demonstration.steps]
        panels += [blank] * missing
        captions += [f"{demonstration.name}: {step.name}" for step in demonstration.steps]
        captions += [""] * missing
    side_by_side = 1 if len(shown) < 4 else 2
    return tile(panels, per_demo * side_by_side, captions, _title(demos, len(shown)))


def picture_of_step(step: Step, gripper: Gripper, voxel: float | None = None) -> Image.Image:
    """The scene of one step with the gripper at its targets, seen from where most shows.

    Args:
        step: What to draw.
        gripper: Its shape, for the size of the view and where there is no grasp cloud.
        voxel: See `picture_of_demos`.
    """
    scene, grasp = step.scene, step.grasp
    if voxel is not None:
        scene = voxel_filter(scene, voxel)
        grasp = None if grasp is None else voxel_filter(grasp, voxel)
    held = [] if grasp is None else [grasp.transformed(target) for target in step.targets]
    sketch = gripper_mesh(gripper.tip, gripper.opening, gripper.axis, _SKETCH_COLOR, opacity=0.55)
    sketches = [] if held else [sketch.transformed(target) for target in step.targets]
    hand = _thinned(held[0].points if held else _sampled(sketches[0]))
    # Open fingers show best side by side; a hand that holds something, beside what it holds.
    column = "xy".index(gripper.axis) if step.name == "pick" else 2
    camera = _camera(scene, hand, step.targets[0], gripper, step.targets[0, :3, column])
    picture = draw_picture([scene, *held], sketches, camera, caption=_scene_caption(step))
    if grasp is None:
        return picture
    return beside([picture, _picture_of_grasp(grasp, gripper)])


def _sampled(mesh: ColoredMesh) -> Float[np.ndarray, "points 3"]:
    """Points on the triangles of a mesh, the same ones each time."""
    share = np.random.default_rng(0).dirichlet(np.ones(3), size=(len(mesh.faces), 20))
    return (share @ mesh.triangles).reshape(-1, 3)


def _thinned(points: Float[np.ndarray, "points 3"]) -> Float[np.ndarray, "some 3"]:
    return points[:: -(-len(points) // _TRIAL_POINTS)].astype(np.float64)


def _camera(
    scene: PointCloud,
    hand: Float[np.ndarray, "hand 3"],
    target: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    axis: Float[np.ndarray, "3"],
) -> Camera:
    """The view across `axis` that best shows the hand, what it is at, and where the two meet."""
    tip = target[:3, 3] + gripper.tip * target[:3, 2]
    size = float(np.linalg.norm(scene.extent))
    shortest, longest = (min(share * gripper.tip, 0.6 * size) for share in _CONTEXT)
    near = np.linalg.norm(scene.points - tip, axis=1) < 3.0 * longest
    around = _thinned(scene.points[near]) if near.any() else np.zeros((0, 3))
    things = _is_thing(around) & (np.linalg.norm(around - tip, axis=1) < longest)
    meeting = _closeness(around, hand, things, 0.1 * longest)
    center = _middle(np.concatenate([around, hand]), meeting, hand, tip)
    radius = 1.03 * np.clip(np.linalg.norm(hand - center, axis=1).max(), shortest, longest)
    interest = np.zeros((len(around) + len(hand), 4))
    interest[: len(around), 0] = things
    interest[: len(around), 1] = meeting[: len(around)]
    interest[len(around) :, 2] = 1.0
    interest[len(around) :, 3] = meeting[len(around) :]
    cameras = orbit(center, radius, Intrinsics.from_field_of_view(*VIEW, _FIELD_OF_VIEW))
    return best_view(np.concatenate([around, hand]), interest, _across(cameras, axis))


def _across(cameras: list[Camera], axis: Float[np.ndarray, "3"]) -> list[Camera]:
    """The cameras that look more across an axis than along it."""
    along = [abs(float(camera.T_scene_camera[:3, 2] @ axis)) for camera in cameras]
    limit = max(0.6, min(along))
    return [camera for camera, share in zip(cameras, along, strict=True) if share <= limit]


def _is_thing(points: Float[np.ndarray, "points 3"]) -> Bool[np.ndarray, "points"]:
    """Which points are not of the table: all but the lowest twentieth of the height."""
    if not len(points):
        return np.zeros(0, dtype=bool)
    low, high = points[:, 2].min(), points[:, 2].max()
    return points[:, 2] > low + 0.05 * (high - low)


def _closeness(
    scene: Float[np.ndarray, "scene 3"],
    hand: Float[np.ndarray, "hand 3"],
    things: Bool[np.ndarray, "scene"],
    length: float,
) -> Float[np.ndarray, "all"]:
    """How close each scene point that is a thing is to the hand, and each hand point to a thing.

    1 where they touch, falling over `length` metres to 0; scene points first.
    """
    if not things.any():
        return np.zeros(len(scene) + len(hand))
    gaps = [cKDTree(hand).query(scene)[0], cKDTree(scene[things]).query(hand)[0]]
    close = np.exp(-((np.concatenate(gaps) / length) ** 2))
    close[: len(scene)] *= things
    return close


def _middle(
    points: Float[np.ndarray, "all 3"],
    meeting: Float[np.ndarray, "all"],
    hand: Float[np.ndarray, "hand 3"],
    tip: Float[np.ndarray, "3"],
) -> Float[np.ndarray, "3"]:
    """Between the finger tips and where hand and scene meet, or the middle of the hand."""
    if meeting.sum() > 1e-6:
        return (tip + meeting @ points / meeting.sum()) / 2
    return (tip + (hand.min(axis=0) + hand.max(axis=0)) / 2) / 2


def _picture_of_grasp(grasp: PointCloud, gripper: Gripper) -> Image.Image:
    """The grasp cloud in the gripper frame, approach (+z) downwards as when a hand reaches down."""
    low, high = (corner.astype(np.float64) for corner in grasp.bounds)
    across = float(np.linalg.norm((high - low)[:2]))
    radius = 0.53 * max(across, float(high[2] - low[2]) * STRIP[0] / STRIP[1])
    intrinsics = Intrinsics.from_field_of_view(*STRIP, _STRIP_FIELD_OF_VIEW)
    cameras = orbit((low + high) / 2, radius, intrinsics, elevations=(0.3,), up=(0.0, 0.0, -1.0))
    camera = best_view(grasp.points, np.ones((len(grasp), 1)), cameras)
    axes = [
        mesh.recolored(mesh.color, opacity=0.95)
        for mesh in frame_meshes(np.eye(4), size=min(0.35 * gripper.tip, 0.7 * radius))
    ]
    return draw_picture([grasp], axes, camera, _XRAY, caption=f"grasp {len(grasp):,}")


def _scene_caption(step: Step) -> str:
    text = f"scene {len(step.scene):,} points"
    return text + (f", {len(step.targets)} targets" if len(step.targets) > 1 else "")


def _title(demos: DemoSet, shown: int) -> str:
    number = f"{shown} of {len(demos)}" if shown < len(demos) else f"{len(demos)}"
    plural = "" if len(demos) == 1 else "s"
    return f"{number} demonstration{plural}" + (
        f": {demos.description}" if demos.description else ""
    )
