"""Every sampler draws from the distribution it claims, tested where that is known exactly.

The law of the targets is that of `fisher.py`. Seeds are fixed, and the p-values with them.

About 250 p-values are looked at, and the smallest of a faultless suite is around 1/250: the bar is
at 1e-4. Broken samplers must fall below 1e-9. Resampled draws are a sample of a sample: they are
compared in numbers far below the effective sample size, where that does not show.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.interpolate import RegularGridInterpolator

from fisher import (
    BOX,
    KAPPA,
    SIGMA,
    FisherEnergy,
    energy_offset,
    log_partition,
    match_energy,
    mean_query,
)
from handful.geometry import (
    haar_rotations,
    pose_apply,
    pose_from_rotation_translation,
    rotation_angle,
    rotation_log,
)
from handful.models import MatchEnergy
from handful.sampling import (
    ExhaustiveSampler,
    Kernel,
    Langevin,
    MetropolisHastings,
    PoseSamples,
)
from handful.sampling.lattice import _exhaustive_sampler as exhaustive_module

PASS = 1e-4
RESAMPLED = 500


def angle_cdf(angle: np.ndarray) -> np.ndarray:
    grid = np.linspace(0.0, math.pi, 20_001)
    density = np.exp(2.0 * KAPPA * np.cos(grid)) * (1.0 - np.cos(grid))
    table = integrate.cumulative_simpson(density, x=grid, initial=0.0)
    return np.interp(angle, grid, table / table[-1])


def p_values(poses: torch.Tensor, reference: torch.Tensor | None = None) -> dict[str, float]:
    """Kolmogorov-Smirnov for each coordinate, the angle and the axis; chi-square for joint bins."""
    reference = torch.zeros(3, dtype=torch.float64) if reference is None else reference
    where = pose_apply(poses, reference[None])[:, 0].numpy()
    angle = rotation_angle(poses[:, :3, :3])
    axis = (rotation_log(poses[:, :3, :3]) / angle[:, None]).numpy()
    uniform = []
    found = {}
    for index, name in enumerate("xyz"):
        law = stats.truncnorm(BOX.lower[index] / SIGMA, BOX.upper[index] / SIGMA, scale=SIGMA)
        found[name] = stats.kstest(where[:, index], law.cdf).pvalue
        found[f"axis {name}"] = stats.kstest(axis[:, index], "uniform", args=(-1, 2)).pvalue
        uniform.append(law.cdf(where[:, index]))
    turn = angle_cdf(angle.numpy())
    found["angle"] = stats.kstest(turn, "uniform").pvalue
    bins, _ = np.histogramdd(np.stack([*uniform, turn], axis=1), bins=3, range=[(0, 1)] * 4)
    found["joint bins"] = stats.chisquare(bins.flatten()).pvalue
    return found


def assert_right_law(samples: PoseSamples, reference: torch.Tensor | None = None) -> None:
    found = p_values(samples.poses, reference)
    print({name: f"{value:.3g}" for name, value in found.items()})
    assert min(found.values()) > PASS, found


def assert_wrong_law(samples: PoseSamples, reference: torch.Tensor | None = None) -> None:
    assert min(p_values(samples.poses, reference).values()) < 1e-9


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


KERNELS = {
    "metropolis": MetropolisHastings(steps=250, angle=0.9, distance=0.025),
    "metropolis, two scales of step": MetropolisHastings(steps=250, angle=1.5, distance=0.015),
    "mala": Langevin(steps=120, angle=0.7, distance=0.012, metropolis_adjusted=True),
    # Steps of more than half a turn: the exponential map is many-to-one there.
    "mala, long steps": Langevin(steps=200, angle=2.0, distance=0.012, metropolis_adjusted=True),
    "mala, drift cut short": Langevin(
        steps=120, angle=0.7, distance=0.012, metropolis_adjusted=True, drift_limit=0.2
    ),
    "langevin, short steps": Langevin(steps=400, angle=0.12, distance=0.0035),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_kernels_draw_from_the_target(kernel):
    samples = kernel.sample(FisherEnergy(), BOX, 1000, seeded(1))
    assert_right_law(samples)
    assert 0.0 < samples.report.acceptance_rate <= 1.0
    assert samples.report.effective_sample_size > 1000


@pytest.mark.parametrize("name", ["metropolis", "mala"])
def test_kernels_keep_the_target_once_there(name):
    """Stationarity by itself, from exact draws and few steps."""
    exact = exact_poses(4000, seeded(2))
    kernel = replace(KERNELS[name], steps=5)
    assert_right_law(kernel.run(FisherEnergy(), exact, seeded(3), BOX))


def exact_poses(count: int, generator: torch.Generator) -> torch.Tensor:
    """By rejection from the uniform distribution."""
    rotation = haar_rotations(20 * count, generator=generator, dtype=torch.float64)
    lower = torch.tensor(BOX.lower, dtype=torch.float64)
    upper = torch.tensor(BOX.upper, dtype=torch.float64)
    place = torch.rand(60 * count, 3, generator=generator, dtype=torch.float64)
    where = lower + (upper - lower) * place
    turn = KAPPA * (rotation.diagonal(dim1=1, dim2=2).sum(-1) - 3.0)
    kept = rotation[turn.exp() > torch.rand(len(turn), generator=generator)]
    bowl = -0.5 * where.square().sum(-1) / SIGMA**2
    near = where[bowl.exp() > torch.rand(len(bowl), generator=generator)]
    return pose_from_rotation_translation(kept[:count], near[:count])


def test_the_checks_accept_exact_draws():
    assert min(p_values(exact_poses(4000, seeded(4))).values()) > PASS


class WrongSign(MetropolisHastings):
    @staticmethod
    def acceptance(energies, proposed):
        return (proposed - energies).exp().nan_to_num(0.0, posinf=0.0)


class AlwaysAccepts(MetropolisHastings):
    @staticmethod
    def acceptance(energies, proposed):
        return torch.where(proposed < math.inf, torch.ones_like(proposed), 0.0)


class TooCold(MetropolisHastings):
    @staticmethod
    def acceptance(energies, proposed):
        return (1.3 * (energies - proposed)).exp()


@pytest.mark.parametrize("broken", [WrongSign, AlwaysAccepts, TooCold])
def test_a_broken_metropolis_fails_the_same_check(broken):
    kernel: Kernel = broken(steps=250, angle=0.9, distance=0.025)
    assert_wrong_law(kernel.sample(FisherEnergy(), BOX, 1500, seeded(1)))


def test_unadjusted_long_steps_fail_the_same_check():
    """The bias of order dt; without the proposal's densities MALA would have it too."""
    kernel = Langevin(steps=120, angle=1.2, distance=0.025)
    assert_wrong_law(kernel.sample(FisherEnergy(), BOX, 1500, seeded(1)))


