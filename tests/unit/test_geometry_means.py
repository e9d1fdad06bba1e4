"""Projection onto SO(3) and means: optimality, equivariance, gradients."""

import pytest
import torch
from torch import Tensor

from handful import geometry as g

MEANS = [g.rotation_chordal_mean, g.rotation_karcher_mean]


def cluster(seed: int, *shape: int, spread: float = 0.5, dtype=torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(*shape, 3, generator=generator, dtype=torch.float64)
    centre = g.haar_rotations(generator=generator, dtype=torch.float64)
    return (centre @ g.rotation_exp(spread * noise)).to(dtype)


@pytest.mark.parametrize("mean_of", MEANS)
@pytest.mark.parametrize("shape", [(7,), (2, 5), (3, 2, 1)])
def test_mean_is_bi_equivariant(mean_of, shape, dtype):
    rotations = cluster(0, *shape, dtype=dtype)
    h, k = cluster(1, 2, dtype=dtype)
    mean = mean_of(rotations)
    assert mean.shape == (*shape[:-1], 3, 3)
    g.check_rotation(mean)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(mean_of(h @ rotations @ k), h @ mean @ k, atol=tolerance, rtol=0.0)


def chordal_cost(mean: Tensor, rotations: Tensor) -> Tensor:
    return (rotations - mean).square().sum((-3, -2, -1))


def geodesic_cost(mean: Tensor, rotations: Tensor) -> Tensor:
    return g.geodesic_distance(mean, rotations).square().sum(-1)


@pytest.mark.parametrize(("mean_of", "cost"), [(MEANS[0], chordal_cost), (MEANS[1], geodesic_cost)])
def test_mean_minimises_its_cost(mean_of, cost):
    rotations = cluster(2, 6, spread=0.8)
    mean = mean_of(rotations)
    step = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(cost(mean @ g.rotation_exp(step), rotations), step)
    assert float(slope.abs().max()) < 1e-10
    for direction in torch.cat([torch.eye(3), -torch.eye(3)]).double():
        assert cost(mean @ g.rotation_exp(0.1 * direction), rotations) > cost(mean, rotations)


@pytest.mark.parametrize("mean_of", MEANS)
def test_weights_select_and_scale(mean_of):
    rotations = cluster(3, 3)
    weights = torch.tensor([0.0, 2.0, 0.0], dtype=torch.float64)
    torch.testing.assert_close(mean_of(rotations, weights), rotations[1])
    repeated = mean_of(rotations[[0, 0, 2]])
    weights = torch.tensor([4.0, 0.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(mean_of(rotations, weights), repeated)


def test_mean_of_two_is_half_way():
    pair = torch.stack([torch.eye(3), g.rotation_exp(torch.tensor([0.0, 1.2, 0.0]))])
    half_way = g.rotation_exp(torch.tensor([0.0, 0.6, 0.0]))
    for mean_of in MEANS:
        torch.testing.assert_close(mean_of(pair), half_way, atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("mean_of", MEANS)
@pytest.mark.parametrize("spread", [0.0, 0.6])
def test_mean_gradient_matches_finite_differences(mean_of, spread):
    # Equal rotations give equal singular values, where the derivative of an SVD is infinite.
    base = cluster(4, 4, spread=spread)
    weights = torch.tensor([0.2, 0.3, 0.4, 0.1], dtype=torch.float64)
    step = torch.zeros(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s: mean_of(base @ g.rotation_exp(s), weights), (step,), atol=1e-6
    )


def test_nearest_rotation_is_nearest_and_keeps_rotations(dtype):
    generator = torch.Generator().manual_seed(5)
    matrix = torch.randn(20, 3, 3, generator=generator, dtype=torch.float64).to(dtype)
    matrix[0] = -torch.eye(3) + 0.1 * matrix[0]  # a reflection
    nearest = g.check_rotation(g.nearest_rotation(matrix))
    others = g.haar_rotations(500, 1, generator=generator, dtype=dtype)
    best = (matrix - others).square().sum((-2, -1)).amin(0)
    assert bool(((matrix - nearest).square().sum((-2, -1)) <= best + 1e-5).all())
    torch.testing.assert_close(g.nearest_rotation(nearest), nearest, atol=1e-5, rtol=0.0)


def test_nearest_rotation_gradient():
    generator = torch.Generator().manual_seed(6)
    noise = torch.randn(4, 3, 3, generator=generator, dtype=torch.float64)
    matrix = (cluster(7, 4) + 0.2 * noise).requires_grad_()
    assert torch.autograd.gradcheck(g.nearest_rotation, (matrix,))
    assert torch.autograd.gradcheck(
        g.nearest_rotation, (torch.eye(3, dtype=torch.float64, requires_grad=True),)
    )


def test_pose_mean_moves_with_the_scene():
    generator = torch.Generator().manual_seed(8)
    translation = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    poses = g.pose_from_rotation_translation(cluster(9, 6), translation)
    scene = g.pose_from_rotation_translation(cluster(10, 1)[0], translation[0])
    mean = g.pose_mean(poses)
    torch.testing.assert_close(g.pose_mean(scene @ poses), scene @ mean)
    torch.testing.assert_close(mean[:3, 3], translation.mean(0))
