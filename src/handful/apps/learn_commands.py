"""Commands of learning: `handful train` and `handful infer`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful._checks import MAX_POSES
from handful._files import atomic_write_text
from handful.apps._options import NOTHING_FOUND, Seed, TrainingSteps, processes_of_torchrun
from handful.apps._pictures import check_picture_name, write_picture
from handful.apps._progress import told_progress
from handful.apps.check_commands import Force, check_before_training
from handful.apps.evaluate_commands import tell_found_again
from handful.errors import OptionError

if TYPE_CHECKING:
    from handful.demos import DemoSet
    from handful.learning import Recipe, RunFolder, StepReport
    from handful.policy import Predictor, RankedPoses

console = Console(emoji=False)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(train)
    app.command()(infer)


def train(
    demos: Annotated[Path, typer.Argument(help="A demonstration folder.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The run's folder.", show_default=False)],
    step: Annotated[
        str | None, typer.Option(help="Train this step only.", show_default="all steps")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="fast: minutes. paper: the paper's Markov chains, many hours.")
    ] = "fast",
    descriptor: Annotated[
        str, typer.Option(help="Types of the descriptors; 0 alone is the paper's ablation.")
    ] = "0,1,2,3",
    colors_matter: Annotated[
        bool,
        typer.Option(
            "--colors-matter",
            help="Only objects of the demonstrated colours are meant. Else any colour may come.",
        ),
    ] = False,
    seed: Seed = 0,
    steps: TrainingSteps = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Train anew what is already in the folder.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Steps trained at once.", show_default="all cores"),
    ] = None,
    force: Force = False,
) -> None:
    """Train one model for each step of the demonstrated task, steps side by side.

    Ctrl-C loses nothing: the same command with `--resume` goes on and gives the very same models.
    They are the same however many cores there are. Several processes share the work of one step
    with `torchrun --nproc-per-node 2 -m handful train ...`.

    Example: `handful train out/mug --out runs/mug`

    Example: `handful train out/red_cube --out runs/red_cube --colors-matter`

    Example: `handful train out/mug --out runs/mug --step "hang mug" --resume`
    """
    from handful.demos import load_demos
    from handful.learning import RunFolder, recipe_for

    types = _types(descriptor)
    loaded = load_demos(demos)
    names = loaded.task.names if step is None else (loaded.task.step(step).name,)
    check_before_training(loaded, demos, force)
    if preset == "paper":
        console.print("The paper's Markov chains take hours on a GPU, and days here.")
    recipes = [
        recipe_for(
            loaded,
            name,
            preset=preset,
            types=types,
            colors_matter=colors_matter,
            steps=steps,
            seed=seed,
        )
        for name in names
    ]
    with _process_group() as first:
        train_with_progress(
            loaded, recipes, out, workers=workers, resume=resume, overwrite=overwrite, shown=first
        )
        if not first:
            return
        RunFolder(out).note_training(
            demos,
            len(loaded),
            shlex.join(["handful", *sys.argv[1:]]),
            {
                "preset": preset,
                "descriptor": descriptor,
                "colors_matter": colors_matter,
                "seed": seed,
            },
        )
    for name in names:
        _tell_separation(RunFolder(out), name, len(loaded))
    tell_found_again(out, loaded, names, seed)
    look = shlex.join(["handful", "infer", str(out), "SCENE.ply", "--step", names[0]])
    console.print(escape(f"Trained: {out}. Use it: {look}"), soft_wrap=True)


def _tell_separation(run: RunFolder, step: str, count: int) -> None:
    """Say where objects could not be told from their scenes, and what helps."""
    separated = run.trained(step).separated
    if separated is not None and separated < count:
        console.print(
            escape(
                f"Step {step!r}: in {count - separated} of {count} demonstrations the object "
                "cannot be told from its scene, and is only shown where it stood. To have it shown "
                "lying, raised and among other things, record the grasp cloud of the next step."
            ),
            soft_wrap=True,
        )


def train_with_progress(
    demos: DemoSet,
    recipes: Sequence[Recipe],
    folder: Path,
    *,
    workers: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    shown: bool = True,
) -> None:
    """Train the models of a run side by side, with a progress bar for each.

    Among the processes of `torchrun`, which share each optimiser step, they are trained one after
    the other.
    """
    from handful.learning import train_in_folder, train_side_by_side

    with _training_bars([recipe.step.name for recipe in recipes], shown) as report:
        if processes_of_torchrun() > 1:
            for recipe in recipes:
                train_in_folder(
                    demos,
                    recipe,
                    folder,
                    resume=resume,
                    overwrite=overwrite,
                    report=partial(report, recipe.step.name),
                )
        else:
            train_side_by_side(
                demos,
                recipes,
                folder,
                workers=workers,
                resume=resume,
                overwrite=overwrite,
                report=report,
            )


@contextmanager
def _training_bars(
    steps: Sequence[str], shown: bool
) -> Iterator[Callable[[str, StepReport], None]]:
    """A progress bar for the training of each step; yields what to tell."""
    with told_progress(console, shown) as bars:
        lines = {step: bars.add_task(escape(step), total=None, told="", start=False)
                 for step in steps}  # fmt: skip

        def tell(step: str, report: StepReport) -> None:
            weights = " ".join(f"{weight:.2f}" for weight in report.weights)
            told = (
                f"loss {report.loss:.2f}, energy {report.target_energy:.1f} against "
                f"{report.negative_energy:.1f}, weights {weights}"
            )
            if report.skipped:
                told += f", {report.skipped} skipped"
            bars.start_task(lines[step])
            done = report.step + 1
            bars.update(lines[step], total=report.steps, completed=done, told=told)

        yield tell


def infer(
    run: Annotated[
        Path,
        typer.Argument(help="A run of `handful train`, or one model of it.", show_default=False),
    ],
    scene: Annotated[
        Path, typer.Argument(help="Scene cloud: PLY, PCD or NPZ, metres.", show_default=False)
    ],
    step: Annotated[
        str | None,
        typer.Option(
            help="Which step of the task.",
            show_default="the only one that --grasp, or its absence, fits",
        ),
    ] = None,
    grasp: Annotated[
        Path | None,
        typer.Option(
            help="Cloud of what the gripper holds, in the gripper frame, for steps that let it go."
        ),
    ] = None,
    gripper: Annotated[
        str | None,
        typer.Option(
            help="Another gripper than that of the demonstrations: a known hand, or a JSON file.",
            show_default="the demonstrations' own",
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=MAX_POSES, help="Poses at most.")] = 100,
    seed: Seed = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all poses to this file.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the best poses and the key field: .png or .jpg.")
    ] = None,
) -> None:
    """Find gripper poses in a new scene, ranked by energy.

    Each pose comes with a pre-pose and a retreat pose along its approach. When the target does not
    seem to be in the scene, the command says so and ends with status 3.

    Example: `handful infer runs/mug scene.ply --step pick --picture poses.png`

    Example: `handful infer runs/mug scene.ply --step place --grasp held.ply --json poses.json`

    Example: `handful infer runs/mug scene.ply --gripper franka-hand`
    """
    from handful.clouds import read_cloud
    from handful.demos import load_gripper

    if picture is not None:
        check_picture_name(picture)
    model = _predictor(run, step, grasp is not None)
    if gripper is not None:
        model = model.for_gripper(load_gripper(gripper))
    scene_cloud = read_cloud(scene)
    grasp_cloud = None if grasp is None else read_cloud(grasp)
    with console.status("Looking for poses"):
        poses = model.sample(scene_cloud, grasp_cloud, n=n, seed=seed)
    _tell(poses)
    for sentence in model.unlike(scene_cloud):
        console.print(escape(f"Unlike training: {sentence}"), soft_wrap=True)
    if json_file is not None:
        atomic_write_text(json_file, json.dumps(_as_json(model, poses, scene, grasp)) + "\n")
        console.print(escape(f"Poses: {json_file}"), soft_wrap=True)
    if picture is not None:
        from handful.viz import picture_of_inference

        with console.status("Drawing"):
            energy, _ = model.energy(scene_cloud, grasp_cloud, own_frames=False)
            image = picture_of_inference(
                scene_cloud,
                poses.T_scene_gripper,
                model.gripper,
                key=energy.field,  # type: ignore[arg-type]
                queries=model.queries_of_gripper(energy),
                grasp=grasp_cloud,
            )
            write_picture(image, picture)
        console.print(escape(f"Picture: {picture}"), soft_wrap=True)
    if not poses.found:
        raise typer.Exit(NOTHING_FOUND)


def _predictor(run: Path, step: str | None, holding: bool) -> Predictor:
    """The predictor that is asked: of a model's folder, or of one step of a run."""
    from handful.learning import RunFolder
    from handful.policy import load_predictor

    if (run / "config.json").is_file():
        predictor = load_predictor(run)
    else:
        folder = RunFolder(run)
        task = folder.task
        if step is None:
            fitting = [one.name for one in task if one.action.holding == holding]
            if len(fitting) != 1:
                raise OptionError(
                    f"{run}: has the steps {', '.join(map(repr, task.names))}: say which with "
                    f"--step{'' if holding else ', and give --grasp to one that lets go'}."
                )
            (step,) = fitting
        predictor = folder.predictor(task.step(step).name)
    if predictor.step.action.holding != holding:
        hint = "leave out --grasp" if holding else "give --grasp, too"
        raise OptionError(
            f"{run}: the gripper {'is empty' if holding else 'holds something'} in the step "
            f"{predictor.step.name!r}: {hint}."
        )
    return predictor


