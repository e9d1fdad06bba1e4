"""Propositions 1-8 of the paper, from the raw cloud to the energy, over 100 random motions.

Clouds are not voxel-filtered here: a grid cannot turn with its cloud, so the paper's statements
hold from the filtered cloud on.
"""

import numpy as np
import pytest
import torch
from torch import Tensor

from equivariance import (
    assert_equal_up_to_rounding,
    moved,
    random_object,
    random_poses,
)
from handful.clouds import NeighbourIndex
from handful.geometry import pose_apply, pose_compose, pose_inverse
from handful.learning import SurrogateConfig, SurrogateQueries
from handful.models import (
    DescriptorField,
    EncoderConfig,
    GraspQueryConfig,
    MatchEnergy,
    PickConfig,
    PickModel,
    PlaceConfig,
    PlaceModel,
)
from handful.nn import Gate, Types

ENCODER = EncoderConfig(voxel_size=None, radius=0.05, layers=2, degree=2, channels=8, heads=2)
TYPES = (6, 4, 2, 2)
MOTIONS = 100


def place_model(dtype: torch.dtype, steps: int = 4) -> PlaceModel:
    torch.manual_seed(0)
    queries = GraspQueryConfig(count=6, cluster_radius=0.03, steps=steps, step_size=0.05)
    config = PlaceConfig(ENCODER, ENCODER, TYPES, queries, strongest=6)
    return PlaceModel(config).to(dtype).eval()


def pick_model(dtype: torch.dtype) -> PickModel:
    torch.manual_seed(0)
    positions = ((0.0, 0.0, 0.02), (0.02, 0.0, 0.0), (0.0, -0.02, 0.01))
    return PickModel(PickConfig(ENCODER, TYPES, positions)).to(dtype).eval()


SCENE, GRASP = random_object(0, 60), random_object(1, 30, size=0.04)


def some_poses(count: int, dtype: torch.dtype) -> Tensor:
    return random_poses(count, 9, reach=0.04).to(dtype)


@pytest.mark.parametrize("channels", [TYPES, (6,), (0, 4)], ids=str)
def test_the_field_is_equivariant(channels, dtype):
    """eq. edf: phi(Tx | TX) = D(R) phi(x | X)."""
    torch.manual_seed(0)
    field, types = DescriptorField(ENCODER, Types(channels)).to(dtype), Types(channels)
    where = torch.tensor(random_object(5, 12).points, dtype=torch.float64)
    with torch.no_grad():
        expected = field(SCENE)(where.to(dtype))
        for motion in random_poses(MOTIONS, 1):
            actual = field(moved(SCENE, motion))(pose_apply(motion, where).to(dtype))
            turned = types.rotated(expected, motion[:3, :3].to(dtype))
            assert_equal_up_to_rounding(actual, turned)


def test_the_gradient_of_the_field_is_right_and_equivariant():
    torch.manual_seed(0)
    field = DescriptorField(ENCODER, Types((3, 2))).double()(SCENE)
    where = torch.tensor(random_object(5, 6).points)
    gradient = field.gradient(where)
    step = 1e-6
    for axis in range(3):
        shift = torch.zeros(3, dtype=torch.float64)
        shift[axis] = step
        numeric = (field(where + shift) - field(where - shift)) / (2 * step)
        torch.testing.assert_close(gradient[..., axis], numeric, atol=1e-4, rtol=1e-5)


@pytest.mark.slow
def test_query_points_and_density_are_equivariant(dtype):
    """Propositions 8 and 5: q_i(TY) = T q_i(Y), through every SVGD step, with the same w_i."""
    model = place_model(dtype)
    with torch.no_grad():
        expected = model.queries(GRASP)
        assert expected.weights.sum().item() == pytest.approx(1.0, abs=1e-5)
        for motion in random_poses(MOTIONS, 2):
            actual = model.queries(moved(GRASP, motion))
            there = pose_apply(motion.to(dtype), expected.positions)
            turned = model.key_field.types.rotated(expected.descriptors, motion[:3, :3].to(dtype))
            assert_equal_up_to_rounding(actual.positions, there)
            assert_equal_up_to_rounding(actual.weights, expected.weights)
            assert_equal_up_to_rounding(actual.descriptors, turned)


def test_query_weight_field_depends_on_the_grasp():
    """Proposition 4: what is equivariant and not constant must follow the grasp."""
    model = place_model(torch.float64)
    where = torch.tensor(random_object(6, 10, size=0.03).points)
    with torch.no_grad():
        before = model.queries.log_weight(model.queries.encode(GRASP), where)
        assert before.std() > 1e-3
        for motion in random_poses(5, 4, reach=0.05):
            after = model.queries.log_weight(model.queries.encode(moved(GRASP, motion)), where)
            assert (after - before).abs().max() > 1e-3


