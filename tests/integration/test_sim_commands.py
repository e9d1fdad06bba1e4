"""Whole commands of the simulated world."""

import resource

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

pytest.importorskip("mujoco")

from handful.apps.sim_commands import register
from handful.demos import load_demos
from handful.errors import DemoError, OptionError
from handful.policy import Verdict
from handful.sim import (
    TASKS,
    Setup,
    SimError,
    Variant,
    _film,
    _world,
    collect_demos,
    run_oracle,
    task_named,
)
from handful.sim._film import write_video
from handful.sim.tasks import Episode

app = typer.Typer()
register(app)
runner = CliRunner()


def run(*words):
    return runner.invoke(app, [str(word) for word in words])


def test_collect_writes_demonstrations_and_a_picture(tmp_path):
    result = run("collect", "mug", "--demos", 2, "--seed", 3, "--out", tmp_path / "demos")
    assert result.exit_code == 0, result.output
    demos = load_demos(tmp_path / "demos")
    assert len(demos) == 2
    for demonstration in demos:
        pick, place = demonstration.step("pick"), demonstration.step("place")
        assert len(pick.scene) > 20_000
        assert len(place.grasp) > len(pick.grasp) + 1000
    with Image.open(tmp_path / "demos" / "demos.png") as picture:
        assert picture.width > 400
    again = run("collect", "mug", "--demos", 1, "--out", tmp_path / "demos")
    assert isinstance(again.exception, OptionError)


def test_collect_keeps_all_steps_of_a_task_and_the_hand(tmp_path):
    words = ("--demos", 1, "--seed", 3, "--gripper", "simulated-long", "--out", tmp_path / "demos")
    result = run("collect", "tidy", *words)
    assert result.exit_code == 0, result.output
    demos = load_demos(tmp_path / "demos")
    assert demos.gripper.name == "simulated-long"
    assert demos.task == task_named("tidy").task
    mug, hung, bowl, placed = demos[0].steps
    assert len(mug.grasp) == pytest.approx(len(bowl.grasp), rel=0.05)
    assert min(len(hung.grasp), len(placed.grasp)) > len(mug.grasp) + 1000


def test_collect_sees_with_the_cameras_that_were_asked_for(tmp_path):
    made = {}
    for name, words in {
        "usual": (),
        "few": ("--cameras", 1, "--grasp-views", 2, "--noise", "usual", "--arm-in-view"),
    }.items():
        result = run("collect", "bottle", "--demos", 1, "--seed", 2, "--out", tmp_path / name,
                     *words)  # fmt: skip
        assert result.exit_code == 0, result.output
        made[name] = load_demos(tmp_path / name)[0]
    for usual, few in zip(made["usual"].steps, made["few"].steps, strict=True):
        assert len(few.scene) < 0.4 * len(usual.scene)
        assert len(few.grasp) < 0.5 * len(usual.grasp)
    # The same scene, and the same pick: only the cameras differ.
    assert np.array_equal(made["usual"].steps[0].targets, made["few"].steps[0].targets)


def test_collecting_again_gives_the_same_demonstrations():
    first, second = (collect_demos(task_named("bottle"), 1, seed=2) for _ in range(2))
    for one, other in zip(first[0].steps, second[0].steps, strict=True):
        assert np.array_equal(one.targets, other.targets)
        assert np.array_equal(one.scene.points, other.scene.points)
        assert np.array_equal(one.grasp.points, other.grasp.points)


def test_an_oracle_that_always_fails_ends_with_a_reason(monkeypatch):
    failed = Verdict(False, "butter fingers")
    monkeypatch.setattr(Episode, "execute", lambda self, step, motion: failed)
    with pytest.raises(SimError, match="butter fingers"):
        collect_demos(task_named("bottle"), 1, seed=0)


def test_sim_writes_video_and_stills(tmp_path, monkeypatch):
    monkeypatch.setattr(_film, "SIZE", (160, 120))
    for module in (_film, _world):
        monkeypatch.setattr(module, "FRAME_TIME", 0.2)
    result = run("sim", "bottle", "--seed", 1, "--video", tmp_path / "film.gif")
    assert result.exit_code == 0, result.output
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames > 8
    assert (tmp_path / "film_stills.png").exists()
    assert "success" in result.output


def test_sim_runs_with_the_arm_in_view():
    result = run("sim", "bottle", "--seed", 1, "--cameras", 2, "--arm-in-view")
    assert result.exit_code == 0, result.output


def test_sim_says_no_by_its_exit_status(monkeypatch):
    monkeypatch.setattr(Episode, "success", lambda self: Verdict(False, "it fell"))
    result = run("sim", "bottle", "--seed", 1)
    assert result.exit_code == 1
    assert "it fell" in result.output


def test_wrong_names_are_one_sentence(tmp_path):
    assert isinstance(run("sim", "cup").exception, OptionError)
    assert isinstance(run("sim", "mug", "--setup", "alll").exception, OptionError)
    assert isinstance(run("sim", "mug", "--gripper", "simulatd").exception, DemoError)
    noise = run("sim", "mug", "--noise", "azure-kinec").exception
    assert isinstance(noise, OptionError)
    assert "unknown noise 'azure-kinec'. Did you mean 'azure-kinect'?" in str(noise)
    assert run("sim", "mug", "--cameras", 4).exit_code == 2
    refused = run("sim", "mug", "--gripper", "robotiq-2f-85").exception
    assert "cannot be simulated" in str(refused)
    assert isinstance(run("sim", "mug", "--video", tmp_path / "x.avi").exception, OptionError)
    with pytest.raises(OptionError, match="written as"):
        write_video([np.zeros((4, 4, 3), np.uint8)], tmp_path / "x.avi")


@pytest.mark.slow
@pytest.mark.parametrize("setup", list(Setup), ids=lambda setup: setup.value)
@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_oracle_is_reliable(name, setup):
    reasons = []
    for seed in range(900, 908):
        with TASKS[name].reset(seed, setup) as episode:
            verdict = run_oracle(episode)
        if not verdict:
            reasons.append(f"seed {seed}: {verdict.reason}")
    assert not reasons


@pytest.mark.slow
@pytest.mark.parametrize("variant", [Variant.LOWVAR, Variant.MIXED])
def test_variants_of_the_mug_can_be_collected(variant):
    assert len(collect_demos(task_named("mug"), 5, seed=1, variant=variant)) == 5


@pytest.mark.slow
def test_episodes_leave_nothing_behind():
    def rss():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize() / 2**20

    def episode(seed):
        with task_named("bottle").reset(seed, Setup.DISTRACTORS) as one:
            one.observe_scene()
            one.observe_grasp()

    for seed in range(15):
        episode(seed)
    before = rss()
    for seed in range(30):
        episode(seed)
    assert rss() - before < 12.5
