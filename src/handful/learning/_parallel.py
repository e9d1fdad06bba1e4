"""Several steps trained side by side: one process and one thread for each.

One thread makes a step's model the same to the bit however many cores there are, and steps do not
depend on each other. A run that is interrupted leaves a checkpoint of every step that was begun.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any

from handful._files import make_folder
from handful.demos import DemoSet
from handful.errors import HandfulError, OptionError
from handful.learning._method import StepRecipe
from handful.learning._run import SECONDS_BETWEEN_CHECKPOINTS, is_trained, train_in_folder
from handful.learning._trainer import StepReport, TrainingError

PATIENCE = 60.0
"""Seconds in which an interrupted process must have written its checkpoint."""

_OTHER_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """The training of one model.

    Attributes:
        demos: What to learn from.
        recipe: What to train and how.
        folder: The run's folder; made when missing.
    """

    demos: DemoSet
    recipe: StepRecipe
    folder: Path


def train_side_by_side(
    demos: DemoSet,
    recipes: Sequence[StepRecipe],
    folder: str | Path,
    *,
    workers: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    report: Callable[[str, StepReport], None] | None = None,
) -> None:
    """Train several models of a run, each in a process of its own with one thread.

    Args:
        demos: What to learn from.
        recipes: What to train and how, one for each step.
        folder: The run's folder; made when missing.
        workers: Processes at once; as many as there are cores if not given.
        resume: As for `train_in_folder`.
        overwrite: As for `train_in_folder`.
        report: Told the name of the step and what happened after every optimiser step.

    Raises:
        HandfulError: A training failed; the others were interrupted and have their checkpoints.
    """
    jobs = [TrainingJob(demos, recipe, Path(folder)) for recipe in recipes]

    def tell(job: int, done: StepReport) -> None:
        if report is not None:
            report(recipes[job].step.name, done)

    train_jobs(jobs, workers=workers, resume=resume, overwrite=overwrite, report=tell)


def train_jobs(
    jobs: Sequence[TrainingJob],
    *,
    workers: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    report: Callable[[int, StepReport], None] | None = None,
    checkpoint_seconds: float = SECONDS_BETWEEN_CHECKPOINTS,
) -> None:
    """Train models of one or more runs, each in a process of its own with one thread.

    Args:
        jobs: What to train; begun in this order.
        workers: As for `train_side_by_side`.
        resume: As for `train_in_folder`.
        overwrite: As for `train_in_folder`.
        report: Told the number of the job and what happened after every optimiser step. What it
            raises interrupts all trainings, which leave their checkpoints.
        checkpoint_seconds: As for `train_in_folder`.

    Raises:
        HandfulError: A training failed; the others were interrupted and have their checkpoints.
    """
    at_once = max(1, workers or os.cpu_count() or 1)
    waiting = [  # a process takes seconds to start: not for what is refused, or done already
        number
        for number, job in enumerate(jobs)
        if not is_trained(job.demos, job.recipe, job.folder, resume=resume, overwrite=overwrite)
    ]
    for number in waiting:
        make_folder(jobs[number].folder)
    running: dict[Connection, BaseProcess] = {}
    options = {
        "resume": resume,
        "overwrite": overwrite,
        "checkpoint_seconds": checkpoint_seconds,
    }
    try:
        while waiting or running:
            new = []
            for _ in range(min(len(waiting), at_once - len(running))):
                number = waiting.pop(0)
                new.append((number, *_started(number, jobs[number], options)))
            running.update({connection: process for _, connection, process in new})
            for number, connection, _ in new:  # when all have started: each loads its libraries
                with suppress(BrokenPipeError, ConnectionResetError):  # `_heard` says why
                    connection.send(jobs[number].demos)
            ready = wait(list(running))
            for connection in [one for one in running if one in ready]:
                if not _heard(connection, report):
                    _ended(running.pop(connection))
    except BaseException:
        _interrupt(list(running.values()))
        raise


def _started(
    number: int, job: TrainingJob, options: dict[str, Any]
) -> tuple[Connection, BaseProcess]:
    """A process that waits for demonstrations, and the connection with it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_train, args=(theirs, number, job.recipe, job.folder, options))
    ensure_running()  # by itself it would let interrupts through again
    with _one_thread_for_children(), _interrupts_wait():
        process.start()
    theirs.close()
    return ours, process


def _heard(connection: Connection, report: Callable[[int, StepReport], None] | None) -> bool:
    """Pass on what a process says; False when it has said all."""
    try:
        said = connection.recv()
    except EOFError:
        connection.close()
        return False
    if isinstance(said, tuple):
        if report is not None:
            report(*said)
    else:
        raise said
    return True


def _ended(process: BaseProcess) -> None:
    process.join()
    if process.exitcode:
        raise TrainingError(
            f"a training process ended with status {process.exitcode} (out of memory?): go on with "
            "--resume, perhaps with --workers 1."
        )


def _interrupt(processes: Sequence[BaseProcess]) -> None:
    """Let processes write their checkpoints, and end them if they do not."""
    end = time.monotonic() + PATIENCE
    for process in processes:
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGINT)
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join()


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """An interrupt comes afterwards.

    Those of a process that is started here wait, too, until it hears them: while it loads its
    libraries they would end it with a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_for_children() -> Iterator[None]:
    """Numerical libraries read these variables when they are loaded; ours are put back."""
    before = {name: os.environ.get(name) for name in _OTHER_THREADS}
    os.environ.update(dict.fromkeys(_OTHER_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


# --- in the process ----------------------------------------------------------------------------


def _train(
    connection: Connection, number: int, recipe: StepRecipe, folder: Path, options: dict[str, Any]
) -> None:
    """What a process does with the demonstrations that it is sent.

    It ends with its parent, and an interrupt leaves a checkpoint.
    """
    import torch

    from handful.nn import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()

    def report(step: StepReport) -> None:
        connection.send((number, step))

    try:
        _hear_interrupts()
        demos: DemoSet = connection.recv()
        train_in_folder(demos, recipe, folder, report=report, **options)
    except HandfulError as error:
        _ignore_interrupts()  # the others are stopped, and this is why
        kind = OptionError if isinstance(error, OptionError) else TrainingError
        with suppress(BrokenPipeError):
            connection.send(kind(str(error)))
    except (KeyboardInterrupt, BrokenPipeError, EOFError):
        pass
    finally:
        _ignore_interrupts()  # all is saved, and libraries that clean up would print a traceback
        connection.close()


def _hear_interrupts() -> None:
    """From now on; one that came while the process was started comes now."""
    signal.signal(signal.SIGINT, _first_interrupt)
    signal.signal(signal.SIGTERM, _first_interrupt)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_interrupt_with, args=(parent,), daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _first_interrupt(*_: object) -> None:
    """A second interrupt must not disturb what the first one has begun: writing a checkpoint."""
    _ignore_interrupts()
    raise KeyboardInterrupt


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _interrupt_with(parent: BaseProcess) -> None:
    """Raise an interrupt in the main thread when the parent is gone."""
    parent.join()
    os.kill(os.getpid(), signal.SIGINT)
