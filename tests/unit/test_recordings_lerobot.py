"""LeRobot data sets: what pyarrow and av wrote is imported, equal to the source."""

import json

import numpy as np
import pytest
from scipy.spatial import cKDTree

pytest.importorskip("pyarrow")
pytest.importorskip("av")

from handful.demos import Action
from handful.errors import HandfulError
from handful.recordings import (
    CloudOptions,
    Sight,
    StepPlan,
    held_cloud,
    import_lerobot,
    lerobot_events,
    scene_cloud,
)
from lerobot_data import COLOR, DEPTH, write_dataset, write_setup
from moving_recording import GRIPPER, LAYOUT, assert_equal_clouds, sight_at
from rgbd_example import change

STEPS = StepPlan(("take peg", "insert peg"))
EVERY = CloudOptions(voxel=0.0)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data") / "peg")


@pytest.fixture
def setup(tmp_path):
    return write_setup(tmp_path)


def seen_at(time: float, depth: str) -> Sight:
    """Straight from the source: millimetres, unless depth is an array of metres."""
    if depth == "array":
        return sight_at(time, lambda metres: metres.astype(np.float32))
    return sight_at(time, lambda metres: np.rint(metres * 1000.0) * 0.001)


@pytest.mark.parametrize("depth", ["image", "array", "video"])
def test_a_data_set_is_equal_to_its_source(tmp_path, setup, depth):
    """The second episode: its frames begin in the middle of every file."""
    root = write_dataset(tmp_path / "peg", depth)
    demos = import_lerobot(root, setup, STEPS, episodes=[1], voxel=0.0)
    assert [demo.name for demo in demos] == ["episode_001"]
    take, insert = demos[0].steps
    assert (take.action, insert.action) == (Action.PICK, Action.PLACE)
    np.testing.assert_allclose(take.targets[0], LAYOUT.T_robot_grasp, atol=1e-6)
    np.testing.assert_allclose(insert.targets[0], LAYOUT.T_robot_release, atol=1e-6)
    assert_equal_clouds(take.scene, scene_cloud([seen_at(2.0, depth)], GRIPPER, EVERY))
    held = held_cloud([seen_at(time, depth) for time in (6.0, 7.0, 9.0)], GRIPPER, EVERY)
    assert_equal_clouds(insert.grasp, held)
    assert_equal_clouds(insert.scene, scene_cloud([seen_at(9.0, depth)], GRIPPER, EVERY, held))


def test_all_episodes_are_demonstrations(dataset, setup):
    demos = import_lerobot(dataset, setup, STEPS)
    assert [demo.name for demo in demos] == ["episode_000", "episode_001"]
    one, other = (demo.step("take peg").scene for demo in demos)
    np.testing.assert_array_equal(one.points, other.points)


def test_videos_with_loss_change_colours_a_little(tmp_path, setup):
    root = write_dataset(tmp_path / "peg", lossless=False)
    scene = import_lerobot(root, setup, STEPS, [0])[0].step("take peg").scene
    source = scene_cloud([seen_at(2.0, "image")], GRIPPER, CloudOptions())
    away, nearest = cKDTree(source.points).query(scene.points)
    assert np.quantile(away, 0.99) < 1e-5
    off = np.abs(scene.require_colors() - source.require_colors()[nearest]).mean()
    assert 0.0 < off < 0.1


def test_steps_are_found_where_the_gripper_closes_and_opens(dataset, setup):
    found = lerobot_events(dataset, setup, [1])["episode_001"]
    assert [(event.time, event.action) for event, _ in found] == [
        (4.0, Action.PICK),
        (11.0, Action.PLACE),
    ]


