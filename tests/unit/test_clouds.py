"""PointCloud at its boundary, and what is derived from it."""

import numpy as np
import pytest

from handful.clouds import Box, PointCloud, concatenate
from handful.errors import (
    CloudColorError,
    CloudError,
    CloudScaleError,
    CloudShapeError,
    EmptyCloudError,
    NonFiniteCloudError,
    OptionError,
)


def random_cloud(count: int = 50, seed: int = 0, colors: bool = True) -> PointCloud:
    rng = np.random.default_rng(seed)
    rgb = rng.integers(0, 256, (count, 3), dtype=np.uint8) if colors else None
    return PointCloud(rng.uniform(-0.3, 0.3, (count, 3)), rgb)


GOOD = np.random.default_rng(1).uniform(-0.2, 0.2, (5, 3))

BAD_CLOUDS = {
    "nothing": ([], None, EmptyCloudError, "empty"),
    "no rows": (np.zeros((0, 3)), None, EmptyCloudError, "empty"),
    "one point": (np.zeros((1, 3)), None, EmptyCloudError, "cloud of 1 usable point"),
    "all NaN": (np.full((4, 3), np.nan), None, EmptyCloudError, "4 of 4 rows hold NaN"),
    "one row left": (np.vstack([GOOD[:1], np.full((3, 3), np.nan)]), None, EmptyCloudError, "NaN"),
    "infinite": (np.vstack([GOOD, [[np.inf, 0, 0]]]), None, NonFiniteCloudError, "1 of 6 points"),
    "two columns": (GOOD[:, :2], None, CloudShapeError, r"shape \(5, 2\): need \[n, 3\]"),
    "flat": (GOOD.ravel(), None, CloudShapeError, "need"),
    "text": ([["a", "b", "c"]] * 3, None, CloudShapeError, "real numbers"),
    "complex": (GOOD + 1j, None, CloudShapeError, "real numbers"),
    "objects": ([[{}, None, 1]] * 3, None, CloudShapeError, "real numbers"),
    "ragged": ([[1, 2, 3], [1, 2]], None, CloudShapeError, "cannot be read"),
    "millimetres": (GOOD * 1000, None, CloudScaleError, r"scale=0\.001"),
    "huge": (GOOD * 1e30, None, CloudScaleError, "at most 20 wide"),
    "far away": (GOOD + 1e6, None, CloudScaleError, "from the origin"),
    "tiny": (GOOD * 1e-6, None, CloudScaleError, "at least 0.001"),
    "one place": (np.ones((9, 3)), None, CloudScaleError, "same one"),
    "colour count": (GOOD, np.zeros((4, 3)), CloudShapeError, "5 points but 4 colours"),
    "colour 0..255 as float": (GOOD, np.full((5, 3), 200.0), CloudColorError, "divide"),
    "negative colour": (GOOD, np.full((5, 3), -0.1), CloudColorError, "colours span"),
    "infinite colour": (GOOD, np.full((5, 3), np.inf), CloudColorError, "colours span"),
    "grey": (GOOD, np.zeros((5, 1)), CloudShapeError, "colors have shape"),
}


@pytest.mark.parametrize("case", BAD_CLOUDS)
def test_bad_cloud_is_a_typed_error_that_says_what_is_wrong(case):
    points, colors, kind, message = BAD_CLOUDS[case]
    with pytest.raises(kind, match=message) as caught:
        PointCloud(points, colors)
    assert isinstance(caught.value, CloudError)


def test_rows_with_nan_are_dropped_and_counted():
    points = GOOD.copy()
    points[1, 2] = np.nan
    colors = np.full((5, 3), 0.5)
    colors[3, 0] = np.nan
    cloud = PointCloud(points, colors)
    assert len(cloud) == 3
    assert cloud.dropped == 2
    np.testing.assert_allclose(cloud.points, GOOD[[0, 2, 4]], rtol=1e-6)


def test_a_cloud_cannot_be_changed():
    cloud = random_cloud()
    with pytest.raises(ValueError, match="read-only"):
        cloud.points[0] = 0.0
    with pytest.raises(AttributeError):
        cloud.points = cloud.points


def test_a_cloud_does_not_follow_the_array_it_was_made_from():
    points = GOOD.astype(np.float32)
    cloud = PointCloud(points)
    points[:] = 7.0
    np.testing.assert_allclose(cloud.points, GOOD, rtol=1e-6)
    points[0] = 1.0  # and the caller's array stays writable


def test_uint8_and_float_colours_mean_the_same():
    rgb = np.array([[0, 128, 255]] * 5, dtype=np.uint8)
    assert np.array_equal(PointCloud(GOOD, rgb).colors, PointCloud(GOOD, rgb / 255.0).colors)


