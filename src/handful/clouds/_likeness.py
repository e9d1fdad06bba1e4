"""What may stand for a cloud: a `PointCloud`, an array, or an object of another library."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.clouds._cloud import PointCloud
from handful.errors import CloudShapeError, errors_at

CloudLike = Any
"""A `PointCloud`; an array [n, 3] of points or [n, 6] of points and colours; or an object with
`points` and, where it has colours, `colors`, such as those of Open3D."""


def as_cloud(value: CloudLike, name: str = "the cloud") -> PointCloud:
    """The cloud that a value stands for.

    Args:
        value: See `CloudLike`.
        name: What it is, for messages.

    Raises:
        CloudError: It is no cloud; the message says what it is and what would be right.
    """
    if isinstance(value, PointCloud):
        return value
    with errors_at(name):
        if isinstance(value, str | bytes) or hasattr(value, "__fspath__"):
            raise CloudShapeError(f"is a {type(value).__name__}: read a file with `read_cloud`.")
        if hasattr(value, "points"):
            return _of_object(value)
        if hasattr(value, "detach"):  # a tensor
            value = value.detach().cpu().numpy()
        if isinstance(value, np.ndarray | list | tuple):
            return _of_array(_numbers(value))
        raise CloudShapeError(
            f"is {_kind(value)}: need a PointCloud, an array [n, 3] of points in metres or [n, 6] "
            "with colours in [0, 1], or an object with `points` and `colors`."
        )


def _of_object(value: Any) -> PointCloud:
    points, colors = value.points, getattr(value, "colors", None)
    if callable(points) or callable(colors):
        raise CloudShapeError(f"is {_kind(value)} whose points are a method: give arrays.")
    if colors is not None and len(colors) == 0 and len(points) > 0:
        colors = None  # how Open3D says that there are none
    return PointCloud(np.asarray(points), None if colors is None else np.asarray(colors))


def _of_array(values: np.ndarray) -> PointCloud:
    if values.ndim == 2 and values.shape[1] == 6:
        return PointCloud(values[:, :3], values[:, 3:])
    if values.ndim != 2 or values.shape[1] != 3:
        raise CloudShapeError(
            f"is an array of shape {values.shape}: need [n, 3] of points in metres, or [n, 6] with "
            "colours in [0, 1]."
        )
    return PointCloud(values)


def _numbers(value: Any) -> np.ndarray:
    try:
        values = np.asarray(value)
    except ValueError:  # rows of different lengths
        values = np.zeros(0, dtype=object)
    if values.dtype.kind not in "fiu":
        raise CloudShapeError("holds something else than rows of equally many real numbers.")
    return values


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
