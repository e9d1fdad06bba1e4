"""The stage: what a room shows, drawn on the pages and kept here, so that it can be saved.

The page's points are 16-bit numbers, which are 0.2 mm rough at half a metre. Clouds are cut into
small blocks, each with a place of its own in double precision: its points are then within 0.02 mm.
Blocks that did not change are not sent again: a page would build its drawing of them anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from scipy.spatial import cKDTree
from viser import PointCloudHandle, SceneApi, SceneNodeHandle, TransformControlsHandle

from handful.clouds import PointCloud
from handful.geometry import poses_from_wxyz_xyz, poses_to_wxyz_xyz
from handful.render import ColoredMesh, height_colors

Pose = Float[np.ndarray, "4 4"]

BLOCK = 0.125
"""Edge of the blocks that clouds are cut into, metres; more where a scene is wider than twelve."""
MOST_BLOCKS = 12
"""Along each side of a scene, about."""
ROUNDED = 0.01
"""Larger edges are multiples of this, metres."""
LEAST_SIZE, MOST_SIZE = 0.0008, 0.012
"""Of a point on the page, metres."""


@dataclass(frozen=True, eq=False)
class Contents:
    """What is shown, scene frame; and pictures of the panel."""

    clouds: tuple[PointCloud, ...]
    meshes: tuple[ColoredMesh, ...]
    pictures: tuple[Image.Image, ...] = ()


class Stage:
    """One room's part of the pages' scene.

    Things have names like paths: what is below a group or a gizmo moves with it.

    Args:
        scene: Of the pages.
        root: Name of the room's part.

    Attributes:
        pictures: What the room's panel shows besides: curves, or a film.
    """

    def __init__(self, scene: SceneApi, root: str) -> None:
        self._scene, self._root = scene, f"/{root}"
        self._nodes: dict[str, list[SceneNodeHandle]] = {}
        self._sent: dict[str, tuple[bytes, PointCloudHandle]] = {}
        self._things: dict[str, PointCloud | ColoredMesh | None] = {}
        self._poses: dict[str, Pose] = {}
        self._hidden: set[str] = set()
        self.pictures: tuple[Image.Image, ...] = ()
        self._base = scene.add_frame(self._root, show_axes=False)

    # --- showing ---------------------------------------------------------------------------

    def show(self, visible: bool) -> None:
        """Show or hide everything."""
        self._base.visible = visible

    def cloud(self, name: str, cloud: PointCloud, size: float | None = None) -> None:
        """Show a cloud; one of that name is replaced.

        Args:
            name: Its name.
            cloud: The cloud; by height where it has no colours.
            size: Of its points, metres; that of the gaps between them if not given.
        """
        colors = height_colors(cloud.points) if cloud.colors is None else cloud.colors
        wide = point_size(cloud.points) if size is None else size
        new: list[SceneNodeHandle] = []
        for cell, center, some in blocks(cloud.points):
            node_name = f"{self._root}/{name}/block{'_'.join(map(str, cell))}"
            points = (cloud.points[some].astype(np.float64) - center).astype(np.float32)
            shades = (colors[some] * 255.0).round().astype(np.uint8)
            new.append(self._block(node_name, center, points, shades, wide))
        self._replace(name, new, cloud)

    def _block(
        self,
        name: str,
        center: Float[np.ndarray, "3"],
        points: Float[np.ndarray, "points 3"],
        colors: UInt8[np.ndarray, "points 3"],
        size: float,
    ) -> PointCloudHandle:
        """Points around a place; what the pages have already is kept."""
        digest = hashlib.blake2b(points.tobytes() + colors.tobytes() + center.tobytes()).digest()
        known, node = self._sent.get(name, (b"", None))
        if node is None or known != digest:
            node = self._scene.add_point_cloud(
                name,
                points=points,
                colors=colors,
                point_size=size,
                point_shape="rounded",
                position=center,
            )
            self._sent[name] = digest, node
        elif node.point_size != size:
            node.point_size = size
        return node

    def mesh(self, name: str, mesh: ColoredMesh) -> None:
        """Show a mesh; one of that name is replaced."""
        node = self._scene.add_mesh_simple(
            f"{self._root}/{name}",
            vertices=mesh.vertices.astype(np.float32),
            faces=mesh.faces.astype(np.uint32),
            color=mesh.color,
            opacity=None if mesh.opacity >= 1.0 else mesh.opacity,
            flat_shading=True,
            side="double",
        )
        self._replace(name, [node], mesh)

    def label(self, name: str, words: str, position: Float[np.ndarray, "3"]) -> None:
        """Words at a place; pictures and pages that are saved do not have them."""
        node = self._scene.add_label(f"{self._root}/{name}", words, position=position)
        self._replace(name, [node], None)

    def group(self, name: str, pose: Pose) -> None:
        """A frame for what is below it."""
        position, wxyz = _parts(pose)
        node = self._scene.add_frame(
            f"{self._root}/{name}", show_axes=False, position=position, wxyz=wxyz
        )
        self._poses[name] = pose.copy()
        self._replace(name, [node], None)

    def gizmo(self, name: str, pose: Pose, size: float, on_move: Callable[[Pose], None]) -> None:
        """A frame that people drag with the mouse, for what is below it.

        Args:
            name: Its name.
            pose: Where it is.
            size: Length of its arrows, metres.
            on_move: Told the pose at every move; called in any thread.
        """
        position, wxyz = _parts(pose)
        node = self._scene.add_transform_controls(
            f"{self._root}/{name}",
            scale=size,
            line_width=3.0,
            depth_test=False,
            opacity=0.9,
            position=position,
            wxyz=wxyz,
        )

        def moved(handle: TransformControlsHandle) -> None:
            both = np.concatenate([handle.wxyz, handle.position]).astype(np.float64)
            if np.isfinite(both).all() and np.linalg.norm(both[:4]) > 0.5:
                both[:4] /= np.linalg.norm(both[:4])
                new = poses_from_wxyz_xyz(torch.from_numpy(both)).numpy()
                self._poses[name] = new
                on_move(new)

        node.on_update(moved)
        self._poses[name] = pose.copy()
        self._replace(name, [node], None)

    def place(self, name: str, pose: Pose) -> None:
        """Move a group or a gizmo."""
        self._poses[name] = pose.copy()
        position, wxyz = _parts(pose)
        for node in self._nodes[name]:
            node.position = position
            node.wxyz = wxyz

    def visible(self, name: str, visible: bool) -> None:
        """Show or hide one thing and what is below it."""
        (self._hidden.discard if visible else self._hidden.add)(name)
        for node in self._nodes.get(name, []):
            node.visible = visible

    def remove(self, name: str) -> None:
        """Take a thing away, and what is below it."""
        for one in [one for one in self._nodes if one == name or one.startswith(f"{name}/")][::-1]:
            for node in self._nodes.pop(one):
                self._drop(node)
            self._things.pop(one, None)
            self._poses.pop(one, None)
            self._hidden.discard(one)

    def has(self, name: str) -> bool:
        """Whether there is something of that name."""
        return name in self._nodes

    def clear(self) -> None:
        """Take everything away."""
        for name in {name.split("/")[0] for name in self._nodes}:
            self.remove(name)

    def _replace(
        self, name: str, new: list[SceneNodeHandle], thing: PointCloud | ColoredMesh | None
    ) -> None:
        kept = {node.name for node in new}
        for node in self._nodes.get(name, []):
            if node.name not in kept:
                self._drop(node)
        self._nodes[name], self._things[name] = new, thing
        if name in self._hidden:
            self.visible(name, False)

    def _drop(self, node: SceneNodeHandle) -> None:
        self._sent.pop(node.name, None)
        node.remove()

    # --- looking ---------------------------------------------------------------------------

    def contents(self) -> Contents:
        """What is shown now, in the scene frame."""
        clouds, meshes = [], []
        for name, thing in self._things.items():
            parts = name.split("/")
            above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
            if thing is None or any(one in self._hidden for one in above):
                continue
            pose = np.eye(4)
            for one in above:
                pose = pose @ self._poses.get(one, np.eye(4))
            if isinstance(thing, PointCloud):
                clouds.append(thing.transformed(pose))
            else:
                meshes.append(thing.transformed(pose))
        return Contents(tuple(clouds), tuple(meshes), self.pictures)


def blocks(
    points: Float[np.ndarray, "points 3"],
) -> list[tuple[tuple[int, int, int], Float[np.ndarray, "3"], Int[np.ndarray, "some"]]]:
    """The occupied blocks of a grid: cell, middle, and the numbers of the points in it.

    The grid is fixed in space, and its edge is a whole number of centimetres above `BLOCK`: a cloud
    with some points more or less has nearly all of its blocks in common with the one before.
    """
    wide = float(np.ptp(points.astype(np.float64), axis=0).max())
    edge = max(BLOCK, np.ceil(wide / MOST_BLOCKS / ROUNDED) * ROUNDED)
    cell = np.floor(points.astype(np.float64) / edge).astype(np.int64)
    order = np.lexsort(cell.T[::-1])
    new = (np.diff(cell[order], axis=0) != 0).any(axis=1)
    found = []
    for some in np.split(order, np.flatnonzero(new) + 1):
        x, y, z = cell[some[0]].tolist()
        found.append(((x, y, z), (cell[some[0]] + 0.5) * edge, some))
    return found


def point_size(points: Float[np.ndarray, "points 3"]) -> float:
    """A size for points that closes the gaps between them, metres."""
    few = points[:: max(1, len(points) // 500)]
    gap = cKDTree(points).query(few, k=min(5, len(points)))[0][:, -1]
    return float(np.clip(0.75 * np.median(gap), LEAST_SIZE, MOST_SIZE))


def _parts(pose: Pose) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "4"]]:
    """Position and quaternion."""
    both = poses_to_wxyz_xyz(torch.from_numpy(np.ascontiguousarray(pose, dtype=np.float64)))
    return both[4:].numpy(), both[:4].numpy()