def test_missing_colour_is_explicit():
    cloud = PointCloud(GOOD)
    assert not cloud.has_colors
    with pytest.raises(CloudColorError, match="painted"):
        cloud.require_colors()
    np.testing.assert_allclose(cloud.painted((1.0, 0.5, 0.0)).require_colors()[3], (1.0, 0.5, 0.0))
    assert not cloud.painted((1, 1, 1)).without_colors().has_colors


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_precision_is_the_callers_choice(kind):
    cloud = PointCloud(GOOD, np.zeros((5, 3)), dtype=kind)
    assert cloud.points.dtype == cloud.require_colors().dtype == kind
    assert cloud.transformed(np.eye(4)).points.dtype == kind
    assert cloud.astype(np.float64).points.dtype == np.float64


def test_transform_moves_points_and_keeps_colours():
    cloud = PointCloud(GOOD, np.full((5, 3), 0.25), dtype=np.float64)
    turn = np.array([[0, -1, 0, 0.1], [1, 0, 0, 0.2], [0, 0, 1, 0.3], [0, 0, 0, 1.0]])
    moved = cloud.transformed(turn)
    x, y, z = GOOD.T
    np.testing.assert_allclose(moved.points, np.stack([0.1 - y, 0.2 + x, 0.3 + z], 1), atol=1e-15)
    assert np.array_equal(moved.require_colors(), cloud.require_colors())
    back = moved.transformed(np.linalg.inv(turn))
    np.testing.assert_allclose(back.points, GOOD, atol=1e-15)


def test_crop_keeps_what_is_inside():
    cloud = random_cloud(500)
    box = Box((-0.1, -0.1, -0.1), (0.2, 0.1, 0.3))
    kept = cloud.cropped(box)
    assert 0 < len(kept) < 500
    assert box.contains(kept.points).all()
    assert len(kept) == sum(bool(box.contains(p[None])[0]) for p in cloud.points)


def test_crop_to_nothing_is_an_error():
    with pytest.raises(EmptyCloudError, match="0 usable points"):
        random_cloud().cropped(Box((5, 5, 5), (6, 6, 6)))


@pytest.mark.parametrize(
    ("lower", "upper"), [((0, 0, 0), (1, 0, 1)), ((0, 0, 0), (1, np.nan, 1)), ((1,) * 3, (0,) * 3)]
)
def test_box_needs_an_inside(lower, upper):
    with pytest.raises(CloudShapeError, match="lower < upper"):
        Box(lower, upper)


def test_ball_crop_agrees_with_distance():
    cloud, center = random_cloud(500), np.array([0.05, 0.0, 0.1])
    kept = cloud.within(center, 0.15)
    distance = np.linalg.norm(cloud.points - center, axis=1)
    assert len(kept) == (distance <= 0.15).sum()


def test_subsample_is_seeded_and_without_repetition():
    cloud = random_cloud(200)
    first, again, other = (cloud.subsampled(50, seed) for seed in (3, 3, 4))
    assert np.array_equal(first.points, again.points)
    assert not np.array_equal(first.points, other.points)
    assert len(np.unique(first.points, axis=0)) == 50
    assert cloud.subsampled(500, 0) is cloud


def test_concatenate_keeps_order_and_counts():
    nan_row = PointCloud(np.vstack([GOOD, [[np.nan] * 3]]), np.zeros((6, 3)))
    both = concatenate([random_cloud(10), nan_row])
    assert len(both) == 15
    assert both.dropped == 1
    assert np.array_equal(both.points[10:], nan_row.points)


def test_concatenate_refuses_to_invent_colours():
    with pytest.raises(CloudColorError, match="1 of 2 clouds have colours"):
        concatenate([random_cloud(), random_cloud(colors=False)])
    with pytest.raises(EmptyCloudError, match="at least one"):
        concatenate([])


def test_repr_tells_a_person_what_it_is():
    assert repr(PointCloud(GOOD)).startswith("PointCloud(5 points, 0.")
    assert "no colour" in repr(PointCloud(GOOD))


@pytest.mark.parametrize("count", [1, 0])
def test_fewer_than_two_points_cannot_be_subsampled(count):
    with pytest.raises(EmptyCloudError, match=f"subsampled to {count}"):
        PointCloud(GOOD).subsampled(count, 0)


def test_half_precision_does_not_hold_metres():
    with pytest.raises(OptionError, match=r"need np\.float32"):
        PointCloud(GOOD, dtype=np.float16)
    with pytest.raises(OptionError, match=r"need np\.float32"):
        PointCloud(GOOD).astype(np.float16)


def test_numbers_whose_distance_overflows_are_not_metres():
    with pytest.raises(CloudScaleError, match="1e\\+308 from the origin"):
        PointCloud([[1e308, 0, 0], [-1e308, 0, 0]])


def test_a_box_around_points_holds_them_with_a_margin():
    points = np.array([[0.0, 1.0, 2.0], [0.5, -1.0, 2.5]])
    box = Box.around(points, 0.1)
    np.testing.assert_allclose([box.lower, box.upper], [[-0.1, -1.1, 1.9], [0.6, 1.1, 2.6]])
    assert box.contains(points).all()
