"""What people do to recordings: `handful demos` list, merge, drop, crop, rename and regrip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._demo_sets import corner, describe, save_and_describe
from handful.errors import OptionError, errors_at

if TYPE_CHECKING:
    from handful.demos import DemoSet, Gripper

console = Console(emoji=False)

Demos = Annotated[Path, typer.Argument(help="A demonstration folder.", show_default=False)]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder to write the new set to.", show_default=False),
]
InPlace = Annotated[
    bool,
    typer.Option(
        "--in-place",
        help="Replace the folder itself, in one step; whatever else is in it goes.",
    ),
]
OverwriteOut = Annotated[
    bool, typer.Option("--overwrite", help="Replace a demonstration folder that is at --out.")
]


def register(app: typer.Typer) -> None:
    """Add `handful demos` to the command line."""
    demos_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
    app.add_typer(demos_app, name="demos", help="List, merge, drop, crop, rename, regrip.")
    demos_app.command("list")(list_command)
    demos_app.command("merge")(merge_command)
    demos_app.command("drop")(drop_command)
    demos_app.command("crop")(crop_command)
    demos_app.command("rename")(rename_command)
    demos_app.command("regrip")(regrip_command)


def list_command(
    demos: Demos,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: JSON to print.")] = False,
) -> None:
    """Say what is in a demonstration folder.

    Example: `handful demos list out/peg`

    Example: `handful demos list out/peg --json`
    """
    loaded = _load(demos)
    if as_json:
        typer.echo(json.dumps(_as_json(loaded), indent=2))
        return
    if loaded.description:
        console.print(escape(loaded.description), soft_wrap=True)
    describe(loaded)
    steps = ", ".join(f"{step.name!r} ({step.action.value})" for step in loaded.task)
    count = f"{len(loaded)} demonstration{'s' * (len(loaded) != 1)}"
    console.print(escape(f"{count} of the task {steps}."), soft_wrap=True)


def merge_command(
    sets: Annotated[
        list[Path], typer.Argument(help="Two demonstration folders or more.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder to write the new set to.", show_default=False)
    ],
    number: Annotated[
        bool,
        typer.Option("--number", help="Number repeated names: demo_0 of a later set is demo_0_2."),
    ] = False,
    overwrite: OverwriteOut = False,
) -> None:
    """Put sets of the same task and gripper together.

    Example: `handful demos merge out/monday out/tuesday --number --out out/peg`
    """
    from handful.demos import merged_demos

    if len(sets) < 2:
        raise OptionError(f"one set ({sets[0]}) is nothing to merge: name two or more.")
    loaded = [_load(folder) for folder in sets]
    with errors_at(" + ".join(f"[{index}] {folder}" for index, folder in enumerate(sets))):
        merged = merged_demos(loaded, number=number)
    save_and_describe(merged, out, overwrite)


def drop_command(
    demos: Demos,
    names: Annotated[
        list[str] | None, typer.Argument(help="Demonstrations to drop.", show_default=False)
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(help="Drop this step of every demonstration; may be repeated."),
    ] = None,
    out: Out = None,
    in_place: InPlace = False,
    overwrite: OverwriteOut = False,
) -> None:
    """Leave demonstrations out, or steps of all of them.

    Example: `handful demos drop out/peg peg_03 peg_07 --out out/peg_good`

    Example: `handful demos drop out/peg --step "push aside" --in-place`
    """
    from handful.demos import dropped_demos

    if not names and not step:
        raise OptionError("nothing to drop: name demonstrations, or a step with --step.")
    target = _target(demos, out, in_place)
    whole = _load(demos)
    with errors_at(demos):
        left = dropped_demos(whole, names or (), step or ())
    save_and_describe(left, target, overwrite or in_place)


def crop_command(
    demos: Demos,
    lower: Annotated[
        str, typer.Option(help="Lowest x,y,z of the workspace, metres.", show_default=False)
    ],
    upper: Annotated[str, typer.Option(help="Highest x,y,z, metres.", show_default=False)],
    out: Out = None,
    in_place: InPlace = False,
    overwrite: OverwriteOut = False,
) -> None:
    """Keep of every scene only what is in a box; scene frame.

    Example: `handful demos crop out/peg --lower 0.2,-0.3,-0.01 --upper 0.7,0.3,0.4 --out out/peg2`
    """
    from handful.clouds import Box
    from handful.demos import cropped_demos

    target = _target(demos, out, in_place)
    box = Box(corner(lower, "--lower"), corner(upper, "--upper"))
    whole = _load(demos)
    with errors_at(demos):
        cropped = cropped_demos(whole, box)
    before, after = _scene_points(whole), _scene_points(cropped)
    save_and_describe(cropped, target, overwrite or in_place)
    console.print(f"{before - after:,} of {before:,} scene points were outside and are left out.")


def rename_command(
    demos: Demos,
    step: Annotated[
        list[str] | None, typer.Option(help="OLD=NEW, in every demonstration; may be repeated.")
    ] = None,
    demo: Annotated[
        list[str] | None, typer.Option(help="OLD=NEW, of a demonstration; may be repeated.")
    ] = None,
    out: Out = None,
    in_place: InPlace = False,
    overwrite: OverwriteOut = False,
) -> None:
    """Give steps and demonstrations other names.

    Example: `handful demos rename out/peg --step "step 1=take peg" --in-place`

    Example: `handful demos rename out/peg --demo peg_00=first --out out/peg2`
    """
    from handful.demos import renamed_demos

    if not step and not demo:
        raise OptionError("nothing to rename: give --step OLD=NEW or --demo OLD=NEW.")
    target = _target(demos, out, in_place)
    names, steps = _pairs(demo, "--demo"), _pairs(step, "--step")
    whole = _load(demos)
    with errors_at(demos):
        renamed = renamed_demos(whole, names, steps)
    save_and_describe(renamed, target, overwrite or in_place)


def regrip_command(
    demos: Demos,
    gripper: Annotated[
        str,
        typer.Option(help="The other gripper: a known hand, or a JSON file.", show_default=False),
    ],
    out: Out = None,
    in_place: InPlace = False,
    overwrite: OverwriteOut = False,
) -> None:
    """Describe a set with another gripper, as if it had been shown with that one.

    Poses are carried over by the contact frames: where the old hand held something, the new one
    does. To mend a gripper that was described wrongly, import the recordings again instead.

    Example: `handful demos regrip out/peg --gripper franka-hand --out out/peg_franka`
    """
    from handful.demos import load_gripper, regripped_demos

    target = _target(demos, out, in_place)
    other = load_gripper(gripper)
    whole = _load(demos)
    with errors_at(demos):
        changed = regripped_demos(whole, other)
    save_and_describe(changed, target, overwrite or in_place)
    for sentence in _too_wide(whole, other):
        console.print(escape(sentence), soft_wrap=True)


def _load(folder: Path) -> DemoSet:
    from handful.demos import load_demos

    with console.status(escape(f"Reading {folder}")):
        return load_demos(folder)


def _target(demos: Path, out: Path | None, in_place: bool) -> Path:
    """Where the result goes; the folder itself only if that was said.

    Raises:
        OptionError: Neither or both were said, or `--out` is the folder itself.
    """
    folder = demos.parent if demos.is_file() else demos
    if in_place == (out is not None):
        raise OptionError(
            f"say where to write: --out FOLDER for a new set, or --in-place to replace {folder}."
        )
    if out is None:
        return folder
    if out.resolve() == folder.resolve():
        raise OptionError(f"--out {out} is the set itself: say --in-place if that is meant.")
    return out


def _pairs(values: list[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values or ():
        old, sign, new = value.partition("=")
        if not (sign and old and new) or old in pairs:
            raise OptionError(f"{option} {value!r}: write OLD=NEW, each old name once.")
        pairs[old] = new
    return pairs


def _scene_points(demos: DemoSet) -> int:
    return sum(len(step.scene) for demonstration in demos for step in demonstration.steps)


def _too_wide(demos: DemoSet, other: Gripper) -> list[str]:
    """A warning for what the other gripper cannot open far enough for."""
    from handful.viz import held_width

    widths = [
        held_width(demos.gripper, step.grasp)
        for demonstration in demos
        for step in demonstration.steps
        if step.grasp is not None
    ]
    wide = [width for width in widths if width > other.opening]
    if not wide:
        return []
    return [
        f"In {len(wide)} of {len(widths)} grasp clouds something of up to {max(wide):.3f} m is "
        f"held, and the gripper opens by {other.opening:g} m: it cannot hold that."
    ]


def _as_json(demos: DemoSet) -> dict[str, Any]:
    return {
        "description": demos.description,
        "task": [{"name": step.name, "action": step.action.value} for step in demos.task],
        "demonstrations": [
            {
                "name": demonstration.name,
                "steps": [
                    {
                        "name": step.name,
                        "scene_points": len(step.scene),
                        "scene_bounds": [corner.round(4).tolist() for corner in step.scene.bounds],
                        "grasp_points": None if step.grasp is None else len(step.grasp),
                        "targets": len(step.targets),
                    }
                    for step in demonstration.steps
                ],
            }
            for demonstration in demos
        ],
    }
