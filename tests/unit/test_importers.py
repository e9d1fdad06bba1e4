"""Importers, and above all what they refuse."""

import contextlib
import gzip
import io
import json
import os
import pickle
import pickletools
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from handful.clouds import write_cloud
from handful.demos import (
    Action,
    ContactFrame,
    gripper_named,
    import_edf,
    import_npz,
    import_posed_clouds,
)
from handful.demos.importers import _posed_clouds
from handful.demos.importers._tensor_pickle import read_tensor_pickle
from handful.errors import (
    DemoError,
    FileFormatError,
    HandfulError,
    OptionError,
    UnsafeFileError,
)
from samples import pose_at, small_cloud, small_demos

HAND = gripper_named("franka-hand")
POSE = [[0.0, 1.0, 0.0, 0.0, 0.1, 0.0, 0.25]]


def edf_step(name: str | None, dtype: torch.dtype = torch.float32) -> dict[str, object]:
    """One step as the authors' `save_demos` lays it out."""
    cloud = small_cloud()
    return {
        "name": name,
        "scene_points": torch.from_numpy(cloud.points.copy()),
        "scene_colors": torch.from_numpy(cloud.require_colors().copy()),
        "grasp_points": torch.empty(0, 3),
        "grasp_colors": torch.empty(0, 3),
        "target_poses": torch.tensor(POSE, dtype=dtype),
        "demo_type": "TargetPoseDemo",
    }


def write_gzip(path: Path, value: object, protocol: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(pickle.dumps(value, protocol=protocol)))
    return path


def edf_arrays() -> dict[str, np.ndarray]:
    cloud = small_cloud()
    return {
        "pick_scene_points": cloud.points,
        "pick_scene_colors": (cloud.require_colors() * 255).round().astype(np.uint8),
        "pick_grasp_points": small_cloud(3).points,
        "pick_grasp_colors": np.zeros((30, 3), np.uint8),
        "pick_target_pose_wxyz_xyz": np.array(POSE),
        "place_scene_points": small_cloud(4).points,
        "place_target_poses": np.stack([pose_at(0, 0, 0.3)] * 2),
    }


# --- the authors' original files ----------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_authors_gzip_files_are_read(tmp_path, protocol):
    for index in (10, 2):
        value = [edf_step("pick"), edf_step("place", torch.float64)]
        write_gzip(tmp_path / "data" / f"demo_{index}.gzip", value, protocol)
    demos = import_edf(tmp_path)
    assert [demo.name for demo in demos] == ["demo_2", "demo_10"]
    pick, place = demos[0].steps
    assert (pick.name, place.name) == ("pick", "place")
    assert (pick.action, place.action) == (Action.PICK, Action.PLACE)
    assert np.array_equal(pick.scene.points, small_cloud().points)
    assert pick.grasp is None
    np.testing.assert_allclose(pick.targets, [pose_at(0.1, 0.0, 0.25)], atol=1e-7)


def test_the_authors_gripper_is_known(tmp_path):
    """The contact is where the query point of picks was; the shape is what their clouds show."""
    path = write_gzip(tmp_path / "demo_0.gzip", [edf_step("pick")])
    gripper = import_edf(path).gripper
    assert gripper.contact == ContactFrame((0.0, 0.0, 0.145))
    assert (gripper.axis, gripper.opening) == ("x", 0.08)
    seen = np.array([[0.037, 0.037, 0.03], [0.07, 0.015, 0.09], [-0.04, 0.01, 0.15]])
    free = np.array([[0.0, 0.0, 0.145], [0.0, 0.0, 0.11], [0.037, 0.037, 0.06], [0.06, 0.0, 0.14]])
    assert gripper.shape is not None
    assert gripper.shape.contains(seen, 1e-3).all()
    assert not gripper.shape.contains(free).any()
    assert gripper.is_hand(seen).tolist() == [True, True, False]


def test_unnamed_steps_are_pick_then_place(tmp_path):
    path = write_gzip(tmp_path / "demo_0.gzip", [edf_step(None), edf_step("")])
    assert [step.name for step in import_edf(path)[0].steps] == ["pick", "place"]


