"""Demonstrations in memory and in their folder."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

import handful.demos._folder as folder_module
from handful.clouds import write_cloud
from handful.demos import (
    HANDS,
    Action,
    ContactFrame,
    Demonstration,
    DemoSet,
    Gripper,
    HandBox,
    HandShape,
    Step,
    gripper_from_tip,
    gripper_named,
    load_demos,
    load_gripper,
    save_demos,
)
from handful.demos._hand_mesh import hand_meshes
from handful.errors import DemoError, FileFormatError, HandfulError
from samples import pose_at, small_cloud, small_demos

HAND = gripper_named("simulated")


def assert_same_demos(one: DemoSet, other: DemoSet) -> None:
    assert (one.description, one.gripper, len(one)) == (
        other.description,
        other.gripper,
        len(other),
    )
    for left, right in zip(one, other, strict=True):
        assert left.name == right.name
        for a, b in zip(left.steps, right.steps, strict=True):
            assert a.task_step == b.task_step
            assert np.array_equal(a.targets, b.targets)
            for x, y in ((a.scene, b.scene), (a.grasp, b.grasp)):
                assert (x is None) == (y is None)
                if x is not None and y is not None:
                    assert np.array_equal(x.points, y.points)
                    assert np.array_equal(x.require_colors(), y.require_colors())


# --- types -------------------------------------------------------------------------------------


def test_one_pose_or_many_are_targets():
    assert Step("pick", Action.PICK, small_cloud(), pose_at(0, 0, 1)).targets.shape == (1, 4, 4)
    assert Step("pick", Action.PICK, small_cloud(), [pose_at(0, 0, 1)] * 3).targets.shape == (
        3,
        4,
        4,
    )


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
        Step("pick", Action.PICK, small_cloud(), targets)


def test_targets_cannot_be_changed():
    step = Step("pick", Action.PICK, small_cloud(), pose_at(0, 0, 1))
    with pytest.raises(ValueError, match="read-only"):
        step.targets[0, 0, 3] = 1.0


def test_an_unknown_step_is_named_with_its_demonstration():
    with pytest.raises(DemoError, match=r"demo_0.*unknown step 'push'"):
        small_demos()[0].step("push")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101, "a b"])
def test_a_demonstrations_name_can_name_files(name):
    with pytest.raises(DemoError, match="demonstration name"):
        Demonstration(name, (Step("pick", Action.PICK, small_cloud(), pose_at(0, 0, 1)),))


def test_steps_and_demonstrations_are_not_repeated_or_missing():
    step = Step("pick", Action.PICK, small_cloud(), pose_at(0, 0, 1))
    with pytest.raises(DemoError, match="no two of the same name"):
        Demonstration("a", (step, step))
    with pytest.raises(DemoError, match="need one or more"):
        Demonstration("a", ())
    with pytest.raises(DemoError, match="share the name 'a'"):
        DemoSet((Demonstration("a", (step,)), Demonstration("a", (step,))), HAND)
    with pytest.raises(DemoError, match="got none"):
        DemoSet((), HAND)


def test_steps_of_a_set():
    demos = small_demos(3)
    assert [len(step.targets) for step in demos.steps("pick")] == [2, 2, 2]


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
# --- grippers and steps of version 2 -----------------------------------------------------------


def mesh_hand() -> Gripper:
    """A hand of two meshes and a box, with a turned contact frame."""
    parts = [
        HandBox((0.0, 0.0, 0.03), (0.1, 0.05, 1 / 3 - 0.3)),
        HandBox((0.1, 0.0, 0.03), (0.1, 0.05, 0.04), (0.8, 0.6, 0.0, 0.0)),
    ]
    meshes = tuple(mesh for part in parts for mesh in hand_meshes(*part.surface()))
    finger = HandBox((0.0, 0.045, 0.1), (0.02, 0.01, 0.1), (0.6, 0.0, 0.8, 0.0), side=1)
    contact = ContactFrame((0.01, 0.0, 0.1034), (0.8, 0.0, 0.6, 0.0))
    return Gripper(contact, "y", 0.085, HandShape((finger,), meshes), "my hand")


GRIPPERS = {
    **HANDS,
    "no shape": Gripper(ContactFrame((0.0, 0.0, 0.0)), "y", 0.1),
    "meshes": mesh_hand(),
    "of version 1": gripper_from_tip(0.12, 0.07, "y"),
}


@pytest.mark.parametrize("name", GRIPPERS)
def test_every_gripper_comes_back_equal(tmp_path, name):
    demos = DemoSet(small_demos(1).demonstrations, GRIPPERS[name])
    saved = save_demos(demos, tmp_path / "set")
    assert load_demos(saved).gripper == GRIPPERS[name]
    assert (saved / "hand.obj").exists() == (name == "meshes")
    assert load_demos(save_demos(load_demos(saved), tmp_path / "again")).gripper == GRIPPERS[name]


def test_other_grippers_are_not_equal():
    """The test above can fail: a change anywhere in a gripper is seen."""
    hand = mesh_hand()
    assert hand.shape is not None
    other = HandShape(hand.shape.boxes, hand.shape.meshes[::-1])
    assert hand != Gripper(hand.contact, hand.axis, hand.opening, other, hand.name)
    assert hand != Gripper(hand.contact, hand.axis, hand.opening + 1e-15, hand.shape, hand.name)


def test_a_quaternion_may_be_in_either_order(tmp_path):
    saved = save_demos(small_demos(1), tmp_path / "set")
    manifest = json.loads((saved / "demos.json").read_text())
    found = []
    for turn in ({"quat_wxyz": [0.8, 0.6, 0, 0]}, {"quat_xyzw": [0.6, 0, 0, 0.8]}, {}):
        manifest["gripper"]["contact"] = {"position": [0, 0, 0.1], **turn}
        (saved / "demos.json").write_text(json.dumps(manifest))
        found.append(load_demos(saved).gripper.contact)
    assert found[0] == found[1] == ContactFrame((0.0, 0.0, 0.1), (0.8, 0.6, 0.0, 0.0))
    assert found[2] == ContactFrame((0.0, 0.0, 0.1))


def test_a_hand_known_by_name_may_be_changed_in_the_file(tmp_path):
    """The numbers count: a file of today means the same when a later table of hands differs."""
    saved = save_demos(small_demos(1), tmp_path / "set")
    manifest = json.loads((saved / "demos.json").read_text())
    manifest["gripper"]["opening"] = 0.07
    (saved / "demos.json").write_text(json.dumps(manifest))
    assert load_demos(saved).gripper.opening == 0.07


def test_a_mesh_that_leads_out_of_the_folder_is_refused(tmp_path):
    demos = DemoSet(small_demos(1).demonstrations, mesh_hand())
    saved = save_demos(demos, tmp_path / "set")
    os.replace(saved / "hand.obj", tmp_path / "hand.obj")
    (saved / "hand.obj").symlink_to(tmp_path / "hand.obj")
    with pytest.raises(DemoError, match=r"'mesh'.*leads out of"):
        load_demos(saved)


def test_four_steps_with_spaces_and_repeated_actions_round_trip(tmp_path):
    names = ["pick mug", "place on tray", "pick lid", "place lid 2"]
    steps = tuple(
        Step(name, action, small_cloud(n), pose_at(0, 0, 0.3), small_cloud(9, 20))
        for n, (name, action) in enumerate(zip(names, [*Action, *Action], strict=True))
    )
    demos = DemoSet((Demonstration("a", steps), Demonstration("b", steps)), HAND)
    saved = save_demos(demos, tmp_path / "set")
    loaded = load_demos(saved)
    assert_same_demos(loaded, demos)
    assert loaded.task.names == tuple(names)
    assert (saved / "a" / "place_on_tray_scene.ply").is_file()
    assert all(" " not in path.name for path in saved.rglob("*"))


def test_names_that_look_alike_in_files_do_not_share_them(tmp_path):
    names = ["pick mug", "pick_mug", "pick..mug", "größe", "gr_e"]
    steps = tuple(
        Step(name, Action.PICK, small_cloud(n), pose_at(0, 0, 0.3)) for n, name in enumerate(names)
    )
    names = ["demos.json", "hand.obj", "A", "a", "a_2"]
    demos = DemoSet(tuple(Demonstration(name, steps) for name in names), mesh_hand())
    assert_same_demos(load_demos(save_demos(demos, tmp_path / "set")), demos)


def test_a_gripper_is_given_by_name_or_by_file(tmp_path):
    assert load_gripper("robotiq-2f-85") == gripper_named("robotiq-2f-85")
    demos = DemoSet(small_demos(1).demonstrations, mesh_hand())
    saved = save_demos(demos, tmp_path / "set")
    gripper = json.loads((saved / "demos.json").read_text())["gripper"]
    (saved / "gripper.json").write_text(json.dumps(gripper))
    assert load_gripper(saved / "gripper.json") == mesh_hand()
    (saved / "gripper.json").write_text('"franka-hand"')
    assert load_gripper(saved / "gripper.json") == gripper_named("franka-hand")
    for given, message in [
        ("franka", r"Did you mean 'franka-hand'.*robotiq-2f-85.*a \.json file with .*contact"),
        ("", "unknown gripper ''"),
        (saved / "none.json", r"none\.json: cannot be read"),
        (saved / "demos.json", r"demos\.json: field 'contact' is missing: write"),
    ]:
        with pytest.raises(HandfulError, match=message):
            load_gripper(given)


# --- version 1 ---------------------------------------------------------------------------------


def version_1(folder: Path, gripper: object = ...) -> Path:
    """A folder as version 1 wrote it."""
    for name, cloud in (("pick_scene", 0), ("place_scene", 9), ("place_grasp", 5)):
        (folder / "demo_0").mkdir(parents=True, exist_ok=True)
        write_cloud(small_cloud(cloud), folder / "demo_0" / f"{name}.ply")
    manifest = {
        "format": "handful-demos",
        "version": 1,
        "description": "Random dots.",
        "gripper": gripper,
        "demonstrations": [
            {
                "name": "demo_0",
                "steps": [
                    {
                        "name": "pick",
                        "scene": "demo_0/pick_scene.ply",
                        "targets": [pose_at(0.1, 0, 0.2).tolist()],
                    },
                    {
                        "name": "place",
                        "scene": "demo_0/place_scene.ply",
                        "grasp": "demo_0/place_grasp.ply",
                        "targets": [pose_at(0, 0, 0.3).tolist()],
                    },
                ],
            }
        ],
    }
    if gripper is ...:
        del manifest["gripper"]
    (folder / "demos.json").write_text(json.dumps(manifest))
    return folder


def test_a_folder_of_version_1_means_what_it_meant(tmp_path):
    loaded = load_demos(version_1(tmp_path, {"tip": 0.12, "opening": 0.07, "axis": "y"}))
    meant = DemoSet(
        (
            Demonstration(
                "demo_0",
                (
                    Step("pick", Action.PICK, small_cloud(0), pose_at(0.1, 0, 0.2)),
                    Step("place", Action.PLACE, small_cloud(9), pose_at(0, 0, 0.3), small_cloud(5)),
                ),
            ),
        ),
        gripper_from_tip(0.12, 0.07, "y"),
        "Random dots.",
    )
    assert_same_demos(loaded, meant)
    assert loaded.gripper.contact.position == (0.0, 0.0, 0.12)
    assert_same_demos(load_demos(save_demos(loaded, tmp_path / "version 2")), meant)


@pytest.mark.parametrize(
    ("gripper", "tip", "opening", "axis"),
    [
        (..., 0.15, 0.08, "x"),
        ({}, 0.15, 0.08, "x"),
        ({"tip": 0.1}, 0.1, 0.08, "x"),
        ({"opening": 0.1, "axis": "y"}, 0.15, 0.1, "y"),
    ],
)
def test_version_1_had_defaults(tmp_path, gripper, tip, opening, axis):
    loaded = load_demos(version_1(tmp_path, gripper))
    assert loaded.gripper == gripper_from_tip(tip, opening, axis)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change("gripper", {"tip": 150}), "gripper tip is 150"),
        (change("gripper", {"contact": {}}), "unknown field 'contact'"),
        (change("gripper", "franka-hand"), "is a string: need an object"),
        (change(f"{STEP}.name", "pick mug"), "unknown step 'pick mug'.*Version 2 has steps of any"),
        (change(f"{STEP}.action", "pick"), "unknown field 'action'"),
    ],
)
def test_version_1_is_as_strict_as_it_was(tmp_path, edit, message):
    manifest = version_1(tmp_path) / "demos.json"
    content = json.loads(manifest.read_text())
    edit(content)
    manifest.write_text(json.dumps(content))
    with pytest.raises(DemoError, match=message):
        load_demos(tmp_path)


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
        "version": 2,
        "gripper": "franka-hand",
        "demonstrations": [
            {
                "name": "cup",
                "steps": [
                    {
                        "name": "take cup",
                        "action": "pick",
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
    assert loaded.gripper == gripper_named("franka-hand")
    assert loaded[0].step("take cup").action is Action.PICK
    for target in loaded[0].step("take cup").targets:
        np.testing.assert_allclose(target, pose_at(0.1, 0, 0.2), atol=1e-15)


BAD_MANIFESTS = {
    "other format": (change("format", "lerobot"), "field 'format' is 'lerobot'"),
    "other version": (change("version", 3), "is 3; this handful reads versions 1 and 2"),
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
    "no action": (change(f"{STEP}.action", ...), r"steps\[0\].*'action' is missing: write"),
    "other action": (change(f"{STEP}.action", "push"), "'action': unknown action 'push'"),
    "action is a number": (change(f"{STEP}.action", 1), "'action' is the number 1"),
    "action changes": (change("demonstrations.0.steps.0.action", "place"), "'demo_1' has the step"),
    "reserved step": (change(f"{STEP}.name", "bench"), "a folder that every run has"),
    "no gripper": (change("gripper", ...), r"'gripper' is missing: write .*contact.*franka-hand"),
    "gripper is null": (change("gripper", None), "neither an object nor a name: write"),
    "no such hand": (change("gripper", "franka"), "Did you mean 'franka-hand'"),
    "no contact": (change("gripper.contact", ...), r"'contact' is missing: write .*position"),
    "no axis": (change("gripper.axis", ...), r"'axis' is missing: write .*axis"),
    "no opening": (change("gripper.opening", ...), r"'opening' is missing: write .*opening"),
    "no position": (change("gripper.contact", {}), r"contact: field 'position' is missing: write"),
    "other axis": (change("gripper.axis", "z"), "gripper: unknown gripper axis 'z'"),
    "large gripper": (change("gripper.opening", 10**400), "'opening' is too large"),
    "contact of two numbers": (
        change("gripper.contact.position", [0, 0]),
        r"'position': has shape",
    ),
    "contact turned twice": (
        change(
            "gripper.contact",
            {"position": [0, 0, 0], "quat_wxyz": [1, 0, 0, 0], "quat_xyzw": [0, 0, 0, 1]},
        ),
        "contact: has .* need exactly one",
    ),
    "long contact turn": (
        change("gripper.contact", {"position": [0, 0, 0], "quat_wxyz": [1, 1, 0, 0]}),
        "need length 1, not 1.414",
    ),
    "empty shape": (change("gripper.shape", {}), "shape: a hand's shape needs one box or mesh"),
    "no boxes": (change("gripper.shape", {"boxes": []}), "needs one box or mesh"),
    "box without size": (change("gripper.shape.boxes.0.size", ...), r"boxes\[0\]: field 'size'"),
    "flat box": (change("gripper.shape.boxes.1.size.2", 0), r"boxes\[1\]: .*positive size"),
    "side of a box": (change("gripper.shape.boxes.0.side", 3), r"boxes\[0\]: .*side -1, 0 or 1"),
    "typo in a box": (change("gripper.shape.boxes.0.centre", 1), "Did you mean 'center'"),
    "no mesh there": (change("gripper.shape.mesh", "none.obj"), r"'mesh': .*none\.obj: cannot be"),
    "mesh elsewhere": (change("gripper.shape.mesh", "../hand.obj"), "'mesh': .*leads out of"),
    "mesh of another kind": (change("gripper.shape.mesh", "demos.json"), "need a mesh file"),
    "numbers as text": (
        change(f"{STEP}.targets.0", {"position": ["0", "0", "0"], "quat_wxyz": [0, 1, 0, 0]}),
        r"position: \['0', '0', '0'\] is not numbers",
    ),
    "truth as numbers": (
        change(f"{STEP}.targets.0", {"position": [0, 0, 0], "quat_wxyz": [False, True] * 2}),
        "is not numbers",
    ),
    "NUL in a path": (change(f"{STEP}.scene", "a\0.ply"), "'scene'.*not a usable path"),
    "half a character": (change(f"{STEP}.scene", "\ud800.ply"), r"holds '.ud800', half of a"),
    "field of many letters": (change("x" * 10**6, 1), "unknown field 'x{97}...'"),
    "gripper in mm": (change("gripper.contact.position", [0, 0, 145]), "need metres, at most 2"),
    "gripper field": (change("gripper.width", 1), "gripper: unknown field 'width'"),
    "field of version 1": (change("gripper.tip", 0.15), "gripper: unknown field 'tip'"),
    "name of demo": (change("demonstrations.0.name", "../up"), "demonstration name"),
}


@pytest.mark.parametrize("case", BAD_MANIFESTS)
def test_a_bad_manifest_is_named_with_file_and_field(tmp_path, case):
    edit, message = BAD_MANIFESTS[case]
    manifest = save_demos(small_demos(2), tmp_path / "set") / "demos.json"
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
    "long number": ('{"version": ' + "1" * 100_000 + "}", "too many digits: need at most 4,300"),
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
    demos = DemoSet(small_demos(1).demonstrations, HAND, description)
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
