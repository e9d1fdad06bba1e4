"""The command `handful infer`: poses for one scene, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from handful._checks import MAX_POSES
from handful._files import atomic_write_text
from handful.apps._limits import (
    SURE_ENOUGH,
    Approach,
    LeastConfidence,
    Table,
    Workspace,
    limits_of,
)
from handful.apps._options import NOTHING_FOUND, Seed
from handful.apps._pictures import check_picture_name, write_picture
from handful.errors import OptionError

if TYPE_CHECKING:
    from handful.answers import PoseAnswer
    from handful.clouds import PointCloud
    from handful.policy import TrainedPredictor

console = Console(emoji=False)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(infer)


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
    workspace: Workspace = None,
    approach: Approach = None,
    table: Table = None,
    least_confidence: LeastConfidence = SURE_ENOUGH,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all poses to this file; docs/robot.md.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the best poses and the key field: .png or .jpg.")
    ] = None,
) -> None:
    """Find gripper poses in a new scene that the hand can reach without going through it.

    Poses are judged for the described hand against the cloud, and by the limits. Feasible ones
    come first, ranked by energy; the others are listed with the reason. Each pose has a pre-pose
    and a retreat pose along its approach, and finger widths. When there is no pose to execute,
    because the target does not seem to be there or nothing is feasible, the command says so and
    ends with status 3.

    Example: `handful infer runs/mug scene.ply --step pick --picture poses.png`

    Example: `handful infer runs/mug scene.ply --step place --grasp held.ply --json poses.json`

    Example: `handful infer runs/mug scene.ply --workspace -0.3 -0.3 0 0.3 0.3 0.4 --table 0`
    """
    from handful.answers import answer_to_json
    from handful.clouds import read_cloud
    from handful.demos import load_gripper
    from handful.policy import answer_for

    if picture is not None:
        check_picture_name(picture)
    limits = limits_of(workspace, approach, table)
    model = _predictor(run, step, grasp is not None)
    if gripper is not None:
        model = model.for_gripper(load_gripper(gripper))
    scene_cloud = read_cloud(scene)
    grasp_cloud = None if grasp is None else read_cloud(grasp)
    with console.status("Looking for poses"):
        answer = answer_for(
            model, scene_cloud, grasp_cloud, limits=limits, n=n, seed=seed,
            least_confidence=least_confidence,
        )  # fmt: skip
    _tell(answer, model)
    if json_file is not None:
        atomic_write_text(json_file, answer_to_json(answer) + "\n")
        console.print(escape(f"Poses: {json_file}"), soft_wrap=True)
    if picture is not None:
        _draw(model, answer, scene_cloud, grasp_cloud, picture)
    if answer.best is None:
        raise typer.Exit(NOTHING_FOUND)


def _predictor(run: Path, step: str | None, holding: bool) -> TrainedPredictor:
    """The predictor that is asked: of a model's folder, or of one step of a run."""
    from handful.learning import RunFolder, load_trained

    if (run / "config.json").is_file():
        predictor = load_trained(run)
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


def _tell(answer: PoseAnswer, model: TrainedPredictor, rows: int = 5) -> None:
    """A table of the best poses, or why there is none."""
    from rich.table import Table as RichTable

    feasible = sum(pose.feasible for pose in answer.poses)
    if answer.best is not None:
        table = RichTable("", "energy", "confidence", "x", "y", "z", "approach", "feasible")
        for index, pose in enumerate(answer.poses[:rows]):
            matrix = pose.T_scene_gripper
            approach = matrix[:3, :3] @ model.gripper.T_gripper_contact[:3, 2]
            table.add_row(
                str(index + 1),
                f"{pose.energy:.3f}",
                f"{pose.confidence:.2f}",
                *(f"{value:.3f}" for value in matrix[:3, 3]),
                " ".join(f"{value:+.2f}" for value in approach),
                "yes" if pose.feasible else pose.reason,
            )
        console.print(table)
        told = f"{len(answer)} poses, {feasible} of them feasible, in {answer.seconds:.2f} s"
        console.print(f"{told}; feasible ones first, the best first.")
    elif answer.found:
        console.print(
            escape(f"No pose to execute: {answer.reason} ({feasible} of {len(answer)} feasible).")
        )
    else:
        best = max((pose.confidence for pose in answer.poses), default=None)
        told = "" if best is None else f" (best confidence {best:.2f})"
        console.print(
            f"No target found{told}: nothing here looks like what was demonstrated. Do not execute "
            "these poses; check that the target is in view and that the cloud is in metres."
        )
    if model.gripper.shape is None:
        console.print("The hand's shape is not known: collisions of the hand were not checked.")
    for sentence in answer.warnings:
        console.print(escape(f"Unlike training: {sentence}"), soft_wrap=True)


def _draw(
    model: TrainedPredictor,
    answer: PoseAnswer,
    scene: PointCloud,
    grasp: PointCloud | None,
    picture: Path,
) -> None:
    """A picture of the best poses and, for models that have one, of the key field."""
    import numpy as np

    from handful.policy import PicturedPredictor, Predictor
    from handful.render import tile
    from handful.viz import picture_of_inference

    if not answer.poses:
        console.print("No picture: there is no pose to draw.")
        return
    with console.status("Drawing"):
        field: dict[str, Any] = {}
        if isinstance(model, Predictor):
            energy, _ = model.energy(scene, grasp, own_frames=False)
            field = {"key": energy.field, "queries": model.queries_of_gripper(energy)}
        image = picture_of_inference(
            scene,
            np.stack([pose.T_scene_gripper for pose in answer.poses]),
            model.gripper,
            grasp=grasp,
            **field,
        )
        if isinstance(model, PicturedPredictor):
            image = tile([image, model.picture(scene, grasp)], 1)
        write_picture(image, picture)
    console.print(escape(f"Picture: {picture}"), soft_wrap=True)
