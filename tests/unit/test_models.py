"""The model, its two sources of query points, its energy and the surrogate.

Everything is compared with closed forms, slow references, or itself after a motion.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from equivariance import assert_equal_up_to_rounding, moved, random_object, random_poses
from handful.clouds import PointCloud, concatenate, voxel_filter
from handful.demos import Action, Step, gripper_named
from handful.errors import CloudColorError, OptionError
from handful.geometry import pose_apply, pose_compose, pose_inverse, wigner_d
from handful.learning import (
    GraspQueryObjective,
    LatticeNegatives,
    LearnedQueryObjective,
    SurrogateConfig,
    SurrogateQueries,
)
from handful.learning.variation import ContextDropout, Example, Variation
from handful.models import (
    DescriptorField,
    EdfModel,
    EncoderConfig,
    GraspQueries,
    GraspQueryConfig,
    LearnedQueryConfig,
    MatchEnergy,
    ModelConfig,
    QueryPoints,
    WeightedPoints,
    initial_points,
    svgd_direction,
)
from handful.models._field import FEW_POSITIONS
from handful.nn import Gate, Types

ENCODER = EncoderConfig(voxel_size=None, radius=0.05, layers=1, degree=1, channels=4, heads=2)
DESCRIPTOR = (3, 2, 1)
LEARNED = LearnedQueryConfig(((0.0, 0.0, 0.02), (0.02, 0.0, 0.0), (0.0, -0.02, 0.01)))
GRASP_QUERIES = GraspQueryConfig(
    ENCODER, strongest=3, count=6, cluster_radius=0.02, steps=4, step_size=0.05
)
SOURCES = ("learned", "grasp")
SCENE, GRASP = random_object(0), random_object(1, 30, 0.04)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def small_model(source: str, dtype: torch.dtype = torch.float64, **changes: object) -> EdfModel:
    torch.manual_seed(0)
    queries = {"learned": LEARNED} if source == "learned" else {"grasp": GRASP_QUERIES}
    config = replace(ModelConfig(ENCODER, DESCRIPTOR, **queries), **changes)
    return EdfModel(config).to(dtype).eval()


def held_by(model: EdfModel) -> PointCloud | None:
    """The grasp cloud that a model takes."""
    return GRASP if model.holding else None


# --- energies -----------------------------------------------------------------------------------


def smooth_field(types: Types):
    weight, phase = randn(3, types.dim, seed=1) * 8, randn(types.dim, seed=2)
    return lambda x: torch.sin(x @ weight + phase)


def random_queries(types: Types, count: int = 3) -> QueryPoints:
    return QueryPoints(
        randn(count, 3, seed=3) * 0.05, randn(count, seed=4).softmax(0), randn(count, types.dim)
    )


def test_squared_energy_is_the_sum_of_eq_energy_point():
    types = Types((2, 1, 1))
    field, queries, poses = smooth_field(types), random_queries(types), random_poses(6, 0)
    energy = MatchEnergy(field, queries, types, temperature=0.5)(poses)
    for pose, value in zip(poses, energy, strict=True):
        expected = 0.0
        for q, w, psi in zip(queries.positions, queries.weights, queries.descriptors, strict=True):
            blocks = [wigner_d(pose[:3, :3], degree) for degree in (0, 0, 1, 2)]
            turned = torch.block_diag(*blocks) @ psi
            key = field((pose[:3, :3] @ q + pose[:3, 3])[None])[0]
            expected = expected + w * (key - turned).square().sum()
        assert value.item() == pytest.approx(expected.item() / 0.5, rel=1e-12)


def test_irrepwise_l1_sums_the_lengths_of_vectors():
    types = Types((1, 2))
    energy = MatchEnergy(smooth_field(types), random_queries(types), types, "irrepwise_l1")
    difference = torch.tensor([[-2.0, 3.0, 0.0, 4.0, 0.0, 0.0, 5.0]], dtype=torch.float64)
    # type 0: |-2|; type-1 rows (x, y, z) of two channels: (3, 4, 0) and (0, 0, 5)
    assert energy.mismatch(difference).item() == pytest.approx(2 + 5 + 5)


def test_ndfs_energy_is_the_special_case_the_paper_says():
    """eq. ndf: L1 norm, weights one, type 0 only."""
    types = Types((7,))
    field, positions = smooth_field(types), randn(5, 3, seed=6) * 0.05
    demos = random_poses(4, 8)
    psi = torch.stack([field(pose_apply(pose, positions)) for pose in demos]).mean(0)
    queries = QueryPoints(positions, torch.ones(5, dtype=torch.float64), psi)
    ours = MatchEnergy(field, queries, types, "irrepwise_l1")
    for pose in random_poses(20, 9):
        ndf = (field(pose_apply(pose, positions)) - psi).abs().sum()
        assert ours(pose[None]).item() == pytest.approx(ndf.item(), rel=1e-12)


def test_energy_options_are_checked():
    types = Types((1,))
    with pytest.raises(OptionError, match="unknown energy norm 'l2'"):
        MatchEnergy(smooth_field(types), random_queries(types), types, "l2")
    with pytest.raises(OptionError, match="temperature is 0"):
        MatchEnergy(smooth_field(types), random_queries(types), types, temperature=0.0)


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_an_energy_is_the_weighted_mean_of_what_each_query_point_finds_alone(norm):
    """`per_query` holds the energies of models with one query point of weight one."""
    types = Types((2, 1, 1))
    queries, poses = random_queries(types, 4), random_poses(6, 0)
    energy = MatchEnergy(smooth_field(types), queries, types, norm, temperature=0.5)
    alone = [
        replace(energy, queries=QueryPoints(q[None], torch.ones_like(w)[None], psi[None]))(poses)
        for q, w, psi in zip(queries.positions, queries.weights, queries.descriptors, strict=True)
    ]
    torch.testing.assert_close(energy.per_query(poses), torch.stack(alone, dim=1))
    torch.testing.assert_close(
        energy(poses), sum(w * e for w, e in zip(queries.weights, alone, strict=True))
    )


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_the_energy_of_nothing_is_that_of_a_field_that_is_zero_everywhere(norm):
    types = Types((2, 1, 1))
    queries = random_queries(types, 4)
    energy = MatchEnergy(smooth_field(types), queries, types, norm, temperature=0.5)
    empty = replace(energy, field=lambda x: torch.zeros(len(x), types.dim, dtype=x.dtype))
    for value in empty(random_poses(5, 1)):
        assert energy.of_nothing() == pytest.approx(value.item(), rel=1e-12)


# --- the scale of the energy --------------------------------------------------------------------


def alike(count: int) -> QueryPoints:
    """Query points of different weights that all mismatch alike: copies of one."""
    one = random_queries(Types((2, 1)), 1)
    weights = randn(count, seed=7).softmax(0)
    return QueryPoints(
        one.positions.expand(count, 3), weights, one.descriptors.expand(count, -1).clone()
    )


def cut_off(queries: QueryPoints, count: int) -> QueryPoints:
    """The broken control: as many of the strongest, with the weights that they had among all."""
    kept = queries.weights.topk(count).indices
    return QueryPoints(queries.positions[kept], queries.weights[kept], queries.descriptors[kept])


def energies_for_counts(keep) -> list[float]:
    types, (pose,) = Types((2, 1)), random_poses(1, 3)
    return [
        MatchEnergy(smooth_field(types), keep(alike(24), count), types)(pose[None]).item()
        for count in (3, 8, 24)
    ]


def test_the_energy_has_one_scale_however_many_query_points_are_used():
    first, *others = energies_for_counts(QueryPoints.strongest)
    assert others == pytest.approx([first, first], rel=1e-12)


def test_without_new_weights_the_scale_depends_on_how_many_are_used():
    three, eight, all_of_them = energies_for_counts(cut_off)
    assert three < 0.8 * eight
    assert eight < 0.9 * all_of_them


@pytest.mark.parametrize("count", [1, 2, 3, 6, 10])
def test_the_strongest_are_the_heaviest_and_share_the_weight_as_before(count):
    queries = random_queries(Types((2,)), 6)
    kept = queries.strongest(count)
    heaviest = queries.weights.sort(descending=True).values[:count]
    assert len(kept) == min(count, 6)
    assert kept.weights.sum().item() == pytest.approx(1.0, rel=1e-12)
    torch.testing.assert_close(kept.weights, heaviest / heaviest.sum())
    for position, psi in zip(kept.positions, kept.descriptors, strict=True):
        (index,) = (queries.positions == position).all(1).nonzero()
        assert torch.equal(queries.descriptors[index[0]], psi)


@pytest.mark.parametrize("strongest", [1, 3, 8, 24])
def test_weights_in_use_add_up_to_one_whatever_strongest_is(strongest, dtype):
    many = replace(GRASP_QUERIES, strongest=strongest, count=24, cluster_radius=0.001)
    queries = small_model("grasp", dtype, grasp=many).query_points(GRASP)
    assert len(queries) == strongest
    assert queries.weights.sum().item() == pytest.approx(1.0, abs=1e-6)


def test_weights_of_learned_query_points_add_up_to_one():
    model = small_model("learned")
    with torch.no_grad():
        model.queries._logits.copy_(randn(3))
    queries = model.query_points(None)
    assert queries.weights.sum().item() == pytest.approx(1.0, rel=1e-12)
    assert queries.weights.std() > 0.05


NOTHING = ContextDropout(probability=0.0)
UNVARIED = Variation(context=NOTHING, held_context=NOTHING)
OBJECTIVES = {"learned": LearnedQueryObjective, "grasp": GraspQueryObjective}


@pytest.mark.parametrize("source", SOURCES)
def test_training_sees_the_energy_that_is_used_later(source):
    """The energy of the demonstrated pose at the end of training is the one that `model` gives."""
    model = small_model(source, torch.float32)
    targets = random_poses(2, 5, reach=0.02).numpy()
    action = Action.PLACE if source == "grasp" else Action.PICK
    step = Step("some step", action, SCENE, targets, held_by(model))
    gripper = gripper_named("simulated")
    example = Example(step, np.array([0.0, 0.0, 1.0]), gripper, gripper.T_gripper_contact)
    objective = OBJECTIVES[source](LatticeNegatives(0.05, 20), UNVARIED)
    if source == "grasp":
        objective = replace(objective, strongest=GRASP_QUERIES.strongest)
    loss = objective.loss(model, example, np.random.default_rng(0), progress=1.0)
    used = model(SCENE, held_by(model))(torch.tensor(targets, dtype=torch.float32))
    assert loss.target_energy == pytest.approx(used.mean().item(), rel=1e-5)
    assert sum(loss.weights) == pytest.approx(1.0, abs=1e-6)


def test_the_center_is_the_weighted_mean_of_the_positions():
    queries = random_queries(Types((2,)), 5)
    expected = sum(w * q for w, q in zip(queries.weights, queries.positions, strict=True))
    torch.testing.assert_close(queries.center, expected)
    doubled = QueryPoints(queries.positions, 2.0 * queries.weights, queries.descriptors)
    torch.testing.assert_close(doubled.center, expected)


def test_useful_query_points_are_those_of_positive_weight():
    queries = random_queries(Types((2,)), 4)
    assert queries.useful() is queries
    weights = torch.tensor([0.5, 0.0, 0.5, 0.0], dtype=torch.float64)
    useful = QueryPoints(queries.positions, weights, queries.descriptors).useful()
    assert torch.equal(useful.positions, queries.positions[[0, 2]])
    assert torch.equal(useful.descriptors, queries.descriptors[[0, 2]])
    assert torch.equal(useful.weights, weights[[0, 2]])


# --- the model ----------------------------------------------------------------------------------

POSES = random_poses(8, 9, reach=0.04)
MOTIONS = 20


def energies(
    model: EdfModel, scene: PointCloud, grasp: PointCloud | None, poses: Tensor = POSES
) -> Tensor:
    """Energies of float64 poses in the precision of the model."""
    with torch.no_grad():
        energy = model(scene, grasp)
        return energy(poses.to(energy.queries.weights))


def check_left_equivariance(model: EdfModel, seed: int, count: int = MOTIONS) -> None:
    """E(ST | SX, Y) = E(T | X, Y)."""
    expected = energies(model, SCENE, held_by(model))
    assert not expected.std() < 1e-2 * expected.mean(), "all poses are alike"
    for motion in random_poses(count, seed):
        there = energies(model, moved(SCENE, motion), held_by(model), pose_compose(motion, POSES))
        assert_equal_up_to_rounding(there, expected)


def check_right_equivariance(model: EdfModel, seed: int, count: int = MOTIONS) -> None:
    """E(TS | X, S^-1 Y) = E(T | X, Y)."""
    expected = energies(model, SCENE, GRASP)
    for motion in random_poses(count, seed):
        held = moved(GRASP, pose_inverse(motion))
        assert_equal_up_to_rounding(
            energies(model, SCENE, held, pose_compose(POSES, motion)), expected
        )


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
@pytest.mark.parametrize("source", SOURCES)
def test_the_energy_follows_a_moved_scene(source, norm, dtype):
    check_left_equivariance(small_model(source, dtype, norm=norm), 5)


@pytest.mark.parametrize("norm", ["squared", "irrepwise_l1"])
def test_the_energy_follows_a_moved_grasp(norm, dtype):
    check_right_equivariance(small_model("grasp", dtype, norm=norm), 6)


def test_the_energy_follows_moved_learned_query_points(dtype):
    """The same law for an empty gripper: another frame of the gripper, and the same query points.

    A predictor for another gripper rests on this.
    """
    model = small_model("learned", dtype)
    with torch.no_grad():
        energy = model(SCENE)
        expected, types = energy(POSES.to(dtype)), model.key_field.types
        for motion in random_poses(MOTIONS, 7):
            back, queries = pose_inverse(motion).to(dtype), energy.queries
            held = QueryPoints(
                pose_apply(back, queries.positions),
                queries.weights,
                types.rotated(queries.descriptors, back[:3, :3]),
            )
            there = replace(energy, queries=held)(pose_compose(POSES, motion).to(dtype))
            assert_equal_up_to_rounding(there, expected)


@pytest.mark.parametrize("source", SOURCES)
def test_the_order_of_points_says_nothing(source, dtype):
    model = small_model(source, dtype)
    expected = energies(model, SCENE, held_by(model))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        scene = SCENE.selected(rng.permutation(len(SCENE)))
        grasp = GRASP.selected(rng.permutation(len(GRASP))) if model.holding else None
        assert_equal_up_to_rounding(energies(model, scene, grasp), expected)


@pytest.mark.parametrize("source", SOURCES)
def test_points_that_were_seen_twice_say_no_more_than_once(source, dtype):
    """The voxel filter averages, so a cloud with every point twice has the same voxels.

    Without the filter this does not hold: attention and field are sums over neighbours with a
    constant in the denominator, and a point's twin is one more neighbour of all others.
    """
    coarse = replace(ENCODER, voxel_size=0.02)
    filtered = small_model(
        source, dtype, encoder=coarse,
        **({"grasp": replace(GRASP_QUERIES, encoder=coarse)} if source == "grasp" else {}),
    )  # fmt: skip
    twice, held_twice = concatenate([SCENE, SCENE]), concatenate([GRASP, GRASP])
    assert len(voxel_filter(twice, 0.02)) == len(voxel_filter(SCENE, 0.02)) < len(SCENE)
    grasp = held_twice if filtered.holding else None
    assert_equal_up_to_rounding(
        energies(filtered, twice, grasp), energies(filtered, SCENE, held_by(filtered))
    )
    unfiltered = small_model(source, dtype)
    with pytest.raises(AssertionError, match="relative error"):
        assert_equal_up_to_rounding(
            energies(unfiltered, twice, grasp), energies(unfiltered, SCENE, held_by(unfiltered))
        )


def silu_of_everything(gate: Gate, features: Tensor) -> Tensor:
    return nn.functional.silu(features)


@pytest.mark.parametrize("source", SOURCES)
def test_a_model_with_a_broken_layer_fails_the_checks(source, monkeypatch):
    monkeypatch.setattr(Gate, "forward", silu_of_everything)
    model = small_model(source)
    with pytest.raises(AssertionError, match="relative error"):
        check_left_equivariance(model, 5, count=1)
    if model.holding:
        with pytest.raises(AssertionError, match="relative error"):
            check_right_equivariance(model, 6, count=1)


@pytest.mark.parametrize("source", SOURCES)
def test_a_model_that_gives_nan_fails_the_checks(source):
    model = small_model(source)
    with torch.no_grad():
        model.key_field.encoder._embedding.bias.fill_(math.nan)
    with pytest.raises(AssertionError, match="relative error inf"):
        check_left_equivariance(model, 5, count=1)


def test_what_was_asked_of_a_field_before_changes_no_answer():
    """Few positions have their own way, which rounds otherwise: it must not depend on history."""
    field = DescriptorField(EncoderConfig(), Types((4, 2)))
    cloud = random_object(3, 300, 0.1)
    few, many = torch.rand(20, 3) * 0.1, torch.rand(FEW_POSITIONS + 1, 3) * 0.1
    with torch.no_grad():
        seen = field(cloud)
        before = seen(few)
        seen(many)
        assert torch.equal(seen(few), before)
        seen.tabulate()
        assert_equal_up_to_rounding(seen(few), before)
        assert torch.equal(seen.detached()(few), seen(few))


def test_a_model_takes_a_grasp_cloud_exactly_when_its_gripper_is_full():
    with pytest.raises(OptionError, match="needs a cloud of what is held"):
        small_model("grasp")(SCENE)
    with pytest.raises(OptionError, match="for an empty gripper: give no grasp cloud"):
        small_model("learned")(SCENE, GRASP)


@pytest.mark.parametrize("both", [{}, {"learned": LEARNED, "grasp": GRASP_QUERIES}])
def test_a_model_has_query_points_of_one_source(both):
    with pytest.raises(OptionError, match="query points of one source"):
        ModelConfig(ENCODER, **both)


@pytest.mark.parametrize("positions", [(), ((0.0, 0.0),), ((0.0, 0.0, math.nan),)])
def test_impossible_query_positions_are_refused(positions):
    with pytest.raises(OptionError, match="query positions are"):
        LearnedQueryConfig(positions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strongest": 0}, "strongest is 0"),
        ({"count": 0}, "query count is 0"),
        ({"steps": -1}, "query steps is -1"),
        ({"cluster_radius": math.nan}, "cluster_radius is nan"),
        ({"unit": 0.0}, "unit is 0"),
    ],
)
def test_impossible_ways_to_draw_query_points_are_refused(change, message):
    with pytest.raises(OptionError, match=message):
        replace(GRASP_QUERIES, **change)


# --- query models -------------------------------------------------------------------------------


def test_algorithm_1_takes_the_heaviest_and_passes_over_its_neighbours():
    points = torch.tensor([[0.0, 0, 0], [0.01, 0, 0], [0.1, 0, 0], [0.11, 0, 0], [0.3, 0, 0]])
    logits = torch.tensor([1.0, 2.0, 0.5, 0.0, -3.0])
    config = GraspQueryConfig(count=10, cluster_radius=0.02)
    assert initial_points(points, logits, config) == [1, 2, 4]
    assert initial_points(points, logits, GraspQueryConfig(count=2, cluster_radius=0.02)) == [1, 2]


def test_svgd_direction_is_eq_svgd():
    q, slope = randn(7, 3), randn(7, 3, seed=1)
    distance = torch.pdist(q)
    bandwidth = distance.median() ** 2 / math.log(7)

    def kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.exp(-(x - y).square().sum() / bandwidth)

    for i in range(7):
        expected = torch.zeros(3, dtype=torch.float64)
        for j in range(7):
            x = q[j].clone().requires_grad_()
            (gradient,) = torch.autograd.grad(kernel(x, q[i]), x)
            expected += kernel(q[j], q[i]) * slope[j] + gradient
        torch.testing.assert_close(svgd_direction(q, slope)[i], expected / 7)


def test_svgd_samples_a_normal_distribution():
    """Particles of SVGD have the mean and variance of what they follow."""
    target_mean, target_std = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), 0.7
    q = randn(60, 3) * 0.1
    for _ in range(1500):
        q = q + 0.3 * svgd_direction(q, -(q - target_mean) / target_std**2)
    torch.testing.assert_close(q.mean(0), target_mean, atol=0.05, rtol=0)
    torch.testing.assert_close(
        q.std(0), torch.full_like(target_mean, target_std), atol=0.15, rtol=0
    )


def test_one_point_climbs():
    assert torch.equal(svgd_direction(randn(1, 3), randn(1, 3, seed=1)), randn(1, 3, seed=1))


def test_gradient_through_svgd_agrees_with_finite_differences():
    torch.manual_seed(0)
    config = GraspQueryConfig(ENCODER, 4, 4, cluster_radius=0.03, steps=3, step_size=0.2)
    model = GraspQueries(config, Types((2, 1))).double()
    grasp = random_object(2, 20, 0.04)
    parameter = model._weight_head._layer._weights[0]
    direction = randn(*parameter.shape, seed=5)

    def outcome() -> torch.Tensor:
        queries = model(grasp)
        return (queries.positions * 30).sin().sum() + queries.weights.square().sum()

    outcome().backward()
    slope = (parameter.grad * direction).sum().item()
    values = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            parameter += step * direction
            values.append(outcome().item())
            parameter -= step * direction
    assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5)


def test_repulsion_keeps_points_apart_on_one_hill():
    """The control climbs alone: without the kernel's gradient all points end in one place."""
    hill = torch.tensor([0.5, 0.2, 0.0], dtype=torch.float64)
    together = alone = randn(24, 3) * 4.0
    for _ in range(400):
        together = together + 0.05 * svgd_direction(together, -(together - hill) / 0.25)
        alone = alone - 0.05 * (alone - hill) / 0.25
    assert torch.pdist(together).min() > 0.05
    assert torch.pdist(alone).max() < 1e-6
    torch.testing.assert_close(together.mean(0), hill, atol=0.1, rtol=0)