TENSORS = {
    "float32": torch.arange(6.0).reshape(2, 3),
    "float64": torch.arange(6, dtype=torch.float64),
    "uint8": torch.arange(6, dtype=torch.uint8),
    "int64": torch.tensor([[1, -2], [3, -4]]),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "slice": torch.arange(20.0).reshape(4, 5)[1:3, 2:],
    "empty": torch.empty(0, 3),
    "scalar": torch.tensor(2.5),
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_tensors_come_out_as_torch_would_read_them(name, protocol):
    value = {"nested": [(TENSORS[name], None, True, 3, "x", 2.5)]}
    ((array, *rest),) = read_tensor_pickle(pickle.dumps(value, protocol=protocol))["nested"]
    assert rest == [None, True, 3, "x", 2.5]
    assert np.array_equal(array, TENSORS[name].numpy())
    assert array.dtype == TENSORS[name].numpy().dtype


class Attack:
    """Pickles to a call of the given function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self):
        return self._call


class State:
    def __setstate__(self, state: object) -> None:
        raise AssertionError("the file's object was built")


def hostile_pickles(marker: Path) -> dict[str, bytes]:
    touch = f"touch {marker}"
    attacks: dict[str, object] = {
        "system": Attack(os.system, touch),
        "eval": Attack(eval, f"open({str(marker)!r}, 'w')"),
        "exec": Attack(exec, f"open({str(marker)!r}, 'w')"),
        "open": Attack(open, str(marker), "w"),
        "getattr": Attack(getattr, "text", "upper"),
        "torch.load": Attack(torch.load, str(marker)),
        "hidden in a step": [{"name": "pick", "target_poses": Attack(os.system, touch)}],
        "object": State(),
        "numpy": np.arange(3),
        "set": {1, 2},
        "bytearray": bytearray(b"x"),
        "parameter": torch.nn.Parameter(torch.zeros(3)),
        "OrderedDict subclass state": OrderedDict(a=Attack(os.system, touch)),
    }
    raw = {
        f"{name} (protocol {protocol})": pickle.dumps(value, protocol=protocol)
        for name, value in attacks.items()
        for protocol in (0, 2, 4)
    }
    raw["inst"] = f"(S'{touch}'\nios\nsystem\n.".encode()
    raw["obj"] = b"\x80\x02(cos\nsystem\nX\x02\x00\x00\x00lso."
    raw["newobj"] = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85\x81."
    raw["build on a builder"] = b"\x80\x02ccollections\nOrderedDict\n}X\x01\x00\x00\x00aK\x01sb."
    raw["persistent id"] = b"\x80\x02X\x01\x00\x00\x00aQ."
    raw["extension"] = b"\x80\x02\x82\x01."
    raw["nested"] = pickle.dumps(
        Attack(torch.storage._load_from_bytes, pickle.dumps(attacks["eval"]))
    )
    return raw


def test_a_hostile_file_is_refused_and_nothing_runs(tmp_path):
    marker = tmp_path / "was_here"
    for name, data in hostile_pickles(marker).items():
        path = tmp_path / "demo_0.gzip"
        path.write_bytes(gzip.compress(data))
        with pytest.raises(UnsafeFileError, match="refused") as caught:
            import_edf(path)
        assert "demo_0.gzip" in str(caught.value), name
        assert not marker.exists(), name


def test_the_attacks_would_work_on_pickle(tmp_path):
    """The test above can fail: the same bytes do harm where they are unpickled."""
    marker = tmp_path / "was_here"
    pickle.loads(hostile_pickles(marker)["system (protocol 4)"])
    assert marker.exists()


def tensor_with(offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """A pickle of a tensor over ten numbers whose header says something else."""
    storage = torch.arange(10.0).untyped_storage()
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=torch.float32, _internal=True)
    arguments = (typed, offset, size, stride, False, OrderedDict())
    return pickle.dumps(Attack(torch._utils._rebuild_tensor_v2, *arguments))


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize(
    ("offset", "size", "stride"),
    [
        (5, (6,), (1,)),
        (0, (10**9,), (0,)),
        (0, (2, 10**12), (0, 0)),
        (-1, (2,), (1,)),
        (0, (2,), (-1,)),
        (0, (3,), (5,)),
        (0, (2, 2), (1,)),
        (2**70, (1,), (1,)),
    ],
)
def test_a_tensor_that_reaches_beyond_its_numbers_is_refused(offset, size, stride):
    with pytest.raises(FileFormatError, match="tensor"):
        read_tensor_pickle(tensor_with(offset, size, stride))


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_tensor_that_fits_is_read():
    assert read_tensor_pickle(tensor_with(2, (2, 3), (4, 1))).tolist() == [[2, 3, 4], [6, 7, 8]]


@given(st.data())
def test_a_damaged_file_is_an_error_and_never_a_crash(data):
    good = bytearray(pickle.dumps([edf_step("pick")], protocol=data.draw(st.sampled_from([2, 4]))))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(good[: data.draw(st.integers(0, len(good)))])
    with contextlib.suppress(HandfulError):
        read_tensor_pickle(damaged)


@given(st.binary(max_size=200))
def test_random_bytes_are_an_error_and_never_a_crash(data):
    with contextlib.suppress(HandfulError):
        read_tensor_pickle(b"\x80\x02" + data)


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def doubled(first: bytes, pair: bytes) -> bytes:
    """Sixty times a pair of what came before: a value of 2^60 parts in a few hundred bytes."""
    return first + b"q\x01" + (b"0" + pair + b"q\x01") * 60


LISTS = doubled(b"]", b"]h\x01ah\x01a")
TUPLES = doubled(b")", b"h\x01h\x01\x86")
ENCODE = b"c_codecs\nencode\n"
STEP = b"\x80\x02]}" + text("target_poses")
BOMBS = {
    "lists as poses": STEP + LISTS + b"sa.",
    "tuples as poses": STEP + TUPLES + b"sa.",
    "tuples as a key": b"\x80\x02]}" + TUPLES + b"Nsa.",
    "tuples as keys": b"\x80\x02](" + TUPLES + b"Nda.",
    "tuples as a name": b"\x80\x04" + TUPLES + text("a") + b"\x93.",
    "tuples as an encoding": b"\x80\x02" + ENCODE + text("a") + TUPLES + b"\x86R.",
    "large numbers as a key": b"\x80\x02}\x8a\x09" + b"\x01" * 9 + b"Ns.",
    "a list in itself": b"\x80\x02]q\x01}" + text("target_poses") + b"h\x01sa.",
    "empty dicts": b"\x80\x02](" + b"}" * 60_000 + b"e.",
    "the same bytes again": b"\x80\x02](" + ENCODE + b"q\x02" + text("a" * 100_000)
    + text("latin1") + b"\x86q\x01R" + b"h\x02h\x01R" * 1000 + b"e.",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_few_bytes_that_stand_for_a_lot_are_refused_at_once(tmp_path, name):
    path = tmp_path / "demo_0.gzip"
    path.write_bytes(gzip.compress(BOMBS[name]))
    started = time.perf_counter()
    with pytest.raises(HandfulError, match=r"demo_0\.gzip"):
        import_edf(path)
    assert time.perf_counter() - started < 10


def test_a_tensor_cannot_be_built_again_and_again():
    data = pickle.dumps(torch.zeros(1000), protocol=2)
    call = max(place for code, _, place in pickletools.genops(data) if code.name == "REDUCE")
    function = b"ctorch._utils\n_rebuild_tensor_v2\n"
    keep = data[2:call].replace(function, function + b"r\x00\x01\x00\x00", 1)
    for times, refused in ((1, False), (100, True)):
        again = b"j\x00\x01\x00\x00j\x01\x01\x00\x00R" * times
        bomb = b"\x80\x02](" + keep + b"r\x01\x01\x00\x00R" + again + b"e."
        with (
            pytest.raises(UnsafeFileError, match="8 times")
            if refused
            else (contextlib.nullcontext())
        ):
            assert len(read_tensor_pickle(bomb)) == 1 + times


def test_a_storage_cannot_be_read_again_and_again():
    """Each reading costs as much as its bytes, whatever few instructions ask for it."""
    raw = b"B" + (100_000).to_bytes(4, "little") + bytes(100_000) + b"0N." + b"N." * 4
    load = b"ctorch.storage\n_load_from_bytes\nq\x02B" + len(raw).to_bytes(4, "little") + raw
    with pytest.raises(HandfulError):
        read_tensor_pickle(b"\x80\x03](" + load + b"\x85q\x01R" + b"h\x02h\x01R" * 100 + b"e.")


def test_every_instruction_of_pickle_is_known_or_refused():
    for opcode in pickletools.opcodes:
        argument = b"0\n0\n" if opcode.arg is not None else b""
        with contextlib.suppress(HandfulError):
            read_tensor_pickle(b"\x80\x02" + opcode.code.encode("latin1") + argument + b".")


def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("handful.demos.importers._edf.MAX_UNPACKED_BYTES", 2**20)
    path = tmp_path / "demo_0.gzip"
    path.write_bytes(gzip.compress(bytes(2**24)))
    assert path.stat().st_size < 2**17
    with pytest.raises(FileFormatError, match="unpacks to more than 1 MiB"):
        import_edf(path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "need a list of one or two steps"),
        ({"a": 1}, "need a list of one or two steps"),
        ([edf_step("pick")] * 3, "need a list of one or two steps"),
        ([{"name": "pick"}], "has no 'target_poses'"),
        ([{**edf_step("pick"), "scene_points": torch.empty(0, 3)}], "no array 'pick_scene_points'"),
        ([{**edf_step("pick"), "target_poses": torch.zeros(1, 7)}], "has length 0: need 1"),
        ([{**edf_step("pick"), "target_poses": torch.zeros(7, 1)}], "need \\[k, 7\\]"),
        ([{**edf_step("pick"), "target_poses": "here"}], "'target_poses' is of type str"),
        ([{**edf_step("pick"), "scene_points": [[0.0] * 3] * 5}], "'scene_points' is of type list"),
        ([edf_step("pick"), edf_step("pick")], "step 1 is the second one of the name 'pick'"),
        ([{**edf_step("pick"), "scene_points": torch.zeros(30, 3) * 1e9}], "scene_points"),
    ],
)
def test_wrong_contents_are_named(tmp_path, value, message):
    path = write_gzip(tmp_path / "demo_0.gzip", value)
    with pytest.raises(HandfulError, match=message) as caught:
        import_edf(path)
    assert "demo_0.gzip" in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"not gzip", gzip.compress(b"abc" * 100)[:-20]], ids=["empty", "text", "cut"]
)
def test_a_broken_gzip_is_an_error(tmp_path, data):
    (tmp_path / "demo_0.gzip").write_bytes(data)
    with pytest.raises(FileFormatError, match=r"demo_0\.gzip"):
        import_edf(tmp_path)


# --- NPZ ---------------------------------------------------------------------------------------


def test_npz_files_are_read(tmp_path):
    np.savez(tmp_path / "demo_0.npz", **edf_arrays())
    for demos in (
        import_npz(tmp_path, gripper=HAND),
        import_npz(tmp_path / "demo_0.npz", gripper=HAND),
        import_edf(tmp_path),
    ):
        pick, place = demos[0].steps
        assert np.array_equal(pick.scene.points, small_cloud().points)
        assert np.array_equal(pick.scene.require_colors(), small_cloud().require_colors())
        assert not place.scene.has_colors
        assert place.targets.shape == (2, 4, 4)
        np.testing.assert_allclose(pick.targets[0], pose_at(0.1, 0, 0.25), atol=1e-15)


def test_scale_multiplies_clouds_and_poses(tmp_path):
    arrays = edf_arrays()
    for name in ("pick_scene_points", "pick_grasp_points", "place_scene_points"):
        arrays[name] = arrays[name] * 1000
    arrays["pick_target_pose_wxyz_xyz"][:, 4:] *= 1000
    arrays["place_target_poses"][:, :3, 3] *= 1000
    np.savez(tmp_path / "demo_0.npz", **arrays)
    with pytest.raises(HandfulError, match=r"demo_0\.npz: pick_scene_points.*0\.001"):
        import_npz(tmp_path, gripper=HAND)
    demos = import_npz(tmp_path, gripper=HAND, scale=0.001)
    np.testing.assert_allclose(demos[0].step("pick").scene.points, small_cloud().points, rtol=1e-5)
    np.testing.assert_allclose(demos[0].step("pick").targets[0], pose_at(0.1, 0, 0.25), atol=1e-12)
    with pytest.raises(OptionError, match="scale is 0"):
        import_npz(tmp_path, gripper=HAND, scale=0.0)


def named_arrays(**actions: str | bytes | None) -> dict[str, np.ndarray]:
    """The arrays of steps with those names and actions; None leaves the action out."""
    arrays: dict[str, np.ndarray] = {}
    for seed, (step, action) in enumerate(actions.items()):
        arrays[f"{step}_scene_points"] = small_cloud(seed).points
        arrays[f"{step}_target_poses"] = pose_at(0, 0, 0.3)
        if action is not None:
            arrays[f"{step}_action"] = np.array(action)
    return arrays


def import_arrays(folder: Path, arrays: dict[str, np.ndarray]):
    np.savez(folder / "demo_0.npz", **arrays)
    return import_npz(folder, gripper=HAND)


def test_npz_steps_have_any_names(tmp_path):
    arrays = named_arrays(**{"take": "pick", "hang up": b"place", "pick": None, "pick_lid": "pick"})
    names = ["take", "hang up", "pick_lid", "pick"]
    demos = import_arrays(tmp_path, {**arrays, "steps": np.array(names)})
    assert [(step.name, step.action.value) for step in demos.task] == [
        ("take", "pick"),
        ("hang up", "place"),
        ("pick_lid", "pick"),
        ("pick", "pick"),
    ]
    assert np.array_equal(demos[0].step("hang up").scene.points, small_cloud(1).points)
    as_bytes = {**arrays, "steps": np.array([name.encode() for name in names])}
    assert import_arrays(tmp_path, as_bytes).task == demos.task
    assert demos.gripper == HAND


def test_npz_steps_whose_order_needs_no_array(tmp_path):
    assert import_arrays(tmp_path, named_arrays(place=None, pick=None)).task.names == (
        "pick",
        "place",
    )
    assert import_arrays(tmp_path, named_arrays(push="place")).task.names == ("push",)
    both = {**named_arrays(pick=None, place=None), "steps": np.array(["place", "pick"])}
    assert import_arrays(tmp_path, both).task.names == ("place", "pick")


BAD_STEPS = {
    "no action": (named_arrays(take=None), "step 'take' has no action: add an array 'take_action'"),
    "other action": (named_arrays(take="grab"), "take_action: unknown action 'grab'"),
    "two actions": (
        {**named_arrays(take=None), "take_action": np.array(["pick", "pick"])},
        "holds 2 texts: need one",
    ),
    "action of numbers": (
        {**named_arrays(take=None), "take_action": np.zeros(3)},
        "'take_action' is of type float64.*need text",
    ),
    "action of objects": (
        {**named_arrays(take=None), "take_action": np.array([Attack(os.getcwd)], dtype=object)},
        "'take_action' is of type object.*need text",
    ),
    "long text": (
        {**named_arrays(take=None), "take_action": np.array("pick" * 10**5)},
        "'take_action' is of type",
    ),
    "no order": (named_arrays(a="pick", b="place"), "the steps 'a', 'b' is not known: add"),
    "no order beside pick": (named_arrays(pick=None, b="place"), "is not known: add an array 'st"),
    "order lacks one": (
        {**named_arrays(a="pick", b="place"), "steps": np.array(["a"])},
        "array 'steps' names 'a': need each step that has arrays once, 'a', 'b'",
    ),
    "order has one twice": (
        {**named_arrays(a="pick", b="place"), "steps": np.array(["a", "b", "a"])},
        "need each step",
    ),
    "order of numbers": (
        {**named_arrays(a="pick", b="place"), "steps": np.arange(2)},
        "'steps' is of type int64",
    ),
    "step without a scene": (
        {**named_arrays(pick=None), "hang_target_poses": pose_at(0, 0, 0)},
        "'hang_target_poses' has no 'hang_scene_points' beside it",
    ),
    "misspelt": (
        {**named_arrays(hang="place"), "hang_grasb_points": np.zeros((3, 3))},
        "Did you mean 'hang_grasp_points'",
    ),
    "name": (named_arrays(**{"a/b": "pick"}), "step name 'a/b'"),
    "folder of a run": (named_arrays(bench="pick"), "a folder that every run has"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_STEPS)
def test_npz_steps_that_are_not_told_are_asked_for(tmp_path, case):
    arrays, message = BAD_STEPS[case]
    with pytest.raises(DemoError, match=message) as caught:
        import_arrays(tmp_path, arrays)
    assert "demo_0.npz" in str(caught.value)


def test_the_gripper_is_not_guessed(tmp_path):
    np.savez(tmp_path / "demo_0.npz", **edf_arrays())
    with pytest.raises(TypeError, match="gripper"):
        import_npz(tmp_path)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="gripper"):
        import_posed_clouds(tmp_path, tmp_path / "poses.csv")  # type: ignore[call-arg]


def test_npz_with_objects_is_refused(tmp_path):
    np.savez(tmp_path / "demo_0.npz", pick_scene_points=np.array([Attack(os.getcwd)], dtype=object))
    with pytest.raises(FileFormatError, match=r"demo_0\.npz"):
        import_npz(tmp_path, gripper=HAND)


def test_npz_errors_name_the_file(tmp_path):
    (tmp_path / "demo_0.npz").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(FileFormatError, match=r"demo_0\.npz"):
        import_npz(tmp_path, gripper=HAND)
    np.savez(tmp_path / "demo_0.npz", points=np.zeros((3, 3)))
    with pytest.raises(DemoError, match=r"demo_0\.npz.*'pick_scene_points'; found 'points'"):
        import_npz(tmp_path, gripper=HAND)
    with pytest.raises(DemoError, match="no such file"):
        import_npz(tmp_path / "nothing", gripper=HAND)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DemoError, match=r"no \.npz file"):
        import_npz(tmp_path / "empty", gripper=HAND)


def test_upper_case_extensions_are_read(tmp_path):
    np.savez(tmp_path / "demo_0.npz", **edf_arrays())
    os.replace(tmp_path / "demo_0.npz", tmp_path / "DEMO_0.NPZ")
    assert import_edf(tmp_path)[0].name == import_npz(tmp_path, gripper=HAND)[0].name == "DEMO_0"


def test_a_name_that_is_a_tensor_is_no_name(tmp_path):
    path = write_gzip(tmp_path / "demo_0.gzip", [{**edf_step(None), "name": torch.zeros(3)}])
    assert import_edf(path)[0].steps[0].name == "pick"


def test_other_arrays_of_an_npz_file_are_passed_over(tmp_path):
    other = {
        "operator": np.array("Ann"),
        "notes": np.array([None], dtype=object),
        "last_action": np.zeros(7),
    }
    np.savez(tmp_path / "demo_0.npz", **edf_arrays(), **other)
    assert len(import_npz(tmp_path, gripper=HAND)) == 1


def test_a_misspelt_array_is_an_error_and_not_a_loss(tmp_path):
    arrays = edf_arrays()
    arrays["pick_scene_color"] = arrays.pop("pick_scene_colors")
    np.savez(tmp_path / "demo_0.npz", **arrays)
    with pytest.raises(DemoError, match=r"demo_0\.npz.*Did you mean 'pick_scene_colors'"):
        import_npz(tmp_path, gripper=HAND)


def test_arrays_are_limited_together(tmp_path, monkeypatch):
    """Entries of a zip file can share their bytes, so each by itself may be honest."""
    np.savez(tmp_path / "demo_0.npz", **edf_arrays())
    largest = max(array.nbytes for array in edf_arrays().values())
    monkeypatch.setattr("handful.clouds.files._npz.MAX_ARRAY_BYTES", largest)
    with pytest.raises(FileFormatError, match="together"):
        import_npz(tmp_path, gripper=HAND)


def test_any_folder_name_can_be_sorted(tmp_path):
    (tmp_path / "1\u00b23").mkdir()
    np.savez(tmp_path / "1\u00b23" / "demo_0.npz", **edf_arrays())
    assert len(import_npz(tmp_path, gripper=HAND)) == 1


# --- clouds and a file of poses -----------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    write_cloud(small_cloud(0), tmp_path / "scene.ply")
    write_cloud(small_cloud(1), tmp_path / "held.pcd")
    return tmp_path


CSV = """demo,step,scene,grasp,x,y,z,qw,qx,qy,qz
cup,pick,scene.ply,,0.1,0,0.25,0,1,0,0
cup,pick,scene.ply,,0.2,0,0.25,0,1,0,0
cup,place,scene.ply,held.pcd,0,0.1,0.3,0,1,0,0
bowl,pick,scene.ply,,0.1,0,0.25,0,1,0,0
"""

ACTIONS = """demo,step,action,scene,grasp,x,y,z,qw,qx,qy,qz
cup,take cup,pick,scene.ply,,0.1,0,0.25,0,1,0,0
cup,take cup,pick,scene.ply,,0.2,0,0.25,0,1,0,0
cup,put on tray,place,scene.ply,held.pcd,0,0.1,0.3,0,1,0,0
cup,pick,,scene.ply,,0.1,0,0.25,0,1,0,0
"""

JSON = [
    {"demo": "cup", "step": "pick", "scene": "scene.ply", "matrix": pose_at(0.1, 0, 0.25).tolist()},
    {"demo": "cup", "step": "pick", "scene": "scene.ply", "position": [0.2, 0, 0.25],
     "quat_xyzw": [1, 0, 0, 0]},
    {"demo": "cup", "step": "place", "scene": "scene.ply", "grasp": "held.pcd",
     "position": [0, 0.1, 0.3], "quat_wxyz": [0, 1, 0, 0]},
    {"demo": "bowl", "step": "pick", "scene": "scene.ply", "position": [0.1, 0, 0.25],
     "quat_wxyz": [0, 1, 0, 0]},
]  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_clouds_and_poses_are_read(recording, kind):
    poses = recording / f"poses.{kind}"
    poses.write_text(CSV if kind == "csv" else json.dumps(JSON))
    demos = import_posed_clouds(recording, poses, gripper=HAND)
    assert [demo.name for demo in demos] == ["cup", "bowl"]
    pick, place = demos[0].steps
    np.testing.assert_allclose(pick.targets, [pose_at(0.1, 0, 0.25), pose_at(0.2, 0, 0.25)])
    assert pick.grasp is None
    assert np.array_equal(place.grasp.points, small_cloud(1).points)


def test_steps_of_any_name_have_their_action_beside_them(recording):
    (recording / "poses.csv").write_text(ACTIONS)
    demos = import_posed_clouds(recording, recording / "poses.csv", gripper=HAND)
    assert demos.gripper == HAND
    assert [(step.name, step.action) for step in demos.task] == [
        ("take cup", Action.PICK),
        ("put on tray", Action.PLACE),
        ("pick", Action.PICK),
    ]
    rows = [{**row, "step": f"{row['step']} it", "action": row["step"]} for row in JSON]
    again = import_posed_clouds(recording, _write(recording / "p.json", rows), gripper=HAND)
    assert [(s.name, s.action.value) for s in again.task] == [
        ("pick it", "pick"),
        ("place it", "place"),
    ]


def test_the_order_of_steps_is_that_of_their_first_rows(recording):
    lines = CSV.splitlines(keepends=True)
    (recording / "poses.csv").write_text("".join([lines[0], lines[3], lines[1], lines[2]]))
    demos = import_posed_clouds(recording, recording / "poses.csv", gripper=HAND)
    assert demos.task.names == ("place", "pick")


def test_millimetre_recordings_need_a_scale(recording):
    big = io.StringIO()
    big.write("ply\nformat ascii 1.0\nelement vertex 2\n")
    big.write("property float x\nproperty float y\nproperty float z\nend_header\n0 0 0\n300 0 50\n")
    (recording / "scene.ply").write_text(big.getvalue())
    (recording / "poses.csv").write_text(
        "demo,step,scene,x,y,z,qw,qx,qy,qz\ncup,pick,scene.ply,100,0,250,0,1,0,0\n"
    )
    with pytest.raises(HandfulError, match=r"scene\.ply.*scale=0\.001"):
        import_posed_clouds(recording, recording / "poses.csv", gripper=HAND)
    demos = import_posed_clouds(recording, recording / "poses.csv", gripper=HAND, scale=0.001)
    np.testing.assert_allclose(demos[0].step("pick").targets[0], pose_at(0.1, 0, 0.25))
    assert demos[0].step("pick").scene.extent[0] == pytest.approx(0.3)


BAD_CSV = {
    "column": (CSV.replace("scene,", "scenes,", 1), "Did you mean 'scene'"),
    "missing column": (CSV.replace(",qz", ""), "lacks the columns qz"),
    "cells": (CSV.replace("0.25,0,1,0,0\ncup", "0.25,0,1,0\ncup"), "line 2: has another number"),
    "text": (CSV.replace("0.1,0,0.25", "here,0,0.25", 1), "line 2: x is 'here': need a number"),
    "NaN": (CSV.replace("0.1,0,0.25", "nan,0,0.25", 1), "line 2: position.*NaN"),
    "order": (CSV.replace("0,1,0,0\n", "0,1,0,5\n", 1), "line 2: quat_wxyz.*has length"),
    "step": (CSV.replace("cup,place", "cup,put"), "line 4: step 'put' has no action: add the col"),
    "case": (CSV.replace("cup,place", "cup,Pick"), "line 4: step 'Pick' has no action"),
    "action": (ACTIONS.replace(",place,", ",put,"), "line 4: unknown action 'put'"),
    "two actions": (
        ACTIONS.replace("pick,scene.ply,,0.2", "place,scene.ply,,0.2"),
        "line 3.*action",
    ),
    "contradiction": (
        ACTIONS + "bowl,take cup,place,scene.ply,,0,0,0,1,0,0,0\n",
        "'bowl' has the st",
    ),
    "no file": (CSV.replace("held.pcd", "other.pcd"), r"other\.pcd"),
    "path": (CSV.replace("held.pcd", "../../x.pcd"), "line 4.*leads out of"),
    "two scenes": (
        CSV.replace("scene.ply,,0.2", "held.pcd,,0.2"),
        "line 3.*names another action or other clouds",
    ),
    "empty cell": (CSV.replace("0.1,0,0.25", ",0,0.25", 1), "line 2: x is ''"),
    "column twice": (CSV.replace("grasp", "x", 1), "column 'x' more than once"),
    "semicolons": (CSV.replace(",", ";"), "separate cells by commas"),
    "name": (CSV.replace("bowl", "a bowl"), "line 5: demonstration name 'a bowl'"),
    "where the file is named": (CSV.replace("held.pcd", "x.pcd"), r"line 4: .*x\.pcd: there is"),
    "no usable path": (CSV.replace("held.pcd", "h\0.pcd"), "line 4.*not a usable path|NUL"),
    "millimetres": (CSV.replace("0.1,0,0.25", "100,0,250", 1), "line 2: .*m from the scene"),
    "no rows": (CSV.splitlines()[0], "has no poses"),
    "nothing": ("", "lacks the columns demo"),
    "binary": ("\x00\x01", "poses.csv"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_a_bad_poses_file_is_named_with_its_line(recording, case):
    text, message = BAD_CSV[case]
    (recording / "poses.csv").write_text(text)
    with pytest.raises(HandfulError, match=message):
        import_posed_clouds(recording, recording / "poses.csv", gripper=HAND)


def test_bad_json_poses_are_named(recording):
    path = recording / "poses.json"
    for value, message in [
        ({}, "need a list"),
        ([{**JSON[1], "quat_wxyz": [1, 0, 0, 0]}], r"\[0\].*need exactly one"),
        ([{**JSON[0], "pose": 1}], "unknown field 'pose'"),
        ([{"demo": "cup"}], "'step' is missing"),
    ]:
        path.write_text(json.dumps(value))
        with pytest.raises(DemoError, match=message):
            import_posed_clouds(recording, path, gripper=HAND)
    with pytest.raises(DemoError, match=r"need a \.csv or \.json"):
        import_posed_clouds(recording, recording / "poses.yaml", gripper=HAND)
    with pytest.raises(DemoError, match="no such folder"):
        import_posed_clouds(recording / "none", _write(path, JSON), gripper=HAND)


def _write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_importing_what_was_exported_gives_it_back(tmp_path):
    demos = small_demos()
    rows = []
    for demo in demos:
        for step in demo.steps:
            scene = f"{demo.name}_{step.name}.ply"
            write_cloud(step.scene, tmp_path / scene)
            rows += [
                {"demo": demo.name, "step": step.name, "scene": scene, "matrix": pose.tolist()}
                for pose in step.targets
            ]
    again = import_posed_clouds(tmp_path, _write(tmp_path / "poses.json", rows), gripper=HAND)
    for one, other in zip(demos, again, strict=True):
        for a, b in zip(one.steps, other.steps, strict=True):
            assert np.array_equal(a.targets, b.targets)
            assert np.array_equal(a.scene.points, b.scene.points)


def test_a_recording_that_is_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "demo_0.npz")
    writer = os.open(tmp_path / "demo_0.npz", os.O_RDWR)  # else a reader that opens it waits
    try:
        with pytest.raises(FileFormatError, match="no regular file"):
            import_npz(tmp_path, gripper=gripper_named("simulated"))
    finally:
        os.close(writer)


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_a_file_of_poses_has_a_largest_number_of_them(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(_posed_clouds, "MAX_POSES", 3)
    write_cloud(small_cloud(), tmp_path / "a.ply")
    pose = {"demo": "a", "step": "pick", "scene": "a.ply", "position": [0, 0, 0.1],
            "quat_wxyz": [1, 0, 0, 0]}  # fmt: skip
    for count in (3, 4):
        path = tmp_path / f"poses{suffix}"
        head = "demo,step,scene,x,y,z,qw,qx,qy,qz\n"
        rows = {".csv": head + "a,pick,a.ply,0,0,0.1,1,0,0,0\n" * count,
                ".json": json.dumps([pose] * count)}  # fmt: skip
        path.write_text(rows[suffix])
        if count == 3:
            assert len(import_posed_clouds(tmp_path, path, gripper=HAND)[0].steps[0].targets) == 3
        else:
            with pytest.raises(DemoError, match="more than 3 poses"):
                import_posed_clouds(tmp_path, path, gripper=HAND)
