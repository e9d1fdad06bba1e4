"""Which points of a cloud are whose: the truth, for methods that must be told."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from handful.clouds import PointCloud
from handful.demos import TaskStep
from handful.policy import Segments
from handful.render import surface_points
from handful.sim.objects import Pose, Thing
from handful.sim.tasks import Episode

NEAR = 0.002
"""Metres from a surface to the points that were seen on it."""
SAMPLES = 40_000
"""Points on a surface: they lie a millimetre apart on an object as large as a mug."""
FEWEST = 20
"""Points; where fewer are in sight, everything is taken for the object."""


def true_segments(
    episode: Episode, step: TaskStep, scene: PointCloud, grasp: PointCloud | None
) -> Segments:
    """The points of a step's object and target.

    Args:
        episode: Looked into.
        step: Of its task.
        scene: Scene cloud.
        grasp: Grasp cloud, if the gripper holds the object.
    """
    episode.focus(step)
    world = episode.world
    if grasp is None:
        item = _points_on(scene, world.item.thing, world.T_scene_item)
    else:
        item = _points_on(grasp, world.item.thing, world.T_gripper_item)
    return Segments(item, _points_on(scene, world.target.thing, world.target.T_scene_thing))


def unsegmented(
    episode: Episode, step: TaskStep, scene: PointCloud, grasp: PointCloud | None
) -> Segments:
    """The same without the object: everything that is seen is taken for it, the hand too.

    The arguments are those of `true_segments`.
    """
    target = true_segments(episode, step, scene, grasp).target
    return Segments(scene if grasp is None else grasp, target)


def _points_on(cloud: PointCloud, thing: Thing, pose: Pose) -> PointCloud:
    """The points of a cloud that lie on a thing at a pose; all if hardly any do."""
    surface = _surface(thing) @ pose[:3, :3].T + pose[:3, 3]
    on = cKDTree(surface).query(cloud.points, distance_upper_bound=NEAR)[0] < NEAR
    return cloud.selected(on) if on.sum() >= FEWEST else cloud


def _surface(thing: Thing) -> Float[np.ndarray, "points 3"]:
    return surface_points(np.concatenate([mesh.triangles for mesh in thing.meshes]), SAMPLES)
