"""Whole commands of the benchmark, with the oracle, chance and barely trained models."""

import json
import os
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from typer.testing import CliRunner

pytest.importorskip("mujoco")

from handful import learning
from handful.apps import bench_commands, demo_commands, learn_commands
from handful.bench import (
    BenchError,
    BenchPlan,
    Caution,
    EpisodeWatcher,
    Executor,
    Failure,
    policy_maker,
    read_episodes,
    run_bench,
    run_episode,
    table_of,
    write_report,
)
from handful.bench.report import _pictures
from handful.bench.run import _executors
from handful.demos import (
    Action,
    Demonstration,
    DemoSet,
    gripper_from_tip,
    gripper_named,
    save_demos,
)
from handful.errors import ClusterError, DemoError, OptionError
from handful.learning import RunFolder, recipe_for, train_in_folder
from handful.policy import (
    RankedPoses,
    StepFailure,
    Verdict,
    Watcher,
    _feasibility,
    load_predictor,
    save_predictor,
)
from handful.sim import (
    SIMULATED,
    CameraRig,
    Episode,
    Setup,
    _film,
    _world,
    collect_demos,
    oracle_pose,
    oracle_predictors,
    task_named,
)
from handful.sim.tasks import BottleOnTray, BowlOnTray, MugOnHanger
from ray_cluster import two_nodes
from samples import small_demos
from small_training import smaller

LONG = gripper_named("simulated-long")
TIDY = ("pick mug", "hang mug", "pick bowl", "place bowl")

app = typer.Typer()
bench_commands.register(app)
demo_commands.register(app)
learn_commands.register(app)
runner = CliRunner()


def run(*words):
    return runner.invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def plan(folder, policy="oracle", seeds=range(2_100, 2_103), task="bottle", **more):
    return BenchPlan(folder, task, ("trained",), seeds, policy, **more)


def without_times(records):
    """What must not depend on how fast the machine is."""
    rows = [json.loads(record.to_json()) for record in records]
    for row in rows:
        for part in (row, *row["steps"]):
            del part["seconds"]
    return rows


# --- one episode -------------------------------------------------------------------------------


class Fixed:
    """A predictor that proposes given poses."""

    def __init__(self, *poses, confidence=0.5):
        self.poses = np.array(poses).reshape(-1, 4, 4)
        self.confidence = np.broadcast_to(confidence, len(poses)).astype(float)
        self.asked = []

    def sample(self, scene, grasp=None, n=100, seed=0):
        self.asked.append((grasp is not None, n, seed))
        energies = np.arange(len(self.poses), dtype=float)
        return RankedPoses(self.poses, energies, self.confidence, 0.1, SIMULATED)


class OracleBeside:
    """The oracle's pose for a step, moved by an offset in the scene, metres."""

    def __init__(self, episode, step, offset):
        self.episode, self.step, self.offset = episode, step, offset

    def sample(self, scene, grasp=None, n=100, seed=0):
        pose = oracle_pose(self.episode, self.step).copy()
        pose[:3, 3] += self.offset
        return RankedPoses(pose[None], np.zeros(1), np.ones(1), 0.1, self.episode.gripper)


def beside(offsets):
    """A policy that misses the oracle's poses by offsets, by the name of the step."""
    return lambda episode: {
        step.name: OracleBeside(episode, step, offsets.get(step.name, (0.0, 0.0, 0.0)))
        for step in episode.task.task
    }


def far_away():
    pose = np.eye(4)
    pose[:3, 3] = 5.0
    return pose


