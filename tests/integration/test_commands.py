"""The command line as a person uses it: what it prints, writes and exits with."""

import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

import handful
from command_line import HANDFUL, run_process
from handful.apps.cli import KNOWN_HANDS
from handful.clouds import write_cloud
from handful.demos import HANDS, gripper_named, load_demos, save_demos
from samples import small_cloud, small_demos


def test_version_and_help_answer_without_loading_torch():
    started = time.perf_counter()
    assert run_process("--version").stdout.strip() == f"handful {handful.__version__}"
    assert time.perf_counter() - started < 5
    code = "import sys, handful.apps.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        "sample",
        "train",
        "infer",
        "evaluate",
        "check camera",
        "serve",
        "show",
        "demo",
        "bench",
        "report",
        "curve",
        "import edf",
        "import npz",
        "import clouds",
    ],
)
def test_help_has_an_example(command, run):
    result = run(*command.split(), "--help")
    assert result.returncode == 0
    assert f"Example: handful {command}" in result.stdout


@pytest.mark.parametrize("command", ["npz", "clouds"])
def test_help_names_the_known_hands(command, run):
    assert tuple(sorted(HANDS)) == KNOWN_HANDS
    shown = " ".join(run("import", command, "--help").stdout.replace("│", " ").split())
    for name in HANDS:
        assert name in shown


def test_sample_import_show(tmp_path, run):
    made = run("sample", "--demos", 2, "--out", tmp_path / "set")
    assert made.returncode == 0, made.stderr
    assert f"handful show {tmp_path / 'set'}" in made.stdout.replace("\n", "")
    shown = run("show", tmp_path / "set", "--out", tmp_path / "p.png", "--most", 1)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count(" pick ") == shown.stdout.count(" place ") == 4, "step and action"
    assert (
        "Gripper: not a known hand; contact at (0, 0, 0.145) m in its frame; opens along x by "
        "0.08 m; its shape is known (4 boxes, 0 meshes)."
    ) in shown.stdout
    with Image.open(tmp_path / "p.png") as image:
        colors = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)
    reddish = (colors[:, 0] > 120) & (colors[:, 1] < 80) & (colors[:, 2] < 80)
    assert reddish.mean() > 0.02, "no red mug in the picture"


