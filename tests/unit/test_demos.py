"""Demonstrations in memory and in their folder."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

import handful.demos._folder as folder_module
from handful.demos import Demonstration, DemoSet, Gripper, Step, load_demos, save_demos
from handful.errors import DemoError, FileFormatError, HandfulError
from samples import pose_at, small_cloud, small_demos


def assert_same_demos(one: DemoSet, other: DemoSet) -> None:
    assert (one.description, one.gripper, len(one)) == (
        other.description,
        other.gripper,
        len(other),
    )
    for left, right in zip(one, other, strict=True):
        assert left.name == right.name
        for a, b in zip(left.steps, right.steps, strict=True):
            assert a.name == b.name
            assert np.array_equal(a.targets, b.targets)
            for x, y in ((a.scene, b.scene), (a.grasp, b.grasp)):
                assert (x is None) == (y is None)
                if x is not None and y is not None:
                    assert np.array_equal(x.points, y.points)
                    assert np.array_equal(x.require_colors(), y.require_colors())


# --- types -------------------------------------------------------------------------------------


def test_one_pose_or_many_are_targets():
    assert Step("pick", small_cloud(), pose_at(0, 0, 1)).targets.shape == (1, 4, 4)
    assert Step("pick", small_cloud(), [pose_at(0, 0, 1)] * 3).targets.shape == (3, 4, 4)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([], "need one or more 4x4"),
        (np.zeros((2, 3, 4)), "need one or more 4x4"),
        ([["a"] * 4] * 4, "cannot be read"),
        (np.diag([1.0, 1.0, -1.0, 1.0]), "target pose"),
        (np.diag([2.0, 2.0, 2.0, 1.0]), "target pose"),
        (np.full((4, 4), np.nan), "target pose"),
        (np.ones((4, 4)), "target pose"),
    ],
)
def test_targets_are_checked(targets, message):
    with pytest.raises(DemoError, match=message):
        Step("pick", small_cloud(), targets)


def test_targets_cannot_be_changed():
    step = Step("pick", small_cloud(), pose_at(0, 0, 1))
    with pytest.raises(ValueError, match="read-only"):
        step.targets[0, 0, 3] = 1.0


def test_unknown_step_names_the_nearest():
    with pytest.raises(DemoError, match="Did you mean 'place'"):
        Step("palce", small_cloud(), pose_at(0, 0, 1))
    with pytest.raises(DemoError, match=r"demo_0.*unknown step 'push'"):
        small_demos()[0].step("push")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101, "a b"])
def test_a_demonstrations_name_can_name_files(name):
    with pytest.raises(DemoError, match="demonstration name"):
        Demonstration(name, (Step("pick", small_cloud(), pose_at(0, 0, 1)),))


def test_steps_and_demonstrations_are_not_repeated_or_missing():
    step = Step("pick", small_cloud(), pose_at(0, 0, 1))
    with pytest.raises(DemoError, match="no two alike"):
        Demonstration("a", (step, step))
    with pytest.raises(DemoError, match="need one or more"):
        Demonstration("a", ())
    with pytest.raises(DemoError, match="share the name 'a'"):
        DemoSet((Demonstration("a", (step,)), Demonstration("a", (step,))))
    with pytest.raises(DemoError, match="got none"):
        DemoSet(())


@pytest.mark.parametrize(
    "values", [{"tip": 0.0}, {"opening": np.nan}, {"axis": "z"}, {"tip": 150.0}]
)
def test_gripper_is_checked(values):
    with pytest.raises(DemoError, match="gripper"):
        Gripper(**values)


def test_steps_of_a_set():
    demos = small_demos(3)
    assert [len(step.targets) for step in demos.steps("pick")] == [2, 2, 2]


# --- the folder --------------------------------------------------------------------------------


def test_a_folder_round_trips(tmp_path):
    demos = small_demos()
    saved = save_demos(demos, tmp_path / "set")
    assert_same_demos(load_demos(saved), demos)
    assert_same_demos(load_demos(saved / "demos.json"), demos)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set"]


def test_a_matrix_row_is_one_line_of_the_manifest(tmp_path):
    text = (save_demos(small_demos(), tmp_path / "set") / "demos.json").read_text()
    assert "[1.0, 0.0, 0.0, 0.1]" in text


def test_saving_over_something_needs_to_be_asked_for(tmp_path):
    save_demos(small_demos(2), tmp_path / "set")
    with pytest.raises(DemoError, match="--overwrite"):
        save_demos(small_demos(1), tmp_path / "set")
    save_demos(small_demos(1), tmp_path / "set", overwrite=True)
    assert len(load_demos(tmp_path / "set")) == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("years of work")
    with pytest.raises(DemoError, match="not empty"):
        save_demos(small_demos(), tmp_path / "other", overwrite=True)
    with pytest.raises(DemoError, match="is a file"):
        save_demos(small_demos(), tmp_path / "other" / "thesis.tex")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "set"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), FileFormatError("disk full")])
def test_an_interrupted_save_leaves_the_old_folder(tmp_path, monkeypatch, failure):
    demos = small_demos()
    save_demos(demos, tmp_path / "set")
    real, calls = folder_module.write_cloud, []

    def fails_in_the_middle(cloud, path):
        calls.append(path)
        if len(calls) == 3:
            raise failure
        real(cloud, path)

    monkeypatch.setattr(folder_module, "write_cloud", fails_in_the_middle)
    with pytest.raises(type(failure)):
        save_demos(small_demos(3), tmp_path / "set", overwrite=True)
    assert_same_demos(load_demos(tmp_path / "set"), demos)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_manifest_written_by_hand_loads(tmp_path):
    save_demos(small_demos(1), tmp_path / "set")
    manifest = {
        "format": "handful-demos",
        "version": 1,
        "demonstrations": [
            {
                "name": "cup",
                "steps": [
                    {
                        "name": "pick",
                        "scene": "demo_0/pick_scene.ply",
                        "targets": [
                            {"position": [0.1, 0, 0.2], "quat_wxyz": [0, 1, 0, 0]},
                            {"position": [0.1, 0, 0.2], "quat_xyzw": [1, 0, 0, 0]},
                            pose_at(0.1, 0, 0.2).tolist(),
                        ],
                    }
                ],
            }
        ],
    }
    (tmp_path / "set" / "demos.json").write_text(json.dumps(manifest))
    loaded = load_demos(tmp_path / "set")
    for target in loaded[0].step("pick").targets:
        np.testing.assert_allclose(target, pose_at(0.1, 0, 0.2), atol=1e-15)


def change(path: str, value: object):
    """A function that sets one field of a manifest, named like `demonstrations.0.name`."""

    def apply(manifest: dict) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        node = manifest
        for part in parents:
            node = node[part]
        if value is ...:
            del node[last]
        else:
            node[last] = value

    return apply


STEP = "demonstrations.0.steps.0"
BAD_MANIFESTS = {
    "other format": (change("format", "lerobot"), "field 'format' is 'lerobot'"),
    "other version": (change("version", 2), "field 'version' is 2; this handful reads"),
    "no version": (change("version", ...), "field 'version' is missing"),
    "typo in field": (change("demonstration", []), "Did you mean 'demonstrations'"),
    "typo in step": (change(f"{STEP}.scenes", "x.ply"), r"steps\[0\].*Did you mean 'scene'"),
    "no demonstrations": (change("demonstrations", []), "at least one"),
    "demonstrations not a list": (change("demonstrations", {}), "is an object: need a list"),
    "step is a number": (change(STEP, 3), r"steps\[0\]: is the number 3: need an object"),
    "missing cloud": (change(f"{STEP}.scene", "none.ply"), r"steps\[0\].*'scene'.*none\.ply"),
    "absolute path": (change(f"{STEP}.scene", "/etc/passwd"), "leads out of"),
    "path upwards": (change(f"{STEP}.scene", "../x.ply"), "leads out of"),
    "scene is null": (change(f"{STEP}.scene", None), "is nothing: need a string"),
    "no targets": (change(f"{STEP}.targets", []), "need one or more"),
    "target of 3 rows": (change(f"{STEP}.targets.0", [[1, 0, 0, 0]] * 3), r"targets\[0\].*shape"),
    "target of text": (change(f"{STEP}.targets.0", "up"), r"targets\[0\].*is a string"),
    "not a rotation": (change(f"{STEP}.targets.0", [[1] * 4] * 4), r"steps\[0\].*target pose"),
    "no quaternion": (change(f"{STEP}.targets.0", {"position": [0, 0, 0]}), "need exactly one"),
    "long quaternion": (
        change(f"{STEP}.targets.0", {"position": [0, 0, 0], "quat_wxyz": [1, 1, 0, 0]}),
        "has length 1.414: need 1",
    ),
    "millimetres": (
        change(f"{STEP}.targets.0", {"position": [100, 0, 250], "quat_wxyz": [0, 1, 0, 0]}),
        "269.* m from the scene",
    ),
    "number of 400 digits": (
        change(f"{STEP}.targets.0", {"position": [10**400, 0, 0], "quat_wxyz": [0, 1, 0, 0]}),
        "need shape",
    ),
    "large gripper": (change("gripper.tip", 10**400), "'tip' is too large"),
    "numbers as text": (
        change(f"{STEP}.targets.0", {"position": ["0", "0", "0"], "quat_wxyz": [0, 1, 0, 0]}),
        r"position: \['0', '0', '0'\] is not numbers",
    ),
    "truth as numbers": (
        change(f"{STEP}.targets.0", {"position": [0, 0, 0], "quat_wxyz": [False, True] * 2}),
        "is not numbers",
    ),
    "NUL in a path": (change(f"{STEP}.scene", "a\0.ply"), "'scene'.*not a usable path"),
    "half a character": (change(f"{STEP}.scene", "\ud800.ply"), "'scene'.*not a usable path"),
    "field of many letters": (change("x" * 10**6, 1), "unknown field 'x{97}...'"),
    "gripper in mm": (change("gripper.tip", 150), "gripper tip is 150"),
    "gripper field": (change("gripper.width", 1), "gripper: unknown field 'width'"),
    "name of demo": (change("demonstrations.0.name", "../up"), "demonstration name"),
}


@pytest.mark.parametrize("case", BAD_MANIFESTS)
def test_a_bad_manifest_is_named_with_file_and_field(tmp_path, case):
    edit, message = BAD_MANIFESTS[case]
    manifest = save_demos(small_demos(1), tmp_path / "set") / "demos.json"
    content = json.loads(manifest.read_text())
    edit(content)
    manifest.write_text(json.dumps(content))
    with pytest.raises(HandfulError, match=message) as caught:
        load_demos(tmp_path / "set")
    assert "demos.json" in str(caught.value)


BAD_JSON = {
    "empty": ("", "line 1, column 1: not valid JSON"),
    "cut": ('{"format": "handful-demos", ', "not valid JSON"),
    "not a number": ('{"version": NaN}', "NaN is not a number"),
    "twice": ('{"version": 1, "version": 2}', "'version' stands twice"),
    "list": ("[]", "is a list: need an object"),
    "deep": ("[" * 100_000, "nested too deeply"),
    "binary": (b"\xff\xfe\x00", "not UTF-8"),
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_a_file_that_is_not_json_is_an_error(tmp_path, case):
    text, message = BAD_JSON[case]
    (tmp_path / "demos.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(HandfulError, match=message):
        load_demos(tmp_path)


def test_no_folder_says_how_to_make_one(tmp_path):
    with pytest.raises(DemoError, match="handful sample"):
        load_demos(tmp_path / "nothing")


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    saved = save_demos(small_demos(1), tmp_path / "set")
    inside = saved / "demo_0" / "pick_scene.ply"
    os.replace(inside, tmp_path / "secret.ply")
    inside.symlink_to(Path("../../secret.ply"))
    with pytest.raises(DemoError, match="leads out of"):
        load_demos(saved)


def test_a_link_in_a_circle_is_refused(tmp_path):
    saved = save_demos(small_demos(1), tmp_path / "set")
    inside = saved / "demo_0" / "pick_scene.ply"
    inside.unlink()
    inside.symlink_to("pick_scene.ply")
    with pytest.raises(HandfulError, match=r"'scene'.*pick_scene\.ply"):
        load_demos(saved)


def test_a_cloud_that_is_named_often_is_read_once(tmp_path):
    saved = save_demos(small_demos(2), tmp_path / "set")
    manifest = json.loads((saved / "demos.json").read_text())
    for demonstration in manifest["demonstrations"]:
        demonstration["steps"][0]["scene"] = "demo_0/../demo_1/pick_scene.ply"
    (saved / "demos.json").write_text(json.dumps(manifest))
    first, second = load_demos(saved).steps("pick")
    assert first.scene is second.scene


@pytest.mark.parametrize("description", ["see [ 1,  2 ]", "a\n[\n 1\n]", "Größe 漢字", '"[ 3 ]"'])
def test_a_description_comes_back_as_it_was(tmp_path, description):
    demos = DemoSet(small_demos(1).demonstrations, description=description)
    assert load_demos(save_demos(demos, tmp_path / "set")).description == description


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for count in (1, 2):
        save_demos(small_demos(count), tmp_path / "link", overwrite=True)
        assert len(load_demos(tmp_path / "real")) == count
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    assert (tmp_path / "link").is_symlink()


def test_the_folder_one_is_in_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError, match="where you are now"):
        save_demos(small_demos(1), ".")
    assert list(tmp_path.iterdir()) == []


def test_many_fields_of_which_one_is_there_twice_are_read_quickly(tmp_path):
    names = ", ".join(f'"{number}": 0' for number in range(200_000))
    (tmp_path / "demos.json").write_text(f'{{{names}, "199999": 1}}')
    started = time.perf_counter()
    with pytest.raises(FileFormatError, match="'199999' stands twice"):
        load_demos(tmp_path)
    assert time.perf_counter() - started < 20


def test_a_truncated_cloud_is_named(tmp_path):
    saved = save_demos(small_demos(1), tmp_path / "set")
    cloud = saved / "demo_0" / "place_grasp.ply"
    cloud.write_bytes(cloud.read_bytes()[:-10])
    with pytest.raises(FileFormatError, match=r"steps\[1\].*'grasp'.*place_grasp\.ply"):
        load_demos(saved)
