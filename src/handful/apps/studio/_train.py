"""The room Train: start, watch, stop and resume; and see the best pose so far."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import viser

from handful._files import make_folder
from handful.apps.studio._hand import CALM, Hand
from handful.apps.studio._models import held_for, written
from handful.apps.studio._scenes import SceneChoice, set_options
from handful.apps.studio._session import Session
from handful.apps.studio._stage import Stage
from handful.apps.studio._words import plain
from handful.checks import check_demos
from handful.demos import DemoSet
from handful.errors import HandfulError, OptionError
from handful.learning import (
    LogEntry,
    Recipe,
    RunFolder,
    StepReport,
    TrainingJob,
    predictor_so_far,
    recipe_for,
    train_jobs,
)
from handful.viz import Curve, picture_of_curves

CHECKPOINTS = 4.0
"""Seconds between two checkpoints, and so between two looks at the best pose so far."""
REST = 3.0
"""After a look at the best pose, none for this many times as long as it took: the training, which
may have no other core, is not to wait for those who watch it."""
DRAW = 0.7
"""Seconds between two pictures of the curves."""
ALL = "all steps"
STEPS = "steps"
"""Name under which a run notes how many training steps were asked for; 0 for the recipe's own."""
BLUE, GREEN, RED = (0.15, 0.37, 0.82), (0.16, 0.55, 0.32), (0.82, 0.3, 0.2)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}")


class _Stopped(Exception):
    """The person pressed Stop."""