SAMPLERS = {
    "resampled": ExhaustiveSampler(spacing=0.01, rotations=300, draws=30_000),
    "marginals": ExhaustiveSampler(
        spacing=0.01, rotations=300, draws=30_000, proposal="marginals"
    ),
    "independence": ExhaustiveSampler(
        spacing=0.01, rotations=300, draws=30_000, correction="independence"
    ),
    "moved": ExhaustiveSampler(
        spacing=0.015, rotations=200, draws=10_000,
        moves=Langevin(steps=20, angle=0.7, distance=0.012, metropolis_adjusted=True),
    ),
    "tempered": ExhaustiveSampler(spacing=0.012, rotations=200, draws=30_000, tempering=1.5),
}  # fmt: skip


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_exhaustive_sampler_draws_from_the_target(sampler, queries):
    energy = match_energy(queries, 0.7)
    samples = sampler.sample(energy, BOX, RESAMPLED, seeded(5))
    assert_right_law(samples, mean_query(energy))
    assert samples.report.effective_sample_size > 8 * RESAMPLED


@pytest.mark.parametrize("queries", [1, 3])
def test_exhaustive_sampler_without_its_density_fails_the_same_check(monkeypatch, queries):
    def constant(self, centred):
        return torch.zeros(len(centred), dtype=centred.dtype)

    monkeypatch.setattr(exhaustive_module.LatticeProposal, "log_density", constant)
    energy = match_energy(queries, 0.7)
    samples = SAMPLERS["resampled"].sample(energy, BOX, 1500, seeded(5))
    assert_wrong_law(samples, mean_query(energy))


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("proposal", ["joint", "marginals"])
def test_importance_weights_estimate_the_partition_function(queries, proposal):
    energy = match_energy(queries, 0.7)
    sampler = replace(SAMPLERS["resampled"], proposal=proposal, correction="weights")
    samples = sampler.sample(energy, BOX, 1, seeded(6))
    exact = log_partition() - energy_offset(energy)
    assert samples.report.log_partition == pytest.approx(exact, abs=0.02)
    weights = samples.log_weights.exp()
    assert float(weights.sum()) == pytest.approx(1.0)
    where = pose_apply(samples.poses, mean_query(energy)[None])[:, 0]
    for index in range(3):
        a, b = BOX.lower[index] / SIGMA, BOX.upper[index] / SIGMA
        mean = float((weights * where[:, index]).sum())
        assert mean == pytest.approx(stats.truncnorm.mean(a, b, scale=SIGMA), abs=0.02 * SIGMA)


