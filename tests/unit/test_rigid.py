"""Rigid motions as arrays are those of `geometry`, and need no PyTorch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from handful import _rigid, geometry
from handful.errors import GeometryError


def motions(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return geometry.pose_exp(torch.from_numpy(rng.normal(size=(count, 6)))).numpy()


@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 7), (0, 7)])
def test_poses_of_quaternions_are_those_of_tensors(shape):
    rows = np.random.default_rng(1).normal(size=shape)
    wanted = geometry.poses_from_wxyz_xyz(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(_rigid.poses_from_wxyz_xyz(rows), wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4), (2, 2, 4, 4), (0, 4, 4)])
def test_poses_come_back_unchanged(shape):
    poses = motions(int(np.prod(shape[:-2]))).reshape(shape)
    assert _rigid.check_pose(poses) is poses
    rotations = poses[..., :3, :3]
    assert _rigid.check_rotation(rotations) is rotations


def spoiled(what: str) -> np.ndarray:
    poses = motions(3)
    if what == "nan":
        poses[1, 0, 3] = np.nan
    elif what == "transposed":
        poses[1] = poses[1].T
    elif what == "scaled":
        poses[1, :3, :3] *= 2.0
    elif what == "huge":
        poses[1, :3, :3] = 1e300
    elif what == "mirrored":
        poses[1, :3, 0] *= -1.0
    elif what == "integers":
        return np.eye(4, dtype=np.int64)
    elif what == "shape":
        return poses[:, :3]
    return poses


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("nan", r"T_a_b\[1\] holds values that are not finite"),
        ("transposed", r"T_a_b\[1\] has the last row .* transpose it back"),
        ("scaled", r"T_a_b\[1\] is not a rotation: \|RᵀR - I\| reaches 3"),
        ("huge", r"T_a_b\[1\] is not a rotation"),
        ("mirrored", r"T_a_b\[1\] is a reflection"),
        ("integers", "T_a_b has dtype (torch.)?int64"),
        ("shape", r"T_a_b has shape \(3, 3, 4\)"),
    ],
)
@pytest.mark.parametrize("check", [_rigid.check_pose, geometry.check_pose])
def test_what_is_no_pose_is_named(check, what, told):
    value = spoiled(what)
    with pytest.raises(GeometryError, match=told):
        check(torch.from_numpy(value) if check is geometry.check_pose else value, name="T_a_b")


def test_reading_clouds_and_demonstrations_does_not_load_pytorch():
    """A process that reads one file took two seconds to load what it did not use."""
    modules = ("clouds", "demos", "recordings", "render", "answers", "client")
    words = "; ".join(f"import handful.{name}" for name in modules)
    told = f"import sys; {words}; print('torch' in sys.modules, 'trimesh' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False", "False"]


def test_training_does_not_load_what_only_simulated_objects_need():
    told = (
        "import sys, handful.evaluation; print('trimesh' in sys.modules, 'mujoco' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False", "False"]
