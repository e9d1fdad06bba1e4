"""RGB-D recordings: what is imported is what was there, and every mistake is one sentence."""

import json
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from handful.demos import Action, load_demos, load_gripper, save_demos
from handful.errors import HandfulError, OptionError, UnsafeFileError
from handful.recordings import import_rgbd, write_rgbd_example
from handful.recordings.example import GRIPPER, random_layout
from handful.recordings.example._peg import box_with_hole_mesh, peg_mesh
from rgbd_example import change, copied, example_demos, example_folder


def layout_of(index: int):
    return random_layout(np.random.default_rng([0, index]))


def distances(points: np.ndarray, meshes) -> np.ndarray:
    """From points to the nearest of many points on the meshes, metres."""
    spots = []
    for mesh in meshes:
        solid = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
        count = int(solid.area / 0.0015**2)
        spots.append(trimesh.sample.sample_surface(solid, count, seed=0)[0])
    return cKDTree(np.concatenate(spots)).query(points)[0]


# --- what is imported ----------------------------------------------------------------------------


def test_the_steps_and_the_gripper_are_the_recorded_ones():
    demos = example_demos()
    assert [demo.name for demo in demos] == ["peg_00", "peg_01"]
    assert [(step.name, step.action) for step in demos.task] == [
        ("take peg", Action.PICK),
        ("insert peg", Action.PLACE),
    ]
    assert demos.gripper == load_gripper(example_folder() / "hand.json") == GRIPPER


@pytest.mark.parametrize("index", [0, 1])
def test_targets_are_where_the_gripper_acted(index):
    """To what a robot's screen shows of a pose."""
    demo, layout = example_demos()[index], layout_of(index)
    for step, true in zip(demo.steps, (layout.T_robot_grasp, layout.T_robot_release), strict=True):
        np.testing.assert_allclose(step.targets[0], true, atol=5e-5)


@pytest.mark.parametrize("index", [0, 1])
def test_scenes_are_what_stood_there(index):
    """Two cameras with noise, one on the wrist, one with a lens and depth of its own."""
    demo, layout = example_demos()[index], layout_of(index)
    box = box_with_hole_mesh().transformed(layout.T_robot_box)
    with_peg = [box, peg_mesh().transformed(layout.T_robot_peg)]
    for step, meshes in zip(demo.steps, (with_peg, [box]), strict=True):
        away = np.abs(step.scene.points[:, 2])
        above = away > 0.003
        away[above] = np.minimum(distances(step.scene.points[above], meshes), away[above])
        assert np.quantile(away, 0.95) < 0.005
        assert (away > 0.02).mean() < 2e-4  # no hand, nothing held, no flying pixels


def test_scenes_hold_all_sides_that_the_cameras_saw():
    peg = peg_mesh().transformed(layout_of(0).T_robot_peg)
    scene = example_demos()[0].step("take peg").scene
    top = peg.vertices[peg.vertices[:, 2] > 0.09]
    assert (cKDTree(scene.points).query(top)[0] < 0.006).mean() > 0.9
    near = distances(scene.points, [peg]) < 0.003
    yellow = scene.require_colors()[near]
    assert (yellow[:, 0] > 2.0 * yellow[:, 2]).mean() > 0.8


@pytest.mark.parametrize("index", [0, 1])
def test_the_grasp_cloud_is_what_was_held(index):
    grasp, layout = example_demos()[index].step("insert peg").grasp, layout_of(index)
    assert grasp is not None
    peg = peg_mesh().transformed(np.linalg.inv(layout.T_peg_gripper))
    closed = GRIPPER.with_width(0.054).shape
    assert closed is not None
    held = grasp.points[~closed.contains(grasp.points.astype(np.float64), 0.01)]
    assert len(held) > 1000
    assert np.quantile(distances(held, [peg]), 0.95) < 0.005
    reach = grasp.points @ GRIPPER.T_gripper_contact[:3, 2]
    assert reach.min() > 0.08  # no palm, no arm
    assert reach.max() == pytest.approx(0.135 + 0.075 + 0.012, abs=0.008)


def test_the_first_recordings_of_more_are_those_of_fewer(tmp_path):
    fewer = write_rgbd_example(tmp_path / "one", 1)
    for file in sorted((fewer / "peg_00").iterdir()):
        assert file.read_bytes() == (example_folder() / "peg_00" / file.name).read_bytes()


def test_all_of_it_survives_the_disk(tmp_path):
    again = load_demos(save_demos(example_demos(), tmp_path / "peg"))
    np.testing.assert_allclose(
        again[1].step("insert peg").scene.points, example_demos()[1].step("insert peg").scene.points
    )


