"""What a lattice sum estimates: unbiased for Z on its domain, and too low on average for log Z.

The exact values are known (`fisher.py`). Seeds are fixed, and with them every statistic. A sum is
called unbiased when its mean over lattices is within four standard errors of the integral; broken
lattices must miss the integral by more than eight.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from fisher import (
    BOX,
    SIGMA,
    energy_offset,
    log_partition,
    log_partition_of_ball,
    match_energy,
)
from handful.clouds import Box
from handful.geometry import rotation_lattice
from handful.models import MatchEnergy, QueryPoints
from handful.sampling import (
    ExhaustiveSampler,
    PoseLattice,
    lattice_log_partition,
    lattice_log_partitions,
    near_points,
    pose_lattice,
)

DTYPE = torch.float64
WIDE = Box((-6 * SIGMA,) * 3, (6 * SIGMA,) * 3)
"""More than 0.999999 of the normal law is inside."""


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def log_sums(
    energy: MatchEnergy, make: Callable[[torch.Generator], PoseLattice], count: int, seed: int = 8
) -> np.ndarray:
    """log Z of one query point on `count` lattices."""
    generator = seeded(seed)
    return np.array([float(lattice_log_partition(energy, make(generator))) for _ in range(count)])


def standard_errors(values: np.ndarray, expected: float) -> float:
    """How many standard errors of the mean the mean is from what is expected."""
    error = values.std(ddof=1) / math.sqrt(len(values)) + 1e-9 * abs(expected)
    return float((values.mean() - expected) / error)


def coarse_positions(generator: torch.Generator) -> PoseLattice:
    return pose_lattice(BOX, 0.045, 60, generator, dtype=DTYPE)


def fixed_positions(generator: torch.Generator) -> PoseLattice:
    """As `coarse_positions`, but the same positions every time: cubes from a corner of the box."""
    axes = [
        torch.arange(low + 0.0225, high, 0.045, dtype=DTYPE)
        for low, high in zip(BOX.lower, BOX.upper, strict=True)
    ]
    return replace(coarse_positions(generator), positions=torch.cartesian_prod(*axes))


def coarse_rotations(generator: torch.Generator) -> PoseLattice:
    return pose_lattice(BOX, 0.02, 3, generator, dtype=DTYPE)


def fixed_rotations(generator: torch.Generator) -> PoseLattice:
    """As `coarse_rotations`, but the same rotations every time."""
    return replace(coarse_rotations(generator), rotations=rotation_lattice(3, dtype=DTYPE))


@pytest.mark.parametrize(("spacing", "rotations"), [(0.04, 4), (0.03, 1), (0.02, 13)])
def test_z_is_unbiased_whatever_the_spacing(spacing, rotations):
    energy = match_energy(1)
    values = np.exp(
        log_sums(energy, lambda g: pose_lattice(BOX, spacing, rotations, g, dtype=DTYPE), 400)
    )
    expected = math.exp(log_partition() - energy_offset(energy))
    assert values.std() > 0.2 * expected, "these lattices are not coarse"
    assert abs(standard_errors(values, expected)) < 4.0


@pytest.mark.parametrize(
    ("moved", "fixed"),
    [(coarse_positions, fixed_positions), (coarse_rotations, fixed_rotations)],
    ids=["shift", "turn"],
)
def test_a_lattice_without_its_random_motion_is_biased(moved, fixed):
    energy = match_energy(1)
    expected = math.exp(log_partition() - energy_offset(energy))
    assert abs(standard_errors(np.exp(log_sums(energy, moved, 250)), expected)) < 4.0
    assert abs(standard_errors(np.exp(log_sums(energy, fixed, 250)), expected)) > 8.0


@pytest.mark.parametrize("norm_weight", [0.7, 1.0])
def test_log_z_of_a_fine_lattice_is_that_of_the_integral(norm_weight):
    energy = match_energy(1, norm_weight)
    found = log_sums(energy, lambda g: pose_lattice(BOX, 0.006, 500, g, dtype=DTYPE), 4)
    assert found.mean() == pytest.approx(log_partition() - energy_offset(energy), abs=0.02)


def test_the_domain_is_where_the_mask_is_true():
    """A ball that is inside the box: its integral, and not that of the box, is the mean of Z."""
    energy = match_energy(1)
    mask = near_points(torch.zeros(1, 3, dtype=DTYPE), 0.0115)

    def make(generator: torch.Generator) -> PoseLattice:
        return pose_lattice(BOX, 0.006, 60, generator, dtype=DTYPE, mask=mask)

    values = np.exp(log_sums(energy, make, 250))
    offset = energy_offset(energy)
    assert abs(standard_errors(values, math.exp(log_partition_of_ball(0.0115) - offset))) < 4.0
    assert abs(standard_errors(values, math.exp(log_partition() - offset))) > 8.0


def test_log_z_is_too_low_on_average_and_less_so_on_finer_lattices():
    """Jensen: E[log Z] <= log E[Z], by about Var(Z) / 2 Z²; so -log P comes out too low."""
    energy = match_energy(1)
    exact = log_partition() - energy_offset(energy)
    bias, error, predicted = [], [], []
    for spacing, rotations in ((0.04, 4), (0.02, 13), (0.01, 108)):
        values = log_sums(
            energy,
            lambda g, s=spacing, n=rotations: pose_lattice(BOX, s, n, g, dtype=DTYPE),
            800 if spacing > 0.01 else 100,
            seed=1,
        )
        bias.append(values.mean() - exact)
        error.append(values.std(ddof=1) / math.sqrt(len(values)))
        predicted.append(-0.5 * np.exp(values - exact).var())
    assert bias[0] < -5.0 * error[0]
    assert bias[1] < -4.0 * error[1]
    assert bias[1] - bias[0] > 4.0 * math.hypot(error[0], error[1])
    assert abs(bias[2]) < 0.1 * abs(bias[0])
    for found, expected, margin in zip(bias, predicted, error, strict=True):
        assert abs(found - expected) < 4.0 * margin + 0.2 * abs(expected)


# --- the bound that training uses ---------------------------------------------------------------


def bound_and_log_z(energy: MatchEnergy) -> tuple[float, float]:
    """Σ w_i log Z_i from a fine lattice, and log Z of all query points from importance weights."""
    lattice = pose_lattice(WIDE, 0.01, 300, seeded(2), dtype=DTYPE)
    with torch.no_grad():
        alone = lattice_log_partitions(energy, lattice)
        sampler = ExhaustiveSampler(spacing=0.015, rotations=200, draws=20_000)
        together = sampler.sample(energy, WIDE, 1, seeded(3)).report.log_partition
    return float((energy.queries.weights * alone).sum()), together


def test_single_query_points_bound_the_partition_function_of_all_of_them():
    """Hölder, with integrals over all poses: log Z <= Σ w_i log Z_i when the weights add up to one.

    The bound is tight when the query points agree. Weights that add up to three break it.
    """
    apart = match_energy(3)
    bound, together = bound_and_log_z(apart)
    exact = log_partition(WIDE) - energy_offset(apart)
    assert together == pytest.approx(exact, abs=0.02)
    assert bound > together + 0.1
    queries = apart.queries
    agreed = replace(
        apart,
        queries=QueryPoints(
            queries.positions[:1].expand(3, 3), queries.weights, queries.descriptors
        ),
    )
    bound, together = bound_and_log_z(agreed)
    assert bound == pytest.approx(together, abs=0.03)
    heavy = replace(agreed, queries=replace(agreed.queries, weights=3.0 * queries.weights))
    bound, together = bound_and_log_z(heavy)
    assert bound < together - 0.1
