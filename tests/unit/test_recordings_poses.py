"""Images are compared with the recorded poses of cameras and arm; usual mistakes are named."""

import json
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful._strict_json import Fields, read_json
from handful.demos import pose_from_json
from handful.errors import DemoError
from handful.recordings import import_rgbd
from handful.recordings._agreement import Views
from handful.recordings._pose_mistakes import MENDED, pose_problem
from handful.recordings._setup import check_version, read_setup
from handful.recordings.rgbd._folder import ARM, FORMAT, MANIFEST, VERSION, _entry, _read_steps
from rgbd_example import copied, example_folder


@lru_cache
def recorded():
    """Setup and views of the example."""
    manifest = example_folder() / MANIFEST
    fields = Fields(read_json(manifest), str(manifest), DemoError)
    check_version(fields, FORMAT, VERSION)
    setup = read_setup(fields, manifest, 0.002)
    steps = []
    for address, value in fields.items("recordings"):
        content, where, root = _entry(value, address, manifest.parent)
        opened = Fields(content, where, DemoError)
        name = opened.text("name")
        steps += _read_steps(name, opened, root, setup, None)
    scenes = [[sight.view for sight in step.scene] for step in steps]
    held = [sight.view for step in steps for sight in step.held]
    return setup, scenes, held


def problem(cameras=None, arm=None, only=None, held=True):
    """What is said where the recorded poses were changed by these functions."""
    setup, scenes, shown = recorded()
    changed = {
        name: replace(camera, T_base_camera=(cameras or {}).get(name, same)(camera.T_base_camera))
        for name, camera in setup.cameras.items()
    }

    def moved(view):
        T = view.T_robot_gripper
        return view if arm is None or T is None else replace(view, T_robot_gripper=arm(T))

    chosen = [[moved(view) for view in views if only in (None, view.camera)] for views in scenes]
    shown = [moved(view) for view in shown] if held else []
    return pose_problem(
        chosen, shown, changed, setup.gripper, setup.options.workspace, setup.units.length, ARM
    )


def same(T):
    return T


def w_first(T):
    """Numbers w, x, y, z under the name `quat_xyzw`."""
    found = T.copy()
    x, y, z, w = Rotation.from_matrix(T[:3, :3]).as_quat()
    found[:3, :3] = Rotation.from_quat([w, x, y, z]).as_matrix()
    return found


def w_last(T):
    """Numbers x, y, z, w under the name `quat_wxyz`."""
    found = T.copy()
    x, y, z, w = Rotation.from_matrix(T[:3, :3]).as_quat()
    found[:3, :3] = Rotation.from_quat([y, z, w, x]).as_matrix()
    return found


def transposed(T):
    found = T.copy()
    found[:3, :3] = T[:3, :3].T
    return found


def link(T):
    """Of the link instead of the optical frame, as ROS has both."""
    found = T.copy()
    optical_in_link = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    found[:3, :3] = T[:3, :3] @ optical_in_link.T
    return found


def open_gl(T):
    return T @ np.diag([1.0, -1.0, -1.0, 1.0])


def in_metres(T):
    found = T.copy()
    found[:3, 3] /= 1000.0
    return found


def shifted(T):
    found = T.copy()
    found[:3, 3] += [0.0, 0.08, 0.0]
    return found


def test_right_poses_fit_with_room_to_spare():
    setup, scenes, held = recorded()
    fit = Views(scenes, held, setup.gripper, setup.options.workspace).fit(setup.cameras)
    assert fit.scenes > 0.7
    assert fit.hand > 0.5
    assert fit.worst > MENDED
    assert problem() is None


@pytest.mark.parametrize("camera", ["table", "wrist"])
@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (np.linalg.inv, "is the inverse of what the name says"),
        (w_first, "in the order w, x, y, z, and were read as x, y, z, w"),
        (w_last, "in the order x, y, z, w, and were read as w, x, y, z"),
        (transposed, "turned by the inverse"),
        (link, "the pose of the camera's link"),
        (open_gl, "a frame that looks along -z"),
        (in_metres, "its position is in metres, and `length_unit` says mm"),
    ],
)
def test_a_mistake_in_the_pose_of_one_camera_is_named_with_the_right_pose(camera, mistake, told):
    found = problem({camera: mistake})
    assert found is not None
    assert found.named, found.told
    setup, _, _ = recorded()
    field = setup.cameras[camera].field
    assert f"{field} of the camera '{camera}' is" in found.told
    assert told in found.told
    start = found.told.index(f'"{field}": ') + len(f'"{field}": ')
    written = json.loads(found.told[start : found.told.index("}", start) + 1])
    right = setup.cameras[camera].T_base_camera
    T = pose_from_json(written, "the cure")
    np.testing.assert_allclose(T[:3, 3] / 1000.0, right[:3, 3], atol=1e-4)
    np.testing.assert_allclose(T[:3, :3], right[:3, :3], atol=1e-4)


@pytest.mark.parametrize(
    ("mistake", "told"),
    [(np.linalg.inv, "the inverse"), (w_first, "w, x, y, z, and"), (w_last, "x, y, z, w, and")],
)
def test_a_mistake_in_the_poses_of_the_arm_is_named(mistake, told):
    found = problem(arm=mistake)
    assert found is not None
    assert found.named, found.told
    assert "Probably the arm's poses are" in found.told
    assert told in found.told


def test_a_mistake_in_all_poses_is_told_of_all():
    found = problem({"table": w_first, "wrist": w_first}, arm=w_first)
    assert found is not None
    assert "the arm's poses, and those of the cameras, are" in found.told
    assert "name the quaternions `quat_wxyz`" in found.told


def test_one_camera_beside_the_table_is_checked_by_the_hand_that_it_sees():
    found = problem({"table": np.linalg.inv}, only="table")
    assert found is not None
    assert found.named
    assert "of the hand is seen where the arm says" in found.told
    assert problem(only="table") is None


def test_without_anything_to_compare_nothing_is_said():
    assert problem({"table": np.linalg.inv}, only="table", held=False) is None


def test_a_camera_that_is_eight_centimetres_off_is_doubted_and_no_mistake_is_named():
    found = problem({"table": shifted})
    assert found is not None
    assert not found.named
    assert "`handful check camera`" in found.told


def test_an_import_stops_at_a_mistake_that_is_named_and_warns_of_another(tmp_path):
    folder = copied(tmp_path / "peg")
    manifest = json.loads((folder / MANIFEST).read_text())
    place = manifest["cameras"]["wrist"]["T_gripper_camera"]
    T = np.linalg.inv(pose_from_json(place, "the test"))
    quat = Rotation.from_matrix(T[:3, :3]).as_quat()
    spoiled = {"position": T[:3, 3].tolist(), "quat_xyzw": quat.tolist()}
    manifest["cameras"]["wrist"]["T_gripper_camera"] = spoiled
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DemoError, match="T_gripper_camera of the camera 'wrist' is the inverse"):
        import_rgbd(folder)
    place["position"][1] += 100.0
    manifest["cameras"]["wrist"]["T_gripper_camera"] = place
    (folder / MANIFEST).write_text(json.dumps(manifest))
    told = []
    import_rgbd(folder, warn=told.append)
    assert len(told) == 1
    assert "no usual mistake explains it" in told[0]
