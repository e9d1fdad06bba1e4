"""A camera that is off is measured by the hand that it sees."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful.checks import check_camera
from handful.clouds import Box, Intrinsics, PointCloud, cloud_from_rgbd
from handful.demos import ContactFrame, Gripper, MugShape, gripper_named
from handful.errors import DemoError
from handful.render import box_mesh, look_at, render_rgbd
from handful.viz import hand_mesh, picture_of_camera

HAND = gripper_named("franka-hand")
TABLE = box_mesh((-0.4, -0.4, -0.02), (0.4, 0.4, 0.0), (0.5, 0.5, 0.5))
POSE = np.eye(4)
POSE[:3, :3] = Rotation.from_euler("xz", [160, 40], degrees=True).as_matrix()
POSE[:3, 3] = 0.02, -0.03, 0.35


def seen(with_hand: bool, noise: float) -> PointCloud:
    """A table with a mug, and the hand above it, as one camera sees them."""
    intrinsics = Intrinsics.from_field_of_view(320, 240, np.deg2rad(40.0))
    camera = look_at((0.65, -0.38, 0.6), (0.0, 0.0, 0.2), intrinsics)
    meshes = [TABLE, MugShape().mesh(), *([hand_mesh(HAND).transformed(POSE)] * with_hand)]
    cloud = cloud_from_rgbd(
        [render_rgbd(meshes, camera)], Box((-0.4, -0.4, -0.01), (0.4, 0.4, 0.7))
    )
    jitter = np.random.default_rng(0).normal(0.0, noise, cloud.points.shape)
    return PointCloud(cloud.points + jitter)


def test_a_known_offset_is_found_to_a_millimetre():
    off = np.eye(4)
    off[:3, :3] = Rotation.from_rotvec([0.02, -0.03, 0.025]).as_matrix()
    off[:3, 3] = 0.012, -0.009, 0.011
    cloud = seen(True, noise=0.001).transformed(off)
    found = check_camera(cloud, POSE, HAND)
    assert found.found
    assert found.is_off
    mended = found.correction @ off @ POSE
    contact = HAND.T_gripper_contact[:, 3]
    assert np.linalg.norm((mended - POSE) @ contact) < 0.0015
    assert Rotation.from_matrix(mended[:3, :3].T @ POSE[:3, :3]).magnitude() < np.radians(0.6)
    assert found.offset_error < 0.003
    assert "from where the arm says" in str(found)
    assert picture_of_camera(cloud, found, HAND).size[0] > 400


def test_a_right_camera_is_not_blamed():
    found = check_camera(seen(True, noise=0.002), POSE, HAND)
    assert found.found
    assert not found.is_off
    assert "no more than can be measured" in str(found)


@pytest.mark.parametrize("height", [0.35, 0.18])
def test_a_hand_that_is_not_there_is_not_found(height):
    pose = POSE.copy()
    pose[2, 3] = height
    found = check_camera(seen(False, noise=0.001), pose, HAND)
    assert not found.found
    assert not found.is_off
    assert "not in the cloud" in str(found)


def test_an_empty_place_is_no_hand():
    far = POSE.copy()
    far[:3, 3] = 3.0
    assert not check_camera(seen(False, noise=0.001), far, HAND).found


def test_a_gripper_without_a_shape_is_one_sentence():
    bare = Gripper(ContactFrame((0.0, 0.0, 0.1)), "x", 0.08)
    with pytest.raises(DemoError, match="has no shape"):
        check_camera(seen(False, noise=0.0), POSE, bare)
