"""Lie derivative matrices (eq. lie-deriv-param) against finite differences of their curves."""

import pytest
import torch
from torch import Tensor

from handful import geometry as g

STEP = 1e-6


def poses(count: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    twist = torch.randn(count, 6, generator=generator, dtype=torch.float64)
    return g.pose_exp(twist)


def function(pose: Tensor) -> Tensor:
    """A function on SE(3) that has no symmetry."""
    rotation, v = g.pose_to_rotation_translation(pose)
    turned = rotation @ torch.tensor([0.3, -0.8, 0.5], dtype=pose.dtype)
    return torch.sin(turned[..., 0] + 2 * v[..., 1]) + turned[..., 1] * v[..., 2] + v[..., 0] ** 2


def lie_derivatives(matrix: Tensor, pose: Tensor) -> Tensor:
    """Lᵀ ∂f/∂z, the chain rule in coordinates z = (q, v)."""
    z = g.poses_to_wxyz_xyz(pose).requires_grad_()
    (gradient,) = torch.autograd.grad(function(g.poses_from_wxyz_xyz(z)).sum(), z)
    return (matrix.mT @ gradient[..., None]).squeeze(-1)


def difference(curve, pose: Tensor) -> Tensor:
    """Central difference of f along the curve of each basis vector V_1..V_6."""
    columns = []
    for direction in torch.eye(6, dtype=torch.float64):
        step = (STEP * direction).expand(*pose.shape[:-2], 6)
        columns.append((function(curve(pose, step)) - function(curve(pose, -step))) / (2 * STEP))
    return torch.stack(columns, dim=-1)


def right_multiplied(pose: Tensor, twist: Tensor) -> Tensor:
    return pose @ g.pose_exp(twist)


CASES = {
    "paper": (g.lie_derivative_matrix, g.pose_retract),
    "body": (g.body_lie_derivative_matrix, right_multiplied),
}


@pytest.mark.parametrize("case", CASES)
def test_derivatives_match_finite_differences_of_the_curve(case):
    matrix_of, curve = CASES[case]
    pose = poses()
    quat, _ = g.pose_to_quat_translation(pose)
    ours = lie_derivatives(matrix_of(quat), pose)
    torch.testing.assert_close(ours, difference(curve, pose), atol=1e-8, rtol=1e-7)


def test_the_two_conventions_differ_and_the_check_sees_it():
    pose = poses()
    quat, _ = g.pose_to_quat_translation(pose)
    ours = lie_derivatives(g.lie_derivative_matrix(quat), pose)
    body = difference(right_multiplied, pose)
    torch.testing.assert_close(ours[..., :3], body[..., :3], atol=1e-8, rtol=1e-7)
    assert not torch.allclose(ours[..., 3:], body[..., 3:], atol=1e-2)


@pytest.mark.parametrize("case", CASES)
def test_columns_are_velocities_of_the_coordinates(case):
    matrix_of, curve = CASES[case]
    pose = poses(3)
    quat, _ = g.pose_to_quat_translation(pose)
    for index, direction in enumerate(torch.eye(6, dtype=torch.float64)):
        step = (STEP * direction).expand(3, 6)
        ahead, behind = (g.poses_to_wxyz_xyz(curve(pose, s)) for s in (step, -step))
        velocity = (ahead - behind) / (2 * STEP)
        torch.testing.assert_close(matrix_of(quat)[..., index], velocity, atol=1e-8, rtol=0.0)


def test_entries_are_those_of_the_paper():
    q1, q2, q3, q4 = quat = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    expected = 0.5 * torch.stack(
        [
            torch.stack([-q2, -q3, -q4]),
            torch.stack([q1, -q4, q3]),
            torch.stack([q4, q1, -q2]),
            torch.stack([-q3, q2, q1]),
        ]
    )
    matrix = g.lie_derivative_matrix(quat)
    assert matrix.shape == (7, 6)
    assert torch.equal(matrix[:4, :3], expected)
    assert torch.equal(matrix[4:, 3:], torch.eye(3, dtype=torch.float64))
    assert not matrix[:4, 3:].any()
    assert not matrix[4:, :3].any()


def test_langevin_metric_is_the_same_in_both_conventions(dtype):
    quat = g.haar_quats(4, 2, generator=torch.Generator().manual_seed(1), dtype=dtype)
    paper, body = g.lie_derivative_matrix(quat), g.body_lie_derivative_matrix(quat)
    torch.testing.assert_close(paper @ paper.mT, body @ body.mT, atol=1e-6, rtol=0.0)


def test_quaternion_velocity_is_tangent_to_the_sphere(dtype):
    quat = g.haar_quats(6, generator=torch.Generator().manual_seed(2), dtype=dtype)
    matrix = g.quat_derivative_matrix(quat)
    close = {"atol": 1e-6, "rtol": 0.0}
    torch.testing.assert_close(
        (quat[:, None] @ matrix).squeeze(1), torch.zeros(6, 3, dtype=dtype), **close
    )
    identity = torch.eye(3, dtype=dtype).expand(6, 3, 3)
    torch.testing.assert_close(4 * matrix.mT @ matrix, identity, **close)


def test_the_series_of_the_logarithm_meets_its_closed_form():
    """Both are exact at angle 1, where one takes over from the other."""
    twists = torch.zeros(2, 6, dtype=torch.float64)
    twists[:, 0] = torch.tensor([1.0 - 1e-9, 1.0 + 1e-9], dtype=torch.float64)
    twists[:, 3:] = torch.tensor([0.3, -0.5, 0.7], dtype=torch.float64)
    assert (g.pose_log(g.pose_exp(twists)) - twists).abs().max() < 1e-14