def test_the_first_feasible_pose_is_executed_and_skips_are_counted():
    task = task_named("bottle")
    pick_step, _ = task.task.steps
    with task.reset(2_100, Setup.TRAINED) as episode:
        good = oracle_pose(episode, pick_step)
        pick, place = Fixed(np.full((4, 4), np.nan), far_away(), good), Fixed(far_away())
        watcher = Watcher()
        predictors = {"pick": pick, "place": place}
        plain = Caution(look_ahead=False)
        record = run_episode(episode, lambda _: predictors, 7, watcher, plain)
    assert pick.asked == [(False, 7, 2_100)]
    assert place.asked[0] == (True, 7, 2_100)
    picked = record.step("pick")
    assert (picked.ok, picked.skips, picked.skipped["not a pose"]) == (True, 2, 1)
    assert np.allclose(picked.T_scene_gripper, good)
    assert (record.success, record.failure) == (False, Failure("place", StepFailure.INFEASIBLE))
    assert "out of reach" in record.reason
    assert [look.chosen for look in watcher.looks] == [2, None, None], "it looked again"


@pytest.mark.parametrize(
    ("poses", "kind"),
    [([], StepFailure.NOT_PROPOSED), ([far_away()], StepFailure.INFEASIBLE)],
)
def test_without_a_pose_to_execute_the_first_step_fails(poses, kind):
    with task_named("tidy").reset(2_101, Setup.TRAINED) as episode:
        record = run_episode(episode, lambda _: dict.fromkeys(TIDY, Fixed(*poses)))
    assert (record.success, record.failure) == (False, Failure("pick mug", kind))
    assert (record.planned, len(record.steps)) == (TIDY, 1)


def test_a_predictor_that_refuses_is_a_failure_with_its_reason():
    def refuse(*_, **__):
        raise OptionError("the scene is too dark.")

    with task_named("bottle").reset(2_101, Setup.TRAINED) as episode:
        predictors = {"pick": SimpleNamespace(sample=refuse), "place": Fixed()}
        record = run_episode(episode, lambda _: predictors)
    assert record.failure == Failure("pick", StepFailure.NOT_PROPOSED)
    assert record.reason == "the scene is too dark."


@pytest.mark.parametrize(
    ("offset", "kind"),
    [((0.0, 0.0, 0.02), StepFailure.LOST), ((0.07, 0.07, 0.0), StepFailure.AWAY)],
)
def test_a_pick_that_goes_elsewhere_and_one_that_loses_the_object_are_told_apart(
    monkeypatch, offset, kind
):
    monkeypatch.setattr(Episode, "_pick", lambda self, pose: Verdict(False, "slipped"))
    monkeypatch.setattr(Episode, "reach", lambda self, step, pose: Verdict(True))
    monkeypatch.setattr(_feasibility, "closes_on_something", lambda *_: True)
    with task_named("bottle").reset(2_100, Setup.TRAINED) as episode:
        record = run_episode(episode, beside({"pick": offset}))
    assert record.failure == Failure("pick", kind)
    assert (record.steps[0].failure, record.reason) == (kind, "slipped")


@pytest.mark.parametrize(
    ("offset", "kind"),
    [((0.0, 0.0, 0.15), StepFailure.LOST), ((0.25, 0.25, 0.15), StepFailure.AWAY)],
)
def test_a_place_beside_the_target_and_one_that_does_not_hold_are_told_apart(
    monkeypatch, offset, kind
):
    monkeypatch.setattr(Episode, "success", lambda self: Verdict(False, "it fell"))
    with task_named("bottle").reset(2_100, Setup.TRAINED) as episode:
        record = run_episode(episode, beside({"place": offset}))
    assert record.failure == Failure("place", kind)
    assert (record.steps[1].ok, record.reason) == (False, "it fell")


@pytest.mark.parametrize(("what", "step"), [(MugOnHanger, "hang mug"), (BowlOnTray, "place bowl")])
def test_the_end_names_the_step_whose_object_is_not_held(monkeypatch, what, step):
    monkeypatch.setattr(what, "well_placed", lambda self, world: Verdict(False, "askew"))

    class Told(EpisodeWatcher):
        ends = 0

        def judged(self, verdict):
            self.ends += 1

    watcher = Told()
    with task_named("tidy").reset(2_100, Setup.TRAINED) as episode:
        record = run_episode(episode, oracle_predictors, watcher=watcher)
    assert record.failure == Failure(step, StepFailure.LOST)
    assert record.reason == "askew"
    assert [one.ok for one in record.steps] == [name != step for name in TIDY]
    assert watcher.ends == 1
    assert record.things == ("mug", "bowl")


