"""Lattices, their energies, their log-partition and its gradient."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from handful.clouds import Box
from handful.errors import OptionError
from handful.geometry import (
    haar_rotations,
    pose_from_rotation_translation,
    rotation_angle,
    rotation_lattice,
)
from handful.models import MatchEnergy, QueryPoints
from handful.nn import Types
from handful.sampling import (
    EnergyError,
    ExhaustiveSearch,
    PoseLattice,
    Target,
    lattice_log_partition,
    near_points,
    pose_lattice,
)
from handful.sampling.lattice import _dense_lattice as dense_module
from handful.sampling.lattice import _lattice_energies as energies_module
from handful.sampling.lattice import _minima as minima_module
from handful.sampling.lattice._dense_lattice import DenseLattice, KeyGrid
from handful.sampling.lattice._grid import Grid
from handful.sampling.lattice._lattice_energies import LatticeEnergies
from handful.sampling.lattice._proposal import ball_radius, ball_rotations
from handful.sampling.lattice._sparse_lattice import SparseLattice

TYPES = Types((2, 2, 1))
BOX = Box((-0.05, -0.04, 0.0), (0.05, 0.06, 0.08))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def waves(seed: int = 0, length: float = 0.05) -> torch.nn.Sequential:
    """A smooth random field with parameters."""

    class Cosines(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.waves = torch.nn.Parameter(
                torch.randn(3, 16, generator=seeded(seed), dtype=torch.float64) / length
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cos(x @ self.waves)

    last = torch.nn.Linear(16, TYPES.dim, dtype=torch.float64)
    with torch.no_grad():
        last.weight.copy_(
            0.3 * torch.randn(TYPES.dim, 16, generator=seeded(seed + 1), dtype=torch.float64)
        )
        last.bias.zero_()
    return torch.nn.Sequential(Cosines(), last)


def smooth_energy(queries: int, norm: str = "squared", seed: int = 0) -> MatchEnergy:
    generator = seeded(seed + 2)
    places = 0.02 * torch.randn(queries, 3, generator=generator, dtype=torch.float64)
    weights = torch.rand(queries, generator=generator, dtype=torch.float64) + 0.3
    descriptors = torch.randn(queries, TYPES.dim, generator=generator, dtype=torch.float64)
    points = QueryPoints(places, weights, descriptors)
    return MatchEnergy(waves(seed), points, TYPES, norm, temperature=0.7)


def small_lattice(seed: int = 0, positions: int = 30, rotations: int = 20) -> PoseLattice:
    where = 0.05 * torch.randn(positions, 3, generator=seeded(seed), dtype=torch.float64)
    turns = haar_rotations(rotations, generator=seeded(seed), dtype=torch.float64)
    return PoseLattice(where, turns, -3.0)


def slow_energies(energy: MatchEnergy, lattice: PoseLattice) -> torch.Tensor:
    """[positions, rotations] by the energy itself, one pose for each pair."""
    rotation = lattice.rotations.repeat(len(lattice.positions), 1, 1)
    where = lattice.positions.repeat_interleave(len(lattice.rotations), 0)
    poses = pose_from_rotation_translation(rotation, where - rotation @ energy.queries.positions[0])
    return energy(poses).reshape(len(lattice.positions), len(lattice.rotations))


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request, monkeypatch):
    if request.param == "many blocks":
        monkeypatch.setattr(energies_module, "MAX_ENTRIES", 70)
        monkeypatch.setattr(dense_module, "MAX_ENTRIES", 3000)
        monkeypatch.setattr(dense_module, "_CACHED", 2000)
    return request.param


# --- grids -------------------------------------------------------------------------------------


def test_grid_cells_hold_their_centres_and_cover_the_box():
    for seed in range(20):
        grid = Grid.over(BOX, 0.013, seeded(seed), torch.float64)
        assert torch.equal(grid.cells_of(grid.centres()), torch.arange(grid.size))
        corners = torch.tensor([BOX.lower, BOX.upper], dtype=torch.float64)
        assert bool((grid.cells_of(corners + torch.tensor([[1e-9], [-1e-9]])) >= 0).all())
        grown = grid.grown(2)
        assert grown.size == math.prod(side + 4 for side in grid.shape)
        assert bool((grown.cells_of(grid.centres()) >= 0).all())
        assert bool((grid.cells_of(grown.centres()) < 0).sum() == grown.size - grid.size)


def test_lattice_is_inside_the_box_and_counts_its_volume():
    lattice = pose_lattice(BOX, 0.01, 50, seeded(), dtype=torch.float64)
    assert bool((lattice.positions >= torch.tensor(BOX.lower)).all())
    assert bool((lattice.positions <= torch.tensor(BOX.upper)).all())
    volume = len(lattice) * math.exp(lattice.log_cell)
    assert volume == pytest.approx(0.1 * 0.1 * 0.08, rel=0.3)


def test_lattice_near_points():
    points = torch.tensor([[0.0, 0.0, 0.04]], dtype=torch.float64)
    mask = near_points(points, 0.02)
    lattice = pose_lattice(BOX, 0.01, 5, seeded(), dtype=torch.float64, mask=mask)
    assert len(lattice.positions) > 0
    assert float((lattice.positions - points).norm(dim=-1).max()) <= 0.02
    with pytest.raises(OptionError, match="no lattice position is left"):
        pose_lattice(BOX, 0.01, 5, seeded(), mask=near_points(points + 1.0, 0.02))


def test_a_lattice_too_fine_is_refused():
    with pytest.raises(OptionError, match=r"spacing is 0\.0001 m, which cuts"):
        pose_lattice(BOX, 1e-4, 5, seeded())


def test_ball_rotations_are_uniform_in_the_ball():
    radius = ball_radius(0.3)
    assert (radius - math.sin(radius)) / math.pi == pytest.approx(0.3)
    angle = rotation_angle(ball_rotations(radius, 5000, seeded())).numpy()
    total = radius - math.sin(radius)
    assert stats.kstest(angle, lambda w: (w - np.sin(w)) / total).pvalue > 1e-3
    assert ball_radius(1.0) == pytest.approx(math.pi)


# --- energies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_lattice_energies_are_those_of_the_energy(norm):
    energy, lattice = smooth_energy(1, norm), small_lattice()
    alone = LatticeEnergies.of(energy, 0, lattice.rotations)
    fast = alone.at(energy.field(lattice.positions))
    slow = slow_energies(energy, lattice)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)
    parts = list(alone.by_rotation(energy.field(lattice.positions), 6))
    assert [len(part) for part in parts] == [6, 6, 6, 2]
    torch.testing.assert_close(torch.cat(parts), fast.mT)


def whole_volume(volume: DenseLattice) -> torch.Tensor:
    return torch.cat([volume.slab(*part) for part in volume.slabs()], dim=1)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_dense_energies_are_those_of_the_energy_between_lattice_points(queries, norm, blocks):
    energy = smooth_energy(queries, norm)
    target = Target(energy, BOX)
    errors = []
    for spacing in (0.016, 0.008):
        with torch.no_grad():
            grid = KeyGrid.of(target, energy, spacing, seeded(), None)
            rotations = rotation_lattice(7, generator=seeded(), dtype=torch.float64)
            found = whole_volume(DenseLattice.of(grid, rotations))
            assert found.shape == (7, *grid.inner.shape)
            centres = grid.inner.centres().repeat(7, 1)
            turns = rotations.repeat_interleave(grid.inner.size, 0)
            poses = target.poses(pose_from_rotation_translation(turns, centres))
            errors.append(float((energy(poses) - found.flatten()).abs().max()))
    scale = float(found.std())
    if queries == 1:
        assert max(errors) < 1e-9
    else:  # Trilinear: the error falls with the square of the spacing.
        assert errors[0] < scale
        assert errors[1] < 0.45 * errors[0]


def slow_minima(energies: torch.Tensor, neighbours: torch.Tensor) -> set[tuple[int, int]]:
    """Rotation and cell of every minimum among its neighbours, one pose after the other."""
    count, x, y, z = energies.shape
    found = set()
    for k in range(count):
        for index in np.ndindex(x, y, z):
            value = float(energies[(k, *index)])
            near = [float(energies[(int(n), *index)]) for n in neighbours[k]]
            for axis in range(3):
                for side in (-1, 1):
                    other = list(index)
                    other[axis] += side
                    if 0 <= other[axis] < energies.shape[axis + 1]:
                        near.append(float(energies[(k, *other)]))
            if value <= min(near):
                found.add((k, int(np.ravel_multi_index(index, (x, y, z)))))
    return found


def test_dense_minima_are_all_minima(blocks, monkeypatch):
    monkeypatch.setattr(minima_module, "_LOWEST", 1.0)
    energy = smooth_energy(2)
    with torch.no_grad():
        grid = KeyGrid.of(Target(energy, BOX), energy, 0.02, seeded(), None)
        rotations = rotation_lattice(20, generator=seeded(), dtype=torch.float64)
        volume = DenseLattice.of(grid, rotations)
        poses, energies = minima_module.dense_minima(volume, 10_000)
        whole = whole_volume(volume)
    neighbours = minima_module.nearest_rotations(rotations)
    cells = grid.inner.cells_of(poses[:, :3, 3])
    turns = (poses[:, None, :3, :3] - rotations).abs().amax((2, 3)).argmin(1)
    found = set(zip(turns.tolist(), cells.tolist(), strict=True))
    assert found == slow_minima(whole, neighbours)
    torch.testing.assert_close(energies, whole.flatten(1)[turns, cells])
    assert bool((energies.diff() >= 0).all())


def sparse_lattice(
    energy: MatchEnergy, spacing: float = 0.02, rotations: int = 20
) -> SparseLattice:
    turns = rotation_lattice(rotations, generator=seeded(), dtype=torch.float64)
    mask = near_points(torch.tensor([[0.0, 0.0, 0.04], [0.04, 0.0, 0.02]]), 0.035)
    with torch.no_grad():
        lattice = SparseLattice.of(Target(energy, BOX), energy, spacing, turns, seeded(), mask)
    assert lattice is not None
    return lattice


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_sparse_energies_of_one_query_are_exact(norm):
    energy = smooth_energy(1, norm)
    volume = sparse_lattice(energy)
    count, cells = volume.energies.shape
    assert volume.exact
    assert 0 < cells < volume.grid.size
    turn, column = torch.arange(count).repeat_interleave(cells), torch.arange(cells).repeat(count)
    poses = Target(energy, BOX).poses(volume.centred_poses(turn, column))
    torch.testing.assert_close(volume.energies.flatten(), energy(poses))


def test_sparse_energies_of_several_queries_are_those_of_the_cells_they_are_in():
    """One entry after the other: where each query point is, which cell that is, its energy."""
    energy = smooth_energy(3)
    volume = sparse_lattice(energy, rotations=5)
    queries, centres = energy.queries, volume.grid.centres()
    strongest = int(queries.weights.argmax())
    cells = set(volume.cells.tolist())
    away = energy.field(torch.full((1, 3), 1e3, dtype=torch.float64))
    for k, rotation in enumerate(volume.rotations):
        for column, cell in enumerate(volume.cells.tolist()):
            total = 0.0
            for index in range(3):
                offset = rotation @ (queries.positions[index] - queries.positions[strongest])
                move = (offset / volume.grid.spacing).round() * volume.grid.spacing
                other = int(volume.grid.cells_of((centres[cell] + move)[None]))
                key = energy.field(centres[[other]]) if other in cells else away
                turned = TYPES.rotated(queries.descriptors[index], rotation)
                alone = (key[0] - turned).square().sum() / 0.7
                total += (queries.weights[index] * alone).item()
            assert float(volume.energies[k, column]) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("room", [1, 4096])
def test_sparse_minima_are_all_minima(queries, room, monkeypatch):
    monkeypatch.setattr(minima_module, "_LOWEST", 1.0)
    monkeypatch.setattr(minima_module, "_ROOM", room)
    energy = smooth_energy(queries)
    volume = sparse_lattice(energy)
    poses, energies = minima_module.sparse_minima(volume, 10_000)
    whole = torch.full((20, volume.grid.size), math.inf, dtype=torch.float64)
    whole[:, volume.cells] = volume.energies
    neighbours = minima_module.nearest_rotations(volume.rotations)
    expected = slow_minima(whole.unflatten(1, volume.grid.shape), neighbours)
    expected = {(k, cell) for k, cell in expected if math.isfinite(whole[k, cell])}
    turns = (poses[:, None, :3, :3] - volume.rotations).abs().amax((2, 3)).argmin(1)
    anchors = poses[:, :3, 3] + poses[:, :3, :3] @ volume.anchor
    cells = volume.grid.cells_of(anchors)
    assert set(zip(turns.tolist(), cells.tolist(), strict=True)) == expected
    torch.testing.assert_close(energies, whole[turns, cells])


@pytest.mark.parametrize("queries", [1, 3])
def test_sparse_search_is_about_as_good_as_dense_search(queries):
    """The energy is rugged and its minima are at the walls, so both searches vary with the seed."""
    energy = smooth_energy(queries)
    everything = near_points(torch.zeros(1, 3), 1.0)
    options = {"spacing": 0.02, "rotations": 200, "refine_steps": 20}
    dense, sparse = ExhaustiveSearch(**options), ExhaustiveSearch(**options, mask=everything)
    best = []
    with torch.no_grad():
        for seed in range(6):
            found = [search.sample(energy, BOX, 5, seeded(seed)) for search in (dense, sparse)]
            best.append([float(samples.energies[0]) for samples in found])
    of_dense, of_sparse = np.mean(best, axis=0)
    assert of_sparse < 1.03 * of_dense


def test_nearest_rotations_are_nearest():
    rotations = rotation_lattice(60, generator=seeded(), dtype=torch.float64)
    angle = rotation_angle(rotations[:, None].mT @ rotations)
    angle.fill_diagonal_(10.0)
    expected = angle.topk(12, largest=False).indices.sort().values
    assert torch.equal(minima_module.nearest_rotations(rotations).sort().values, expected)
    assert torch.equal(minima_module.nearest_rotations(rotations[:1]), torch.zeros(1, 1).long())


def test_neighbours_of_a_lattice_are_kept_and_those_of_other_rotations_are_not(monkeypatch):
    lattice = rotation_lattice(90, generator=seeded(1))
    expected = minima_module.nearest_rotations(lattice)
    searched = []
    honest = minima_module._nearest

    def counting(rotations: torch.Tensor, count: int) -> torch.Tensor:
        searched.append(len(rotations))
        return honest(rotations, count)

    monkeypatch.setattr(minima_module, "_nearest", counting)
    for seed in range(3):
        turned = rotation_lattice(90, generator=seeded(seed), dtype=torch.float64)
        assert torch.equal(minima_module.nearest_rotations(turned), expected)
    assert searched == []
    other = haar_rotations(90, generator=seeded(), dtype=torch.float64)
    assert not torch.equal(minima_module.nearest_rotations(other), expected)
    assert torch.equal(minima_module.nearest_rotations(other), honest(other, 12))
    shuffled = lattice[torch.randperm(90, generator=seeded())]
    assert torch.equal(minima_module.nearest_rotations(shuffled), honest(shuffled, 12))
    assert searched == [90] * 3


def test_key_grid_evaluates_the_mask_only_and_refuses_nan():
    energy = smooth_energy(1)
    seen = []

    def counting(positions: torch.Tensor) -> torch.Tensor:
        seen.append(len(positions))
        return energy.field(positions)

    few = MatchEnergy(counting, energy.queries, TYPES)
    mask = near_points(torch.tensor([[0.0, 0.0, 0.04]]), 0.02)
    with torch.no_grad():
        grid = KeyGrid.of(Target(few, BOX), few, 0.01, seeded(), mask)
    assert sum(seen) == int(grid.mask.sum()) < grid.outer.size
    with pytest.raises(OptionError, match="`mask` leaves none of"):
        KeyGrid.of(Target(few, BOX), few, 0.01, seeded(), near_points(torch.ones(1, 3), 0.01))
    bad = MatchEnergy(lambda x: x.new_full((len(x), TYPES.dim), math.nan), energy.queries, TYPES)
    with pytest.raises(EnergyError, match="key field is not finite at"):
        KeyGrid.of(Target(bad, BOX), bad, 0.02, seeded(), None)


# --- log-partition -----------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_log_partition_and_gradient_equal_naive_autograd(norm, blocks):
    energy, lattice = smooth_energy(1, norm), small_lattice()
    descriptors = energy.queries.descriptors.clone().requires_grad_()
    weights = energy.queries.weights.clone().requires_grad_()
    points = QueryPoints(energy.queries.positions, weights, descriptors)
    energy = MatchEnergy(energy.field, points, TYPES, norm, energy.temperature)
    leaves = [*energy.field.parameters(), descriptors, weights]
    fast = lattice_log_partition(energy, lattice)
    slow = (-slow_energies(energy, lattice)).flatten().logsumexp(0) + lattice.log_cell
    torch.testing.assert_close(fast, slow)
    for ours, theirs in zip(
        torch.autograd.grad(2.0 * fast, leaves), torch.autograd.grad(2.0 * slow, leaves),
        strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)
    with torch.no_grad():
        torch.testing.assert_close(lattice_log_partition(energy, lattice), slow)


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_likelihood_gradient_agrees_with_finite_differences(norm):
    """eq. MLE: -E(T_target) - log Z, along random directions in all parameters."""
    energy, lattice = smooth_energy(1, norm), small_lattice(seed=3)
    target = pose_from_rotation_translation(lattice.rotations[:1], lattice.positions[:1])

    def likelihood() -> torch.Tensor:
        return -energy(target).sum() - lattice_log_partition(energy, lattice)

    parameters = list(energy.field.parameters())
    gradients = torch.autograd.grad(likelihood(), parameters)
    for seed in range(3):
        moves = [torch.randn(p.shape, generator=seeded(seed), dtype=p.dtype) for p in parameters]
        step, values = 1e-5, []
        for sign in (1.0, -2.0):
            with torch.no_grad():
                for parameter, move in zip(parameters, moves, strict=True):
                    parameter += sign * step * move
                values.append(float(likelihood()))
        with torch.no_grad():
            for parameter, move in zip(parameters, moves, strict=True):
                parameter += step * move
        slope = sum(float((g * m).sum()) for g, m in zip(gradients, moves, strict=True))
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(slope, rel=1e-5)


def test_log_partition_survives_huge_energies():
    energy, lattice = smooth_energy(1), small_lattice()
    cold = MatchEnergy(energy.field, energy.queries, TYPES, temperature=1e-5)
    value = lattice_log_partition(cold, lattice)
    lowest = slow_energies(cold, lattice).min().detach()
    assert float(value.detach()) == pytest.approx(
        float(-lowest) + lattice.log_cell, abs=math.log(600)
    )
    (gradient,) = torch.autograd.grad(value, energy.field[1].bias)
    assert bool(torch.isfinite(gradient).all())


def test_log_partition_refuses_several_queries():
    with pytest.raises(OptionError, match="exact for one query point and got 3"):
        lattice_log_partition(smooth_energy(3), small_lattice())
