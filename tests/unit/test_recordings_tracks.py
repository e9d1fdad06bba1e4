"""Poses over time, trees of frames, and what grippers did."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from handful.demos import Action
from handful.errors import DemoError
from handful.recordings._tracks import PoseTrack, gripper_events
from handful.recordings.rosbag._transforms import TransformTree


def pose(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.random(rng=rng).as_matrix()
    matrix[:3, 3] = rng.uniform(-1, 1, 3)
    return matrix


# --- tracks -------------------------------------------------------------------------------------


def test_a_track_goes_through_its_records_and_turns_evenly_between():
    turned = np.eye(4)
    turned[:3, :3] = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    turned[:3, 3] = 1.0, 2.0, 3.0
    track = PoseTrack("arm", np.array([1.0, 3.0]), np.stack([np.eye(4), turned]))
    np.testing.assert_allclose(track.at(1.0), np.eye(4), atol=1e-12)
    np.testing.assert_allclose(track.at(3.0), turned, atol=1e-12)
    half = track.at(2.0)
    np.testing.assert_allclose(half[:3, 3], [0.5, 1.0, 1.5])
    assert Rotation.from_matrix(half[:3, :3]).as_euler("zyx", degrees=True)[0] == pytest.approx(45)


def test_a_track_ends_where_it_ends():
    track = PoseTrack("arm", np.array([1.0, 3.0]), np.stack([pose(0), pose(1)]))
    np.testing.assert_allclose(track.at(3.2), pose(1), atol=1e-12)
    with pytest.raises(DemoError, match=r"arm: its poses go from 1.000 s to 3.000 s, and one at 4"):
        track.at(4.0)


@pytest.mark.parametrize("times", [[], [1.0, 1.0], [2.0, 1.0], [np.nan]])
def test_times_that_do_not_increase_are_refused(times):
    with pytest.raises(DemoError, match="arm"):
        PoseTrack("arm", np.array(times), np.tile(np.eye(4), (len(times), 1, 1)))


# --- the tree of frames ---------------------------------------------------------------------------


def tree() -> TransformTree:
    """World, base and camera; hand below base, in motion."""
    return TransformTree(
        [
            ("world", "/base", None, pose(1)),
            ("world", "camera", None, pose(2)),
            ("base", "hand", 0.0, pose(3)),
            ("base", "hand", 1.0, pose(4)),
        ]
    )


def test_poses_compose_and_invert():
    for time in (0.0, 0.3, 1.0):
        T_camera_hand = tree().pose("camera", "hand", time)
        np.testing.assert_allclose(
            T_camera_hand,
            tree().pose("camera", "base", time) @ tree().pose("base", "hand", time),
            atol=1e-12,
        )
        np.testing.assert_allclose(
            T_camera_hand @ tree().pose("hand", "camera", time), np.eye(4), atol=1e-12
        )
    np.testing.assert_allclose(tree().pose("base", "hand", 1.0), pose(4), atol=1e-12)
    np.testing.assert_allclose(tree().pose("world", "base", 0.5), pose(1), atol=1e-12)


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([("a", "b"), ("c", "d")], "nothing connects 'a' .* and 'd'"),
        ([("a", "b"), ("c", "b"), ("a", "d")], "'b' has two parents"),
        ([("b", "a"), ("a", "b"), ("a", "d")], "each other's parents"),
        ([("a", "b")], "unknown frame 'd'"),
    ],
)
def test_a_tree_that_is_none_is_told(records, told):
    with pytest.raises(DemoError, match=told):
        TransformTree((*both, None, np.eye(4)) for both in records).pose("a", "d", 0.0)


# --- grippers -----------------------------------------------------------------------------------


def actions(*values: float) -> list[Action]:
    found = gripper_events(
        np.arange(len(values), dtype=np.float64), np.array(values, dtype=np.float64), "signal"
    )
    return [event.action for event in found]


def test_a_gripper_that_closes_and_opens():
    assert actions(8, 8, 4, 4, 4, 8, 8) == [Action.PICK, Action.PLACE]
    assert actions(8, 0, 8, 0, 8) == [Action.PICK, Action.PLACE] * 2
    assert actions(0, 0, 8) == [Action.PLACE]


def test_an_event_is_when_the_fingers_have_moved():
    found = gripper_events(np.arange(6.0), np.array([8.0, 8.0, 6.0, 2.0, 0.0, 0.0]), "signal")
    assert [event.time for event in found] == [3.0]


@given(
    steps=st.lists(st.integers(2, 6), min_size=2, max_size=7),
    noise=st.floats(0.0, 0.3),
    seed=st.integers(0, 100),
    scale=st.sampled_from([1.0, 0.08, -1.0, 100.0]),
)
def test_noise_makes_no_events(steps, noise, seed, scale):
    """As many events as changes, whatever the unit; noise stays below the thresholds' distance."""
    clean = np.repeat(np.arange(len(steps)) % 2, steps).astype(np.float64)
    noisy = clean + np.random.default_rng(seed).uniform(-noise / 2, noise / 2, len(clean))
    noisy[0], noisy[steps[0]] = 0.0 - noise / 2, 1.0 + noise / 2
    found = gripper_events(np.arange(float(len(clean))), noisy * scale, "signal")
    assert len(found) == len(steps) - 1


@pytest.mark.parametrize("values", [[], [0.5, 0.5, 0.5], [0.0, np.nan, 1.0]])
def test_a_signal_that_says_nothing_is_told(values):
    with pytest.raises(DemoError, match=r"signal: (has no values|the gripper's signal is 0.5)"):
        actions(*values)
