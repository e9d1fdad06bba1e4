"""What runs the episodes: this process, several processes, or a Ray cluster."""

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from handful.bench._errors import BenchError
from handful.bench.run._threads import one_thread, use_one_thread
from handful.bench.run._worker import EpisodeJob, EpisodeResult, Worker, WorkerConfig
from handful.learning import RunFolder
from handful.nn import keep_freed_memory
from handful.sim import task_named


@dataclass(frozen=True)
class Executor:
    """Runs episodes.

    Attributes:
        workers: Processes at once; None for this process alone, or on Ray for as many as the
            cluster has cores.
        ray: Address of a Ray cluster, `auto` for the present one; None for this machine.
    """

    workers: int | None = None
    ray: str | None = None

    def run(self, config: WorkerConfig, jobs: Sequence[EpisodeJob]) -> Iterator[EpisodeResult]:
        """Run episodes; results come in the order in which the episodes end."""
        if self.ray is not None:
            return run_on_ray(config, jobs, self.ray, self.workers)
        if (self.workers or 1) == 1:
            return run_here(config, jobs)
        return run_in_processes(config, jobs, self.workers or 1)


def run_here(config: WorkerConfig, jobs: Sequence[EpisodeJob]) -> Iterator[EpisodeResult]:
    """Run episodes one after the other in this process.

    Torch uses one thread while an episode runs, and between episodes as many as before.
    """
    with one_thread():
        worker = Worker(config)
    for job in jobs:
        with one_thread():
            result = worker.run(job)
        yield result


def run_in_processes(
    config: WorkerConfig, jobs: Sequence[EpisodeJob], workers: int
) -> Iterator[EpisodeResult]:
    """Run episodes in several processes of this machine.

    They are forked from one that has loaded the libraries once.

    Raises:
        BenchError: A process died.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited, and read when numerical libraries load
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, max(len(jobs), 1)),
        mp_context=context,
        initializer=_begin,
        initargs=(config,),
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


def _begin(config: WorkerConfig) -> None:
    """What a worker process does first.

    The process ends with its parent. Ctrl-C is handled by the parent.
    """
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    use_one_thread()
    keep_freed_memory()
    _worker = Worker(config)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _run(job: EpisodeJob) -> EpisodeResult:
    assert _worker is not None
    return _worker.run(job)


def run_on_ray(
    config: WorkerConfig, jobs: Sequence[EpisodeJob], address: str, workers: int | None = None
) -> Iterator[EpisodeResult]:
    """Run episodes on a Ray cluster; models travel with the work, folders of meshes do not.

    Args:
        config: For every worker.
        jobs: The episodes.
        address: `auto` for the cluster that this machine belongs to, or `HOST:PORT`.
        workers: Processes at once; as many as the cluster has cores if not given.

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
        count = workers or int(ray.cluster_resources().get("CPU", 1))
        packed = ray.put(_packed(config))
        remote = ray.remote(num_cpus=1)(_RemoteWorker)
        actors = [remote.remote(config, packed) for _ in range(max(1, min(count, len(jobs))))]
        pool = importlib.import_module("ray.util").ActorPool(actors)
        yield from pool.map_unordered(lambda actor, job: actor.run.remote(job), list(jobs))
    finally:
        ray.shutdown()


class _RemoteWorker:
    """A worker that unpacks its models, since the run's folder may be on another machine."""

    def __init__(self, config: WorkerConfig, packed: dict[str, bytes]) -> None:
        use_one_thread()
        keep_freed_memory()
        self._folder = tempfile.TemporaryDirectory()
        for name, content in packed.items():
            path = Path(self._folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._worker = Worker(replace(config, run=self._folder.name))

    def run(self, job: EpisodeJob) -> EpisodeResult:
        return self._worker.run(job)


def _packed(config: WorkerConfig) -> dict[str, bytes]:
    """The files of a run's models, by their path in the run's folder."""
    run = Path(config.run)
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for step in task_named(config.task).task
        for path in sorted(RunFolder(run).model(step.name).rglob("*"))
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
