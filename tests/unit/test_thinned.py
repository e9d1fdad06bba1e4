"""Thinned clouds and the moments of their surroundings: they turn with the cloud."""

import numpy as np
import pytest
import torch
from torch import Tensor

from equivariance import random_object, random_poses, relative_error
from handful.clouds import NeighbourIndex, PointCloud, voxel_filter
from handful.geometry import spherical_harmonics
from handful.models import ThinnedCloud, local_moments
from handful.models import _thinned as module
from handful.models._thinned import thinned
from handful.nn import Types
from samples import small_cloud

RADIUS = 0.05
TYPES = Types((1, 1, 1))
ROUNDING = 1e-6
"""Moments are float32."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def harmonics(direction: np.ndarray) -> np.ndarray:
    """Degree 2 of a unit vector, of length one."""
    unit = torch.from_numpy(direction)[None]
    return spherical_harmonics(unit, 2, normalize=False, normalization="norm")[0, 4:].numpy()


def moments_at(center: np.ndarray, points: np.ndarray) -> np.ndarray:
    return local_moments(center[None], points, RADIUS)[0].astype(np.float64)


def grid(steps: int, dimensions: int) -> np.ndarray:
    """Midpoints of cells that fill a cube of twice the radius: sums over them are integrals."""
    axis = (np.arange(steps) + 0.5) / steps * 2.0 - 1.0
    return RADIUS * np.stack(np.meshgrid(*[axis] * dimensions), -1).reshape(-1, dimensions)


# --- moments ------------------------------------------------------------------------------------


def test_moments_turn_with_the_cloud():
    points, centers = random_object(0, 200).points, random_object(1, 20).points
    expected = torch.from_numpy(local_moments(centers, points, RADIUS)).double()
    for motion in random_poses(50, 2).numpy():
        turn, shift = motion[:3, :3], motion[:3, 3]
        there = local_moments(centers @ turn.T + shift, points @ turn.T + shift, RADIUS)
        actual, rotation = torch.from_numpy(there).double(), torch.from_numpy(turn)
        assert relative_error(actual, TYPES.rotated(expected, rotation)) < ROUNDING
        assert relative_error(actual, expected) > 1e-2, "the control: not turned"
    assert relative_error(expected * torch.nan, expected) > ROUNDING, "the control: NaN"


def slow_moments(center: np.ndarray, points: np.ndarray) -> Tensor:
    """The definition, point by point."""
    total, sums = 0.0, torch.zeros(9, dtype=torch.float64)
    for point in points:
        u = torch.from_numpy((point - center) / RADIUS)
        square = float(u @ u)
        if square >= 1.0:
            continue
        weight = (1.0 - square) ** 2
        unit = u / max(square**0.5, 1e-300)
        values = spherical_harmonics(unit[None], 2, normalize=False, normalization="norm")[0]
        scaled = values * torch.tensor([1.0] + [square**0.5] * 3 + [square] * 5)
        scaled[0] = square
        total, sums = total + weight, sums + weight * scaled
    return sums / total if total else sums


def test_moments_are_what_their_definition_says():
    points, centers = random_object(3, 150).points, random_object(4, 12).points
    fast = torch.from_numpy(local_moments(centers, points, RADIUS)).double()
    slow = torch.stack([slow_moments(center, points) for center in centers])
    assert relative_error(fast, slow) < ROUNDING


@pytest.mark.parametrize("seed", range(3))
def test_moments_of_a_plane_have_a_closed_form(seed):
    """Mean of t = |u|^2 on a disc with weights (1 - t)^2: B(2, 3) / B(1, 3) = 1/4."""
    turn = random_poses(1, seed)[0, :3, :3].numpy()
    plane = np.pad(grid(120, 2), ((0, 0), (0, 1))) @ turn.T
    found = moments_at(np.zeros(3), plane)
    assert found[0] == pytest.approx(1 / 4, abs=1e-3)
    np.testing.assert_allclose(found[1:4], 0.0, atol=1e-6)
    np.testing.assert_allclose(found[4:], -1 / 8 * harmonics(turn[:, 2].copy()), atol=1e-3)


def test_moments_of_a_plane_beside_the_center_agree_with_an_integral():
    """At height h: t = h^2 + r^2, integrated over s = r^2 from 0 to 1 - h^2."""
    for height in (0.2, 0.5, 0.8):
        plane = np.pad(grid(200, 2), ((0, 0), (0, 1)), constant_values=height * RADIUS)
        found = moments_at(np.zeros(3), plane)
        s = (np.arange(20_000) + 0.5) / 20_000 * (1.0 - height**2)
        weight = (1.0 - height**2 - s) ** 2
        mean = float((weight * s).sum() / weight.sum())
        assert found[0] == pytest.approx(height**2 + mean, abs=2e-3)
        np.testing.assert_allclose(found[1:4], [0.0, 0.0, height], atol=2e-3)
        degree_2 = (height**2 - mean / 2.0) * harmonics(np.array([0.0, 0.0, 1.0]))
        np.testing.assert_allclose(found[4:], degree_2, atol=2e-3)


def test_a_rod_an_edge_and_a_plane_are_told_apart():
    """Closed forms: 1/7 along a rod; at the edge of a plane, degree 1 is 32 / (35 pi) inwards."""
    along = np.array([0.0, 0.6, 0.8])
    rod = moments_at(np.zeros(3), grid(2000, 1) * along)
    assert rod[0] == pytest.approx(1 / 7, abs=1e-3)
    np.testing.assert_allclose(rod[4:], harmonics(along) / 7, atol=1e-3)
    plane = np.pad(grid(200, 2), ((0, 0), (0, 1)))
    half = moments_at(np.zeros(3), plane[plane[:, 0] > 0])
    np.testing.assert_allclose(half[1:4], [32 / (35 * np.pi), 0.0, 0.0], atol=2e-3)
    np.testing.assert_allclose(half[4:], moments_at(np.zeros(3), plane)[4:], atol=2e-3)


def test_points_come_and_go_smoothly_and_the_number_of_points_does_not_matter():
    points = random_object(5, 100, size=0.03).points
    before = moments_at(np.zeros(3), points)
    at_the_edge = np.vstack([points, [[0.0, 0.0, RADIUS * (1 - 1e-4)]]])
    np.testing.assert_allclose(moments_at(np.zeros(3), at_the_edge), before, atol=1e-5)
    np.testing.assert_allclose(moments_at(np.zeros(3), np.tile(points, (3, 1))), before, atol=1e-6)
    beyond = np.vstack([points, [[0.0, 0.0, RADIUS * 1.001]]])
    np.testing.assert_array_equal(moments_at(np.zeros(3), beyond), before)


def test_a_center_with_nothing_around_it_gets_zeros():
    found = local_moments(np.full((2, 3), 9.0), small_cloud().points, RADIUS)
    np.testing.assert_array_equal(found, np.zeros((2, 9)))


def test_many_centers_are_worked_on_in_parts(monkeypatch):
    points = random_object(6, 200).points
    whole = local_moments(points, points, RADIUS)
    monkeypatch.setattr(module, "AT_ONCE", 37)
    np.testing.assert_array_equal(local_moments(points, points, RADIUS), whole)


# --- thinned clouds -----------------------------------------------------------------------------


def test_moments_are_those_of_the_whole_cloud():
    cloud = PointCloud(rng().uniform(-0.1, 0.1, (3000, 3)))
    few = thinned(cloud, 0.03, RADIUS)
    np.testing.assert_array_equal(few.points, voxel_filter(cloud, 0.03).points)
    np.testing.assert_array_equal(few.moments, local_moments(few.points, cloud.points, RADIUS))
    own = local_moments(few.points, few.points, RADIUS)
    assert np.abs(few.moments - own).max() > 1e-2, "the control: of the thinned cloud"


def test_nothing_is_thinned_and_nothing_computed_unasked():
    cloud = small_cloud()
    assert thinned(cloud, None, 0.0).cloud is cloud
    assert thinned(cloud, None, 0.0).moments is None
    assert thinned(cloud, 0.05, 0.0).moments is None
    assert len(thinned(cloud, None, RADIUS)) == len(cloud)


def test_selected_points_keep_their_moments():
    few = thinned(small_cloud(count=100), None, RADIUS)
    which = np.array([5, 3, 90])
    some = few.selected(which)
    np.testing.assert_array_equal(some.points, few.points[which])
    np.testing.assert_array_equal(some.moments, few.moments[which])
    mask = few.points[:, 0] > 0
    np.testing.assert_array_equal(few.selected(mask).moments, few.moments[mask])
    assert ThinnedCloud(small_cloud(count=100)).selected(which).moments is None
    assert NeighbourIndex(some.points).distance(few.points[which]).max() == 0
