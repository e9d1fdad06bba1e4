"""Laws of Neural Descriptor Fields: vectors turn, descriptors do not, and the energy is ours."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from equivariance import assert_equal_up_to_rounding, random_poses, relative_error
from handful.baselines.ndf import (
    FAMILIES,
    NdfConfig,
    NdfEnergy,
    NdfField,
    NdfNetwork,
    NetworkConfig,
    OccupancyObjective,
    PoseSearch,
    ShapeBank,
    VectorBlock,
    VectorLeaky,
    low_poses,
    standing_pose,
)
from handful.baselines.ndf._network import edge_vectors, mean_rectified
from handful.baselines.ndf._pretraining import spread_out
from handful.baselines.ndf._vector_neurons import rectified
from handful.demos.synthetic import HangerShape
from handful.errors import OptionError
from handful.geometry import pose_apply, pose_distance, pose_inverse
from handful.models import MatchEnergy, QueryPoints
from handful.nn import Types
from handful.render import surface_points

SMALL = NetworkConfig(points=60, neighbours=5, width=8, latent=12, hidden=10)
seeds = st.integers(0, 1000)


def network(seed: int = 0) -> NdfNetwork:
    """A network in double precision, none of whose layers is zero."""
    torch.manual_seed(seed)
    made = NdfNetwork(SMALL).double()
    for parameter in made.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.3)
    return made


def cloud(seed: int, count: int = 60) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    size = torch.tensor([0.05, 0.03, 0.09], dtype=torch.float64)
    return size * torch.randn(count, 3, generator=generator, dtype=torch.float64)


def field_of(net: NdfNetwork, points: torch.Tensor) -> NdfField:
    center = points.mean(0)
    with torch.no_grad():
        return NdfField(net, net.encode(points[None], center[None])[0], center)


# --- the network ---------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [VectorLeaky(6), VectorBlock(6, 4)], ids=["leaky", "block"])
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_layers_of_vectors_turn_with_them(layer, seed):
    layer = layer.double()
    turn = random_poses(1, seed)[0, :3, :3]
    x = torch.randn(7, 3, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert_equal_up_to_rounding(layer(turn @ x), turn @ layer(x))


def test_a_rectifier_changes_only_what_points_against_its_direction():
    layer = VectorLeaky(5).double()
    x = torch.randn(50, 3, 5, dtype=torch.float64)
    d = layer.direction(x).detach()
    along = (x * d).sum(-2) / d.norm(dim=-2)
    after = (layer(x) * d).sum(-2) / d.norm(dim=-2)
    assert torch.allclose(after, torch.where(along < 0, 0.2 * along, along), atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_latent_vectors_turn_with_the_cloud_and_stay_when_it_moves(seed):
    net, points = network(), cloud(seed)
    motion = random_poses(1, seed)[0]
    there = pose_apply(motion, points)
    one, other = field_of(net, points).latent, field_of(net, there).latent
    assert_equal_up_to_rounding(other, motion[:3, :3] @ one)
    assert relative_error(other, one) > 1e-3  # it is not invariant


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_descriptors_are_invariant_to_moving_cloud_and_positions(seed):
    net, points, where = network(), cloud(seed), cloud(seed + 1, 20)
    motion = random_poses(1, seed)[0]
    one = field_of(net, points)(where)
    other = field_of(net, pose_apply(motion, points))(pose_apply(motion, where))
    assert_equal_up_to_rounding(other, one)
    assert torch.allclose(one.norm(dim=-1), torch.ones(20, dtype=torch.float64))
    assert (one[0] - one[1]).abs().max() > 1e-3  # nor the same everywhere


@pytest.mark.parametrize("broken", ["bias", "nan"])
def test_a_broken_network_fails_the_law_of_invariance(broken):
    net, points, where = network(), cloud(0), cloud(1, 20)
    net.encoder.points.bias = torch.nn.Parameter(
        torch.full((16,), math.nan if broken == "nan" else 0.1, dtype=torch.float64)
    )
    motion = random_poses(1, 3)[0]
    one = field_of(net, points)(where)
    other = field_of(net, pose_apply(motion, points))(pose_apply(motion, where))
    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding(other, one)


def test_the_first_layer_is_the_mean_of_rectified_edges():
    """`mean_rectified` never makes an array of all edges; this is what it stands for."""
    torch.manual_seed(0)
    linear, leaky = torch.nn.Linear(3, 7, bias=False).double(), VectorLeaky(7, 3).double()
    vectors = edge_vectors(torch.stack([cloud(0), cloud(1)]), 5)
    slow = leaky(linear(vectors), vectors).mean(dim=2).detach()
    fast = mean_rectified(vectors, linear.weight, leaky.direction.weight).detach()
    assert_equal_up_to_rounding(fast, slow)
    still = torch.zeros_like(leaky.direction.weight)
    unturned = mean_rectified(vectors, linear.weight, still).detach()
    assert_equal_up_to_rounding(unturned, linear(vectors).mean(dim=2).detach())
    assert relative_error(fast, unturned) > 1e-3


def test_the_way_back_of_a_rectifier_is_its_derivative():
    x, d = (torch.randn(6, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(rectified, (x, d))
    against = (x * d).sum(-2) < 0
    assert against.any()
    assert not against.all()


def test_the_order_of_points_does_not_matter():
    net, points = network(), cloud(4)
    shuffled = points[torch.randperm(60, generator=torch.Generator().manual_seed(0))]
    assert_equal_up_to_rounding(field_of(net, shuffled).latent, field_of(net, points).latent)


def test_the_original_has_the_descriptors_and_parameters_of_the_original():
    original = NetworkConfig(points=1000, neighbours=20, width=128, latent=256, hidden=256)
    assert original.descriptor == 2049
    count = sum(parameter.numel() for parameter in NdfNetwork(original).parameters())
    assert count == pytest.approx(1.8e6, rel=0.1)


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(OptionError, match="ndf neighbours"):
        replace(SMALL, neighbours=0)
    with pytest.raises(OptionError, match="ndf kept"):
        PoseSearch(starts=3, kept=4)
    with pytest.raises(OptionError, match="ndf voxel"):
        NdfConfig(False, voxel=math.nan)


# --- the energy ----------------------------------------------------------------------------------


def energies(seed: int) -> tuple[NdfEnergy, MatchEnergy]:
    """The energy of Neural Descriptor Fields, and its special case of ours, of the same field."""
    field = field_of(network(), cloud(seed))
    queries = cloud(seed + 1, 15)
    with torch.no_grad():
        descriptors = field(pose_apply(random_poses(1, seed + 2)[0], queries))
    points = QueryPoints(queries, torch.ones(15, dtype=torch.float64), descriptors)
    types = Types((SMALL.descriptor,))
    return NdfEnergy(field, queries, descriptors), MatchEnergy(field, points, types, "irrepwise_l1")


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_the_energy_is_the_special_case_of_ours(seed):
    """Appendix E: the norm L1, weights of one, and descriptors of type 0 only."""
    theirs, ours = energies(seed)
    poses = random_poses(5, seed, reach=0.05)
    with torch.no_grad():
        # A length of zero counts as 1e-12 in ours.
        assert_equal_up_to_rounding(theirs(poses), ours(poses))
        assert relative_error(replace(ours, norm="squared")(poses), theirs(poses)) > 1e-3


def test_the_energy_is_the_sum_of_the_formula():
    energy, _ = energies(0)
    pose = random_poses(1, 5, reach=0.05)
    slow = 0.0
    for query, descriptor in zip(energy.queries, energy.descriptors, strict=True):
        found = energy.field((pose[0, :3, :3] @ query + pose[0, :3, 3])[None])[0]
        slow += (found - descriptor).abs().sum().item()
    assert energy(pose).item() == pytest.approx(slow, rel=1e-9)


@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_energies_move_with_the_object(seed):
    """E(S T | S X) = E(T | X): the left half of bi-equivariance; there is no right half."""
    energy, _ = energies(seed)
    motion, poses = random_poses(1, seed)[0], random_poses(4, seed + 1, reach=0.05)
    moved = replace(energy, field=field_of(energy.field.network, pose_apply(motion, cloud(seed))))
    with torch.no_grad():
        assert_equal_up_to_rounding(moved(motion @ poses), energy(poses))


def test_the_search_finds_the_lowest_pose():
    """Of an energy whose minimum is known: distances of points from where they belong."""
    points, right = cloud(0, 10), random_poses(1, 3, reach=0.05)[0]
    where = pose_apply(right, points)

    def energy(poses: torch.Tensor) -> torch.Tensor:
        return (pose_apply(poses, points) - where).norm(dim=-1).sum(-1)

    search = PoseSearch(starts=40, kept=4, steps=60, rate=0.1, stride=0.01)
    poses, values = low_poses(energy, points.mean(0), where.mean(0), search)
    assert len(poses) == 4
    assert (values.diff() >= 0).all()
    angle, distance = pose_distance(poses[0], right)
    assert float(angle) < 0.02
    assert float(distance) < 0.002


# --- shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(3))
def test_occupancy_is_that_of_the_mesh(number):
    """They differ only between the formula's circles and the mesh's flat sides."""
    shape = FAMILIES[number](np.random.default_rng(number))
    where = np.random.default_rng(1).uniform([-0.06, -0.06, -0.01], [0.09, 0.06, 0.1], (400, 3))
    inside = np.zeros(len(where), dtype=bool)
    for mesh in shape.meshes:
        inside |= winding_numbers(mesh.triangles, where) > 0.5
    assert inside.sum() > 10
    assert (inside == shape.inside(where)).mean() > 0.98


def winding_numbers(triangles: np.ndarray, where: np.ndarray) -> np.ndarray:
    """How often closed triangles go around each position: solid angles over 4 pi."""
    a, b, c = (triangles[None, :, k] - where[:, None] for k in range(3))
    lengths = [np.linalg.norm(one, axis=-1) for one in (a, b, c)]
    numerator = np.einsum("nfx,nfx->nf", a, np.cross(b, c))
    dots = [(one * other).sum(-1) for one, other in ((a, b), (b, c), (c, a))]
    denominator = (math.prod(lengths) + dots[0] * lengths[2] + dots[1] * lengths[0]
                   + dots[2] * lengths[1])  # fmt: skip
    return np.abs(2.0 * np.arctan2(numerator, denominator).sum(-1)) / (4.0 * np.pi)


def test_what_is_seen_of_a_shape_lies_on_its_surface():
    bank = ShapeBank(3, 0.004, seed=5)
    for number in range(3):
        seen = bank.seen(number)
        assert len(seen.points) > 200
        assert bank.seen(number) is seen
        around = np.random.default_rng(0).normal(size=(30, 1, 3))
        around *= 0.004 / np.linalg.norm(around, axis=-1, keepdims=True)
        near = (seen.points[None, :300] + around).reshape(-1, 3)
        sides = seen.shape.inside(near).reshape(30, -1).mean(axis=0)
        assert ((sides > 0) & (sides < 1)).mean() > 0.9


def test_pretraining_lowers_the_loss():
    torch.manual_seed(0)
    net, bank = NdfNetwork(SMALL), ShapeBank(4, 0.006, seed=0)
    objective = OccupancyObjective(clouds=4, positions=100)
    adam = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for step in range(30):
        loss = objective.loss(net, bank, np.random.default_rng(step), 0.0).total
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:3])


def test_points_that_are_spread_out_say_the_same_each_time():
    """Third moments of a mug's cloud tell its handle; those of points drawn one by one drown it."""
    points = ShapeBank(1, 0.004, seed=2).seen(0).points

    def moments(choose: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
        found = []
        for seed in range(40):
            some = points[choose(np.random.default_rng(seed))]
            p = some - some.mean(axis=0)
            found.append(((p**2).sum(axis=1, keepdims=True) * p).mean(axis=0))
        return np.array(found)

    even = moments(lambda rng: spread_out(points, 200, rng))
    alone = moments(lambda rng: rng.choice(len(points), 200, replace=False))
    assert np.linalg.norm(even.std(axis=0)) < 0.4 * np.linalg.norm(alone.std(axis=0))
    assert np.linalg.norm(even.mean(axis=0)) > 2.0 * np.linalg.norm(even.std(axis=0))


@pytest.mark.parametrize("count", [3, 50, 80])
def test_points_are_repeated_only_if_there_are_too_few(count):
    points = np.random.default_rng(0).normal(size=(50, 3))
    numbers = np.bincount(spread_out(points, count, np.random.default_rng(1)), minlength=50)
    assert numbers.sum() == count
    assert numbers.min() >= count // 50
    assert numbers.max() <= -(-count // 50)


# --- where the target stands ---------------------------------------------------------------------


@settings(max_examples=2, deadline=None)
@given(yaw=st.floats(-3.1, 3.1), x=st.floats(-0.2, 0.2), y=st.floats(-0.2, 0.2))
def test_a_known_thing_is_found_by_its_cloud(yaw, x, y):
    rng = np.random.default_rng(0)
    known = np.concatenate(
        [rng.uniform([0, 0, 0], [0.02, 0.1, 0.01], (300, 3)), rng.uniform(0, 0.03, (100, 3))]
    )
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = Rotation.from_euler("z", yaw).as_matrix(), (x, y, 0.01)
    seen = known[rng.permutation(400)[:350]] @ pose[:3, :3].T + pose[:3, 3]
    found = torch.from_numpy(standing_pose(known, seen))
    off = pose_inverse(found) @ torch.from_numpy(pose)
    assert off[:3, 3].norm() < 0.005
    assert (off[:3, :3] - torch.eye(3)).abs().max() < 0.1


@pytest.mark.parametrize("yaw", [0.3, 1.9, -2.4])
def test_the_yaw_of_a_hanger_is_told_by_its_arm(yaw):
    """A tenth of the points, all others alike at any yaw; each cloud shows another side of it."""
    triangles = HangerShape(arm_length=0.095, arm_radius=0.005, arm_rise=0.8).mesh().triangles
    points = surface_points(triangles, 6000)
    known, seen = points[:2500], points[3500:]
    seen = seen[seen[:, 0] > -0.004]  # nothing of the side behind the arm
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = Rotation.from_euler("z", yaw).as_matrix(), (0.1, -0.05, 0.0)
    found = standing_pose(known, seen @ pose[:3, :3].T + pose[:3, 3])
    off = np.linalg.inv(pose) @ found
    assert np.linalg.norm(off[:3, 3]) < 0.004
    assert abs(np.degrees(np.arctan2(off[1, 0], off[0, 0]))) < 2.0