class TrainRoom:
    """Trains models of what is taught, in processes of their own.

    Args:
        session: The studio.
    """

    name = "Train"

    def __init__(self, session: Session) -> None:
        self._session = session
        self.stage = Stage(session.server.scene, "train")
        self._hand = Hand(self.stage, "best")
        self.panel = TrainPanel(session)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._reports: dict[str, list[StepReport | LogEntry]] = {}
        self._jobs: list[TrainingJob] = []
        self._looked, self._look_again = ("", 0.0), 0.0
        session.clicked(self.panel.start, lambda _: self._begin(resume=False))
        session.clicked(self.panel.resume, lambda _: self._begin(resume=True))
        session.clicked(self.panel.stop, lambda _: self._interrupt())
        session.edited(self.panel.run, self._named)
        self.panel.scene.on_choice(self._show_scene)

    @property
    def running(self) -> bool:
        """Whether a training is under way."""
        return self._thread is not None and self._thread.is_alive()

    # --- the room --------------------------------------------------------------------------

    def open(self) -> None:
        """Offer what can be trained."""
        self.panel.scene.refresh()
        demos = self._session.state.document.demos
        steps = () if demos is None else demos.task.names
        value = self.panel.step.value if self.panel.step.value in (ALL, *steps) else ALL
        set_options(self.panel.step, (ALL, *steps), value)
        self.panel.state(self.running, self._can_resume())
        if demos is None:
            self.panel.told.content = "Nothing is taught yet: add a step in the room Teach."
            return
        if not self.running and not self._reports:
            self.panel.told.content = plain(
                f"{len(demos)} demonstrations of {', '.join(steps)}. A step takes minutes."
            )
        self._show_scene()
        if self.running:
            self._watch()

    def close(self) -> None:
        """Look no more; the training goes on."""
        self._session.desk.drop("watch")

    def key(self, name: str, shift: bool, alt: bool) -> None:
        """No keys here."""

    def end(self) -> None:
        """Interrupt a training when the studio ends; its checkpoint stays."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    # --- training --------------------------------------------------------------------------

    def _path(self) -> Path:
        name = self.panel.run.value.strip()
        if not _NAME.fullmatch(name):
            raise OptionError(
                f"{name!r} is no name for a run: use letters, digits, '_' and '-', 60 at most."
            )
        return self._session.folder.runs / name

    def _new_path(self, steps: Sequence[str]) -> Path:
        """Where a new training goes: what was trained before is not lost."""
        path = self._path()
        run = RunFolder(path)
        if not any(run.model(one).exists() or run.checkpoint(one).exists() for one in steps):
            return path
        name = self._session.folder.free_run(re.sub(r"_\d+$", "", path.name))
        self.panel.run.value = name
        self._session.tell(f"{path.name} was trained before, and stays: this run is called {name}.")
        return path.with_name(name)

    def _can_resume(self) -> bool:
        try:
            path = self._path()
        except OptionError:
            return False
        return bool(list(path.glob("*.checkpoint.safetensors"))) and not self.running

    def _named(self) -> None:
        """Another run: it may have been stopped before."""
        self.panel.state(self.running, self._can_resume())

    def _begin(self, resume: bool) -> None:
        if self.running:
            raise OptionError("a training is under way: stop it first.")
        demos = self._session.state.document.demos
        if demos is None:
            raise OptionError("nothing is taught yet: add a step in the room Teach.")
        names = demos.task.names
        if self.panel.step.value != ALL:
            names = (self.panel.step.value,)
        self._check(demos)
        path = self._path() if resume else self._new_path(names)
        if resume:
            self._recall(path, names)
        elif path not in [job.folder for job in self._jobs]:
            self._reports = {}
        steps = int(self.panel.steps.value) or None
        recipes = [recipe_for(demos, one, steps=steps, seed=0) for one in names]
        self._jobs = [TrainingJob(demos, recipe, path) for recipe in recipes]
        for one in names:
            self._reports.setdefault(one, [])
        self._stop.clear()
        self._looked = ("", 0.0)
        make_folder(path)
        self._note(path, demos, steps)  # who resumes it need not know how it was begun
        work = partial(self._train, recipes, path, resume)
        self._thread = threading.Thread(target=work, name="studio-training", daemon=True)
        self._thread.start()
        self.panel.state(running=True, resumable=False)
        self.panel.told.content = "Starting: the first step comes after some seconds ..."
        self._watch()

    def _recall(self, path: Path, names: Sequence[str]) -> None:
        """What a run was begun with, and its curves so far: another studio may have begun it."""
        run = RunFolder(path)
        steps = run.summary().options.get(STEPS)
        if isinstance(steps, int):
            self.panel.steps.value = steps
        if path not in [job.folder for job in self._jobs]:
            logs = [one for one in names if run.log(one).is_file()]
            self._reports = {one: list(run.curve(one)) for one in logs}

    def _note(self, path: Path, demos: DemoSet, steps: int | None) -> None:
        options = {"seed": 0, STEPS: steps or 0}
        folder = self._session.folder.demos_path
        RunFolder(path).note_training(folder, len(demos), "handful studio", options)

    def _check(self, demos: DemoSet) -> None:
        """Refuse demonstrations from which a model would learn nonsense, unless told to go on."""
        if self.panel.force.value:
            return
        report = check_demos(demos)
        wrong = [str(one) for one in report.problems if one.wrong]
        if wrong:
            raise OptionError(f"{wrong[0]} Mend it in the room Teach, or train anyway.")

    def _train(self, recipes: list[Recipe], path: Path, resume: bool) -> None:
        """Train, in a thread of its own that waits for the processes."""
        names = [recipe.step.name for recipe in recipes]

        def report(number: int, done: StepReport) -> None:
            self._reports[names[number]].append(done)
            if self._stop.is_set():
                raise _Stopped

        try:
            train_jobs(
                self._jobs,
                resume=resume,
                report=report,
                checkpoint_seconds=CHECKPOINTS,
            )
            run = RunFolder(path)
            if any(run.checkpoint(name).exists() for name in names):
                raise _Stopped  # Ctrl-C reached the processes themselves
            told = f"Trained: {', '.join(names)}. Go on to the rooms Look and Try."
        except _Stopped:
            told = "Stopped. Resume goes on from the checkpoint."
        except HandfulError as error:
            told = f"Not trained: {error}"
            if resume:
                told += " In this room, Start training begins anew, under another name."
        self._session.desk.do(partial(self._ended, told))

    def _interrupt(self) -> None:
        self._stop.set()
        self.panel.told.content = "Stopping: the checkpoint is being written ..."

    def _ended(self, told: str) -> None:
        if self._thread is not None:
            self._thread.join()
        self._session.desk.drop("watch")
        self._draw_curves()
        self.panel.state(running=False, resumable=self._can_resume())
        self.panel.told.content = f"**{plain(told)}**"

    # --- watching --------------------------------------------------------------------------

    def _watch(self) -> None:
        """Draw the curves and the best pose so far, and come back while the training runs."""
        if not self.running:
            return
        self._session.desk.later("watch", DRAW, self._watch)
        self._draw_curves()
        self._show_best()

    def _draw_curves(self) -> None:
        words = []
        for name, reports in self._reports.items():
            if not reports:
                continue
            last = reports[-1]
            loss = math.nan if last.loss is None else last.loss
            words.append(
                f"**{plain(name)}**: step {last.step + 1} of {last.steps}, "
                f"{plain(f'loss {loss:.2f}')}"
            )
        shown = max(self._reports.values(), key=len, default=[])
        if len(shown) > 1 and not self._stop.is_set():
            total = shown[-1].steps
            fall = Curve("loss", _at_steps(shown, "loss"), BLUE)
            target = Curve("energy of targets", _at_steps(shown, "target_energy"), GREEN)
            other = Curve("energy of others", _at_steps(shown, "negative_energy"), RED)
            losses = picture_of_curves([fall], total)
            energies = picture_of_curves([target, other], total)
            self.panel.loss.image, self.panel.energies.image = map(np.asarray, (losses, energies))
            self.stage.pictures = (losses, energies)
            self.panel.loss.visible = self.panel.energies.visible = True
        if words and self.running and not self._stop.is_set():
            self.panel.told.content = "\n\n".join(words)

    def _show_scene(self) -> None:
        scene, _ = self.panel.scene.clouds()
        self.stage.cloud("scene", self._session.prepared(scene).shown())
        self._session.look_over(scene.points)
        self._hand.hide()
        self._looked, self._look_again = ("", 0.0), 0.0

    def _show_best(self) -> None:
        """The best pose of the last checkpoint, if there is one that was not looked at."""
        if time.monotonic() < self._look_again:
            return
        # Steps that are trained side by side take turns.
        for job in sorted(self._jobs, key=lambda one: one.recipe.step.name == self._looked[0]):
            name = job.recipe.step.name
            when = written(RunFolder(job.folder).checkpoint(name))
            new = when is not None and (name, when) != self._looked
            if new and len(self._reports.get(name, [])) > 1 and self._show_best_of(job):
                self._looked = name, when or 0.0
                return

    def _show_best_of(self, job: TrainingJob) -> bool:
        """Whether a model could be asked; its best pose is shown if it has one."""
        start, step = time.monotonic(), job.recipe.step
        scene, grasp = self.panel.scene.clouds()
        assert isinstance(job.recipe, Recipe)
        predictor = predictor_so_far(job.demos, job.recipe, job.folder)
        if predictor is None or (step.action.holding and grasp is None):
            return False
        held = held_for(predictor, grasp)
        found = predictor.sample(scene, held, n=1)
        took = time.monotonic() - start
        self._look_again = time.monotonic() + REST * took
        if len(found):
            self._hand.show(found.T_scene_gripper[0], predictor.gripper, color=CALM, held=held)
            done = self._reports[step.name][-1].step + 1
            self.panel.best.content = plain(
                f"The best pose for {step.name} after {done} steps: energy {found.energy[0]:.2f} "
                f"(found in {took:.1f} s)."
            )
        return True


def _at_steps(reports: Sequence[StepReport | LogEntry], name: str) -> list[float]:
    """A number of each step at its place; NaN where nobody watched."""
    values = [math.nan] * (reports[-1].step + 1)
    for one in reports:
        value = getattr(one, name)
        if one.step < len(values) and value is not None:
            values[one.step] = value
    return values


class TrainPanel:
    """Fields and buttons of the room.

    Args:
        session: The studio.
    """

    def __init__(self, session: Session) -> None:
        gui = session.server.gui
        empty = np.full((24, 56, 3), 250, np.uint8)
        self.folder = gui.add_folder("Train")
        with self.folder:
            self.run = gui.add_text("Run", "first")
            self.step = gui.add_dropdown("Step", (ALL,), ALL)
            self.steps = gui.add_number(
                "Training steps", 0, 0, 100_000, 1, hint="0: as many as the recipe says."
            )
            self.force = gui.add_checkbox("Train even if checks fail", False)
            self.start = gui.add_button(
                "Start training", icon=viser.Icon.PLAYER_PLAY, color="green"
            )
            self.stop = gui.add_button("Stop", icon=viser.Icon.PLAYER_STOP, visible=False)
            self.resume = gui.add_button("Resume", icon=viser.Icon.PLAYER_PLAY, visible=False)
            self.told = gui.add_markdown("")
            self.loss = gui.add_image(empty, format="png", visible=False)
            self.energies = gui.add_image(empty, format="png", visible=False)
            self.scene = SceneChoice(session, gui)
            self.best = gui.add_markdown("")

    def state(self, running: bool, resumable: bool) -> None:
        """Which buttons make sense."""
        self.start.visible = not running
        self.stop.visible = running
        self.resume.visible = resumable and not running
