"""Boundary checks: what they let through, and that each message names the fault and the cure."""

import math

import pytest
import torch

from handful import geometry as g
from handful.errors import GeometryError


def pose() -> torch.Tensor:
    return g.pose_exp(torch.tensor([0.3, -0.2, 1.0, 0.5, 0.1, -0.4]))


def test_good_values_come_back_unchanged(dtype):
    for shape in [(), (4,), (2, 3), (0,)]:
        rotation = g.haar_rotations(*shape, dtype=dtype)
        assert g.check_rotation(rotation) is rotation
    poses = pose().to(dtype).expand(2, 4, 4)
    assert g.check_pose(poses) is poses
    assert g.check_pose(torch.round(poses, decimals=5)).shape == poses.shape


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("entry", [(0, 0), (2, 1), (1, 3), (3, 3)])
def test_values_that_are_not_finite_are_named(bad, entry):
    value = pose()
    value[entry] = bad
    with pytest.raises(GeometryError, match=rf"not finite.*{bad}"):
        g.check_pose(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.eye(4), r"shape \(4, 4\): need \[\.\.\., 3, 3\]"),
        (torch.zeros(3), r"shape \(3,\)"),
        (torch.eye(3, dtype=torch.int64), "dtype torch.int64"),
        (torch.eye(3, dtype=torch.complex64), "dtype torch.complex64"),
        (2.0 * torch.eye(3), r"not a rotation: \|RᵀR - I\| reaches 3.*nearest_rotation"),
        (torch.zeros(3, 3), "not a rotation"),
        (1e30 * torch.eye(3), "not a rotation"),
        (torch.diag(torch.tensor([1.0, 1.0, -1.0])), "reflection.*needs \\+1"),
        (torch.eye(3) + 1e-3 * torch.ones(3, 3), "not a rotation"),
    ],
)
def test_bad_rotations_are_named(value, message):
    with pytest.raises(GeometryError, match=message):
        g.check_rotation(value)


def test_bad_poses_are_named():
    with pytest.raises(
        GeometryError, match=r"T_a_b has the last row \[.*\[0, 0, 0, 1\].*transpose"
    ):
        g.check_pose(pose().mT, name="T_a_b")
    with pytest.raises(GeometryError, match="not a rotation"):
        g.check_pose(torch.diag(torch.tensor([1.0, 2.0, 1.0, 1.0])))
    with pytest.raises(GeometryError, match="reflection"):
        g.check_pose(torch.diag(torch.tensor([-1.0, 1.0, 1.0, 1.0])))
    with pytest.raises(GeometryError, match=r"need \[\.\.\., 4, 4\]"):
        g.check_pose(torch.eye(3))


def test_the_place_in_the_batch_is_named():
    rotations = torch.eye(3).repeat(2, 3, 1, 1)
    rotations[1, 2, 0, 0] = 1.5
    with pytest.raises(GeometryError, match=r"rotation\[1, 2\] is not a rotation"):
        g.check_rotation(rotations)


def test_tolerance_is_the_callers():
    almost = torch.eye(3, dtype=torch.float64) + 1e-6
    g.check_rotation(almost)
    with pytest.raises(GeometryError):
        g.check_rotation(almost, tolerance=1e-9)
    g.check_rotation(g.nearest_rotation(almost), tolerance=1e-12)
