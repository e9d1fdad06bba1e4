"""Energies, query models, surrogate and checkpoints against closed forms and slow references."""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from equivariance import assert_equal_up_to_rounding, moved, random_object, random_poses
from handful.clouds import concatenate
from handful.errors import CloudColorError, FileFormatError, OptionError
from handful.geometry import pose_apply, wigner_d
from handful.learning import SurrogateConfig, SurrogateQueries
from handful.models import (
    DescriptorField,
    EncoderConfig,
    GraspQueries,
    GraspQueryConfig,
    MatchEnergy,
    PickConfig,
    PickModel,
    PlaceConfig,
    PlaceModel,
    QueryPoints,
    WeightedPoints,
    initial_points,
    load_model,
    save_model,
    svgd_direction,
)
from handful.nn import Types

ENCODER = EncoderConfig(voxel_size=None, radius=0.05, layers=1, degree=1, channels=4, heads=2)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


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


def test_strongest_keeps_the_heaviest():
    queries = random_queries(Types((2,)), 6)
    kept = queries.strongest(2)
    assert torch.equal(kept.weights, queries.weights.sort(descending=True).values[:2])
    assert len(queries.strongest(10)) == 6


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
    config = GraspQueryConfig(count=4, cluster_radius=0.03, steps=3, step_size=0.2)
    model = GraspQueries(ENCODER, Types((2, 1)), config).double()
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


def test_repulsion_and_competition_leave_few_useful_points():
    """On a weight field with one hill, normalised weights gather on few spread-out points."""
    hill = torch.tensor([0.5, 0.2, 0.0], dtype=torch.float64)
    q = randn(24, 3) * 4.0
    start = torch.pdist(q).min()
    for _ in range(400):
        q = q + 0.05 * svgd_direction(q, -(q - hill) / 0.25)
    weights = torch.softmax(-(q - hill).square().sum(1) / 0.5 * 8.0, 0)
    assert weights.topk(3).values.sum() > 0.5
    assert torch.pdist(q).min() > 0.1 * min(start.item(), 0.5), "points have collapsed"


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


# --- checkpoints --------------------------------------------------------------------------------


def small_models() -> dict[str, PickModel | PlaceModel]:
    torch.manual_seed(0)
    queries = GraspQueryConfig(count=3, steps=2)
    return {
        "pick": PickModel(PickConfig(ENCODER, (3, 2), ((0.0, 0.0, 0.1), (0.01, 0.0, 0.1)))),
        "place": PlaceModel(PlaceConfig(ENCODER, ENCODER, (3, 2), queries, norm="irrepwise_l1")),
    }


@pytest.mark.parametrize("kind", ["pick", "place"])
def test_a_model_round_trips(tmp_path, kind):
    model = small_models()[kind].eval()
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.config == model.config
    assert not loaded.training
    clouds = [random_object(0)] if kind == "pick" else [random_object(0), random_object(1)]
    poses = random_poses(5, 0).float()
    with torch.no_grad():
        assert torch.equal(loaded(*clouds)(poses), model(*clouds)(poses))
    save_model(model, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_saving_does_not_replace_other_folders(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileFormatError, match="holds no model"):
        save_model(small_models()["pick"], tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def change_config(**changes):
    def apply(folder):
        path = folder / "config.json"
        content = json.loads(path.read_text())
        for name, value in changes.items():
            *parents, last = name.split("__")
            node = content
            for parent in parents:
                node = node[parent]
            node[last] = value
        path.write_text(json.dumps(content))

    return apply


def change_weights(edit):
    def apply(folder):
        path = folder / "weights.safetensors"
        weights = load_file(path)
        edit(weights)
        save_file(weights, path)

    return apply


def truncate(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


LOGITS = "queries._logits"
BAD_CHECKPOINTS = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "no config.json there"),
    "no weights": (lambda folder: (folder / "weights.safetensors").unlink(), "not readable"),
    "cut weights": (truncate, "not readable weights"),
    "format": (change_config(format="x"), "need format 'handful-model'"),
    "version": (change_config(version=2), "need format 'handful-model', version 1"),
    "kind": (change_config(kind="pik"), "Did you mean 'pick'"),
    "typo": (change_config(config__temprature=1.0), "Did you mean 'temperature'"),
    "nested typo": (change_config(config__encoder__radios=1.0), "encoder: unknown field 'radios'"),
    "text for number": (change_config(config__encoder__layers="2"), "layers: is '2': need int"),
    "true for number": (change_config(config__encoder__layers=True), "layers: is True: need int"),
    "bad value": (change_config(config__encoder__radius=-1.0), "radius is -1"),
    "huge": (change_config(config__encoder__channels=40_000), "need 1 to 512"),
    "huge number": (change_config(config__temperature=10**400), "need a finite number"),
    "norm": (change_config(config__norm="l2"), "unknown energy norm 'l2'"),
    "ragged": (change_config(config__query_positions=[[0.0, 0.0], [1.0]]), "query positions"),
    "another size": (change_config(config__encoder__channels=8), "need torch.float32"),
    "more layers": (change_config(config__encoder__layers=2), "is missing"),
    "NaN": (change_weights(lambda w: w[LOGITS].fill_(math.nan)), "holds NaN"),
    "missing": (change_weights(lambda w: w.pop(LOGITS)), "'queries._logits' is missing"),
    "extra": (change_weights(lambda w: w.update(x=torch.ones(1))), "'x' does not belong"),
    "double": (change_weights(lambda w: w.update({LOGITS: w[LOGITS].double()})), "torch.float64"),
}


@pytest.mark.parametrize("case", BAD_CHECKPOINTS)
def test_a_bad_checkpoint_is_refused_with_the_reason(tmp_path, case):
    damage, message = BAD_CHECKPOINTS[case]
    folder = save_model(small_models()["pick"], tmp_path / "model")
    damage(folder)
    with pytest.raises(FileFormatError, match=message):
        load_model(folder)
