"""Projection onto SO(3): optimality, equivariance, gradients."""

import torch
from torch import Tensor

from handful import geometry as g


def cluster(seed: int, *shape: int, spread: float = 0.5, dtype=torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(*shape, 3, generator=generator, dtype=torch.float64)
    centre = g.haar_rotations(generator=generator, dtype=torch.float64)
    return (centre @ g.rotation_exp(spread * noise)).to(dtype)


def test_nearest_rotation_is_nearest_and_keeps_rotations(dtype):
    generator = torch.Generator().manual_seed(5)
    matrix = torch.randn(20, 3, 3, generator=generator, dtype=torch.float64).to(dtype)
    matrix[0] = -torch.eye(3) + 0.1 * matrix[0]  # a reflection
    nearest = g.check_rotation(g.nearest_rotation(matrix))
    others = g.haar_rotations(500, 1, generator=generator, dtype=dtype)
    best = (matrix - others).square().sum((-2, -1)).amin(0)
    assert bool(((matrix - nearest).square().sum((-2, -1)) <= best + 1e-5).all())
    torch.testing.assert_close(g.nearest_rotation(nearest), nearest, atol=1e-5, rtol=0.0)


def test_nearest_rotation_is_bi_equivariant(dtype):
    generator = torch.Generator().manual_seed(1)
    noise = 0.2 * torch.randn(20, 3, 3, generator=generator, dtype=torch.float64)
    matrix = (cluster(0, 20) + noise).to(dtype)
    h, k = cluster(1, 2, dtype=dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    turned = h @ g.nearest_rotation(matrix) @ k
    torch.testing.assert_close(g.nearest_rotation(h @ matrix @ k), turned, atol=tolerance, rtol=0.0)


def test_nearest_rotation_gradient():
    generator = torch.Generator().manual_seed(6)
    noise = torch.randn(4, 3, 3, generator=generator, dtype=torch.float64)
    matrix = (cluster(7, 4) + 0.2 * noise).requires_grad_()
    assert torch.autograd.gradcheck(g.nearest_rotation, (matrix,))
    assert torch.autograd.gradcheck(
        g.nearest_rotation, (torch.eye(3, dtype=torch.float64, requires_grad=True),)
    )