def _tell(poses: RankedPoses, rows: int = 5) -> None:
    from rich.table import Table

    table = Table("", "energy", "confidence", "x", "y", "z", "approach")
    for index in range(min(rows, len(poses))):
        pose = poses.T_scene_gripper[index]
        approach = pose[:3, :3] @ poses.gripper.T_gripper_contact[:3, 2]
        table.add_row(
            str(index + 1),
            f"{poses.energy[index]:.3f}",
            f"{poses.confidence[index]:.2f}",
            *(f"{value:.3f}" for value in pose[:3, 3]),
            " ".join(f"{value:+.2f}" for value in approach),
        )
    if poses.found:
        console.print(table)
        console.print(f"{len(poses)} poses in {poses.seconds:.2f} s, the best first.")
        return
    best = f" (best confidence {poses.confidence[0]:.2f})" if len(poses) else ""
    console.print(
        f"No target found{best}: nothing here looks like what was demonstrated. Do not execute "
        "these poses; check that the target is in view and that the cloud is in metres."
    )


def _as_json(
    model: Predictor, poses: RankedPoses, scene: Path, grasp: Path | None
) -> dict[str, object]:
    return {
        "format": "handful-poses",
        "version": 1,
        "step": model.step.name,
        "action": model.step.action.value,
        "gripper": model.gripper.name,
        "scene": str(scene),
        "grasp": None if grasp is None else str(grasp),
        "found": poses.found,
        "seconds": round(poses.seconds, 4),
        "poses": [_pose_as_json(poses, index) for index in range(len(poses))],
    }


def _pose_as_json(poses: RankedPoses, index: int) -> dict[str, object]:
    motion = poses.motion(index)
    return {
        "T_scene_pre": motion.T_scene_pre.tolist(),
        "T_scene_gripper": motion.T_scene_gripper.tolist(),
        "T_scene_retreat": motion.T_scene_retreat.tolist(),
        "energy": float(poses.energy[index]),
        "confidence": float(poses.confidence[index]),
    }


def _types(descriptor: str) -> list[int]:
    try:
        return [int(part) for part in descriptor.split(",")]
    except ValueError as error:
        raise OptionError(f"--descriptor {descriptor}: give types like 0,1,2,3.") from error


@contextmanager
def _process_group() -> Iterator[bool]:
    """Join the other processes when `torchrun` started this one; yields whether it is the first."""
    if processes_of_torchrun() == 1:
        yield True
        return
    from torch import distributed

    try:
        distributed.init_process_group("gloo")
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise OptionError(f"the processes of torchrun do not find each other: {reason}") from error
    try:
        yield distributed.get_rank() == 0
    finally:
        distributed.destroy_process_group()
