"""Uniform samples of SO(3), and near-uniform lattices of any size."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import GeometryError

from ._rotations import quat_multiply, quat_normalize, quat_to_rotation

# Alexa 2022, "Super-Fibonacci Spirals": φ² = 2 and ψ⁴ = ψ + 4.
_PHI = math.sqrt(2.0)
_PSI = 1.533751168755204288118041


def haar_quats(
    *shape: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "*shape 4"]:
    """Unit quaternions (wxyz, either sign) of uniformly distributed rotations.

    Args:
        *shape: Batch shape; none gives a single quaternion.
        generator: Source of randomness; its device must be `device`.
        dtype: Type of the result.
        device: Where to draw; by default where the generator is.
    """
    if device is None and generator is not None:
        device = generator.device
    normal = torch.randn(*shape, 4, generator=generator, dtype=torch.float64, device=device)
    return quat_normalize(normal).to(dtype)


def haar_rotations(
    *shape: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "*shape 3 3"]:
    """Rotation matrices distributed by the bi-invariant measure dR of SO(3).

    Args:
        *shape: Batch shape; none gives a single rotation.
        generator: Source of randomness; its device must be `device`.
        dtype: Type of the result.
        device: Where to draw; by default where the generator is.
    """
    quats = haar_quats(*shape, generator=generator, dtype=torch.float64, device=device)
    return quat_to_rotation(quats).to(dtype)


def quat_lattice(
    count: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "count 4"]:
    """Near-uniform unit quaternions (wxyz, either sign): a super-Fibonacci spiral.

    Point i with s = i + 1/2 lies at (r sin α, r cos α, ρ sin β, ρ cos β), r² = s/n, ρ² = 1 - s/n,
    α = 2πs/φ, β = 2πs/ψ (Alexa 2022). Any size works; sizes are not nested.

    Args:
        count: Number of rotations, at least 1.
        generator: If given, the whole lattice is turned by one uniform rotation, so that each
            lattice rotation by itself is uniformly distributed.
        dtype: Type of the result.
        device: Where the result lives; by default where the generator is.
    """
    if count < 1:
        raise GeometryError(f"lattice size is {count}: need at least 1 rotation.")
    if device is None and generator is not None:
        device = generator.device
    s = torch.arange(count, dtype=torch.float64, device=device) + 0.5
    inner, outer = (s / count).sqrt(), (1.0 - s / count).sqrt()
    # Whole turns are dropped before the sine, which would lose digits to large arguments.
    alpha = 2.0 * math.pi * torch.frac(s / _PHI)
    beta = 2.0 * math.pi * torch.frac(s / _PSI)
    quats = torch.stack(
        [inner * alpha.sin(), inner * alpha.cos(), outer * beta.sin(), outer * beta.cos()], dim=-1
    )
    if generator is not None:
        turn = haar_quats(generator=generator, dtype=torch.float64, device=device)
        quats = quat_multiply(turn, quats)
    return quats.to(dtype)


def rotation_lattice(
    count: int,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "count 3 3"]:
    """Near-uniform rotation matrices of any number (see `quat_lattice`).

    Args:
        count: Number of rotations, at least 1.
        generator: If given, the whole lattice is turned by one uniform rotation.
        dtype: Type of the result.
        device: Where the result lives; by default where the generator is.
    """
    quats = quat_lattice(count, generator=generator, dtype=torch.float64, device=device)
    return quat_to_rotation(quats).to(dtype)
