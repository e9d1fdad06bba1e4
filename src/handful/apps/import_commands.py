"""Commands that read what cameras and robots recorded: `handful import` rgbd, rosbag, lerobot."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._demo_sets import (
    OutFolder,
    Overwrite,
    asked_gripper,
    corner,
    save_and_describe,
)
from handful.errors import OptionError

if TYPE_CHECKING:
    from handful.recordings import CloudOptions, GripperEvent, StepPlan

console = Console(emoji=False)

Voxel = Annotated[
    float,
    typer.Option(help="Clouds are thinned to this, metres; 0 keeps every point of every view."),
]


Steps = Annotated[str, typer.Option(help="Names of the steps in order, with commas between them.")]
Drop = Annotated[
    list[int] | None, typer.Option(help="Number of an event to leave out; may be repeated.")
]
OnlyList = Annotated[
    bool, typer.Option("--list", help="Only say where the gripper closes and opens.")
]
Clear = Annotated[
    float,
    typer.Option(help="Metres from where the gripper acts, at which the hand is out of the way."),
]
Held = Annotated[bool, typer.Option("--held/--no-held", help="Make grasp clouds of what is held.")]
Lower = Annotated[str, typer.Option(help="Lowest x,y,z of the workspace, metres, base frame.")]
Upper = Annotated[str, typer.Option(help="Highest x,y,z.")]


def register(import_app: typer.Typer) -> None:
    """Add the commands to `handful import`."""
    import_app.command("rgbd")(import_rgbd_command)
    import_app.command("rosbag")(import_rosbag_command)
    import_app.command("lerobot")(import_lerobot_command)


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

    Before anything is written, images are compared with the poses of cameras and arm; where they do
    not fit, the usual mistakes are tried, and the one that explains it is named with its cure.

    Flying pixels are removed, the hand is cut out of scenes by its described shape, and what it
    holds is cut out around it for the grasp cloud.

    Example: `handful import rgbd peg_images --out out/peg`
    """
    from handful.recordings import import_rgbd

    doubts: list[str] = []
    with console.status(escape(f"Reading {folder}")) as status:
        demos = import_rgbd(
            folder,
            voxel=voxel,
            report=lambda name: status.update(escape(f"Reading {name}")),
            warn=doubts.append,
        )
    save_and_describe(demos, out, overwrite)
    tell_doubts(doubts)


def import_rosbag_command(
    bags: Annotated[
        list[Path],
        typer.Argument(
            help="Bags, one for each demonstration: .bag, .mcap, .db3, or folders of ROS 2 bags.",
            show_default=False,
        ),
    ],
    base: Annotated[
        str, typer.Option(help="TF frame of the robot's base, z up.", show_default=False)
    ],
    gripper_frame: Annotated[
        str, typer.Option(help="TF frame that the gripper is described in.", show_default=False)
    ],
    signal: Annotated[
        str,
        typer.Option(
            help="Topic of the gripper: JointState, Float32, Float64 or Bool.", show_default=False
        ),
    ],
    gripper: Annotated[
        str, typer.Option(help="Known hand, or JSON file with a shape.", show_default=False)
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to.", show_default=False)
    ] = None,
    joint: Annotated[str, typer.Option(help="Name of its joint in a JointState.")] = "",
    high_is_closed: Annotated[
        bool, typer.Option("--high-is-closed", help="The signal grows as the fingers close.")
    ] = False,
    cloud: Annotated[
        list[str] | None, typer.Option(help="Topic of a PointCloud2; may be repeated.")
    ] = None,
    depth: Annotated[
        list[str] | None, typer.Option(help="Topic of depth images; may be repeated.")
    ] = None,
    color: Annotated[
        list[str] | None, typer.Option(help="Topic of colour images, one for each --depth.")
    ] = None,
    steps: Steps = "",
    drop: Drop = None,
    only_list: OnlyList = False,
    clear: Clear = 0.15,
    held: Held = True,
    lower: Lower = "",
    upper: Upper = "",
    voxel: Voxel = 0.002,
    overwrite: Overwrite = False,
) -> None:
    """Read bags of ROS 1 and ROS 2: clouds or depth images, TF, and the gripper's signal.

    Steps are where the gripper closes and opens: look at them with `--list`, name them in order
    with `--steps`, leave some out with `--drop`. The bag needs /tf and /tf_static, and camera infos
    beside images. Its own message definitions are not used.

    Example: `handful import rosbag peg.mcap --base base_link --gripper-frame tool0 --signal
    /joint_states --joint finger --list`

    Example: `handful import rosbag peg_*.mcap --base base_link --gripper-frame tool0 --signal
    /joint_states --joint finger --depth /camera/depth/image_rect_raw --color
    /camera/color/image_raw --gripper hand.json --steps "take peg,insert peg" --out out/peg`
    """
    from handful.recordings import RosCamera, RosTopics, import_rosbag, rosbag_events

    if color and len(color) != len(depth or ()):
        raise OptionError(
            f"{len(color)} --color and {len(depth or ())} --depth: give one colour topic for each "
            "depth topic, in the same order, or none."
        )
    colors = color or [""] * len(depth or ())
    cameras = [RosCamera(cloud=topic) for topic in cloud or ()]
    cameras += [RosCamera("", one, two) for one, two in zip(depth or (), colors, strict=True)]
    topics = RosTopics(tuple(cameras), base, gripper_frame, signal, joint, high_is_closed)
    if only_list:
        for bag in bags:
            tell_events(bag.name, rosbag_events(bag, topics))
        return
    plan, hand, target = step_plan(steps, drop, clear, held), asked_gripper(gripper), asked_out(out)
    options = cloud_options(lower, upper, voxel)
    with console.status("Reading") as status:
        demos = import_rosbag(
            bags,
            topics,
            hand,
            plan,
            options,
            report=lambda name: status.update(escape(f"Reading {name}")),
        )
    save_and_describe(demos, target, overwrite)


