"""Stored results, and the tables that are made of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from edf_mug.variants import VARIANTS


@dataclass(frozen=True)
class Result:
    """One answer and its verdict: one line of a results file.

    `ok` is the verdict on the best pose, `ok_share` the share of good ones among the ten best.
    `home_pose` is the best pose carried back to the demonstration (`TestScene.carried_back`). A
    model that gives no pose is not ok.
    """

    fold: int
    step: str
    demo: str
    variant: str
    repeat: int
    has_target: bool
    ok: bool
    ok_share: float
    reasons: tuple[str, ...]
    energy: float
    confidence: float
    seconds: float
    pose: list[list[float]] | None
    home_pose: list[list[float]] | None

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is the result of."""
        return self.step, self.demo, self.variant, self.repeat


@dataclass(frozen=True)
class TrainingResult:
    """What training of one step took in one fold: the other kind of line."""

    fold: int
    step: str
    demos: tuple[str, ...]
    seconds: float
    peak_gib: float


Line = Result | TrainingResult


class ResultFile:
    """The lines of one fold and step, stored as they come; only one process may write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = read_lines(path)
        if path.exists():  # without the half line of a run that was stopped
            path.write_text("".join(_text(line) for line in self.lines), encoding="utf-8")

    def add(self, line: Line) -> None:
        """Store one more."""
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_text(line))

    def done(self) -> set[tuple[str, str, str, int]]:
        """The keys of stored results."""
        return {line.key for line in self.lines if isinstance(line, Result)}


def read_lines(path: Path) -> list[Line]:
    """What is stored in a file, up to a line that is still being written; none without a file."""
    lines: list[Line] = []
    for row in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            lines.append(_parsed(row))
        except json.JSONDecodeError:
            break
    return lines


def _text(line: Line) -> str:
    return json.dumps({"kind": type(line).__name__, **asdict(line)}) + "\n"


def _parsed(row: str) -> Line:
    values = json.loads(row)
    kind = {"Result": Result, "TrainingResult": TrainingResult}[values.pop("kind")]
    return kind(**values)


# --- statistics --------------------------------------------------------------------------------


def wilson(successes: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    if count == 0:
        return 0.0, 1.0
    share = successes / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)


def area_under_roc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Chance that a positive is above a negative, ties counted half; NaN without any."""
    above = np.asarray(positive)[:, None] - np.asarray(negative)[None, :]
    if above.size == 0 or not np.isfinite(above).all():
        return float("nan")
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


# --- tables ------------------------------------------------------------------------------------


def report(lines: Iterable[Line], title: str) -> str:
    """Everything there is to say about a run."""
    results = [line for line in lines if isinstance(line, Result)]
    trainings = [line for line in lines if isinstance(line, TrainingResult)]
    if not results:
        return f"{title}: nothing stored yet."
    folds = sorted({result.fold for result in results})
    text = [f"{title}: {len(results)} results of folds {', '.join(map(str, folds))}", ""]
    text.append(f"{'step':6} {'variant':15} {'ok':>7} {'95% interval':>14} {'best 10':>8} {'s':>6}")
    for step, variants in VARIANTS.items():
        for variant in variants:
            text += _row([r for r in results if (r.step, r.variant) == (step, variant)])
    text.append("")
    for step in VARIANTS:
        mine = [result for result in results if result.step == step]
        text += _confidence(step, mine) + _sameness(step, mine)
    for step in VARIANTS:
        took = [line for line in trainings if line.step == step]
        if took:
            seconds = np.array([line.seconds for line in took])
            peak = max(line.peak_gib for line in took)
            text.append(
                f"training {step}: {seconds.mean():.0f} s on average, {seconds.max():.0f} s at "
                f"most, of {len(took)}; peak memory {peak:.2f} GiB"
            )
    return "\n".join(text)


def _row(results: list[Result]) -> list[str]:
    if not results or not results[0].has_target:
        return []
    good, count = sum(result.ok for result in results), len(results)
    low, high = wilson(good, count)
    share = np.mean([result.ok_share for result in results])
    seconds = np.mean([result.seconds for result in results])
    return [
        f"{results[0].step:6} {results[0].variant:15} {f'{good}/{count}':>7} "
        f"{f'{low:.2f} to {high:.2f}':>14} {share:8.2f} {seconds:6.2f}"
    ]


def _confidence(step: str, results: list[Result]) -> list[str]:
    """Area under the ROC curve, for scenes that have their likes without target, and for all."""
    without = [result.confidence for result in results if not result.has_target]
    if not without:
        return []
    likes = ("as_is", "moved", "clutter")
    alike = [r.confidence for r in results if r.has_target and r.variant in likes]
    every = [r.confidence for r in results if r.has_target]
    return [
        f"confidence {step}: area under the ROC curve {area_under_roc(alike, without):.3f} "
        f"({len(alike)} scenes as is, moved, cluttered against {len(without)} without target); "
        f"{area_under_roc(every, without):.3f} with all {len(every)} scenes"
    ]


def _sameness(step: str, results: list[Result]) -> list[str]:
    """How far the best pose in a moved scene is from the one in the scene as it is."""
    still = {(r.demo, r.repeat): r for r in results if r.variant == "as_is" and r.home_pose}
    text = []
    for variant in ("moved", "held_otherwise"):
        pairs = [
            (still[r.demo, r.repeat], r)
            for r in results
            if r.variant == variant and r.home_pose and (r.demo, r.repeat) in still
        ]
        if pairs:
            gaps = np.array([_pose_gap(a, b) for a, b in pairs])
            energies = np.array([abs(a.energy - b.energy) for a, b in pairs])
            agree = sum(a.ok == b.ok for a, b in pairs)
            text.append(
                f"{step} {variant} against as_is: median {1000 * np.median(gaps[:, 0]):.1f} mm, "
                f"{np.median(gaps[:, 1]):.1f} degrees, energy {np.median(energies):.3g}; "
                f"same verdict {agree}/{len(pairs)}"
            )
    return text


def _pose_gap(first: Result, second: Result) -> tuple[float, float]:
    """Metres between the finger tips' middles and degrees between the rotations."""
    a, b = np.array(first.home_pose), np.array(second.home_pose)
    tip = np.array([0.0, 0.0, 0.15, 1.0])
    cosine = (np.trace(a[:3, :3].T @ b[:3, :3]) - 1.0) / 2.0
    turn = float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
    return float(np.linalg.norm((a @ tip - b @ tip)[:3])), turn