# --- surrogate ----------------------------------------------------------------------------------


def surrogate(seed: int = 0) -> SurrogateQueries:
    far = torch.tensor([True, False, True, False, True])
    points = WeightedPoints(randn(5, 3), randn(5, seed=seed))
    return SurrogateQueries(points, far, SurrogateConfig(noise=0.8, far_logit=-3.0))


def test_kl_of_the_surrogate_agrees_with_its_numerical_value():
    model = surrogate()
    logits = torch.linspace(-25, 25, 200_001, dtype=torch.float64)
    total = 0.0
    for mean_h, mean_p in zip(model.mean_logits, model.points.logits, strict=True):
        h = torch.distributions.Normal(mean_h, 0.8).log_prob(logits)
        p = torch.distributions.Normal(mean_p, 0.8).log_prob(logits)
        total += torch.trapezoid(h.exp() * (h - p), logits).item()
    assert model.kl_divergence().item() == pytest.approx(total, rel=1e-9)


def test_density_of_weights_integrates_to_one():
    points = WeightedPoints(randn(1, 3), randn(1))
    model = SurrogateQueries(points, torch.tensor([False]), SurrogateConfig(noise=0.8))
    logits = torch.linspace(-12, 12, 100_001, dtype=torch.float64)
    density = torch.stack(
        [model.log_density(logit[None], points.logits).exp() for logit in logits[::100]]
    )
    assert torch.trapezoid(density, logits[::100].exp()).item() == pytest.approx(1.0, abs=1e-3)


