"""Sizes of Neural Descriptor Fields, and how poses are searched for."""

from __future__ import annotations

from dataclasses import dataclass, field

from handful._checks import real_number, whole_number

MAX_AT_ONCE = 20
"""Poses that are rated or followed at once: memory."""
MAX_VALUES = 2**24
"""Of one layer for all that it is computed for at once: 64 MB."""


@dataclass(frozen=True)
class NetworkConfig:
    """The network; the defaults are for two CPU cores.

    Attributes:
        points: Of a cloud that the encoder sees.
        neighbours: Of each point, itself included.
        width: Vector channels inside of the encoder.
        latent: Vector channels that it makes of a cloud.
        hidden: Channels inside of the decoder.
        encoder_blocks: Residual blocks of the encoder.
        decoder_blocks: Residual blocks of the decoder.
    """

    points: int = 300
    neighbours: int = 10
    width: int = 48
    latent: int = 96
    hidden: int = 64
    encoder_blocks: int = 5
    decoder_blocks: int = 5

    def __post_init__(self) -> None:
        whole_number("ndf points", self.points, 8, 10_000)
        whole_number("ndf neighbours", self.neighbours, 2, 100)
        for name in ("width", "latent", "hidden"):
            whole_number(f"ndf {name}", getattr(self, name), 1, 1024)
        for name in ("encoder_blocks", "decoder_blocks"):
            whole_number(f"ndf {name}", getattr(self, name), 1, 16)
        edges = self.points * self.neighbours * self.width
        whole_number("ndf points * neighbours * width", edges, 1, MAX_VALUES)

    @property
    def descriptor(self) -> int:
        """Numbers in a descriptor: all activations of the decoder."""
        return 2 * self.latent + 1 + (self.decoder_blocks + 1) * self.hidden


@dataclass(frozen=True)
class PoseSearch:
    """Descent from random starts.

    Attributes:
        starts: Poses at random.
        kept: So many of the best of them are followed.
        steps: Of Adam.
        rate: Its learning rate of rotations, radians.
        stride: Its learning rate of translations, metres.
        reach: How far starts are from the cloud's middle, at most, metres.
        seed: Of the starts.
    """

    starts: int = 200
    kept: int = 10
    steps: int = 150
    rate: float = 0.05
    stride: float = 0.005
    reach: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("ndf starts", self.starts, 1, 10_000)
        whole_number("ndf kept", self.kept, 1, min(self.starts, MAX_AT_ONCE))
        whole_number("ndf search steps", self.steps, 1, 2_000)
        real_number("ndf search rate", self.rate, 1e-6, 1.0)
        real_number("ndf search stride", self.stride, 1e-6, 1.0)
        real_number("ndf reach", self.reach, 1e-3, 10.0)


@dataclass(frozen=True)
class NdfConfig:
    """One model.

    Attributes:
        holding: Whether it is for a gripper that holds something.
        network: Its size.
        search: How poses are found.
        queries: Query points.
        voxel: Clouds are thinned to cubes of this side, metres.
        target_points: Of the target's cloud, by which its pose is known; 0 for an empty gripper.
    """

    holding: bool
    network: NetworkConfig = field(default_factory=NetworkConfig)
    search: PoseSearch = field(default_factory=PoseSearch)
    queries: int = 200
    voxel: float = 0.004
    target_points: int = 0

    def __post_init__(self) -> None:
        whole_number("ndf queries", self.queries, 3, 10_000)
        real_number("ndf voxel", self.voxel, 1e-4, 0.1)
        whole_number("ndf target_points", self.target_points, 0, 100_000)
        activations = MAX_AT_ONCE * self.queries * self.network.descriptor
        whole_number("20 * ndf queries * descriptor", activations, 1, 2 * MAX_VALUES)
