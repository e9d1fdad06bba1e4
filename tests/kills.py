"""Kills at random moments: afterwards the old is there or the new, and what was resumed is equal.

`python -m kills --kills 300` (or `make kills KILLS=300`) runs as many as one likes. Each job is
forked from this process, which has loaded everything, and gets SIGKILL after a random time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from bench_samples import CONDITIONS, episode
from handful.bench import BenchPlan, EpisodeStore, read_episodes, run_bench, write_report
from handful.demos import Action, DemoSet, TaskStep, gripper_named, load_demos, save_demos
from handful.learning import RunFolder, _run, train_in_folder
from handful.models import EdfModel
from handful.policy import Predictor, load_predictor, save_predictor
from handful.sim import collect_demos, task_named
from samples import small_demos, thin_sample
from small_training import COARSE, THIN, small_recipe

RESUMED = 8
"""Runs of a work that goes on where it was killed; the last one is not killed."""


class Lost(AssertionError):
    """After a kill something is neither the old nor the new."""


def check(fine: bool, what: str) -> None:
    if not fine:
        raise Lost(what)


@dataclass(frozen=True)
class Job:
    """Something that is killed.

    Attributes:
        prepare: Makes what was there before, in an empty folder.
        work: Is killed.
        after: Checks what is there; true when the work is done and need not go on.
        longest: The kill comes after this many seconds, at most.
        share: Of all kills.
        resumes: Whether the work goes on where it was killed, until it is done.
    """

    prepare: Callable[[Path], object]
    work: Callable[[Path], object]
    after: Callable[[Path], bool]
    longest: float
    share: float
    resumes: bool = False


def killed(work: Callable[[Path], object], folder: Path, delay: float) -> bool:
    """Run some work in a process of its own; true if it was killed before it ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(folder)
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + delay
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            check(status == 0, f"the work itself failed with status {status}")
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


# --- saving --------------------------------------------------------------------------------------

OLD, NEW = small_demos(2), replace(small_demos(3), description="new")


def _same(one: DemoSet, other: DemoSet) -> bool:
    return (len(one), one.description) == (len(other), other.description) and all(
        np.array_equal(a.scene.points, b.scene.points) and np.array_equal(a.targets, b.targets)
        for demo, twin in zip(one, other, strict=True)
        for a, b in zip(demo.steps, twin.steps, strict=True)
    )


def _save_in_turn(folder: Path) -> None:
    for number in range(1000):
        save_demos(NEW if number % 2 == 0 else OLD, folder / "set", overwrite=True)


def _old_or_new(folder: Path) -> bool:
    there = load_demos(folder / "set")
    check(_same(there, OLD) or _same(there, NEW), "the demonstrations are neither old nor new")
    return True


def _predictor(seed: int) -> Predictor:
    torch.manual_seed(seed)
    model = EdfModel(small_recipe("take", Action.PICK).model).eval()
    step = TaskStep("take", Action.PICK)
    return Predictor(step, model, gripper_named("simulated"), THIN, COARSE)


def _weights(predictor: Predictor) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in predictor.model.parameters()])


MODELS = [_predictor(0), _predictor(1)]


def _save_models(folder: Path) -> None:
    for number in range(1000):
        save_predictor(MODELS[number % 2], folder / "model")


def _old_or_new_model(folder: Path) -> bool:
    there = _weights(load_predictor(folder / "model"))
    check(any(torch.equal(there, _weights(one)) for one in MODELS), "the model is neither")
    return True


# --- episodes and reports ------------------------------------------------------------------------


def _add_episodes(folder: Path) -> None:
    store = EpisodeStore(folder / "bench", CONDITIONS)
    with open(folder / "acknowledged", "a", buffering=1) as told:
        for seed in range(10_000, 12_000):
            if seed not in store.records:
                store.add(episode(seed))
                told.write(f"{seed}\n")


def _acknowledged_are_there(folder: Path) -> bool:
    told = folder / "acknowledged"
    seeds = {int(line) for line in told.read_text().split()} if told.exists() else set()
    path = folder / "bench" / CONDITIONS.file_name
    there = {record.seed for record in read_episodes(path)[1]} if path.exists() else set()
    check(seeds <= there, f"{len(seeds - there)} episodes are lost")
    _add_some(folder)
    return True


def _add_some(folder: Path) -> None:
    """The next process can add to what is there."""
    store = EpisodeStore(folder / "bench", CONDITIONS)
    store.add(episode(20_000))
    check(20_000 in {one.seed for one in read_episodes(store.path)[1]}, "nothing can be added")


def _make_results(folder: Path) -> None:
    store = EpisodeStore(folder / "bench", CONDITIONS)
    for seed in range(10_000, 10_020):
        store.add(episode(seed, done=seed % 3))
    write_report(folder, folder / "report.html", pictures=False)


def _reports(folder: Path) -> None:
    for _ in range(100):
        write_report(folder, folder / "report.html", pictures=False)


def _whole_report(folder: Path) -> bool:
    check((folder / "report.html").read_text().endswith("</main></body></html>"), "half a page")
    check("success.svg" in (folder / "report.md").read_text(), "half a Markdown page")
    check((folder / "report_files/success.svg").read_text().endswith("</svg>"), "half a chart")
    return True


