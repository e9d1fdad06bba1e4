"""Mesh files of users: the bytes of one file, nothing that it refers to, within limits."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from handful._files import read_bytes
from handful.errors import FileFormatError

if TYPE_CHECKING:
    from trimesh import Trimesh

MAX_MESH_BYTES = 20 * 10**6
"""Of one file: what is parsed of it takes up to twenty times as much."""
MAX_FACES = 400_000
"""More than any scan of a table-top object needs."""


def read_mesh_file(path: Path, kinds: tuple[str, ...], process: bool = False) -> Trimesh:
    """The triangles of a mesh file.

    Only the bytes of this one file are read: materials, textures and buffers that it names are not.

    Args:
        path: The file.
        kinds: Extensions that are read, for example `.obj`.
        process: Merge vertices that are alike, as `trimesh` does.

    Raises:
        FileFormatError: It cannot be read, is too large, or holds no triangles with finite corners.
    """
    import trimesh

    kind = path.suffix.lower()
    if kind not in kinds:
        raise FileFormatError(f"{path}: need a mesh file, {', '.join(kinds)}.")
    data = read_bytes(path, MAX_MESH_BYTES)
    if kind == ".obj" and data.count(b"\nf") > MAX_FACES:  # parsing takes 0.4 kB for each
        raise FileFormatError(f"{path}: has more than {MAX_FACES:,} faces: simplify it.")
    options: dict[str, Any] = {"skip_materials": True} if kind == ".obj" else {}
    try:
        with np.errstate(all="ignore"):
            mesh: Any = trimesh.load(
                io.BytesIO(data), file_type=kind[1:], force="mesh", process=process, **options
            )
            mesh = mesh if isinstance(mesh, trimesh.Trimesh) else mesh.to_mesh()
            usable = len(mesh.faces) and mesh.vertices.shape[1] == 3
            usable = usable and np.isfinite(mesh.vertices).all()
            usable = usable and mesh.faces.min() >= 0 and mesh.faces.max() < len(mesh.vertices)
    except Exception as error:  # trimesh's readers raise whatever their parsers raise
        reason = str(error)[:200] or type(error).__name__
        raise FileFormatError(f"{path}: cannot be read as a mesh: {reason}.") from error
    if not usable:
        raise FileFormatError(f"{path}: holds no triangles with finite corners.")
    return mesh
