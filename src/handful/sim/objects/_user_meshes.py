"""Users' objects: meshes, taken apart by CoACD once and remembered."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from handful._files import atomic_write_bytes, make_folder, remove_file
from handful.clouds import read_arrays
from handful.errors import FileFormatError, HandfulError, OptionError, unknown_name_message
from handful.render import MAX_FACES, ColoredMesh, read_mesh_file
from handful.sim._errors import ObjectRefusedError, load_extra
from handful.sim.objects._decompose import MOST_SECONDS, NotTakenApart, take_apart
from handful.sim.objects._draws import random_color
from handful.sim.objects._parts import Part, Thing
from handful.sim.objects._surface import find_handle, find_neck, find_rim

if TYPE_CHECKING:
    import trimesh

SUFFIXES = (".obj", ".stl", ".ply", ".glb")
SMALLEST, LARGEST = 0.03, 0.35
"""Metres: least and most height or width of an object for this gripper and table."""
FARTHEST = 1_000.0
"""Metres from the file's origin; what is farther loses its shape to rounding."""
SMALLEST_AREA = 1e-5
"""Square metres of a surface that points can be drawn from."""
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
        FileFormatError: There is nothing to read.
    """
    if not folder.exists():
        raise FileFormatError(f"{folder}: does not exist; give a folder of meshes or one mesh.")
    files = [folder] if folder.is_file() else sorted(folder.iterdir())
    meshes = [path for path in files if path.suffix.lower() in SUFFIXES]
    if not meshes:
        raise FileFormatError(f"{folder}: holds no mesh; need {', '.join(SUFFIXES)}.")
    things, refused = [], []
    for path in meshes:
        if on_progress is not None:
            on_progress(path.name)
        try:
            things.append((path, load_thing(path, task, on_progress)))
        except (ObjectRefusedError, FileFormatError) as error:
            refused.append(Refused(path, str(error)))
    return things, refused


def load_thing(path: Path, task: str, on_progress: Callable[[str], None] | None = None) -> Thing:
    """One mesh as an object.

    Args:
        path: An OBJ, STL, PLY or GLB file, metres, z up.
        task: As for `read_things`.
        on_progress: Told once a second how long the mesh is being taken apart.

    Raises:
        FileFormatError: It cannot be read.
        ObjectRefusedError: It lacks what the task needs, with the reason.
    """
    import trimesh

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
    parts = tuple(Part("convex", (), np.eye(4), one) for one in _pieces(mesh, path, on_progress))
    color = random_color(np.random.default_rng(int(_key(mesh)[:8], 16)))
    look = ColoredMesh.from_trimesh(mesh, color)
    return Thing(name, (look,), parts, _mass(mesh), rim, handle, neck)


def _pieces(
    mesh: trimesh.Trimesh, path: Path, on_progress: Callable[[str], None] | None
) -> Corners:
    """The convex pieces of a mesh; there is at least one."""

    def tell(seconds: float) -> None:
        if on_progress is not None:
            on_progress(f"{path.name}: taken apart for {seconds:.0f} s of at most {MOST_SECONDS:g}")

    try:
        pieces = convex_pieces(mesh, tell)
    except ObjectRefusedError as error:
        raise ObjectRefusedError(f"{path.stem}: {error}") from error
    if not pieces:
        raise ObjectRefusedError(f"{path.stem}: it has no solid part.")
    return pieces


def convex_pieces(
    mesh: trimesh.Trimesh, on_second: Callable[[float], None] | None = None
) -> Corners:
    """CoACD's convex pieces of a mesh, from the cache when it was taken apart before.

    Args:
        mesh: The mesh, metres.
        on_second: Told how long it takes, once a second.

    Raises:
        ObjectRefusedError: It cannot be taken apart, or takes too long.
        FileFormatError: The pieces cannot be kept.
    """
    place = cache_folder() / f"{_key(mesh)}.npz"
    known = _remembered(place)
    if known is not None:
        return known
    load_extra("coacd")
    try:
        found = take_apart(mesh.vertices, mesh.faces, on_second)
    except NotTakenApart as error:
        raise ObjectRefusedError(str(error)) from error
    corners: Corners = [np.asarray(piece, dtype=np.float64) for piece in found]
    corners = [piece for piece in corners if _solid(piece)]
    buffer = BytesIO()
    arrays: dict[str, Any] = {f"piece{n}": piece for n, piece in enumerate(corners)}
    np.savez_compressed(buffer, **arrays)
    make_folder(place.parent)
    atomic_write_bytes(place, buffer.getvalue())
    return corners


def _remembered(place: Path) -> Corners | None:
    """Pieces of the cache; None if there are none, or if the file holds something else."""
    if not place.is_file():
        return None
    try:
        pieces = [piece.astype(np.float64) for piece in read_arrays(place).values()]
        whole = all(one.ndim == 2 and one.shape[1] == 3 and _solid(one) for one in pieces)
    except (HandfulError, ValueError, TypeError):
        whole, pieces = False, []
    if not whole:
        remove_file(place)
    return pieces if whole else None


def cache_folder() -> Path:
    """Where pieces are kept: `$XDG_CACHE_HOME/handful/coacd`, or under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "handful" / "coacd"


def _read(path: Path) -> trimesh.Trimesh:
    mesh = read_mesh_file(path, SUFFIXES, process=True)
    if not 4 <= len(mesh.faces) <= MAX_FACES:
        raise FileFormatError(
            f"{path}: has {len(mesh.faces):,} triangles: need 4 to {MAX_FACES:,}; simplify it."
        )
    if not float(np.abs(mesh.vertices).max()) <= FARTHEST:
        raise FileFormatError(
            f"{path}: has corners farther than {FARTHEST:g} m from its origin: give it in metres."
        )
    if not float(mesh.area) >= SMALLEST_AREA:
        raise FileFormatError(f"{path}: its surface has no area: need a solid object.")
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
