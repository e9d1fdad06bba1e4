"""Uniform and lattice sampling of SO(3), and invariance of the volume forms."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.spatial import cKDTree
from torch import Tensor

from handful import geometry as g
from handful.errors import GeometryError

SAMPLES = 200_000


def haar(seed: int, count: int = SAMPLES) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return g.haar_rotations(count, generator=generator, dtype=torch.float64)


def assert_same_mean(first: Tensor, second: Tensor) -> None:
    """Two independent Monte Carlo estimates agree within four standard errors."""
    error = (first.var() / len(first) + second.var() / len(second)).sqrt()
    assert float((first.mean() - second.mean()).abs() / error) < 4.0


def rotation_test_function(rotation: Tensor) -> Tensor:
    """A smooth function with no symmetry, holding degrees 0 to 4."""
    probe = torch.tensor([[0.3, -1.0, 0.2], [0.5, 0.1, 0.9], [-0.7, 0.4, 0.3]], dtype=torch.float64)
    return torch.exp((rotation * probe).sum((-2, -1))) + rotation[..., 0, 1] ** 3


SHIFT = g.rotation_exp(torch.tensor([0.4, -1.9, 0.7], dtype=torch.float64))


@pytest.mark.parametrize(
    "shifted", [lambda r: SHIFT @ r, lambda r: r @ SHIFT, lambda r: r.mT], ids=["l", "r", "inv"]
)
def test_haar_sampling_is_bi_invariant(shifted):
    assert_same_mean(rotation_test_function(haar(0)), rotation_test_function(shifted(haar(1))))


def test_invariance_check_rejects_another_measure():
    # Uniform rotation vectors in the ball of radius π are not Haar distributed.
    generator = torch.Generator().manual_seed(2)
    rotvec = torch.randn(SAMPLES, 3, generator=generator, dtype=torch.float64)
    radius = math.pi * torch.rand(SAMPLES, 1, generator=generator, dtype=torch.float64) ** (1 / 3)
    rotation = g.rotation_exp(radius * rotvec / rotvec.norm(dim=-1, keepdim=True))
    with pytest.raises(AssertionError):
        assert_same_mean(rotation_test_function(rotation), rotation_test_function(SHIFT @ rotation))


def test_haar_images_of_a_point_are_uniform_on_the_sphere():
    height = haar(3, 20_000)[:, 2, 1].numpy()
    assert stats.kstest(height, "uniform", args=(-1, 2)).pvalue > 1e-3


POSE_SHIFT = g.pose_from_rotation_translation(
    SHIFT, torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)
)
BOX = 5.0


def uniform_poses(seed: int) -> Tensor:
    """Poses with density proportional to dT = dR d³v in a box that holds the test function."""
    generator = torch.Generator().manual_seed(seed)
    translation = BOX * (2.0 * torch.rand(SAMPLES, 3, generator=generator, dtype=torch.float64) - 1)
    return g.pose_from_rotation_translation(haar(seed + 1), translation)


def pose_test_function(pose: Tensor) -> Tensor:
    """Falls to nothing inside the box, wherever `POSE_SHIFT` or its inverse takes it."""
    rotation, translation = g.pose_to_rotation_translation(pose)
    centre = torch.tensor([0.5, -0.5, 0.2], dtype=torch.float64)
    bump = torch.exp(-(translation - centre).square().sum(-1))
    return bump * rotation_test_function(rotation) * (2.0 + translation[..., 0])


@pytest.mark.parametrize(
    "shifted",
    [
        lambda t: g.pose_compose(POSE_SHIFT, t),
        lambda t: g.pose_compose(t, POSE_SHIFT),
        g.pose_inverse,
    ],
    ids=["left", "right", "inverse"],
)
def test_volume_form_of_poses_is_bi_invariant(shifted: Callable[[Tensor], Tensor]):
    assert_same_mean(
        pose_test_function(uniform_poses(10)), pose_test_function(shifted(uniform_poses(20)))
    )


@pytest.mark.parametrize("count", [1, 2, 7, 100, 577])
def test_lattice_has_any_size_and_holds_rotations(count, dtype):
    rotation = g.rotation_lattice(count, dtype=dtype)
    assert rotation.shape == (count, 3, 3)
    g.check_rotation(rotation, tolerance=1e-5 if dtype == torch.float32 else 1e-12)
    assert torch.equal(rotation, g.rotation_lattice(count, dtype=dtype))
    quats = g.quat_lattice(count, dtype=dtype)
    torch.testing.assert_close(g.quat_to_rotation(quats), rotation, atol=1e-5, rtol=0.0)


def test_lattice_constant_solves_its_equation():
    psi = g._lattice._PSI
    assert psi**4 == pytest.approx(psi + 4.0, rel=1e-15)


def covering_radius(rotations: Tensor, probes: int = 50_000) -> float:
    """Largest angle (radians) from any rotation to the nearest of `rotations`, estimated.

    The nearest rotation is found for uniform random probes; around the farthest ones the search
    goes on in ever smaller steps. The estimate is a lower bound that tightens with `probes`.
    """
    generator = torch.Generator().manual_seed(0)
    quats = g.rotation_to_quat(rotations.double())
    tree = cKDTree(torch.cat([quats, -quats]).numpy())

    def distances(queries: Tensor) -> Tensor:
        chords = torch.from_numpy(tree.query(queries.numpy())[0])
        return 4.0 * torch.asin(0.5 * chords)

    where = g.haar_quats(probes, generator=generator, dtype=torch.float64)
    found = distances(where)
    step = 0.5 * float(found.max())
    for _ in range(12):
        best = found.topk(min(64, len(found))).indices
        where, found = where[best], found[best]
        noise = torch.randn(len(where), 32, 4, generator=generator, dtype=torch.float64)
        nearby = g.quat_normalize(where[:, None] + 0.5 * step * noise).flatten(0, 1)
        where, found = torch.cat([where, nearby]), torch.cat([found, distances(nearby)])
        step *= 0.6
    return float(found.max())


def test_covering_radius_shrinks_with_the_cube_root_of_the_size():
    counts = [100, 300, 1000, 3000, 10_000]
    radii = [covering_radius(g.rotation_lattice(count)) for count in counts]
    assert all(a > b for a, b in pairwise(radii))
    slope = np.polyfit(np.log(counts), np.log(radii), 1)[0]
    assert slope == pytest.approx(-1 / 3, abs=0.04)
    scaled = np.array(radii) * np.cbrt(counts)
    assert scaled.min() > 3.0
    assert scaled.max() < 4.8


def test_lattice_covers_better_than_random_rotations():
    lattice = covering_radius(g.rotation_lattice(1000))
    assert lattice < 0.8 * covering_radius(haar(4, 1000))


def test_covering_radius_of_a_known_set():
    # From one rotation the farthest is a half turn away.
    assert covering_radius(torch.eye(3)[None]) == pytest.approx(math.pi, abs=1e-3)
    some = haar(5, 30)
    distances = g.geodesic_distance(haar(6, 20_000)[:, None], some[None]).amin(1)
    radius = covering_radius(some)
    assert float(distances.max()) <= radius + 1e-9
    assert radius == pytest.approx(float(distances.max()), rel=0.05)


def test_random_turn_keeps_the_lattice_and_makes_each_rotation_uniform():
    generator = torch.Generator().manual_seed(7)
    plain = g.rotation_lattice(20, dtype=torch.float64)
    turned = g.rotation_lattice(20, generator=generator, dtype=torch.float64)
    turn = turned[0] @ plain[0].mT
    torch.testing.assert_close(turn @ plain, turned)
    again = g.rotation_lattice(20, generator=generator, dtype=torch.float64)
    assert not torch.allclose(again, turned)
    firsts = torch.stack(
        [g.rotation_lattice(2, generator=generator, dtype=torch.float64)[0] for _ in range(1000)]
    )
    angles = g.rotation_angle(firsts).numpy()
    assert stats.kstest(angles, lambda w: (w - np.sin(w)) / math.pi).pvalue > 1e-3


def test_lattice_integrates_low_degrees_exactly_enough():
    for degree, block in enumerate(
        g.wigner_d_blocks(g.rotation_lattice(2000, dtype=torch.float64), 4)
    ):
        mean = block.mean(0)
        assert float(mean.abs().max()) < 0.01 or degree == 0


def test_empty_lattice_is_refused():
    with pytest.raises(GeometryError, match="size is 0"):
        g.rotation_lattice(0)


def test_same_seed_same_rotations(dtype):
    draws = [
        g.haar_rotations(2, 3, generator=torch.Generator().manual_seed(8), dtype=dtype)
        for _ in range(2)
    ]
    assert draws[0].shape == (2, 3, 3, 3)
    assert torch.equal(*draws)
    assert g.haar_rotations().shape == (3, 3)
