"""What all samplers share: seeds, bounds, the reference point, gradients, reports, errors."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from clock import Clock
from handful.clouds import Box, PointCloud
from handful.errors import CloudShapeError, GeometryError, OptionError
from handful.geometry import (
    check_pose,
    haar_rotations,
    lie_derivative_matrix,
    pose_apply,
    pose_distance,
    pose_from_rotation_translation,
    pose_retract,
    poses_from_wxyz_xyz,
    poses_to_wxyz_xyz,
)
from handful.models import DescriptorField, EncoderConfig, MatchEnergy, QueryPoints
from handful.nn import Types
from handful.sampling import (
    Descent,
    EnergyError,
    ExhaustiveSampler,
    ExhaustiveSearch,
    Langevin,
    MetropolisHastings,
    PaperSchedule,
    PoseSamples,
    Target,
    chain_effective_sample_size,
    mode_coverage,
    weight_effective_sample_size,
)
from handful.sampling import _sampler as sampler_module
from handful.sampling.lattice import _exhaustive_sampler as exhaustive_module
from handful.sampling.lattice._correction import independence_chains

BOX = Box((-0.1, -0.05, 0.0), (0.1, 0.05, 0.1))
TYPES = Types((2, 1, 1))

SAMPLERS = {
    "metropolis": MetropolisHastings(steps=20),
    "langevin": Langevin(steps=10),
    "mala": Langevin(steps=10, metropolis_adjusted=True),
    "descent": Descent(steps=10),
    "paper": PaperSchedule(
        metropolis=MetropolisHastings(steps=10), langevin=Langevin(steps=5),
        descent=Descent(steps=5),
    ),
    "search": ExhaustiveSearch(spacing=0.03, rotations=64),
    "sampler": ExhaustiveSampler(spacing=0.03, rotations=64, draws=500),
    "independence": ExhaustiveSampler(
        spacing=0.03, rotations=64, draws=500, correction="independence"
    ),
    "weights": ExhaustiveSampler(spacing=0.03, rotations=64, draws=500, correction="weights"),
    "marginals": ExhaustiveSampler(spacing=0.03, rotations=64, draws=500, proposal="marginals"),
    "time": ExhaustiveSampler(spacing=0.03, rotations=64, draws=500, time_budget=0.05),
}  # fmt: skip
KERNELS = {name: SAMPLERS[name] for name in ("metropolis", "langevin", "mala", "descent", "paper")}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def smooth_energy(dtype: torch.dtype = torch.float64, queries: int = 2) -> MatchEnergy:
    generator = seeded(5)
    waves = torch.randn(3, 16, generator=generator, dtype=dtype) / 0.05
    mixing = 0.4 * torch.randn(16, TYPES.dim, generator=generator, dtype=dtype)
    points = QueryPoints(
        torch.tensor([[0.01, 0.0, 0.1], [-0.01, 0.02, 0.09]], dtype=dtype)[:queries],
        torch.tensor([0.7, 0.5], dtype=dtype)[:queries],
        torch.randn(queries, TYPES.dim, generator=generator, dtype=dtype),
    )
    return MatchEnergy(lambda x: torch.cos(x @ waves) @ mixing, points, TYPES)


def reference_of(energy: MatchEnergy) -> torch.Tensor:
    weights = energy.queries.weights
    return (weights[:, None] * energy.queries.positions).sum(0) / weights.sum()


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_poses_are_valid_sorted_inside_and_have_their_energies(sampler, dtype):
    energy = smooth_energy(dtype)
    samples = sampler.sample(energy, BOX, 30, seeded())
    assert isinstance(samples, PoseSamples)
    assert len(samples) >= 1
    assert samples.poses.dtype == samples.energies.dtype == dtype
    check_pose(samples.poses)
    assert bool((samples.energies.diff() >= 0).all())
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(
        samples.energies, energy(samples.poses), rtol=tolerance, atol=tolerance
    )
    where = pose_apply(samples.poses, reference_of(energy)[None])[:, 0]
    assert bool((where >= torch.tensor(BOX.lower) - 1e-6).all())
    assert bool((where <= torch.tensor(BOX.upper) + 1e-6).all())
    report = samples.report
    assert report.seconds > 0
    assert report.energy_evaluations >= report.gradient_evaluations
    assert report.energy_evaluations > 0
    if samples.log_weights is not None:
        assert float(samples.log_weights.logsumexp(0)) == pytest.approx(0.0, abs=1e-5)
    elif not isinstance(sampler, ExhaustiveSearch):
        assert len(samples) == 30


@pytest.mark.parametrize(
    "sampler",
    [sampler for name, sampler in SAMPLERS.items() if name != "time"],
    ids=[name for name in SAMPLERS if name != "time"],
)
def test_the_same_seed_gives_the_same_poses(sampler):
    energy = smooth_energy(torch.float32)
    first, again, other = (sampler.sample(energy, BOX, 10, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.poses, again.poses)
    assert torch.equal(first.energies, again.energies)
    assert first.poses.shape != other.poses.shape or not torch.equal(first.poses, other.poses)


def in_small_steps(kernel):
    if isinstance(kernel, PaperSchedule):
        names = ("metropolis", "langevin", "descent")
        return replace(kernel, **{name: in_small_steps(getattr(kernel, name)) for name in names})
    return replace(kernel, angle=1e-3, distance=1e-5)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_kernels_run_from_given_poses_and_sample_from_anywhere(kernel):
    """Chains of small steps end beside the poses that they started from."""
    energy, kernel = smooth_energy(), in_small_steps(kernel)
    start = ExhaustiveSearch(spacing=0.03, rotations=64).sample(energy, BOX, 6, seeded())

    def moved(samples: PoseSamples) -> tuple[torch.Tensor, torch.Tensor]:
        assert len(samples) == len(start)
        turn, gap = pose_distance(centred_of(energy, start)[:, None], centred_of(energy, samples))
        return turn.amin(1), gap.amin(1)

    turn, gap = moved(kernel.run(energy, start.poses, seeded(), BOX))
    assert 0.0 < float(turn.max()) < 0.03
    assert 0.0 < float(gap.max()) < 3e-4
    turn, gap = moved(kernel.sample(energy, BOX, len(start), seeded()))
    assert float(turn.max()) > 0.3
    assert float(gap.max()) > 0.01


def centred_of(energy: MatchEnergy, samples: PoseSamples) -> torch.Tensor:
    return Target(energy, BOX).centred(samples.poses)


def test_moves_of_a_kernel_follow_resampling():
    sampler = replace(SAMPLERS["sampler"], moves=Langevin(steps=5, metropolis_adjusted=True))
    samples = sampler.sample(smooth_energy(), BOX, 30, seeded())
    assert samples.report.gradient_evaluations == 30 * 6
    assert len(samples) == 30


@pytest.mark.parametrize(("budget", "lattices"), [(0.1, 1), (1.9, 1), (2.1, 2), (7.5, 7)])
def test_anytime_sampler_pools_the_lattices_that_fit_into_its_budget(budget, lattices, monkeypatch):
    """Every lattice takes one second: the key field is evaluated for its cells and its draws."""
    clock = Clock()
    clock.install(monkeypatch, exhaustive_module, sampler_module)
    energy = smooth_energy()
    energy = replace(energy, field=clock.slow(energy.field, lambda positions: 0.5))
    sampler = replace(SAMPLERS["sampler"], time_budget=budget)
    report = sampler.sample(energy, BOX, 30, seeded()).report
    assert report.levels == report.seconds == lattices
    assert report.energy_evaluations == 500 * lattices


# --- threads -----------------------------------------------------------------------------------


def encoded_energy() -> MatchEnergy:
    """The energy of an untrained descriptor field over a cloud."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    cloud = PointCloud(rng.uniform(-0.06, 0.06, (80, 3)), rng.uniform(0, 1, (80, 3)))
    config = EncoderConfig(voxel_size=None, radius=0.05, layers=1, degree=1, channels=8, heads=2)
    field = DescriptorField(config, TYPES).eval()
    with torch.no_grad():
        return MatchEnergy(field(cloud), smooth_energy(torch.float32).queries, TYPES)