def import_lerobot_command(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a data set, format 3.", show_default=False)
    ],
    setup: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with gripper, cameras and what the features mean.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to.", show_default=False)
    ] = None,
    episode: Annotated[
        list[int] | None,
        typer.Option(help="Number of an episode; may be repeated.", show_default="all"),
    ] = None,
    steps: Steps = "",
    drop: Drop = None,
    only_list: OnlyList = False,
    clear: Clear = 0.15,
    held: Held = True,
    voxel: Voxel = 0.002,
    overwrite: Overwrite = False,
) -> None:
    """Read a LeRobot data set: depth and colour, end-effector pose and gripper, by their names.

    The format holds neither intrinsics nor camera poses: the setup file gives them, and says which
    channels are the pose and the gripper (docs/recordings.md). A data set without depth cannot be
    read. Steps are where the gripper closes and opens: look at them with `--list`, name them in
    order with `--steps`, leave some out with `--drop`.

    Example: `handful import lerobot my_dataset --setup lerobot.json --list`

    Example: `handful import lerobot my_dataset --setup lerobot.json --steps "take,insert" --out
    out/peg`
    """
    from handful.recordings import NOT_IN_THE_FORMAT, import_lerobot, lerobot_events

    if setup is None:
        raise OptionError(f"--setup is missing. {NOT_IN_THE_FORMAT}.")
    if only_list:
        for name, events in lerobot_events(folder, setup, episode or ()).items():
            tell_events(name, events)
        return
    plan, target = step_plan(steps, drop, clear, held), asked_out(out)
    doubts: list[str] = []
    with console.status(escape(f"Reading {folder}")) as status:
        demos = import_lerobot(
            folder,
            setup,
            plan,
            episode or (),
            voxel,
            report=lambda name: status.update(escape(f"Reading {name}")),
            warn=doubts.append,
        )
    save_and_describe(demos, target, overwrite)
    tell_doubts(doubts)


def tell_doubts(doubts: list[str]) -> None:
    """Say in what images and recorded poses do not fit."""
    for doubt in doubts:
        console.print(f"[yellow]Look:[/yellow] {escape(doubt)}", soft_wrap=True, highlight=False)


def step_plan(steps: str, drop: list[int] | None, clear: float, held: bool) -> StepPlan:
    """The options that say which steps there are."""
    from handful.recordings import StepPlan

    names = tuple(name.strip() for name in steps.split(",")) if steps else ()
    return StepPlan(names, tuple(drop or ()), clear, held)


def cloud_options(lower: str, upper: str, voxel: float) -> CloudOptions:
    """The options that say how clouds are made."""
    from handful.clouds import Box
    from handful.recordings import CloudOptions

    if bool(lower) != bool(upper):
        raise OptionError("a workspace needs both --lower and --upper, or neither.")
    box = Box(corner(lower, "--lower"), corner(upper, "--upper")) if lower else None
    return CloudOptions(workspace=box, voxel=voxel)


def asked_out(out: Path | None) -> Path:
    """The folder to write to, which only `--list` needs not."""
    if out is None:
        raise OptionError("--out is missing: name a folder to write to, or look first with --list.")
    return out


def tell_events(name: str, events: list[tuple[GripperEvent, Any]]) -> None:
    """A table of what the gripper did, for the user to name or drop."""
    from rich.table import Table

    table = Table("", "gripper", "action", "time (s)", "x", "y", "z", title=escape(name))
    for number, (event, pose) in enumerate(events, 1):
        did = "opens" if event.action.holding else "closes"
        place = [f"{value:.3f}" for value in pose[:3, 3]]
        table.add_row(str(number), did, event.action.value, f"{event.time:.2f}", *place)
    console.print(table)
    if not events:
        console.print("The gripper neither closes nor opens.")


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