@pytest.mark.slow
def test_the_energy_is_bi_equivariant(dtype):
    """Proposition 3: E(T|X,Y) = E(ST|SX,Y) = E(TS|X,S^-1 Y), for both norms."""
    model = place_model(dtype)
    poses = some_poses(8, torch.float64)

    def energies(key, queries, where: Tensor) -> Tensor:
        norms = ("squared", "irrepwise_l1")
        functions = [MatchEnergy(key, queries, model.key_field.types, norm) for norm in norms]
        return torch.cat([function(where.to(dtype)) for function in functions])

    with torch.no_grad():
        key, queries = model.key_field(SCENE), model.queries(GRASP)
        expected = energies(key, queries, poses)
        torch.testing.assert_close(model(SCENE, GRASP)(poses.to(dtype)), expected[:8])
        assert expected[:8].std() > 1e-2 * expected[:8].mean()
        for motion in random_poses(MOTIONS, 5):
            there = model.key_field(moved(SCENE, motion))
            held = model.queries(moved(GRASP, pose_inverse(motion)))
            left = energies(there, queries, pose_compose(motion, poses))
            right = energies(key, held, pose_compose(poses, motion))
            assert_equal_up_to_rounding(left, expected)
            assert_equal_up_to_rounding(right, expected)


def test_the_pick_energy_is_equivariant(dtype):
    model = pick_model(dtype)
    poses = some_poses(8, torch.float64)
    with torch.no_grad():
        expected = model(SCENE)(poses.to(dtype))
        for motion in random_poses(MOTIONS, 6):
            there = pose_compose(motion, poses).to(dtype)
            assert_equal_up_to_rounding(model(moved(SCENE, motion))(there), expected)


@pytest.mark.slow
def test_the_distribution_is_bi_equivariant(dtype):
    """Propositions 1 and 2: probabilities of a set of poses move with the set."""
    model = place_model(dtype)
    poses = some_poses(64, torch.float64)

    def probabilities(scene, grasp, where: Tensor) -> Tensor:
        return torch.softmax(-model(scene, grasp)(where.to(dtype)), 0)

    with torch.no_grad():
        expected = probabilities(SCENE, GRASP, poses)
        for motion in random_poses(MOTIONS // 4, 7):
            left = probabilities(moved(SCENE, motion), GRASP, pose_compose(motion, poses))
            held = moved(GRASP, pose_inverse(motion))
            right = probabilities(SCENE, held, pose_compose(poses, motion))
            assert_equal_up_to_rounding(left, expected)
            assert_equal_up_to_rounding(right, expected)


@pytest.mark.slow
def test_the_marginal_and_the_elbo_are_bi_equivariant(dtype):
    """Propositions 6 and 7: surrogate, its densities, its KL and the bound itself."""
    model = place_model(dtype)
    config = SurrogateConfig(noise=0.7, reach=0.02, far_logit=-2.0)
    target = some_poses(1, torch.float64)[0]
    others = some_poses(32, torch.float64)
    noise = torch.randn(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def pieces(scene, grasp, pose: Tensor, negatives: Tensor) -> list[Tensor]:
        key = model.key_field(scene)
        points = model.queries.draw(model.queries.encode(grasp))
        surrogate = SurrogateQueries.at_pose(points, key.encoded, pose.to(dtype), config)
        logits = surrogate.sample_logits(noise.to(dtype))
        queries = model.queries(grasp)
        weighted = type(queries)(queries.positions, logits.softmax(0), queries.descriptors)
        energy = MatchEnergy(key, weighted, model.key_field.types)
        everywhere = torch.cat([pose[None], negatives]).to(dtype)
        log_likelihood = torch.log_softmax(-energy(everywhere), 0)[0]
        kl = surrogate.kl_divergence()
        return [
            surrogate.far.to(dtype),
            surrogate.log_density(logits, points.logits),
            surrogate.log_density(logits, surrogate.mean_logits),
            kl,
            log_likelihood - kl,
        ]

    with torch.no_grad():
        expected = pieces(SCENE, GRASP, target, others)
        assert 0 < expected[0].sum() < 6, "need near and far query points"
        for motion in random_poses(MOTIONS // 4, 8):
            left = pieces(moved(SCENE, motion), GRASP, motion @ target, motion @ others)
            held = moved(GRASP, pose_inverse(motion))
            right = pieces(SCENE, held, target @ motion, others @ motion)
            for piece, one, other in zip(expected, left, right, strict=True):
                assert_equal_up_to_rounding(one, piece)
                assert_equal_up_to_rounding(other, piece)


def test_a_broken_layer_breaks_the_energy(monkeypatch):
    monkeypatch.setattr(Gate, "forward", lambda self, features: torch.nn.functional.silu(features))
    model = place_model(torch.float64)
    poses = some_poses(8, torch.float64)
    (motion,) = random_poses(1, 5)
    with torch.no_grad():
        expected = model(SCENE, GRASP)(poses)
        with pytest.raises(AssertionError, match="relative error"):
            assert_equal_up_to_rounding(
                model(moved(SCENE, motion), GRASP)(motion @ poses), expected
            )


def test_equivariance_is_local():
    """Points beyond the receptive radius change nothing (no centroid, no global pooling)."""
    model = pick_model(torch.float64)
    poses = some_poses(8, torch.float64)
    reach = ENCODER.receptive_radius
    shift = np.array([2 * reach + 0.3, 0.0, 0.0])
    far = np.vstack([SCENE.points, random_object(3, 20).points + shift])
    colors = np.vstack([SCENE.require_colors(), random_object(3, 20).require_colors()])
    crowded = type(SCENE)(far, colors, dtype=np.float64)
    with torch.no_grad():
        assert torch.equal(model(crowded)(poses), model(SCENE)(poses))


def test_distance_to_the_cloud_is_exact():
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(50, 3)), rng.normal(size=(7, 3))
    expected = np.linalg.norm(queries[:, None] - points, axis=-1).min(1)
    np.testing.assert_allclose(NeighbourIndex(points).distance(queries), expected)
