"""A scene as one page: points and hands that can be turned, in a file that needs nothing else."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from PIL import Image
from scipy.spatial import cKDTree

from handful.clouds import LevelOfDetail, PointCloud
from handful.errors import OptionError
from handful.render import ColoredMesh, face_normals, height_colors

MOST_POINTS = 300_000
"""Of each cloud; a page of that size has 6 MB."""


def page_of_scene(
    clouds: Sequence[PointCloud],
    meshes: Sequence[ColoredMesh],
    title: str = "A scene",
    pictures: Sequence[Image.Image] = (),
) -> str:
    """A self-contained HTML page with clouds and meshes, which opens without a server.

    Args:
        clouds: In the scene frame; by height where they have no colours.
        meshes: In the scene frame.
        title: Of the page.
        pictures: Shown beside the scene, one below the other.

    Raises:
        OptionError: There is nothing to show.
    """
    if not clouds and not meshes:
        raise OptionError("page_of_scene got no cloud and no mesh: give one or more.")
    few = [cloud.selected(LevelOfDetail(cloud, MOST_POINTS).overview) for cloud in clouds]
    corners = np.concatenate(
        [*(cloud.points for cloud in few), *(mesh.vertices for mesh in meshes)]
    ).astype(np.float64)
    low, high = np.percentile(corners, [1.0, 99.0], axis=0)
    middle, radius = (low + high) / 2.0, float(np.linalg.norm(high - low)) / 2.0
    data = {
        "radius": radius,
        "clouds": [_cloud(cloud, middle) for cloud in few],
        "meshes": [_mesh(mesh, middle) for mesh in sorted(meshes, key=lambda one: -one.opacity)],
    }
    page = (Path(__file__).parent / "page" / "scene.html").read_text(encoding="utf-8")
    beside = "".join(f'<img alt="" src="{_image(one)}">' for one in pictures)
    page = page.replace("TITLE", html.escape(title)).replace("DATA", json.dumps(data))
    return page.replace("PICTURES", beside)


def _image(picture: Image.Image) -> str:
    content = io.BytesIO()
    picture.save(content, "PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def _cloud(cloud: PointCloud, middle: Float[np.ndarray, "3"]) -> dict[str, Any]:
    colors = height_colors(cloud.points) if cloud.colors is None else cloud.colors
    some = cloud.points[:: max(1, len(cloud) // 500)]
    gap = cKDTree(cloud.points).query(some, k=min(5, len(cloud)))[0][:, -1]
    return {
        "count": len(cloud),
        "size": float(np.clip(np.median(gap), 5e-4, 0.02)),
        "xyz": _text((cloud.points.astype(np.float64) - middle).astype("<f4")),
        "color": _text((colors * 255.0).round().astype(np.uint8)),
    }


def _mesh(mesh: ColoredMesh, middle: Float[np.ndarray, "3"]) -> dict[str, Any]:
    triangles = mesh.triangles
    normals = np.repeat(face_normals(triangles), 3, axis=0)
    return {
        "count": 3 * len(triangles),
        "color": [*mesh.color, mesh.opacity],
        "xyz": _text((triangles.reshape(-1, 3) - middle).astype("<f4")),
        "normal": _text(normals.astype("<f4")),
    }


def _text(array: Shaped[np.ndarray, "..."]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