# --- many episodes -----------------------------------------------------------------------------


def test_finished_episodes_are_not_run_again(tmp_path, monkeypatch):
    first = run_bench(plan(tmp_path, seeds=range(2_100, 2_102)))
    jobs = []
    run_here = _executors.run_here
    monkeypatch.setattr(
        _executors, "run_here", lambda config, todo: jobs.extend(todo) or run_here(config, todo)
    )
    told = []
    again = run_bench(plan(tmp_path), on_done=lambda record, done, of: told.append((done, of)))
    assert [job.seed for job in jobs] == [2_102]
    assert told == [(3, 3)]
    assert again[:2] == first
    run_bench(plan(tmp_path), fresh=True)
    assert [job.seed for job in jobs] == [2_102, 2_100, 2_101, 2_102]


def test_an_interrupted_run_keeps_what_is_done_and_goes_on_to_the_same_end(tmp_path):
    class Stop(BaseException):
        pass

    def stop(record, done, of):
        raise Stop

    with pytest.raises(Stop):
        run_bench(plan(tmp_path / "one"), on_done=stop)
    path = tmp_path / "one" / "bench" / "bottle-trained-oracle.jsonl"
    _, kept = read_episodes(path)
    assert [record.seed for record in kept] == [2_100]
    resumed = run_bench(plan(tmp_path / "one"))
    assert resumed[0] == kept[0]
    assert without_times(resumed) == without_times(run_bench(plan(tmp_path / "other")))


def test_the_oracle_succeeds_and_chance_does_not(tmp_path):
    (oracle,) = table_of(run_bench(plan(tmp_path)))
    (chance,) = table_of(run_bench(plan(tmp_path, "random", stills=True, samples=5)))
    assert oracle.total.value == 1.0
    assert chance.total.value == 0.0
    pictures = sorted((tmp_path / "bench" / "failures").glob("*.jpg"))
    assert len(pictures) == 3
    with Image.open(pictures[0]) as picture:
        assert picture.width > 800


def test_a_failure_in_the_last_of_four_steps_has_a_sheet_with_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(BowlOnTray, "well_placed", lambda self, world: Verdict(False, "askew"))
    one = range(2_100, 2_101)
    (record,) = run_bench(plan(tmp_path, seeds=one, task="tidy", stills=True))
    assert record.outcome == "place bowl: object not held"
    (sheet,) = (tmp_path / "bench" / "failures").iterdir()
    assert sheet.name == "tidy-trained-oracle-2100.jpg"
    with Image.open(sheet) as picture:
        assert picture.height > 1200, "four looks, and six stills of what happened"
    page = write_report(tmp_path, tmp_path / "report.html").read_text()
    assert "place bowl: object not held: askew" in page


@pytest.mark.slow
def test_a_failure_can_be_filmed_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(_film, "SIZE", (320, 240))
    for module in (_film, _world):
        monkeypatch.setattr(module, "FRAME_TIME", 0.2)
    monkeypatch.setattr(BottleOnTray, "well_placed", lambda self, world: Verdict(False, "askew"))
    run_bench(plan(tmp_path, seeds=range(2_100, 2_101), videos=True))
    (film,) = (tmp_path / "bench" / "failures").iterdir()
    assert film.name in ("bottle-trained-oracle-2100.mp4", "bottle-trained-oracle-2100.gif")
    assert film.stat().st_size > 10_000


