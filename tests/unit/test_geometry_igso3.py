"""IG_SO(3): normalisation, both forms of the density, tails, and the law of the samples."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from handful import geometry as g
from handful.errors import GeometryError
from handful.geometry._igso3 import log_density_by_series, log_density_by_windings

EPSILONS = [1e-8, 1e-4, 0.01, 0.1, 0.5, 0.999, 1.001, 3.0, 50.0]


def reference_log_density(angle: float, epsilon: float) -> float:
    """eq. normalso3 as printed, with enough digits to survive the cancellation in the tails."""
    with mpmath.workdps(40 + int(math.pi**2 / epsilon)):
        omega, eps = mpmath.mpf(angle), mpmath.mpf(epsilon)
        last = int(mpmath.sqrt((120 + 2.5 * math.pi**2 / epsilon) / epsilon)) + 5
        total = mpmath.fsum(
            (2 * n + 1) * mpmath.exp(-eps * n * (n + 1)) * mpmath.sin((2 * n + 1) * omega / 2)
            for n in range(last)
        )
        return float(mpmath.log(total / mpmath.sin(omega / 2)))


def simpson(values: torch.Tensor, width: float) -> float:
    weights = torch.ones_like(values)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return float((weights * values).sum() * width / 3.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_integrates_to_one_against_the_volume_element(epsilon):
    normal = g.IsotropicGaussianSO3(epsilon)
    end = min(math.pi, 15.0 * math.sqrt(epsilon))
    omega = torch.linspace(0.0, end, 20_001, dtype=torch.float64)
    # With f = 1 the volume element (1 - cos ω)/π itself integrates to one over [0, π].
    density = (1.0 - torch.cos(omega)) / math.pi * normal.log_density_of_angle(omega).exp()
    tolerance = 1e-6 if epsilon < 1e-6 else 1e-9  # 1 - cos ω cancels at tiny angles
    assert simpson(density, end / 20_000) == pytest.approx(1.0, abs=tolerance)
    assert simpson(normal.angle_density(omega), end / 20_000) == pytest.approx(1.0, abs=1e-9)
    assert float(normal.angle_cdf(torch.tensor(math.pi, dtype=torch.float64))) == pytest.approx(1.0)


def test_haar_measure_has_the_volume_element_of_the_paper():
    rotation = g.haar_rotations(20_000, generator=torch.Generator().manual_seed(0))
    angles = g.rotation_angle(rotation).double().numpy()
    assert stats.kstest(angles, lambda w: (w - np.sin(w)) / math.pi).pvalue > 1e-3


@pytest.mark.parametrize("epsilon", [0.5, 0.7, 0.9, 1.0, 1.1, 1.5, 2.0])
def test_both_forms_agree_around_the_seam(epsilon):
    omega = torch.linspace(0.0, math.pi, 2001, dtype=torch.float64)
    series = log_density_by_series(omega, epsilon)
    windings = log_density_by_windings(omega, epsilon)
    torch.testing.assert_close(series, windings, atol=1e-12, rtol=0.0)


def test_density_is_continuous_across_the_seam():
    omega = torch.linspace(0.0, math.pi, 101, dtype=torch.float64)
    below, above = (g.IsotropicGaussianSO3(e).log_density_of_angle(omega) for e in (1.0, 1 + 1e-9))
    torch.testing.assert_close(below, above, atol=1e-8, rtol=0.0)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("angle", [1e-6, 0.1, 1.0, 2.5, 3.0, 3.14])
def test_equals_the_paper_series_in_high_precision(epsilon, angle):
    ours = g.IsotropicGaussianSO3(epsilon).log_density_of_angle(
        torch.tensor(angle, dtype=torch.float64)
    )
    expected = reference_log_density(angle, epsilon)
    assert float(ours) == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-5, 1e-3])
def test_tails_are_finite_and_fall(epsilon, dtype):
    omega = torch.linspace(0.0, math.pi, 1001, dtype=dtype)
    log_density = g.IsotropicGaussianSO3(epsilon).log_density_of_angle(omega)
    assert log_density.dtype == dtype
    assert bool(torch.isfinite(log_density).all())
    assert bool((log_density.diff() < 0).all())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_cdf_has_the_density_as_derivative_and_the_series_as_value(epsilon):
    normal = g.IsotropicGaussianSO3(epsilon)
    end = min(math.pi, 8.0 * math.sqrt(epsilon))
    omega = torch.linspace(0.0, end, 50, dtype=torch.float64)[1:-1].requires_grad_()
    cdf = normal.angle_cdf(omega)
    (slope,) = torch.autograd.grad(cdf.sum(), omega)
    torch.testing.assert_close(slope, normal.angle_density(omega).detach(), rtol=1e-9, atol=1e-12)
    if epsilon >= 0.01:
        degree = torch.arange(1, 80, dtype=torch.float64)[:, None]
        term = torch.sin(degree * omega) / degree
        next_term = torch.sin((degree + 1) * omega) / (degree + 1)
        weight = (2 * degree + 1) * torch.exp(-epsilon * degree * (degree + 1))
        series = (omega - torch.sin(omega) + (weight * (term - next_term)).sum(0)) / math.pi
        torch.testing.assert_close(cdf, series, atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_samples_follow_the_distribution(epsilon):
    normal = g.IsotropicGaussianSO3(epsilon)
    generator = torch.Generator().manual_seed(11)
    rotation = normal.sample(20_000, generator=generator, dtype=torch.float64)
    g.check_rotation(rotation, tolerance=1e-12)
    angle = g.rotation_angle(rotation)
    cdf = normal.angle_cdf(angle).numpy()
    assert stats.kstest(cdf, "uniform").pvalue > 1e-3
    axis = g.rotation_log(rotation) / angle[:, None]
    for component in axis.T.numpy():  # by Archimedes, uniform on [-1, 1]
        assert stats.kstest(component, "uniform", args=(-1, 2)).pvalue > 1e-3


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_table_inverts_the_distribution_function(epsilon):
    normal = g.IsotropicGaussianSO3(epsilon)
    generator = torch.Generator().manual_seed(12)
    angle = normal.sample_angles(5000, generator=generator, dtype=torch.float64)
    uniform = torch.rand(5000, generator=generator.manual_seed(12), dtype=torch.float64)
    torch.testing.assert_close(normal.angle_cdf(angle), uniform, atol=1e-8, rtol=0.0)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-4, 1e-2])
def test_small_epsilon_is_half_the_variance_of_each_component(epsilon):
    normal = g.IsotropicGaussianSO3(epsilon)
    rotation = normal.sample(
        100_000, generator=torch.Generator().manual_seed(13), dtype=torch.float64
    )
    variance = g.rotation_log(rotation).square().mean(0)
    torch.testing.assert_close(
        variance / normal.axis_std**2, torch.ones(3, dtype=torch.float64), atol=0.03, rtol=0.0
    )


def test_large_epsilon_is_uniform():
    omega = torch.linspace(0.0, math.pi, 11, dtype=torch.float64)
    log_density = g.IsotropicGaussianSO3(50.0).log_density_of_angle(omega)
    torch.testing.assert_close(log_density, torch.zeros_like(omega), atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 2.0])
def test_proposal_is_symmetric_and_invariant(epsilon):
    normal = g.IsotropicGaussianSO3(epsilon)
    generator = torch.Generator().manual_seed(14)
    old, new, h = (g.haar_rotations(100, generator=generator, dtype=torch.float64) for _ in "abc")
    forward = normal.log_density(new, old)
    close = {"atol": 1e-9, "rtol": 1e-9}
    torch.testing.assert_close(forward, normal.log_density(old, new), **close)
    torch.testing.assert_close(forward, normal.log_density(h @ new, h @ old), **close)
    torch.testing.assert_close(forward, normal.log_density(new @ h, old @ h), **close)
    torch.testing.assert_close(forward.exp(), normal.density(new, old))


def test_density_averages_to_one_over_uniform_rotations():
    rotation = g.haar_rotations(200_000, generator=torch.Generator().manual_seed(15))
    assert float(g.IsotropicGaussianSO3(0.2).density(rotation).mean()) == pytest.approx(1, abs=0.03)


def test_steps_add_their_epsilons():
    # The heat kernel is a semigroup: IG(a) * IG(b) = IG(a + b).
    generator = torch.Generator().manual_seed(16)
    first = g.IsotropicGaussianSO3(0.1).sample(20_000, generator=generator, dtype=torch.float64)
    both = g.IsotropicGaussianSO3(0.3).sample(
        20_000, mean=first, generator=generator, dtype=torch.float64
    )
    cdf = g.IsotropicGaussianSO3(0.4).angle_cdf(g.rotation_angle(both)).numpy()
    assert stats.kstest(cdf, "uniform").pvalue > 1e-3
    # The same check fails for another epsilon, so it does check something.
    wrong = g.IsotropicGaussianSO3(0.5).angle_cdf(g.rotation_angle(both)).numpy()
    assert stats.kstest(wrong, "uniform").pvalue < 1e-3


def test_same_seed_same_samples(dtype):
    normal = g.IsotropicGaussianSO3(0.01)
    mean = g.haar_rotations(4, generator=torch.Generator().manual_seed(1), dtype=dtype)
    draws = [
        normal.sample(3, 4, mean=mean, generator=torch.Generator().manual_seed(17), dtype=dtype)
        for _ in range(2)
    ]
    assert draws[0].shape == (3, 4, 3, 3)
    assert draws[0].dtype == dtype
    assert torch.equal(*draws)


@pytest.mark.parametrize("epsilon", [1e-4, 0.3, 2.0])
def test_log_density_gradient(epsilon):
    normal = g.IsotropicGaussianSO3(epsilon)
    rotvec = torch.tensor([[0.3, -0.2, 0.1], [1.5, 1.0, -2.0]], dtype=torch.float64)
    rotvec.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: normal.log_density(g.rotation_exp(v)), (rotvec,), rtol=1e-4
    )
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(normal.log_density(g.rotation_exp(zero)), zero)
    assert torch.equal(gradient, torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_impossible_epsilon_is_named(epsilon):
    with pytest.raises(GeometryError, match=f"is {epsilon}: need a finite number"):
        g.IsotropicGaussianSO3(epsilon)
