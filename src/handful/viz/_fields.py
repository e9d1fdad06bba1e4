"""Pictures of a key field: its type-0 part as colours, its type-1 part as arrows."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from scipy.spatial import cKDTree

from handful.clouds import PointCloud
from handful.errors import OptionError
from handful.models import Field, QueryPoints
from handful.render import (
    Camera,
    ColoredMesh,
    PictureStyle,
    arrow_mesh,
    arrows_mesh,
    ball_mesh,
    draw_picture,
    tile,
    visible_points,
)
from handful.viz._palette import FieldPalette
from handful.viz._views import view_of_scene
from handful.viz._visible import at_most, drawable, visible_height

_KEY_ARROW = (0.32, 0.33, 0.36)
_QUERY_ARROW = (0.04, 0.04, 0.05)

_MARK_OPACITY = 0.96
"""Of arrows and query points: less than 1, so that they show through what hides them."""

_FIELD = PictureStyle(hidden_opacity=0.75)

_FIELD_POINTS = 8000
"""Positions that a picture of a field asks for at most; its cost grows with them."""

_FIELD_ROWS = 70
"""How many of them fit above each other into a picture, if there are not too many."""

_ARROW_ROWS = 18
"""How many arrows fit above each other into a picture."""

_ARROW = 1.7
"""Length of a long arrow, as a share of the distance between arrows."""

_PALENESS = 0.45
"""What is left of the colours under arrows."""

_SHORTEST_ARROW = 0.25
"""Shorter ones, as a share of a long one, are left out."""


def picture_of_field(
    scene: PointCloud,
    key: Field,
    *,
    camera: Camera | None = None,
    palette: FieldPalette | None = None,
    queries: QueryPoints | None = None,
    pose: Float[np.ndarray, "4 4"] | None = None,
    title: str = "",
) -> Image.Image:
    """A key field as in the paper's figures: type 0 as colours, type 1 as arrows.

    Args:
        scene: The cloud of the field; its points are coloured.
        key: The field.
        camera: Where from (`view_of_pose`); one that sees the whole scene if not given.
        palette: From values to colours and arrows (`palette_of_field`); give the same to pictures
            that will be compared.
        queries: Query points to draw into the field, transformed by `pose`.
        pose: T_scene_gripper of the query points.
        title: Over the picture.
    """
    camera = view_of_scene(scene) if camera is None else camera
    images, captions = zip(
        *panels_of_field(scene, key, camera, palette, queries, pose), strict=True
    )
    return tile(images, 2, captions, title)


def palette_of_field(*keys: Field) -> FieldPalette:
    """The palette that suits the values of fields at the points of their clouds best."""
    if not keys:
        raise OptionError("palette_of_field got no field: give one or more.")
    with torch.no_grad():
        values = [key(key.encoded.points) for key in keys]
    return FieldPalette.fit(torch.cat(values), keys[0].head.types)


def panels_of_field(
    scene: PointCloud,
    key: Field,
    camera: Camera,
    palette: FieldPalette | None,
    queries: QueryPoints | None,
    pose: Float[np.ndarray, "4 4"] | None,
) -> list[tuple[Image.Image, str]]:
    """Pictures with captions: the type-0 part, and the type-1 part if there is one."""
    palette = palette_of_field(key) if palette is None else palette
    seen = drawable(scene, camera)
    height = visible_height(seen, camera)
    coarse = at_most(seen, height / _FIELD_ROWS, _FIELD_POINTS)
    with torch.no_grad():
        values = key(torch.tensor(coarse.points).to(key.encoded.points))
    colors = interpolated(palette.colors(values), coarse.points, seen.points)
    balls: list[ColoredMesh] = []
    query_arrows: list[ColoredMesh] = []
    if queries is not None and pose is not None:
        balls, query_arrows = query_meshes(queries, pose, palette, height)
    vivid = draw_picture([PointCloud(seen.points, colors)], balls, camera, _FIELD)
    panels = [(vivid, "Key field: type 0 as colours" + (", balls: query" if balls else ""))]
    if palette.vector_length > 0.0:
        pale = PointCloud(seen.points, 1.0 - _PALENESS * (1.0 - colors))
        front = visible_points(coarse.points, camera)
        arrows = key_arrows(coarse.points[front], palette.arrows(values)[front], height)
        near = draw_picture([pale], [arrows, *balls, *query_arrows], camera, _FIELD)
        panels.append(
            (near, "Key field: type 1 as arrows" + (", black: query" if query_arrows else ""))
        )
    return panels


def interpolated(
    values: Float[np.ndarray, "known 3"],
    known: Float[np.ndarray, "known 3"],
    wanted: Float[np.ndarray, "wanted 3"],
) -> Float[np.ndarray, "wanted 3"]:
    """Means of the three nearest values, the nearer the heavier."""
    distance, which = cKDTree(known).query(wanted, k=range(1, min(3, len(known)) + 1))
    weight = 1.0 / (distance**2 + 1e-10)
    weight /= weight.sum(axis=1, keepdims=True)
    return np.einsum("nk,nkc->nc", weight, values[which])


def key_arrows(
    points: Float[np.ndarray, "points 3"], vectors: Float[np.ndarray, "points 3"], height: float
) -> ColoredMesh:
    """Arrows at points, the longest first, none close to another."""
    spacing = height / _ARROW_ROWS
    length = np.linalg.norm(vectors, axis=1)
    chosen = _spread(points, length, spacing)
    chosen = chosen[length[chosen] > _SHORTEST_ARROW]
    reach = vectors[chosen] * np.minimum(1.0, 1.2 / length[chosen])[:, None] * _ARROW * spacing
    starts = points[chosen].astype(np.float64)
    mesh = arrows_mesh(starts, starts + reach, _KEY_ARROW, width=0.11 * spacing)
    return mesh.recolored(_KEY_ARROW, _MARK_OPACITY)


def _spread(
    points: Float[np.ndarray, "points 3"], mark: Float[np.ndarray, "points"], spacing: float
) -> Int[np.ndarray, "chosen"]:
    """Points of the highest marks of which no two are closer than `spacing`."""
    tree = cKDTree(points)
    free = np.ones(len(points), dtype=bool)
    chosen = []
    for number in np.argsort(-mark, kind="stable"):
        if free[number]:
            chosen.append(number)
            free[tree.query_ball_point(points[number], spacing)] = False
    return np.array(chosen, dtype=np.int64)


def query_meshes(
    queries: QueryPoints,
    pose: Float[np.ndarray, "4 4"],
    palette: FieldPalette,
    height: float,
) -> tuple[list[ColoredMesh], list[ColoredMesh]]:
    """Query points at a pose: balls in their type-0 colour, and their type-1 arrows.

    The volume of a ball follows the weight of its point.
    """
    rotation = torch.tensor(pose[:3, :3]).to(queries.descriptors)
    with torch.no_grad():
        turned = palette.types.rotated(queries.descriptors, rotation)
    colors, vectors = palette.colors(turned), palette.arrows(turned)
    positions = queries.positions.detach().cpu().double().numpy() @ pose[:3, :3].T + pose[:3, 3]
    weights = queries.weights.detach().cpu().double().numpy()
    sizes = np.cbrt(weights / max(weights.max(), 1e-12)).clip(0.3)
    balls, arrows = [], []
    for position, color, vector, size in zip(positions, colors, vectors, sizes, strict=True):
        red, green, blue = color.tolist()
        balls.append(ball_mesh(position, 0.018 * height * size, (red, green, blue), _MARK_OPACITY))
        reach = 1.5 * _ARROW * height / _ARROW_ROWS * vector
        if np.linalg.norm(vector) > _SHORTEST_ARROW:
            arrow = arrow_mesh(position, position + reach, _QUERY_ARROW, width=0.01 * height)
            arrows.append(arrow.recolored(_QUERY_ARROW, _MARK_OPACITY))
    return balls, arrows
