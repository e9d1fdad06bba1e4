"""Pictures of what the checks found: the hand in the cloud, with what is wrong marked."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from PIL import Image

from handful.checks import CameraCheck, Check, CheckReport
from handful.clouds import PointCloud
from handful.demos import DemoSet, Gripper, Step
from handful.render import PictureStyle, arrow_mesh, ball_mesh, draw_picture, tile
from handful.viz._hand import hand_mesh, held_width
from handful.viz._views import PANEL, view_of_pose, view_of_scene
from handful.viz._visible import drawable

_WRONG, _DOUBTFUL, _FINE = (0.85, 0.12, 0.12), (0.93, 0.58, 0.08), (0.16, 0.55, 0.28)
_MOST = 4
"""Panels at most."""
_FAR = 0.25
"""Metres from which on the whole scene is shown, and not the surroundings of the hand."""
_SEE_THROUGH = PictureStyle(hidden_opacity=0.6)


def picture_of_check(demos: DemoSet, report: CheckReport) -> Image.Image:
    """The worst problems, one panel each; where there is none, the first demonstration.

    The hand is red where something is wrong, orange where it is doubtful and green where all is
    well. Scene points inside of the hand are red. A red ball is at the contact point, and an arrow
    leads from it to the nearest scene point where there is nothing between the fingers.

    Args:
        demos: What was checked.
        report: What was found.
    """
    panels: list[Image.Image] = []
    captions: list[str] = []
    for problem in report.problems[:_MOST]:
        name = problem.worst.demo or demos[0].name
        demo = next(one for one in demos if one.name == name)
        step = demo.step(problem.step or demo.steps[0].name)
        color = _WRONG if problem.wrong else _DOUBTFUL
        panels.append(_panel(step, demos.gripper, problem.worst.target, color, problem.check))
        captions.append(f"{name}, {step.name}: {problem.check.value}")
    if not panels:
        for step in demos[0].steps[:_MOST]:
            panels.append(_panel(step, demos.gripper, 0, _FINE, None))
            captions.append(f"{demos[0].name}, {step.name}: nothing wrong")
    return tile(panels, 2, captions, report.verdict)


def picture_of_camera(cloud: PointCloud, found: CameraCheck, gripper: Gripper) -> Image.Image:
    """The cloud with the hand where the arm says, in red, and where it was found, in green.

    Args:
        cloud: What was checked.
        found: What was found.
        gripper: The hand, with the width of its fingers.
    """
    there = found.T_scene_found if found.found else None
    panels = _two_hands(cloud, gripper, None, found.T_scene_gripper, there)
    captions = ["Red: where the arm says", "Green: where the cloud has it" if found.found else ""]
    return tile(panels, 2, captions, str(found))


def picture_of_answer(
    step: Step, gripper: Gripper, T_scene_gripper: Float[np.ndarray, "4 4"]
) -> Image.Image:
    """A step with a model's answer in red and the demonstrated pose in green.

    Args:
        step: With one or more targets; the first is drawn.
        gripper: The hand.
        T_scene_gripper: The answer.
    """
    held = step.grasp if step.action.holding else None
    return tile(_two_hands(step.scene, gripper, held, T_scene_gripper, step.targets[0]), 2)


def _two_hands(
    cloud: PointCloud,
    gripper: Gripper,
    held: PointCloud | None,
    red: Float[np.ndarray, "4 4"],
    green: Float[np.ndarray, "4 4"] | None,
) -> list[Image.Image]:
    """The whole cloud and what is near the red hand; what is held is drawn there."""
    width = None if held is None else held_width(gripper, held)
    hands = [hand_mesh(gripper, _WRONG, 0.55, width).transformed(red)]
    poses = [red]
    if green is not None:
        hands.append(hand_mesh(gripper, _FINE, 0.65, width).transformed(green))
        poses.append(green)
    clouds = [] if held is None else [held.transformed(red)]
    views = [
        view_of_scene(cloud, np.stack(poses), gripper, PANEL),
        view_of_pose(cloud, red, gripper, held, size=PANEL),
    ]
    return [
        draw_picture(_alike([drawable(cloud, view), *clouds]), hands, view, _SEE_THROUGH)
        for view in views
    ]


def _alike(clouds: list[PointCloud]) -> list[PointCloud]:
    """Clouds with colours, or all without, where some have none."""
    if all(cloud.has_colors for cloud in clouds):
        return clouds
    return [cloud.without_colors() for cloud in clouds]


def _panel(
    step: Step,
    gripper: Gripper,
    target: int,
    color: tuple[float, float, float],
    check: Check | None,
) -> Image.Image:
    pose = step.targets[target]
    held = step.grasp if step.action.holding else None
    width = None if held is None else held_width(gripper, held)
    hand = hand_mesh(gripper, color, 0.6, width).transformed(pose)
    contact = (pose @ gripper.T_gripper_contact)[:3, 3]
    gap = step.scene.points - contact
    nearest = step.scene.points[np.einsum("ij,ij->i", gap, gap).argmin()].astype(np.float64)
    marks = [ball_mesh(contact, 0.006, color, 0.95)]
    if check is Check.CONTACT and np.linalg.norm(nearest - contact) > 0.01:
        marks.append(arrow_mesh(contact, nearest, color).recolored(color, 0.95))
    if np.linalg.norm(nearest - contact) > _FAR:
        camera = view_of_scene(step.scene, pose[None], gripper, PANEL)
        scene = drawable(step.scene, camera)
    else:
        camera = view_of_pose(step.scene, pose, gripper, held, size=PANEL)
        scene = step.scene
    clouds = [_marked(scene, pose, gripper, step.action.holding)]
    if held is not None:
        clouds.append(held.transformed(pose))
    return draw_picture(_alike(clouds), [hand, *marks], camera, _SEE_THROUGH)


def _marked(
    scene: PointCloud, pose: Float[np.ndarray, "4 4"], gripper: Gripper, holding: bool
) -> PointCloud:
    """The scene with the points inside of the hand in red."""
    if gripper.shape is None or not scene.has_colors or holding:
        return scene
    local = (scene.points - pose[:3, 3]) @ pose[:3, :3]
    inside = gripper.shape.contains(local.astype(np.float64), -0.002)
    colors = scene.require_colors().copy()
    colors[inside] = _WRONG
    return PointCloud(scene.points, colors)
