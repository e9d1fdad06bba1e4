"""The isotropic normal distribution IG_SO(3) on rotations (eq. normalso3).

The density at angle ω from the mean, with respect to the Haar measure dR (of total mass one), is

    f_ε(ω) = Σ_{l>=0} (2l+1) exp(-ε l(l+1)) sin((2l+1)ω/2) / sin(ω/2),

the heat kernel of SO(3) at time ε. The series needs more and more terms as ε → 0 and loses all
digits to cancellation in the tails. Poisson summation over the half-integers l + 1/2 turns it into
a sum over the windings m of the geodesic around the group, exact for every ε:

    f_ε(ω) = sqrt(π)/2 · ε^(-3/2) · exp(ε/4) / sin(ω/2) · Σ_m (-1)^m (ω - 2πm) exp(-(ω - 2πm)²/4ε).

Its m = 0 term is the small-variance limit; for ε <= 1 all but |m| <= 3 are below rounding. Taking
exp(-ω²/4ε) out of the sum leaves a factor between 1 and 2, so logarithms are exact far into the
tails.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import GeometryError

from ._rotations import geodesic_distance, quat_to_rotation, rotation_angle
from ._series import sinc_of_square

_SEAM = 1.0  # Windings up to here, series above: both reach full precision around it.
_WINDINGS = 3
_SERIES_TERMS = 10
_REACH = 13.0  # In units of sqrt(ε): beyond it lies less than 1e-17 of the mass.
_CELLS = 4096


class IsotropicGaussianSO3:
    """Normal distribution on SO(3) around a mean rotation, the same in all directions.

    For small ε each component of the rotation vector from the mean is normal with variance 2ε
    (`axis_std` is its square root), because exp(-ε l(l+1)) is the heat kernel at time ε and heat
    spreads with variance 2ε per axis. For large ε it is the uniform distribution.

    The density depends on the relative angle alone, so as a Metropolis-Hastings proposal it is
    symmetric: Q(R'|R) = Q(R|R').

    Args:
        epsilon: ε of eq. normalso3, in rad²; positive.
    """

    def __init__(self, epsilon: float) -> None:
        if not (math.isfinite(epsilon) and epsilon >= 1e-14):
            raise GeometryError(
                f"epsilon of IG_SO(3) is {epsilon}: need a finite number of at least 1e-14 rad². "
                "It is half the variance of each rotation vector component."
            )
        self.epsilon = float(epsilon)
        self._reach = min(math.pi, _REACH * math.sqrt(self.epsilon))
        nodes, weights = np.polynomial.legendre.leggauss(64)
        self._nodes = torch.from_numpy(0.5 * (nodes + 1.0))
        self._weights = torch.from_numpy(0.5 * weights)
        self._edges, self._edge_density, self._edge_cdf = self._table()

    def __repr__(self) -> str:
        return f"IsotropicGaussianSO3(epsilon={self.epsilon!r})"

    @property
    def axis_std(self) -> float:
        """sqrt(2ε): standard deviation in radians of each rotation vector component, small ε."""
        return math.sqrt(2.0 * self.epsilon)

    def log_density(
        self,
        rotation: Float[Tensor, "*#batch 3 3"],
        mean: Float[Tensor, "*#batch 3 3"] | None = None,
    ) -> Float[Tensor, "..."]:
        """Log-density log f_ε(ω) at rotations, with respect to the Haar measure of total mass one.

        Args:
            rotation: Where to evaluate [..., 3, 3].
            mean: Centre of the distribution [..., 3, 3]; the identity if left out.
        """
        if mean is None:
            return self.log_density_of_angle(rotation_angle(rotation))
        return self.log_density_of_angle(geodesic_distance(mean, rotation))

    def density(
        self,
        rotation: Float[Tensor, "*#batch 3 3"],
        mean: Float[Tensor, "*#batch 3 3"] | None = None,
    ) -> Float[Tensor, "..."]:
        """f_ε(ω) at rotations (see `log_density`); its mean over uniform rotations is one."""
        return self.log_density(rotation, mean).exp()

    def log_density_of_angle(self, angle: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """Log-density log f_ε(ω) for angles in [0, π], computed in float64 whatever their type."""
        omega = angle.double()
        form = log_density_by_windings if self.epsilon <= _SEAM else log_density_by_series
        return form(omega, self.epsilon).to(angle.dtype)

    def angle_density(self, angle: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """Density of the angle on [0, π]: (1 - cos ω)/π · f_ε(ω), which integrates to one."""
        omega = angle.double()
        # The volume element is 2 sin²(ω/2) / π, written without cancellation at small angles.
        volume = (2.0 / math.pi) * (0.5 * omega).sin().square()
        return (volume * self.log_density_of_angle(omega).exp()).to(angle.dtype)

    def angle_cdf(self, angle: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """Probability of an angle of at most ω, for ω in [0, π].

        Gauss-Legendre quadrature of `angle_density` from 0 to ω, exact to rounding.
        """
        end = angle.double().clamp(0.0, self._reach)[..., None]
        nodes, weights = self._nodes.to(angle.device), self._weights.to(angle.device)
        return (end * self.angle_density(end * nodes) * weights).sum(-1).to(angle.dtype)

    def sample_angles(
        self,
        *shape: int,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "*shape"]:
        """Angles in [0, π] drawn by inverting their distribution function.

        The function is tabulated over 4096 cells that scale with sqrt(ε); inside a cell the density
        is taken as linear, which is wrong by less than 1e-8 in probability.

        Args:
            *shape: Batch shape.
            generator: Source of randomness; its device must be `device`.
            dtype: Type of the result.
            device: Where to draw; by default where the generator is.
        """
        if device is None and generator is not None:
            device = generator.device
        uniform = torch.rand(*shape, generator=generator, dtype=torch.float64, device=device)
        cdf, density = self._edge_cdf.to(uniform.device), self._edge_density.to(uniform.device)
        cell = torch.searchsorted(cdf, uniform, right=True).sub_(1).clamp_(0, _CELLS - 1)
        width = self._reach / _CELLS
        # Solve p0 s + (p1 - p0) s²/2 = remaining / width for the place s in the cell.
        start, end = density[cell], density[cell + 1]
        remaining = (uniform - cdf[cell]) / width
        root = (start.square() + 2.0 * (end - start) * remaining).clamp_min_(0.0).sqrt_()
        place = 2.0 * remaining / (start + root).clamp_min_(torch.finfo(torch.float64).tiny)
        return (width * (cell + place.clamp_(0.0, 1.0))).to(dtype)

    def sample(
        self,
        *shape: int,
        mean: Float[Tensor, "*#mean 3 3"] | None = None,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "... 3 3"]:
        """Rotations drawn from the distribution: a uniform axis and an angle.

        Args:
            *shape: Batch shape of the draw.
            mean: Centre [..., 3, 3] that broadcasts with the batch; the identity if left out.
            generator: Source of randomness; its device must be `device`.
            dtype: Type of the result.
            device: Where to draw; by default where the generator is.
        """
        angle = self.sample_angles(*shape, generator=generator, dtype=torch.float64, device=device)
        axis = torch.randn(*shape, 3, generator=generator, dtype=torch.float64, device=angle.device)
        length = axis.square().sum(-1).sqrt()
        half = 0.5 * angle
        imaginary = axis * (half.sin() / length)[..., None]
        noise = quat_to_rotation(torch.cat([half.cos()[..., None], imaginary], dim=-1))
        if mean is not None:
            noise = mean.to(noise.dtype) @ noise
        return noise.to(dtype)

    def _table(self) -> tuple[Tensor, Tensor, Tensor]:
        """Edges of the cells, and density and distribution function of the angle there."""
        edges = torch.linspace(0.0, self._reach, _CELLS + 1, dtype=torch.float64)
        nodes, weights = np.polynomial.legendre.leggauss(4)
        width = self._reach / _CELLS
        inside = edges[:-1, None] + 0.5 * width * (torch.from_numpy(nodes) + 1.0)
        mass = 0.5 * width * (self.angle_density(inside) * torch.from_numpy(weights)).sum(-1)
        cdf = torch.cat([torch.zeros(1, dtype=torch.float64), mass.cumsum(0)])
        return edges, self.angle_density(edges), cdf / cdf[-1]


def log_density_by_series(
    angle: Float[Tensor, "*batch"], epsilon: float
) -> Float[Tensor, "*batch"]:
    """Log-density log f_ε(ω) by eq. normalso3 itself; accurate for ε of about 0.5 and more."""
    # sin((2l+1)ω/2) / sin(ω/2) = 1 + 2 Σ_{k<=l} cos kω has no singular point.
    character = torch.ones_like(angle)
    total = torch.ones_like(angle)
    for degree in range(1, _SERIES_TERMS):
        character = character + 2.0 * torch.cos(degree * angle)
        total = total + (2 * degree + 1) * math.exp(-epsilon * degree * (degree + 1)) * character
    return total.log()


def log_density_by_windings(
    angle: Float[Tensor, "*batch"], epsilon: float
) -> Float[Tensor, "*batch"]:
    """Log-density log f_ε(ω) by the dual sum over windings; accurate for ε of about 2 and less.

    Terms ±m together, over ω exp(-ω²/4ε), are
    (-1)^m exp(-π²m²/ε) (2 cosh a - (4π²m²/ε) sinh(a)/a) with a = πmω/ε.
    """
    correction = torch.zeros_like(angle)
    for winding in range(1, _WINDINGS + 1):
        rate = math.pi * winding / epsilon
        decaying = torch.exp(-rate * (math.pi * winding - angle))
        double = 2.0 * rate * angle
        # exp(-π²m²/ε) times 2 cosh a and sinh(a)/a, without overflow.
        cosh = decaying * (1.0 + torch.exp(-double))
        sinhc = decaying * _one_minus_exp_over(double)
        sign = -1.0 if winding % 2 else 1.0
        correction = correction + sign * (cosh - 4.0 * math.pi * winding * rate * sinhc)
    constant = 0.25 * epsilon + 0.5 * math.log(math.pi) - 1.5 * math.log(epsilon)
    # ω / sin(ω/2) = 2 / sinc(ω/2); the 2 cancels the 1/2 of the prefactor.
    shape = -angle.square() / (4.0 * epsilon) - sinc_of_square(0.25 * angle.square()).log()
    return constant + shape + torch.log1p(correction)


def _one_minus_exp_over(x: Tensor) -> Tensor:
    """(1 - exp(-x)) / x, which is 1 at zero."""
    small = x < 1e-5
    near = 1.0 - 0.5 * x + x.square() / 6.0
    safe = torch.where(small, torch.ones_like(x), x)
    return torch.where(small, near, -torch.expm1(-safe) / safe)
