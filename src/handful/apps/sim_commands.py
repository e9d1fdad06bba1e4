"""Commands of the simulated world: `handful collect` and `handful sim`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful.apps._cameras import ArmInView, Cameras, GraspViews, Noise, camera_rig
from handful.apps._options import FAILED, Seed
from handful.apps._pictures import write_picture
from handful.errors import FileFormatError, OptionError

if TYPE_CHECKING:
    from handful.demos import Gripper
    from handful.sim import SimTask, Thing

console = Console(emoji=False)

TaskName = Annotated[str, typer.Argument(help="mug, bowl, bottle or tidy.", show_default=False)]
Objects = Annotated[
    Path | None,
    typer.Option(
        help="Folder of meshes (OBJ, STL, PLY, GLB; metres, z up) to use as objects; for a task of "
        "several objects a folder with one folder for each kind, for example mug and bowl."
    ),
]
GripperName = Annotated[
    str, typer.Option(help="The robot's hand, for example simulated-long or franka-hand.")
]
VariantName = Annotated[
    str, typer.Option(help="How the oracle picks: default, lowvar, or mixed (rim and handle).")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(collect)
    app.command("sim")(simulate)


def collect(
    task: TaskName,
    out: Annotated[
        Path,
        typer.Option("--out", help="Folder to write the demonstrations to.", show_default=False),
    ],
    demos: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 10,
    seed: Seed = 0,
    variant: VariantName = "default",
    objects: Objects = None,
    gripper: GripperName = "simulated",
    cameras: Cameras = 3,
    grasp_views: GraspViews = 6,
    noise: Noise = "none",
    arm_in_view: ArmInView = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a demonstration folder that is there.")
    ] = False,
) -> None:
    """Let the simulated robot's oracle do a task and keep what succeeded as demonstrations.

    Example: `handful collect mug --demos 10 --seed 1 --out out/mug_demos`

    Example: `handful collect mug --out out/one_camera --cameras 1 --grasp-views 2 --noise usual`
    """
    from rich.progress import Progress

    from handful.demos import save_demos
    from handful.sim import Variant, collect_demos, task_named
    from handful.viz import picture_of_demos

    chosen, how, hand = task_named(task), Variant.named(variant), simulated_hand(gripper)
    rig = camera_rig(cameras, grasp_views, noise, arm_in_view)
    if out.exists() and not overwrite:
        raise OptionError(f"{out}: is there already; give another folder or --overwrite.")
    things = load_objects(objects, chosen)
    failed: list[str] = []
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task(f"{task}: demonstrating", total=demos)

        def tell(done: int, reason: str) -> None:
            progress.update(bar, completed=done)
            if reason:
                failed.append(reason)

        made = collect_demos(chosen, demos, seed, how, things, rig, tell, hand)
    folder = save_demos(made, out, overwrite=overwrite)
    with console.status("Drawing"):
        write_picture(picture_of_demos(made), folder / "demos.png")
    if failed:
        console.print(f"{len(failed)} attempts failed and were left out: {escape(failed[-1])}")
    console.print(f"{len(made)} demonstrations of {task!r} written to {folder}")
    console.print(f"Picture: {folder / 'demos.png'}")
    console.print(f"Next: [bold]handful show {folder}[/bold], or train on them.")


def simulate(
    task: TaskName,
    setup: Annotated[
        str, typer.Option(help="trained, instances, poses, distractors or all.")
    ] = "trained",
    seed: Seed = 0,
    video: Annotated[
        Path | None, typer.Option(help="MP4 (or GIF) to write; stills go beside it.")
    ] = None,
    variant: VariantName = "default",
    objects: Objects = None,
    gripper: GripperName = "simulated",
    cameras: Cameras = 3,
    grasp_views: GraspViews = 6,
    noise: Noise = "none",
    arm_in_view: ArmInView = False,
) -> None:
    """Run one episode in the simulated world with the task's oracle, and film it.

    Exit status 0 when the episode succeeds.

    The oracle sees the true state, whatever the cameras see; with --arm-in-view it drives home
    before each step, as a policy does.

    Example: `handful sim mug --setup all --seed 3 --video out/mug.mp4`

    Example: `handful sim mug --cameras 1 --noise realsense-d435 --arm-in-view`
    """
    from handful.sim import Setup, Variant, film_episode, run_oracle, task_named, write_video

    chosen, kind, how = task_named(task), Setup.named(setup), Variant.named(variant)
    hand = simulated_hand(gripper)
    rig = camera_rig(cameras, grasp_views, noise, arm_in_view)
    if video is not None and video.suffix.lower() not in (".mp4", ".gif"):
        raise OptionError(f"{video}: videos are written as .mp4 or .gif.")
    things = load_objects(objects, chosen)
    with chosen.reset(seed, kind, things=things, rig=rig, gripper=hand) as episode:
        names = escape(", ".join(episode.things))
        console.print(f"Task {task}, setup {kind.value}, seed {seed}, object: {names}")
        if video is None:
            verdict = run_oracle(episode, how)
        else:
            with console.status("Running and filming"):
                verdict, film = film_episode(episode, how)
            with console.status("Writing the video"):
                written = write_video(film.frames, video)
                stills = video.with_name(f"{video.stem}_stills.png")
                write_picture(film.sheet(), stills)
            if written != video:
                console.print("No MP4 encoder was found (pip install imageio-ffmpeg): wrote a GIF.")
            console.print(f"Video: {written}\nStills: {stills}")
    if not verdict:
        console.print(f"[bold red]failed[/bold red]: {escape(verdict.reason)}")
        raise typer.Exit(FAILED)
    console.print(f"[bold green]success[/bold green]: {escape(verdict.reason)}")


def simulated_hand(name: str) -> Gripper:
    """The hand of that name.

    Raises:
        HandfulError: There is none, or the simulated arm cannot carry it.
    """
    from handful.demos import gripper_named
    from handful.sim import check_hand

    hand = gripper_named(name)
    check_hand(hand)
    return hand


def load_objects(folder: Path | None, task: SimTask) -> dict[str, list[Thing]] | None:
    """The usable meshes of a folder for each object of a task, by kind."""
    if folder is None:
        return None
    from handful.sim import folders_of_objects

    folders = folders_of_objects(folder, task)
    return {kind: load_meshes(where, kind) for kind, where in folders.items()}


def load_meshes(folder: Path, kind: str) -> list[Thing]:
    """The usable meshes of a folder for one kind of object; says which are not, and why."""
    from handful.sim import load_things

    with console.status("Reading meshes (each is taken apart once, about a minute)") as status:
        things, refused = load_things(
            folder, kind, lambda name: status.update(f"Reading {escape(name)}")
        )
    for one in refused:
        console.print(f"[yellow]refused[/yellow] {escape(one.reason)}")
    if not things:
        raise FileFormatError(
            f"{folder}: none of its meshes can be used for {kind!r}: need one that is not refused."
        )
    console.print(f"{len(things)} of {len(things) + len(refused)} meshes can be used.")
    return things
