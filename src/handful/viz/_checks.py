"""Pictures of what the checks found: the hand in the cloud, with what is wrong marked."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from PIL import Image

from handful.checks import CameraCheck, Check, CheckReport, Problem
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
    for problem in _shown(report):
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
    wrong = hand_mesh(gripper, _WRONG, 0.55).transformed(found.T_scene_gripper)
    hands = [wrong]
    if found.found:
        hands.append(hand_mesh(gripper, _FINE, 0.65).transformed(found.T_scene_found))
    pose = found.T_scene_found if found.found else found.T_scene_gripper
    whole = view_of_scene(cloud, pose[None], gripper, PANEL)
    near = view_of_pose(cloud, pose, gripper, size=PANEL)
    panels = [draw_picture([drawable(cloud, view)], hands, view, _SEE_THROUGH)
              for view in (whole, near)]  # fmt: skip
    captions = ["Red: where the arm says", "Green: where the cloud has it" if found.found else ""]
    return tile(panels, 2, captions, str(found))


def _shown(report: CheckReport) -> list[Problem]:
    """The worst problems, at most one of each step and check."""
    return list(report.problems[:_MOST])


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
        if scene.has_colors != held.has_colors:
            clouds = [cloud.without_colors() for cloud in clouds]
    return draw_picture(clouds, [hand, *marks], camera, _SEE_THROUGH)


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
