"""Flying pixels are removed and surfaces stay; depth gets the colours of a camera beside it."""

import numpy as np
import pytest

from handful.clouds import (
    Intrinsics,
    RgbdView,
    cloud_from_rgbd,
    registered_view,
    without_flying_pixels,
)
from handful.errors import CloudShapeError
from handful.render import Camera, DepthNoise, box_mesh, render_rgbd

VIEW = Intrinsics(200.0, 200.0, 79.5, 59.5, 160, 120)
LOOK = np.diag([1.0, -1.0, -1.0, 1.0])
LOOK[2, 3] = 0.6


def two_boxes() -> RgbdView:
    """A red box on a grey table, seen from above."""
    table = box_mesh((-0.4, -0.4, -0.02), (0.4, 0.4, 0.0), (0.5, 0.5, 0.5))
    box = box_mesh((-0.05, -0.04, 0.0), (0.05, 0.04, 0.12), (0.9, 0.1, 0.1))
    return render_rgbd([table, box], Camera(VIEW, LOOK))


@pytest.mark.parametrize("slope", [0.0, 0.5, 2.0, 3.5])
@pytest.mark.parametrize("along", [0, 1])
def test_no_pixel_of_a_slanted_plane_is_lost(slope, along):
    """Up to 74 degrees."""
    row, column = np.mgrid[:120, :160]
    ray = ((column - 79.5) / 200.0, (row - 59.5) / 200.0)[along]
    depth = 0.6 / (1.0 - slope * ray)  # z = 0.6 + slope * x
    depth = np.where((depth > 0.2) & (depth < 2.0), depth, 0.0)
    kept = without_flying_pixels(RgbdView(depth, None, VIEW, np.eye(4))).depth
    inside = np.zeros(depth.shape, dtype=bool)
    inside[1:-1, 1:-1] = depth[1:-1, 1:-1] > 0
    steep = np.abs(np.gradient(depth, axis=1 - along)) > 4.0 * depth / 200.0
    assert (kept[inside & ~steep] > 0).mean() > 0.999


def test_flying_pixels_are_removed_and_the_rest_stays():
    clean = two_boxes()
    noise = DepthNoise(sigma=0.0038, edge_drop=0.3, correlated=0.8, flying=0.7)
    noisy = noise.applied(clean, np.random.default_rng(0))
    off = np.abs(noisy.depth - clean.depth)
    flying, good = (noisy.depth > 0) & (off > 0.015), (noisy.depth > 0) & (off < 0.005)
    assert flying.sum() > 100
    kept = without_flying_pixels(noisy).depth > 0
    assert kept[flying].mean() < 0.1
    assert kept[good].mean() > 0.99


def test_a_pixel_alone_is_removed_and_the_corner_of_a_box_is_not():
    depth = np.full((120, 160), 0.8)
    depth[20, 20] = 0.6
    depth[50:70, 60:90] = 0.5
    kept = without_flying_pixels(RgbdView(depth, None, VIEW, np.eye(4))).depth
    assert kept[20, 20] == 0.0
    assert (kept[50:70, 60:90] > 0).all()


def test_millimetres_stay_millimetres():
    depth = np.full((120, 160), 800, dtype=np.uint16)
    depth[5, 5] = 300
    kept = without_flying_pixels(RgbdView(depth, None, VIEW, np.eye(4))).depth
    assert kept.dtype == np.uint16
    assert kept[5, 5] == 0
    assert kept[60, 60] == 800


COLOR = Intrinsics(230.0, 228.0, 101.0, 75.0, 200, 150)
BESIDE = np.eye(4)
BESIDE[:3, 3] = 0.05, 0.0, 0.003


def registered(T_color_depth: np.ndarray = BESIDE) -> RgbdView:
    """Depth from one camera, colour from another that is 5 cm beside it."""
    table = box_mesh((-0.4, -0.4, -0.02), (0.4, 0.4, 0.0), (0.5, 0.5, 0.5))
    box = box_mesh((-0.05, -0.04, 0.0), (0.05, 0.04, 0.12), (0.9, 0.1, 0.1))
    T_scene_color = LOOK @ np.linalg.inv(BESIDE)
    color = render_rgbd([table, box], Camera(COLOR, T_scene_color)).color
    depth = render_rgbd([table, box], Camera(VIEW, LOOK)).metres
    return registered_view(depth, VIEW, color, COLOR, T_color_depth, T_scene_color)


def red_and_high(view: RgbdView) -> tuple[np.ndarray, np.ndarray]:
    cloud = cloud_from_rgbd(view)
    colors = cloud.require_colors()
    return colors[:, 0] > 1.5 * colors[:, 1], cloud.points[:, 2] > 0.004


def test_every_point_has_the_colour_of_what_it_is():
    red, high = red_and_high(registered())
    assert high.sum() > 500
    assert (red == high).mean() > 0.99  # the outermost pixel of an edge may see past it


def test_a_wrong_extrinsic_shows():
    """A control of the test above."""
    red, high = red_and_high(registered(np.eye(4)))
    assert (red == high).mean() < 0.95


def test_what_the_colour_camera_does_not_see_is_left_out():
    """Left of the box is table that the depth camera sees, and the box hides from the other."""
    all_depth, kept = two_boxes().metres, registered().metres
    hidden = (all_depth > 0) & (kept == 0)
    hidden[:, 157:] = hidden[:, :3] = hidden[:3] = hidden[117:] = False
    assert 50 < hidden.sum() < 0.1 * hidden.size
    assert (all_depth[hidden] > 0.55).mean() > 0.95


def test_registered_points_are_where_the_depth_camera_saw_them():
    view = registered()
    np.testing.assert_allclose(view.T_scene_camera, LOOK, atol=1e-12)
    seen = view.metres > 0
    np.testing.assert_array_equal(view.metres[seen], two_boxes().metres[seen])


def test_a_colour_image_of_another_size_is_refused():
    with pytest.raises(CloudShapeError, match=r"need uint8 \(150, 200, 3\)"):
        registered_view(
            np.ones((120, 160)), VIEW, np.zeros((120, 160, 3), np.uint8), COLOR, BESIDE, LOOK
        )
