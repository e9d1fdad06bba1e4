"""`handful train` and `handful infer`, from the outside."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from command_line import HANDFUL
from handful.clouds import PointCloud, read_cloud, write_cloud
from handful.demos import gripper_named, load_demos, make_sample, save_demos
from handful.learning import RunFolder, make_trainer, recipe_for

SMALL_HANDFUL = Path(__file__).parents[1] / "small_handful.py"
"""As `handful`, with small models; those of full size are trained by tests of the demo."""


@pytest.fixture(scope="module")
def demos(tmp_path_factory) -> Path:
    return save_demos(make_sample(1, seed=0), tmp_path_factory.mktemp("demos") / "one")


@pytest.fixture(scope="module")
def trained(demos, tmp_path_factory) -> Path:
    """Both models after three steps: they know nothing, and everything else works."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    words = [sys.executable, str(SMALL_HANDFUL), "train", demos, "--out", folder, "--steps", "3"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Trained:" in done.stdout
    return folder


def cloud(demos: Path, name: str) -> Path:
    (found,) = demos.rglob(f"{name}.ply")
    return found


def test_a_run_says_how_it_was_made(trained, demos):
    summary = RunFolder(trained).summary()
    assert (summary.demonstrations.folder, summary.demonstrations.count) == (str(demos), 1)
    options = {
        "method": "edf",
        "preset": "fast",
        "colors_matter": False,
        "seed": 0,
    }
    assert summary.options == options
    assert summary.command.startswith("handful train ")
    assert [line.step for line in RunFolder(trained).curve("place")] == [0, 1, 2]
    line = RunFolder(trained).curve("pick")[0]
    assert None not in (line.loss, line.target_energy, line.negative_energy, line.seconds)
    assert line.weights


@pytest.mark.parametrize("step", ["pick", "place"])
@pytest.mark.parametrize("named", [False, True])
def test_infer_writes_poses_and_a_picture(run, trained, demos, step, named, tmp_path):
    words = ["infer", trained, cloud(demos, f"{step}_scene"), "-n", 7]
    words += ["--json", tmp_path / "p.json", "--picture", tmp_path / "p.png"]
    words += ["--step", step] if named else []
    if step == "place":
        words += ["--grasp", cloud(demos, "place_grasp")]
    done = run(*words)
    assert done.returncode in (0, 3), done.stderr
    content = json.loads((tmp_path / "p.json").read_text())
    assert content["step"] == content["action"] == step
    assert 1 <= len(content["poses"]) <= 7
    pose = content["poses"][0]
    moved = np.subtract(pose["T_scene_gripper"], pose["T_scene_pre"])
    assert np.linalg.norm(moved) == pytest.approx(0.08)
    assert (done.returncode == 0) == content["found"]
    assert ("No target found" in done.stdout) != content["found"]
    assert (tmp_path / "p.png").stat().st_size > 10_000


def test_infer_for_another_gripper(run, trained, demos, tmp_path):
    scene, found = cloud(demos, "pick_scene"), []
    for words in ([], ["--gripper", "franka-hand"]):
        done = run("infer", trained, scene, "-n", 5, "--json", tmp_path / "p.json", *words)
        assert done.returncode in (0, 3), done.stderr
        found.append(json.loads((tmp_path / "p.json").read_text()))
    own, other = load_demos(demos).gripper, gripper_named("franka-hand")
    assert [one["gripper"] for one in found] == [own.name, other.name]
    # Which poses are feasible depends on the hand; the best one for the model does not.
    best = [min(one["poses"], key=lambda pose: pose["energy"]) for one in found]
    first, second = (np.array(pose["T_scene_gripper"]) for pose in best)
    np.testing.assert_allclose(
        first @ own.T_gripper_contact, second @ other.T_gripper_contact, atol=1e-9
    )
    assert not np.allclose(first, second, atol=1e-3)


def test_mistakes_are_one_sentence(run, trained, demos, tmp_path):
    scene = cloud(demos, "pick_scene")
    wrong_use = (
        "leave out --grasp", "give --grasp", ".png or .jpg", "--resume", "other demonstrations",
        "preset 'quick'", "method 'edff'",
    )  # fmt: skip
    for words, told in [
        (["infer", trained / "pick", scene, "--grasp", scene], "leave out --grasp"),
        (["infer", trained / "place", scene], "give --grasp"),
        (["infer", tmp_path, scene], "holds no training run"),
        (["infer", trained, scene, "--step", "pikc"], "Did you mean 'pick'"),
        (["infer", trained, scene, "--gripper", "franca-hand"], "Did you mean 'franka-hand'"),
        (["infer", trained, tmp_path / "no.ply"], "no.ply"),
        (["infer", trained, scene, "--picture", "x.txt"], ".png or .jpg"),
        (["train", demos, "--out", trained], "--resume"),
        (["train", demos, "--out", trained, "--resume", "--seed", 5], "other demonstrations"),
        (["train", demos, "--out", tmp_path / "r", "--step", "grab"], "step 'grab'"),
        (["train", demos, "--out", tmp_path / "r", "--preset", "quick"], "preset 'quick'"),
        (["train", demos, "--out", tmp_path / "r", "--method", "edff"], "method 'edff'"),
        (["train", tmp_path, "--out", tmp_path / "r"], "demos.json"),
    ]:
        done = run(*words)
        assert done.returncode == (2 if told in wrong_use else 1), (words, done.stdout)
        assert told in done.stderr.replace("\n", " "), (words, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_scene_without_colours_is_one_sentence(run, trained, demos, tmp_path):
    grey = PointCloud(read_cloud(cloud(demos, "pick_scene")).points)
    write_cloud(grey, tmp_path / "grey.ply")
    done = run("infer", trained, tmp_path / "grey.ply")
    assert done.returncode == 1
    assert "no colours" in done.stderr


def test_ctrl_c_then_resume_is_the_same_run(run, demos, tmp_path):
    """Interrupted and resumed: the weights are those of a run left alone."""
    alone, often = tmp_path / "alone", tmp_path / "often"
    words = ["train", str(demos), "--step", "pick", "--out"]
    process = subprocess.Popen([*HANDFUL, *words, str(often)], stdout=subprocess.DEVNULL)
    try:  # the run has 600 steps: it cannot end before the interrupt
        wait_for(RunFolder(often).log("pick"), process)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    done = len(RunFolder(often).curve("pick"))
    assert RunFolder(often).checkpoint("pick").is_file()
    assert not RunFolder(often).model("pick").exists()
    # A run of few steps more, from the checkpoint and from the beginning.
    loaded = load_demos(demos)
    recipe = recipe_for(loaded, "pick")
    results = []
    for folder in (alone, often):
        trainer = make_trainer(loaded, recipe)
        if folder is often:
            trainer.resume(load_file(RunFolder(often).checkpoint("pick")))
            assert trainer.done == done
        trainer.run(until=done + 2)
        results.append(trainer.state())
    assert results[0].keys() == results[1].keys()
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
    assert path.exists()


@pytest.mark.slow(seconds=12)
def test_torchrun_shares_the_work(demos, tmp_path):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = [str(SMALL_HANDFUL), "train", str(demos), "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [*launch, "--nproc-per-node", "2", *words, "--step", "place", "--steps", "1"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("Trained:") == 1
    assert (tmp_path / "run" / "place" / "weights.safetensors").is_file()
