"""Attention and transport: clouds in, a score for every yaw and pixel out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from handful.baselines.transporter._config import TransporterConfig
from handful.baselines.transporter._correlation import correlation
from handful.baselines.transporter._image import CHANNELS, Points
from handful.baselines.transporter._loss import SCALE
from handful.baselines.transporter._network import ResidualNetwork
from handful.baselines.transporter._planar import yaw_of

INPUTS = 6
"""Red, green and blue, and the height three times."""
HEIGHT_UNIT = 0.25
AT_ONCE = 6
"""Images that a network sees at once in use: memory."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says of some yaws.

    Attributes:
        logits: Of every pixel.
        rest: z, roll and pitch there.
        valid: Pixels that lie in the image of the scene.
        positions: x and y of every pixel, metres, scene frame.
    """

    logits: Float[Tensor, "yaws height width"]
    rest: Float[Tensor, "yaws 3 height width"]
    valid: Bool[Tensor, "yaws height width"]
    positions: Float[np.ndarray, "yaws height width 2"]


class TransporterModel(nn.Module):
    """One model of a step; the configuration says for an empty or for a full gripper.

    Attention turns the scene by each yaw, such that one network sees every grasp from the same
    side. Transport moves features of what is held, turned by each yaw, over features of the scene.

    Args:
        config: What it is like.
    """

    def __init__(self, config: TransporterConfig) -> None:
        super().__init__()
        self.config = config
        width, blocks = config.width, config.blocks
        if config.holding:
            features = config.kernels * config.kernel_channels
            self.map = ResidualNetwork(INPUTS, features, width, blocks)
            self.kernel = ResidualNetwork(INPUTS, features, width, blocks)
            read = config.kernels
        else:
            self.attention = ResidualNetwork(INPUTS, config.embedding, width, blocks)
            read = config.embedding
        self.logit = nn.Conv2d(read, 1, 1)
        self.rest = nn.Conv2d(read, 3, 1)

    def forward(
        self, scene: Points, held: Points | None, yaws: Sequence[int] | None = None
    ) -> Scores:
        """Scores of some yaws, or of all.

        Args:
            scene: The scene cloud.
            held: What the gripper holds, as `PlanarFrame.held` moves it; None for attention.
            yaws: Their numbers.
        """
        numbers = range(self.config.yaws) if yaws is None else yaws
        if self.config.holding:
            assert held is not None
            return self._transport(scene, held, numbers)
        return self._attention(scene, numbers)

    def _attention(self, scene: Points, numbers: Sequence[int]) -> Scores:
        config = self.config
        angles = [yaw_of(number, config.yaws) for number in numbers]
        frame = config.turned
        images = torch.stack(
            [torch.from_numpy(frame.draw(scene, angle, config.center)) for angle in angles]
        )
        seen = self._in_parts(self.attention, normalised(images))
        positions = np.stack([turned_about(frame.middles(), angle, config.center)
                              for angle in angles])  # fmt: skip
        valid = torch.from_numpy(config.image.contains(positions))
        return self._scores(seen, valid, positions)

    def _transport(self, scene: Points, held: Points, numbers: Sequence[int]) -> Scores:
        config = self.config
        image = torch.from_numpy(config.image.draw(scene))[None]
        angles = [yaw_of(number, config.yaws) for number in numbers]
        kernels = torch.stack(
            [torch.from_numpy(config.kernel.draw(held, -angle)) for angle in angles]
        )
        split = (config.kernels, config.kernel_channels)
        of_map = self.map(normalised(image))[0].unflatten(0, split)
        of_kernels = self._in_parts(self.kernel, normalised(kernels)).unflatten(1, split)
        size = config.kernel_pixels**2 * config.kernels * config.kernel_channels
        seen = correlation(of_map, of_kernels) / math.sqrt(size)
        middles = config.image.middles()
        positions = np.broadcast_to(middles, (len(angles), *middles.shape))
        return self._scores(seen, torch.ones(positions.shape[:-1], dtype=torch.bool), positions)

    def _scores(
        self,
        seen: Float[Tensor, "yaws c h w"],
        valid: Bool[Tensor, "yaws h w"],
        positions: Float[np.ndarray, "yaws h w 2"],
    ) -> Scores:
        scale = seen.new_tensor(SCALE)[:, None, None]
        middle = seen.new_tensor(self.config.middle)[:, None, None]
        return Scores(self.logit(seen)[:, 0], middle + scale * self.rest(seen), valid, positions)

    def _in_parts(
        self, network: nn.Module, images: Float[Tensor, "n c h w"]
    ) -> Float[Tensor, "n d h w"]:
        """A network's output; without gradients a few images at a time."""
        if torch.is_grad_enabled():
            return network(images)
        return torch.cat([network(part) for part in images.split(AT_ONCE)])


def normalised(images: Float[Tensor, "n 4 h w"]) -> Float[Tensor, "n 6 h w"]:
    """Images as networks read them: colours from -1 to 1, and the height three times."""
    colors, height = images[:, : CHANNELS - 1], images[:, CHANNELS - 1 :]
    return torch.cat([(colors - 0.5) / 0.5, (height / HEIGHT_UNIT).expand(-1, 3, -1, -1)], dim=1)


def turned_about(
    plane: Float[np.ndarray, "*any 2"], angle: float, pivot: Sequence[float]
) -> Float[np.ndarray, "*any 2"]:
    """Positions turned by an angle about a pivot."""
    c, s = math.cos(angle), math.sin(angle)
    return (plane - np.asarray(pivot)) @ np.array([[c, s], [-s, c]]) + np.asarray(pivot)
