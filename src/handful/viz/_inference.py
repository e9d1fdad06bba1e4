"""Pictures of what a model found: gripper poses in a scene, and the key field behind them."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from scipy.spatial import cKDTree

from handful.clouds import PointCloud, voxel_filter
from handful.demos import Gripper
from handful.errors import OptionError
from handful.models._energy import QueryPoints
from handful.models._field import Field
from handful.models._palette import FieldPalette
from handful.models._views import PANEL, view_of_pose, view_of_scene
from handful.render import (
    Camera,
    ColoredMesh,
    PictureStyle,
    arrow_mesh,
    arrows_mesh,
    ball_mesh,
    draw_picture,
    gripper_mesh,
    tile,
    visible_points,
)

_BEST_COLOR = (0.16, 0.42, 0.93)
_OTHER_COLOR = (0.48, 0.66, 0.95)
_KEY_ARROW = (0.32, 0.33, 0.36)
_QUERY_ARROW = (0.04, 0.04, 0.05)

_OTHER_OPACITY = 0.5
_MARK_OPACITY = 0.96
"""Of arrows and query points: less than 1, so that they show through what hides them."""

_CLOSE_UP = PictureStyle(hidden_opacity=0.45)
_FIELD = PictureStyle(hidden_opacity=0.75)

_DRAWN_POINTS = 35000
"""Points that a picture shows at most."""

_DRAWN_ROWS = 240
"""How many of them fit above each other, if there are not too many."""

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


def picture_of_inference(
    scene: PointCloud,
    poses: Float[np.ndarray, "poses 4 4"],
    gripper: Gripper,
    *,
    key: Field | None = None,
    queries: QueryPoints | None = None,
    grasp: PointCloud | None = None,
    best: int = 5,
    title: str = "",
    size: tuple[int, int] = PANEL,
) -> Image.Image:
    """A sheet: the best poses in the scene and close by, and the key field there.

    Args:
        scene: Scene cloud.
        poses: T_scene_gripper, best first.
        gripper: Its shape.
        key: The key field of the scene; without it there are only poses.
        queries: Drawn into the field at the best pose, as they should match it.
        grasp: What the gripper holds, in the gripper frame; drawn at the best pose.
        best: How many poses to draw.
        title: Over the sheet.
        size: Width and height of each picture, pixels.
    """
    panels = _panels_of_poses(scene, poses, gripper, grasp, best, size)
    if key is not None:
        camera = view_of_pose(scene, poses[0], gripper, grasp, with_hand=False, size=size)
        panels += _panels_of_field(scene, key, camera, None, queries, poses[0])
    images, captions = zip(*panels, strict=True)
    return tile(images, 2, captions, title)


def picture_of_poses(
    scene: PointCloud,
    poses: Float[np.ndarray, "poses 4 4"],
    gripper: Gripper,
    *,
    grasp: PointCloud | None = None,
    best: int = 5,
    title: str = "",
    size: tuple[int, int] = PANEL,
) -> Image.Image:
    """The scene with the best gripper poses, and a close-up of the best; see the sheet."""
    images, captions = zip(*_panels_of_poses(scene, poses, gripper, grasp, best, size), strict=True)
    return tile(images, 2, captions, title)


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
        *_panels_of_field(scene, key, camera, palette, queries, pose), strict=True
    )
    return tile(images, 2, captions, title)


def palette_of_field(*keys: Field) -> FieldPalette:
    """The palette that suits the values of fields at the points of their clouds best."""
    if not keys:
        raise OptionError("palette_of_field got no field: give one or more.")
    with torch.no_grad():
        values = [key(key.encoded.points) for key in keys]
    return FieldPalette.fit(torch.cat(values), keys[0].head.types)


# --- poses -------------------------------------------------------------------------------------


def _panels_of_poses(
    scene: PointCloud,
    poses: Float[np.ndarray, "poses 4 4"],
    gripper: Gripper,
    grasp: PointCloud | None,
    best: int,
    size: tuple[int, int],
) -> list[tuple[Image.Image, str]]:
    """Pictures with captions: the whole scene, and the best pose from near."""
    if best < 1 or not len(poses):
        raise OptionError(f"best is {best} of {len(poses)} poses: need one or more of each.")
    shown = poses[:best].astype(np.float64)
    held = [] if grasp is None else [grasp.transformed(shown[0])]
    hand = _hand(gripper)
    first = hand.transformed(shown[0])
    others = [hand.recolored(_OTHER_COLOR, _OTHER_OPACITY).transformed(pose) for pose in shown[1:]]
    camera = view_of_scene(scene, shown, gripper, size)
    whole = draw_picture([_drawable(scene, camera), *held], [first, *others], camera)
    near = draw_picture(
        [scene, *held],
        [first.recolored(first.color, 0.9)],
        view_of_pose(scene, shown[0], gripper, grasp, size=size),
        _CLOSE_UP,
    )
    number = f"The best {len(shown)} of {len(poses)} poses" if len(poses) > 1 else "The pose"
    holding = " with what it holds" if held else ""
    return [(whole, number), (near, f"The best pose{holding}")]


def _hand(gripper: Gripper) -> ColoredMesh:
    return gripper_mesh(gripper.tip, gripper.opening, gripper.axis, _BEST_COLOR)


# --- the field ---------------------------------------------------------------------------------


def _panels_of_field(
    scene: PointCloud,
    key: Field,
    camera: Camera,
    palette: FieldPalette | None,
    queries: QueryPoints | None,
    pose: Float[np.ndarray, "4 4"] | None,
) -> list[tuple[Image.Image, str]]:
    """Pictures with captions: the type-0 part, and the type-1 part if there is one."""
    palette = palette_of_field(key) if palette is None else palette
    seen = _drawable(scene, camera)
    height = _visible_height(seen, camera)
    coarse = _thinned(seen, height / _FIELD_ROWS, _FIELD_POINTS)
    with torch.no_grad():
        values = key(torch.tensor(coarse.points).to(key.encoded.points))
    colors = _interpolated(palette.colors(values), coarse.points, seen.points)
    balls: list[ColoredMesh] = []
    query_arrows: list[ColoredMesh] = []
    if queries is not None and pose is not None:
        balls, query_arrows = _query_meshes(queries, pose, palette, height)
    vivid = draw_picture([PointCloud(seen.points, colors)], balls, camera, _FIELD)
    panels = [(vivid, "Key field: type 0 as colours" + (", balls: query" if balls else ""))]
    if palette.vector_length > 0.0:
        pale = PointCloud(seen.points, 1.0 - _PALENESS * (1.0 - colors))
        front = visible_points(coarse.points, camera)
        arrows = _key_arrows(coarse.points[front], palette.arrows(values)[front], height)
        near = draw_picture([pale], [arrows, *balls, *query_arrows], camera, _FIELD)
        panels.append(
            (near, "Key field: type 1 as arrows" + (", black: query" if query_arrows else ""))
        )
    return panels


def _drawable(scene: PointCloud, camera: Camera) -> PointCloud:
    """The points that a camera sees; of too many, as many as a picture can show."""
    seen = _in_view(scene, camera)
    return _thinned(seen, _visible_height(seen, camera) / _DRAWN_ROWS, _DRAWN_POINTS)


def _in_view(scene: PointCloud, camera: Camera) -> PointCloud:
    """The points that a camera sees, or all if it sees fewer than two."""
    depth = camera.to_camera(scene.points)[:, 2]
    front = depth > 0.01
    pixel = camera.project(scene.points[front])
    view = camera.intrinsics
    inside = np.zeros(len(scene), dtype=bool)
    inside[front] = ((pixel > -0.5) & (pixel < [view.width, view.height])).all(axis=1)
    return scene.selected(inside) if inside.sum() >= 2 else scene


def _visible_height(seen: PointCloud, camera: Camera) -> float:
    """From the lowest to the highest row of the image, at the middle distance, metres."""
    distance = abs(float(np.median(camera.to_camera(seen.points)[:, 2])))
    return max(distance * camera.intrinsics.height / camera.intrinsics.fy, 1e-3)


def _thinned(cloud: PointCloud, voxel: float, most: int) -> PointCloud:
    """The cloud, or if it has more than `most` points one that has not, from a voxel filter."""
    thin = cloud
    while len(thin) > most and voxel < cloud.extent.max():
        thin = voxel_filter(cloud, voxel)
        voxel *= 1.25
    return thin


def _interpolated(
    values: Float[np.ndarray, "known 3"],
    known: Float[np.ndarray, "known 3"],
    wanted: Float[np.ndarray, "wanted 3"],
) -> Float[np.ndarray, "wanted 3"]:
    """Means of the three nearest values, the nearer the heavier."""
    distance, which = cKDTree(known).query(wanted, k=range(1, min(3, len(known)) + 1))
    weight = 1.0 / (distance**2 + 1e-10)
    weight /= weight.sum(axis=1, keepdims=True)
    return np.einsum("nk,nkc->nc", weight, values[which])


def _key_arrows(
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


def _query_meshes(
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
