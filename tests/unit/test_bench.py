"""The benchmark without physics: records, stores, statistics, collisions of clouds, seeds."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import binomtest, kstest

from bench_samples import CONDITIONS, episode, step
from equivariance import random_poses
from handful._strict_json import parse_json, read_json_lines
from handful.bench import (
    BenchError,
    EpisodeRecord,
    EpisodeStore,
    Failure,
    Rate,
    SceneSurface,
    check_sizes,
    episode_seeds,
    kind_of_seeds,
    read_episodes,
    summarise,
    table_of,
)
from handful.bench._collision import thinned_points
from handful.bench._nudge import FARTHEST, STEEPEST, nudged
from handful.bench._paper import RATES
from handful.bench._record import record_from_json
from handful.clouds import PointCloud
from handful.errors import FileFormatError, OptionError

# --- records -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        episode(),
        episode(picked=False),
        episode(placed=False),
        EpisodeRecord("mug", "all", 3, failure=Failure.NO_LAYOUT, reason="no layout"),
    ],
)
def test_a_record_survives_being_written(record):
    assert record_from_json(parse_json(record.to_json(), "here"), "here") == record
    assert "\n" not in record.to_json()


def test_numbers_that_json_lacks_become_null():
    odd = replace(episode(), pick=replace(step(), energy=float("nan"), confidence=float("inf")))
    back = record_from_json(parse_json(odd.to_json(), "here"), "here")
    assert back.pick.energy is None
    assert back.pick.confidence is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "one"}, "'seed' is a string"),
        ({"success": 1}, "'success'"),
        ({"failure": "bad luck"}, "'failure'"),
        ({"surplus": 1}, "unknown field 'surplus'"),
        ({"pick": {"ok": True}}, "pick"),
        ({"pick": []}, "pick: is a list"),
    ],
)
def test_a_wrong_record_is_refused_with_its_address(change, message):
    value = {**json.loads(episode().to_json()), **change}
    with pytest.raises(FileFormatError, match=f"line 7.*{message}"):
        record_from_json(value, "line 7")


# --- the store ---------------------------------------------------------------------------------


def test_a_store_keeps_episodes_and_finds_them_again(tmp_path):
    store = EpisodeStore(tmp_path / "bench", CONDITIONS)
    assert store.records == {}
    for seed in (5, 3):
        store.add(episode(seed))
    again = EpisodeStore(tmp_path / "bench", CONDITIONS)
    assert set(again.records) == {3, 5}
    conditions, records = read_episodes(store.path)
    assert conditions == CONDITIONS
    assert [record.seed for record in records] == [3, 5]


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    store = EpisodeStore(tmp_path, CONDITIONS)
    store.add(episode(1))
    store.add(episode(2))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[:-20])
    again = EpisodeStore(tmp_path, CONDITIONS)
    assert set(again.records) == {1}
    again.add(episode(2))
    assert store.path.read_bytes() == whole


def test_episodes_of_other_models_do_not_mix(tmp_path):
    EpisodeStore(tmp_path, CONDITIONS)
    with pytest.raises(BenchError, match=r"models 'abc'.*'xyz'.*--fresh"):
        EpisodeStore(tmp_path, replace(CONDITIONS, models="xyz"))
    EpisodeStore(tmp_path, replace(CONDITIONS, handful="9.9"))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / CONDITIONS.file_name
    for content in ("", "{}\n", '{"format": "other", "version": 1}\n', "not json\n"):
        path.write_text(content)
        with pytest.raises(FileFormatError, match=str(path)):
            EpisodeStore(tmp_path, CONDITIONS)


def test_an_episode_of_another_setup_in_the_file_is_refused(tmp_path):
    store = EpisodeStore(tmp_path, CONDITIONS)
    with open(store.path, "a") as file:
        file.write(episode(setup="poses").to_json() + "\n")
    with pytest.raises(FileFormatError, match="line 2: is of mug, poses"):
        read_episodes(store.path)


def test_files_are_named_after_what_is_special():
    assert CONDITIONS.file_name == "mug-all.jsonl"
    special = replace(CONDITIONS, policy="random", objects="meshes 123abc")
    assert special.file_name == "mug-all-random-meshes.jsonl"


def test_json_lines_name_the_line_that_is_wrong(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n{"a": NaN}\n')
    with pytest.raises(FileFormatError, match="line 2"):
        read_json_lines(path)


# --- statistics --------------------------------------------------------------------------------


@pytest.mark.parametrize(("good", "of"), [(0, 10), (10, 10), (95, 100), (1, 3), (49, 50)])
def test_intervals_are_wilsons(good, of):
    reference = binomtest(good, of).proportion_ci(method="wilson")
    assert Rate(good, of).interval == pytest.approx((reference.low, reference.high), abs=1e-12)


def test_no_trials_mean_no_rate():
    assert Rate(0, 0).value is None
    assert Rate(0, 0).interval == (0.0, 1.0)
    assert str(Rate(0, 0)) == "-"
    with pytest.raises(OptionError, match="2 in 1"):
        Rate(2, 1)


def test_places_are_counted_among_picks():
    records = [episode(0), episode(1), episode(2, picked=False), episode(3, placed=False)]
    row = summarise(records)
    assert (row.pick, row.place, row.total) == (Rate(3, 4), Rate(2, 3), Rate(2, 4))
    assert dict(row.failures) == {Failure.PICK_LOST.value: 1, Failure.PLACE_LOST.value: 1}
    assert row.paper == RATES["mug", "all"]
    assert row.seeds == (0, 3)


def test_an_episode_that_could_not_begin_is_in_no_rate():
    void = EpisodeRecord("mug", "all", 9, failure=Failure.NO_LAYOUT, reason="none")
    row = summarise([episode(0), void])
    assert row.total == Rate(1, 1)
    assert row.void == 1


def test_a_table_has_a_row_for_each_setup():
    rows = table_of([episode(0), episode(1, setup="poses"), episode(2)])
    assert [(row.setup, row.total.trials) for row in rows] == [("all", 2), ("poses", 1)]
    with pytest.raises(OptionError, match="one kind"):
        summarise([episode(0), episode(1, setup="poses")])


def test_the_papers_totals_are_the_issues_targets():
    order = ("trained", "instances", "poses", "distractors", "all")
    totals = {
        task: [RATES[task, setup].total for setup in order] for task in ("mug", "bowl", "bottle")
    }
    assert totals == {
        "mug": [0.99, 0.97, 1.00, 0.98, 0.95],
        "bowl": [1.00, 0.98, 1.00, 1.00, 0.95],
        "bottle": [0.98, 1.00, 0.95, 0.99, 0.95],
    }


# --- seeds -------------------------------------------------------------------------------------


def test_seeds_are_of_one_kind():
    assert kind_of_seeds(episode_seeds(10_000, 100)) == "evaluation"
    assert kind_of_seeds(episode_seeds(2_000, 50)) == "development"
    assert kind_of_seeds(episode_seeds(0, 5)) not in ("evaluation", "development")
    with pytest.raises(OptionError, match="kept for evaluation"):
        episode_seeds(9_990, 20)
    with pytest.raises(OptionError, match="0 episodes"):
        episode_seeds(0, 0)


@pytest.mark.parametrize("sizes", [[], [3, 1], [1, 1], [0, 2]])
def test_sizes_of_a_learning_curve_increase(sizes):
    with pytest.raises(OptionError, match=r"1,3,5,10"):
        check_sizes(sizes)


# --- collisions of clouds ----------------------------------------------------------------------


def box_surface(low, high, spacing=0.002):
    """Points on the faces of a box."""
    low, high = np.array(low), np.array(high)
    faces = []
    for axis in range(3):
        others = [other for other in range(3) if other != axis]
        grids = np.meshgrid(
            *(np.arange(low[o], high[o] + spacing / 2, spacing) for o in others), indexing="ij"
        )
        for side in (low[axis], high[axis]):
            face = np.empty((grids[0].size, 3))
            face[:, axis] = side
            face[:, others[0]], face[:, others[1]] = (grid.ravel() for grid in grids)
            faces.append(face)
    return PointCloud(np.concatenate(faces))


TRAY = SceneSurface(box_surface((-0.1, -0.1, 0.0), (0.1, 0.1, 0.02)))
CUBE = thinned_points(box_surface((-0.02, -0.02, 0.0), (0.02, 0.02, 0.05)))


@pytest.mark.parametrize("height", [0.0, 0.002, 0.01, 0.05, 0.2])
def test_standing_on_or_over_a_tray_is_no_collision(height):
    assert not TRAY.collides(CUBE + np.array([0.0, 0.0, 0.02 + height]))


@pytest.mark.parametrize("depth", [0.006, 0.01, 0.015])
def test_sinking_into_a_tray_is_a_collision(depth):
    assert TRAY.collides(CUBE + np.array([0.0, 0.0, 0.02 - depth]))


def test_cutting_through_a_trays_edge_is_a_collision():
    assert TRAY.collides(CUBE + np.array([0.1, 0.0, 0.005]))
    assert not TRAY.collides(CUBE + np.array([0.125, 0.0, 0.005]))


def test_going_through_the_table_is_a_collision():
    empty = SceneSurface(box_surface((-0.2, -0.2, -0.001), (0.2, 0.2, 0.0)))
    assert not empty.collides(CUBE + np.array([0.0, 0.0, 0.001]))
    assert empty.collides(CUBE - np.array([0.0, 0.0, 0.01]))


def tube(radius, length, spacing=0.002):
    """Points on a round bar along x, like the arm of a hanger, as seen from above."""
    along, turn = np.meshgrid(
        np.arange(-length / 2, length / 2, spacing), np.arange(-0.4, np.pi + 0.4, spacing / radius)
    )
    return np.stack([along, radius * np.cos(turn), radius * np.sin(turn)], -1).reshape(-1, 3)


def ring(radius=0.018, thickness=0.004):
    """Points on a ring around the x axis, like a handle."""
    turn, around = np.meshgrid(np.linspace(0, 2 * np.pi, 80), np.linspace(0, 2 * np.pi, 14))
    far = radius + thickness * np.cos(around)
    points = np.stack([thickness * np.sin(around), far * np.cos(turn), far * np.sin(turn)], -1)
    return thinned_points(PointCloud(points.reshape(-1, 3)))


@pytest.mark.parametrize(
    ("drop", "collides"), [(0.0, False), (0.007, False), (0.009, False), (0.016, True)]
)
def test_a_handle_may_hang_on_an_arm_but_not_go_through_it(drop, collides):
    arm = SceneSurface(PointCloud(tube(0.005, 0.2) + np.array([0.0, 0.0, 0.1])))
    assert arm.collides(ring() + np.array([0.0, 0.0, 0.1 - drop])) is collides


# --- poses beside others -----------------------------------------------------------------------


def test_nudges_turn_and_move_the_finger_tips_by_all_sizes_up_to_the_largest():
    poses, tip = random_poses(3, seed=0).numpy(), 0.13
    moved = nudged(poses, 3_000, tip, np.random.default_rng(1))
    before = poses[np.arange(3_000) % 3]
    shift = np.linalg.norm(tips(moved, tip) - tips(before, tip), axis=1)
    turn = moved[:, :3, :3] @ before[:, :3, :3].swapaxes(1, 2)
    angle = Rotation.from_matrix(turn).magnitude()
    for size, most in ((shift, FARTHEST), (angle, STEEPEST)):
        assert kstest(size / most, "uniform").pvalue > 1e-3
    direction = (tips(moved, tip) - tips(before, tip)) / shift[:, None]
    assert np.abs(direction.mean(axis=0)).max() < 0.05
    np.testing.assert_array_equal(poses, random_poses(3, seed=0).numpy())


def tips(poses, tip):
    return poses[:, :3, 3] + tip * poses[:, :3, 2]