def test_the_oracle_succeeds_with_another_hand_which_is_kept_apart(tmp_path):
    one = range(2_100, 2_101)
    usual = plan(tmp_path, seeds=one)
    other = plan(tmp_path, seeds=one, gripper="simulated-long")
    assert (usual.hand, usual.other_hand) == (SIMULATED, "")
    assert (other.hand, other.other_hand) == (LONG, "simulated-long")
    records = [run_bench(one)[0] for one in (usual, other)]
    assert [record.success for record in records] == [True, True]
    poses = [np.array(record.step("pick").T_scene_gripper) for record in records]
    assert np.abs(poses[0] - poses[1]).max() > 0.01
    names = sorted(path.name for path in (tmp_path / "bench").glob("*.jsonl"))
    assert names == ["bottle-trained-oracle-simulated-long.jsonl", "bottle-trained-oracle.jsonl"]
    conditions, _ = read_episodes(tmp_path / "bench" / names[0])
    assert conditions.gripper == "simulated-long"


def test_results_of_other_cameras_are_kept_apart(tmp_path):
    one = range(2_100, 2_101)
    usual = plan(tmp_path, seeds=one)
    other = plan(tmp_path, seeds=one, rig=CameraRig(1, 2, "usual", True))
    assert [run_bench(one)[0].success for one in (usual, other)] == [True, True]
    names = sorted(path.name for path in (tmp_path / "bench").glob("*.jsonl"))
    assert names == [
        "bottle-trained-oracle-1_camera-2_grasp_views-noise_usual-arm_in_view.jsonl",
        "bottle-trained-oracle.jsonl",
    ]
    rigs = [read_episodes(tmp_path / "bench" / name)[0].rig for name in names]
    assert rigs == ["1 camera, 2 grasp views, noise usual, arm in view", ""]
    page = write_report(tmp_path, tmp_path / "report.html", pictures=False).read_text()
    assert "trained, 1 camera, 2 grasp views, noise usual, arm in view, oracle" in page


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("simulated-lang", DemoError, "Did you mean 'simulated-long'"),
        ("robotiq-2f-85", OptionError, "cannot be simulated"),
    ],
)
def test_a_hand_that_the_robot_cannot_carry_is_refused(tmp_path, name, error, message):
    with pytest.raises(error, match=message):
        plan(tmp_path, gripper=name)


def test_a_folder_without_meshes_for_any_object_of_a_task_is_refused(tmp_path):
    (tmp_path / "cups").mkdir()
    with pytest.raises(OptionError, match="need one or more of the folders mug and bowl in it"):
        plan(tmp_path / "run", task="tidy", objects=tmp_path)
    (tmp_path / "bowl").mkdir()
    assert plan(tmp_path / "run", task="tidy", objects=tmp_path).objects == tmp_path


@pytest.mark.slow
def test_two_processes_give_the_same_episodes_and_leave_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    here = run_bench(plan(tmp_path / "here"))
    there = run_bench(plan(tmp_path / "there"), Executor(workers=2))
    assert without_times(here) == without_times(there)
    assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.slow(seconds=30)
def test_a_ray_cluster_gives_the_same_table(tmp_path):
    pytest.importorskip("ray")
    here = run_bench(plan(tmp_path / "here"))
    with two_nodes() as address:
        there = run_bench(plan(tmp_path / "there"), Executor(ray=address))
    assert without_times(here) == without_times(there)
    assert [row.total for row in table_of(here)] == [row.total for row in table_of(there)]


def test_no_cluster_is_one_sentence(tmp_path):
    pytest.importorskip("ray")
    for address in ("auto", "127.0.0.1:1", "127.0.0.1:99999999"):
        with pytest.raises(ClusterError, match="no Ray cluster answers"):
            run_bench(plan(tmp_path), Executor(ray=address))


# --- trained models ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demos():
    return collect_demos(task_named("bottle"), 1, seed=5)


@pytest.fixture(scope="module")
def trained(demos, tmp_path_factory):
    """A run whose models are small and were trained for one step: they know nothing, and work."""
    folder = tmp_path_factory.mktemp("run")
    for name in demos.task.names:
        train_in_folder(demos, smaller(recipe_for(demos, name, steps=1)), folder)
    RunFolder(folder).note(demonstrations={"folder": "my demos", "count": 1})
    return folder