# --- work that goes on ---------------------------------------------------------------------------

RECIPE = small_recipe("pick", Action.PICK, steps=12)
_run.SECONDS_BETWEEN_CHECKPOINTS = 0.0  # else a kill within the first 20 s begins anew


def _train(folder: Path) -> None:
    train_in_folder(thin_sample(), RECIPE, folder / "run", resume=True)


_REFERENCES: dict[str, object] = {}


def _trained_the_same(folder: Path) -> bool:
    run = RunFolder(folder / "run")
    if not run.holds(thin_sample(), RECIPE):
        return False
    if "training" not in _REFERENCES:
        alone = train_in_folder(thin_sample(), RECIPE, folder / "alone")
        _REFERENCES["training"] = _weights(alone)
    same = torch.equal(_weights(run.predictor("pick")), _REFERENCES["training"])
    check(same, "the resumed model is another one")
    return True


def _plan(folder: Path) -> BenchPlan:
    return BenchPlan(folder, "bottle", ("trained",), range(3), "oracle")


def _bench(folder: Path) -> None:
    run_bench(_plan(folder))


def _benched_the_same(folder: Path) -> bool:
    plan = _plan(folder)
    path = plan.folder / plan.conditions("trained").file_name
    found = (
        {} if not path.exists() else {one.seed: _timeless(one) for one in read_episodes(path)[1]}
    )
    known = _REFERENCES.setdefault("bench", {})
    for seed, record in found.items():
        check(known.setdefault(seed, record) == record, f"episode {seed} went otherwise")
    return set(found) == set(plan.seeds)


def _timeless(record: object) -> str:
    values = asdict(record)
    values.pop("seconds")
    for step in values["steps"]:
        step.pop("seconds")
    return json.dumps(values, default=str)


def _collect(folder: Path) -> None:
    save_demos(collect_demos(task_named("bottle"), 1, 0), folder / "set")


def _collected_or_not(folder: Path) -> bool:
    if not (folder / "set").exists():
        return False
    there = load_demos(folder / "set")
    known = _REFERENCES.setdefault("collect", there)  # a seed gives the same, killed or not
    check(_same(there, known), "another demonstration was collected")
    return True


JOBS = {
    "save demonstrations": Job(
        lambda folder: save_demos(OLD, folder / "set"), _save_in_turn, _old_or_new, 0.4, 0.3
    ),
    "save a model": Job(
        lambda folder: save_predictor(MODELS[0], folder / "model"),
        _save_models, _old_or_new_model, 0.3, 0.25,
    ),
    "add episodes": Job(lambda _: None, _add_episodes, _acknowledged_are_there, 0.4, 0.15),
    "report": Job(_make_results, _reports, _whole_report, 0.8, 0.15),
    "train": Job(lambda _: None, _train, _trained_the_same, 2.0, 0.1, True),
    "bench": Job(lambda _: None, _bench, _benched_the_same, 6.0, 0.025, True),
    "collect": Job(lambda _: None, _collect, _collected_or_not, 6.0, 0.025, True),
}  # fmt: skip


def run_kills(name: str, kills: int, rng: random.Random, root: Path) -> Counter[str]:
    """Kill a job again and again; what is there is checked after every kill."""
    job, counts = JOBS[name], Counter()
    folder = root / name.replace(" ", "-")
    while counts["kills"] < kills:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        job.prepare(folder)
        for attempt in range(RESUMED if job.resumes else 1):
            # Work that is resumed gets more and more time, and in the end all that it needs.
            longest = job.longest * 1.5**attempt if attempt < RESUMED - 1 else 3600.0
            least = 0.0 if attempt < RESUMED - 1 else longest
            counts["kills"] += killed(job.work, folder, rng.uniform(least, longest))
            counts["runs"] += 1
            if job.after(folder):
                counts["wholes"] += 1
                break
    return counts


def main() -> None:
    options = argparse.ArgumentParser(prog="kills", description=__doc__)
    options.add_argument("--kills", type=int, default=300)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", default=",".join(JOBS), help="comma-separated; all by default")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    torch.set_num_threads(1)
    start, figures, lost = time.monotonic(), {}, 0
    with tempfile.TemporaryDirectory(prefix="handful-kills-") as root:
        jobs = {name: JOBS[name] for name in given.jobs.split(",")}
        shares = sum(job.share for job in jobs.values())
        for name, job in jobs.items():
            rng = random.Random(f"{given.seed} {name}")
            kills = max(1, round(job.share / shares * given.kills))
            try:
                counts = run_kills(name, kills, rng, Path(root))
                figures[name] = dict(counts)
            except Exception as error:
                lost += 1
                figures[name] = {"lost": f"{type(error).__name__}: {error}"}
            print(name, figures[name], flush=True)
    figures["seconds"] = round(time.monotonic() - start)
    figures["kills"] = sum(one.get("kills", 0) for one in figures.values() if isinstance(one, dict))
    print(json.dumps(figures))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(lost > 0)


if __name__ == "__main__":
    main()
