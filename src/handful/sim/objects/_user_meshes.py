"""Users' objects: meshes, taken apart by CoACD once and remembered."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from jaxtyping import Float

from handful._files import atomic_write_bytes
from handful.errors import FileFormatError, OptionError, unknown_name_message
from handful.render import ColoredMesh
from handful.sim._errors import ObjectRefusedError, load_extra
from handful.sim.objects._draws import random_color
from handful.sim.objects._parts import Part, Thing
from handful.sim.objects._surface import find_handle, find_neck, find_rim

SUFFIXES = (".obj", ".stl", ".ply", ".glb")
SMALLEST, LARGEST = 0.03, 0.35
"""Metres: least and most height or width of an object for this gripper and table."""
DENSITY = 1100.0
"""kg / m^3 of closed meshes; open ones are taken as shells of 3 mm."""
_SAMPLES = 250_000
_RECIPE = "coacd-2 threshold=0.04 nodes=10 iterations=40 depth=2 resolution=1000 remesh=45"
"""Part of the cache's key: other settings are other pieces."""

Corners = list[Float[np.ndarray, "corners 3"]]


@dataclass(frozen=True)
class Refused:
    """A mesh that cannot be used, and why."""

    path: Path
    reason: str


def read_things(
    folder: Path, task: str, on_progress: Callable[[str], None] | None = None
) -> tuple[list[tuple[Path, Thing]], list[Refused]]:
    """Every mesh of a folder (or one file) that has what a task's oracle must know.

    Args:
        folder: With OBJ, STL, PLY or GLB files, in metres, z up.
        task: `mug`, `bowl` or `bottle`: decides what must be found.
        on_progress: Told the name of each mesh before it is read.

    Raises:
        OptionError: There is nothing to read.
    """
    if not folder.exists():
        raise OptionError(f"{folder}: does not exist; give a folder of meshes or one mesh.")
    files = [folder] if folder.is_file() else sorted(folder.iterdir())
    meshes = [path for path in files if path.suffix.lower() in SUFFIXES]
    if not meshes:
        raise OptionError(f"{folder}: holds no mesh; need {', '.join(SUFFIXES)}.")
    things, refused = [], []
    for path in meshes:
        if on_progress is not None:
            on_progress(path.name)
        try:
            things.append((path, load_thing(path, task)))
        except (ObjectRefusedError, FileFormatError) as error:
            refused.append(Refused(path, str(error)))
    return things, refused


def load_thing(path: Path, task: str) -> Thing:
    """One mesh as an object.

    Raises:
        FileFormatError: It cannot be read.
        ObjectRefusedError: It lacks what the task needs, with the reason.
    """
    if task not in ("mug", "bowl", "bottle"):
        raise OptionError(unknown_name_message("task", task, ("mug", "bowl", "bottle")))
    mesh = _read(path)
    name = path.stem
    size = mesh.extents
    if size.max() > LARGEST or size.max() < SMALLEST:
        raise ObjectRefusedError(
            f"{name}: it is {size.max():.3g} m large; need {SMALLEST} to {LARGEST} m (metres, z "
            "up)."
        )
    points = np.asarray(trimesh.sample.sample_surface(mesh, _SAMPLES, seed=0)[0], dtype=np.float64)
    rim = handle = neck = None
    if task in ("mug", "bowl"):
        rim = find_rim(points, name)
    if task == "mug":
        handle = find_handle(points, name)
    if task == "bottle":
        neck = find_neck(points, name)
    parts = tuple(Part("convex", (), np.eye(4), corners) for corners in convex_pieces(mesh))
    color = random_color(np.random.default_rng(int(_key(mesh)[:8], 16)))
    look = ColoredMesh.from_trimesh(mesh, color)
    return Thing(name, (look,), parts, _mass(mesh), rim, handle, neck)


def convex_pieces(mesh: trimesh.Trimesh) -> Corners:
    """CoACD's convex pieces of a mesh, from the cache when it was taken apart before."""
    place = cache_folder() / f"{_key(mesh)}.npz"
    if place.exists():
        try:
            with np.load(place, allow_pickle=False) as stored:
                return [stored[name].astype(np.float64) for name in stored.files]
        except (OSError, ValueError, KeyError):
            place.unlink(missing_ok=True)
    coacd = load_extra("coacd")
    coacd.set_log_level("error")
    # Remeshing first closes holes and takes a quarter of the time on fine meshes.
    pieces = coacd.run_coacd(
        coacd.Mesh(mesh.vertices, mesh.faces), threshold=0.04, mcts_nodes=10, mcts_iterations=40,
        mcts_max_depth=2, resolution=1000, preprocess_mode="on", preprocess_resolution=45, seed=0,
    )  # fmt: skip
    corners: Corners = [np.asarray(vertices, dtype=np.float64) for vertices, _ in pieces]
    corners = [piece for piece in corners if _solid(piece)]
    buffer = BytesIO()
    arrays: dict[str, Any] = {f"piece{n}": piece for n, piece in enumerate(corners)}
    np.savez_compressed(buffer, **arrays)
    place.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_bytes(place, buffer.getvalue())
    return corners


def cache_folder() -> Path:
    """Where pieces are kept: `$XDG_CACHE_HOME/handful/coacd`, or under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "handful" / "coacd"


def _read(path: Path) -> trimesh.Trimesh:
    try:
        mesh: Any = trimesh.load(path, force="mesh", process=True)
        usable = isinstance(mesh, trimesh.Trimesh) and len(mesh.faces) >= 4
    except Exception as error:  # trimesh's readers raise whatever their parsers raise
        raise FileFormatError(f"{path}: cannot be read as a mesh: {error}.") from error
    if not usable or not np.isfinite(mesh.vertices).all():
        raise FileFormatError(f"{path}: holds no triangles with finite corners.")
    mesh.vertices = mesh.vertices - [0.0, 0.0, mesh.vertices[:, 2].min()]
    middle = (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0)) / 2
    mesh.vertices = mesh.vertices - [middle[0], middle[1], 0.0]
    return mesh


def _key(mesh: trimesh.Trimesh) -> str:
    digest = hashlib.sha256(_RECIPE.encode())
    digest.update(np.ascontiguousarray(mesh.vertices, dtype="<f8").tobytes())
    digest.update(np.ascontiguousarray(mesh.faces, dtype="<i8").tobytes())
    return digest.hexdigest()


def _mass(mesh: trimesh.Trimesh) -> float:
    """Kilograms, within what a table-top object can weigh."""
    volume = float(mesh.volume) if mesh.is_watertight else float(mesh.area) * 0.003
    return float(np.clip(DENSITY * abs(volume), 0.05, 0.5))


def _solid(corners: Float[np.ndarray, "corners 3"]) -> bool:
    """Whether a piece has volume, as the physics needs."""
    if len(corners) < 4:
        return False
    return bool(np.linalg.svd(corners - corners.mean(axis=0), compute_uv=False)[2] > 1e-5)
