"""A picture of demonstrations, to check at a glance what was recorded."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from PIL import Image

from handful.clouds import Intrinsics, PointCloud, voxel_filter
from handful.demos import Action, DemoSet, Gripper, Step
from handful.errors import OptionError
from handful.render import (
    Camera,
    PictureStyle,
    beside,
    best_view,
    draw_picture,
    frame_meshes,
    orbit,
    tile,
)
from handful.viz._hand import hand_length, hand_mesh, hand_points, held_width
from handful.viz._interest import above_table, across, closeness, near, thinned, weighted_mean
from handful.viz._views import moved

VIEW = (400, 340)
"""Width and height of the picture of a scene, pixels."""

STRIP = (140, 340)
"""Width and height of the picture of a grasp cloud beside it, pixels."""

_FIELD_OF_VIEW = 0.6
"""Vertical, radians; narrow, so that near things do not look too large."""

_STRIP_FIELD_OF_VIEW = 1.0

MOST_TARGETS = 24
"""Target poses of one step that are drawn; more would hide the scene."""
_LONGEST_TITLE = 160
"""Characters of a description above the picture."""

_CONTEXT = (1.15, 1.4)
"""What is shown reaches from its middle this many lengths of the hand: at least, at most."""

_SKETCH_COLOR = (0.18, 0.40, 0.88)

_FAINT = 0.3
"""Opacity of the described hand over the grasp cloud: the two should agree."""

_XRAY = PictureStyle(hidden_opacity=0.65)


def picture_of_demos(
    demos: DemoSet, max_demos: int = 10, voxel: float | None = None
) -> Image.Image:
    """One panel per demonstration and step: the scene with the gripper at its target.

    The grasp cloud is drawn where the target pose puts it, and by itself, with the axes of the
    gripper frame, beside the scene. Without one, the hand is drawn see-through, as it was
    described.

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
        gripper: The hand; it is drawn where there is no grasp cloud.
        voxel: See `picture_of_demos`.
    """
    scene, grasp = step.scene, step.grasp
    if voxel is not None:
        scene = voxel_filter(scene, voxel)
        grasp = None if grasp is None else voxel_filter(grasp, voxel)
    targets = step.targets[:MOST_TARGETS]
    held = [] if grasp is None else [grasp.transformed(target) for target in targets]
    sketch = hand_mesh(gripper, _SKETCH_COLOR, opacity=0.55)
    sketches = [] if held else [sketch.transformed(target) for target in targets]
    T_scene_contact = step.targets[0] @ gripper.T_gripper_contact
    hand = thinned(held[0].points) if held else moved(hand_points(gripper), step.targets[0])
    # Open fingers show best side by side; a hand that holds something, beside what it holds.
    axis = T_scene_contact[:3, 2 if step.action.holding else 0]
    camera = _camera(scene, hand, T_scene_contact, hand_length(gripper), axis)
    picture = draw_picture([scene, *held], sketches, camera, caption=_scene_caption(step))
    if grasp is None:
        return picture
    return beside([picture, _picture_of_grasp(grasp, gripper, step.action)])


def _camera(
    scene: PointCloud,
    hand: Float[np.ndarray, "hand 3"],
    T_scene_contact: Float[np.ndarray, "4 4"],
    length: float,
    axis: Float[np.ndarray, "3"],
) -> Camera:
    """The view across `axis` that best shows the hand, what it is at, and where the two meet.

    Args:
        scene: Scene cloud.
        hand: Points of the hand and of what it holds, in the scene, metres.
        T_scene_contact: The contact frame in the scene.
        length: Of the hand, metres.
        axis: Unit vector in the scene.
    """
    contact = T_scene_contact[:3, 3]
    size = float(np.linalg.norm(scene.extent))
    shortest, longest = (min(share * length, 0.6 * size) for share in _CONTEXT)
    around = near(scene.points, contact, 3.0 * longest)
    things = above_table(around) & (np.linalg.norm(around - contact, axis=1) < longest)
    touched = things * closeness(around, hand, 0.1 * longest)
    touching = closeness(hand, around[things], 0.1 * longest)
    both = np.concatenate([around, hand])
    middle = (hand.min(axis=0) + hand.max(axis=0)) / 2
    meeting = weighted_mean(both, np.concatenate([touched, touching]), middle)
    center = (contact + meeting) / 2
    radius = 1.03 * np.clip(np.linalg.norm(hand - center, axis=1).max(), shortest, longest)
    cameras = orbit(center, radius, Intrinsics.from_field_of_view(*VIEW, _FIELD_OF_VIEW))
    of_scene = np.column_stack([things, touched])
    of_hand = np.column_stack([np.ones(len(hand)), touching])
    interest = np.zeros((len(both), 4))
    interest[: len(around), :2], interest[len(around) :, 2:] = of_scene, of_hand
    return best_view(both, interest, across(cameras, axis, 0.6))


def _picture_of_grasp(grasp: PointCloud, gripper: Gripper, action: Action) -> Image.Image:
    """The grasp cloud, the described hand and the gripper's axes; the approach points downwards."""
    T_contact_gripper = np.linalg.inv(gripper.T_gripper_contact)
    upside = grasp.transformed(T_contact_gripper)
    corners = np.stack([*upside.bounds, T_contact_gripper[:3, 3]]).astype(np.float64)
    low, high = corners.min(axis=0), corners.max(axis=0)
    wide = float(np.linalg.norm((high - low)[:2]))
    radius = 0.53 * max(wide, float(high[2] - low[2]) * STRIP[0] / STRIP[1])
    intrinsics = Intrinsics.from_field_of_view(*STRIP, _STRIP_FIELD_OF_VIEW)
    cameras = orbit((low + high) / 2, radius, intrinsics, elevations=(0.3,), up=(0.0, 0.0, -1.0))
    camera = best_view(upside.points, np.ones((len(upside), 1)), cameras)
    axes = [
        mesh.recolored(mesh.color, opacity=0.95)
        for mesh in frame_meshes(
            T_contact_gripper, size=min(0.35 * hand_length(gripper), 0.7 * radius)
        )
    ]
    width = held_width(gripper, grasp) if action.holding else None
    hand = hand_mesh(gripper, _SKETCH_COLOR, _FAINT, width).transformed(T_contact_gripper)
    return draw_picture([upside], [hand, *axes], camera, _XRAY, caption=f"grasp {len(grasp):,}")


def _scene_caption(step: Step) -> str:
    text = f"scene {len(step.scene):,} points"
    return text + (f", {len(step.targets)} targets" if len(step.targets) > 1 else "")


def _title(demos: DemoSet, shown: int) -> str:
    number = f"{shown} of {len(demos)}" if shown < len(demos) else f"{len(demos)}"
    plural = "" if len(demos) == 1 else "s"
    return f"{number} demonstration{plural}" + (
        f": {_one_line(demos.description)}" if demos.description else ""
    )


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_TITLE else f"{words[: _LONGEST_TITLE - 3]}..."
