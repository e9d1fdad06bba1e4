"""Questions to the service, as forms: clouds and depth images become files."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from handful._files import open_regular
from handful.errors import CloudShapeError, OptionError

CloudLike = Any
"""A cloud: an array [n, 3] of points or [n, 6] of points and colours in [0, 1]; a pair of arrays
(points, colours); an object with `points` and `colors`, such as a `PointCloud` or one of Open3D; a
path of a PLY, PCD or NPZ file; or a `View` or several. Metres; colours may be 8-bit integers."""

Files = list[tuple[str, tuple[str, bytes]]]
_EXTENSIONS = (".ply", ".pcd", ".npz")


@dataclass(frozen=True, eq=False)
class View:
    """What one depth camera saw, and from where.

    Attributes:
        depth: [height, width]: 16-bit integers, or floats in metres.
        T_frame_camera: Pose of the camera in the scene (for a grasp cloud: in the gripper), 4 x 4;
            x right, y down, z forward.
        fx: Focal length along columns, pixels.
        fy: Focal length along rows.
        cx: Column of the principal point.
        cy: Row of the principal point.
        color: [height, width, 3], 8-bit, registered to `depth`; or None.
        depth_scale: Metres per unit of `depth`; None for 0.001 with integers and 1 with floats.
        distortion: k1, k2, p1, p2 and k3 of the lens, as in OpenCV and ROS (`plumb_bob`); empty
            where straight lines stay straight. Images are sent as they were taken.
    """

    depth: Shaped[np.ndarray, "height width"]
    T_frame_camera: Shaped[np.ndarray, "4 4"]
    fx: float
    fy: float
    cx: float
    cy: float
    color: Shaped[np.ndarray, "height width 3"] | None = None
    depth_scale: float | None = None
    distortion: Sequence[float] = ()

    def described(self, pose: str) -> dict[str, Any]:
        """The camera, as the service wants it told."""
        T = np.asarray(self.T_frame_camera)
        if np.ndim(self.depth) != 2 or T.shape != (4, 4) or T.dtype.kind not in "fiu":
            raise CloudShapeError(
                f"a View has depth of shape {np.shape(self.depth)} and a pose of shape {T.shape}: "
                "need an image [height, width] and numbers [4, 4]."
            )
        camera: dict[str, Any] = {name: float(getattr(self, name)) for name in _INTRINSICS}
        camera["height"], camera["width"] = (int(side) for side in np.shape(self.depth)[:2])
        camera[pose] = T.astype(np.float64).tolist()
        if self.depth_scale is not None:
            camera["depth_scale"] = float(self.depth_scale)
        if len(self.distortion):
            camera["distortion"] = [float(value) for value in self.distortion]
        return camera


_INTRINSICS = ("fx", "fy", "cx", "cy")


@dataclass(frozen=True)
class Question:
    """A form to send.

    Attributes:
        fields: Its text fields.
        files: Its files.
    """

    fields: dict[str, str]
    files: Files


def question(scene: CloudLike, grasp: CloudLike | None, **options: Any) -> Question:
    """The form of an observation.

    Args:
        scene: What is seen.
        grasp: What is held, in the gripper frame; None with an empty gripper.
        options: Further fields; those that are None are left out.
    """
    fields: dict[str, str] = {}
    files: Files = []
    _add(scene, "scene", "T_scene_camera", fields, files)
    if grasp is not None:
        _add(grasp, "grasp", "T_gripper_camera", fields, files)
    for name, value in options.items():
        if value is not None:
            fields[name] = _text(value)
    return Question(fields, files)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "lower") and hasattr(value, "upper") and not isinstance(value, str):
        value = [*value.lower, *value.upper]  # a `handful.clouds.Box`
    if isinstance(value, list | tuple | np.ndarray):
        return " ".join(repr(float(one)) for one in np.asarray(value, dtype=np.float64).ravel())
    return str(value)


def _add(value: CloudLike, name: str, pose: str, fields: dict[str, str], files: Files) -> None:
    views = [value] if isinstance(value, View) else value
    if isinstance(views, Sequence) and views and all(isinstance(one, View) for one in views):
        fields[f"{name}_cameras"] = json.dumps([view.described(pose) for view in views])
        files += [(f"{name}_depth", ("depth.npy", _npy(view.depth))) for view in views]
        colors = [view.color for view in views if view.color is not None]
        files += [(f"{name}_color", ("color.npy", _npy(color))) for color in colors]
    else:
        files.append((name, _cloud_file(value, name)))


def _cloud_file(value: CloudLike, name: str) -> tuple[str, bytes]:
    """Name and content of a file with the cloud."""
    if isinstance(value, str | os.PathLike):
        path = Path(value)
        if path.suffix.lower() not in _EXTENSIONS:
            raise OptionError(f"{path}: need a cloud file, {', '.join(_EXTENSIONS)}.")
        with open_regular(path) as file:
            return path.name, file.read()
    if hasattr(value, "points") and not callable(value.points):
        points, colors = value.points, getattr(value, "colors", None)
    elif isinstance(value, tuple) and len(value) == 2:
        points, colors = value
    elif isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] == 6:
        points, colors = value[:, :3], value[:, 3:]
    elif isinstance(value, np.ndarray | list):
        points, colors = value, None
    else:
        raise CloudShapeError(
            f"{name} is of type {type(value).__name__}: need an array [n, 3] or [n, 6], points and "
            "colours, an object with `points`, a path, or views."
        )
    return f"{name}.npz", _npz(name, points, colors)


def _npz(name: str, points: Any, colors: Any) -> bytes:
    """A cloud as an NPZ file; colours become 8-bit integers, as in every file of clouds."""
    try:
        xyz = np.asarray(points, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise CloudShapeError(
            f"{name}: holds something else than rows of equally many real numbers."
        ) from error
    if xyz.ndim != 2 or xyz.shape[1] != 3:
        raise CloudShapeError(f"{name}: points have shape {xyz.shape}: need [n, 3].")
    arrays = {"points": xyz}
    if colors is not None and len(colors):
        rgb = np.asarray(colors)
        if rgb.shape != xyz.shape:
            raise CloudShapeError(f"{name}: colours have shape {rgb.shape}: need {xyz.shape}.")
        arrays["colors"] = rgb if rgb.dtype == np.uint8 else _bytes_of(name, rgb)
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _bytes_of(name: str, rgb: np.ndarray) -> np.ndarray:
    low, high = float(np.nanmin(rgb)), float(np.nanmax(rgb))
    if not 0.0 <= low <= high <= 1.0 + 1e-6:
        raise CloudShapeError(
            f"{name}: colours span {low:g}..{high:g}: need floats in [0, 1], or 8-bit integers."
        )
    return np.rint(np.nan_to_num(rgb.astype(np.float64)) * 255.0).clip(0, 255).astype(np.uint8)


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()
