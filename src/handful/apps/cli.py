"""The command line: `handful COMMAND --help` shows what each command does, with examples.

Heavy packages are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

import handful
from handful.apps import (
    bench_commands,
    demo_commands,
    infer_commands,
    learn_commands,
    serve_commands,
    sim_commands,
)
from handful.apps._pictures import check_picture_name, write_picture
from handful.errors import HandfulError, OptionError

if TYPE_CHECKING:
    from handful.demos import DemoSet, Gripper

app = typer.Typer(
    name="handful",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
import_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(import_app, name="import", help="Turn other people's recordings into demonstrations.")
learn_commands.register(app)
serve_commands.register(app)
infer_commands.register(app)
bench_commands.register(app)
demo_commands.register(app)
sim_commands.register(app)

console = Console(emoji=False)
problems = Console(stderr=True, emoji=False)

INTERRUPTED = 130

OutFolder = Annotated[
    Path, typer.Option("--out", help="Folder to write the demonstrations to.", show_default=False)
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace a demonstration folder that is there, with all that is in it."
    ),
]
Scale = Annotated[
    float, typer.Option(help="Multiplies all positions; 0.001 for recordings in millimetres.")
]
KNOWN_HANDS = ("franka-hand", "robotiq-2f-140", "robotiq-2f-85", "simulated", "simulated-long")
"""Names of `handful.demos.HANDS`, written out: `--help` does not load that package."""

GripperOption = Annotated[
    str,
    typer.Option(
        "--gripper",
        help=f"Needed. What was used: a known hand ({', '.join(KNOWN_HANDS)}), or a JSON file with "
        "`contact`, `axis` and `opening`, see docs/demonstrations.md.",
        show_default=False,
    ),
]


def _show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"handful {handful.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version."),
    ] = False,
) -> None:
    """Teach a robot to pick and place from a handful of demonstrations."""


@app.command()
def sample(
    out: OutFolder,
    demos: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Make demonstrations of a procedural mug, hanger and gripper, seen by virtual cameras.

    No physics, no files needed: for trying things out, and for tests.

    Example: `handful sample --out out/sample && handful show out/sample`
    """
    from handful.demos import make_sample

    with console.status(f"Making {demos} demonstrations"):
        made = make_sample(demos, seed=seed)
    _save(made, out, overwrite)


@import_app.command("edf")
def import_edf_command(
    source: Annotated[Path, typer.Argument(help="Folder with demo_*.npz or demo_*.gzip, or one.")],
    out: OutFolder,
    scale: Scale = 1.0,
    overwrite: Overwrite = False,
) -> None:
    """Read the paper authors' demonstrations: NPZ arrays, or their original gzip files.

    The original files are pickles. They are not unpickled: only tensors and plain data are read
    from them, and a file that asks for anything else is refused without running anything.

    Example: `handful import edf ../shared/data/edf_mug --out out/mug`
    """
    from handful.demos import import_edf

    with console.status(escape(f"Reading {source}")):
        demos = import_edf(source, scale=scale)
    _save(demos, out, overwrite)


@import_app.command("npz")
def import_npz_command(
    source: Annotated[Path, typer.Argument(help="An NPZ file, or a folder of them.")],
    out: OutFolder,
    gripper: GripperOption = "",
    scale: Scale = 1.0,
    overwrite: Overwrite = False,
) -> None:
    """Read NPZ files, one for each demonstration.

    Arrays, for each step, here `pick`: `pick_scene_points`, `pick_scene_colors`,
    `pick_grasp_points`, `pick_grasp_colors` and `pick_target_poses` [k, 4, 4] (or
    `pick_target_pose_wxyz_xyz` or `pick_target_pose_xyzw_xyz` [k, 7]). A step of another name
    than `pick` and `place` has its action in an array `NAME_action`, and several have their order
    in an array `steps`.

    Example: `handful import npz recordings/ --gripper franka-hand --scale 0.001 --out out/cups`
    """
    from handful.demos import import_npz

    hand = _asked_gripper(gripper)
    with console.status(escape(f"Reading {source}")):
        demos = import_npz(source, scale=scale, gripper=hand)
    _save(demos, out, overwrite)


