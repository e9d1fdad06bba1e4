"""Exhaustive search: it finds the modes, the refinement goes down, the budget is met."""

import math
from dataclasses import replace

import numpy as np
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
from handful.sampling.lattice import _newton as newton_module
from handful.sampling.lattice import _refinement as refinement_module
from handful.sampling.lattice._newton import polish
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
    assert 5 * ours.report.energy_evaluations < theirs.report.energy_evaluations
    assert 5 * ours.report.gradient_evaluations < theirs.report.gradient_evaluations
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


def anytime(budget: float, monkeypatch, seconds=lambda positions: 4e-6 * positions):
    """A search on a clock that counts only evaluations of the key field."""
    clock = Clock()
    clock.install(monkeypatch, search_module, refinement_module, newton_module, sampler_module)
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
        0.5, monkeypatch, lambda positions: 4e-6 * positions * (positions / 1e3) ** 3
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
        assert bool((short <= before).all())
        # The last steps are Newton's, with models that are a little off: see `_newton._PROBE`.
        assert bool((short <= last + 1e-4).all())
        last = short


# --- few poses cost little ----------------------------------------------------------------------


def rated(search: ExhaustiveSearch, energy: MatchEnergy, count: int) -> list[float]:
    """Energies of the poses of a search, evaluated again."""
    found = search.sample(energy, WORKSPACE, count, seeded())
    return energy(found.poses).tolist()


# With one query point, the minima of the second norm are tips of cones: see `irrepwise_l1`.
@pytest.mark.parametrize(("queries", "norm"), [(1, "squared"), (3, "squared"), (3, "irrepwise_l1")])
def test_the_few_best_poses_are_the_first_of_many(queries, norm):
    energy, _ = bumps(queries, torch.float32, norm)
    many = rated(ExhaustiveSearch(), energy, 100)
    for count in (1, 3, 8):
        few = rated(ExhaustiveSearch(), energy, count)
        assert len(few) == count
        above = np.array(many[:count]) - many[0]
        # What is far above the best pose is of no use, and where its refinement ends depends on
        # rounding, which differs between processors.
        assert (np.abs(np.array(few) - many[:count]) < 5e-3 + 2e-3 * above).all()


def test_the_best_pose_is_missed_when_refinement_begins_with_one_start():
    """The control of the law above."""
    energy, _ = bumps(3, torch.float32)
    many = rated(ExhaustiveSearch(), energy, 100)
    few = rated(ExhaustiveSearch(starts=1, spacing=0.05, rotations=60), energy, 3)
    assert np.abs(np.array(few) - many[:3]).max() > 0.1


def test_a_narrow_minimum_that_looks_shallow_on_the_lattice_is_found():
    """A broad minimum has many better lattice poses, and few starts are all taken from it."""
    energy, _ = bumps(1, torch.float32)
    narrow, broad = torch.tensor([0.1, 0.1, 0.1]), torch.tensor([-0.1, -0.1, 0.1])

    def field(x: torch.Tensor) -> torch.Tensor:
        query = energy.queries.descriptors[0]
        at_narrow = torch.exp(-(x - narrow).square().sum(-1, keepdim=True) / (2 * 0.009**2))
        at_broad = torch.exp(-(x - broad).square().sum(-1, keepdim=True) / (2 * 0.08**2))
        return query * torch.maximum(at_narrow, 0.9 * at_broad)

    two = replace(energy, field=field)
    reached = []
    for starts in (256, 2):
        search = ExhaustiveSearch(starts=starts)
        found = [search.sample(two, WORKSPACE, 1, seeded(seed)).poses[0] for seed in range(6)]
        where = torch.stack(
            [pose[:3, :3] @ two.queries.positions[0] + pose[:3, 3] for pose in found]
        )
        reached.append(int(((where - narrow).norm(dim=-1) < 0.01).sum()))
    assert reached[0] == 6
    assert reached[1] < 6, "the control: few starts miss it"


