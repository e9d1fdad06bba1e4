"""The command line: `handful COMMAND --help` shows what each command does, with examples.

Heavy packages are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

import handful
from handful._names import printable
from handful.apps import (
    bench_commands,
    check_commands,
    demo_commands,
    demos_commands,
    evaluate_commands,
    import_commands,
    infer_commands,
    learn_commands,
    paper_commands,
    serve_commands,
    sim_commands,
    studio_commands,
)
from handful.apps._demo_sets import (
    KNOWN_HANDS,
    OutFolder,
    Overwrite,
    asked_gripper,
    describe,
    save_and_describe,
)
from handful.apps._options import FAILED, INTERRUPTED, WRONG_USE, Seed
from handful.apps._pictures import check_picture_name, write_picture
from handful.errors import HandfulError, OptionError

if TYPE_CHECKING:
    from handful.demos import DemoSet

app = typer.Typer(
    name="handful",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
import_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
app.add_typer(import_app, name="import", help="Turn recordings into demonstrations.")
learn_commands.register(app)
check_commands.register(app)
evaluate_commands.register(app)
serve_commands.register(app)
infer_commands.register(app)
bench_commands.register(app)
demo_commands.register(app)
paper_commands.register(app)
sim_commands.register(app)
import_commands.register(import_app)
demos_commands.register(app)
studio_commands.register(app)

console = Console(emoji=False)
problems = Console(stderr=True, emoji=False)

Scale = Annotated[
    float, typer.Option(help="Multiplies all positions; 0.001 for recordings in millimetres.")
]
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
    seed: Seed = 0,
    overwrite: Overwrite = False,
    rgbd: Annotated[
        bool,
        typer.Option(
            "--rgbd",
            help="Write colour and depth images instead, as people record them: a peg that goes "
            "into a box, with a gripper of its own.",
        ),
    ] = False,
) -> None:
    """Make demonstrations of a procedural mug, hanger and gripper, seen by virtual cameras.

    No physics, no files needed: for trying things out, and for tests.

    Example: `handful sample --out out/sample && handful show out/sample`

    Example: `handful sample --rgbd --out peg_images`, then `handful import rgbd peg_images ...`
    """
    if rgbd:
        import_commands.write_example(out, demos, seed, overwrite)
        return
    from handful.demos import make_sample

    with console.status(f"Making {demos} demonstrations"):
        made = make_sample(demos, seed=seed)
    save_and_describe(made, out, overwrite)


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
    save_and_describe(demos, out, overwrite)


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

    hand = asked_gripper(gripper)
    with console.status(escape(f"Reading {source}")):
        demos = import_npz(source, scale=scale, gripper=hand)
    save_and_describe(demos, out, overwrite)


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

    hand = asked_gripper(gripper)
    with console.status(escape(f"Reading {folder}")):
        demos = import_posed_clouds(folder, poses, scale=scale, gripper=hand)
    save_and_describe(demos, out, overwrite)


@app.command()
def show(
    demos: Annotated[Path, typer.Argument(help="A demonstration folder.")],
    out: Annotated[
        Path | None, typer.Option(help="The picture to write; demos.png in the folder if left out.")
    ] = None,
    most: Annotated[
        int, typer.Option(min=1, max=1000, help="Draw this many demonstrations at most.")
    ] = 10,
) -> None:
    """Check a demonstration folder and draw its scenes, grasps and target poses.

    Example: `handful show out/mug --out mug.png`
    """
    from handful.demos import load_demos

    with console.status(escape(f"Reading {demos}")):
        loaded = load_demos(demos)
    describe(loaded)
    folder = demos if demos.is_dir() else demos.parent
    _draw(loaded, out or folder / "demos.png", most)


def _draw(demos: DemoSet, picture: Path, most: int) -> None:
    from handful.viz import picture_of_demos

    check_picture_name(picture)
    with console.status("Drawing"):
        write_picture(picture_of_demos(demos, max_demos=most), picture)
    console.print(escape(f"Picture: {picture}"), soft_wrap=True)


class _Interrupted(BaseException):
    """Ctrl-C or SIGTERM, under a name that no library on the way catches and keeps to itself."""


def _interrupt(*_: object) -> None:
    raise _Interrupted


def main() -> None:
    """Run the command line; a `HandfulError` is one sentence, not a traceback.

    The exit status says how it ended: `apps/_options.py`.
    """
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be text
    try:
        app()
    except HandfulError as error:
        told = printable(str(error))
        problems.print(f"[bold red]error:[/bold red] {escape(told)}", soft_wrap=True)
        sys.exit(WRONG_USE if isinstance(error, OptionError) else FAILED)
    except _Interrupted:
        problems.print("interrupted: nothing was left half-written.")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
