"""Who runs the episodes: this process, several processes, or a Ray cluster."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

from handful.bench._errors import BenchError
from handful.bench._policies import STEPS
from handful.bench._worker import Done, Job, Worker, Workplace


def run_here(place: Workplace, jobs: Sequence[Job]) -> Iterator[Done]:
    """One after the other in this process."""
    worker = Worker(place)
    for job in jobs:
        yield worker.run(job)


def run_in_processes(place: Workplace, jobs: Sequence[Job], workers: int) -> Iterator[Done]:
    """In several processes of this machine; in the order in which they end.

    Raises:
        BenchError: A process died.
    """
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited, and read when numerical libraries load
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, max(len(jobs), 1)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(place,),
    )
    try:
        futures = [pool.submit(_run, job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise BenchError(
            "a worker process died (out of memory?): finished episodes are kept; run the same "
            "command again, perhaps with fewer --workers."
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        _restore("OMP_NUM_THREADS", before)


_worker: Worker | None = None


def _begin(place: Workplace) -> None:
    """What a process does first; it ends with its parent, and Ctrl-C is the parent's business."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _worker = Worker(place)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _run(job: Job) -> Done:
    assert _worker is not None
    return _worker.run(job)


def run_on_ray(
    place: Workplace, jobs: Sequence[Job], address: str, workers: int | None = None
) -> Iterator[Done]:
    """On a Ray cluster; models travel with the work, folders of meshes must be there already.

    Args:
        place: The work.
        jobs: The episodes.
        address: `auto` for the cluster that this machine belongs to, or `HOST:PORT`.
        workers: How many at once; as many as the cluster has cores if not given.

    Raises:
        BenchError: Ray is not installed, or there is no cluster.
    """
    ray = _ray()
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise BenchError(
            f"no Ray cluster answers at {address!r}: start one with 'ray start --head', or leave "
            f"--ray out ({str(error).splitlines()[0]})."
        ) from error
    try:
        crew = workers or int(ray.cluster_resources().get("CPU", 1))
        packed = ray.put(_packed(place))
        remote = ray.remote(num_cpus=1)(_RemoteWorker)
        actors = [remote.remote(place, packed) for _ in range(max(1, min(crew, len(jobs))))]
        pool = importlib.import_module("ray.util").ActorPool(actors)
        yield from pool.map_unordered(lambda actor, job: actor.run.remote(job), list(jobs))
    finally:
        ray.shutdown()


class _RemoteWorker:
    """A worker that unpacks its models, since the run's folder may be on another machine."""

    def __init__(self, place: Workplace, packed: dict[str, bytes]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        for name, content in packed.items():
            path = Path(self._folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._worker = Worker(replace(place, run=self._folder.name))

    def run(self, job: Job) -> Done:
        return self._worker.run(job)


def _packed(place: Workplace) -> dict[str, bytes]:
    """The files of a run's models."""
    run = Path(place.run)
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for step in STEPS
        for path in sorted((run / step).rglob("*"))
        if path.is_file()
    }


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise BenchError("Ray is not installed: pip install 'handful[cluster]'.") from error


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
