"""A cloud's own frame turns with the cloud."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from equivariance import random_object
from handful.clouds import PointCloud, principal_frame


def motion(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    moved = np.eye(4)
    moved[:3, :3] = Rotation.random(random_state=rng).as_matrix()
    moved[:3, 3] = rng.normal(size=3)
    return moved


@pytest.mark.parametrize("seed", range(20))
def test_the_frame_turns_with_the_cloud(seed):
    cloud = random_object(seed)
    cloud = PointCloud(cloud.points, cloud.colors, dtype=np.float64)
    moved = cloud.transformed(motion(seed))
    np.testing.assert_allclose(
        principal_frame(moved) @ motion(seed), principal_frame(cloud), atol=1e-9
    )


def test_the_frame_is_right_handed_and_ordered():
    cloud = random_object(3)
    frame = principal_frame(cloud)
    assert np.linalg.det(frame[:3, :3]) == pytest.approx(1.0)
    spread = cloud.transformed(frame).points.std(axis=0)
    assert spread[0] >= spread[1] >= spread[2]
    np.testing.assert_allclose(cloud.transformed(frame).points.mean(axis=0), 0.0, atol=1e-6)


def test_flat_and_thin_clouds_have_frames_that_turn_with_them():
    """Their points have the same coordinates in the cloud's own frame, wherever the cloud is."""
    line = np.stack([np.linspace(0, 1, 9) ** 2, np.zeros(9), np.zeros(9)], axis=1)
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(4.0) ** 2, np.arange(3.0) ** 3))
    plane = np.stack([x, y, np.zeros(12)], axis=1)
    for points, flat in ((line, 1), (plane, 2)):
        cloud = PointCloud(points * 0.1, dtype=np.float64)
        expected = cloud.transformed(principal_frame(cloud)).points
        np.testing.assert_allclose(expected[:, flat:], 0.0, atol=1e-9)
        assert np.abs(expected[:, :flat]).max(axis=0).min() > 0.01
        for seed in range(5):
            moved = cloud.transformed(motion(seed))
            frame = principal_frame(moved)
            assert np.linalg.det(frame[:3, :3]) == pytest.approx(1.0)
            np.testing.assert_allclose(moved.transformed(frame).points, expected, atol=1e-9)
