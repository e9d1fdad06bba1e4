"""Exhaustive search: it finds the modes, the refinement goes down, the budget is met."""

import math
from dataclasses import replace

import pytest
import torch

from clock import Clock
from handful.clouds import Box
from handful.errors import OptionError
from handful.geometry import check_pose, haar_rotations, pose_from_rotation_translation
from handful.models import MatchEnergy, QueryPoints
from handful.nn import Types
from handful.sampling import (
    ExhaustiveSearch,
    PaperSchedule,
    Target,
    distinct_poses,
    mode_coverage,
    near_points,
)
from handful.sampling import _sampler as sampler_module
from handful.sampling.lattice import _exhaustive_search as search_module
from handful.sampling.lattice import _refinement as refinement_module
from handful.sampling.lattice._refinement import refine

WORKSPACE = Box((-0.2, -0.2, 0.0), (0.2, 0.2, 0.2))
TYPES = Types((2, 3, 2))
SITES = [
    (-0.1, -0.1, 0.05), (-0.1, 0.1, 0.1), (0.1, -0.1, 0.15),
    (0.1, 0.12, 0.05), (0.0, 0.0, 0.1), (0.1, 0.12, 0.05),
]  # fmt: skip


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bumps(
    queries: int, dtype: torch.dtype, norm: str = "squared", seed: int = 0
) -> tuple[MatchEnergy, torch.Tensor]:
    """Six modes of known pose; two of them share a site and differ by their rotation.

    At each site stand Gaussian bumps of the query descriptors, turned by the site's rotation. The
    site of two modes holds the mean of both: a symmetric thing that either rotation half matches.
    The modes are where descent from these poses ends.
    """
    generator = seeded(seed)
    places = torch.tensor([[0.0, 0.0, 0.1], [0.03, 0.0, 0.1], [0.0, 0.02, 0.08]], dtype=dtype)
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=dtype)[:queries]
    descriptors = torch.randn(queries, TYPES.dim, generator=generator, dtype=dtype)
    descriptors = descriptors / descriptors.norm(dim=-1, keepdim=True)
    points = QueryPoints(places[:queries], weights / weights.sum(), descriptors)
    rotation = haar_rotations(5, generator=generator, dtype=dtype)
    half_turn = torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=dtype))
    rotation = torch.cat([rotation, rotation[3:4] @ half_turn])
    mean = (points.weights[:, None] * points.positions).sum(0)
    poses = pose_from_rotation_translation(
        rotation, torch.tensor(SITES, dtype=dtype) - rotation @ mean
    )
    centres = (points.positions @ rotation.mT + poses[:, None, :3, 3]).flatten(0, 1)
    strength = torch.tensor([1.0, 0.95, 0.9, 0.5, 0.85, 0.5], dtype=dtype)[:, None, None]
    turned = (strength * TYPES.rotated(points.descriptors, rotation[:, None])).flatten(0, 1)

    def field(positions: torch.Tensor) -> torch.Tensor:
        square = (positions[:, None] - centres).square().sum(-1)
        return torch.exp(-0.5 * square / 0.015**2) @ turned

    energy = MatchEnergy(field, points, TYPES, norm, temperature=0.04)
    target = Target(energy, WORKSPACE)
    modes, _ = refine(target, target.centred(poses), steps=60, angle=0.2, distance=0.01)
    return energy, target.poses(modes)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_search_finds_every_mode(queries, norm):
    energy, modes = bumps(queries, torch.float32, norm)
    # The second norm has kinks: its minima need more steps to be met within 5 mm.
    found = ExhaustiveSearch(refine_steps=20).sample(energy, WORKSPACE, 40, seeded())
    assert mode_coverage(found.poses, modes, angle=0.1, distance=0.005) == 1.0
    assert found.poses.dtype == torch.float32
    check_pose(found.poses)
    assert bool((found.energies.diff() >= 0).all())
    torch.testing.assert_close(found.energies, energy(found.poses), rtol=1e-3, atol=1e-3)
    assert found.report.lattice_poses > 500_000
    assert found.report.levels == 1


def test_search_finds_modes_whatever_the_seed():
    energy, modes = bumps(1, torch.float32, seed=3)
    for seed in range(5):
        found = ExhaustiveSearch().sample(energy, WORKSPACE, 40, seeded(seed))
        assert mode_coverage(found.poses, modes, angle=0.1, distance=0.005) == 1.0


def test_search_is_better_than_a_short_schedule_with_far_fewer_evaluations():
    energy, _ = bumps(3, torch.float32)
    schedule = PaperSchedule()
    short = replace(
        schedule,
        metropolis=replace(schedule.metropolis, steps=150),
        langevin=replace(schedule.langevin, steps=40),
        descent=replace(schedule.descent, steps=40),
    )
    theirs = short.sample(energy, WORKSPACE, 50, seeded())
    ours = ExhaustiveSearch().sample(energy, WORKSPACE, 50, seeded())
    assert float(ours.energies[0]) <= float(theirs.energies[0]) + 1e-3
    assert 10 * ours.report.energy_evaluations < theirs.report.energy_evaluations
    assert theirs.report.acceptance_rate is not None
    assert theirs.report.gradient_evaluations == 50 * (40 + 1 + 40)


def test_poses_of_a_search_are_distinct_and_at_most_count():
    energy, _ = bumps(1, torch.float32)
    found = ExhaustiveSearch().sample(energy, WORKSPACE, 3, seeded())
    assert len(found) == 3
    assert len(distinct_poses(found.poses, found.energies, 0.1, 0.005)) == 3