# --- the same recording, written in other ways -------------------------------------------------


@lru_cache
def unthinned():
    return import_rgbd(example_folder(), voxel=0.0)


def imported_equal(folder: Path) -> None:
    one = import_rgbd(folder, voxel=0.0)[0]
    for step, other in zip(one.steps, unthinned()[0].steps, strict=True):
        np.testing.assert_allclose(step.targets, other.targets, atol=1e-5)
        np.testing.assert_allclose(step.scene.points, other.scene.points, atol=2e-5)


def test_metres_and_matrices_are_the_same_recording(tmp_path):
    folder = copied(tmp_path / "peg")
    for name in ("recordings.json", "peg_00/recording.json"):
        text = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(as_matrices(text)))
    change(folder / "recordings.json", "length_unit", to="m")
    box = json.loads((folder / "recordings.json").read_text())["workspace"]
    for corner, values in box.items():
        change(
            folder / "recordings.json", "workspace", corner, to=[value / 1000 for value in values]
        )
    imported_equal(folder)


def as_matrices(value):
    """JSON with every pose as a matrix in metres."""
    if isinstance(value, list):
        return [as_matrices(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "quat_xyzw" in value:
        pose = np.eye(4)
        pose[:3, :3] = Rotation.from_quat(value["quat_xyzw"]).as_matrix()
        pose[:3, 3] = np.array(value["position"]) / 1000.0
        return pose.tolist()
    return {key: as_matrices(item) for key, item in value.items()}


@pytest.mark.parametrize("kind", ["quat_wxyz", "rotvec_rad", "rpy_deg"])
def test_rotations_of_other_kinds_are_the_same_recording(tmp_path, kind):
    folder = copied(tmp_path / "peg")
    file = folder / "peg_00" / "recording.json"
    pose = json.loads(file.read_text())["steps"][0]["targets"][0]
    turn = Rotation.from_quat(pose["quat_xyzw"])
    written = {
        "quat_wxyz": np.roll(turn.as_quat(), 1),
        "rotvec_rad": turn.as_rotvec(),
        "rpy_deg": turn.as_euler("xyz", degrees=True),
    }[kind]
    to = {"position": pose["position"], kind: written.tolist()}
    change(file, "steps", 0, "targets", 0, to=to)
    imported_equal(folder)


def test_depth_in_metres_as_npy_is_the_same_recording(tmp_path):
    folder = copied(tmp_path / "peg")
    recording = json.loads((folder / "peg_00" / "recording.json").read_text())
    for step in recording["steps"]:
        for view in [*step["scene"], *step.get("held", [])]:
            png = folder / "peg_00" / view["depth"]
            scale = 0.001 if view["camera"] == "table" else 0.0001
            metres = np.array(Image.open(png)).astype(np.float32) * np.float32(scale)
            np.save(png.with_suffix(".npy"), metres)
            view["depth"] = png.with_suffix(".npy").name
    (folder / "peg_00" / "recording.json").write_text(json.dumps(recording))
    for camera in ("table", "wrist"):
        change(folder / "recordings.json", "cameras", camera, "depth_scale", to=None)
    imported_equal(folder)


def test_a_recording_may_stand_in_the_manifest_itself(tmp_path):
    folder = copied(tmp_path / "peg")
    recording = json.loads((folder / "peg_00" / "recording.json").read_text())
    for step in recording["steps"]:
        for view in [*step["scene"], *step.get("held", [])]:
            view.update({kind: f"peg_00/{view[kind]}" for kind in ("color", "depth")})
    change(folder / "recordings.json", "recordings", to=[recording])
    imported_equal(folder)


def test_without_views_of_what_is_held_there_is_no_grasp_cloud(tmp_path):
    """What is held still leaves the scene: the cameras that look at it see it."""
    folder = copied(tmp_path / "peg")
    change(folder / "peg_00" / "recording.json", "steps", 1, "held", to=None)
    step = import_rgbd(folder)[0].step("insert peg")
    assert step.grasp is None


def test_the_hand_stays_in_the_scene_if_nobody_says_where_it_was(tmp_path):
    """A control: it is the recorded pose that removes it."""
    folder = copied(tmp_path / "peg")
    file = folder / "peg_00" / "recording.json"
    recording = json.loads(file.read_text())
    view = dict(recording["steps"][1]["held"][0])
    del view["T_robot_gripper"]
    change(file, "steps", 1, "scene", to=[view])
    box = {"lower": [200, -250, -15], "upper": [700, 250, 600]}
    change(folder / "recordings.json", "workspace", to=box)
    change(file, "steps", 1, "held", to=None)
    assert import_rgbd(folder)[0].step("insert peg").scene.points[:, 2].max() > 0.2
    change(file, "steps", 1, "scene", to=[recording["steps"][1]["held"][0]])
    left = import_rgbd(folder)[0].step("insert peg").scene.points
    hand = np.array(recording["steps"][1]["held"][0]["T_robot_gripper"]["position"]) / 1000.0
    assert (np.linalg.norm(left - hand, axis=1) < 0.05).sum() < 10


# --- mistakes ------------------------------------------------------------------------------------

MANIFEST, RECORDING = "recordings.json", "peg_00/recording.json"
CAMERA, STEP = ("cameras", "table"), ("steps", 1)
LENS = (*CAMERA, "intrinsics", "distortion")
HELD = (*STEP, "held", 0)

MISTAKES = [
    (MANIFEST, ("length_unit",), None, "'length_unit' is missing: write 'm' or 'mm'"),
    (MANIFEST, ("length_unit",), "cm", "unknown length unit 'cm'"),
    (MANIFEST, ("length_unit",), "m", 'm away, with lengths in \'m\'.*"length_unit": "mm"'),
    (MANIFEST, ("format",), "rgbd", "need 'handful-rgbd', version 1"),
    (MANIFEST, ("gripper",), None, "field 'gripper' is missing"),
    (MANIFEST, ("gripper",), "other.json", "other.json: cannot be read"),
    (MANIFEST, ("gripper",), "../hand.json", "leads out of the folder"),
    (MANIFEST, ("cameras",), {}, "cameras: need an object with one camera or more"),
    (MANIFEST, ("workspace", "lower"), [800, 0, 0], "workspace: a box needs lower < upper"),
    (MANIFEST, ("workspace", "lower"), [690, 240, 290], "no camera sees anything of the scene"),
    (MANIFEST, ("held_reach",), 60, "what is held goes on beyond 0.06 m"),
    (MANIFEST, ("recordings", 0), "peg_07.json", "there is no file 'peg_07.json'"),
    (MANIFEST, (*CAMERA, "depth_scale"), None, "nothing says how long one is.*depth_scale"),
    (MANIFEST, (*CAMERA, "depth_scale"), 1.0, r"nearer than .* m, with depth_scale 1"),
    (MANIFEST, (*CAMERA, "depth_scale"), 0, "depth_scale is 0: need metres per unit"),
    (MANIFEST, (*CAMERA, "depth_intrinsics"), None, "'T_color_depth' and no 'depth_intrinsics'"),
    (MANIFEST, (*CAMERA, "T_color_depth"), None, "'depth_intrinsics' and no 'T_color_depth'"),
    (MANIFEST, (*CAMERA, "T_robot_camera"), None, "has none of .'T_gripper_camera'"),
    (MANIFEST, (*CAMERA, "intrinsics", "width"), 640, "424 x 240 pixels, and .* 640 x 240"),
    (MANIFEST, LENS, [0.1, 0.2], r"distortion \[k1, k2, p1, p2, k3\]: has shape \[2\]"),
    (MANIFEST, LENS, [-3, 0, 0, 0, 0], "folds the image of 424 x 240 pixels"),
    (RECORDING, (*STEP, "action"), "put", "unknown action 'put'"),
    (RECORDING, (*STEP, "scene"), [], "field 'scene' is an empty list"),
    (RECORDING, (*STEP, "targets"), [], "field 'targets' is an empty list"),
    (RECORDING, (*STEP, "poses"), [], "unknown field 'poses'"),
    (RECORDING, (*HELD, "camera"), "tabel", "unknown camera 'tabel'. Did you mean 'table'"),
    (RECORDING, (*HELD, "color"), "x.png", "x.png: cannot be read: No such file"),
    (RECORDING, (*HELD, "depth"), "../../x.png", "leads out of the folder"),
    (RECORDING, (*HELD, "depth"), "held_table_1_color.png", "a picture of depth for people"),
    (RECORDING, (*HELD, "T_robot_gripper"), None, "has no 'T_robot_gripper'"),
    (
        RECORDING,
        (*STEP, "scene", 1, "T_robot_gripper"),
        None,
        "camera 'wrist' is on the wrist, so that the view needs 'T_robot_gripper'",
    ),
    (
        RECORDING,
        (*STEP, "targets", 0),
        {"position": [0, 0, 0], "quat": [0, 0, 0, 1]},
        "has none of .*'quat_wxyz', 'quat_xyzw'.* need exactly one",
    ),
    (
        RECORDING,
        (*STEP, "targets", 0),
        {"position": [0, 0, 0], "quat_wxyz": [0, 0, 0, 2]},
        "has length 2: need 1",
    ),
    (
        RECORDING,
        (*STEP, "targets", 0),
        {"position": [0, 0, 0], "rotvec_rad": [0, 180, 0]},
        "turns by 180 radians: need at most 6.283",
    ),
    (
        RECORDING,
        (*STEP, "targets", 0),
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 0, 0, 1]],
        r"targets\[0\]: the matrix",
    ),
]


