"""The checker of equivariance tests, and random things to check with."""

import math

import numpy as np
import torch
from torch import Tensor

from handful.clouds import PointCloud
from handful.geometry import haar_rotations, pose_from_rotation_translation

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """Largest difference over the largest expected value; infinite where anything is not finite."""
    if actual.shape != expected.shape:
        return math.inf
    if not (torch.isfinite(actual).all() and torch.isfinite(expected).all()):
        return math.inf
    scale = max(float(expected.abs().max()), 1e-3)
    return float((actual - expected).abs().max()) / scale


def assert_equal_up_to_rounding(actual: Tensor, expected: Tensor) -> None:
    """<= 1e-9 in float64, <= 1e-4 in float32, relative to the largest value."""
    error = relative_error(actual.detach(), expected.detach())
    limit = TOLERANCE[expected.dtype]
    assert error <= limit, f"relative error {error:.2e} > {limit:g}"


def random_poses(
    count: int, seed: int, dtype: torch.dtype = torch.float64, reach: float = 0.3
) -> Tensor:
    """Rigid motions with Haar rotations and normal translations, metres."""
    generator = torch.Generator().manual_seed(seed)
    rotation = haar_rotations(count, generator=generator, dtype=dtype)
    translation = torch.randn(count, 3, generator=generator, dtype=dtype) * reach
    return pose_from_rotation_translation(rotation, translation)


def random_object(seed: int, count: int = 40, size: float = 0.06) -> PointCloud:
    """A blob of coloured points in double precision."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-size, size, (count, 3))
    return PointCloud(points, rng.uniform(0, 1, (count, 3)), dtype=np.float64)


def moved(cloud: PointCloud, pose: Tensor) -> PointCloud:
    return cloud.transformed(pose.double().numpy())
