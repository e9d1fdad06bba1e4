"""The residual network of Transporter Networks: 43 layers, no batch normalisation."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

DOWN = (64, 128, 256, 512)
"""Channels of the stages on the way down; each but the first halves the image."""
UP = (256, 128, 64)
"""Channels of the stages on the way up; the image is doubled after each."""
LAST = 16
"""Inner channels of the last stage."""


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut.

    Args:
        incoming: Channels that come in.
        inner: Channels inside.
        outgoing: Channels that go out.
        stride: 2 halves the image.
        activated: Whether the sum passes a ReLU.
    """

    def __init__(
        self, incoming: int, inner: int, outgoing: int, stride: int = 1, activated: bool = True
    ) -> None:
        super().__init__()
        self.enter = nn.Conv2d(incoming, inner, 1, stride)
        self.look = nn.Conv2d(inner, inner, 3, padding=1)
        self.leave = nn.Conv2d(inner, outgoing, 1)
        changed = stride > 1 or incoming != outgoing
        self.shortcut = nn.Conv2d(incoming, outgoing, 1, stride) if changed else nn.Identity()
        self._activated = activated

    def forward(self, image: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d i j"]:
        """The block's output."""
        inner = functional.relu(self.look(functional.relu(self.enter(image))))
        total: Tensor = self.leave(inner) + self.shortcut(image)
        return functional.relu(total) if self._activated else total


class ResidualNetwork(nn.Module):
    """An image to an image of the same size; sides must be multiples of 8.

    Args:
        incoming: Channels of the input.
        outgoing: Channels of the output.
        width: Channels inside as a share of the original's.
        blocks: Bottlenecks of each stage; the original has two.
    """

    def __init__(self, incoming: int, outgoing: int, width: float = 1.0, blocks: int = 2) -> None:
        super().__init__()
        down = [max(4, round(width * channels)) for channels in DOWN]
        up = [max(4, round(width * channels)) for channels in UP]
        last = max(4, round(width * LAST))
        self.first = nn.Conv2d(incoming, down[0], 3, padding=1)
        channels = down[0]
        self.down = nn.ModuleList()
        for number, wide in enumerate(down):
            self.down.append(_stage(channels, wide, wide, blocks, 2 if number else 1))
            channels = wide
        self.up = nn.ModuleList()
        for wide in up:
            self.up.append(_stage(channels, wide, wide, blocks))
            channels = wide
        self.last = _stage(channels, last, outgoing, blocks, activated=False)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, image: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d h w"]:
        """Features of every pixel."""
        x = functional.relu(self.first(image))
        for stage in self.down:
            x = stage(x)
        for stage in self.up:
            x = functional.interpolate(
                stage(x), scale_factor=2.0, mode="bilinear", align_corners=False
            )
        features: Tensor = self.last(x)
        return features


def _stage(
    incoming: int, inner: int, outgoing: int, blocks: int, stride: int = 1, activated: bool = True
) -> nn.Sequential:
    """Bottlenecks one after the other; only the last may go without its ReLU."""
    made = []
    for number in range(blocks):
        step, curved = stride if number == 0 else 1, activated or number < blocks - 1
        made.append(Bottleneck(incoming, inner, outgoing, step, curved))
        incoming = outgoing
    return nn.Sequential(*made)
