"""Inputs that are unlike those of training are told, each with its cure; those alike are not."""

import math
from dataclasses import replace

import numpy as np
import pytest

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.policy import CloudStatistics
from samples import thin_sample

VOXEL = 0.006
CURES = {"sparse": "closer", "rough": "filter the depth", "wide": "crop"}


def plane(sigma: float = 0.0, size: float = 0.4, spacing: float = 0.005) -> PointCloud:
    """A level square of points at random places with noise across it, metres."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-size / 2.0, size / 2.0, (round((size / spacing) ** 2), 3))
    points[:, 2] = rng.normal(0.0, sigma, len(points)) if sigma else 0.0
    return PointCloud(points)


def told(usual: PointCloud, now: PointCloud) -> set[str]:
    """Which cures are named."""
    sentences = CloudStatistics.typical([usual]).unlike(now, VOXEL)
    found = {name for name, cure in CURES.items() if any(cure in one for one in sentences)}
    assert len(found) == len(sentences)
    return found


# --- measuring ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.0005, 0.001, 0.002, 0.003])
def test_the_roughness_of_a_noisy_plane_is_its_noise(sigma):
    found = CloudStatistics.of(plane(sigma, spacing=0.005)).roughness
    assert found == pytest.approx(sigma, rel=0.2)


def test_a_flat_plane_is_not_rough():
    assert CloudStatistics.of(plane()).roughness < 1e-6


def test_spacing_and_extent_are_those_of_a_grid():
    line = np.arange(0.0, 0.3, 0.01)
    x, y = (grid.ravel() for grid in np.meshgrid(line, 2.0 * line))
    found = CloudStatistics.of(PointCloud(np.stack([x, y, 0.0 * x], axis=1)))
    assert found.spacing == pytest.approx(0.01, rel=1e-3)
    assert found.extent == pytest.approx(0.58, rel=1e-3)


def test_statistics_do_not_depend_on_the_place_or_the_order():
    cloud, rng = plane(0.001), np.random.default_rng(1)
    one = CloudStatistics.of(cloud)
    moved = np.eye(4)
    moved[:3, 3] = 0.3, -0.2, 0.1
    other = CloudStatistics.of(cloud.transformed(moved).selected(rng.permutation(len(cloud))))
    assert other.spacing == pytest.approx(one.spacing, rel=0.1)
    assert other.roughness == pytest.approx(one.roughness, rel=0.1)
    assert other.extent == pytest.approx(one.extent, rel=1e-3)


@pytest.mark.parametrize("count", [2, 5])
def test_a_cloud_of_few_points_is_measured(count):
    found = CloudStatistics.of(plane(0.001).selected(np.arange(count)))
    assert found.extent >= 0


def test_typical_is_the_median_over_clouds():
    clouds = [plane(size=size) for size in (0.2, 0.3, 1.0)]
    assert CloudStatistics.typical(clouds).extent == pytest.approx(0.3, rel=0.02)


# --- telling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pick", "place"])
def test_the_scenes_of_training_are_alike(name):
    scenes = [demo.step(name).scene for demo in thin_sample()]
    usual = CloudStatistics.typical(scenes)
    assert [usual.unlike(scene, VOXEL) for scene in scenes] == [[], []]


def test_a_thinned_scene_is_told_to_be_sparse():
    cloud = plane()
    some = np.random.default_rng(2).permutation(len(cloud))[: len(cloud) // 60]
    assert told(cloud, cloud.selected(some)) == {"sparse"}
    assert told(cloud, cloud.selected(np.arange(len(cloud)) % 2 == 0)) == set()


def test_what_thinning_takes_away_anyway_is_not_missed():
    """A cloud of training that was ten times denser than the voxels says nothing about density."""
    assert told(plane(size=0.1, spacing=0.0006), plane(size=0.1, spacing=0.006)) == set()


def test_a_noisy_scene_is_told_to_be_rough():
    assert told(plane(0.0005), plane(0.012, spacing=0.008)) == {"rough"}
    assert told(plane(0.0005), plane(0.002)) == set(), "as much noise is made up in training"
    assert told(plane(0.01), plane(0.012)) == set(), "demonstrations were as noisy"


def test_a_wide_scene_is_told_to_be_wide():
    assert told(plane(), plane(size=1.4)) == {"wide"}
    assert told(plane(), plane(size=0.8)) == set()
    assert told(plane(), plane(size=0.1)) == set()


def test_a_scene_may_be_unlike_in_everything():
    assert told(plane(0.0005), plane(0.05, size=2.0, spacing=0.05)) == set(CURES)


def test_sentences_say_both_numbers():
    (sentence,) = CloudStatistics.of(plane()).unlike(plane(size=1.4), VOXEL)
    assert "1.4 m" in sentence
    assert "0.4 m" in sentence


@pytest.mark.parametrize("field", ["spacing", "roughness", "extent"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.001, 1e6])
def test_numbers_that_are_no_lengths_are_refused(field, value):
    usual = CloudStatistics(0.005, 0.001, 0.5)
    with pytest.raises(OptionError, match=f"{field}=.*need lengths in metres"):
        replace(usual, **{field: value})