def rugged(energy: MatchEnergy) -> MatchEnergy:
    """The same query points in a field of waves, which has minima everywhere."""
    waves = 40.0 * torch.randn(3, TYPES.dim, generator=seeded(1))
    phase = 6.0 * torch.rand(TYPES.dim, generator=seeded(2))
    return replace(energy, field=lambda x: 0.3 * torch.cos(x @ waves + phase))


@pytest.mark.parametrize("queries", [1, 3])
def test_one_pose_costs_less_than_a_hundred(queries):
    """All begin with the same starts, whose first gradients are most of what one pose costs."""
    energy = rugged(bumps(queries, torch.float32)[0])
    one, few, many = (
        ExhaustiveSearch().sample(energy, WORKSPACE, count, seeded()).report
        for count in (1, 8, 100)
    )
    assert one.gradient_evaluations < 0.8 * many.gradient_evaluations
    assert few.gradient_evaluations < 0.8 * many.gradient_evaluations
    assert one.energy_evaluations < 0.8 * many.energy_evaluations
    assert one.lattice_poses == many.lattice_poses


def test_all_poses_are_refined_to_the_end_where_no_number_is_asked_for():
    """`refined` gives up nothing; a search for one pose leaves most where they were."""
    energy, _ = bumps(3, torch.float64)
    search = ExhaustiveSearch(refine_steps=20)
    starts, _ = search.candidates(energy, WORKSPACE, 30, seeded())
    _, everything = search.refined(energy, WORKSPACE, starts)
    target = Target(energy, WORKSPACE)
    with torch.no_grad():
        before = target.energies(target.clamped(target.centred(starts)))
    options = {"steps": 20, "angle": 0.5 * search.resolution, "distance": 0.5 * search.spacing}
    with torch.no_grad():
        _, some = refine(target, target.centred(starts), count=1, **options)
    assert float(some.min()) == pytest.approx(float(everything.min()), abs=1e-3)
    assert bool((some <= before + 1e-9).all())
    assert bool((everything <= before + 1e-9).all())
    assert float(some.mean()) > float(everything.mean()) + 0.1


def test_newton_steps_of_a_quadratic_energy_end_at_its_minimum():
    """One model is exact: from anywhere near, one step is all that it takes."""
    middle = torch.tensor([0.02, -0.01, 0.1], dtype=torch.float64)
    shape = torch.tensor([[3.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]], dtype=torch.float64)

    def bowl(poses: torch.Tensor) -> torch.Tensor:
        away = (poses[:, :3, 3] - middle) / 0.01
        return ((away @ shape) * away).sum(-1) + 3.0 - poses[:, :3, :3].diagonal(0, 1, 2).sum(-1)

    bowl.dtype = torch.float64
    target = Target(bowl, WORKSPACE)
    start = torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)
    start[:, :3, 3] = middle + torch.tensor([[0.004, 0.002, -0.003], [0.0, 0.005, 0.001]])
    options = {"count": None, "angle": 0.2, "distance": 0.01, "tolerance": 1e-9}
    with torch.no_grad():
        before = target.energies(start)
        moved, energies = polish(target, start, before, turns=1, **options)
        stopped, unchanged = polish(target, start, before, turns=9, deadline=0.0, **options)
    torch.testing.assert_close(moved[:, :3, 3], middle.expand(2, 3), rtol=0.0, atol=1e-9)
    torch.testing.assert_close(energies, torch.zeros(2, dtype=torch.float64), rtol=0.0, atol=1e-9)
    assert torch.equal(stopped, start)
    assert torch.equal(unchanged, before)


def test_poses_at_the_wall_stay_inside_and_never_rise():
    """Part of their stencils is outside, where energies are infinite."""
    energy, _ = bumps(3, torch.float64)
    target = Target(energy, WORKSPACE)
    start = target.uniform(20, seeded())
    start[:, 0, 3] = 0.2
    with torch.no_grad():
        before = target.energies(start)
        moved, energies = refine(target, start, steps=8, angle=0.2, distance=0.01, count=4)
    assert bool(target.inside(moved).all())
    assert bool((energies <= before).all())


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
