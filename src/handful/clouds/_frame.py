"""A frame of a cloud's own, so that what is cut along axes is cut alike wherever the cloud is."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from handful.clouds._cloud import PointCloud


def principal_frame(cloud: PointCloud) -> Float[np.ndarray, "4 4"]:
    """The rigid motion T_frame_cloud that brings a cloud to its middle and principal axes.

    It turns with the cloud: principal_frame(g cloud) = principal_frame(cloud) g⁻¹ for every rigid
    motion g. The widest axis becomes x, the narrowest z; each axis points to where the cloud has
    its longer tail (third moment), the narrowest such that the frame is right-handed. The axes of a
    cloud that is as wide in two directions are arbitrary, but still axes.
    """
    points = cloud.points.astype(np.float64)
    middle = points.mean(axis=0)
    centred = points - middle
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1]
    along = centred @ axes
    tails = (along * along * along).sum(axis=0)
    axes = axes * np.where(tails < 0, -1.0, 1.0)
    axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
    motion = np.eye(4)
    motion[:3, :3] = axes.T
    motion[:3, 3] = -axes.T @ middle
    return motion