def test_the_same_seed_gives_the_same_files(tmp_path, run):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert run("sample", "--demos", 1, "--seed", seed, "--out", tmp_path / name).returncode == 0
    read = {
        name: {p.name: p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        for name in "abc"
    }
    assert read["a"] == read["b"]
    assert read["a"] != read["c"]


def test_import_commands_write_a_folder(tmp_path, run):
    cloud = small_cloud()
    np.savez(
        tmp_path / "demo_0.npz",
        pick_scene_points=cloud.points,
        pick_target_pose_wxyz_xyz=[[0, 1, 0, 0, 0.1, 0, 0.2]],
    )
    for kind, hand in (("edf", []), ("npz", ["--gripper", "robotiq-2f-85"])):
        done = run("import", kind, tmp_path / "demo_0.npz", "--out", tmp_path / kind, *hand)
        assert done.returncode == 0, done.stderr
        assert np.array_equal(
            load_demos(tmp_path / kind)[0].step("pick").scene.points, cloud.points
        )
    assert load_demos(tmp_path / "npz").gripper == gripper_named("robotiq-2f-85")
    assert "Gripper: robotiq-2f-85; contact at (0, 0, 0.145) m" in done.stdout
    write_cloud(cloud, tmp_path / "scene.pcd")
    (tmp_path / "hand.json").write_text(
        '{"contact": {"position": [0, 0, 0.1], "quat_wxyz": [0.8, 0.6, 0, 0]}, "axis": "y",'
        ' "opening": 0.07}'
    )
    (tmp_path / "poses.csv").write_text(
        "demo,step,scene,x,y,z,qw,qx,qy,qz\ncup,pick,scene.pcd,0.1,0,0.2,0,1,0,0\n"
    )
    done = run(
        "import", "clouds", tmp_path, "--poses", tmp_path / "poses.csv",
        "--out", tmp_path / "clouds", "--gripper", tmp_path / "hand.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert load_demos(tmp_path / "clouds").gripper.contact.position == (0.0, 0.0, 0.1)
    assert (
        "Gripper: not a known hand; contact at (0, 0, 0.1) m turned by (0.8, 0.6, 0, 0) in its "
        "frame; opens along y by 0.07 m; its shape is not known"
    ) in done.stdout


def test_imports_ask_for_the_gripper(tmp_path, run):
    for arguments in (["npz", tmp_path], ["clouds", tmp_path, "--poses", tmp_path / "p.csv"]):
        result = run("import", *arguments, "--out", tmp_path / "x")
        assert result.returncode == 2
        assert "--gripper is missing: give a known hand (franka-hand, " in result.stderr
        assert '"contact": {"position": [x, y, z]' in result.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["with space", "[b]old", "[/b]", ":smile:", "ünï", "a'b"])
def test_any_path_is_printed_as_it_is(tmp_path, run, name):
    np.savez(
        tmp_path / "demo_0.npz",
        pick_scene_points=np.concatenate([small_cloud().points, [[np.nan] * 3]]),
        pick_target_poses=np.diag([1.0, -1.0, -1.0, 1.0]),
    )
    source, hand = tmp_path / "demo_0.npz", "simulated"
    done = run("import", "npz", source, "--out", tmp_path / name, "--gripper", hand)
    assert done.returncode == 0, done.stderr
    assert "1 points held NaN and were left out" in done.stdout
    command = done.stdout.split("Look at it: handful ")[1]
    shown = run(*shlex.split(command), "--out", tmp_path / f"{name}.png")
    assert shown.returncode == 0, shown.stderr
    assert f"Picture: {tmp_path / name}.png" in shown.stdout
    assert (tmp_path / f"{name}.png").is_file()


def test_a_path_that_is_no_text_is_no_crash(tmp_path):
    save_demos(small_demos(1), tmp_path / "set")
    picture = os.fsdecode(bytes(tmp_path) + b"/\xff.png")
    code = "import sys; sys.stdout.reconfigure(errors='strict'); from handful.apps.cli import main;"
    done = subprocess.run(
        [sys.executable, "-c", code + "main()", "show", tmp_path / "set", "--out", picture],
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert os.path.isfile(picture)


def test_errors_are_one_sentence_and_have_their_status(tmp_path, run):
    save_demos(small_demos(1), tmp_path / "set")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "demos.json").write_text('{"format": "handful-demos", "version": 1, ')
    wrong_use = ("written as .png or .jpg", "scale is nan")
    for arguments, message in [
        (["show", tmp_path / "none"], "no demos.json there"),
        (["show", tmp_path / "broken"], "not valid JSON"),
        (["show", tmp_path / "set", "--out", tmp_path / "x.bmp"], "written as .png or .jpg"),
        (["show", tmp_path / "set", "--out", "/proc/none/x.png"], "cannot be made"),
        (["sample", "--demos", 1, "--out", tmp_path / "set"], "--overwrite"),
        (["sample", "--demos", 1, "--out", "/proc/none/set"], "cannot be made"),
        (["import", "edf", tmp_path / "none", "--out", tmp_path / "x"], "no such file"),
        (
            ["import", "npz", tmp_path, "--out", tmp_path / "x", "--gripper", "franka"],
            "Did you mean 'franka-hand'? Valid: franka-hand, robotiq-2f-140, robotiq-2f-85, "
            "simulated, simulated-long. For another hand give a .json file with",
        ),
        (["import", "edf", tmp_path, "--out", tmp_path / "x", "--scale", "nan"], "scale is nan"),
    ]:
        result = run(*arguments)
        assert result.returncode == (2 if message in wrong_use else 1), arguments
        assert message in result.stderr.replace("\n", " "), result.stderr
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.stderr
    assert not (tmp_path / "x").exists()


def test_unknown_options_and_commands_suggest_and_exit_two(tmp_path, run):
    result = run("sample", "--demo", 2, "--out", tmp_path / "x")
    assert result.returncode == 2
    assert "--demos" in result.stderr
    assert run("shwo").returncode == 2
    assert run("sample", "--demos", 0, "--out", tmp_path / "x").returncode == 2


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_half_written(tmp_path, asked):
    process = subprocess.Popen(
        [*HANDFUL, "sample", "--demos", "1000", "--out", str(tmp_path / "set")],
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(6)
    # A background job is born ignoring SIGINT, and a busy machine may not have reached `main` yet.
    for _ in range(5):
        process.send_signal(asked)
        try:
            _, errors = process.communicate(timeout=10)
            break
        except subprocess.TimeoutExpired:
            continue
    else:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path):
    """/dev/full accepts no byte; here the limit on file size stands in for the disk."""
    save_demos(small_demos(1), tmp_path / "set")
    before = {p: p.read_bytes() for p in (tmp_path / "set").rglob("*") if p.is_file()}
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "from handful.apps.cli import main; main()"
    )
    arguments = ["sample", "--demos", "1", "--out", str(tmp_path / "set"), "--overwrite"]
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "cannot be written" in result.stderr.replace("\n", " ")
    assert {p: p.read_bytes() for p in (tmp_path / "set").rglob("*") if p.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
