"""Propositions 1-8 of the paper, from the raw cloud to the energy, over 100 random motions.

Clouds are not voxel-filtered here: a grid cannot turn with its cloud, so the paper's statements
hold from the filtered cloud on.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from equivariance import (
    assert_equal_up_to_rounding,
    moved,
    random_object,
    random_poses,
    relative_error,
)
from handful.clouds import Box, NeighbourIndex
from handful.geometry import pose_apply, pose_compose, pose_inverse
from handful.learning import SurrogateConfig, SurrogateQueries
from handful.models import (
    DescriptorField,
    EdfModel,
    EncoderConfig,
    GraspQueryConfig,
    LearnedQueryConfig,
    MatchEnergy,
    ModelConfig,
    QueryPoints,
    ThinnedCloud,
)
from handful.nn import Gate, Types
from handful.sampling import lattice_log_partitions, near_points, pose_lattice

ENCODER = EncoderConfig(voxel_size=None, radius=0.05, layers=2, degree=2, channels=8, heads=2)
TYPES = (6, 4, 2, 2)
MOTIONS = 100


def model_of_grasp(dtype: torch.dtype, steps: int = 4, strongest: int = 6) -> EdfModel:
    """A model whose query points come from the grasp cloud (the paper's place model)."""
    torch.manual_seed(0)
    queries = GraspQueryConfig(
        ENCODER, strongest=strongest, count=6, cluster_radius=0.03, steps=steps, step_size=0.05
    )
    return EdfModel(ModelConfig(ENCODER, TYPES, grasp=queries)).to(dtype).eval()


def model_of_contact(dtype: torch.dtype) -> EdfModel:
    """A model whose query points are parameters (the paper's pick model)."""
    torch.manual_seed(0)
    positions = ((0.0, 0.0, 0.02), (0.02, 0.0, 0.0), (0.0, -0.02, 0.01))
    config = ModelConfig(ENCODER, TYPES, learned=LearnedQueryConfig(positions))
    return EdfModel(config).to(dtype).eval()


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


def test_the_field_is_equivariant_with_the_shape_of_the_cloud_as_input(dtype):
    """Moments of the whole cloud turn with it; they are float32, so 1e-9 is out of reach."""
    torch.manual_seed(0)
    types = Types(TYPES)
    field = DescriptorField(replace(ENCODER, shape_radius=0.06), types).to(dtype)
    where = torch.tensor(random_object(5, 12).points, dtype=torch.float64)
    with torch.no_grad():
        expected = field(SCENE)(where.to(dtype))
        for motion in random_poses(MOTIONS // 4, 1):
            actual = field(moved(SCENE, motion))(pose_apply(motion, where).to(dtype))
            turned = types.rotated(expected, motion[:3, :3].to(dtype))
            assert relative_error(actual, turned) < (1e-4 if dtype == torch.float32 else 1e-5)
            assert relative_error(actual, expected) > 1e-2


def test_moments_that_do_not_turn_break_the_field():
    """The broken control: those of the unturned cloud are given to the turned one."""
    torch.manual_seed(0)
    types = Types(TYPES)
    field = DescriptorField(replace(ENCODER, shape_radius=0.06), types).double()
    where = torch.tensor(random_object(5, 12).points, dtype=torch.float64)
    thin = field.encoder.thin(SCENE)
    assert thin.moments is not None
    (motion,) = random_poses(1, 1)
    with torch.no_grad():
        turned = types.rotated(field(SCENE)(where), motion[:3, :3])
        stiff = ThinnedCloud(moved(SCENE, motion), thin.moments)
        assert relative_error(field(stiff)(pose_apply(motion, where)), turned) > 1e-2
        torch.testing.assert_close(field(thin)(where), field(SCENE)(where))


def test_the_gradient_of_the_field_is_right_and_equivariant():
    """The derivative of eq. edf: J(Tx | TX) = D(R) J(x | X) Rᵀ, with J [dim, 3] = dphi/dx."""
    torch.manual_seed(0)
    types = Types((3, 2))
    fields = DescriptorField(ENCODER, types).double()
    field = fields(SCENE)
    where = torch.tensor(random_object(5, 6).points)
    gradient = field.gradient(where)
    step = 1e-6
    for axis in range(3):
        shift = torch.zeros(3, dtype=torch.float64)
        shift[axis] = step
        numeric = (field(where + shift) - field(where - shift)) / (2 * step)
        torch.testing.assert_close(gradient[..., axis], numeric, atol=1e-4, rtol=1e-5)
    for motion in random_poses(MOTIONS // 4, 3):
        rotation = motion[:3, :3]
        actual = fields(moved(SCENE, motion)).gradient(pose_apply(motion, where))
        turned = types.rotated(gradient.mT, rotation).mT @ rotation.mT
        assert_equal_up_to_rounding(actual, turned)
        with pytest.raises(AssertionError, match="relative error"):
            assert_equal_up_to_rounding(actual, types.rotated(gradient.mT, rotation).mT)


@pytest.mark.slow
def test_query_points_and_density_are_equivariant(dtype):
    """Propositions 8 and 5: q_i(TY) = T q_i(Y), through every SVGD step, with the same w_i."""
    model = model_of_grasp(dtype)
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
    model = model_of_grasp(torch.float64)
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
    model = model_of_grasp(dtype)
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
    model = model_of_contact(dtype)
    poses = some_poses(8, torch.float64)
    with torch.no_grad():
        expected = model(SCENE)(poses.to(dtype))
        for motion in random_poses(MOTIONS, 6):
            there = pose_compose(motion, poses).to(dtype)
            assert_equal_up_to_rounding(model(moved(SCENE, motion))(there), expected)


@pytest.mark.slow
def test_the_distribution_is_bi_equivariant():
    """Propositions 1 and 2: densities move with the clouds, and so does what normalises them.

    P(T|X,Y) = exp(-E(T|X,Y)) / Z(X,Y). The energies are equal to rounding (proposition 3 above).
    Each Z is an integral over all poses with the query point near the scene, estimated on lattices
    that do not move with the clouds; without the invariance of the measure dT they would differ.
    """
    model = model_of_grasp(torch.float32, strongest=1)
    poses = some_poses(4, torch.float64)

    def log_density(scene, grasp, where: Tensor, seed: int) -> tuple[Tensor, float]:
        """Logs of the densities, and the standard error of log Z."""
        energy = model(scene, grasp)
        log_z, error = log_partition(energy, scene, seed)
        return -energy(where.float()).double() - log_z, error

    with torch.no_grad():
        expected, error = log_density(SCENE, GRASP, poses, 0)
        for index, motion in enumerate(random_poses(3, 7)):
            left = log_density(moved(SCENE, motion), GRASP, motion @ poses, 2 * index + 1)
            held = moved(GRASP, pose_inverse(motion))
            right = log_density(SCENE, held, poses @ motion, 2 * index + 2)
            for found, its_error in (left, right):
                margin = 4.0 * (error**2 + its_error**2) ** 0.5 + 1e-3
                assert margin < 0.1
                assert float((found - expected).abs().max()) < margin
        # The control: densities do not move with a scene that was stretched.
        wide = type(SCENE)(SCENE.points * 1.3, SCENE.require_colors(), dtype=np.float64)
        found, _ = log_density(wide, GRASP, poses, 9)
        assert float((found - expected).abs().max()) > 0.2


def log_partition(energy: MatchEnergy, scene, seed: int) -> tuple[float, float]:
    """log Z of one query point near a scene, from several lattices, and its standard error."""
    points = torch.tensor(scene.points, dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    values = []
    for _ in range(12):
        lattice = pose_lattice(
            Box.around(scene.points, 0.03), 0.02, 150, generator, mask=near_points(points, 0.03)
        )
        values.append(float(lattice_log_partitions(energy, lattice)))
    sums = np.exp(np.array(values) - max(values))
    error = sums.std(ddof=1) / sums.mean() / len(sums) ** 0.5
    return max(values) + float(np.log(sums.mean())), float(error)


@pytest.mark.slow
def test_the_marginal_and_the_elbo_are_bi_equivariant(dtype):
    """Propositions 6 and 7: surrogate, its densities, its KL and the bound itself.

    A set of 33 poses that moves with the clouds stands for all poses in the likelihood: the test of
    the distribution above covers the normaliser.
    """
    model = model_of_grasp(dtype)
    config = SurrogateConfig(noise=0.7, reach=0.02, far_logit=-2.0)
    target = some_poses(1, torch.float64)[0]
    others = some_poses(32, torch.float64)
    noise = torch.randn(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def pieces(scene, grasp, pose: Tensor, negatives: Tensor) -> list[Tensor]:
        key = model.key_field(scene)
        encoded = model.queries.encode(grasp)
        points = model.queries.draw(encoded)
        surrogate = SurrogateQueries.at_pose(points, key.encoded, pose.to(dtype), config)
        logits = surrogate.sample_logits(noise.to(dtype))
        queries = model.queries.describe(encoded, points)
        weighted = QueryPoints(queries.positions, logits.softmax(0), queries.descriptors)
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
    model = model_of_grasp(torch.float64)
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
    model = model_of_contact(torch.float64)
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
