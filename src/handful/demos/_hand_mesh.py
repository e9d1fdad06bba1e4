"""Closed surfaces of a hand: which points are inside, and the mesh files that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from handful.errors import DemoError, errors_at
from handful.render import read_mesh_file

MESH_KINDS = (".obj", ".stl", ".ply")
MAX_FACES = 20_000
MAX_REACH = 2.0
"""Metres: no part of a hand is farther from the gripper's origin."""

_FACES_AT_ONCE = 256
_RAY = np.array([0.7548776662, 0.5698402910, 0.3247179572])
"""Direction of the rays that count crossings; no symmetry of a usual mesh has it."""


@dataclass(frozen=True)
class HandMesh:
    """One connected closed surface that does not move with the fingers, in the gripper frame.

    Attributes:
        vertices: Metres. Every vertex belongs to a face.
        faces: Three indices each. Every edge belongs to exactly two faces.
    """

    vertices: tuple[tuple[float, ...], ...]
    faces: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not 4 <= len(self.faces) <= MAX_FACES or {len(f) for f in self.faces} != {3}:
            raise DemoError(
                f"a hand's mesh has {len(self.faces)} faces: need 4 to {MAX_FACES} triangles."
            )
        if {len(v) for v in self.vertices} != {3} or not np.isfinite(self.vertices).all():
            raise DemoError("a hand's mesh needs vertices of three finite numbers.")
        faces = np.array(self.faces)
        if faces.min() < 0 or faces.max() >= len(self.vertices):
            raise DemoError("a hand's mesh names vertices that it does not have.")
        if len(np.unique(faces)) != len(self.vertices):
            raise DemoError("a hand's mesh has vertices that belong to no face: leave them out.")
        farthest = float(np.abs(self.vertices).max())
        if farthest > MAX_REACH:
            raise DemoError(
                f"a hand's mesh reaches {farthest:.4g} m from the gripper's origin: need at most "
                f"{MAX_REACH:g} m. Give it in metres."
            )
        if not _is_closed(faces):
            raise DemoError("a hand's mesh is not closed: every edge must belong to two faces.")
        if _part_of_face(faces).max() > 0:
            raise DemoError("a hand's mesh has several parts: make one mesh of each.")

    def surface(self) -> tuple[Float[np.ndarray, "vertices 3"], Int[np.ndarray, "faces 3"]]:
        """Vertices and triangles, gripper frame."""
        return np.array(self.vertices, dtype=np.float64), np.array(self.faces)

    def contains(
        self, points: Float[np.ndarray, "points 3"], margin: float = 0.0
    ) -> Bool[np.ndarray, "points"]:
        """Which points are inside, or at most `margin` metres outside.

        With a negative margin only points that are deeper inside than that count.

        Args:
            points: In the gripper frame, metres.
            margin: Distance to the surface, metres.
        """
        vertices, faces = self.surface()
        inside = np.zeros(len(points), dtype=bool)
        reach = max(margin, 0.0)
        low, high = vertices.min(axis=0) - reach, vertices.max(axis=0) + reach
        (near,) = np.nonzero(((points >= low) & (points <= high)).all(axis=1))
        if not len(near):
            return inside
        inside[near] = _crossings(points[near], vertices, faces) % 2 == 1
        if margin != 0.0:
            touching = _within(points[near], vertices[faces], abs(margin))
            inside[near] = inside[near] | touching if margin > 0.0 else inside[near] & ~touching
        return inside


def read_hand_meshes(path: Path) -> tuple[HandMesh, ...]:
    """The connected closed parts of a mesh file, metres, gripper frame.

    Only the bytes of this one file are read: materials and textures that it names are not.

    Args:
        path: An OBJ, STL or PLY file.

    Raises:
        FileFormatError: It cannot be read, or is too large.
        DemoError: It is not the surface of a hand.
    """
    mesh = read_mesh_file(path, MESH_KINDS)
    if not 4 <= len(mesh.faces) <= MAX_FACES:
        raise DemoError(f"{path}: has {len(mesh.faces)} faces: need 4 to {MAX_FACES}.")
    if not _is_closed(np.asarray(mesh.faces)):
        mesh.merge_vertices(merge_tex=True, merge_norm=True)
        mesh.update_faces(mesh.nondegenerate_faces())
    with errors_at(path):
        return hand_meshes(np.asarray(mesh.vertices), np.asarray(mesh.faces))


def hand_meshes(
    vertices: Float[np.ndarray, "vertices 3"], faces: Int[np.ndarray, "faces 3"]
) -> tuple[HandMesh, ...]:
    """The connected parts of a surface, each a mesh of its own, in the order of their faces."""
    part_of_face = _part_of_face(faces)
    parts = []
    for part in range(part_of_face.max(initial=-1) + 1):
        used, renumbered = np.unique(faces[part_of_face == part], return_inverse=True)
        corners = tuple(tuple(row) for row in vertices[used].tolist())
        triangles = tuple(tuple(row) for row in renumbered.reshape(-1, 3).tolist())
        parts.append(HandMesh(corners, triangles))
    return tuple(parts)


