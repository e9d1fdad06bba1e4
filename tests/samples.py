"""Small things that several tests need."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from handful.clouds import PointCloud, voxel_filter
from handful.demos import Action, Demonstration, DemoSet, Step, gripper_named, make_sample


def small_cloud(seed: int = 0, count: int = 30, colors: bool = True) -> PointCloud:
    rng = np.random.default_rng(seed)
    rgb = rng.integers(0, 256, (count, 3), dtype=np.uint8) if colors else None
    return PointCloud(rng.uniform(-0.2, 0.2, (count, 3)), rgb)


def pose_at(x: float, y: float, z: float) -> np.ndarray:
    """A gripper looking down at (x, y, z)."""
    pose = np.diag([1.0, -1.0, -1.0, 1.0])
    pose[:3, 3] = x, y, z
    return pose


def small_demos(count: int = 2) -> DemoSet:
    """Random clouds in the shape of demonstrations: quick, and no mug in sight."""
    return DemoSet(
        tuple(
            Demonstration(
                f"demo_{index}",
                (
                    Step(
                        "pick",
                        Action.PICK,
                        small_cloud(index),
                        [pose_at(0.1, 0, 0.2), pose_at(0, 0.1, 0.2)],
                    ),
                    Step(
                        "place",
                        Action.PLACE,
                        small_cloud(9 + index),
                        pose_at(0, 0, 0.3),
                        small_cloud(5, 20),
                    ),
                ),
            )
            for index in range(count)
        ),
        gripper=gripper_named("simulated"),
        description="Random dots.",
    )


@lru_cache
def mug_sample(count: int = 2, seed: int = 0) -> DemoSet:
    """The project's own sample, made once per test process; one begins as two do."""
    if count == 1:
        two = mug_sample(2, seed)
        return replace(two, demonstrations=two.demonstrations[:1])
    return make_sample(count, seed=seed)


@lru_cache
def thin_sample(count: int = 2, seed: int = 0) -> DemoSet:
    """`mug_sample` with a tenth of its points, for trainings that thin clouds anyway."""

    def thin(step: Step) -> Step:
        grasp = None if step.grasp is None else voxel_filter(step.grasp, 0.005)
        return step.changed(scene=voxel_filter(step.scene, 0.007), grasp=grasp)

    whole = mug_sample(count, seed)
    return DemoSet(
        tuple(Demonstration(demo.name, tuple(thin(step) for step in demo.steps)) for demo in whole),
        whole.gripper,
    )
