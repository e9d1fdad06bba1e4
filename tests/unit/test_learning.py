"""The likelihood bound, the objectives, context dropout, the schedule and the trainer."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from equivariance import random_object, random_poses
from handful.clouds import Box, NeighbourIndex, voxel_filter
from handful.demos import Augmentation, Step
from handful.errors import DemoError, OptionError
from handful.learning import (
    ContextDropout,
    LatticeNegatives,
    Loss,
    PickObjective,
    PlaceObjective,
    SampledNegatives,
    Schedule,
    Trainer,
    TrainingConfig,
    TrainingError,
    is_far,
    query_energies,
    query_losses,
)
from handful.models import (
    EncodedCloud,
    EncoderConfig,
    GraspQueryConfig,
    MatchEnergy,
    PickConfig,
    PickModel,
    PlaceConfig,
    PlaceModel,
    QueryPoints,
)
from handful.nn import Types
from handful.sampling import (
    ExhaustiveSampler,
    Langevin,
    MetropolisHastings,
    PaperSchedule,
    lattice_log_partition,
    lattice_log_partitions,
    pose_lattice,
)
from samples import mug_sample

TYPES = Types((2, 2, 1))
SMALL = EncoderConfig(voxel_size=0.02, radius=0.05, layers=1, degree=1, channels=4, heads=2)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def analytic_energy(queries: int, norm: str = "squared") -> MatchEnergy:
    weight = torch.randn(3, TYPES.dim, generator=generator(1), dtype=torch.float64) * 6
    points = QueryPoints(
        torch.randn(queries, 3, generator=generator(2), dtype=torch.float64) * 0.02,
        torch.rand(queries, generator=generator(3), dtype=torch.float64).softmax(0),
        torch.randn(queries, TYPES.dim, generator=generator(4), dtype=torch.float64),
    )
    return MatchEnergy(lambda x: torch.sin(x @ weight), points, TYPES, norm, temperature=0.7)


def small_lattice(spacing: float = 0.05, rotations: int = 60):
    box = Box((-0.2, -0.2, -0.2), (0.2, 0.2, 0.2))
    return pose_lattice(box, spacing, rotations, generator(5), dtype=torch.float64)


# --- the bound ----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_partitions_of_single_queries_agree_with_one_at_a_time(norm):
    energy, lattice = analytic_energy(3, norm), small_lattice()
    together = lattice_log_partitions(energy, lattice)
    for index in range(3):
        one = [index]
        alone = QueryPoints(
            energy.queries.positions[one],
            torch.ones(1, dtype=torch.float64),
            energy.queries.descriptors[one],
        )
        single = MatchEnergy(energy.field, alone, TYPES, norm, temperature=0.7)
        torch.testing.assert_close(together[index], lattice_log_partition(single, lattice))


def test_weighted_energies_of_single_queries_add_up():
    energy, poses = analytic_energy(3), random_poses(7, 0, reach=0.05)
    parts = query_energies(energy, poses)
    torch.testing.assert_close((parts * energy.queries.weights).sum(1), energy(poses))


def lattice_losses(energy, poses, lattice):
    log_sums = lattice_log_partitions(energy, lattice) - lattice.log_cell
    return query_losses(query_energies(energy, poses), log_sums)


def test_the_sum_of_query_losses_bounds_the_likelihood():
    """Hölder: log ∫ exp(-Σ w_i E_i) <= Σ w_i log ∫ exp(-E_i), here by Monte Carlo."""
    energy = analytic_energy(3)
    box = 0.2
    poses = random_poses(40_000, 6)
    poses[:, :3, 3] = (torch.rand(40_000, 3, generator=generator(7)) * 2 - 1) * box
    parts = query_energies(energy, poses)
    joint = (-(parts * energy.queries.weights).sum(1)).logsumexp(0)
    bound = (energy.queries.weights * (-parts).logsumexp(0)).sum()
    assert joint < bound


def test_the_loss_of_one_query_is_its_share_of_the_lattice():
    energy, lattice, target = analytic_energy(1), small_lattice(), random_poses(1, 8, reach=0.05)
    weights = torch.ones(1, dtype=torch.float64)
    queries = QueryPoints(energy.queries.positions, weights, energy.queries.descriptors)
    energy = MatchEnergy(energy.field, queries, TYPES, temperature=0.7)
    everywhere = []
    for rotation in lattice.rotations:
        pose = torch.eye(4, dtype=torch.float64).repeat(len(lattice.positions), 1, 1)
        pose[:, :3, :3] = rotation
        pose[:, :3, 3] = lattice.positions - rotation @ queries.positions[0]
        everywhere.append(energy(pose))
    competitors = torch.cat([*everywhere, energy(target)])
    expected = energy(target)[0] + (-competitors).logsumexp(0)
    torch.testing.assert_close(lattice_losses(energy, target, lattice)[0, 0], expected)


def test_the_gradient_of_the_loss_agrees_with_finite_differences():
    energy, lattice, target = analytic_energy(2), small_lattice(), random_poses(2, 8, reach=0.05)
    start = energy.queries.descriptors.clone()

    def loss(descriptors: torch.Tensor) -> torch.Tensor:
        queries = QueryPoints(energy.queries.positions, energy.queries.weights, descriptors)
        function = MatchEnergy(energy.field, queries, TYPES, temperature=0.7)
        return lattice_losses(function, target, lattice)

    assert torch.autograd.gradcheck(loss, (start.requires_grad_(),), atol=1e-6)


def test_a_lattice_keeps_near_the_points():
    points = torch.tensor(random_object(0).points)
    lattice = LatticeNegatives(spacing=0.02, rotations=5, reach=0.03).lattice(points, generator())
    assert torch.cdist(lattice.positions, points).min(1).values.max() <= 0.03
    with pytest.raises(OptionError, match="positive lengths"):
        LatticeNegatives(spacing=0.0)


def one_query_in_a_box():
    """An energy of one query point, a cloud that fills its box, and a target."""
    energy = analytic_energy(1)
    queries = replace(energy.queries, weights=torch.ones(1, dtype=torch.float64))
    axis = torch.linspace(-0.1, 0.1, 11, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis, axis)
    scene = EncodedCloud(points, torch.zeros(len(points), 1, 1), NeighbourIndex(points.numpy()))
    return replace(energy, queries=queries), scene, random_poses(1, 8, reach=0.05)


def gradient_of(negatives, energy, scene, target, seed: int) -> torch.Tensor:
    descriptors = energy.queries.descriptors.clone().requires_grad_()
    changed = replace(energy, queries=replace(energy.queries, descriptors=descriptors))
    negatives.likelihood(changed, target, scene, generator(seed)).loss.backward()
    assert descriptors.grad is not None
    return descriptors.grad


def test_sampled_negatives_have_the_gradient_of_the_likelihood():
    """Averaged over samples, it is that of a fine lattice; the sign and the scale would show."""
    energy, scene, target = one_query_in_a_box()
    exact = gradient_of(LatticeNegatives(0.02, 500, 0.03), energy, scene, target, 0)
    drawn = SampledNegatives(ExhaustiveSampler(spacing=0.04, rotations=100), count=400)
    sampled = torch.stack([gradient_of(drawn, energy, scene, target, s) for s in range(6)])
    error = (sampled.mean(0) - exact).norm() / exact.norm()
    assert float(error) < 0.1


def test_the_papers_chains_can_train():
    chains = PaperSchedule(
        metropolis=MetropolisHastings(steps=2), langevin=Langevin(steps=2), descent=None
    )
    objective = PickObjective(SampledNegatives(chains, count=4))
    steps = [small_step("pick")]
    run = Trainer(small_model("pick"), objective, steps, TrainingConfig(steps=2))
    told: list[float] = []
    run.run(lambda report: told.append(report.negative_energy))
    assert run.skipped == 0
    assert np.isfinite(told).all()
    with pytest.raises(OptionError, match="negatives 0"):
        SampledNegatives(count=0)


def test_a_query_point_in_empty_space_learns_nothing_and_gains_nothing():
    energy, scene, target = one_query_in_a_box()
    far = torch.tensor([[0.0, 0.0, 5.0]], dtype=torch.float64)
    queries = QueryPoints(
        torch.cat([energy.queries.positions, far]),
        torch.full((2,), 0.5, dtype=torch.float64),
        energy.queries.descriptors.repeat(2, 1).requires_grad_(),
    )
    assert is_far(queries.positions, target, scene, 0.03).tolist() == [[False, True]]
    negatives = LatticeNegatives(0.05, 20, 0.03)
    found = negatives.likelihood(replace(energy, queries=queries), target, scene, generator())
    found.loss.backward()
    assert queries.descriptors.grad is not None
    assert float(queries.descriptors.grad[0].norm()) > 0
    assert float(queries.descriptors.grad[1].norm()) == 0
    lattice = negatives.lattice(scene.points, generator())
    alone = negatives.likelihood(energy, target, scene, generator()).loss
    nothing = math.log(len(lattice.positions) * len(lattice.rotations))
    assert float(found.loss.detach()) == pytest.approx(0.5 * float(alone) + 0.5 * nothing)


def test_weights_of_query_points_can_be_left_alone():
    energy, scene, target = one_query_in_a_box()
    logits = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    queries = QueryPoints(
        energy.queries.positions + torch.tensor([[0.0, 0.0, 0.0], [0.01, 0.0, 0.0]]),
        logits.softmax(0),
        energy.queries.descriptors.repeat(2, 1).requires_grad_(),
    )
    two = replace(energy, queries=queries)
    alone = LatticeNegatives(0.05, 20, 0.03, learn_weights=False)
    alone.likelihood(two, target, scene, generator()).loss.backward(retain_graph=True)
    assert logits.grad is None
    assert queries.descriptors.grad is not None
    assert (queries.descriptors.grad.norm(dim=1) > 0).all()
    LatticeNegatives(0.05, 20, 0.03).likelihood(two, target, scene, generator()).loss.backward()
    assert logits.grad is not None
    assert float(logits.grad.norm()) > 0


# --- objectives ---------------------------------------------------------------------------------


def small_step(name: str) -> Step:
    step = mug_sample()[0].step(name)
    grasp = None if step.grasp is None else voxel_filter(step.grasp, 0.01)
    return Step(name, voxel_filter(step.scene, 0.012), step.targets, grasp)


def small_model(kind: str) -> PickModel | PlaceModel:
    torch.manual_seed(0)
    if kind == "pick":
        return PickModel(PickConfig(SMALL, (4, 2)))
    queries = GraspQueryConfig(count=5, cluster_radius=0.03, steps=2)
    return PlaceModel(PlaceConfig(SMALL, SMALL, (4, 2), queries))


OBJECTIVES = {
    "pick": PickObjective(LatticeNegatives(0.04, 30)),
    "place": PlaceObjective(LatticeNegatives(0.04, 30)),
}


@pytest.mark.parametrize(("kind", "progress"), [("pick", 0.0), ("place", 0.0), ("place", 0.9)])
def test_every_weight_learns_from_a_demonstration(kind, progress):
    model = small_model(kind)
    loss = OBJECTIVES[kind].loss(model, small_step(kind), np.random.default_rng(0), progress)
    loss.total.backward()
    assert math.isfinite(loss.total.item())
    silent = [name for name, p in model.named_parameters() if p.grad is None]
    assert not [name for name in silent if "_logits" not in name]


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_the_same_randomness_gives_the_same_loss(kind):
    model, step = small_model(kind), small_step(kind)
    losses = [
        OBJECTIVES[kind].loss(model, step, np.random.default_rng(s), 0.0).total.item()
        for s in (1, 1, 2)
    ]
    assert losses[0] == losses[1] != losses[2]


def test_place_needs_a_grasp_cloud():
    step = small_step("place")
    with pytest.raises(DemoError, match="grasp clouds"):
        OBJECTIVES["place"].loss(
            small_model("place"),
            Step("place", step.scene, step.targets),
            np.random.default_rng(0),
            0,
        )


def test_context_dropout_keeps_the_target():
    scene, target = mug_sample()[0].step("pick").scene, np.array([0.0, 0.0, 0.05])
    always = ContextDropout(probability=1.0, cut=1.0)
    for seed in range(20):
        kept = always.apply(scene, target, np.random.default_rng(seed))
        assert len(kept) >= always.least_points
        distance = np.linalg.norm(kept.points - target, axis=1)
        assert len(kept) == len(scene) or distance.max() < always.largest + 0.1
    assert ContextDropout(probability=0.0).apply(scene, target, np.random.default_rng(0)) is scene
    with pytest.raises(OptionError, match="context dropout"):
        ContextDropout(probability=1.5)


def test_schedule_rises_then_falls():
    schedule = Schedule(peak=0.01, warmup=0.2, floor=0.1)
    rates = [schedule.rate(step, 100) for step in range(100)]
    assert np.argmax(rates) in (18, 19, 20)
    assert max(rates) == pytest.approx(0.01, rel=1e-2)
    assert rates[-1] == pytest.approx(0.001)
    assert all(b <= a for a, b in pairwise(rates[20:]))


# --- the trainer --------------------------------------------------------------------------------


def trainer(seed: int = 0, steps: int = 6, kind: str = "pick") -> Trainer:
    demos = [small_step(kind)] * 2
    config = TrainingConfig(steps=steps, batch=2, seed=seed)
    return Trainer(small_model(kind), OBJECTIVES[kind], demos, config)


def weights_of(run: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_a_resumed_run_is_the_same_to_the_bit(kind):
    whole, first, second = trainer(kind=kind), trainer(kind=kind), trainer(kind=kind)
    whole.run()
    first.run(until=3)
    second.resume(first.state())
    second.run()
    assert torch.equal(weights_of(whole), weights_of(second))
    whole.use_average()
    second.use_average()
    assert torch.equal(weights_of(whole), weights_of(second))


def test_another_seed_gives_another_model():
    one, other = trainer(0, 2), trainer(1, 2)
    one.run()
    other.run()
    assert not torch.equal(weights_of(one), weights_of(other))


def test_every_demonstration_is_used_equally_often():
    seen: list[int] = []

    class Counting:
        def loss(self, model, step, rng, progress):
            seen.append(int(step.targets[0, 0, 3]))
            return Loss(next(model.parameters()).sum(), 0.0, 0.0, 0.0, ())

    scene = random_object(0)
    steps = []
    for index in range(5):
        pose = np.eye(4)
        pose[0, 3] = index
        steps.append(Step("pick", scene, pose))
    Trainer(nn.Linear(1, 1), Counting(), steps, TrainingConfig(steps=10, batch=3)).run()
    assert sorted(np.bincount(seen)) == [6] * 5


class Sometimes:
    """A loss that is not finite in some steps."""

    def __init__(self, bad: set[int]) -> None:
        self.bad, self.calls = bad, -1

    def loss(self, model, step, rng, progress):
        self.calls += 1
        value = next(model.parameters()).square().sum()
        return Loss(value * (math.nan if self.calls in self.bad else 1.0), 0.0, 0.0, 0.0, ())


def run_with(bad: set[int], steps: int = 30) -> Trainer:
    torch.manual_seed(0)
    demos = [Step("pick", random_object(0), np.eye(4))]
    run = Trainer(nn.Linear(2, 2), Sometimes(bad), demos, TrainingConfig(steps=steps))
    run.run()
    return run


def test_steps_that_are_not_finite_are_skipped_and_counted():
    run = run_with({3, 4, 17})
    assert run.skipped == 3
    assert torch.isfinite(weights_of(run)).all()


def test_ten_bad_steps_in_a_row_stop_with_the_last_good_weights():
    torch.manual_seed(0)
    demos = [Step("pick", random_object(0), np.eye(4))]
    run = Trainer(nn.Linear(2, 2), Sometimes(set(range(5, 99))), demos, TrainingConfig(steps=50))
    with pytest.raises(TrainingError, match="10 steps in a row"):
        run.run()
    good = run_with(set(), 50)
    assert run.done == 14
    assert torch.isfinite(weights_of(run)).all()
    assert not torch.equal(weights_of(run), weights_of(good))


def test_the_loss_falls():
    demos = [small_step("pick")]
    calm = PickObjective(
        LatticeNegatives(0.04, 30), Augmentation(), ContextDropout(probability=0.0)
    )
    run = Trainer(small_model("pick"), calm, demos, TrainingConfig(steps=40))
    losses: list[float] = []
    run.run(lambda report: losses.append(report.loss))
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


@pytest.mark.parametrize("change", [{"steps": 0}, {"batch": 0}, {"clip": 0.0}, {"averaging": 1.0}])
def test_training_options_are_checked(change):
    with pytest.raises(OptionError, match="training"):
        TrainingConfig(**change)