def obj_text(meshes: tuple[HandMesh, ...]) -> str:
    """An OBJ file of the meshes, which `read_hand_meshes` reads back number for number."""
    lines, first = [], 1
    for mesh in meshes:
        lines += ["v " + " ".join(map(repr, map(float, vertex))) for vertex in mesh.vertices]
        lines += ["f " + " ".join(str(first + index) for index in face) for face in mesh.faces]
        first += len(mesh.vertices)
    return "\n".join(lines) + "\n"


def _edges(faces: Int[np.ndarray, "faces 3"]) -> Int[np.ndarray, "edges 2"]:
    """The three edges of every face, each from its lower to its higher vertex."""
    return np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)


def _is_closed(faces: Int[np.ndarray, "faces 3"]) -> bool:
    edges = _edges(faces)
    counts = np.unique(edges, axis=0, return_counts=True)[1]
    return bool((counts == 2).all() and (edges[:, 0] != edges[:, 1]).all())


def _part_of_face(faces: Int[np.ndarray, "faces 3"]) -> Int[np.ndarray, "faces"]:
    """Which connected part each face belongs to; faces are connected over shared edges.

    An edge of two faces connects them. An edge of more faces connects none: there two parts touch.
    Parts are numbered in the order of their first faces.
    """
    edge = np.unique(_edges(faces), axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(edge, kind="stable")
    owner = order // 3
    start = np.flatnonzero(np.concatenate([[True], np.diff(edge[order]) > 0]))
    pair = start[np.diff(np.append(start, len(order))) == 2]
    links = coo_array(
        (np.ones(len(pair)), (owner[pair], owner[pair + 1])), shape=(len(faces), len(faces))
    )
    labels = connected_components(links, directed=False)[1]
    first = np.unique(labels, return_index=True)[1]
    return np.argsort(np.argsort(first))[labels]


def _pairs(
    points: Float[np.ndarray, "points d"],
    middles: Float[np.ndarray, "faces d"],
    radii: Float[np.ndarray, "faces"],
) -> Iterator[tuple[Int[np.ndarray, "pairs"], Int[np.ndarray, "pairs"]]]:
    """Pairs of a point and a face whose bounding ball holds the point, some faces at a time."""
    tree = cKDTree(points)
    for begin in range(0, len(middles), _FACES_AT_ONCE):
        some = slice(begin, begin + _FACES_AT_ONCE)
        found = tree.query_ball_point(middles[some], radii[some] * (1.0 + 1e-9) + 1e-12)
        counts = [len(one) for one in found]
        if sum(counts):
            yield (
                np.concatenate([np.asarray(one, dtype=np.int64) for one in found]),
                begin + np.repeat(np.arange(len(counts)), counts),
            )


def _balls(
    triangles: Float[np.ndarray, "faces 3 d"],
) -> tuple[Float[np.ndarray, "faces d"], Float[np.ndarray, "faces"]]:
    """Middle and radius of a ball around each triangle."""
    middles = triangles.mean(axis=1)
    return middles, np.linalg.norm(triangles - middles[:, None], axis=2).max(axis=1)


def _crossings(
    points: Float[np.ndarray, "points 3"],
    vertices: Float[np.ndarray, "vertices 3"],
    faces: Int[np.ndarray, "faces 3"],
) -> Int[np.ndarray, "points"]:
    """How many faces a ray from each point crosses.

    All rays are parallel, so that they are points of the plane across them. There each edge is
    compared from its lower to its higher vertex: its two faces agree on which side a point is, and
    a ray through an edge crosses exactly one of them.
    """
    across = np.linalg.svd(_RAY[None])[2][1:]
    axes = np.stack([*across, _RAY / np.linalg.norm(_RAY)])
    flat, corners = points @ axes.T, (vertices @ axes.T)
    count = np.zeros(len(points), dtype=np.int64)
    for point, face in _pairs(flat[:, :2], *_balls(corners[faces][..., :2])):
        at, corner = flat[point], corners[faces[face]]
        odd = np.zeros(len(point), dtype=bool)
        for one, two in ((0, 1), (1, 2), (2, 0)):
            ordered = faces[face, one] < faces[face, two]
            a = np.where(ordered[:, None], corner[:, one], corner[:, two])
            b = np.where(ordered[:, None], corner[:, two], corner[:, one])
            spans = (a[:, 1] > at[:, 1]) != (b[:, 1] > at[:, 1])
            rise = np.where(spans, b[:, 1] - a[:, 1], 1.0)
            right = at[:, 0] < a[:, 0] + (at[:, 1] - a[:, 1]) / rise * (b[:, 0] - a[:, 0])
            odd ^= spans & right
        normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        ahead = np.einsum("pi,pi->p", corner[:, 0] - at, normal) * np.sign(normal[:, 2]) > 0
        np.add.at(count, point[odd & ahead], 1)
    return count


def _within(
    points: Float[np.ndarray, "points 3"],
    triangles: Float[np.ndarray, "faces 3 3"],
    distance: float,
) -> Bool[np.ndarray, "points"]:
    """Which points are at most `distance` metres from a triangle."""
    from trimesh.triangles import closest_point

    close = np.zeros(len(points), dtype=bool)
    middles, radii = _balls(triangles)
    for point, face in _pairs(points, middles, radii + distance):
        nearest = closest_point(triangles[face], points[point])
        gap = np.linalg.norm(nearest - points[point], axis=1)
        close[point[gap <= distance]] = True
    return close
