"""The likelihood bound, the objectives, context dropout, the schedule and the trainer."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from equivariance import random_object, random_poses
from handful.clouds import Box, NeighbourIndex, voxel_filter
from handful.demos import Action, Step
from handful.errors import DemoError, OptionError
from handful.learning import (
    GraspQueryObjective,
    LatticeNegatives,
    LearnedQueryObjective,
    Loss,
    PaperNegatives,
    SampledNegatives,
    Schedule,
    Trainer,
    TrainingConfig,
    TrainingError,
    distance_to_scene,
    query_losses,
)
from handful.learning.variation import ContextDropout, Example, Variation
from handful.models import (
    EdfModel,
    EncodedCloud,
    EncoderConfig,
    GraspQueryConfig,
    LearnedQueryConfig,
    MatchEnergy,
    ModelConfig,
    QueryPoints,
)
from handful.nn import Types
from handful.sampling import (
    ExhaustiveSampler,
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


def lattice_losses(energy, poses, lattice):
    log_sums = lattice_log_partitions(energy, lattice) - lattice.log_cell
    return query_losses(energy.per_query(poses), log_sums)


def bound_and_partition(energy: MatchEnergy, scale: float = 1.0) -> tuple[float, float]:
    """log of the bound Π Z_i^{w_i} by lattices of each query point, and log Z by Monte Carlo.

    The two come from different computations: the bound from matrix products over the positions of
    single query points in a box D, Z from whole energies at random poses of which all query points
    are in D.

    Args:
        energy: Of several query points.
        scale: Factor of the weights in the bound; 1 is right.
    """
    half, weights = 0.15, scale * energy.queries.weights
    box = Box((-half,) * 3, (half,) * 3)
    log_z = [
        lattice_log_partitions(
            energy, pose_lattice(box, 0.03, 200, generator(seed), dtype=torch.float64)
        )
        for seed in range(8)
    ]
    mean = torch.stack(log_z).logsumexp(0) - math.log(len(log_z))
    bound = (weights * mean).sum()
    poses = random_poses(60_000, 6)
    wide = half + 0.08  # the gripper's origin may be outside of D
    poses[:, :3, 3] = (torch.rand(60_000, 3, generator=generator(7)) * 2 - 1) * wide
    where = poses[:, None, :3, :3] @ energy.queries.positions[None, :, :, None]
    inside = ((where[..., 0] + poses[:, None, :3, 3]).abs() <= half).all(-1).all(-1)
    values = torch.where(inside, (-energy(poses)).exp(), 0.0)
    return float(bound), float((values.mean() * (2 * wide) ** 3).log())


def soft_energy() -> MatchEnergy:
    """Smooth enough for Monte Carlo."""
    return replace(analytic_energy(3), temperature=5.0)


def test_lattices_of_single_queries_bound_the_partition_of_all():
    """Hölder: Z over the poses with all query points in D is at most Π Z_i^{w_i}."""
    bound, partition = bound_and_partition(soft_energy())
    assert partition < bound


def test_the_bound_is_tight_where_query_points_agree():
    energy = soft_energy()
    alike = replace(
        energy.queries,
        positions=energy.queries.positions[:1].repeat(3, 1),
        descriptors=energy.queries.descriptors[:1].repeat(3, 1),
    )
    bound, partition = bound_and_partition(replace(energy, queries=alike))
    assert partition == pytest.approx(bound, abs=0.05)
    worse, lower = bound_and_partition(energy)
    assert worse - lower > 0.1


def test_the_bound_needs_weights_that_add_up_to_one():
    """The broken control: with twice the weights the "bound" is none."""
    bound, partition = bound_and_partition(soft_energy(), scale=2.0)
    assert partition > bound


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


def test_the_loss_is_never_below_zero_and_the_target_is_its_own_competitor():
    """Without the target among the competitors, a model sharper than the lattice has a loss < 0."""
    energy, lattice, target = analytic_energy(2), small_lattice(), random_poses(1, 8, reach=0.05)
    sharp = replace(energy, temperature=1e-3)
    log_sums = lattice_log_partitions(sharp, lattice) - lattice.log_cell
    at_target = sharp.per_query(target)
    assert (query_losses(at_target, log_sums) >= 0).all()
    best = at_target - at_target - 1e5  # a pose far better than all of the lattice
    assert (best + log_sums < 0).any()
    assert (query_losses(best, log_sums) >= 0).all()


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


@pytest.mark.parametrize("name", ["pick", "place"])
def test_the_papers_chains_can_train(name):
    chains = PaperNegatives(metropolis_steps=2, langevin_steps=(1, 3), count=4)
    objective = replace(OBJECTIVES[name], negatives=chains)
    if isinstance(objective, GraspQueryObjective):
        objective = replace(objective, as_in_paper=True)
    run = Trainer(small_model(name), objective, [small_example(name)], TrainingConfig(steps=3))
    told: list[float] = []
    run.run(lambda report: told.append(report.negative_energy))
    assert run.skipped == 0
    assert np.isfinite(told).all()


def test_the_papers_langevin_steps_grow_as_training_goes_on():
    """3000 at the beginning, 6000 at the end, linearly (appendix on experiments)."""
    chains = PaperNegatives()
    steps = [chains.sampler(progress).langevin.steps for progress in (0.0, 0.25, 1.0)]
    assert steps == [3000, 3750, 6000]
    assert chains.sampler(0.5).metropolis.steps == 10_000
    assert chains.sampler(0.5).descent is None
    with pytest.raises(OptionError, match="negatives 0"):
        SampledNegatives(ExhaustiveSampler(), count=0)


def test_the_paper_takes_gradients_through_svgd():
    """Moving query points move with the weights of the network; ours stay where they arrived."""
    model, step = small_model("place"), small_example("place").step
    still = OBJECTIVES["place"]
    moving = replace(still, as_in_paper=True)
    encoded = model.queries.encode(step.grasp)
    assert not still._late(model.queries, encoded).positions.requires_grad
    moving._late(model.queries, encoded).positions.sum().backward()
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in model.queries.parameters())


def test_a_query_point_in_empty_space_learns_nothing_and_gains_nothing():
    energy, scene, target = one_query_in_a_box()
    far = torch.tensor([[0.0, 0.0, 5.0]], dtype=torch.float64)
    queries = QueryPoints(
        torch.cat([energy.queries.positions, far]),
        torch.full((2,), 0.5, dtype=torch.float64),
        energy.queries.descriptors.repeat(2, 1).requires_grad_(),
    )
    assert (distance_to_scene(queries.positions, target, scene) >= 0.03).tolist() == [[False, True]]
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


# --- objectives ---------------------------------------------------------------------------------


def example_of(step: Step) -> Example:
    gripper = mug_sample().gripper
    return Example(step, np.array([0.0, 0.0, 1.0]), gripper, gripper.T_gripper_contact)


def small_example(name: str) -> Example:
    step = mug_sample()[0].step(name)
    grasp = None
    if step.action.holding:
        grasp = voxel_filter(step.grasp, 0.01)
    scene = voxel_filter(step.scene, 0.012)
    return example_of(Step(name, step.action, scene, step.targets, grasp))


CONTACT = (0.0, 0.0, 0.145)
LEARNED = LearnedQueryConfig((CONTACT,))


def small_model(name: str) -> EdfModel:
    torch.manual_seed(0)
    if not mug_sample().task.step(name).action.holding:
        return EdfModel(ModelConfig(SMALL, (4, 2), learned=LEARNED))
    queries = GraspQueryConfig(SMALL, count=5, cluster_radius=0.03, steps=2)
    return EdfModel(ModelConfig(SMALL, (4, 2), grasp=queries))


CROPS = ContextDropout(probability=0.6)
OBJECTIVES = {
    "pick": LearnedQueryObjective(LatticeNegatives(0.04, 30), Variation(context=CROPS)),
    "place": GraspQueryObjective(LatticeNegatives(0.04, 30), Variation(context=CROPS)),
}


@pytest.mark.parametrize(("kind", "progress"), [("pick", 0.0), ("place", 0.0), ("place", 0.9)])
def test_every_weight_learns_from_a_demonstration(kind, progress):
    model = small_model(kind)
    loss = OBJECTIVES[kind].loss(model, small_example(kind), np.random.default_rng(0), progress)
    loss.total.backward()
    assert math.isfinite(loss.total.item())
    silent = [name for name, p in model.named_parameters() if p.grad is None]
    assert not [name for name in silent if "_logits" not in name and "_positions" not in name]


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_the_same_randomness_gives_the_same_loss(kind):
    model, example = small_model(kind), small_example(kind)
    losses = [
        OBJECTIVES[kind].loss(model, example, np.random.default_rng(s), 0.0).total.item()
        for s in (1, 1, 2)
    ]
    assert losses[0] == losses[1] != losses[2]


def test_place_needs_a_grasp_cloud():
    step = small_example("place").step
    bare = example_of(Step("place", Action.PLACE, step.scene, step.targets))
    with pytest.raises(DemoError, match="no grasp cloud"):
        OBJECTIVES["place"].loss(small_model("place"), bare, np.random.default_rng(0), 0)


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
    examples = [small_example(kind)] * 2
    config = TrainingConfig(steps=steps, batch=2, seed=seed)
    return Trainer(small_model(kind), OBJECTIVES[kind], examples, config)


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
        def loss(self, model, example, rng, progress):
            seen.append(int(example.step.targets[0, 0, 3]))
            return Loss(next(model.parameters()).sum(), 0.0, 0.0, 0.0, ())

    scene = random_object(0)
    examples = []
    for index in range(5):
        pose = np.eye(4)
        pose[0, 3] = index
        examples.append(example_of(Step("pick", Action.PICK, scene, pose)))
    Trainer(tiny_model(), Counting(), examples, TrainingConfig(steps=10, batch=3)).run()
    assert sorted(np.bincount(seen)) == [6] * 5


def tiny_model() -> EdfModel:
    """The smallest model, always with the same weights."""
    torch.manual_seed(0)
    encoder = EncoderConfig(layers=1, degree=0, channels=1, heads=1)
    return EdfModel(ModelConfig(encoder, (1,), learned=LEARNED))


class Sometimes:
    """A loss that is not finite in some steps."""

    def __init__(self, bad: set[int]) -> None:
        self.bad, self.calls = bad, -1

    def loss(self, model, example, rng, progress):
        self.calls += 1
        value = next(model.parameters()).square().sum()
        return Loss(value * (math.nan if self.calls in self.bad else 1.0), 0.0, 0.0, 0.0, ())


def run_with(bad: set[int], steps: int = 30) -> Trainer:
    torch.manual_seed(0)
    demos = [example_of(Step("pick", Action.PICK, random_object(0), np.eye(4)))]
    run = Trainer(tiny_model(), Sometimes(bad), demos, TrainingConfig(steps=steps))
    run.run()
    return run


def test_steps_that_are_not_finite_are_skipped_and_counted():
    run = run_with({3, 4, 17})
    assert run.skipped == 3
    assert torch.isfinite(weights_of(run)).all()


def test_ten_bad_steps_in_a_row_stop_with_the_last_good_weights():
    torch.manual_seed(0)
    demos = [example_of(Step("pick", Action.PICK, random_object(0), np.eye(4)))]
    run = Trainer(tiny_model(), Sometimes(set(range(5, 99))), demos, TrainingConfig(steps=50))
    with pytest.raises(TrainingError, match="10 steps in a row"):
        run.run()
    assert run.done == 14
    stopped_before = Trainer(tiny_model(), Sometimes(set()), demos, TrainingConfig(steps=50))
    stopped_before.run(until=5)
    assert torch.equal(weights_of(run), weights_of(stopped_before))
    stopped_before.run(until=6)
    assert not torch.equal(weights_of(run), weights_of(stopped_before))


def test_the_loss_falls():
    demos = [small_example("pick")]
    calm = replace(OBJECTIVES["pick"], variation=Variation(context=ContextDropout(probability=0.0)))
    run = Trainer(small_model("pick"), calm, demos, TrainingConfig(steps=40))
    losses: list[float] = []
    run.run(lambda report: losses.append(report.loss))
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


@pytest.mark.parametrize("change", [{"steps": 0}, {"batch": 0}, {"clip": 0.0}, {"averaging": 1.0}])
def test_training_options_are_checked(change):
    (name,) = change
    with pytest.raises(OptionError, match=name):
        TrainingConfig(**change)
