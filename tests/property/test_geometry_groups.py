"""Laws of SO(3) and SE(3): over regimes of angle, batch shapes and both precisions."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from handful import geometry as g

REGIMES = ["zero", "tiny", "series edge", "generic", "near pi", "pi"]
SHAPES = [(), (1,), (5,), (2, 3), (0,)]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 2e-13}

cases = given(
    seed=st.integers(0, 2**31 - 1),
    regime=st.sampled_from(REGIMES),
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)


def near(actual: Tensor, expected: Tensor, scale: float = 1.0) -> None:
    """Equal up to rounding; NaN is never equal to anything."""
    assert actual.dtype == expected.dtype
    tolerance = TOLERANCE[actual.dtype] * scale
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance, equal_nan=False)


def rotvecs(seed: int, regime: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    axis = torch.randn(*shape, 3, generator=generator, dtype=torch.float64)
    axis = axis / axis.norm(dim=-1, keepdim=True)
    u = torch.rand(*shape, 1, generator=generator, dtype=torch.float64)
    small = 10.0 ** (-12 + 10 * u)
    angle = {
        "zero": 0 * u,
        "tiny": small,
        "series edge": 0.9 + 0.2 * u,
        "generic": 0.05 + 3.0 * u,
        "near pi": math.pi - small,
        "pi": math.pi + 0 * u,
    }[regime]
    return (axis * angle).to(dtype)


def twists(seed: int, regime: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(seed + 1)
    velocity = torch.randn(*shape, 3, generator=generator, dtype=torch.float64).to(dtype)
    return torch.cat([rotvecs(seed, regime, shape, dtype), velocity], dim=-1)


def eye(size: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.eye(size, dtype=dtype).expand(*shape, size, size)


@cases
def test_exp_is_a_rotation_and_inverts_by_negation(seed, regime, shape, dtype):
    rotvec = rotvecs(seed, regime, shape, dtype)
    rotation = g.rotation_exp(rotvec)
    near(rotation.mT @ rotation, eye(3, shape, dtype))
    near(torch.linalg.det(rotation), torch.ones(shape, dtype=dtype))
    near(g.rotation_exp(-rotvec), rotation.mT)
    near(torch.linalg.matrix_exp(g.skew(rotvec)), rotation)
    near(g.unskew(g.skew(rotvec)), rotvec)


@cases
def test_conversions_agree_all_ways(seed, regime, shape, dtype):
    rotvec = rotvecs(seed, regime, shape, dtype)
    rotation = g.rotation_exp(rotvec)
    quat = g.rotvec_to_quat(rotvec)
    near(g.quat_to_rotation(quat), rotation)
    near(g.quat_to_rotation(3.0 * quat), rotation)
    near(g.quat_to_rotation(-quat), rotation)
    near(g.quat_to_rotation(g.rotation_to_quat(rotation)), rotation)
    near(g.rotation_exp(g.quat_to_rotvec(-2.0 * quat)), rotation)
    near(g.rotation_exp(g.rotation_log(rotation)), rotation)
    canonical = g.rotation_to_quat(rotation)
    assert bool((canonical[..., 0] >= 0).all())
    near(canonical.norm(dim=-1), torch.ones(shape, dtype=dtype))


@cases
def test_log_undoes_exp(seed, regime, shape, dtype):
    rotvec = rotvecs(seed, regime, shape, dtype)
    log = g.rotation_log(g.rotation_exp(rotvec))
    # At π the two signs of the axis are the same rotation.
    flipped = (log * rotvec).sum(-1, keepdim=True) < 0
    if "pi" in regime:
        log = torch.where(flipped, -log, log)
        near(log, rotvec, scale=10.0)
    else:
        near(log, rotvec)
    assert bool((log.norm(dim=-1) <= math.pi + TOLERANCE[dtype]).all())


@cases
def test_small_angles_keep_relative_precision(seed, regime, shape, dtype):
    rotvec = rotvecs(seed, "tiny", shape, dtype)
    log = g.rotation_log(g.rotation_exp(rotvec))
    torch.testing.assert_close(log, rotvec, atol=0.0, rtol=1e-5)
    angle = g.rotation_angle(g.rotation_exp(rotvec))
    torch.testing.assert_close(angle, rotvec.norm(dim=-1), atol=0.0, rtol=1e-5)


@cases
def test_quaternions_and_matrices_compose_alike(seed, regime, shape, dtype):
    first = rotvecs(seed, regime, shape, dtype)
    second = rotvecs(seed + 7, "generic", shape, dtype)
    q1, q2 = g.rotvec_to_quat(first), g.rotvec_to_quat(second)
    r1, r2 = g.rotation_exp(first), g.rotation_exp(second)
    near(g.quat_to_rotation(g.quat_multiply(q1, q2)), r1 @ r2)


@cases
def test_distance_is_a_bi_invariant_metric(seed, regime, shape, dtype):
    rotvec = rotvecs(seed, regime, shape, dtype)
    a, b = g.rotation_exp(rotvec), g.rotation_exp(rotvecs(seed + 1, "generic", shape, dtype))
    h = g.rotation_exp(rotvecs(seed + 2, "generic", shape, dtype))
    near(g.geodesic_distance(h, h @ a), rotvec.norm(dim=-1), scale=10.0)
    near(g.geodesic_distance(a, b), g.geodesic_distance(b, a), scale=10.0)
    near(g.geodesic_distance(h @ a, h @ b), g.geodesic_distance(a, b), scale=10.0)
    near(g.geodesic_distance(a @ h, b @ h), g.geodesic_distance(a, b), scale=10.0)
    slack = g.geodesic_distance(a, h) + g.geodesic_distance(h, b) - g.geodesic_distance(a, b)
    assert bool((slack > -10 * TOLERANCE[dtype]).all())


@cases
def test_pose_group_axioms(seed, regime, shape, dtype):
    a, b, c = (
        g.pose_exp(twists(seed + k, regime if k == 0 else "generic", shape, dtype))
        for k in range(3)
    )
    identity = eye(4, shape, dtype)
    near(g.pose_compose(a, g.pose_inverse(a)), identity)
    near(g.pose_compose(g.pose_inverse(a), a), identity)
    near(
        g.pose_compose(g.pose_compose(a, b), c), g.pose_compose(a, g.pose_compose(b, c)), scale=5.0
    )
    points = torch.randn(*shape, 4, 3, generator=torch.Generator().manual_seed(seed)).to(dtype)
    near(g.pose_apply(a, g.pose_apply(b, points)), g.pose_apply(a @ b, points), scale=10.0)
    rotation, _ = g.pose_to_rotation_translation(a)
    near(
        g.pose_apply(a, points) - g.pose_apply(a, torch.zeros_like(points)),
        g.rotation_apply(rotation, points),
        scale=10.0,
    )


@cases
def test_pose_conversions_agree(seed, regime, shape, dtype):
    pose = g.pose_exp(twists(seed, regime, shape, dtype))
    near(g.pose_from_rotation_translation(*g.pose_to_rotation_translation(pose)), pose)
    near(g.pose_from_quat_translation(*g.pose_to_quat_translation(pose)), pose)
    near(g.poses_from_wxyz_xyz(g.poses_to_wxyz_xyz(pose)), pose)
    g.check_pose(pose)


@cases
def test_pose_exp_matches_the_matrix_exponential(seed, regime, shape, dtype):
    twist = twists(seed, regime, shape, dtype)
    generator = torch.zeros(*shape, 4, 4, dtype=dtype)
    generator[..., :3, :3] = g.skew(twist[..., :3])
    generator[..., :3, 3] = twist[..., 3:]
    near(g.pose_exp(twist), torch.linalg.matrix_exp(generator), scale=5.0)


@cases
def test_pose_log_undoes_exp(seed, regime, shape, dtype):
    twist = twists(seed, regime, shape, dtype)
    pose = g.pose_exp(twist)
    near(g.pose_exp(g.pose_log(pose)), pose, scale=10.0)
    if "pi" not in regime:
        near(g.pose_log(pose), twist, scale=10.0)


@cases
def test_pose_distance_is_zero_only_at_coincidence(seed, regime, shape, dtype):
    pose = g.pose_exp(twists(seed, regime, shape, dtype))
    step = twists(seed + 1, "generic", shape, dtype)
    angle, length = g.pose_distance(pose, g.pose_retract(pose, step))
    near(angle, step[..., :3].norm(dim=-1), scale=10.0)
    near(length, step[..., 3:].norm(dim=-1), scale=10.0)
    angle, length = g.pose_distance(pose, pose)
    assert bool((angle.abs() < 10 * TOLERANCE[dtype]).all())
    assert bool((length == 0).all())


DIFFERENTIABLE: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("rotation_exp", lambda twist: g.rotation_exp(twist[..., :3])),
    ("rotvec_to_quat", lambda twist: g.rotvec_to_quat(twist[..., :3])),
    ("quat_to_rotation", lambda twist: g.quat_to_rotation(g.rotvec_to_quat(twist[..., :3]))),
    ("rotation_log", lambda twist: g.rotation_log(g.rotation_exp(twist[..., :3]))),
    ("rotation_to_quat", lambda twist: g.rotation_to_quat(g.rotation_exp(twist[..., :3]))),
    ("pose_exp", g.pose_exp),
    ("pose_log", lambda twist: g.pose_log(g.pose_exp(twist))),
    ("pose_inverse", lambda twist: g.pose_inverse(g.pose_exp(twist))),
    ("poses_to_wxyz_xyz", lambda twist: g.poses_to_wxyz_xyz(g.pose_exp(twist))),
]


@pytest.mark.parametrize("regime", ["zero", "tiny", "series edge", "generic"])
@pytest.mark.parametrize(
    "function", [f for _, f in DIFFERENTIABLE], ids=[name for name, _ in DIFFERENTIABLE]
)
def test_gradients_match_finite_differences(function, regime):
    twist = twists(3, regime, (3,), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(function, (twist,), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("side", [0.0, 1e-9, 1e-3])
def test_log_gradient_at_pi_is_the_one_of_its_side(side):
    # Below π the log is smooth: turning further about the same axis changes it at unit rate.
    axis = torch.tensor([[0.6, 0.0, 0.8], [-0.36, 0.48, 0.8]], dtype=torch.float64)
    angle = torch.full((2, 1), math.pi - side, dtype=torch.float64, requires_grad=True)
    log = g.rotation_log(g.rotation_exp(axis * angle))
    (gradient,) = torch.autograd.grad((log * axis).sum(), angle)
    torch.testing.assert_close(gradient, torch.ones_like(gradient), atol=1e-7, rtol=0.0)


@pytest.mark.parametrize("regime", ["zero", "tiny", "near pi", "pi"])
@pytest.mark.parametrize(
    "function",
    [
        *[f for _, f in DIFFERENTIABLE],
        lambda twist: g.rotation_angle(g.rotation_exp(twist[..., :3])),
        lambda twist: g.pose_distance(g.pose_exp(twist), g.pose_exp(twist))[1],
    ],
    ids=[*[name for name, _ in DIFFERENTIABLE], "rotation_angle", "pose_distance"],
)
def test_gradients_are_finite_at_singular_points(function, regime, dtype):
    twist = twists(5, regime, (8,), dtype).requires_grad_()
    value = function(twist)
    weights = torch.linspace(0.5, 1.5, value.numel(), dtype=dtype).reshape(value.shape)
    (gradient,) = torch.autograd.grad((value * weights).sum(), twist)
    assert bool(torch.isfinite(value).all())
    assert bool(torch.isfinite(gradient).all())
    assert float(gradient.abs().max()) < 1e3


@pytest.mark.parametrize("matrix", [torch.eye(3), torch.diag(torch.tensor([1.0, -1.0, -1.0]))])
def test_gradients_are_finite_at_exact_matrices(matrix, dtype):
    rotation = matrix.to(dtype).requires_grad_()
    for function in (g.rotation_angle, g.rotation_log, g.rotation_to_quat):
        (gradient,) = torch.autograd.grad(function(rotation).sum(), rotation)
        assert bool(torch.isfinite(gradient).all())


def test_second_derivative_of_exp_is_finite_at_zero():
    assert torch.autograd.gradgradcheck(
        g.rotation_exp, (torch.zeros(3, dtype=torch.float64, requires_grad=True),)
    )
