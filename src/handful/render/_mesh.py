"""`ColoredMesh`: triangles of one colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from handful.errors import GeometryError

Color = tuple[float, float, float]
"""Red, green and blue in [0, 1]."""


@dataclass(frozen=True, eq=False)
class ColoredMesh:
    """Triangles of one colour, in metres.

    Attributes:
        vertices: Corners [vertices, 3], metres.
        faces: Three vertex numbers per triangle [faces, 3].
        color: Red, green and blue in [0, 1].
        opacity: 1 hides what is behind, 0 is invisible. Only `draw_picture` looks at it.
    """

    vertices: Float[np.ndarray, "vertices 3"]
    faces: Int[np.ndarray, "faces 3"]
    color: Color
    opacity: float = 1.0

    def __post_init__(self) -> None:
        if not np.isfinite(self.vertices).all():
            raise GeometryError("mesh vertices hold NaN or infinity: need finite metres.")
        count = len(self.vertices)
        if self.faces.size and not (self.faces.min() >= 0 and self.faces.max() < count):
            raise GeometryError(
                f"mesh faces name vertices {self.faces.min()}..{self.faces.max()}: there are "
                f"{count}, numbered from 0."
            )
        for value in (*self.color, self.opacity):
            if not 0.0 <= value <= 1.0:
                raise GeometryError(f"mesh colour or opacity is {value}: need 0 to 1.")

    @classmethod
    def from_trimesh(cls, mesh: Any, color: Color, opacity: float = 1.0) -> ColoredMesh:
        """The triangles of a `trimesh.Trimesh` in one colour."""
        vertices = np.array(mesh.vertices, dtype=np.float64).reshape(-1, 3)
        faces = np.array(mesh.faces, dtype=np.int64).reshape(-1, 3)
        return cls(vertices, faces, color, opacity)

    @property
    def triangles(self) -> Float[np.ndarray, "faces 3 3"]:
        """The three corners of each triangle, metres."""
        return self.vertices[self.faces]

    def transformed(self, transform: Shaped[np.ndarray, "4 4"]) -> ColoredMesh:
        """The mesh moved by a rigid motion [4, 4]."""
        moved = self.vertices @ transform[:3, :3].T + transform[:3, 3]
        return replace(self, vertices=moved)

    def recolored(self, color: Color, opacity: float = 1.0) -> ColoredMesh:
        """The same triangles in another colour."""
        return replace(self, color=color, opacity=opacity)


def joined(meshes: Sequence[ColoredMesh]) -> ColoredMesh:
    """One mesh of all triangles, with the colour and opacity of the first."""
    if not meshes:
        raise GeometryError("joined needs at least one mesh; got none.")
    starts = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes[:-1]])
    return ColoredMesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.faces + start for mesh, start in zip(meshes, starts, strict=True)]),
        meshes[0].color,
        meshes[0].opacity,
    )


def face_normals(triangles: Float[np.ndarray, "faces 3 3"]) -> Float[np.ndarray, "faces 3"]:
    """Unit normals; zero where a triangle has no area."""
    normal = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return np.divide(normal, length, out=np.zeros_like(normal), where=length > 0)


def surface_points(
    triangles: Float[np.ndarray, "faces 3 3"], count: int
) -> Float[np.ndarray, "count 3"]:
    """Points spread evenly over triangles by their areas, the same ones each time."""
    one, two = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    area = np.linalg.norm(np.cross(one, two), axis=1)
    rng = np.random.default_rng(0)
    which = rng.choice(len(area), count, p=area / area.sum())
    share = rng.dirichlet(np.ones(3), size=count)
    return np.einsum("nk,nkx->nx", share, triangles[which])