@pytest.mark.parametrize("queries", [1, 3])
def test_search_near_points_looks_only_there(queries):
    energy, modes = bumps(queries, torch.float32)
    sites = torch.tensor(SITES[:2])
    asked: list[torch.Tensor] = []

    def recording(positions: torch.Tensor) -> torch.Tensor:
        asked.append(positions.detach())
        return energy.field(positions)

    watched = replace(energy, field=recording)
    everywhere = ExhaustiveSearch().sample(watched, WORKSPACE, 40, seeded())
    assert float(torch.cdist(asked[0], sites).amin(1).max()) > 0.1
    asked.clear()
    search = ExhaustiveSearch(mask=near_points(sites, 0.05))
    found = search.sample(watched, WORKSPACE, 40, seeded())
    # The first call is for the lattice; later ones are for the empty space and for refinement.
    assert float(torch.cdist(asked[0], sites).amin(1).max()) <= 0.05 + 1e-6
    assert found.report.lattice_poses < 0.2 * everywhere.report.lattice_poses
    assert mode_coverage(found.poses, modes[:2], 0.1, 0.005) == 1.0
    assert mode_coverage(everywhere.poses, modes[2:], 0.1, 0.005) == 1.0
    assert mode_coverage(found.poses, modes[2:], 0.1, 0.005) == 0.0


def test_search_of_a_constant_energy_still_answers():
    energy, _ = bumps(1, torch.float32)
    flat = replace(energy, field=lambda x: x.new_zeros(len(x), TYPES.dim))
    found = ExhaustiveSearch().sample(flat, WORKSPACE, 5, seeded())
    assert len(found) == 5
    assert float(found.energies[0]) == float(found.energies[-1]) > 0.0


def anytime(budget: float, monkeypatch, seconds=lambda positions: 1e-5 * positions):
    """A search on a clock that counts only evaluations of the key field."""
    clock = Clock()
    clock.install(monkeypatch, search_module, refinement_module, sampler_module)
    energy, modes = bumps(3, torch.float32)
    clock.now = 0.0
    energy = replace(energy, field=clock.slow(energy.field, seconds))
    search = ExhaustiveSearch(time_budget=budget)
    return search.sample(energy, WORKSPACE, 40, seeded()), modes


@pytest.mark.parametrize("budget", [0.1, 0.5])
def test_anytime_search_meets_its_budget_and_keeps_the_best(budget, monkeypatch):
    found, modes = anytime(budget, monkeypatch)
    first, _ = anytime(1e-9, monkeypatch)
    assert first.report.levels == 1
    assert first.report.seconds < budget, "the first lattice does not fit into the budget"
    assert 0.5 * budget < found.report.seconds < 1.2 * budget
    assert found.report.levels >= 2
    assert float(found.energies[0]) <= float(first.energies[0])
    assert bool((found.energies.diff() >= 0).all())
    if budget == 0.5:
        assert mode_coverage(found.poses, modes, 0.1, 0.005) == 1.0


def test_a_search_that_mispredicts_its_time_misses_the_budget(monkeypatch):
    """The control of the check above: work that grows much faster than the search assumes."""
    found, _ = anytime(
        0.5, monkeypatch, lambda positions: 1e-5 * positions * (positions / 1e3) ** 2
    )
    assert found.report.seconds > 1.2 * 0.5


def test_refinement_never_rises_and_ends_where_the_slope_is_zero():
    energy, modes = bumps(3, torch.float64)
    target = Target(energy, WORKSPACE)
    noise = 0.02 * torch.randn(len(modes), 3, generator=seeded(), dtype=torch.float64)
    start = target.centred(modes)
    start[:, :3, 3] += 0.3 * noise
    before = target.energies(start)
    moved, energies = refine(target, start, steps=60, angle=0.2, distance=0.01, tolerance=1e-10)
    assert bool((energies <= before).all())
    _, gradient = target.energies_and_gradients(moved)
    scaled = gradient * torch.tensor([0.2] * 3 + [0.01] * 3, dtype=torch.float64)
    assert float(scaled.abs().max()) < 1e-3
    last, short = before, None
    for steps in (1, 3, 6, 12):
        _, short = refine(target, start, steps=steps, angle=0.2, distance=0.01)
        assert bool((short <= last + 1e-12).all())
        last = short


def test_refinement_stops_at_the_deadline():
    energy, modes = bumps(1, torch.float64)
    target = Target(energy, WORKSPACE)
    refine(target, target.centred(modes), steps=50, angle=0.2, distance=0.01, deadline=0.0)
    assert target.gradient_evaluations == len(modes)


def test_weightless_queries_do_not_count():
    energy, _ = bumps(3, torch.float64)
    weights = torch.tensor([0.6, 0.0, 0.0], dtype=torch.float64)
    queries = replace(energy.queries, weights=weights)
    first = QueryPoints(queries.positions[:1], weights[:1], queries.descriptors[:1])
    several, one = replace(energy, queries=queries), replace(energy, queries=first)
    ours, theirs, all_three = (
        ExhaustiveSearch().sample(some, WORKSPACE, 5, seeded()) for some in (several, one, energy)
    )
    torch.testing.assert_close(ours.energies, theirs.energies, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ours.poses, theirs.poses, rtol=1e-6, atol=1e-6)
    assert ours.report.lattice_poses == theirs.report.lattice_poses
    assert float((ours.energies[0] - all_three.energies[0]).abs()) > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spacing": 0.0}, "spacing is 0.0: need a positive"),
        ({"spacing": math.nan}, "spacing is nan: need a positive"),
        ({"rotations": 0}, "rotations is 0: need at least 1"),
        ({"starts": 0}, "starts is 0"),
        ({"refine_steps": 0}, "refine_steps is 0"),
        ({"time_budget": -1.0}, "time_budget is -1.0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        ExhaustiveSearch(**options)
