"""The voxel filter and the neighbour search against slow references."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful.clouds import (
    Edges,
    NeighbourIndex,
    PointCloud,
    _voxels,
    radius_graph,
    radius_neighbours,
    voxel_filter,
)
from handful.errors import CloudError, EmptyCloudError, OptionError

seeds = st.integers(0, 2**32 - 1)


def cloud_from(seed: int, count: int) -> PointCloud:
    rng = np.random.default_rng(seed)
    return PointCloud(
        rng.normal(0, 0.1, (count, 3)), rng.uniform(0, 1, (count, 3)), dtype=np.float64
    )


@given(seeds, st.integers(2, 300), st.floats(0.005, 0.5))
def test_voxel_filter_is_barycentre_and_mean_colour_of_each_cell(seed, count, size):
    cloud = cloud_from(seed, count)
    cells: dict[tuple[int, ...], list[int]] = {}
    for index, point in enumerate(cloud.points):
        key = tuple(np.floor((point - cloud.bounds[0]) / size).astype(int))
        cells.setdefault(key, []).append(index)
    if len(cells) < 2:
        return
    filtered = voxel_filter(cloud, size)
    members = [cells[key] for key in sorted(cells)]
    expected = np.array([cloud.points[rows].mean(axis=0) for rows in members])
    colors = np.array([cloud.require_colors()[rows].mean(axis=0) for rows in members])
    np.testing.assert_allclose(filtered.points, expected, atol=1e-12)
    np.testing.assert_allclose(filtered.require_colors(), colors, atol=1e-12)


@given(seeds, st.integers(2, 300), st.floats(0.005, 0.5))
def test_a_table_of_cells_and_sorted_points_give_the_same_to_the_bit(seed, count, size):
    numbers, cells = _voxels._cells(cloud_from(seed, count).points, size)
    if cells > 10**6:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_voxels, "_ROOMY", 1e9)
        by_table = _voxels._owners(numbers, cells)
        patch.setattr(_voxels, "_ROOMY", 0)
        by_sorting = _voxels._owners(numbers, cells)
    for one, other in zip(by_table, by_sorting, strict=True):
        assert np.array_equal(one, other)


@given(seeds, st.tuples(*[st.floats(-3, 3)] * 3))
def test_voxel_filter_commutes_with_translation(seed, shift):
    cloud = cloud_from(seed, 200)
    move = np.eye(4)
    move[:3, 3] = shift
    one = voxel_filter(cloud, 0.05).transformed(move)
    other = voxel_filter(cloud.transformed(move), 0.05)
    if len(one) == len(other):  # a point within rounding of a cell's face may change cells
        np.testing.assert_allclose(one.points, other.points, atol=1e-9)
    else:
        assert abs(len(one) - len(other)) <= 2


@given(seeds)
def test_voxel_filter_does_not_depend_on_the_order_of_points(seed):
    cloud = cloud_from(seed, 200)
    order = np.random.default_rng(seed).permutation(200)
    one, other = voxel_filter(cloud, 0.05), voxel_filter(cloud.selected(order), 0.05)
    np.testing.assert_allclose(one.points, other.points, atol=1e-12)


def assert_edges_are(edges: Edges, target: np.ndarray, source: np.ndarray) -> None:
    """Sorted by target; the order of sources is not said."""
    order = np.lexsort([edges.source, edges.target])
    assert np.array_equal(edges.target, target)
    assert np.array_equal(edges.source[order], source)


@given(seeds, st.integers(2, 120), st.floats(0.01, 0.6))
def test_radius_graph_has_every_pair_and_no_other(seed, count, radius):
    points = cloud_from(seed, count).points
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    target, source = np.nonzero((distance <= radius) & ~np.eye(count, dtype=bool))
    assert_edges_are(radius_graph(points, radius), target, source)


@given(seeds, st.integers(1, 60), st.integers(2, 60), st.floats(0.01, 0.6))
def test_radius_neighbours_has_every_pair_and_no_other(seed, queries, count, radius):
    points = cloud_from(seed, count).points
    where = np.random.default_rng(seed + 1).normal(0, 0.1, (queries, 3))
    where[0] = points[0]  # a coinciding point is a neighbour
    distance = np.linalg.norm(where[:, None] - points[None], axis=-1)
    target, source = np.nonzero(distance <= radius)
    assert_edges_are(radius_neighbours(where, points, radius), target, source)


@given(seeds, st.integers(1, 60), st.integers(2, 60), st.floats(0.01, 0.6))
def test_a_query_is_near_exactly_when_some_point_is_within_the_radius(seed, queries, count, radius):
    points = cloud_from(seed, count).points
    where = np.random.default_rng(seed + 1).normal(0, 0.2, (queries, 3))
    distance = np.linalg.norm(where[:, None] - points[None], axis=-1)
    near = NeighbourIndex(points).near(where, radius)
    assert np.array_equal(near, (distance <= radius).any(axis=1))


def test_a_dense_cloud_loses_no_neighbour():
    points = np.random.default_rng(0).uniform(0, 0.01, (400, 3))
    assert len(radius_graph(points, 1.0).target) == 400 * 399


def test_neighbours_one_radius_apart_are_found_however_cells_are_rounded():
    radius = 0.06
    line = np.arange(2000)[:, None] * radius * np.array([1.0, 0.0, 0.0])
    gaps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    edges = radius_graph(line, radius)
    assert len(edges.target) == 2 * (gaps <= radius).sum() > 0


def test_too_many_neighbours_are_refused_before_they_are_counted():
    points = np.random.default_rng(0).uniform(0, 0.01, (400_000, 3))
    with pytest.raises(CloudError, match=r"more than 50,000,000 neighbours within 1 m\. Thin"):
        radius_graph(points, 1.0)


def test_points_that_are_too_far_apart_for_cells_are_refused():
    with pytest.raises(CloudError, match=r"spread over 1e\+06 m: need less than 1048\.58 m"):
        radius_graph(np.array([[0.0, 0.0, 0.0], [1e6, 0.0, 0.0]]), 0.001)


def test_queries_anywhere_are_answered():
    points = np.zeros((1, 3))
    where = np.array([[1e300, 0, 0], [-np.inf, 0, 0], [0, np.nan, 0], [0, 0, 1e-3]])
    edges = radius_neighbours(where, points, 0.1)
    assert edges.target.tolist() == [3]
    assert NeighbourIndex(points).near(where, 0.1).tolist() == [False, False, False, True]
    assert len(radius_neighbours(where, points[:0], 0.1).target) == 0


def test_nobody_near_gives_no_edges():
    points = np.eye(3)
    assert len(radius_graph(points, 0.1).target) == 0
    assert len(radius_neighbours(points + 5, points, 0.1).source) == 0


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_sizes_must_be_positive_and_finite(value):
    cloud = cloud_from(0, 10)
    with pytest.raises(OptionError, match="positive"):
        voxel_filter(cloud, value)
    with pytest.raises(OptionError, match="positive"):
        radius_graph(cloud.points, value)


@pytest.mark.parametrize("size", [1e-8, 1e-30, 1e-308])
def test_voxel_cells_that_cannot_be_counted_are_refused(size):
    with pytest.raises(OptionError, match="use a larger one"):
        voxel_filter(cloud_from(0, 10), size)


def test_a_voxel_that_swallows_the_cloud_is_refused():
    with pytest.raises(EmptyCloudError, match=r"voxel size 50.* m leaves 1 point.*smaller"):
        voxel_filter(cloud_from(0, 10), 50.0)
