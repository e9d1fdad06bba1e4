"""Poses near a target: their density, their equivariance, and what they add to a lattice sum.

The exact integrals are known (`fisher.py`). Seeds are fixed, and with them every statistic.
"""

import math

import numpy as np
import pytest
import torch

from equivariance import random_poses
from fisher import SIGMA, energy_offset, log_partition, match_energy
from handful.clouds import Box, NeighbourIndex
from handful.errors import OptionError
from handful.learning import LatticeNegatives, NearTarget, query_losses
from handful.models import EncodedCloud

DTYPE = torch.float64


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def target() -> torch.Tensor:
    return torch.eye(4, dtype=DTYPE)


@pytest.mark.parametrize("wrong", [0.0, 0.7])
def test_weighting_by_the_density_gives_the_integral(wrong):
    """∫ exp(-E) dT from poses near its only mode; a wrong density misses it."""
    energy = match_energy(1)
    center = energy.queries.center
    pose = target()
    pose[:3, 3] = -center  # the mode: the query point at the origin, unturned
    near, log_density = NearTarget(10_000, distance=1.5 * SIGMA, angle=1.0).draw(
        pose, center, seeded()
    )
    terms = (-energy(near) - log_density - wrong).exp().numpy()
    wide = Box((-8 * SIGMA,) * 3, (8 * SIGMA,) * 3)
    error = (terms.mean() - math.exp(log_partition(wide) - energy_offset(energy))) / (
        terms.std() / 100.0
    )
    assert abs(error) < 4 if wrong == 0 else abs(error) > 8


def test_poses_near_a_moved_target_are_moved_along():
    near, center = NearTarget(50), torch.tensor([0.01, -0.02, 0.1], dtype=DTYPE)
    motion = random_poses(1, 1)[0]
    here, density = near.draw(target(), center, seeded(2))
    there, same = near.draw(motion @ target(), center, seeded(2))
    torch.testing.assert_close(there, motion @ here, atol=1e-12, rtol=0)
    torch.testing.assert_close(same, density)


def test_the_density_is_highest_at_the_target():
    near = NearTarget(2_000)
    _, density = near.draw(target(), torch.zeros(3, dtype=DTYPE), seeded())
    assert (density <= near.log_peak).all()
    tight = NearTarget(200, distance=1e-5, angle=1e-4)
    _, density = tight.draw(target(), torch.zeros(3, dtype=DTYPE), seeded())
    assert abs(float(density.max()) - tight.log_peak) < 2


def scene() -> EncodedCloud:
    """Points all over the box of the law, so that a lattice covers it."""
    grid = np.mgrid[-4:5, -4:5, -4:5].reshape(3, -1).T * SIGMA
    points = torch.tensor(grid, dtype=DTYPE)
    return EncodedCloud(points, torch.zeros(len(points), 1, 1), NeighbourIndex(grid))


def share(negatives: LatticeNegatives, log_density: float, log_cell: float) -> float:
    return float(negatives.near.log_share(torch.tensor(log_density, dtype=DTYPE), log_cell))


def sums(negatives: LatticeNegatives, count: int) -> np.ndarray:
    """Z of the known law as training estimates it, without the target itself."""
    energy = match_energy(1)
    pose = target()
    pose[:3, 3] = -energy.queries.center
    found = []
    for number in range(count):
        generator = seeded(number)
        loss = negatives.likelihood(energy, pose[None], scene(), generator).loss
        lattice = negatives.lattice(scene().points, seeded(number))
        own = math.exp(-share(negatives, negatives.near.log_peak, lattice.log_cell))
        at_target = float(energy(pose[None])[0])
        found.append((math.exp(float(loss) - at_target) - own * math.exp(-at_target))
                     * math.exp(lattice.log_cell))  # fmt: skip
    return np.array(found)


def test_the_mean_of_the_sum_is_between_the_partition_function_and_twice_that():
    """The bound that the loss stands on; the poses near the target are part of the sum."""
    lattice = LatticeNegatives(spacing=0.03, rotations=40, reach=0.03)
    alone = sums(lattice, 60)
    near = sums(LatticeNegatives(0.03, 40, 0.03, near=NearTarget(64, 0.02, 0.5)), 60)
    box = Box((-5.5 * SIGMA,) * 3, (5.5 * SIGMA,) * 3)
    exact = math.exp(log_partition(box) - energy_offset(match_energy(1)))
    assert abs(alone.mean() - exact) < 4 * alone.std() / math.sqrt(60) + 0.01 * exact
    assert exact < near.mean() < 2 * exact


def test_a_pose_of_the_lattice_counts_in_full_and_the_target_at_least_as_much_as_nothing():
    lattice = LatticeNegatives()
    assert share(lattice, 30.0, -10.0) == 0.0
    near = LatticeNegatives(near=NearTarget(63))
    assert share(near, -1e9, -10.0) == 0.0
    assert share(near, 20.0, -10.0) > share(near, 10.0, -10.0) > 0


def test_a_model_that_is_beside_the_target_is_punished_only_with_poses_near_it():
    """Two models, equally sharp, one of them 8 mm off: a coarse lattice hardly tells them apart."""
    energy = match_energy(1)

    def gap(near: NearTarget) -> float:
        losses = []
        for off in (0.0, 0.008):
            pose = target()
            pose[:3, 3] = -energy.queries.center + torch.tensor([off, 0.0, 0.0], dtype=DTYPE)
            sharp = type(energy)(energy.field, energy.queries, energy.types, temperature=0.05)
            negatives = LatticeNegatives(0.05, 20, 0.03, near=near)
            values = [
                float(negatives.likelihood(sharp, pose[None], scene(), seeded(n)).loss)
                for n in range(20)
            ]
            losses.append(float(np.median(values)))
        return losses[1] - losses[0]

    assert gap(NearTarget()) < 0.1
    assert gap(NearTarget(63, 0.01, 0.2)) > 0.5


def test_losses_are_bounded_by_the_share_of_the_pose_itself():
    energies = torch.tensor([[3.0, 50.0]], dtype=DTYPE)
    nothing = torch.full((2,), -math.inf, dtype=DTYPE)
    torch.testing.assert_close(
        query_losses(energies, nothing, torch.tensor(4.9, dtype=DTYPE)),
        torch.full((1, 2), -4.9, dtype=DTYPE),
    )
    assert (query_losses(energies, torch.zeros(2, dtype=DTYPE)) >= 0).all()


@pytest.mark.parametrize("values", [{"count": -1}, {"distance": 0.0}, {"angle": math.nan}])
def test_nonsense_is_refused(values):
    with pytest.raises(OptionError, match="poses near a target"):
        NearTarget(**values)