@import_app.command("clouds")
def import_clouds_command(
    folder: Annotated[Path, typer.Argument(help="Folder with PLY or PCD clouds.")],
    poses: Annotated[Path, typer.Option(help="CSV or JSON file of poses.", show_default=False)],
    out: OutFolder,
    gripper: GripperOption = "",
    scale: Scale = 1.0,
    overwrite: Overwrite = False,
) -> None:
    """Read a folder of PLY or PCD clouds and one file of gripper poses.

    A CSV file names its columns: `demo,step,action,scene,grasp,x,y,z,qw,qx,qy,qz`. A JSON file is
    a list of objects with `demo`, `step`, `action`, `scene`, `grasp`, and `matrix` (4x4), or
    `position` and `quat_wxyz` or `quat_xyzw`. Steps named `pick` and `place` need no `action`.
    Rows of the same step add target poses to it.

    Example: `handful import clouds cups/ --poses cups/poses.csv --gripper hand.json --out out/cups`
    """
    from handful.demos import import_posed_clouds

    hand = _asked_gripper(gripper)
    with console.status(escape(f"Reading {folder}")):
        demos = import_posed_clouds(folder, poses, scale=scale, gripper=hand)
    _save(demos, out, overwrite)


@app.command()
def show(
    demos: Annotated[Path, typer.Argument(help="A demonstration folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The picture to write; demos.png in the folder if left out.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Draw this many demonstrations at most.")] = 10,
) -> None:
    """Check a demonstration folder and draw its scenes, grasps and target poses.

    Example: `handful show out/mug --out mug.png`
    """
    from handful.demos import load_demos

    with console.status(escape(f"Reading {demos}")):
        loaded = load_demos(demos)
    _describe(loaded)
    folder = demos if demos.is_dir() else demos.parent
    _draw(loaded, out or folder / "demos.png", most)


def _asked_gripper(name_or_file: str) -> Gripper:
    """The gripper of an import; recordings do not tell it, and it has no default.

    Raises:
        HandfulError: It was left out, or there is none of that name.
    """
    from handful.demos import load_gripper

    if not name_or_file:
        raise OptionError(
            f"--gripper is missing: give a known hand ({', '.join(KNOWN_HANDS)}) or a .json file "
            'with {"contact": {"position": [x, y, z], "quat_wxyz": [w, x, y, z]}, "axis": "x", '
            '"opening": 0.08}, lengths in metres.'
        )
    return load_gripper(name_or_file)


def _save(demos: DemoSet, out: Path, overwrite: bool) -> None:
    from handful.demos import save_demos

    with console.status(escape(f"Writing {out}")):
        folder = save_demos(demos, out, overwrite=overwrite)
    _describe(demos)
    look = f"handful show {shlex.quote(str(folder))}"
    console.print(escape(f"Written to {folder}. Look at it: {look}"), soft_wrap=True)


def _describe(demos: DemoSet) -> None:
    """A table of what is in a demonstration set."""
    from rich.table import Table

    table = Table("demonstration", "step", "action", "scene points", "grasp points", "target poses")
    for demonstration in demos:
        for step in demonstration.steps:
            table.add_row(
                demonstration.name,
                step.name,
                step.action.value,
                f"{len(step.scene):,}",
                f"{len(step.grasp):,}" if step.grasp else "-",
                str(len(step.targets)),
            )
    console.print(table)
    console.print(escape(_gripper_sentence(demos.gripper)), soft_wrap=True)
    dropped = sum(
        cloud.dropped
        for demonstration in demos
        for step in demonstration.steps
        for cloud in (step.scene, step.grasp)
        if cloud is not None
    )
    if dropped:
        console.print(f"{dropped:,} points held NaN and were left out.")


def _gripper_sentence(gripper: Gripper) -> str:
    """What a person must know of the gripper to see that it is the right one."""
    position = ", ".join(f"{value:g}" for value in gripper.contact.position)
    turn = ", ".join(f"{value:g}" for value in gripper.contact.quat_wxyz)
    turned = "" if gripper.contact.quat_wxyz == (1.0, 0.0, 0.0, 0.0) else f" turned by ({turn})"
    shape = gripper.shape
    parts = "its shape is not known: collisions of the hand are not checked"
    if shape is not None:
        parts = f"its shape is known ({len(shape.boxes)} boxes, {len(shape.meshes)} meshes)"
    return (
        f"Gripper: {gripper.name or 'not a known hand'}; contact at ({position}) m{turned} in its "
        f"frame; opens along {gripper.axis} by {gripper.opening:g} m; {parts}."
    )


def _draw(demos: DemoSet, picture: Path, most: int) -> None:
    from handful.viz import picture_of_demos

    check_picture_name(picture)
    with console.status("Drawing"):
        write_picture(picture_of_demos(demos, max_demos=most), picture)
    console.print(escape(f"Picture: {picture}"), soft_wrap=True)


class _Interrupted(BaseException):
    """Ctrl-C, under a name that no library on the way catches and keeps to itself."""


def _interrupt(*_: object) -> None:
    raise _Interrupted


def main() -> None:
    """Run the command line; a `HandfulError` is one sentence, not a traceback."""
    signal.signal(signal.SIGINT, _interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be text
    try:
        app()
    except HandfulError as error:
        problems.print(f"[bold red]error:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
    except _Interrupted:
        problems.print("interrupted: nothing was left half-written.")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
