"""Commands of learning: `handful train` and `handful infer`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from handful._files import atomic_write_text
from handful.apps._pictures import check_picture_name, write_picture
from handful.errors import OptionError, unknown_name_message

if TYPE_CHECKING:
    from handful.learning import RankedPoses, StepReport, TrainedModel

console = Console(emoji=False)

NOTHING_FOUND = 3
"""Exit status of `handful infer` when no target was found."""

STEPS = ("pick", "place")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(train)
    app.command()(infer)


def train(
    demos: Annotated[Path, typer.Argument(help="A demonstration folder.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The run's folder.", show_default=False)],
    step: Annotated[str, typer.Option(help="pick, place or both.")] = "both",
    preset: Annotated[
        str, typer.Option(help="fast: minutes. paper: the paper's Markov chains, many hours.")
    ] = "fast",
    descriptor: Annotated[
        str, typer.Option(help="Types of the descriptors; 0 alone is the paper's ablation.")
    ] = "0,1,2,3",
    vary: Annotated[
        str,
        typer.Option(
            help="What will differ from the demonstrations, comma-separated: colors, contrast, "
            "shapes, clutter; or all.",
            show_default="nothing",
        ),
    ] = "",
    seed: Annotated[int, typer.Option(help="The same seed gives the same models.")] = 0,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimiser steps, instead of the preset's.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Train anew what is already in the folder.")
    ] = False,
) -> None:
    """Train a pick model and a place model from demonstrations.

    Ctrl-C loses nothing: the same command with `--resume` goes on and gives the very same models.
    Several processes share the work with `torchrun --nproc-per-node 2 -m handful train ...`.

    Example: `handful train out/mug --out runs/mug`

    Example: `handful train out/mug --out runs/mug --vary colors,shapes`

    Example: `handful train out/mug --out runs/mug --step place --resume`
    """
    from handful.demos import load_demos
    from handful.learning import RunFolder, pick_recipe, place_recipe, train_in_folder

    kinds = STEPS if step == "both" else (step,)
    if not set(kinds) <= set(STEPS):
        raise OptionError(unknown_name_message("step", step, (*STEPS, "both")))
    types = _types(descriptor)
    varied = variations(vary)
    loaded = load_demos(demos)
    if preset == "paper":
        console.print("The paper's Markov chains take hours on a GPU, and days here.")
    with _process_group() as first:
        for kind in kinds:
            make = pick_recipe if kind == "pick" else place_recipe
            recipe = make(
                loaded,
                preset=preset,
                types=types,
                vary=varied,
                steps=steps,
                seed=seed,
            )
            with training_progress(kind, shown=first) as report:
                train_in_folder(
                    loaded, recipe, out, resume=resume, overwrite=overwrite, report=report
                )
        if not first:
            return
        RunFolder(out).note(
            demonstrations={"folder": str(demos), "count": len(loaded)},
            options={
                "preset": preset,
                "descriptor": descriptor,
                "vary": ",".join(varied),
                "seed": seed,
            },
            command=shlex.join(["handful", *sys.argv[1:]]),
        )
    look = shlex.join(["handful", "infer", str(out / kinds[0]), "SCENE.ply"])
    console.print(escape(f"Trained: {out}. Use it: {look}"), soft_wrap=True)


class ProgressReport:
    """Shows every training step on a progress bar."""

    def __init__(self, kind: str, shown: bool) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
            disable=not shown,
        )
        self._task = self.bar.add_task(kind, total=None, told="")

    def __call__(self, report: StepReport) -> None:
        """After a step."""
        weights = " ".join(f"{weight:.2f}" for weight in report.weights)
        told = (
            f"loss {report.loss:.2f}, energy {report.target_energy:.1f} against "
            f"{report.negative_energy:.1f}, weights {weights}"
        )
        if report.skipped:
            told += f", {report.skipped} skipped"
        done = report.step + 1
        self.bar.update(self._task, total=report.steps, completed=done, told=told)


@contextmanager
def training_progress(kind: str, shown: bool = True) -> Iterator[ProgressReport]:
    """A progress bar for the training of one model."""
    report = ProgressReport(kind, shown)
    with report.bar:
        yield report


def infer(
    run: Annotated[
        Path,
        typer.Argument(help="A run of `handful train`, or one model of it.", show_default=False),
    ],
    scene: Annotated[
        Path, typer.Argument(help="Scene cloud: PLY, PCD or NPZ, metres.", show_default=False)
    ],
    grasp: Annotated[
        Path | None,
        typer.Option(help="Cloud of what the gripper holds, in the gripper frame: place it."),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=100_000, help="Poses at most.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed gives the same poses.")] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all poses to this file.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the best poses and the key field: .png or .jpg.")
    ] = None,
) -> None:
    """Find gripper poses in a new scene, ranked by energy.

    Without `--grasp` the pick model answers, with it the place model. When the target does not seem
    to be in the scene, the command says so and ends with status 3.

    Example: `handful infer runs/mug scene.ply --picture poses.png`

    Example: `handful infer runs/mug scene.ply --grasp held.ply --json poses.json`
    """
    from handful.clouds import read_cloud
    from handful.learning import load_model

    if picture is not None:
        check_picture_name(picture)
    kind = "pick" if grasp is None else "place"
    folder = run / kind if (run / kind).is_dir() else run
    model = load_model(folder)
    if model.kind != kind:
        hint = "give --grasp, too" if model.kind == "place" else "leave out --grasp"
        raise OptionError(f"{folder}: holds a {model.kind} model: {hint}.")
    scene_cloud = read_cloud(scene)
    grasp_cloud = None if grasp is None else read_cloud(grasp)
    with console.status("Looking for poses"):
        poses = model.sample(scene_cloud, grasp_cloud, n=n, seed=seed)
    _tell(poses)
    if json_file is not None:
        atomic_write_text(json_file, json.dumps(_as_json(model, poses, scene, grasp)) + "\n")
        console.print(escape(f"Poses: {json_file}"), soft_wrap=True)
    if picture is not None:
        from handful.models import picture_of_inference

        with console.status("Drawing"):
            clouds = model.search.prepared(scene_cloud, grasp_cloud, own_frames=False)
            energy = model.energy(clouds)
            image = picture_of_inference(
                scene_cloud,
                poses.T_scene_gripper,
                model.gripper,
                key=energy.field,  # type: ignore[arg-type]
                queries=energy.queries,
                grasp=grasp_cloud,
            )
            write_picture(image, picture)
        console.print(escape(f"Picture: {picture}"), soft_wrap=True)
    if not poses.found:
        raise typer.Exit(NOTHING_FOUND)


def _tell(poses: RankedPoses, rows: int = 5) -> None:
    from rich.table import Table

    table = Table("", "energy", "confidence", "x", "y", "z", "approach")
    for index in range(min(rows, len(poses))):
        pose = poses.T_scene_gripper[index]
        table.add_row(
            str(index + 1),
            f"{poses.energy[index]:.3f}",
            f"{poses.confidence[index]:.2f}",
            *(f"{value:.3f}" for value in pose[:3, 3]),
            " ".join(f"{value:+.2f}" for value in pose[:3, 2]),
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
    model: TrainedModel, poses: RankedPoses, scene: Path, grasp: Path | None
) -> dict[str, object]:
    return {
        "kind": model.kind,
        "scene": str(scene),
        "grasp": None if grasp is None else str(grasp),
        "found": poses.found,
        "seconds": round(poses.seconds, 4),
        "poses": [
            {"T_scene_gripper": pose.tolist(), "energy": float(e), "confidence": float(c)}
            for pose, e, c in zip(
                poses.T_scene_gripper, poses.energy, poses.confidence, strict=True
            )
        ],
    }


def variations(words: str) -> tuple[str, ...]:
    """The names in `--vary`."""
    from handful.learning import VARIATIONS

    return VARIATIONS if words == "all" else tuple(filter(None, words.split(",")))


def _types(descriptor: str) -> list[int]:
    try:
        return [int(part) for part in descriptor.split(",")]
    except ValueError as error:
        raise OptionError(f"--descriptor {descriptor}: give types like 0,1,2,3.") from error


@contextmanager
def _process_group() -> Iterator[bool]:
    """Join the other processes when `torchrun` started this one; yields whether it is the first."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield True
        return
    from torch import distributed

    distributed.init_process_group("gloo")
    try:
        yield distributed.get_rank() == 0
    finally:
        distributed.destroy_process_group()