class Meeting:
    """A field that waits until two threads evaluate it, which makes their runs overlap.

    Args:
        field: What is evaluated.
        shared: Whether the positions are kept in one place for both threads meanwhile: a bug.
    """

    def __init__(self, field, shared: bool = False) -> None:
        self.field, self.shared = field, shared
        self.overlapped = 0
        self._barrier = threading.Barrier(2)
        self._last = None

    def __call__(self, positions: torch.Tensor) -> torch.Tensor:
        self._last = positions
        try:
            self._barrier.wait(timeout=2.0)
            self.overlapped += 1
        except threading.BrokenBarrierError:  # the other thread has ended
            pass
        return self.field(self._last if self.shared else positions)


def in_two_threads(sampler, energy: MatchEnergy) -> list[PoseSamples]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda seed: sampler.sample(energy, BOX, 8, seeded(seed)), (1, 2)))


@pytest.mark.parametrize("make", [lambda: smooth_energy(torch.float32), encoded_energy],
                         ids=["waves", "descriptor field"])  # fmt: skip
@pytest.mark.parametrize("name", ["metropolis", "mala", "search", "sampler", "marginals"])
def test_two_threads_with_one_energy_find_what_each_finds_alone(make, name):
    energy, sampler = make(), SAMPLERS[name]
    alone = [sampler.sample(energy, BOX, 8, seeded(seed)) for seed in (1, 2)]
    meeting = Meeting(energy.field)
    together = in_two_threads(sampler, replace(energy, field=meeting))
    assert meeting.overlapped >= 4
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one.poses, other.poses)
        assert torch.equal(one.energies, other.energies)
        assert one.report.energy_evaluations == other.report.energy_evaluations


