"""New mugs, bowls and bottles for a check that nothing was tuned on the meshes at hand.

.venv/bin/python benchmarks/policies/new_shapes.py out/new_shapes --seed 0 --count 20
handful bench mug --run runs/mug --objects out/new_shapes/mug --setup all

Shapes come from a family of their own (`kitchen_shapes.py`). Each is written as an OBJ file and
loaded as `--objects` would load it; what the task cannot use is refused there, and the next one is
drawn. The same seed writes the same files. Do not look at how a model does on shapes that will
decide about it: draw others, with another seed, while developing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import trimesh
from kitchen_shapes import KINDS
from PIL import Image

from handful.clouds import Intrinsics
from handful.render import ColoredMesh, PictureStyle, draw_picture, look_at, tile
from handful.sim import load_things
from handful.sim.objects import random_color

DRAWS = 4
"""Shapes that are drawn at most for each one that is wanted."""

Judge = Callable[[Path, str], str]
"""Of a file and a kind: why the task cannot use it, or nothing."""


@dataclass(frozen=True)
class Refusal:
    """A shape that was drawn and is not used.

    Attributes:
        name: Of the shape.
        reason: Why not.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class Batch:
    """The shapes of one kind.

    Attributes:
        kind: `mug`, `bowl` or `bottle`.
        kept: Names of the shapes that can be used.
        refused: The others.
    """

    kind: str
    kept: tuple[str, ...]
    refused: tuple[Refusal, ...]


def draw_shape(kind: str, number: int, seed: int) -> tuple[str, trimesh.Trimesh]:
    """Name and mesh of one shape; the families take turns.

    Args:
        kind: One of `KINDS`.
        number: 0 and up.
        seed: Of all shapes.
    """
    families, draw = KINDS[kind]
    family = families[number % len(families)]
    words = [seed, list(KINDS).index(kind), number]
    rng = np.random.default_rng(np.random.SeedSequence(words))
    return f"{kind}_{number:03d}_{family}", draw(rng, family)


def judged_by_task(path: Path, kind: str) -> str:
    """Why `load_things` refuses a mesh, or nothing."""
    _, refused = load_things(path, kind)
    return refused[0].reason if refused else ""


def write_shapes(
    folder: Path,
    kind: str,
    count: int,
    seed: int,
    judge: Judge = judged_by_task,
    tell: Callable[[str], None] = print,
) -> Batch:
    """Write shapes that a task can use, each as FOLDER/NAME.obj.

    At most `DRAWS` shapes are drawn for each one that is wanted. After an interrupt the same call
    goes on: files that are there already are judged again, which takes no time to speak of,
    because their convex pieces are remembered.

    Args:
        folder: Made if it is not there; must hold no other meshes.
        kind: One of `KINDS`.
        count: How many are wanted.
        seed: The same seed gives the same shapes.
        judge: Says why a file cannot be used.
        tell: Told about every shape.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept: list[str] = []
    refused: list[Refusal] = []
    for number in range(DRAWS * count):
        if len(kept) == count:
            break
        start = time.perf_counter()
        name, mesh = draw_shape(kind, number, seed)
        path = folder / f"{name}.obj"
        text = trimesh.exchange.obj.export_obj(mesh, include_normals=False, digits=6)
        if path.exists() and path.read_text() != text:
            raise SystemExit(f"{path}: is another shape; give another folder, or empty this one.")
        path.write_text(text)
        reason = judge(path, kind)
        if reason:
            path.unlink()
            refused.append(Refusal(name, reason))
        else:
            kept.append(name)
        size = " x ".join(f"{1e3 * side:.0f}" for side in mesh.extents)
        seconds = time.perf_counter() - start
        tell(f"{name}: {size} mm, {len(mesh.faces)} faces, {seconds:.0f} s: {reason or 'used'}")
    others = {path.stem for path in folder.glob("*.obj")} - set(kept)
    if others:
        raise SystemExit(f"{folder}: holds other meshes, too ({min(others)}); empty it first.")
    return Batch(kind, tuple(kept), tuple(refused))


def contact_sheet(folder: Path, kind: str, columns: int = 5) -> Image.Image:
    """All shapes of a folder at one scale, from the side and above."""
    paths = sorted(folder.glob("*.obj"))
    if not paths:
        raise SystemExit(f"{folder}: holds no OBJ files.")
    meshes = [trimesh.load(path, force="mesh", process=False) for path in paths]
    reach = max(float(np.linalg.norm(mesh.extents)) for mesh in meshes) / 2
    view = Intrinsics.from_field_of_view(220, 220, np.deg2rad(24.0))
    away = 1.05 * reach / np.sin(np.deg2rad(12.0))
    panels = []
    for number, mesh in enumerate(meshes):
        middle = mesh.bounds.mean(axis=0)
        eye = middle + away * np.array([0.55, -0.65, 0.52])
        color = random_color(np.random.default_rng(number))
        shown = ColoredMesh.from_trimesh(mesh, color)
        panels.append(draw_picture([], [shown], look_at(eye, middle, view), PictureStyle()))
    return tile(panels, columns, [path.stem for path in paths], f"{len(paths)} x {kind}")


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """Write, judge and draw shapes; the exit status is 0 if there are as many as wanted."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="a folder for each kind is made in it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20, help="usable shapes of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS), help="comma-separated")
    parser.add_argument(
        "--unjudged", action="store_true", help="keep all that is drawn: quick, for a look"
    )
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or options.count < 1 or options.seed < 0:
        parser.error(
            f"kinds {options.kinds}, count {options.count}, seed {options.seed}: need kinds of "
            f"{', '.join(KINDS)}, a count of 1 or more and a seed of 0 or more."
        )
    judge: Judge = (lambda path, kind: "") if options.unjudged else judged_by_task
    complete = True
    for kind in kinds:
        folder = options.out / kind
        batch = write_shapes(folder, kind, options.count, options.seed, judge, _say)
        note = {"seed": options.seed, "count": options.count, **asdict(batch)}
        (options.out / f"{kind}.json").write_text(json.dumps(note, indent=2) + "\n")
        drawn = len(batch.kept) + len(batch.refused)
        print(f"{kind}: {len(batch.kept)} of {drawn} shapes can be used, in {folder}")
        for refusal in batch.refused:
            print(f"  refused: {refusal.reason}")
        if batch.kept:
            contact_sheet(folder, kind).save(options.out / f"{kind}.png")
        if len(batch.kept) < options.count:
            print(f"  {options.count} were wanted; {DRAWS} draws for each were not enough.")
            complete = False
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
