"""Cameras of training scenes: what they see, from where, and their noise."""

import numpy as np
import pytest

from equivariance import random_poses
from handful.clouds import PointCloud, concatenate
from handful.errors import OptionError
from handful.learning.variation import Sensor
from handful.learning.variation._sensor import DISTANCES, FLYING_REACH, LEVELS, LOCAL
from samples import small_cloud

TARGET = np.array([0.1, -0.05, 0.2])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def beside(x: float, y: float, z: float) -> np.ndarray:
    """A position relative to the target."""
    return TARGET + np.array([x, y, z])


def ball(middle: np.ndarray, radius: float = 0.05, count: int = 1500) -> PointCloud:
    """Evenly spread points: a Fibonacci sphere."""
    number = np.arange(count) + 0.5
    z, angle = 1.0 - 2.0 * number / count, number * np.pi * (3.0 - np.sqrt(5.0))
    ring = np.sqrt(1.0 - z**2)
    unit = np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=1)
    return PointCloud(middle + radius * unit, np.full((count, 3), 0.5))


# --- cameras ------------------------------------------------------------------------------------


def test_cameras_are_above_the_support_and_as_far_away_as_stated():
    numbers, rises = set(), []
    for seed in range(100):
        up = random_poses(1, seed)[0, 0, :3].numpy()
        eyes = Sensor(most_cameras=3).cameras(TARGET, up, rng(seed))
        numbers.add(len(eyes))
        distance = np.linalg.norm(eyes - TARGET, axis=1)
        assert (distance >= DISTANCES[0]).all()
        assert (distance <= DISTANCES[1]).all()
        rises += (((eyes - TARGET) @ up) / distance).tolist()
    assert numbers == {1, 2, 3}
    assert LEVELS[0] - 1e-9 <= min(rises) < LEVELS[0] + 0.1
    assert LEVELS[1] - 0.1 < max(rises) <= LEVELS[1] + 1e-9


def test_cameras_of_what_has_no_support_are_anywhere():
    eyes = np.concatenate([Sensor().cameras(TARGET, None, rng(seed)) for seed in range(300)])
    unit = (eyes - TARGET) / np.linalg.norm(eyes - TARGET, axis=1, keepdims=True)
    np.testing.assert_allclose(unit.mean(axis=0), 0.0, atol=0.1)
    np.testing.assert_allclose(unit.T @ unit / len(unit), np.eye(3) / 3, atol=0.06)


# --- what is seen -------------------------------------------------------------------------------


def test_one_camera_does_not_see_the_back_of_a_ball_and_two_see_both_sides():
    cloud = ball(TARGET)
    for direction in random_poses(5, 1)[:, 0, :3].numpy():
        eyes = np.stack([TARGET + 0.8 * direction, TARGET - 0.8 * direction])
        front = Sensor().seen(cloud, eyes[:1], TARGET)
        depth = (front.points - TARGET) @ direction / 0.05
        assert depth.min() > -0.2
        assert 0.3 * len(cloud) < len(front) < 0.6 * len(cloud)
        assert len(Sensor().seen(cloud, eyes, TARGET)) > 0.9 * len(cloud)


def test_what_is_hidden_behind_something_else_is_not_seen():
    small = ball(TARGET, 0.02, 300)
    up = np.array([0.0, 0.0, 1.0])
    large = ball(TARGET + 0.12 * up, 0.05)
    after = Sensor().seen(concatenate([small, large]), (TARGET + 0.9 * up)[None], TARGET)
    assert (np.linalg.norm(after.points - TARGET, axis=1) < 0.03).sum() < 0.02 * len(small)
    alone = Sensor().seen(small, (TARGET + 0.9 * up)[None], TARGET)
    assert len(alone) > 0.3 * len(small), "the control: nothing in between"


def test_all_is_seen_that_is_far_from_the_target():
    far = ball(beside(0.0, 0.0, LOCAL + 0.1))
    scene = concatenate([ball(TARGET), far])
    after = Sensor().seen(scene, beside(0.6, 0.0, 0.0)[None], TARGET)
    assert (np.linalg.norm(after.points - TARGET, axis=1) > LOCAL).sum() == len(far)
    assert len(after) < len(scene) - 0.3 * len(far)


def test_next_to_nothing_is_left_as_it_is():
    few = small_cloud(count=4)
    assert Sensor().seen(few, np.array([[1.0, 0.0, 0.0]]), np.zeros(3)) is few


# --- noise --------------------------------------------------------------------------------------