def test_the_check_notices_state_that_threads_share():
    energy, sampler = smooth_energy(torch.float32), SAMPLERS["metropolis"]
    alone = [sampler.sample(energy, BOX, 8, seeded(seed)) for seed in (1, 2)]
    together = in_two_threads(sampler, replace(energy, field=Meeting(energy.field, shared=True)))
    same = [torch.equal(one.poses, other.poses) for one, other in zip(alone, together, strict=True)]
    assert not all(same)


# --- the target --------------------------------------------------------------------------------


def random_poses(count: int) -> torch.Tensor:
    rotation = haar_rotations(count, generator=seeded(), dtype=torch.float64)
    where = 0.02 * torch.randn(count, 3, generator=seeded(), dtype=torch.float64)
    return pose_from_rotation_translation(rotation, where)


def test_centred_poses_have_the_reference_point_as_origin():
    energy, poses = smooth_energy(), random_poses(10)
    target = Target(energy, BOX)
    torch.testing.assert_close(target.reference, reference_of(energy))
    centred = target.centred(poses)
    torch.testing.assert_close(centred[:, :3, 3], pose_apply(poses, target.reference[None])[:, 0])
    torch.testing.assert_close(target.poses(centred), poses)
    assert torch.equal(Target(lambda poses: poses[:, 0, 3], BOX).reference, torch.zeros(3))
    chosen = Target(energy, BOX, (0.1, 0.0, -0.2)).reference
    torch.testing.assert_close(chosen, torch.tensor([0.1, 0.0, -0.2], dtype=torch.float64))


def wide(energy) -> Target:
    return Target(energy, Box((-9.0, -9.0, -9.0), (9.0, 9.0, 9.0)))


def test_gradients_are_the_lie_derivatives_of_the_paper():
    """Lᵀ ∂E/∂z with the paper's L in quaternion-translation coordinates (eq. langevin_coord)."""
    energy, centred = smooth_energy(), random_poses(12)
    target = wide(energy)
    energies, gradients = target.energies_and_gradients(centred)
    z = poses_to_wxyz_xyz(centred).requires_grad_()
    value = energy(target.poses(poses_from_wxyz_xyz(z)))
    (slope,) = torch.autograd.grad(value.sum(), z)
    lie = lie_derivative_matrix(z.detach()[:, :4])
    torch.testing.assert_close(gradients, (lie.mT @ slope[:, :, None]).squeeze(-1))
    torch.testing.assert_close(energies, value.detach())
    torch.testing.assert_close(energies, target.energies(centred))


def test_gradients_agree_with_finite_differences():
    centred = random_poses(12)
    target = wide(smooth_energy())
    _, gradients = target.energies_and_gradients(centred)
    for axis in range(6):
        tangent = torch.zeros(12, 6, dtype=torch.float64)
        tangent[:, axis] = 1e-6
        rise = target.energies(pose_retract(centred, tangent))
        fall = target.energies(pose_retract(centred, -tangent))
        slope = (rise - fall) / 2e-6
        torch.testing.assert_close(gradients[:, axis], slope, rtol=1e-5, atol=1e-5)