@pytest.mark.parametrize(
    ("file", "keys", "to", "told"), MISTAKES, ids=lambda value: str(value)[:40]
)
def test_a_mistake_is_one_sentence_with_file_and_cure(tmp_path, file, keys, to, told):
    folder = copied(tmp_path / "peg")
    change(folder / file, *keys, to=to)
    with pytest.raises(HandfulError, match=told) as caught:
        import_rgbd(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_gripper_without_a_shape_cannot_be_cut_out(tmp_path):
    folder = copied(tmp_path / "peg")
    change(folder / "hand.json", "shape", to=None)
    with pytest.raises(HandfulError, match="the gripper has no shape, and it is in view: describe"):
        import_rgbd(folder)


def test_a_pose_that_belongs_to_another_picture_is_told(tmp_path):
    """All views of what is held have a gripper pose that is 30 cm off."""
    folder = copied(tmp_path / "peg")
    file = folder / "peg_00" / "recording.json"
    for number in range(3):
        place = ("steps", 1, "held", number, "T_robot_gripper", "position")
        x, y, z = json.loads(file.read_text())["steps"][1]["held"][number]["T_robot_gripper"][
            "position"
        ]
        change(file, *place, to=[x, y + 300, z + 100])
    with pytest.raises(HandfulError, match=r"between the fingers|nothing is seen within"):
        import_rgbd(folder)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (b"", "not a readable PNG image"),
        (b"\x89PNG\r\n\x1a\n broken", "not a readable PNG image"),
        (b"BM" + bytes(60), "not a readable PNG image"),
    ],
)
def test_a_damaged_image_is_told(tmp_path, written, told):
    folder = copied(tmp_path / "peg")
    (folder / "peg_00" / "take_table_1_depth.png").write_bytes(written)
    with pytest.raises(HandfulError, match=rf"take_table_1_depth.png: is {told}"):
        import_rgbd(folder)