@pytest.fixture
def small_trainings(monkeypatch):
    """Commands train small models, in this process, and draw what they see in one scene."""

    def small_recipe_for(*arguments, **options):
        return smaller(recipe_for(*arguments, **options))

    def train_here(demos, recipes, folder, *, workers, report, **options):
        for recipe in recipes:
            tell = partial(report, recipe.step.name)
            train_in_folder(demos, recipe, folder, report=tell, **options)

    monkeypatch.setattr(learning, "recipe_for", small_recipe_for)
    monkeypatch.setattr("handful.learning._edf.recipe_for", small_recipe_for)
    monkeypatch.setattr(learning, "train_side_by_side", train_here)
    monkeypatch.setattr(_pictures, "_SCENES", _pictures._SCENES[:1])


def copied(trained, folder, **changes):
    """The run with something about the predictors changed."""
    for name in ("pick", "place"):
        predictor = load_predictor(trained / name)
        changed = replace(predictor, **changes)
        save_predictor(changed, folder / name)
    return folder


def test_models_are_judged_with_the_hand_they_were_trained_with_or_another(trained, tmp_path):
    own, other = plan(trained, "model"), plan(trained, "model", gripper="simulated-long")
    assert (own.hand, own.other_hand) == (SIMULATED, "")
    assert own.conditions("all").file_name == "bottle-all.jsonl"
    assert other.conditions("all").file_name == "bottle-all-simulated-long.jsonl"
    assert own.conditions("all").models == other.conditions("all").models != ""
    task = task_named("bottle").task
    for hand in (SIMULATED, LONG):
        predictors = policy_maker("model", trained, task, hand)(None)
        assert {one.gripper.name for one in predictors.values()} == {hand.name}
        assert {one.trained_gripper.name for one in predictors.values()} == {"simulated"}


def test_models_of_the_other_hand_are_judged_with_it(trained, tmp_path):
    folder = copied(trained, tmp_path, trained_gripper=LONG)
    assert (plan(folder, "model").hand, plan(folder, "model").other_hand) == (LONG, "")
    with_usual = plan(folder, "model", gripper="simulated")
    assert (with_usual.hand, with_usual.other_hand) == (SIMULATED, "simulated")


def test_models_of_a_hand_that_the_robot_lacks_are_judged_with_the_simulated_one(trained, tmp_path):
    mine = replace(SIMULATED, name="", opening=0.07)
    folder = copied(trained, tmp_path, trained_gripper=mine)
    found = plan(folder, "model")
    assert (found.hand, found.other_hand) == (SIMULATED, "simulated")
    assert found.conditions("all").file_name == "bottle-all-simulated.jsonl"


def test_models_of_version_1_have_the_simulated_hand_and_their_poses_are_not_moved(
    trained, tmp_path
):
    """Version 1 wrote the height of the finger tips, 5 mm beyond the contact point."""
    old = gripper_from_tip(tip=0.15, opening=0.08, axis="x")
    folder = copied(trained, tmp_path, trained_gripper=old)
    found = plan(folder, "model")
    assert (found.hand, found.other_hand) == (SIMULATED, "")
    predictors = policy_maker("model", folder, found.steps, SIMULATED)(None)
    assert all(one.trained_gripper == one.gripper == SIMULATED for one in predictors.values())


def test_a_run_that_lacks_a_model_says_which_step_and_how_to_train_it(trained, tmp_path):
    with pytest.raises(BenchError) as caught:
        plan(tmp_path / "none", "model")
    assert str(caught.value) == (
        f"{tmp_path / 'none'}: has no trained model for the steps 'pick' and 'place'; train them: "
        f"handful train DEMOS --out {tmp_path / 'none'}"
    )
    copied(trained, tmp_path)
    (tmp_path / "place").rename(tmp_path / "elsewhere")
    RunFolder(tmp_path).note(demonstrations={"folder": "my demos"})
    with pytest.raises(BenchError) as caught:
        plan(tmp_path, "model")
    assert str(caught.value) == (
        f"{tmp_path}: has no trained model for the step 'place'; train it: handful train "
        f"'my demos' --out {tmp_path} --step place"
    )


