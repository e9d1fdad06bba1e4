"""Muon: orthogonalised momenta, Adam for the rest, and a state that goes on to the bit."""

import math

import pytest
import torch
from torch import nn

from handful.errors import OptionError
from handful.learning import TrainingConfig
from handful.learning._adam import Adam
from handful.learning._muon import SCALE, Muon, orthogonalised

DTYPE = torch.float64
SHAPES = ((6, 5), (3, 4, 8), (5,), (), (2, 9), (6, 5))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=DTYPE)


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(random(*shape, seed=number)) for number, shape in enumerate(SHAPES)]


def loss(values: list[nn.Parameter]) -> torch.Tensor:
    return sum((value.sin().square().sum() + value.pow(4).sum()) for value in values)


def trained(steps: int, values: list[nn.Parameter] | None = None) -> list[nn.Parameter]:
    values = parameters() if values is None else values
    go_on(Muon(values), values, range(steps))
    return values


def go_on(optimizer: Muon | Adam, values: list[nn.Parameter], steps: range) -> None:
    for step in steps:
        optimizer.zero_grad()
        loss(values).backward()
        optimizer.step(0.05 / (1 + step))


@pytest.mark.parametrize("shape", [(7, 12), (12, 7), (8, 8)])
def test_singular_values_become_about_one(shape):
    found = torch.linalg.svdvals(orthogonalised(random(40, *shape)))
    assert float(found.max()) < 1.3
    assert float(found[:, :-2].min()) > 0.6  # the smallest of a square matrix may be near zero


def test_the_singular_vectors_stay():
    """It is a matrix function: the polar factor's vectors, with values near one."""
    matrix = random(1, 6, 9)
    left, values, right = torch.linalg.svd(matrix[0], full_matrices=False)
    between = left.T @ orthogonalised(matrix)[0] @ right.T
    torch.testing.assert_close(between, torch.diag(between.diagonal()), atol=1e-10, rtol=0)
    assert (between.diagonal() > 0).all()
    assert (values > 0).all()


@pytest.mark.parametrize("broken", [False, True])
def test_it_turns_with_its_argument_and_knows_no_scale(broken):
    turn, _ = torch.linalg.qr(random(6, 6, seed=3))
    matrix = random(2, 6, 9)
    function = torch.sign if broken else orthogonalised  # the sign is what Adam is near to
    turned = function(100.0 * turn @ matrix)
    same = torch.allclose(turned, turn @ function(matrix), atol=1e-6)
    assert same is not broken


def test_zero_stays_zero():
    assert orthogonalised(torch.zeros(2, 5, 4, dtype=DTYPE)).abs().max() == 0


def test_what_is_no_matrix_is_left_to_adam():
    ours, theirs = trained(12), parameters()
    alone = [theirs[2], theirs[3], theirs[4]]
    go_on(Adam(alone), alone, range(12))
    for number in (2, 3, 4):
        torch.testing.assert_close(ours[number], theirs[number], rtol=1e-12, atol=1e-12)


def test_a_stack_of_matrices_is_trained_like_each_of_them():
    stack = [nn.Parameter(random(3, 6, 5))]
    alone = [nn.Parameter(part.detach().clone()) for part in stack[0]]
    trained(10, stack)
    trained(10, alone)
    for part, matrix in zip(stack[0], alone, strict=True):
        torch.testing.assert_close(part, matrix, rtol=1e-12, atol=1e-12)


def test_updates_are_as_large_as_those_of_adam():
    """About a fifth of the rate, as root mean square."""
    value = nn.Parameter(torch.zeros(16, 48, dtype=DTYPE))
    muon = Muon([value])
    value.grad = random(16, 48)
    muon.step(0.01)
    size = float(value.detach().square().mean().sqrt())
    assert size == pytest.approx(0.01 * SCALE, rel=0.3)


def test_a_resumed_run_goes_on_to_the_bit():
    whole = trained(20)
    values = parameters()
    half = Muon(values)
    go_on(half, values, range(10))
    resumed = Muon(values)
    resumed.resume({name: tensor.clone() for name, tensor in half.state().items()})
    go_on(resumed, values, range(10, 20))
    assert all(torch.equal(a, b) for a, b in zip(whole, values, strict=True))


def test_the_state_of_adam_is_begun_anew():
    """A run that an older version left half done goes on, with fresh momenta."""
    values = parameters()
    old = Adam(values)
    go_on(old, values, range(3))
    muon = Muon(values)
    muon.resume(old.state())
    go_on(muon, values, range(3, 6))
    assert all(bool(torch.isfinite(value).all()) for value in values)


def test_a_parameter_without_a_gradient_stays():
    values = parameters()
    loss(values[:1]).backward()
    before = [value.detach().clone() for value in values]
    Muon(values).step(0.1)
    assert not torch.equal(values[0], before[0])
    assert all(torch.equal(a, b) for a, b in zip(values[1:], before[1:], strict=True))


def test_it_goes_down_all_directions_of_a_badly_scaled_problem():
    """Least squares whose directions differ by a factor of 100, not along the axes."""
    turn, _ = torch.linalg.qr(random(8, 8, seed=5))
    scales = torch.diag(torch.logspace(0, -2, 8, dtype=DTYPE))
    matrix, goal = turn @ scales @ turn.T, random(8, 8, seed=6)

    def left_over(kind: type[Muon] | type[Adam]) -> float:
        value = nn.Parameter(torch.zeros(8, 8, dtype=DTYPE))
        optimizer = kind([value])
        for step in range(200):
            optimizer.zero_grad()
            (matrix @ (value - goal)).square().sum().backward()
            optimizer.step(0.5 * (1 - step / 200))
        return float((value.detach() - goal).norm())

    assert left_over(Muon) < 0.5 * left_over(Adam)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(OptionError, match="muon"):
        TrainingConfig(optimizer="moun")
    assert math.isclose(TrainingConfig().averaging, 0.97)