def test_only_the_query_points_that_are_used_are_described_and_nothing_else_changes():
    torch.manual_seed(0)
    queries = GraspQueries(GRASP_QUERIES, Types(DESCRIPTOR)).double()
    with torch.no_grad():
        encoded = queries.encode(GRASP)
        drawn = queries.draw(encoded)
        expected = queries.describe(encoded, drawn).strongest(3)
        found = queries(GRASP)
    assert len(drawn.logits) > 3
    torch.testing.assert_close(found.positions, expected.positions, rtol=0, atol=0)
    torch.testing.assert_close(found.weights, expected.weights, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.descriptors, expected.descriptors, rtol=1e-9, atol=1e-9)


def test_query_points_are_the_same_with_and_without_derivatives():
    """Without them the weight field is tabulated first."""
    torch.manual_seed(0)
    queries = GraspQueries(GRASP_QUERIES, Types(DESCRIPTOR)).double()
    encoded = queries.encode(GRASP)
    wanted = queries.draw(encoded)
    with torch.no_grad():
        found = queries.draw(encoded)
    torch.testing.assert_close(found.positions, wanted.positions, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-9, atol=1e-9)


def test_near_points_keep_their_mean():
    model = surrogate()
    means = model.sample_logits(torch.zeros(5, dtype=torch.float64))
    assert torch.equal(means[~model.far], model.points.logits[~model.far])
    assert (means[model.far] == -3.0).all()