def test_a_model_of_another_action_is_refused(trained, tmp_path):
    copied(trained, tmp_path)
    (tmp_path / "place").rename(tmp_path / "spare")
    (tmp_path / "pick").rename(tmp_path / "place")
    (tmp_path / "spare").rename(tmp_path / "pick")
    task = task_named("bottle").task
    with pytest.raises(BenchError, match=r"step 'pick' is for the action 'place': need 'pick'"):
        policy_maker("model", tmp_path, task, SIMULATED)


@pytest.mark.slow
def test_models_run_and_the_report_shows_what_they_see(trained):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        made = run("bench", "bottle", "--run", trained, "--setup", "trained", "--episodes", 1,
                   "--seed", 2_100, "--gripper", "simulated-long")  # fmt: skip
        assert made.exit_code == 0, made.output
        assert run("report", trained).exit_code == 0
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    assert "Success: bottle, hand simulated-long" in made.output
    page = (trained / "report.html").read_text()
    assert "trained, hand simulated-long" in page
    assert "What the models see" in page
    for name in ("pick", "place"):
        assert f"{name}: loss and likelihood" in page
    assert "Model of the step &#39;pick&#39;. Upright, as demonstrated: best poses" in page


# --- commands ----------------------------------------------------------------------------------


def test_bench_and_report(tmp_path):
    words = ("--run", tmp_path, "--policy", "oracle", "--setup", "trained,all", "--episodes", 2)
    first = run("bench", "bottle", *words, "--seed", 2_100, "--json", tmp_path / "out.json")
    assert first.exit_code == 0, first.output
    assert "seeds 2100 to 2101 (development)" in first.output
    assert "Hand of the robot: simulated." in first.output
    assert "handful report" in first.output
    table = json.loads((tmp_path / "out.json").read_text())
    assert [row["setup"] for row in table["table"]] == ["trained", "all"]
    assert table["table"][0]["total"]["trials"] == 2
    assert [step["name"] for step in table["table"][0]["steps"]] == ["pick", "place"]
    assert table["table"][0]["total"]["paper"] is None, "the paper has no oracle"
    assert table["table"][0]["cameras"] == "3 cameras, 6 grasp views, noise none"
    assert len(table["episodes"]) == 4
    made = run("report", tmp_path)
    assert made.exit_code == 0, made.output
    page = (tmp_path / "report.html").read_text()
    assert "all, oracle" in page
    assert "handful" in (tmp_path / "report.md").read_text()


def test_the_table_says_with_which_cameras(tmp_path):
    made = run("bench", "bottle", "--run", tmp_path, "--policy", "oracle", "--setup", "trained",
               "--episodes", 1, "--seed", 2_100, "--cameras", 2, "--noise", "kinect-v1",
               "--json", tmp_path / "out.json")  # fmt: skip
    assert made.exit_code == 0, made.output
    words = "2 cameras, 6 grasp views, noise kinect-v1"
    assert f"Cameras: {words}." in made.output
    assert f"Success: bottle, {words}" in made.output
    table = json.loads((tmp_path / "out.json").read_text())
    assert table["table"][0]["cameras"] == words


