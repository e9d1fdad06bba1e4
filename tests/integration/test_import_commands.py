"""`handful import` of recordings, as a person uses it; in this process, which loads once."""

import json

import pytest

from handful.apps.cli import app
from handful.demos import gripper_to_json, load_demos
from handful.errors import HandfulError
from handful.recordings.example import GRIPPER


def handful(*arguments: object) -> None:
    app([*map(str, arguments)], standalone_mode=False)


def test_rgbd_recordings_are_written_and_imported(tmp_path, capsys):
    images, demos = tmp_path / "images", tmp_path / "demos"
    handful("sample", "--rgbd", "--demos", 1, "--out", images)
    assert f"handful import rgbd {images}" in capsys.readouterr().out
    with pytest.raises(HandfulError, match="exists already"):
        handful("sample", "--rgbd", "--demos", 1, "--out", images)
    handful("import", "rgbd", images, "--out", demos)
    assert "insert peg" in capsys.readouterr().out
    assert load_demos(demos).task.names == ("take peg", "insert peg")
    (images / "peg_00" / "take_table_1_depth.png").unlink()
    with pytest.raises(HandfulError, match=r"take_table_1_depth.png: cannot be read"):
        handful("import", "rgbd", images, "--out", demos, "--overwrite")
    assert len(load_demos(demos)) == 1


def test_a_bag_is_listed_and_imported(tmp_path, capsys):
    pytest.importorskip("rosbags")
    from ros_bags import write_bag

    bag = write_bag(tmp_path, "mcap")
    hand = tmp_path / "hand.json"
    hand.write_text(json.dumps(gripper_to_json(GRIPPER, tmp_path)))
    what = ("--base", "base", "--gripper-frame", "flange", "--signal", "/joint_states")
    what += ("--joint", "finger")
    handful("import", "rosbag", bag, *what, "--list")
    printed = capsys.readouterr().out
    assert "closes" in printed
    assert "10.60" in printed
    what += ("--cloud", "/camera/points", "--gripper", hand)
    with pytest.raises(HandfulError, match="--out is missing"):
        handful("import", "rosbag", bag, *what)
    box = ("--lower=0.2,-0.25,-0.015", "--upper=0.7,0.25,0.3")
    out = tmp_path / "demos"
    handful("import", "rosbag", bag, *what, *box, "--steps", "take peg, insert peg", "--out", out)
    demos = load_demos(out)
    assert demos.task.names == ("take peg", "insert peg")
    assert demos[0].name == "peg_mcap"
    assert demos[0].steps[0].scene.points[:, 0].min() >= 0.2
    with pytest.raises(HandfulError, match="one colour topic for each depth topic"):
        handful("import", "rosbag", bag, *what, "--color", "/x", "--out", out)


def test_a_lerobot_data_set_is_listed_and_imported(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    pytest.importorskip("av")
    from lerobot_data import write_dataset, write_setup

    data, setup, out = write_dataset(tmp_path / "data"), write_setup(tmp_path), tmp_path / "demos"
    with pytest.raises(HandfulError, match="neither intrinsics nor camera poses"):
        handful("import", "lerobot", data, "--out", out)
    handful("import", "lerobot", data, "--setup", setup, "--episode", 1, "--list")
    printed = capsys.readouterr().out
    assert "episode_001" in printed
    assert "11.00" in printed
    what = ("--episode", 1, "--steps", "take,insert", "--out", out)
    handful("import", "lerobot", data, "--setup", setup, *what)
    assert load_demos(out).task.names == ("take", "insert")
