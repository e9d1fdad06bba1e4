"""Train on some of the ten mug demonstrations, judge the poses on the left-out ones.

    python benchmarks/edf_mug/evaluate.py --demos out/mug --out out/edf_mug
    python benchmarks/edf_mug/evaluate.py --demos out/mug --out out/edf_mug --fold 0 &
    python benchmarks/edf_mug/evaluate.py --demos out/mug --out out/edf_mug --fold 1 &
    python benchmarks/edf_mug/evaluate.py --out out/edf_mug --report

Every answer is stored as it comes and is skipped when the command is given again; models are stored
too. Folds may run at the same time, each in one process.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from edf_mug.cylinders import Array
from edf_mug.judge import Verdict, judge_grip, judge_hanging
from edf_mug.models import MODELS, make_model
from edf_mug.report import Result, ResultFile, TrainingResult, read_lines, report
from edf_mug.shapes import find_hanger, find_mug, find_table
from edf_mug.variants import VARIANTS, TestScene, make_variant
from handful.demos import Demonstration, DemoSet, Gripper, load_demos

JUDGED = 10
"""How many of the best poses are judged; the first of them decides."""


def main() -> None:
    options = _options()
    if options.report:
        _print_reports(options.out)
        return
    demos = load_demos(options.demos)
    folds = range(options.folds) if options.fold is None else [options.fold]
    for fold in folds:
        for step in options.steps:
            run_fold(demos, fold, step, options)
    _print_reports(options.out)


def run_fold(demos: DemoSet, fold: int, step: str, options: argparse.Namespace) -> None:
    """Train one step on one fold and judge it on all variants of what was left out."""
    left_out, training = split(demos, fold, options.folds, options.train_count, options.seed)
    folder = _run_folder(options, len(training)) / f"fold_{fold}"
    store = ResultFile(folder.with_suffix(f".{step}.jsonl"))
    todo = [
        (demo, variant, repeat)
        for demo in left_out
        for variant in VARIANTS[step]
        for repeat in range(options.repeats)
        if (step, demo.name, variant, repeat) not in store.done()
    ]
    if not todo:
        return
    names = tuple(demo.name for demo in training)
    print(f"fold {fold} {step}: trains on {', '.join(names)}", flush=True)
    chosen = DemoSet(tuple(training), demos.gripper, demos.description)
    model = make_model(
        options.model, step, chosen, options.seed, folder / step, options.train_steps
    )
    if model.training is not None:
        took = model.training
        store.add(TrainingResult(fold, step, names, took.seconds, took.peak_gib))
    for demo, variant, repeat in todo:
        others = [other for other in demos if other is not demo]
        test = make_variant(demo, step, variant, options.seed + repeat, others)
        answer = model.answer(test, demo.step(step), options.samples)
        verdicts = judged(test, answer.T_scene_gripper[:JUDGED], demos.gripper)
        found = len(answer.T_scene_gripper) > 0
        T_scene_gripper = answer.T_scene_gripper[0] if found else None
        result = Result(
            fold,
            step,
            demo.name,
            variant,
            repeat,
            test.has_target,
            bool(verdicts) and verdicts[0].ok,
            float(np.mean([verdict.ok for verdict in verdicts])) if verdicts else 0.0,
            verdicts[0].reasons if verdicts else (),
            answer.energy,
            answer.confidence,
            answer.seconds,
            None if T_scene_gripper is None else T_scene_gripper.tolist(),
            None if T_scene_gripper is None else test.carried_back(T_scene_gripper).tolist(),
        )
        store.add(result)
        print(_told(result), flush=True)


def split(
    demos: DemoSet, fold: int, folds: int, train_count: int | None, seed: int
) -> tuple[list[Demonstration], list[Demonstration]]:
    """What is left out in a fold, and what is trained on: all others, or some drawn of them.

    The same fold and seed leave out the same; a smaller `train_count` takes some of a larger's.
    """
    if not (2 <= folds <= len(demos) and 0 <= fold < folds):
        raise SystemExit(f"fold {fold} of {folds}: need 2 to {len(demos)} folds, from 0.")
    left_out = [demo for index, demo in enumerate(demos) if index % folds == fold]
    rest = [demo for index, demo in enumerate(demos) if index % folds != fold]
    count = len(rest) if train_count is None else train_count
    if not 1 <= count <= len(rest):
        raise SystemExit(f"--train-count {count}: need 1 to {len(rest)}.")
    order = np.random.default_rng([seed, fold]).permutation(len(rest))[:count]
    return left_out, [rest[index] for index in sorted(order)]


def judged(test: TestScene, T_scene_gripper: Array, gripper: Gripper) -> list[Verdict]:
    """A verdict for each pose; none where there is no target."""
    if not test.has_target:
        return []
    if test.step == "pick":
        mug = find_mug(test.judged)
        return [judge_grip(mug, pose, gripper) for pose in T_scene_gripper]
    assert test.grasp is not None
    hanger, table, mug = find_hanger(test.judged), find_table(test.judged), find_mug(test.grasp)
    return [judge_hanging(hanger, table, mug, test.grasp, pose) for pose in T_scene_gripper]


def _told(result: Result) -> str:
    verdict = "-" if not result.has_target else "ok" if result.ok else "; ".join(result.reasons)
    return (
        f"  {result.step} {result.demo} {result.variant}: confidence {result.confidence:.2f}, "
        f"{result.seconds:.2f} s, {verdict}"
    )


def _run_folder(options: argparse.Namespace, train_count: int) -> Path:
    return options.out / f"{options.model}_train{train_count}_seed{options.seed}"


def _print_reports(out: Path) -> None:
    runs = sorted({path.parent for path in out.glob("*/fold_*.jsonl")})
    for run in runs:
        lines = [line for path in sorted(run.glob("*.jsonl")) for line in read_lines(path)]
        print("\n" + report(lines, run.name))
    print(f"\nStored in {out}; --report prints this again." if runs else f"Nothing in {out} yet.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demos", type=Path, default=Path("out/mug"), help="demonstrations")
    parser.add_argument("--out", type=Path, required=True, help="where results and models go")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--fold", type=int, help="only this one, from 0")
    parser.add_argument("--train-count", type=int, help="demonstrations; default: all others")
    parser.add_argument("--train-steps", type=int, help="optimiser steps; default: the recipe's")
    parser.add_argument("--steps", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--model", choices=MODELS, default="handful")
    parser.add_argument("--samples", type=int, default=100, help="poses per scene")
    parser.add_argument("--repeats", type=int, default=1, help="scenes per demo and variant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", action="store_true", help="print stored results, run nothing")
    return parser.parse_args()


if __name__ == "__main__":
    main()