def test_a_langevin_step_is_the_equation_of_the_paper():
    """One step: ξ = -Lᵀ∇E dt + √2 dw, with dt = angle²/2 and distance²/2."""
    energy, poses = smooth_energy(), random_poses(4)
    target = wide(energy)
    kernel = Langevin(steps=1, angle=0.01, distance=0.001, drift_limit=math.inf)
    centred = target.centred(poses)
    found = kernel.advance(target, centred, seeded(3)).centred
    noise = torch.randn(4, 6, generator=seeded(3), dtype=torch.float64)
    time = torch.tensor([0.5e-4] * 3 + [0.5e-6] * 3, dtype=torch.float64)
    _, gradients = target.energies_and_gradients(centred)
    step = -gradients * time + math.sqrt(2.0) * time.sqrt() * noise
    torch.testing.assert_close(found, pose_retract(centred, step))


def grown(box: Box, margin: float) -> Box:
    return Box(
        tuple(value - margin for value in box.lower), tuple(value + margin for value in box.upper)
    )


def test_descent_goes_down_and_stays_inside():
    energy = smooth_energy()
    last = math.inf
    for steps in (1, 10, 50):
        samples = Descent(steps=steps, angle=0.05, distance=0.002).sample(energy, BOX, 20, seeded())
        assert float(samples.energies.mean()) < last
        last = float(samples.energies.mean())
        assert bool(Target(energy, grown(BOX, 1e-9)).inside(centred_of(energy, samples)).all())
    faces = Target(energy, grown(BOX, -1e-9)).inside(centred_of(energy, samples))
    assert not bool(faces.all()), "no pose came to a face: staying inside was not tested"


# --- reports -----------------------------------------------------------------------------------


def test_effective_sample_size_of_independent_and_of_stuck_chains():
    noise = torch.randn(1000, 8, generator=seeded(), dtype=torch.float64)
    assert chain_effective_sample_size(noise) == pytest.approx(4000, rel=0.15)
    slow = torch.zeros_like(noise)
    for step in range(1, len(noise)):  # AR(1) with ρ = 0.9: (1 - ρ)/(1 + ρ) of the draws
        slow[step] = 0.9 * slow[step - 1] + noise[step]
    assert chain_effective_sample_size(slow) == pytest.approx(4000 / 19, rel=0.4)
    stuck = noise + 100.0 * torch.arange(8, dtype=torch.float64)
    assert chain_effective_sample_size(stuck) < 20
    assert chain_effective_sample_size(torch.ones(50, 3)) == 3.0


def test_effective_sample_size_of_weights():
    assert weight_effective_sample_size(torch.full((7,), -900.0)) == pytest.approx(7.0)
    assert weight_effective_sample_size(torch.tensor([0.0, -math.inf])) == pytest.approx(1.0)


def test_coverage_is_the_share_of_modes_with_a_pose_nearby():
    poses = random_poses(3)[[0, 0, 1, 2, 2]]
    known = random_poses(3)
    assert mode_coverage(poses[:3], known, 0.01, 0.001) == pytest.approx(2 / 3)
    assert mode_coverage(poses, known, 0.01, 0.001) == 1.0
    with pytest.raises(OptionError, match="0 known modes"):
        mode_coverage(poses, poses[:0])


def test_independence_chains_leave_weightless_starts_and_keep_heavy_ones():
    weights = torch.tensor([-math.inf, 5.0, 0.0, -math.inf, -math.inf, -math.inf])
    chosen, rate = independence_chains(weights, 2, seeded())
    assert chosen.tolist() == [2, 1]
    assert rate == pytest.approx(0.25)
    assert independence_chains(weights[:2], 2, seeded())[1] is None


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
@pytest.mark.parametrize("count", [0, -3])
def test_count_must_be_positive(sampler, count):
    with pytest.raises(OptionError, match=f"count is {count}: need at least 1"):
        sampler.sample(smooth_energy(), BOX, count, seeded())


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_fields_that_are_not_numbers_are_refused(sampler):
    bad = smooth_energy()
    field = bad.field

    def broken(positions: torch.Tensor) -> torch.Tensor:
        return torch.where(positions[:, :1] > 0.0, math.nan, field(positions))

    with pytest.raises(EnergyError, match=r"not a number|not finite"):
        sampler.sample(replace(bad, field=broken), BOX, 30, seeded())


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_energies_that_are_not_numbers_are_refused(kernel, value):
    def energy(poses: torch.Tensor) -> torch.Tensor:
        return torch.where(poses[:, 0, 3] > 0.0, value, poses[:, 1, 3])

    with pytest.raises(EnergyError, match=f"{value} at the gripper position"):
        kernel.sample(energy, BOX, 30, seeded())


