"""Which equivariant vectors a descriptor holds, and how a rotation turns them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from handful.errors import OptionError
from handful.geometry import wigner_d_blocks

MAX_DEGREE = 6
MAX_CHANNELS = 512


@dataclass(frozen=True)
class Types:
    """A direct sum of type-l vectors (eq. edf), stored flat.

    A descriptor is a vector [dim] that holds, for each degree l = 0, 1, ..., a block
    [2l+1, channels[l]], rows first. Flat vectors turn inner products of many descriptors into one
    matrix product.

    Attributes:
        channels: How many type-l vectors there are, for each l from 0; the last is not zero.
    """

    channels: tuple[int, ...]

    def __post_init__(self) -> None:
        fine = self.channels and min(self.channels) >= 0 and self.channels[-1] > 0
        if not fine or len(self.channels) > MAX_DEGREE + 1 or max(self.channels) > MAX_CHANNELS:
            raise OptionError(
                f"descriptor channels are {self.channels}: need 0 to {MAX_CHANNELS} channels for "
                f"each type from 0 to at most {MAX_DEGREE}, the last positive."
            )

    @property
    def max_degree(self) -> int:
        """The highest degree L."""
        return len(self.channels) - 1

    @property
    def sizes(self) -> list[int]:
        """Length of the flat block of each degree."""
        return [(2 * degree + 1) * count for degree, count in enumerate(self.channels)]

    @property
    def dim(self) -> int:
        """Length of the flat descriptor."""
        return sum(self.sizes)

    def rotated(
        self, descriptors: Float[Tensor, "*#batch dim"], rotation: Float[Tensor, "*#batch 3 3"]
    ) -> Float[Tensor, "... dim"]:
        """D(R) f, block by block; batches broadcast."""
        blocks = descriptors.split(self.sizes, dim=-1)
        matrices = wigner_d_blocks(rotation, self.max_degree)
        turned = [
            (matrix @ block.unflatten(-1, (2 * degree + 1, count))).flatten(-2)
            for degree, (matrix, block, count) in enumerate(
                zip(matrices, blocks, self.channels, strict=True)
            )
            if count > 0
        ]
        return torch.cat(turned, dim=-1)

    def norms(self, descriptors: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch vectors"]:
        """Length of each vector of the direct sum, smooth everywhere but at zero."""
        blocks = descriptors.split(self.sizes, dim=-1)
        lengths = [
            block.unflatten(-1, (2 * degree + 1, count)).square().sum(-2)
            for degree, (block, count) in enumerate(zip(blocks, self.channels, strict=True))
            if count > 0
        ]
        return torch.cat(lengths, dim=-1).clamp_min(1e-24).sqrt()
