"""Adam: the updates of PyTorch's, and a state that goes on to the bit."""

import pytest
import torch
from torch import nn

from handful.learning._adam import Adam


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((3, 2), (4,), ())
    return [nn.Parameter(torch.randn(s, generator=generator, dtype=torch.float64)) for s in shapes]


def loss(values: list[nn.Parameter]) -> torch.Tensor:
    return sum((value.sin().square().sum() + value.pow(4).sum()) for value in values)


def trained(steps: int, rate: float = 0.05) -> tuple[list[nn.Parameter], Adam]:
    values = parameters()
    adam = Adam(values)
    for step in range(steps):
        adam.zero_grad()
        loss(values).backward()
        adam.step(rate / (1 + step))
    return values, adam


def test_the_updates_are_those_of_pytorch():
    theirs = parameters()
    optimizer = torch.optim.Adam(theirs, lr=1.0)
    for step in range(20):
        optimizer.param_groups[0]["lr"] = 0.05 / (1 + step)
        optimizer.zero_grad()
        loss(theirs).backward()
        optimizer.step()
    ours, _ = trained(20)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_a_resumed_run_goes_on_to_the_bit():
    whole, _ = trained(20)
    values, half = trained(10)
    resumed = Adam(values)
    resumed.resume({name: tensor.clone() for name, tensor in half.state().items()})
    for step in range(10, 20):
        resumed.zero_grad()
        loss(values).backward()
        resumed.step(0.05 / (1 + step))
    assert all(torch.equal(a, b) for a, b in zip(whole, values, strict=True))


def test_the_state_of_pytorch_is_read():
    """Runs that an older version began have its optimiser's state."""
    theirs = parameters()
    optimizer = torch.optim.Adam(theirs, lr=0.05)
    loss(theirs).backward()
    optimizer.step()
    state = {
        f"{index}.{name}": torch.as_tensor(value)
        for index, value_of in enumerate(theirs)
        for name, value in optimizer.state[value_of].items()
    }
    ours = [nn.Parameter(value.detach().clone()) for value in theirs]
    adam = Adam(ours)
    adam.resume(state)
    for values, step in ((theirs, optimizer.step), (ours, lambda: adam.step(0.05))):
        for value in values:
            value.grad = None
        loss(values).backward()
        step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("some", [True, False])
def test_a_parameter_without_a_gradient_stays(some):
    values = parameters()
    adam = Adam(values)
    if some:
        loss(values[:1]).backward()
    before = [value.detach().clone() for value in values]
    adam.step(0.1)
    assert torch.equal(values[0], before[0]) is not some
    assert all(torch.equal(a, b) for a, b in zip(values[1:], before[1:], strict=True))
