"""Commands of checks: `handful check DEMOS` and `handful check camera`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from handful.apps._options import FAILED
from handful.apps._pictures import check_picture_name, write_picture
from handful.errors import DemoError, OptionError

if TYPE_CHECKING:
    from handful.checks import CheckReport
    from handful.demos import DemoSet

console = Console(emoji=False)

Force = Annotated[
    bool, typer.Option("--force", help="Go on even if `handful check` finds something wrong.")
]


def tell_report(report: CheckReport, quiet: bool = False) -> None:
    """Print what the checks found: the verdict, the advice, then the problems, the worst first.

    Args:
        report: What was found.
        quiet: Print nothing where nothing was found.
    """
    if quiet and not report.problems:
        return
    style = "bold red" if report.wrong else "yellow" if report.problems else "green"
    console.print(f"[{style}]{escape(report.verdict)}[/{style}]", soft_wrap=True)
    if report.advice:
        console.print(escape(report.advice), soft_wrap=True, highlight=False)
    for problem in report.problems:
        mark = "[red]wrong[/red]" if problem.wrong else "[yellow]look[/yellow]"
        console.print(f"  {mark} {escape(str(problem))}", soft_wrap=True, highlight=False)


class _ChecksDemos(TyperGroup):
    """`handful check FOLDER` means `handful check demos FOLDER`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # click's, or typer's copy of it
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [DEFAULT, *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


DEFAULT = "demos"

check_app = typer.Typer(cls=_ChecksDemos, no_args_is_help=True, rich_markup_mode="markdown")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(
        check_app,
        name="check",
        help="Check demonstrations, or the pose of a camera: `handful check FOLDER`, "
        "`handful check camera CLOUD ...`.",
    )


@check_app.command(DEFAULT)
def check(
    demos: Annotated[Path, typer.Argument(help="A demonstration folder.", show_default=False)],
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Where the picture goes: the hand in the cloud, with what is wrong marked.",
            show_default="check.png in the folder",
        ),
    ] = None,
) -> None:
    """Check that poses, clouds and gripper of demonstrations fit each other.

    When something is wrong, the usual mistakes are tried (order of the quaternion, inverse poses,
    a camera's frame, units, another axis of approach, a wrong contact point, clouds exchanged), and
    the one that mends it is named with its cure. Ends with status 1 if the demonstrations should
    not be trained on. `handful train` runs the same checks.

    Example: `handful check out/mug`
    """
    from handful.checks import check_demos
    from handful.demos import load_demos
    from handful.viz import picture_of_check

    folder = demos if demos.is_dir() else demos.parent
    target = picture or folder / "check.png"
    check_picture_name(target)
    with console.status(escape(f"Reading {demos}")):
        loaded = load_demos(demos)
    with console.status("Checking"):
        report = check_demos(loaded)
    tell_report(report)
    with console.status("Drawing"):
        write_picture(picture_of_check(loaded, report), target)
    console.print(escape(f"Picture: {target}"), soft_wrap=True)
    if report.wrong:
        raise typer.Exit(FAILED)