def test_forbidden_poses_have_infinite_energy_and_are_avoided():
    def energy(poses: torch.Tensor) -> torch.Tensor:
        return torch.where(poses[:, 0, 3] > 0.0, math.inf, poses[:, 1, 3])

    samples = MetropolisHastings(steps=400, distance=0.1).sample(energy, BOX, 50, seeded())
    assert float(samples.poses[:, 0, 3].max()) <= 0.0


def test_a_gradient_that_is_not_finite_is_refused():
    def energy(poses: torch.Tensor) -> torch.Tensor:
        return (poses[:, 0, 3] - poses[:, 0, 3]).sqrt()

    with pytest.raises(EnergyError, match="gradient is not finite at 5 of 5 poses"):
        Langevin(steps=1).sample(energy, BOX, 5, seeded())


def test_an_empty_workspace_is_refused():
    with pytest.raises(CloudShapeError, match="lower < upper"):
        Box((0.0, 0.0, 0.0), (0.0, 1.0, 1.0))


def test_chains_that_start_outside_are_refused():
    poses = random_poses(3)
    poses[1, 0, 3] += 5.0
    with pytest.raises(EnergyError, match="1 of 3 chains start outside of the workspace"):
        MetropolisHastings().run(smooth_energy(), poses, seeded(), Box((-1,) * 3, (1,) * 3))
    with pytest.raises(GeometryError, match="T_scene_gripper"):
        MetropolisHastings().run(smooth_energy(), 2.0 * poses, seeded(), BOX)
    with pytest.raises(OptionError, match="T_scene_gripper is 0"):
        MetropolisHastings().run(smooth_energy(), poses[:0], seeded(), BOX)


@pytest.mark.parametrize("sampler", [ExhaustiveSearch(), ExhaustiveSampler()])
def test_lattices_need_a_match_energy(sampler):
    with pytest.raises(OptionError, match="needs a MatchEnergy and got function"):
        sampler.sample(lambda poses: poses[:, 0, 3], BOX, 1, seeded())
    energy = smooth_energy()
    points = replace(energy.queries, weights=torch.zeros(2, dtype=torch.float64))
    with pytest.raises(OptionError, match=r"at least one query point of positive weight"):
        sampler.sample(replace(energy, queries=points), BOX, 1, seeded())


def test_a_joint_lattice_that_does_not_fit_is_refused():
    with pytest.raises(OptionError, match="Use a larger spacing"):
        ExhaustiveSampler(spacing=0.002, rotations=2000).sample(smooth_energy(), BOX, 1, seeded())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MetropolisHastings(steps=0), "steps is 0"),
        (lambda: MetropolisHastings(angle=-1.0), "angle is -1.0"),
        (lambda: Langevin(distance=math.inf), "distance is inf"),
        (lambda: Langevin(drift_limit=0.0), "drift_limit is 0.0"),
        (lambda: Descent(step_limit=math.nan), "step_limit is nan"),
        (lambda: ExhaustiveSampler(correction="resampled"), "Did you mean 'resample'"),
        (lambda: ExhaustiveSampler(proposal="marginal"), "Did you mean 'marginals'"),
        (lambda: ExhaustiveSampler(uniform_share=0.0), "uniform_share is 0.0"),
        (lambda: ExhaustiveSampler(uniform_share=math.nan), "uniform_share is nan"),
        (lambda: ExhaustiveSampler(correction="weights", moves=Descent()), "cannot be moved"),
        (lambda: Target(smooth_energy(), BOX, (0.0, math.nan, 0.0)), "three finite numbers"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(OptionError, match=message):
        make()
