"""Whole commands of the benchmark, with the oracle and chance in the place of trained models."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

pytest.importorskip("mujoco")

from handful.apps import bench_commands, demo_commands, learn_commands
from handful.bench import (
    BenchError,
    BenchPlan,
    Crew,
    Failure,
    Policy,
    Watcher,
    _bench,
    read_episodes,
    run_bench,
    run_episode,
    table_of,
)
from handful.bench._feasibility import PlaceFeasibility
from handful.demos import save_demos
from handful.errors import OptionError
from handful.learning import RankedPoses
from handful.sim import Setup, Verdict, collect_demos, task_named
from handful.sim.tasks import Episode
from samples import small_demos

app = typer.Typer()
bench_commands.register(app)
demo_commands.register(app)
learn_commands.register(app)
runner = CliRunner()


def run(*words):
    return runner.invoke(app, [str(word) for word in words])


def plan(folder, policy="oracle", seeds=range(2_100, 2_103), **more):
    return BenchPlan(folder, "bottle", ("trained",), seeds, policy, **more)


def without_times(records):
    """What must not depend on how fast the machine is."""
    rows = [json.loads(record.to_json()) for record in records]
    for row in rows:
        for part in (row, row["pick"], row["place"]):
            if part is not None:
                del part["seconds"]
    return rows


# --- one episode -------------------------------------------------------------------------------


class Fixed:
    """A model that proposes given poses."""

    def __init__(self, *poses, confidence=0.5, later=None):
        self.poses = np.array(poses).reshape(-1, 4, 4)
        self.confidence = np.broadcast_to(confidence, len(poses)).astype(float)
        self.later = later
        self.asked = []

    def sample(self, scene, grasp=None, n=100, seed=0):
        self.asked.append((grasp is not None, n, seed))
        if self.later is not None and len(self.asked) > 1:
            return self.later.sample(scene, grasp, n, seed)
        energies = np.arange(len(self.poses), dtype=float)
        return RankedPoses(self.poses, energies, self.confidence, 0.1)


def far_away():
    pose = np.eye(4)
    pose[:3, 3] = 5.0
    return pose


def broken():
    return np.full((4, 4), np.nan)


def test_the_first_feasible_pose_is_executed_and_skips_are_counted():
    task = task_named("bottle")
    with task.reset(2_100, Setup.TRAINED) as episode:
        good = task.oracle_pick(episode)
        pick, place = Fixed(broken(), far_away(), good), Fixed(far_away())
        watcher = Watcher()
        record = run_episode(episode, lambda _: Policy(pick, place), 7, watcher)
    assert pick.asked == [(False, 7, 2_100)]
    assert place.asked[0] == (True, 7, 2_100)
    assert record.pick.ok
    assert record.pick.skips == 2
    assert record.pick.skipped["not a pose"] == 1
    assert np.allclose(record.pick.pose, good)
    assert (record.success, record.failure) == (False, Failure.PLACE_INFEASIBLE)
    assert "out of reach" in record.reason
    assert [look.chosen for look in watcher.looks] == [2, None]


def test_a_model_is_asked_again_before_it_does_what_it_is_not_sure_of():
    task = task_named("bottle")
    with task.reset(2_100, Setup.TRAINED) as episode:
        good = task.oracle_pick(episode)
        worse = good.copy()
        worse[2, 3] += 0.3  # in reach, and in the air
        pick = Fixed(far_away(), worse, confidence=[0.9, 0.1], later=Fixed(far_away(), good))
        watcher = Watcher()
        record = run_episode(episode, lambda _: Policy(pick, Fixed()), watcher=watcher)
    assert record.pick.ok
    assert (record.pick.proposed, record.pick.skips, watcher.looks[0].chosen) == (4, 2, 3)
    assert len({seed for _, _, seed in pick.asked}) == 2


class Rating(Fixed):
    """A model that also rates poses: sure of those at its first one, and less and less beside."""

    def rate(self, poses, scene, grasp=None):
        away = np.linalg.norm(poses[:, :3, 3] - self.poses[0, :3, 3], axis=1)
        order = np.argsort(away)
        return RankedPoses(poses[order], away[order], 1.0 - 20.0 * away[order], 0.1)


def test_poses_beside_a_good_one_that_is_not_feasible_are_tried(monkeypatch):
    task = task_named("bottle")
    with task.reset(2_100, Setup.TRAINED) as episode:
        good = task.oracle_pick(episode)

        def not_exactly_there(self, pose, step):
            away = np.linalg.norm(pose[:3, 3] - good[:3, 3])
            return Verdict(bool(away > 0.004), "too exact")

        monkeypatch.setattr(Episode, "feasible", not_exactly_there)
        pick = Rating(good, confidence=0.9)
        record = run_episode(episode, lambda _: Policy(pick, Fixed()))
    assert len(pick.asked) == 1
    moved = np.linalg.norm(np.array(record.pick.pose)[:3, 3] - good[:3, 3])
    assert 0.004 < moved < 0.006
    assert record.pick.confidence == pytest.approx(1.0 - 20.0 * moved)
    assert record.pick.skips == record.pick.skipped["too exact"] > 1


def test_a_model_that_is_sure_of_nothing_does_its_best_at_once():
    task = task_named("bottle")
    with task.reset(2_100, Setup.TRAINED) as episode:
        pick = Fixed(far_away(), task.oracle_pick(episode), confidence=0.2)
        record = run_episode(episode, lambda _: Policy(pick, Fixed(far_away())))
    assert record.pick.ok
    assert record.pick.confidence == pytest.approx(0.2)
    assert len(pick.asked) == 1


def test_a_model_is_not_asked_for_ever():
    with task_named("bottle").reset(2_100, Setup.TRAINED) as episode:
        pick = Fixed(far_away(), confidence=0.9)
        record = run_episode(episode, lambda _: Policy(pick, Fixed()))
    assert record.failure is Failure.PICK_INFEASIBLE
    assert len(pick.asked) == 3
    assert record.pick.skips == 3


@pytest.mark.parametrize(
    ("poses", "failure"),
    [([], Failure.PICK_NOT_SAMPLED), ([far_away()], Failure.PICK_INFEASIBLE)],
)
def test_without_a_pose_to_execute_the_pick_fails(poses, failure):
    with task_named("bottle").reset(2_101, Setup.TRAINED) as episode:
        record = run_episode(episode, lambda _: Policy(Fixed(*poses), Fixed()))
    assert (record.success, record.failure) == (False, failure)
    assert record.place is None


def test_a_model_that_refuses_is_a_failure_with_its_reason():
    def refuse(*_, **__):
        raise OptionError("the scene is too dark.")

    with task_named("bottle").reset(2_101, Setup.TRAINED) as episode:
        policy = Policy(SimpleNamespace(sample=refuse), Fixed())
        record = run_episode(episode, lambda _: policy)
    assert record.failure is Failure.PICK_NOT_SAMPLED
    assert record.reason == "the scene is too dark."


def test_going_elsewhere_and_losing_the_object_are_told_apart(monkeypatch):
    monkeypatch.setattr(Episode, "pick", lambda self, pose: Verdict(False, "slipped"))
    task = task_named("bottle")
    with task.reset(2_100, Setup.TRAINED) as episode:
        good = task.oracle_pick(episode)
        aside = good.copy()
        aside[:2, 3] += 0.07
        monkeypatch.setattr(Episode, "feasible", lambda self, pose, step: Verdict(True))
        records = [
            run_episode(episode, lambda _, pose=pose: Policy(Fixed(pose), Fixed()))
            for pose in (good, aside)
        ]
    assert [record.failure for record in records] == [Failure.PICK_LOST, Failure.PICK_AWAY]


@pytest.mark.parametrize(("name", "wrong"), [("mug", 0.05), ("bowl", 0.012), ("bottle", 0.012)])
def test_placing_is_feasible_as_the_oracle_does_it_and_not_through_the_target(name, wrong):
    task = task_named(name)
    with task.reset(2_104, Setup.TRAINED) as episode:
        assert episode.pick(task.oracle_pick(episode))
        scene, grasp = episode.observe_scene(), episode.observe_grasp()
        feasible = PlaceFeasibility(episode, scene, grasp)
        pose = task.oracle_place(episode)
        assert feasible(pose)
        low = pose.copy()
        low[2, 3] -= wrong
        assert not feasible(low)


# --- many episodes -----------------------------------------------------------------------------


def test_finished_episodes_are_not_run_again(tmp_path, monkeypatch):
    first = run_bench(plan(tmp_path, seeds=range(2_100, 2_102)))
    jobs = []
    run_here = _bench.run_here
    monkeypatch.setattr(
        _bench, "run_here", lambda place, todo: jobs.extend(todo) or run_here(place, todo)
    )
    told = []
    again = run_bench(plan(tmp_path), on_done=lambda record, done, of: told.append((done, of)))
    assert [job.seed for job in jobs] == [2_102]
    assert told == [(3, 3)]
    assert again[:2] == first
    run_bench(plan(tmp_path), fresh=True)
    assert [job.seed for job in jobs] == [2_102, 2_100, 2_101, 2_102]


def test_what_is_done_is_kept_when_the_run_is_interrupted(tmp_path):
    class Stop(BaseException):
        pass

    def stop(record, done, of):
        raise Stop

    with pytest.raises(Stop):
        run_bench(plan(tmp_path), on_done=stop)
    _, records = read_episodes(tmp_path / "bench" / "bottle-trained-oracle.jsonl")
    assert len(records) == 1


def test_the_oracle_succeeds_and_chance_does_not(tmp_path):
    (oracle,) = table_of(run_bench(plan(tmp_path)))
    (chance,) = table_of(run_bench(plan(tmp_path, "random", stills=True, samples=5)))
    assert oracle.total.value == 1.0
    assert chance.total.value == 0.0
    pictures = sorted((tmp_path / "bench" / "failures").glob("*.jpg"))
    assert len(pictures) == 3
    with Image.open(pictures[0]) as picture:
        assert picture.width > 800


@pytest.mark.slow
def test_two_processes_give_the_same_episodes(tmp_path):
    here = run_bench(plan(tmp_path / "here"))
    there = run_bench(plan(tmp_path / "there"), Crew(workers=2))
    assert without_times(here) == without_times(there)


@pytest.mark.slow
def test_a_ray_cluster_gives_the_same_table(tmp_path):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    here = run_bench(plan(tmp_path / "here", seeds=range(2_100, 2_104)))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        crew = Crew(ray=cluster.address)
        there = run_bench(plan(tmp_path / "there", seeds=range(2_100, 2_104)), crew)
    finally:
        cluster.shutdown()
    assert without_times(here) == without_times(there)
    assert [row.total for row in table_of(here)] == [row.total for row in table_of(there)]


def test_no_cluster_is_one_sentence(tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(BenchError, match="no Ray cluster answers"):
        run_bench(plan(tmp_path), Crew(ray="auto"))


# --- commands ----------------------------------------------------------------------------------


def test_bench_and_report(tmp_path):
    words = ("--run", tmp_path, "--policy", "oracle", "--setup", "trained,all", "--episodes", 2)
    first = run("bench", "bottle", *words, "--seed", 2_100, "--json", tmp_path / "out.json")
    assert first.exit_code == 0, first.output
    assert "seeds 2100 to 2101 (development)" in first.output
    assert "handful report" in first.output
    table = json.loads((tmp_path / "out.json").read_text())
    assert [row["setup"] for row in table["table"]] == ["trained", "all"]
    assert table["table"][0]["total"]["trials"] == 2
    assert len(table["episodes"]) == 4
    made = run("report", tmp_path)
    assert made.exit_code == 0, made.output
    page = (tmp_path / "report.html").read_text()
    assert "all, oracle" in page
    assert "handful" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cup", "--policy", "oracle"), "unknown task 'cup'"),
        (("mug", "--policy", "oracle", "--setup", "trained,al"), "unknown setup 'al'"),
        (("mug", "--policy", "oracel"), "unknown policy 'oracel'. Did you mean 'oracle'"),
        (("mug",), "no trained pick and no trained place model"),
        (("all", "--policy", "oracle", "--seed", 9_999), "kept for evaluation"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path, words, message):
    result = run("bench", *words, "--run", tmp_path)
    assert result.exit_code == 1
    assert message in str(result.exception)
    assert not (tmp_path / "bench").exists()


def test_a_report_of_nothing_is_refused(tmp_path):
    assert isinstance(run("report", tmp_path).exception, BenchError)
    assert isinstance(run("report", tmp_path, "--out", tmp_path / "x.pdf").exception, OptionError)


@pytest.mark.slow
def test_the_demo_goes_the_whole_way_and_not_twice(tmp_path):
    words = ("demo", "--task", "bottle", "--out", tmp_path, "--steps", 2, "--episodes", 1)
    first = run(*words, "--workers", 1)
    assert first.exit_code == 0, first.output
    assert "What to try next" in first.output
    folder = tmp_path / "bottle"
    page = (folder / "report.html").read_text()
    assert "What the models see" in page
    assert "What was demonstrated" in page
    weights = (folder / "pick" / "weights.safetensors").stat().st_mtime_ns
    again = run(*words, "--workers", 1)
    assert again.exit_code == 0, again.output
    assert (folder / "pick" / "weights.safetensors").stat().st_mtime_ns == weights
    _, records = read_episodes(folder / "bench" / "bottle-all.jsonl")
    assert len(records) == 1


@pytest.mark.slow
def test_a_learning_curve_is_one_command(tmp_path):
    demos = _collected(tmp_path)
    for step, vary in demo_commands.VARY["bottle"].items():
        words = ("--out", tmp_path / "run", "--step", step, "--vary", vary, "--steps", 1)
        assert run("train", demos, *words).exit_code == 0
    made = run("curve", "bottle", "--demos", demos, "--run", tmp_path / "run",
               "--sizes", "1,2", "--setup", "trained", "--episodes", 1, "--first-episode", 2_000,
               "--steps", 1)  # fmt: skip
    assert made.exit_code == 0, made.output
    assert "2 demonstrations: pick" in made.output
    trained = [path.name for path in (tmp_path / "run" / "curve").iterdir()]
    assert trained == ["demos-001"], "the run itself has the models of two demonstrations"
    assert run("report", tmp_path / "run").exit_code == 0
    assert "Learning curve" in (tmp_path / "run" / "report.html").read_text()


def _collected(folder):
    save_demos(collect_demos(task_named("bottle"), 2, seed=5), folder / "demos")
    return folder / "demos"


@pytest.mark.parametrize(
    ("sizes", "message"), [("1,x", "need numbers"), ("3,1", "increasing"), ("1,9", "1 to 2")]
)
def test_wrong_sizes_are_one_sentence(tmp_path, sizes, message):
    save_demos(small_demos(2), tmp_path / "demos")
    words = ("--demos", tmp_path / "demos", "--run", tmp_path / "run", "--sizes", sizes)
    assert message in str(run("curve", "mug", *words).exception)