def moved_along_rays(
    before: PointCloud, after: PointCloud, eye: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far points moved along the rays of a camera, and across them."""
    ray = before.points - eye
    ray /= np.linalg.norm(ray, axis=1, keepdims=True)
    shift = after.points - before.points
    along = (shift * ray).sum(axis=1)
    return along, np.linalg.norm(shift - along[:, None] * ray, axis=1)


def fine_ball() -> PointCloud:
    return PointCloud(ball(TARGET, count=4000).points, dtype=np.float64)


def test_noise_is_along_the_rays_and_of_the_stated_size():
    eye, cloud = beside(0.5, 0.3, 0.6), fine_ball()
    sigmas = []
    for seed in range(60):
        after = Sensor(noisy=1.0, sigma=0.004, flying=0.0).disturbed(cloud, eye[None], rng(seed))
        along, across = moved_along_rays(cloud, after, eye)
        assert across.max() < 1e-9
        assert abs(along.mean()) < 4.0 * 0.004 / np.sqrt(len(cloud))
        sigmas.append(along.std())
    assert max(sigmas) < 0.004 * 1.1
    assert np.mean(sigmas) == pytest.approx(0.002, rel=0.3), "drawn from 0 to the largest"
    _, across = moved_along_rays(cloud, after, beside(-0.5, 0.0, 0.0))
    assert across.max() > 1e-3, "the control: rays of a camera that is not there"


def test_flying_pixels_leave_their_surface_and_are_as_frequent_as_stated():
    eye, cloud = beside(0.5, 0.3, 0.6), fine_ball()
    shares = []
    for seed in range(60):
        sensor = Sensor(noisy=1.0, sigma=0.0, flying=0.1)
        along, _ = moved_along_rays(cloud, sensor.disturbed(cloud, eye[None], rng(seed)), eye)
        assert np.abs(along).max() <= FLYING_REACH
        shares.append((np.abs(along) > 1e-9).mean())
    assert max(shares) < 0.12
    assert np.mean(shares) == pytest.approx(0.05, rel=0.3)


def test_noise_and_sparseness_are_as_frequent_as_stated():
    eye, cloud = beside(0.0, 0.0, 0.8)[None], small_cloud(count=400)
    sensor = Sensor(noisy=0.4, sparse=0.25, sparsest=0.8)
    after = [sensor.disturbed(cloud, eye, rng(seed)) for seed in range(400)]
    sparse = [len(one) < len(cloud) for one in after]
    kept = {tuple(point) for point in cloud.points.tolist()}
    noisy = [not {tuple(point) for point in one.points.tolist()} <= kept for one in after]
    assert np.mean(sparse) == pytest.approx(0.25, abs=0.07)
    assert np.mean(noisy) == pytest.approx(0.4, abs=0.08)
    fewest = min(len(one) for one in after) / len(cloud)
    assert 0.2 <= fewest < 0.25
    assert Sensor().disturbed(cloud, eye, rng()) is cloud


@pytest.mark.parametrize("sparsest", [0.0, 0.1, 0.3, 0.99])
def test_no_more_points_are_left_out_than_stated(sparsest):
    cloud, eye = small_cloud(count=1000), np.array([[0.0, 0.0, 1.0]])
    for seed in range(10):
        left = len(Sensor(sparse=1.0, sparsest=sparsest).disturbed(cloud, eye, rng(seed)))
        assert left >= round(1000 * (1.0 - sparsest)) - 1
        assert left <= 1000 * (1.0 - min(sparsest, 0.3)) + 1


def test_colours_go_with_their_points_and_the_same_seed_gives_the_same_noise():
    cloud, eyes = small_cloud(count=200), Sensor().cameras(TARGET, None, rng(7))
    sensor = Sensor(noisy=1.0, sparse=1.0)
    one, again, other = (sensor.disturbed(cloud, eyes, rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.points, again.points)
    np.testing.assert_array_equal(one.require_colors(), again.require_colors())
    assert len(one) != len(other) or not np.array_equal(one.points, other.points)
    assert one.points.dtype == cloud.points.dtype
    for point, color in zip(one.points, one.require_colors(), strict=True):
        nearest = np.linalg.norm(cloud.points - point, axis=1).argmin()
        if np.linalg.norm(cloud.points[nearest] - point) < 0.005:
            np.testing.assert_array_equal(color, cloud.require_colors()[nearest])


@pytest.mark.parametrize(
    "wrong",
    [
        {"most_cameras": 0},
        {"most_cameras": 21},
        {"noisy": 1.1},
        {"noisy": float("nan")},
        {"sigma": -0.001},
        {"sigma": float("inf")},
        {"flying": 1.5},
        {"sparse": -0.1},
        {"sparsest": 1.0},
    ],
)
def test_impossible_sensors_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong)).removeprefix("most_")):
        Sensor(**wrong)
