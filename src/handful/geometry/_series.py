"""Functions of a squared angle that are 0/0 at zero, with exact values and gradients there.

Each takes t = θ² so that no square root is ever differentiated at zero. Below t = 1 a power
series is summed; above it the closed form is used. Both branches always see a harmless argument
(the other branch's points are replaced before, not after), so no gradient is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

_TERMS = 10
_SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(_TERMS)]
_SINC_DEFECT = [(-1) ** k / math.factorial(2 * k + 3) for k in range(_TERMS)]
_ARCTAN = [(-1) ** k / (2 * k + 1) for k in range(_TERMS)]
# |B_2n| / (2n)! = 2 ζ(2n) / (2π)^2n, with B the Bernoulli numbers; for small n ζ
# converges too slowly to be summed.
_COT_DEFECT = [1.0 / 12.0, 1.0 / 720.0, 1.0 / 30240.0] + [
    2.0 * sum(j ** (-2.0 * n) for j in range(1, 200)) / (2.0 * math.pi) ** (2 * n)
    for n in range(4, _TERMS + 4)
]


def sinc_of_square(t: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """The ratio sin θ / θ for t = θ²."""
    return _joined(t, _SINC, lambda theta: torch.sin(theta) / theta)


def versine_of_square(t: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """(1 - cos θ) / θ² for t = θ², without cancellation: half the square of sinc(θ/2)."""
    return 0.5 * sinc_of_square(0.25 * t).square()


def sinc_defect_of_square(t: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """(θ - sin θ) / θ³ for t = θ²."""
    return _joined(t, _SINC_DEFECT, lambda theta: (theta - torch.sin(theta)) / theta**3)


def cot_defect_of_square(t: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """(1 - (θ/2) cot(θ/2)) / θ² for t = θ², 0 <= θ < 2π."""

    def closed(theta: Tensor) -> Tensor:
        half = 0.5 * theta
        return (1.0 - half * torch.cos(half) / torch.sin(half)) / theta.square()

    return _joined(t, _COT_DEFECT, closed)


def arc_over_chord(
    sine_squared: Float[Tensor, "*batch"], cosine: Float[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    """atan2(n, w) / n for n² = `sine_squared` and w = `cosine` with n² + w² = 1 and w >= 0."""
    small = sine_squared < 0.02
    safe_cosine = torch.where(small, cosine, torch.ones_like(cosine))
    x = torch.where(small, sine_squared, torch.zeros_like(sine_squared)) / safe_cosine.square()
    n = torch.where(small, torch.ones_like(sine_squared), sine_squared).sqrt()
    return torch.where(small, horner(_ARCTAN, x) / safe_cosine, torch.atan2(n, cosine) / n)


def horner(coefficients: Sequence[float], x: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """Σ_k coefficients[k] x^k."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def _joined(t: Tensor, series: Sequence[float], closed: Callable[[Tensor], Tensor]) -> Tensor:
    small = t < 1.0
    near = horner(series, torch.where(small, t, torch.zeros_like(t)))
    far = closed(torch.where(small, torch.ones_like(t), t).sqrt())
    return torch.where(small, near, far)
