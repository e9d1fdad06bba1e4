"""`handful demos` as a person uses it; in this process, for one of its own loads for seconds."""

import json
import shutil

import pytest

from handful.apps.cli import app
from handful.demos import load_demos, save_demos
from handful.errors import HandfulError
from samples import small_demos


@pytest.fixture
def folder(tmp_path):
    return save_demos(small_demos(3), tmp_path / "set")


def handful_demos(*arguments: object) -> None:
    app(["demos", *map(str, arguments)], standalone_mode=False)


def test_list_tells_what_is_there(folder, capsys):
    handful_demos("list", folder)
    printed = " ".join(capsys.readouterr().out.split())
    for told in ("Random dots.", "demo_2", "3 demonstrations of the task 'pick' (pick), 'place'"):
        assert told in printed
    handful_demos("list", folder, "--json")
    listed = json.loads(capsys.readouterr().out)
    assert [demo["name"] for demo in listed["demonstrations"]] == ["demo_0", "demo_1", "demo_2"]
    assert listed["demonstrations"][0]["steps"][1]["grasp_points"] == 20


def test_a_set_goes_through_all_edits(folder, tmp_path):
    """Recordings of two days: merged, some dropped, cropped, renamed, and with another hand."""
    other = shutil.copytree(folder, tmp_path / "other")
    whole, good = tmp_path / "whole", tmp_path / "good"
    for arguments in (
        ("merge", folder, other, "--number", "--out", whole),
        ("drop", whole, "demo_1", "demo_0_2", "--out", good),
        ("crop", good, "--lower=-0.15,-0.2,-0.2", "--upper", "0.2,0.2,0.2", "--in-place"),
        ("rename", good, "--step", "pick=take it", "--demo", "demo_0=first", "--in-place"),
        ("regrip", good, "--gripper", "franka-hand", "--in-place"),
    ):
        handful_demos(*arguments)
    edited = load_demos(good)
    assert [demo.name for demo in edited] == ["first", "demo_2", "demo_1_2", "demo_2_2"]
    assert edited.task.names == ("take it", "place")
    assert edited.gripper.name == "franka-hand"
    assert edited[0].step("place").scene.points[:, 0].min() >= -0.15
    assert len(load_demos(folder)) == 3  # what was merged is as it was


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("drop", "SET", "demo_0"), "--out FOLDER for a new set, or --in-place"),
        (("drop", "SET", "demo_0", "--out", "x", "--in-place"), "say where to write"),
        (("drop", "SET", "demo_0", "--out", "SET"), "is the set itself: say --in-place"),
        (("drop", "SET", "--in-place"), "nothing to drop"),
        (("drop", "SET", "demo_8", "--in-place"), "unknown demonstration 'demo_8'"),
        (("merge", "SET", "--out", "x"), "nothing to merge"),
        (("merge", "SET", "SET", "--out", "x"), "'demo_0' and so has one before it"),
        (("crop", "SET", "--lower=0,0", "--upper=1,1,1", "--in-place"), "give x,y,z in metres"),
        (("crop", "SET", "--lower=5,5,5", "--upper=6,6,6", "--in-place"), "nothing of the scene"),
        (("rename", "SET", "--in-place"), "nothing to rename"),
        (("rename", "SET", "--step", "pick", "--in-place"), "write OLD=NEW"),
        (("regrip", "SET", "--gripper", "frankahand", "--in-place"), "Did you mean 'franka-hand'"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(folder, arguments, told):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(HandfulError, match=told):
        handful_demos(*(folder if word == "SET" else word for word in arguments))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
