"""Laws of the tools that samplers are made of."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from handful.geometry import (
    geodesic_distance,
    haar_rotations,
    pose_distance,
    pose_from_rotation_translation,
)
from handful.sampling import distinct_poses, weight_effective_sample_size
from handful.sampling.chains._steps import reorthonormalised, standard_drift

seeds = st.integers(0, 10_000)


def clustered_poses(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rotation = haar_rotations(count, generator=generator, dtype=torch.float64)
    where = 0.05 * torch.randn(count, 3, generator=generator, dtype=torch.float64)
    energies = torch.randn(count, generator=generator, dtype=torch.float64)
    return pose_from_rotation_translation(rotation, where), energies


@given(seeds, st.integers(1, 700), st.floats(0.1, 3.1), st.floats(0.01, 0.2))
def test_distinct_poses_are_apart_and_every_other_is_near_a_better_one(
    seed, count, angle, distance
):
    poses, energies = clustered_poses(seed, count)
    kept = distinct_poses(poses, energies, angle, distance)
    turn, gap = pose_distance(poses[:, None], poses)
    near = (turn < angle - 1e-6) & (gap < distance - 1e-9)
    close = (turn < angle + 1e-6) & (gap < distance + 1e-9)
    among = near[kept][:, kept]
    assert not bool((among & ~torch.eye(len(kept), dtype=torch.bool)).any())
    assert bool((energies[kept].diff() >= 0).all())
    better = energies[kept][None] <= energies[:, None]
    assert bool((close[:, kept] & better).any(1).all())
    assert int(kept[0]) == int(energies.argmin())
    limited = distinct_poses(poses, energies, angle, distance, limit=3)
    assert torch.equal(limited, kept[:3])


@given(seeds, st.integers(1, 50), st.floats(-500, 500))
def test_effective_sample_size_is_between_one_and_all_whatever_the_scale(seed, count, shift):
    weights = 3.0 * torch.randn(count, generator=torch.Generator().manual_seed(seed)).double()
    size = weight_effective_sample_size(weights)
    assert 1.0 - 1e-9 <= size <= count + 1e-9
    assert abs(weight_effective_sample_size(weights + shift) - size) < 1e-6 * count


@given(seeds, st.floats(0.01, 5.0))
def test_drift_is_cut_to_its_limit_and_keeps_its_direction(seed, limit):
    generator = torch.Generator().manual_seed(seed)
    gradients = 10.0 * torch.randn(20, 6, generator=generator, dtype=torch.float64)
    scale = torch.tensor([0.3] * 3 + [0.05] * 3, dtype=torch.float64)
    free = standard_drift(gradients, scale, float("inf")).unflatten(-1, (2, 3))
    cut = standard_drift(gradients, scale, limit).unflatten(-1, (2, 3))
    torch.testing.assert_close(free.flatten(-2), -0.5 * scale * gradients)
    length = free.norm(dim=-1).clamp_max(limit)
    torch.testing.assert_close(cut.norm(dim=-1), length)
    torch.testing.assert_close((cut * free).sum(-1), cut.norm(dim=-1) * free.norm(dim=-1))


@given(seeds, st.floats(0.0, 1e-3))
def test_rounding_is_taken_out_of_rotations(seed, noise):
    generator = torch.Generator().manual_seed(seed)
    rotation = haar_rotations(10, generator=generator, dtype=torch.float64)
    rough = rotation + noise * torch.randn(10, 3, 3, generator=generator, dtype=torch.float64)
    where = torch.randn(10, 3, generator=generator, dtype=torch.float64)
    mended = reorthonormalised(pose_from_rotation_translation(rough, where))
    error = mended[:, :3, :3].mT @ mended[:, :3, :3] - torch.eye(3, dtype=torch.float64)
    assert float(error.abs().max()) <= 200.0 * noise**2 + 1e-14
    assert float(geodesic_distance(mended[:, :3, :3], rotation).max()) <= 10.0 * noise + 1e-7
    assert torch.equal(mended[:, :3, 3], where)
