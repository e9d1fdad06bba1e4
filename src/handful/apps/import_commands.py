"""Commands that read recordings of cameras and robots: `handful import rgbd`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._demo_sets import OutFolder, Overwrite, save_and_describe

console = Console(emoji=False)

Voxel = Annotated[
    float,
    typer.Option(help="Clouds are thinned to this, metres; 0 keeps every point of every view."),
]


def register(import_app: typer.Typer) -> None:
    """Add the commands to `handful import`."""
    import_app.command("rgbd")(import_rgbd_command)


def import_rgbd_command(
    folder: Annotated[
        Path, typer.Argument(help="Folder with recordings.json and images.", show_default=False)
    ],
    out: OutFolder,
    voxel: Voxel = 0.002,
    overwrite: Overwrite = False,
) -> None:
    """Read colour and depth images of one camera or more, as a person with a depth camera has them.

    `recordings.json` says what no image does: the gripper, the cameras' intrinsics, lenses and
    poses (fixed, or on the wrist), and for each step of each recording which images show the
    scene, which show what is held, and where the gripper acted. docs/recordings.md describes it;
    `handful sample --rgbd --out DIR` writes a whole example.

    Flying pixels are removed, the hand is cut out of scenes by its described shape, and what it
    holds is cut out around it for the grasp cloud.

    Example: `handful import rgbd peg_images --out out/peg`
    """
    from handful.recordings import import_rgbd

    with console.status(escape(f"Reading {folder}")) as status:
        demos = import_rgbd(
            folder, voxel=voxel, report=lambda name: status.update(escape(f"Reading {name}"))
        )
    save_and_describe(demos, out, overwrite)


def write_example(out: Path, count: int, seed: int, overwrite: bool) -> None:
    """Write the example of RGB-D recordings, and say what to do with it."""
    from handful.recordings import write_rgbd_example

    with console.status(f"Making {count} recordings"):
        folder = write_rgbd_example(out, count, seed, overwrite=overwrite)
    read = shlex.join(["handful", "import", "rgbd", str(folder), "--out", "out/peg"])
    console.print(
        escape(f"Written to {folder}: recordings.json, hand.json and {count} recordings."),
        soft_wrap=True,
    )
    console.print(escape(f"Make demonstrations of them: {read}"), soft_wrap=True)
