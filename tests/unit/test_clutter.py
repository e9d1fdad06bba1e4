"""Shapes that are put into training scenes."""

import numpy as np
import pytest

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.learning.variation import Clutter
from handful.learning.variation._clutter import _SURFACES
from samples import small_cloud

TARGET = np.array([0.02, 0.0, 0.03])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_scene_stays_and_shapes_keep_their_distance():
    scene, clutter = small_cloud(count=300), Clutter(4)
    counts = set()
    for seed in range(60):
        after = clutter.apply(scene, TARGET, rng(seed))
        np.testing.assert_array_equal(after.points[:300], scene.points)
        np.testing.assert_array_equal(after.require_colors()[:300], scene.require_colors())
        added = after.points[300:]
        counts.add(len(added) == 0)
        if len(added):
            distance = np.linalg.norm(added - TARGET, axis=1)
            assert distance.min() > clutter.gap - 1e-6
            colors = after.require_colors()[300:]
            assert 1 <= len(np.unique(colors, axis=0)) <= 8
            assert colors.min() >= 0
            assert colors.max() <= 1
    assert counts == {True, False}


def one_shape(scene: PointCloud, **options) -> list[PointCloud]:
    """Single shapes, far from a target that is nowhere near."""
    far, seen = np.array([3.0, 0.0, 0.0]), []
    for seed in range(60):
        after = Clutter(1, **options).apply(scene, far, rng(seed))
        if len(after) > len(scene):
            seen.append(after.selected(np.arange(len(scene), len(after))))
    assert len(seen) > 10
    return seen


def test_shapes_stand_at_the_surfaces_of_the_scene_and_have_the_stated_size():
    scene = small_cloud(count=40)
    reaches = []
    for shape in one_shape(scene, smallest=0.01, largest=0.04):
        low, high = shape.bounds
        middle = (low + high) / 2.0
        assert np.linalg.norm(scene.points - middle, axis=1).min() < 0.07
        reaches.append(np.linalg.norm(shape.points - middle, axis=1).max())
    assert min(reaches) > 0.01
    assert max(reaches) < 1.1 * np.sqrt(3) * 0.04
    smaller = one_shape(scene, smallest=0.005, largest=0.006)
    assert max(np.ptp(shape.points, axis=0).max() for shape in smaller) < 2 * np.sqrt(3) * 0.006


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_shapes_have_one_colour_or_two(share):
    shapes = one_shape(small_cloud(count=40), two_colors=share)
    colors = [len(np.unique(shape.require_colors(), axis=0)) for shape in shapes]
    assert set(colors) <= {1, 2}
    assert np.mean(colors) == pytest.approx(1.0 + share, abs=0.1)


def test_the_same_seed_gives_the_same_clutter_and_no_shapes_give_the_scene():
    scene = small_cloud(count=100)
    first, again = (Clutter(3).apply(scene, TARGET, rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first.points, again.points)
    assert Clutter().apply(scene, TARGET, rng(1)) is scene


def ball_around_target(radius=0.03, count=800):
    points = rng(5).normal(size=(count, 3))
    points *= radius / np.linalg.norm(points, axis=1, keepdims=True)
    return PointCloud(points + TARGET, np.full((count, 3), 0.5, dtype=np.float32))


def test_a_floor_is_flat_and_what_is_on_it_is_seen_from_above():
    scene = ball_around_target()
    clutter = Clutter(0, floor=1.0, floor_gaps=(0.02, 0.04))
    heights = []
    for seed in range(30):
        after = clutter.apply(scene, TARGET, rng(seed))
        is_floor = ~np.isin(after.points[:, 0], scene.points[:, 0])
        if not is_floor.any():
            continue
        floor = after.points[is_floor].astype(np.float64)
        middle = floor.mean(axis=0)
        spread, axes = np.linalg.eigh(np.cov((floor - middle).T))
        assert spread[0] < 1e-9
        down = axes[:, 0] * np.sign((middle - TARGET) @ axes[:, 0])
        gap = (middle - TARGET) @ down
        assert 0.02 - 1e-3 < gap < 0.04 + 1e-3
        depth = (after.points[~is_floor] - TARGET) @ down
        assert depth.max() < gap + 1e-4
        heights.append(np.quantile(depth / 0.03, [0.0, 0.99]))
    top, bottom = np.mean(heights, axis=0)
    assert len(heights) > 20
    assert top < -0.9, "the top of a ball is seen"
    assert bottom < 0.9, "its underside is not"


def test_there_is_no_floor_where_none_is_allowed():
    scene, clutter = ball_around_target(), Clutter(0, floor=1.0)
    assert clutter.apply(scene, TARGET, rng(), floor=False) is scene
    assert len(clutter.apply(scene, TARGET, rng())) > 0.5 * len(scene)
    shapes = Clutter(9, floor=1.0).apply(scene, TARGET, rng(1), floor=False)
    np.testing.assert_array_equal(shapes.points[: len(scene)], scene.points)


def test_clouds_without_colours_stay_without():
    bare = PointCloud(small_cloud(count=100).points)
    assert not Clutter(9, floor=1.0).apply(bare, TARGET, rng(3)).has_colors


@pytest.mark.parametrize("surface", _SURFACES)
def test_surfaces_fill_the_unit_box_and_nothing_inside(surface):
    points = surface(4000, rng())
    np.testing.assert_allclose(points.max(axis=0), 1.0, atol=0.05)
    np.testing.assert_allclose(points.min(axis=0), -1.0, atol=0.05)
    assert np.abs(points).max() <= 1.0 + 1e-9
    assert np.linalg.norm(points, axis=1).min() > 0.3, "a surface has nothing near the middle"


@pytest.mark.parametrize(
    "wrong",
    [
        {"most": -1},
        {"smallest": 0.0},
        {"smallest": 0.2},
        {"gap": -0.1},
        {"two_colors": 2.0},
        {"floor": 1.5},
        {"floor_gaps": (0.08, 0.02)},
        {"floor_gaps": (0.02, float("nan"))},
        {"largest": float("nan")},
    ],
)
def test_impossible_clutter_is_refused(wrong):
    with pytest.raises(OptionError, match="Clutter"):
        Clutter(**wrong)
