"""A trained model of one step: the network, and what demonstrations look like to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from handful.baselines.ndf._config import NdfConfig
from handful.baselines.ndf._network import NdfNetwork
from handful.baselines.ndf._pretraining import spread_out
from handful.clouds import PointCloud, voxel_filter
from handful.geometry import pose_to_rotation_translation, rotation_apply

LOOKS = 4
"""Choices of points of a cloud that latent vectors are the mean of."""


@dataclass(frozen=True, eq=False)
class NdfField:
    """The descriptor field of one cloud: positions [n, 3] in metres to descriptors [n, dim].

    Attributes:
        network: The network.
        latent: Latent vectors of the cloud.
        center: Its mean, metres.
    """

    network: NdfNetwork
    latent: Float[Tensor, "3 latent"]
    center: Float[Tensor, "3"]

    def __call__(self, positions: Float[Tensor, "positions 3"]) -> Float[Tensor, "positions dim"]:
        """Descriptors at positions."""
        return self.network.decode(self.latent[None], self.center[None], positions[None])[1][0]


@dataclass(frozen=True, eq=False)
class NdfEnergy:
    """E(T) = sum_i |phi(T q_i | X) - psi_i|_1 (eq. ndf).

    That is `models.MatchEnergy` with the norm `irrepwise_l1`, descriptors of type 0 and all weights
    one, as a test shows; here without what other types need.

    Attributes:
        field: phi(. | X).
        queries: q_i, metres, in the frame whose poses are rated.
        descriptors: psi_i.
    """

    field: NdfField
    queries: Float[Tensor, "queries 3"]
    descriptors: Float[Tensor, "queries dim"]

    def __call__(self, poses: Float[Tensor, "poses 4 4"]) -> Float[Tensor, "poses"]:
        """Energies of poses of the query points in the frame of the cloud."""
        rotation, translation = pose_to_rotation_translation(poses)
        where = rotation_apply(rotation, self.queries) + translation[:, None]
        found = self.field(where.flatten(0, 1)).unflatten(0, where.shape[:2])
        return (found - self.descriptors).abs().sum((-1, -2))


class NdfModel(nn.Module):
    """Network, query points and demonstrated descriptors of one step.

    For an empty gripper, query points are in the gripper frame and fields are of the object in the
    scene. For a full one, query points are about the target, in the frame of the first
    demonstration's scene, and fields are of the object in the gripper: the pose that is searched
    for is that of the target in the gripper frame.

    Args:
        config: What it is like.
    """

    queries: Tensor
    descriptors: Tensor
    target: Tensor

    def __init__(self, config: NdfConfig) -> None:
        super().__init__()
        self.config = config
        self.network = NdfNetwork(config.network)
        self.register_buffer("queries", torch.zeros(config.queries, 3))
        self.register_buffer("descriptors", torch.zeros(config.queries, config.network.descriptor))
        self.register_buffer("target", torch.zeros(config.target_points, 3))

    def field(self, cloud: PointCloud) -> NdfField:
        """The descriptor field of a cloud."""
        clouds, center = prepared(cloud, self.config)
        with torch.no_grad():
            latent = self.network.encode(clouds, center.expand(LOOKS, 3)).mean(0)
        return NdfField(self.network, latent, center)

    def energy(self, cloud: PointCloud) -> NdfEnergy:
        """The energy of poses of the query points in the frame of a cloud."""
        return NdfEnergy(self.field(cloud), self.queries, self.descriptors)


def prepared(
    cloud: PointCloud, config: NdfConfig
) -> tuple[Float[Tensor, "looks points 3"], Float[Tensor, "3"]]:
    """Some choices of points of a cloud as the encoder sees them, and the mean of all points.

    Thinned first: the mean must not depend on how many cameras see a side.
    """
    thin = voxel_filter(cloud, config.voxel).points
    rng = np.random.default_rng(config.search.seed)
    some = np.stack([thin[spread_out(thin, config.network.points, rng)] for _ in range(LOOKS)])
    return torch.from_numpy(some).float(), torch.from_numpy(thin.mean(axis=0)).float()