# --- fields -------------------------------------------------------------------------------------


def test_a_field_is_the_same_asked_at_once_or_in_parts(monkeypatch):
    torch.manual_seed(0)
    field = DescriptorField(ENCODER, Types((3, 2))).double()(random_object(0))
    where = torch.tensor(random_object(4, 50).points)
    whole = field(where)
    monkeypatch.setattr("handful.models._field.POSITIONS_AT_ONCE", 7)
    torch.testing.assert_close(field(where), whole)


def test_colour_matters_exactly_when_it_is_used():
    torch.manual_seed(0)
    cloud = random_object(0)
    where = torch.tensor(cloud.points[:5])
    colored = DescriptorField(ENCODER, Types((3, 2))).double()
    plain_config = EncoderConfig(**{**vars(ENCODER), "use_colors": False})
    plain = DescriptorField(plain_config, Types((3, 2))).double()
    other = cloud.painted((0.1, 0.9, 0.4))
    assert not torch.allclose(colored(cloud)(where), colored(other)(where))
    assert torch.equal(plain(cloud)(where), plain(cloud.without_colors())(where))
    with pytest.raises(CloudColorError, match="painted"):
        colored(cloud.without_colors())


@pytest.mark.parametrize(
    "change", [{"radius": 0.0}, {"radius": np.nan}, {"layers": 0}, {"heads": 0}]
)
def test_encoder_options_are_checked(change):
    with pytest.raises(OptionError, match="encoder"):
        EncoderConfig(**{**vars(ENCODER), **change})


def test_points_that_coincide_keep_the_field_equivariant():
    torch.manual_seed(0)
    cloud = random_object(0)
    doubled = concatenate([cloud, cloud.selected(np.arange(5))])
    model = DescriptorField(EncoderConfig(**{**vars(ENCODER), "layers": 2}), Types((3, 2))).double()
    where = torch.tensor(random_object(4, 10).points)
    (motion,) = random_poses(1, 3)
    with torch.no_grad():
        expected = model.types.rotated(model(doubled)(where), motion[:3, :3])
        assert_equal_up_to_rounding(
            model(moved(doubled, motion))(pose_apply(motion, where)), expected
        )