# --- position and rotation depend on each other ------------------------------------------------


def coupled_energy(queries: int) -> MatchEnergy:
    """As `match_energy`, with vectors that grow along z: the higher, the sharper the rotation."""
    plain = match_energy(queries)

    def field(positions: torch.Tensor) -> torch.Tensor:
        scalars, vectors = plain.field(positions).split([3, 9], dim=-1)
        return torch.cat([scalars, vectors * (1.0 + 0.5 * positions[:, 2:] / SIGMA)], dim=-1)

    return replace(plain, field=field)


def coupled_p_values(poses: torch.Tensor, reference: torch.Tensor) -> tuple[float, float]:
    """For one query point: z by its marginal, and the angle by its law given z.

    E = |x|²/2σ² + 3a² + 3b² - 2ab tr R with b² = κ/2 and a = b (1 + z/2σ).
    """
    z = np.linspace(BOX.lower[2], BOX.upper[2], 801)
    angle = np.linspace(0.0, math.pi, 801)
    grown = 1.0 + 0.5 * z / SIGMA
    log_joint = (
        -0.5 * (z / SIGMA)[:, None] ** 2
        - 1.5 * KAPPA * grown[:, None] ** 2
        + KAPPA * grown[:, None] * (1.0 + 2.0 * np.cos(angle))
    )
    table = np.exp(log_joint) * (1.0 - np.cos(angle))
    along = integrate.cumulative_simpson(table, x=angle, initial=0.0, axis=1)
    below = integrate.cumulative_simpson(along[:, -1], x=z, initial=0.0)
    found_z = pose_apply(poses, reference[None])[:, 0, 2].numpy()
    found_angle = rotation_angle(poses[:, :3, :3]).numpy()
    given = RegularGridInterpolator((z, angle), along / along[:, -1:])
    turn = given(np.stack([found_z.clip(z[0], z[-1]), found_angle], axis=1))
    return (
        stats.kstest(np.interp(found_z, z, below / below[-1]), "uniform").pvalue,
        stats.kstest(turn, "uniform").pvalue,
    )


COUPLED = {name: KERNELS[name] for name in ("metropolis", "mala")} | {
    "resampled": SAMPLERS["resampled"]
}


@pytest.mark.parametrize("sampler", COUPLED.values(), ids=COUPLED.keys())
def test_samplers_follow_a_coupled_law(sampler):
    energy = coupled_energy(1)
    samples = sampler.sample(energy, BOX, 2 * RESAMPLED, seeded(9))
    assert min(coupled_p_values(samples.poses, mean_query(energy))) > PASS
    plain = sampler.sample(match_energy(1), BOX, 2 * RESAMPLED, seeded(9))
    assert min(coupled_p_values(plain.poses, mean_query(energy))) < 1e-9


@pytest.mark.parametrize("proposal", ["joint", "marginals"])
def test_exhaustive_sampler_agrees_with_metropolis_for_several_queries(proposal):
    """No normaliser is known here; two samplers that share nothing must agree."""
    energy = coupled_energy(3)
    sampler = replace(SAMPLERS["resampled"], proposal=proposal)
    ours = sampler.sample(energy, BOX, RESAMPLED, seeded(10))
    theirs = KERNELS["metropolis"].sample(energy, BOX, 1000, seeded(11))
    for read in (
        lambda found: found.energies,
        lambda found: pose_apply(found.poses, mean_query(energy)[None])[:, 0, 2],
        lambda found: rotation_angle(found.poses[:, :3, :3]),
    ):
        assert stats.ks_2samp(read(ours).numpy(), read(theirs).numpy()).pvalue > PASS