STATE = {"feature": "observation.state", "position": ["x", "y", "z"]}
MISTAKES = [
    (("end_effector", "quat_xyzw"), ["qx", "qy", "qz", "qq"], "unknown channel 'qq'"),
    (("end_effector", "quat_xyzw"), ["qx", "qy"], "need the names of 4 channels"),
    (("end_effector",), STATE, "has none of .*need exactly one"),
    (("end_effector", "feature"), "observation.stat", "Did you mean 'observation.state'"),
    (("gripper_signal", "channel"), "grip", "unknown channel 'grip'. Did you mean 'gripper'"),
    (("cameras", "front", "depth"), "observation.images.depth", "unknown feature"),
    (("cameras", "front", "depth"), COLOR, "a picture of depth for people"),
    (("cameras", "front", "depth"), None, "field 'depth' is missing"),
    (("cameras", "front", "depth_scale"), None, "nothing says how long one is"),
    (("cameras", "front", "intrinsics"), None, "field 'intrinsics' is missing"),
    (
        ("cameras", "front", "intrinsics", "width"),
        320,
        "the intrinsics are for .320, 120",
    ),
    (("version",), 2, "need 'handful-lerobot', version 1"),
]


@pytest.mark.parametrize(("keys", "to", "told"), MISTAKES, ids=lambda it: str(it)[:30])
def test_a_mistake_is_one_sentence(dataset, setup, keys, to, told):
    change(setup, *keys, to=to)
    with pytest.raises(HandfulError, match=told):
        import_lerobot(dataset, setup, STEPS)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda hand, _: hand.update(quat_wxyz=hand.pop("quat_xyzw")),
         "the arm's poses are written with quaternions in the order x, y, z, w, and were read as "
         "w, x, y, z.*name the quaternions `quat_xyzw` in `end_effector`"),
        (lambda _, camera: camera.update(quat_wxyz=camera.pop("quat_xyzw")),
         "T_robot_camera of the camera 'front' is written with quaternions in the order x"),
    ],
)  # fmt: skip
def test_poses_that_do_not_fit_the_images_are_named(dataset, setup, spoil, told):
    content = json.loads(setup.read_text())
    spoil(content["end_effector"], content["cameras"]["front"]["T_robot_camera"])
    setup.write_text(json.dumps(content))
    with pytest.raises(HandfulError, match=told):
        import_lerobot(dataset, setup, STEPS)


def test_what_the_format_lacks_is_said(dataset, tmp_path):
    with pytest.raises(HandfulError, match="hold neither intrinsics nor camera poses: give a"):
        import_lerobot(dataset, tmp_path / "none.json")


@pytest.mark.parametrize(
    ("keys", "to", "told"),
    [
        (("codebase_version",), "v2.1", "need 'v3.0'. Convert older data sets"),
        (("data_path",), "../{chunk_index:03d}.parquet", "leads out of the folder"),
        (("data_path",), "data/{secret}.parquet", "unknown field 'secret'"),
        (("data_path",), "data/other-{file_index:03d}.parquet", "cannot be read"),
        (("fps",), 0, "fps is 0: need a positive number"),
        (("features", DEPTH, "dtype"), "video", "has no videos/"),
    ],
)
def test_a_data_set_that_is_none_is_told(tmp_path, setup, keys, to, told):
    root = write_dataset(tmp_path / "peg")
    change(root / "meta/info.json", *keys, to=to)
    with pytest.raises(HandfulError, match=told):
        import_lerobot(root, setup, STEPS, [0])


def test_damaged_files_are_told(tmp_path, setup):
    root = write_dataset(tmp_path / "peg")
    with pytest.raises(HandfulError, match="has no episode 7: need 0 to 1"):
        import_lerobot(root, setup, STEPS, [7])
    video = root / f"videos/{COLOR}/chunk-000/file-000.mkv"
    video.write_bytes(video.read_bytes()[:500])
    with pytest.raises(HandfulError, match=r"cannot be read as a video|has no frame at"):
        import_lerobot(root, setup, STEPS, [0])
    table = root / "data/chunk-000/file-000.parquet"
    table.write_bytes(table.read_bytes()[:500])
    with pytest.raises(HandfulError, match=r"file-000.parquet: cannot be read"):
        import_lerobot(root, setup, STEPS, [0])
    (root / "meta/info.json").write_text(json.dumps([]))
    with pytest.raises(HandfulError, match="has the version 'none'"):
        import_lerobot(root, setup, STEPS, [0])
