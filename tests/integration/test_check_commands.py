"""`handful check`, `handful check camera` and `handful evaluate` as people type them."""

import json

import numpy as np
import pytest

from corruptions import CORRUPTIONS
from handful.clouds import write_cloud
from handful.demos import save_demos
from handful.evaluation import _folds as folds
from handful.learning import recipe_for, train_in_folder
from handful.recordings import write_rgbd_example
from samples import thin_sample
from small_training import smaller


@pytest.fixture
def good(tmp_path):
    return save_demos(thin_sample(2), tmp_path / "good")


@pytest.fixture
def bad(tmp_path):
    _, corrupt = CORRUPTIONS["inverse poses"]
    return save_demos(corrupt(thin_sample(2)), tmp_path / "bad")


def test_check_says_that_all_is_well(run, good):
    done = run("check", good)
    assert done.returncode == 0, done.stderr
    assert "fit each other" in done.stdout
    assert (good / "check.png").is_file()
    assert run("check", "demos", good, "--picture", good / "x.gif").returncode == 2


def test_a_mistake_is_named_and_training_stops(run, bad, tmp_path):
    done = run("check", bad)
    assert done.returncode == 1
    assert "T_gripper_scene, the inverse of what is needed" in done.stdout
    assert done.stdout.index("Cure: invert them") < done.stdout.index("wrong pick")
    trained = run("train", bad, "--out", tmp_path / "run", "--steps", 1)
    assert trained.returncode == 1
    assert "--force" in trained.stderr
    assert not (tmp_path / "run").exists()


def test_millimetres_are_named_when_the_folder_is_read(run, good):
    manifest = json.loads((good / "demos.json").read_text())
    target = manifest["demonstrations"][0]["steps"][0]["targets"][0]
    pose = np.array(target) if isinstance(target, list) else None
    if pose is None:
        target["position"] = [1000.0 * value for value in target["position"]]
    else:
        pose[:3, 3] *= 1000.0
        manifest["demonstrations"][0]["steps"][0]["targets"][0] = pose.tolist()
    (good / "demos.json").write_text(json.dumps(manifest))
    done = run("check", good)
    assert done.returncode == 1
    assert "in metres" in done.stderr


def test_check_camera_says_that_there_is_no_hand(run, good, tmp_path):
    step = thin_sample(2)[0].steps[0]
    write_cloud(step.scene, tmp_path / "scene.ply")
    pose = np.diag([1.0, -1.0, -1.0, 1.0])
    pose[2, 3] = 0.4
    (tmp_path / "pose.json").write_text(json.dumps(pose.tolist()))
    done = run("check", "camera", tmp_path / "scene.ply", "--pose", tmp_path / "pose.json",
               "--gripper", "simulated", "--picture", tmp_path / "camera.png")  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "The hand is not in the cloud" in done.stdout
    assert (tmp_path / "camera.png").is_file()


@pytest.mark.slow(seconds=10)
def test_check_camera_measures_the_cameras_of_recordings(run, tmp_path):
    folder = write_rgbd_example(tmp_path / "peg_images", 1)
    done = run("check", "camera", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Camera 'table': is where its pose says: the hand is elsewhere in 0 of 3" in done.stdout
    manifest = json.loads((folder / "recordings.json").read_text())
    place = manifest["cameras"]["table"]["T_robot_camera"]
    right = np.array(place["position"])
    place["position"] = np.add(right, [12.0, -9.0, 8.0]).tolist()
    (folder / "recordings.json").write_text(json.dumps(manifest))
    done = run("check", "camera", folder)
    assert done.returncode == 1
    assert "Camera 'table': is off: the hand is elsewhere in 3 of 3 views." in done.stdout
    written = json.loads(done.stdout.split('"T_robot_camera": ')[1].splitlines()[0])
    assert np.linalg.norm(right - written["position"]) < 3.0  # millimetres
    del manifest["hand"]
    (folder / "recordings.json").write_text(json.dumps(manifest))
    done = run("check", "camera", folder)
    assert done.returncode == 1
    assert "has no field 'hand' with views of the open, empty hand" in done.stderr
    done = run("check", "camera", folder, "--gripper", "franka-hand")
    assert done.returncode == 2
    assert "leave out --pose, --gripper" in done.stderr
    done = run("check", "camera", folder / "recordings.ply")
    assert done.returncode == 2
    assert "give the arm's pose with --pose and the hand with --gripper" in done.stderr


def test_evaluate_writes_a_page_and_report_writes_it_again(run, good, tmp_path, monkeypatch):
    def train_here(jobs, **options):
        for job in jobs:
            train_in_folder(job.demos, job.recipe, job.folder, resume=True)

    monkeypatch.setattr(folds, "train_jobs", train_here)
    monkeypatch.setattr(
        folds, "recipe_for", lambda *words, **options: smaller(recipe_for(*words, **options))
    )
    out = tmp_path / "evaluation"
    done = run("evaluate", good, "--out", out, "--steps", 1)
    assert done.returncode == 0, done.stderr
    assert "quick look" in done.stdout
    page = (out / "report.html").read_text()
    assert "How good is it?" in page
    assert "What to do next" in page
    assert page.count("<img") >= 2
    (out / "report.html").unlink()
    assert run("report", out, "--no-pictures").returncode == 0
    assert "How good is it?" in (out / "report.html").read_text()
