"""Depth images to clouds, checked by projecting known points."""

import numpy as np
import pytest

from handful.clouds import Box, Intrinsics, RgbdView, cloud_from_rgbd
from handful.errors import CloudColorError, CloudShapeError, EmptyCloudError, GeometryError

CAMERA = Intrinsics(fx=100.0, fy=120.0, cx=15.5, cy=11.5, width=32, height=24)


def look_down(height: float) -> np.ndarray:
    """A camera above the origin whose optical axis points down: x right, y towards -y."""
    pose = np.eye(4)
    pose[:3, :3] = np.diag([1.0, -1.0, -1.0])
    pose[2, 3] = height
    return pose


def flat_view(distance: float = 0.5, color: bool = True, kind: type = np.float32) -> RgbdView:
    depth = np.full((24, 32), distance)
    depth = (depth * 1000).round() if kind is np.uint16 else depth
    image = np.zeros((24, 32, 3), np.uint8)
    image[..., 0] = np.arange(32)
    return RgbdView(depth.astype(kind), image if color else None, CAMERA, look_down(distance))


def test_every_pixel_projects_back_to_itself():
    rng = np.random.default_rng(0)
    depth = rng.uniform(0.3, 0.6, (24, 32))
    pose = look_down(0.5)
    cloud = cloud_from_rgbd(RgbdView(depth, None, CAMERA, pose))
    in_camera = cloud.transformed(np.linalg.inv(pose)).points
    column = in_camera[:, 0] / in_camera[:, 2] * CAMERA.fx + CAMERA.cx
    row = in_camera[:, 1] / in_camera[:, 2] * CAMERA.fy + CAMERA.cy
    np.testing.assert_allclose(column, np.tile(np.arange(32), 24), atol=1e-4)
    np.testing.assert_allclose(row, np.repeat(np.arange(24), 32), atol=1e-4)
    np.testing.assert_allclose(in_camera[:, 2], depth.ravel(), rtol=1e-6)


def test_a_table_seen_from_above_is_flat_at_zero():
    cloud = cloud_from_rgbd(flat_view())
    np.testing.assert_allclose(cloud.points[:, 2], 0.0, atol=1e-7)
    right_of_image = cloud.require_colors()[:, 0] * 255 > 16
    assert (cloud.points[right_of_image, 0] > 0).all()


def test_metres_and_millimetres_agree():
    one, other = cloud_from_rgbd(flat_view()), cloud_from_rgbd(flat_view(kind=np.uint16))
    np.testing.assert_allclose(one.points, other.points, atol=1e-6)


@pytest.mark.parametrize("nothing", [0.0, np.nan, np.inf, -0.4])
def test_invalid_depth_is_left_out(nothing):
    view = flat_view()
    view.depth[5, 7] = nothing
    assert len(cloud_from_rgbd(view)) == 24 * 32 - 1


def test_cameras_are_fused_in_the_scene_frame_and_cropped():
    views = [flat_view(0.5), flat_view(0.7)]
    fused = cloud_from_rgbd(views)
    assert len(fused) == 2 * 24 * 32
    np.testing.assert_allclose(fused.points[:, 2], 0.0, atol=1e-6)
    workspace = Box((-0.02, -0.02, -0.1), (0.02, 0.02, 0.1))
    cropped = cloud_from_rgbd(views, workspace)
    assert 0 < len(cropped) < len(fused)
    assert workspace.contains(cropped.points).all()


def test_a_camera_that_saw_nothing_does_not_matter():
    blind = RgbdView(np.zeros((24, 32)), np.zeros((24, 32, 3), np.uint8), CAMERA, np.eye(4))
    assert len(cloud_from_rgbd([blind, flat_view()])) == 24 * 32


def test_a_camera_that_saw_two_pixels_does_not_matter():
    """Neighbouring pixels are less than a millimetre apart, which no cloud by itself may be."""
    depth = np.zeros((24, 32))
    depth[0, :2] = 0.05
    glimpse = RgbdView(depth, np.zeros((24, 32, 3), np.uint8), CAMERA, look_down(0.05))
    assert len(cloud_from_rgbd([glimpse, flat_view()])) == 24 * 32 + 2


@pytest.mark.parametrize("pose", [look_down(1.0).astype(int), look_down(1.0)[::-1][::-1]])
def test_a_pose_may_be_any_array_of_numbers(pose):
    cloud = cloud_from_rgbd(RgbdView(np.full((24, 32), 1.0), None, CAMERA, pose))
    np.testing.assert_allclose(cloud.points[:, 2], 0.0, atol=1e-7)


def test_nothing_seen_is_an_error():
    blind = RgbdView(np.zeros((24, 32)), None, CAMERA, np.eye(4))
    with pytest.raises(EmptyCloudError, match="none of 1 depth images"):
        cloud_from_rgbd(blind)
    with pytest.raises(EmptyCloudError, match="workspace"):
        cloud_from_rgbd(flat_view(), Box((5, 5, 5), (6, 6, 6)))
    with pytest.raises(EmptyCloudError, match="at least one view"):
        cloud_from_rgbd([])


def test_mixed_colour_is_refused():
    with pytest.raises(CloudColorError, match="1 of 2"):
        cloud_from_rgbd([flat_view(), flat_view(color=False)])


def test_wrong_images_are_refused():
    good = flat_view()
    with pytest.raises(CloudShapeError, match="intrinsics say"):
        RgbdView(good.depth[:-1], None, CAMERA, np.eye(4))
    with pytest.raises(CloudShapeError, match="uint16 millimetres"):
        RgbdView(good.depth.astype(np.int32), None, CAMERA, np.eye(4))
    with pytest.raises(CloudShapeError, match="need uint8"):
        RgbdView(good.depth, np.zeros((24, 32, 3)), CAMERA, np.eye(4))
    for channels in ((), (1,), (4,)):
        with pytest.raises(CloudShapeError, match="need uint8"):
            RgbdView(good.depth, np.zeros((24, 32, *channels), np.uint8), CAMERA, np.eye(4))
    with pytest.raises(GeometryError):
        RgbdView(good.depth, None, CAMERA, np.diag([1.0, 1.0, -1.0, 1.0]))
    with pytest.raises(GeometryError):
        RgbdView(good.depth, None, CAMERA, np.full((4, 4), np.nan))


@pytest.mark.parametrize("change", [{"fx": 0.0}, {"fy": np.nan}, {"cx": np.inf}, {"width": 0}])
def test_intrinsics_are_checked(change):
    values = {"fx": 1.0, "fy": 1.0, "cx": 0.0, "cy": 0.0, "width": 4, "height": 4} | change
    with pytest.raises(CloudShapeError, match="needs"):
        Intrinsics(**values)


def test_field_of_view_is_what_the_image_spans():
    camera = Intrinsics.from_field_of_view(640, 480, vertical=np.deg2rad(60))
    assert 2 * np.arctan(240 / camera.fy) == pytest.approx(np.deg2rad(60))
    assert camera.cx == 319.5