def test_a_task_of_four_steps_has_four_columns(tmp_path):
    made = run("bench", "tidy", "--run", tmp_path, "--policy", "oracle", "--setup", "trained",
               "--episodes", 1, "--seed", 2_100)  # fmt: skip
    assert made.exit_code == 0, made.output
    head = next(line for line in made.output.splitlines() if "setup" in line and "total" in line)
    columns = [word for word in head.split("  ") if word.strip()]
    assert [word.strip() for word in columns] == [
        "setup",
        "n",
        *TIDY,
        "total",
        "seconds",
        "skipped",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cup", "--policy", "oracle"), "unknown task 'cup'"),
        (("mug", "--policy", "oracle", "--setup", "trained,al"), "unknown setup 'al'"),
        (("mug", "--policy", "oracel"), "unknown policy 'oracel'. Did you mean 'oracle'"),
        (("mug", "--policy", "oracle", "--gripper", "hook"), "unknown gripper 'hook'"),
        (("mug", "--policy", "oracle", "--noise", "usua"), "unknown noise 'usua'. Did you mean"),
        (("mug",), "no trained model for the steps 'pick' and 'place'"),
        (("tidy",), "no trained model for the steps 'pick mug' and 'hang mug' and 'pick bowl'"),
        (("all",), "has no run of a task"),
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


@pytest.mark.slow(seconds=30)
@pytest.mark.usefixtures("small_trainings")
def test_the_demo_is_not_done_twice(tmp_path, monkeypatch):
    """A task of four steps, with small models."""
    folder, names = demonstrated(tmp_path, "tidy", monkeypatch)
    weights = [folder / name / "weights.safetensors" for name in names]
    before = [path.stat().st_mtime_ns for path in weights]
    demonstrated(tmp_path, "tidy", monkeypatch)
    assert [path.stat().st_mtime_ns for path in weights] == before


@pytest.mark.slow(seconds=40)
def test_the_demo_goes_the_whole_way(tmp_path, monkeypatch):
    """With models of the size that users get."""
    demonstrated(tmp_path, "bottle", monkeypatch)


def demonstrated(out, task, monkeypatch):
    """The run's folder after `handful demo`, and the names of the task's steps."""
    monkeypatch.setattr(demo_commands, "DEMONSTRATIONS", 1)  # ten take minutes, and prove no more
    words = ("demo", "--task", task, "--out", out, "--steps", 2, "--episodes", 1, "--workers", 1)
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "What to try next" in done.output
    folder, names = out / task, task_named(task).task.names
    page = (folder / "report.html").read_text()
    assert "What the models see" in page
    assert "What was demonstrated" in page
    _, records = read_episodes(folder / "bench" / f"{task}-all.jsonl")
    assert [record.planned for record in records] == [names]
    return folder, names


@pytest.mark.slow(seconds=20)
@pytest.mark.usefixtures("small_trainings")
def test_a_learning_curve_is_one_command(tmp_path):
    demos = tmp_path / "demos"
    save_demos(collect_demos(task_named("bottle"), 2, seed=5), demos)
    assert run("train", demos, "--out", tmp_path / "run", "--steps", 1).exit_code == 0
    made = run("curve", "bottle", "--demos", demos, "--run", tmp_path / "run",
               "--sizes", "1,2", "--setup", "trained", "--episodes", 1, "--first-episode", 2_000,
               "--steps", 1)  # fmt: skip
    assert made.exit_code == 0, made.output
    assert "2 demonstrations: pick" in made.output
    trained = [path.name for path in (tmp_path / "run" / "curve").iterdir()]
    assert trained == ["demos-001"], "the run itself has the models of two demonstrations"
    assert run("report", tmp_path / "run").exit_code == 0
    assert "Learning curve" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("sizes", "message"), [("1,x", "need numbers"), ("3,1", "increasing"), ("1,9", "1 to 2")]
)
def test_wrong_sizes_are_one_sentence(tmp_path, sizes, message):
    save_demos(small_demos(2), tmp_path / "demos")
    words = ("--demos", tmp_path / "demos", "--run", tmp_path / "run", "--sizes", sizes)
    assert message in str(run("curve", "mug", *words).exception)


@pytest.mark.usefixtures("small_trainings")
def test_models_of_picks_only_are_trained_and_the_missing_place_is_told(demos, tmp_path):
    picks = DemoSet(
        tuple(
            Demonstration(demo.name, tuple(s for s in demo.steps if s.action is Action.PICK))
            for demo in demos
        ),
        demos.gripper,
    )
    demo_commands.train_run(picks, tmp_path / "picks", tmp_path / "run", 0, 1)
    assert RunFolder(tmp_path / "run").task.names == ("pick",)
    with pytest.raises(BenchError, match="no trained model for the step 'place'; train it"):
        plan(tmp_path / "run", "model")
