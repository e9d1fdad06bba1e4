"""Lens distortion: what a lens bends is straightened again, exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful.clouds import Intrinsics, RgbdView, cloud_from_rgbd
from handful.errors import CloudShapeError, GeometryError
from handful.render import Camera

REALSENSE = (0.061, -0.142, 0.0009, -0.0006, 0.043)
STRONG = (-0.31, 0.11, 0.002, -0.001, -0.018)
"""A cheap wide lens: lines at the edge of the image are bent by dozens of pixels."""


def camera(distortion, width=64, height=48) -> Intrinsics:
    return Intrinsics(50.0, 52.0, 30.5, 24.5, width, height, distortion)


def bent_by_hand(x: float, y: float, lens) -> tuple[float, float]:
    """The model as OpenCV's documentation prints it, for one direction."""
    k1, k2, p1, p2, k3 = lens
    r2 = x**2 + y**2
    radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    return (
        x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x**2),
        y * radial + p1 * (r2 + 2 * y**2) + 2 * p2 * x * y,
    )


def all_pixels(view: Intrinsics) -> tuple[np.ndarray, np.ndarray]:
    row, column = np.mgrid[: view.height, : view.width]
    return column.reshape(-1), row.reshape(-1)


@pytest.mark.parametrize("lens", [REALSENSE, STRONG])
def test_projection_follows_the_printed_model(lens):
    view = camera(lens)
    points = np.random.default_rng(0).uniform([-0.4, -0.3, 0.8], [0.4, 0.3, 1.2], (20, 3))
    for point, (column, row) in zip(points, view.project(points), strict=True):
        x, y = bent_by_hand(point[0] / point[2], point[1] / point[2], lens)
        assert (column, row) == pytest.approx((50.0 * x + 30.5, 52.0 * y + 24.5))


@given(
    k1=st.floats(-0.2, 0.2), k2=st.floats(-0.05, 0.1), p1=st.floats(-0.005, 0.005),
    p2=st.floats(-0.005, 0.005), k3=st.floats(0.0, 0.02),
)  # fmt: skip
def test_every_pixel_projects_back_to_itself(k1, k2, p1, p2, k3):
    view = camera((k1, k2, p1, p2, k3))
    column, row = all_pixels(view)
    ray = view.rays(column, row)
    back = view.project(np.concatenate([ray, np.ones((len(ray), 1))], axis=1))
    np.testing.assert_allclose(back, np.stack([column, row], axis=1), atol=1e-6)


def test_no_distortion_and_zeros_are_the_same():
    column, row = all_pixels(camera(()))
    plain, zeros = camera(()).rays(column, row), camera((0.0,) * 5).rays(column, row)
    np.testing.assert_array_equal(plain, zeros)


def test_a_wall_seen_through_a_lens_is_flat_and_as_large_as_it_is():
    """Depth is along the axis, so that a wall is one depth; its edges are bent in the image."""
    lens = camera(STRONG)
    column, row = all_pixels(lens)
    ray = lens.rays(column, row)
    inside = (np.abs(ray) < 0.3).all(axis=1)
    depth = np.zeros(48 * 64)
    depth[inside] = 1.0
    cloud = cloud_from_rgbd(RgbdView(depth.reshape(48, 64), None, lens, np.eye(4)))
    np.testing.assert_allclose(cloud.points[:, 2], 1.0)
    np.testing.assert_allclose(cloud.extent[:2], 0.6, atol=0.04)
    wrong = cloud_from_rgbd(RgbdView(depth.reshape(48, 64), None, camera(()), np.eye(4)))
    assert np.abs(wrong.extent[:2] - 0.6).min() > 0.02


@pytest.mark.parametrize(
    ("distortion", "told"),
    [
        ((0.1, 0.2), "has 2 numbers: need the five"),
        ((-3.0, 0.0, 0.0, 0.0, 0.0), "folds the image of 64 x 48"),
        ((float("nan"), 0.0, 0.0, 0.0, 0.0), "finite numbers"),
    ],
)
def test_a_lens_that_cannot_be_is_refused(distortion, told):
    with pytest.raises(CloudShapeError, match=told):
        camera(distortion)


def test_pictures_are_not_drawn_through_a_lens():
    with pytest.raises(GeometryError, match="without a lens"):
        Camera(camera(STRONG), np.eye(4))
