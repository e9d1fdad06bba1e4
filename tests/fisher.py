"""A law of poses that is known exactly: for tests of samplers and of partition functions.

The point x = T c is normal in each coordinate, cut to the workspace, and R has the matrix-Fisher
law exp(κ tr R) dR. The angle of R then has the density exp(2κ cos ω)(1 - cos ω), and its axis is
uniform.
"""

import math
from dataclasses import dataclass

import torch
from scipy import integrate, stats

from handful.clouds import Box
from handful.models import MatchEnergy, QueryPoints
from handful.nn import Types

SIGMA = 0.02
KAPPA = 0.9
BOX = Box((-0.03, -0.05, -0.012), (0.05, 0.01, 0.06))


@dataclass(frozen=True)
class FisherEnergy:
    """E = |v|²/2σ² - κ tr R, of the gripper's origin."""

    dtype: torch.dtype = torch.float64

    def __call__(self, poses: torch.Tensor) -> torch.Tensor:
        trace = poses[:, :3, :3].diagonal(dim1=1, dim2=2).sum(-1)
        return 0.5 * poses[:, :3, 3].square().sum(-1) / SIGMA**2 - KAPPA * trace


def match_energy(queries: int, norm_weight: float = 1.0) -> MatchEnergy:
    """The same law as a match of descriptors: three scalars x/σ√2, three constant vectors.

    Σ w_i |x + R d_i|² does not depend on R because the weighted offsets d_i from the mean query
    point cancel; Σ w_i |a I - b R|² is a constant minus 2ab tr R.
    """
    types = Types((3, 3))
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)[:queries]
    weights = norm_weight * weights / weights.sum()
    places = torch.tensor(
        [[0.01, 0.0, 0.1], [-0.02, 0.01, 0.1], [0.0, -0.01, 0.08]], dtype=torch.float64
    )[:queries]
    total = float(weights.sum())
    frame = torch.eye(3, dtype=torch.float64).flatten() * math.sqrt(0.5 * KAPPA / total)
    unit = SIGMA * math.sqrt(2.0 * total)

    def field(positions: torch.Tensor) -> torch.Tensor:
        return torch.cat([positions / unit, frame.expand(len(positions), 9)], dim=-1)

    descriptors = torch.cat([torch.zeros(queries, 3), frame.expand(queries, 9)], dim=-1).double()
    return MatchEnergy(field, QueryPoints(places, weights, descriptors), types)


def mean_query(energy: MatchEnergy) -> torch.Tensor:
    """The weighted mean of the query points, in other words than `QueryPoints.center`."""
    weights = energy.queries.weights
    return (weights[:, None] * energy.queries.positions).sum(0) / weights.sum()


def energy_offset(energy: MatchEnergy) -> float:
    """E at x = 0, R = 1 minus that of `FisherEnergy`."""
    pose = torch.eye(4, dtype=torch.float64)[None].clone()
    pose[0, :3, 3] = -mean_query(energy)
    return float(energy(pose)) + 3.0 * KAPPA


def log_rotation_integral() -> float:
    """log ∫ exp(κ tr R) dR with ∫dR = 1."""
    found, _ = integrate.quad(
        lambda w: math.exp(KAPPA * (1 + 2 * math.cos(w))) * (1 - math.cos(w)) / math.pi, 0, math.pi
    )
    return math.log(found)


def log_partition(box: Box = BOX) -> float:
    """log ∫ exp(-E) of `FisherEnergy` over a box of positions, metres."""
    place = [
        SIGMA * math.sqrt(2 * math.pi) * (stats.norm.cdf(b / SIGMA) - stats.norm.cdf(a / SIGMA))
        for a, b in zip(box.lower, box.upper, strict=True)
    ]
    return log_rotation_integral() + sum(math.log(side) for side in place)


def log_partition_of_ball(radius: float) -> float:
    """log ∫ exp(-E) of `FisherEnergy` over the positions at most `radius` metres from the mode."""
    place, _ = integrate.quad(
        lambda r: 4 * math.pi * r**2 * math.exp(-0.5 * (r / SIGMA) ** 2), 0, radius
    )
    return log_rotation_integral() + math.log(place)
