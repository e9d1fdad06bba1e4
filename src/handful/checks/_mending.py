"""Undoing mistakes: a demonstration set as it would be without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.checks._recorded import Recorded, Shown
from handful.demos import ContactFrame, Gripper

Mend = Callable[[Recorded], Recorded]
Poses = Float[np.ndarray, "targets 4 4"]


def in_each(change: Callable[[Shown], Shown]) -> Mend:
    def mend(one: Recorded) -> Recorded:
        return replace(one, demos=tuple(tuple(change(s) for s in demo) for demo in one.demos))

    return mend


def in_poses(change: Callable[[Poses], Poses]) -> Mend:
    return in_each(lambda shown: shown.with_poses(change(shown.targets)))


def reordered(T: Poses, order: tuple[int, ...]) -> Poses:
    """Poses whose quaternions, written x, y, z, w, are taken in another order."""
    found = T.copy()
    quats = Rotation.from_matrix(T[:, :3, :3]).as_quat()[:, list(order)]
    found[:, :3, :3] = Rotation.from_quat(quats).as_matrix()
    return found


def transposed(T: Poses) -> Poses:
    found = T.copy()
    found[:, :3, :3] = np.swapaxes(T[:, :3, :3], 1, 2)
    return found


def scaled(T: Poses, factor: float) -> Poses:
    found = T.copy()
    found[:, :3, 3] *= factor
    return found


def in_gripper_frame(motion: Float[np.ndarray, "4 4"], with_grasp: bool) -> Mend:
    """Take poses as those of a gripper frame that is moved in the true one, T_true_described."""
    back = np.linalg.inv(motion)

    def change(shown: Shown) -> Shown:
        grasp = shown.grasp
        if with_grasp and grasp is not None:
            grasp = grasp.moved(back)
        return replace(shown, targets=shown.targets @ motion, grasp=grasp)

    return in_each(change)


def clouds_exchanged(shown: Shown) -> Shown:
    if shown.grasp is None:
        return shown
    return replace(shown, scene=shown.grasp, grasp=shown.scene)


def grasp_from_scene(shown: Shown) -> Shown:
    if shown.grasp is None:
        return shown
    return replace(shown, grasp=shown.grasp.moved(np.linalg.inv(shown.targets[0])))


def scene_moved(shown: Shown, T: Float[np.ndarray, "4 4"]) -> Shown:
    return replace(shown, scene=shown.scene.moved(T))


def scene_scaled(shown: Shown, factor: float) -> Shown:
    return replace(shown, scene=shown.scene.scaled(factor))


def grasp_scaled(shown: Shown, factor: float) -> Shown:
    return shown if shown.grasp is None else replace(shown, grasp=shown.grasp.scaled(factor))


def grasp_from_before(one: Recorded) -> Recorded:
    def changed(demo: tuple[Shown, ...]) -> tuple[Shown, ...]:
        found = [demo[0]]
        for before, shown in pairwise(demo):
            if shown.grasp is not None and shown.holding and not before.holding:
                back = np.linalg.inv(before.targets[0])
                shown = replace(shown, grasp=shown.grasp.moved(back))
            found.append(shown)
        return tuple(found)

    return replace(one, demos=tuple(changed(demo) for demo in one.demos))


def poses_exchanged(one: Recorded) -> Recorded:
    """Exchange the poses of the first and second step, of the third and fourth, and so on."""

    def changed(demo: tuple[Shown, ...]) -> tuple[Shown, ...]:
        found = list(demo)
        for first in range(0, len(demo) - 1, 2):
            found[first] = demo[first].with_poses(demo[first + 1].targets)
            found[first + 1] = demo[first + 1].with_poses(demo[first].targets)
        return tuple(found)

    return replace(one, demos=tuple(changed(demo) for demo in one.demos))


def rolled(shift: int) -> Mend:
    """Give each demonstration the poses of the one `shift` places after it."""

    def mend(one: Recorded) -> Recorded:
        poses = [{shown.step: shown.targets for shown in demo} for demo in one.demos]
        return replace(
            one,
            demos=tuple(
                tuple(
                    shown.with_poses(poses[(i + shift) % len(poses)].get(shown.step, shown.targets))
                    for shown in demo
                )
                for i, demo in enumerate(one.demos)
            ),
        )

    return mend


def with_contact_at(gripper: Gripper, position: Float[np.ndarray, "3"]) -> Gripper:
    """The gripper with its contact point elsewhere; its shape stays."""
    contact = ContactFrame(tuple(position.tolist()), gripper.contact.quat_wxyz)
    return replace(gripper, contact=contact)