def test_an_image_that_is_cut_off_is_told(tmp_path):
    folder = copied(tmp_path / "peg")
    image = folder / "peg_00" / "take_table_1_depth.png"
    image.write_bytes(image.read_bytes()[:9000])
    with pytest.raises(HandfulError, match="the image is damaged or cut off"):
        import_rgbd(folder)


def test_depth_that_holds_python_objects_is_not_loaded(tmp_path):
    folder = copied(tmp_path / "peg")
    np.save(folder / "peg_00" / "evil.npy", np.array([[{}]], dtype=object))
    change(folder / RECORDING, "steps", 0, "scene", 0, "depth", to="evil.npy")
    with pytest.raises(UnsafeFileError, match="pickled Python objects"):
        import_rgbd(folder)


def test_a_folder_without_recordings_says_how_to_see_one(tmp_path):
    with pytest.raises(HandfulError, match="handful sample --rgbd"):
        import_rgbd(tmp_path)


def test_the_example_does_not_replace_other_things(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(HandfulError, match="no folder of RGB-D recordings"):
        write_rgbd_example(tmp_path, 1, overwrite=True)
    with pytest.raises(OptionError, match="need 1 to 1000"):
        write_rgbd_example(tmp_path / "x", 0)


def test_the_docs_show_the_example():
    """What people copy from is what the command writes, some views left out."""
    page = (Path(__file__).parents[2] / "docs" / "recordings.md").read_text()
    manifest, recording = (
        json.loads(text)
        for text in re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[:2]
    )
    written = json.loads((example_folder() / "recordings.json").read_text())
    assert {**manifest, "description": ""} == {**written, "description": ""}
    steps = json.loads((example_folder() / "peg_00" / "recording.json").read_text())["steps"]
    for step, whole in zip(recording["steps"], steps, strict=True):
        assert {**step, "scene": 0, "held": 0} == {**whole, "scene": 0, "held": 0} | (
            {} if "held" in step else {"held": 0}
        )
        for kind in ("scene", "held"):
            assert all(view in whole[kind] for view in step.get(kind, []))
