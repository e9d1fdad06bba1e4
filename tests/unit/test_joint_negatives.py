"""Joint energies of several query points in training: partition function, gradient, orientation."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from handful.clouds import NeighbourIndex
from handful.errors import OptionError
from handful.learning import JointNegatives, NearTarget
from handful.models import EncodedCloud, MatchEnergy, QueryPoints
from handful.nn import Types

LANDMARKS = torch.tensor([[0.0, 0.0, 0.0], [0.06, 0.0, 0.0], [0.0, 0.04, 0.0]]).double()
"""Where the type-0 field has a bump, each in a channel of its own."""
WIDE = 0.03


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bumps(where: torch.Tensor) -> torch.Tensor:
    return 2.0 * torch.exp(-torch.cdist(where, LANDMARKS).square() / (2.0 * WIDE**2))


def three_points() -> tuple[MatchEnergy, EncodedCloud, torch.Tensor]:
    """Query points that match one landmark each, if the gripper is at the identity."""
    queries = QueryPoints(LANDMARKS, torch.full((3,), 1 / 3).double(), bumps(LANDMARKS))
    steps = torch.linspace(-0.05, 0.1, 7).double()
    points = torch.cartesian_prod(steps, steps, torch.zeros(1).double())
    scene = EncodedCloud(points, torch.zeros(len(points), 1, 1), NeighbourIndex(points.numpy()))
    return MatchEnergy(bumps, queries, Types((3,))), scene, torch.eye(4).double()[None]


def slow_log_partition(energy: MatchEnergy, scene: EncodedCloud, reach: float) -> float:
    """Uniform poses over the workspace of the center of the query points."""
    rng = np.random.default_rng(0)
    count = 100_000
    low = scene.points.numpy().min(0) - reach
    high = scene.points.numpy().max(0) + reach
    poses = np.tile(np.eye(4), (count, 1, 1))
    poses[:, :3, :3] = Rotation.random(count, rng=rng).as_matrix()
    center = energy.queries.center.numpy()
    poses[:, :3, 3] = rng.uniform(low, high, (count, 3)) - poses[:, :3, :3] @ center
    energies = energy(torch.from_numpy(poses))
    volume = float(np.log(high - low).sum())
    return float((-energies).logsumexp(0)) - math.log(count) + volume


def test_the_partition_function_is_that_of_all_query_points_together():
    energy, scene, _ = three_points()
    negatives = JointNegatives(spacing=0.03, rotations=100, draws=2000)
    found = [float(negatives.log_partition(energy, scene, generator(seed))) for seed in range(3)]
    assert np.mean(found) == pytest.approx(slow_log_partition(energy, scene, 0.03), abs=0.1)


def test_its_gradient_is_that_of_the_partition_function():
    energy, scene, _ = three_points()
    size = torch.ones((), dtype=torch.float64, requires_grad=True)
    negatives = JointNegatives(spacing=0.03, rotations=100, draws=4000)

    def with_descriptors(share: torch.Tensor) -> MatchEnergy:
        queries = replace(energy.queries, descriptors=share * energy.queries.descriptors)
        return replace(energy, queries=queries)

    negatives.log_partition(with_descriptors(size), scene, generator()).backward()
    above, below = (
        slow_log_partition(with_descriptors(torch.tensor(share)), scene, 0.03)
        for share in (1.05, 0.95)
    )
    assert float(size.grad) == pytest.approx((above - below) / 0.1, rel=0.1)


@pytest.mark.parametrize("near", [NearTarget(), NearTarget(count=16)])
def test_a_pose_that_is_turned_the_wrong_way_is_less_likely(near):
    energy, scene, right = three_points()
    wrong = right.clone()
    wrong[0, :3, :3] = torch.from_numpy(Rotation.from_euler("z", 180, degrees=True).as_matrix())
    center = energy.queries.center
    wrong[0, :3, 3] = center - wrong[0, :3, :3] @ center
    negatives = JointNegatives(spacing=0.03, rotations=60, draws=200, near=near)
    good, bad = (
        negatives.likelihood(energy, pose, scene, generator()).loss for pose in (right, wrong)
    )
    assert float(good) + 0.3 < float(bad)


def test_weights_are_learned_from_the_joint_energy():
    """The query points whose place is known better gets more of the weight."""
    energy, scene, right = three_points()
    nowhere = energy.queries.descriptors.clone()
    nowhere[2] = 0.0  # matches empty space only
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    queries = QueryPoints(LANDMARKS, logits.softmax(0), nowhere)
    energy = replace(energy, queries=queries)
    negatives = JointNegatives(0.03, 60, 400)
    negatives.likelihood(energy, right, scene, generator()).loss.backward()
    assert float(logits.grad[2]) > 0 > float(logits.grad[:2].max())


def test_numbers_out_of_range_are_refused():
    with pytest.raises(OptionError, match="positive"):
        JointNegatives(draws=0)
