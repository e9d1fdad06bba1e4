"""What commands that write demonstration folders share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.errors import OptionError

if TYPE_CHECKING:
    from handful.demos import DemoSet, Gripper

console = Console(emoji=False)

OutFolder = Annotated[
    Path, typer.Option("--out", help="Folder to write the demonstrations to.", show_default=False)
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace a demonstration folder that is there, with all that is in it."
    ),
]

KNOWN_HANDS = ("franka-hand", "robotiq-2f-140", "robotiq-2f-85", "simulated", "simulated-long")
"""Names of `handful.demos.HANDS`, written out: `--help` does not load that package."""


def asked_gripper(name_or_file: str) -> Gripper:
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


def corner(text: str, option: str) -> tuple[float, float, float]:
    """A corner of a workspace as it is written on the command line.

    Raises:
        OptionError: It is not three numbers.
    """
    try:
        x, y, z = (float(part) for part in text.split(","))
    except ValueError as error:
        raise OptionError(f"{option} {text!r}: give x,y,z in metres, like 0.2,-0.3,0.") from error
    return x, y, z


def save_and_describe(demos: DemoSet, out: Path, overwrite: bool) -> None:
    """Write a demonstration folder, and say what is in it and how to look at it."""
    from handful.demos import save_demos

    with console.status(escape(f"Writing {out}")):
        folder = save_demos(demos, out, overwrite=overwrite)
    describe(demos)
    look = f"handful show {shlex.quote(str(folder))}"
    console.print(escape(f"Written to {folder}. Look at it: {look}"), soft_wrap=True)


def describe(demos: DemoSet) -> None:
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