@check_app.command("camera")
def camera(
    cloud: Annotated[
        Path,
        typer.Argument(
            help="Cloud that shows the hand, moved into the robot's frame by the camera pose that "
            "is checked: PLY, PCD or NPZ, metres. Or a folder of RGB-D recordings.",
            show_default=False,
        ),
    ],
    pose: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with the arm's pose of the gripper frame at that moment: 4 rows of 4 "
            "numbers, or an object with `position` and `quat_wxyz` or `quat_xyzw`.",
            show_default=False,
        ),
    ] = None,
    gripper: Annotated[
        str | None,
        typer.Option(help="A known hand, or a JSON file, with its shape.", show_default=False),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(help="Distance between the fingers, metres.", show_default="fully open"),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw both hands into the cloud: .png or .jpg.")
    ] = None,
) -> None:
    """Measure how far a camera is off: where the cloud shows the hand, and where the arm says.

    Hold the open hand where the camera sees it, away from other things. Ends with status 1 if the
    camera is off, or if the hand is not in the cloud. A folder of RGB-D recordings may hold such
    pictures itself, under `hand` in recordings.json.

    Example: `handful check camera peg_images`

    Example: `handful check camera hand.ply --pose pose.json --gripper franka-hand --picture c.png`
    """
    from handful._strict_json import read_json
    from handful.checks import check_camera
    from handful.clouds import read_cloud
    from handful.demos import load_gripper, pose_from_json

    if picture is not None:
        check_picture_name(picture)
    if cloud.is_dir() or cloud.name == "recordings.json":
        if pose is not None or gripper is not None or width is not None or picture is not None:
            raise OptionError(
                f"{cloud}: is a folder of RGB-D recordings, which says poses and gripper itself: "
                "leave out --pose, --gripper, --width and --picture."
            )
        _check_recorded_cameras(cloud)
        return
    if pose is None or gripper is None:
        raise OptionError(
            f"{cloud}: is one cloud: give the arm's pose with --pose and the hand with --gripper, "
            "or a folder of RGB-D recordings instead of the cloud."
        )
    hand = load_gripper(gripper)
    seen = read_cloud(cloud)
    T_scene_gripper = pose_from_json(read_json(pose), str(pose))
    with console.status("Looking for the hand"):
        found = check_camera(seen, T_scene_gripper, hand, width)
    console.print(escape(str(found)), soft_wrap=True, highlight=False)
    if found.is_off:
        rows = json.dumps([[round(value, 6) for value in row] for row in found.correction.tolist()])
        console.print(
            escape(f"Correct the camera: T_scene_camera = C @ T_scene_camera with C = {rows}"),
            soft_wrap=True,
            highlight=False,
        )
    if picture is not None:
        from handful.viz import picture_of_camera

        shown = hand if width is None else hand.with_width(width)
        with console.status("Drawing"):
            write_picture(picture_of_camera(seen, found, shown), picture)
        console.print(escape(f"Picture: {picture}"), soft_wrap=True)
    if found.is_off or not found.found:
        raise typer.Exit(FAILED)


def _check_recorded_cameras(folder: Path) -> None:
    """Measure each camera of RGB-D recordings by its pictures of the open hand."""
    from handful.checks import check_camera
    from handful.recordings import recorded_hands

    with console.status(escape(f"Reading {folder}")):
        gripper, hands = recorded_hands(folder)
    bad = False
    for name in dict.fromkeys(hand.camera.name for hand in hands):
        own = [hand for hand in hands if hand.camera.name == name]
        with console.status(escape(f"Looking for the hand in {len(own)} views of {name!r}")):
            found = [check_camera(hand.sight.cloud, hand.T_scene_gripper, gripper) for hand in own]
        for hand, one in zip(own, found, strict=True):
            console.print(escape(f"{hand.sight.where}: {one}"), soft_wrap=True, highlight=False)
        off = sum(one.is_off for one in found)
        seen = [index for index, one in enumerate(found) if one.found]
        wrong = 2 * off > len(seen) or not seen
        bad |= wrong
        console.print(
            escape(f"Camera {name!r}: {_told_of_camera(len(found), len(seen), off)}"),
            soft_wrap=True,
        )
        if wrong and seen:
            best = min(seen, key=lambda index: found[index].offset_error)
            cure = own[best].corrected(found[best].correction)
            console.print(escape(f"Correct it: {cure}"), soft_wrap=True, highlight=False)
    if bad:
        raise typer.Exit(FAILED)


def _told_of_camera(views: int, seen: int, off: int) -> str:
    """What was found in the views of a camera, in a sentence."""
    if not seen:
        return f"the hand is in none of {views} views."
    if 2 * off > seen:
        return f"is off: the hand is elsewhere in {off} of {seen} views."
    return f"is where its pose says: the hand is elsewhere in {off} of {seen} views."


def check_before_training(demos: DemoSet, folder: Path, force: bool) -> None:
    """Run the checks before a training; says nothing if all is well.

    Args:
        demos: What will be trained on.
        folder: Where it is from, for the message.
        force: Go on whatever is wrong.

    Raises:
        DemoError: Something is wrong, and the user did not ask to go on.
    """
    from handful.checks import check_demos

    with console.status("Checking the demonstrations"):
        report = check_demos(demos)
    tell_report(report, quiet=True)
    if report.wrong and not force:
        look = shlex.join(["handful", "check", str(folder)])
        raise DemoError(
            f"{folder}: the demonstrations are not trained on, for the reasons above. Look at them "
            f"with `{look}`, or train all the same with --force."
        )
