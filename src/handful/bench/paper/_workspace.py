"""The folder of all studies: demonstrations and runs that several tables share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from handful.bench.paper._studies import DEMONSTRATIONS, Contender
from handful.bench.report._curve import first_demos
from handful.demos import DemoSet, load_demos, save_demos
from handful.learning import MethodOptions, StepRecipe, method_named
from handful.sim import Variant, collect_demos, task_named


@dataclass(frozen=True)
class PaperFolder:
    """Where everything is; what is there already is not done again.

    FOLDER/demos/TASK-VARIANT      demonstrations
    FOLDER/runs/TASK-METHOD-PRESET-VARIANT-COUNT
                                   a run for each contender and task that some table needs

    Attributes:
        path: The folder.
        seed: Of demonstrations and trainings.
        steps: Optimiser steps of every model, instead of those of its preset; None for these.
    """

    path: Path
    seed: int = 0
    steps: int | None = None

    def demos_folder(self, task: str, variant: str) -> Path:
        """Of the demonstrations of a task."""
        return self.path / "demos" / f"{task}-{variant}"

    def run(self, task: str, contender: Contender) -> Path:
        """Folder of the models of a contender for a task; the same for every table."""
        preset = contender.preset or method_named(contender.method).presets[0]
        words = [task, contender.method, preset, contender.variant(task)]
        return self.path / "runs" / "-".join([*words, f"{contender.demonstrations:02d}"])

    def demos(
        self, task: str, contender: Contender, tell: Callable[[str], None] | None = None
    ) -> DemoSet:
        """The demonstrations that a contender learns from; collected if they are not there.

        All contenders of a task and variant share them; fewer are the first of them.

        Args:
            task: Name of the task.
            contender: Who learns.
            tell: Told what is being done.
        """
        variant = contender.variant(task)
        folder = self.demos_folder(task, variant)
        if not folder.is_dir():
            (tell or (lambda what: None))(f"{task}: demonstrating ({variant})")
            made = collect_demos(
                task_named(task), DEMONSTRATIONS, self.seed, Variant.named(variant)
            )
            save_demos(made, folder)
        return first_demos(load_demos(folder), contender.demonstrations)

    def recipes(self, demos: DemoSet, contender: Contender) -> list[StepRecipe]:
        """How the models of a contender are trained, one for each step."""
        method = method_named(contender.method)
        options = MethodOptions(contender.preset, self.steps, self.seed)
        return [method.recipe(demos, name, options) for name in demos.task.names]
