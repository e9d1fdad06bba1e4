"""The network of Neural Descriptor Fields: a cloud in, occupancy and descriptors anywhere out."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from handful.baselines.ndf._config import NetworkConfig
from handful.baselines.ndf._vector_neurons import SLOPE, VectorBlock, VectorLeaky

UNIT = 0.1
"""Metres: positions are divided by it."""
EDGE_VECTORS = 3
"""Of each pair of neighbours: their difference, the point, and the cross product of the two."""


class Encoder(nn.Module):
    """A PointNet of vector neurons: a cloud about the origin to one vector for each channel.

    Args:
        config: Its size.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.neighbours = config.neighbours
        self.edges = nn.Linear(EDGE_VECTORS, width, bias=False)
        self.edges_leaky = VectorLeaky(width, EDGE_VECTORS)
        self.points = nn.Linear(width, 2 * width, bias=False)
        self.blocks = nn.ModuleList(
            VectorBlock(2 * width, width) for _ in range(config.encoder_blocks)
        )
        self.leaky = VectorLeaky(width)
        self.out = nn.Linear(width, config.latent, bias=False)

    def forward(self, clouds: Float[Tensor, "clouds points 3"]) -> Float[Tensor, "clouds 3 latent"]:
        """The latent vectors of clouds, which turn with them."""
        vectors = edge_vectors(clouds, self.neighbours)
        direction = self.edges_leaky.direction.weight
        x = self.points(mean_rectified(vectors, self.edges.weight, direction))
        for number, block in enumerate(self.blocks):
            if number > 0:
                x = torch.cat([x, x.mean(dim=1, keepdim=True).expand_as(x)], dim=-1)
            x = block(x)
        return self.out(self.leaky(x.mean(dim=1)))


class Decoder(nn.Module):
    """Occupancy at positions, from invariants of position p and latent vectors z.

    The invariants are |p|^2, p . z and z . Wz.

    Args:
        config: Its size.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.mixed = nn.Linear(config.latent, config.latent, bias=False)
        self.inward = nn.Linear(2 * config.latent + 1, hidden)
        self.blocks = nn.ModuleList(ScalarBlock(hidden) for _ in range(config.decoder_blocks))
        self.out = nn.Linear(hidden, 1)

    def forward(
        self, latent: Float[Tensor, "clouds 3 latent"], p: Float[Tensor, "clouds positions 3"]
    ) -> tuple[Float[Tensor, "clouds positions"], Float[Tensor, "clouds positions dim"]]:
        """Logits of occupancy, and all activations side by side."""
        own = (latent * self.mixed(latent)).sum(-2)
        own = own[:, None].expand(-1, p.shape[1], -1)
        inputs = torch.cat([p.square().sum(-1, keepdim=True), p @ latent, own], dim=-1)
        x = self.inward(inputs)
        activations = [inputs, x]
        for block in self.blocks:
            x = block(x)
            activations.append(x)
        logits = self.out(functional.leaky_relu(x, SLOPE))[..., 0]
        return logits, torch.cat(activations, dim=-1)


class ScalarBlock(nn.Module):
    """A residual block of numbers.

    Args:
        width: How many.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.zeros_(self.outer.weight)

    def forward(self, x: Float[Tensor, "*n width"]) -> Float[Tensor, "*n width"]:
        """The block's output."""
        return x + self.outer(functional.relu(self.inner(functional.relu(x))))


class NdfNetwork(nn.Module):
    """Encoder and decoder.

    Clouds are moved to their mean, and so are positions: nothing depends on where a cloud lies. All
    that the decoder reads is invariant to turning cloud and positions together.

    Args:
        config: Its size.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)

    def encode(
        self, clouds: Float[Tensor, "clouds points 3"], centers: Float[Tensor, "clouds 3"]
    ) -> Float[Tensor, "clouds 3 latent"]:
        """Latent vectors.

        Args:
            clouds: Metres.
            centers: What is subtracted: their means.
        """
        return self.encoder((clouds - centers[:, None]) / UNIT)

    def decode(
        self,
        latent: Float[Tensor, "clouds 3 latent"],
        centers: Float[Tensor, "clouds 3"],
        positions: Float[Tensor, "clouds positions 3"],
    ) -> tuple[Float[Tensor, "clouds positions"], Float[Tensor, "clouds positions dim"]]:
        """Logits of occupancy, and descriptors of length one, at positions in metres."""
        logits, activations = self.decoder(latent, (positions - centers[:, None]) / UNIT)
        return logits, functional.normalize(activations, dim=-1)


def mean_rectified(
    vectors: Float[Tensor, "clouds points neighbours 3 vectors"],
    weight: Float[Tensor, "width vectors"],
    direction: Float[Tensor, "width vectors"],
) -> Float[Tensor, "clouds points 3 width"]:
    """The mean over neighbours of `VectorLeaky` of a linear map of few vectors.

    With x = A v and d = B v, x . d and |d|^2 are linear in the inner products of the vectors v with
    each other, and the mean is A mean(v) - B mean(s v) with a number s for each edge and channel:
    there is no array of all edges, channels and coordinates, which would be three times as large.
    """
    v = vectors.flatten(0, 1)
    inner = (v.mT @ v).flatten(-2)
    along = (inner @ _products(weight, direction)).clamp_max(0.0)
    length = (inner @ _products(direction, direction)).clamp_min(0.0) + torch.finfo(v.dtype).eps
    share = (SLOPE - 1.0) * along / length
    mixed = v.flatten(-2).mT @ share / v.shape[1]  # [points, 3 * vectors, width]
    mixed = (mixed.unflatten(1, (3, -1)) * direction.T).sum(2)
    return (v.mean(1) @ weight.T + mixed).unflatten(0, vectors.shape[:2])


def _products(
    one: Float[Tensor, "width vectors"], other: Float[Tensor, "width vectors"]
) -> Float[Tensor, "pairs width"]:
    """Products of any two weights of each channel."""
    return (one.T[:, None] * other.T[None]).flatten(0, 1)


def edge_vectors(
    clouds: Float[Tensor, "clouds points 3"], neighbours: int
) -> Float[Tensor, "clouds points neighbours 3 vectors"]:
    """The vectors of every point and each of its nearest neighbours, the point itself included."""
    count = min(neighbours, clouds.shape[1])
    with torch.no_grad():
        nearest: Int[Tensor, "clouds points neighbours"] = (
            torch.cdist(clouds, clouds).topk(count, largest=False).indices
        )
    which = torch.arange(len(clouds), device=clouds.device)[:, None, None]
    points = clouds[:, :, None].expand(-1, -1, count, -1)
    others = clouds[which, nearest]
    return torch.stack([others - points, points, torch.linalg.cross(others, points)], dim=-1)
