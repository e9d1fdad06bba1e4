"""Trained models that a studio knows: those of its own runs, and of runs it was told of."""

from __future__ import annotations

from pathlib import Path

from handful.apps.studio._folder import StudioFolder
from handful.clouds import PointCloud
from handful.demos import Gripper
from handful.errors import HandfulError, OptionError
from handful.learning import RunFolder, only_edf
from handful.policy import Predictor

NONE = "(none)"


class Models:
    """Finds and loads predictors by the label that people choose them by.

    Args:
        folder: The studio's folder.
        more: Folders of further runs.
    """

    def __init__(self, folder: StudioFolder, more: tuple[str, ...]) -> None:
        self._folder, self._more = folder, [Path(one) for one in more]
        self._loaded: dict[tuple[Path, str], tuple[float, Predictor]] = {}

    def runs(self) -> dict[str, Path]:
        """Folders of runs by their name."""
        found = {name: self._folder.runs / name for name in self._folder.run_names()}
        for path in self._more:
            found[str(path) if path.name in found else path.name] = path
        return found

    def labels(self) -> tuple[str, ...]:
        """Labels of the steps that have a model, `run · step`."""
        found = []
        for name, path in self.runs().items():
            run = RunFolder(path)
            try:
                steps = run.task.names
            except HandfulError:
                continue
            found += [f"{name} · {step}" for step in steps if run.model(step).is_dir()]
        return tuple(found)

    def fitting(self, label: str, step: str) -> str:
        """The label to choose for a step: of the same run where it can, else of the newest.

        Args:
            label: What is chosen now; may be gone.
            step: Name of the step that is looked at; empty for a scene of no step.
        """
        labels = self.labels()
        if not labels:
            return NONE
        there = label in labels
        run = _split(label if there else max(labels, key=self._when))[0]
        ours = [one for one in labels if _split(one)[0] == run]
        same = [one for one in ours if _split(one)[1] == step]
        return same[0] if same else label if there else ours[0]

    def run_of(self, label: str) -> tuple[Path, str]:
        """Folder of the run and name of the step.

        Raises:
            OptionError: There is no such model.
        """
        name, step = _split(label)
        path = self.runs().get(name)
        if path is None:
            raise OptionError(f"there is no model {label!r}: train one in the room Train.")
        return path, step

    def predictor(self, label: str, gripper: Gripper) -> Predictor:
        """The model of a label, for a gripper.

        Raises:
            HandfulError: It cannot be loaded.
        """
        path, step = self.run_of(label)
        when = self._when(label)
        known = self._loaded.get((path, step))
        if known is None or known[0] != when:
            predictor = only_edf(RunFolder(path).predictor(step), "the studio")
            known = self._loaded[path, step] = (when, predictor)
        found = known[1]
        return found if found.trained_gripper == gripper else found.for_gripper(gripper)

    def _when(self, label: str) -> float:
        """When the model of a label was written."""
        path, step = self.run_of(label)
        return written(RunFolder(path).model(step)) or 0.0


def _split(label: str) -> tuple[str, str]:
    """Names of the run and of the step."""
    run, _, step = label.rpartition(" · ")
    return run, step


def written(path: Path) -> float | None:
    """When something was written; None if it is not there: trainings replace what they wrote."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def held_for(predictor: Predictor, grasp: PointCloud | None) -> PointCloud | None:
    """What the model is told of what is held.

    Raises:
        OptionError: It needs to know, and nobody said.
    """
    if not predictor.step.action.holding:
        return None
    if grasp is None:
        raise OptionError(
            f"the step {predictor.step.name!r} needs what is held: choose a step with it, or open "
            "it in the room Teach."
        )
    return grasp
