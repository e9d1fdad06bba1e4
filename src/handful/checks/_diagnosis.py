"""Which usual mistake explains what is wrong: each is undone, and what then is wrong is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from handful.checks._limits import PLAIN, Check, Measure
from handful.checks._measure import measures
from handful.checks._mistakes import Mistake, turned_upright, usual_mistakes
from handful.checks._recorded import Recorded

MOST_DEMOS = 3
"""Demonstrations that mistakes are tried on; more of them say the same."""
MOST_PROMISING = 6
"""Mistakes that are tried on more than one demonstration."""
MENDED = 0.6
"""Largest share of the cost that may be left when a mistake is undone."""


@dataclass(frozen=True)
class Diagnosis:
    """What was probably done wrong.

    Attributes:
        mistake: The mistake; without it, poses and clouds fit.
        where: Which part of the set has it, in words; empty for all of it.
        sure: Undoing it leaves nothing wrong. Else it is a guess.
    """

    mistake: Mistake
    where: str = ""
    sure: bool = True


@dataclass(frozen=True)
class _Cost:
    """How bad a set is: errors for each step, and the mean of all costs of a step."""

    wrong: float
    total: float


@dataclass(frozen=True)
class _Trial:
    mistake: Mistake
    where: str
    cost: _Cost

    @property
    def rank(self) -> tuple[float, float]:
        return self.cost.wrong, self.cost.total + self.mistake.surprise


def diagnose(recorded: Recorded, found: Sequence[Measure]) -> Diagnosis | None:
    """The usual mistake that explains what is wrong best; a guess, or None, if none does.

    Args:
        recorded: The demonstrations.
        found: Their measures.
    """
    asked = [one for one in found if one.check not in PLAIN]
    suspects = [one for one in asked if one.wrong] or [one for one in asked if one.doubtful]
    if not suspects:
        return None
    some = _some(recorded, suspects)
    trials = list(_trials(recorded, some, suspects))
    best = min(trials, key=lambda one: one.rank)
    if best.cost.wrong == 0 and best.cost.total <= MENDED * _cost(some).total:
        return Diagnosis(best.mistake, best.where)
    of_clouds = any(one.wrong and one.demo for one in suspects)  # not of the gripper alone
    return _guess(suspects) if of_clouds else None


def _trials(recorded: Recorded, some: Recorded, suspects: Sequence[Measure]) -> Iterator[_Trial]:
    """Mistakes undone: all of them in one demonstration, and the most promising ones in some."""
    mistakes = usual_mistakes(recorded.gripper, len(recorded.demos))
    upright = turned_upright(recorded)
    mistakes += [upright] if upright else []
    one = recorded.limited({_bad_demos(some, suspects)[0]})
    promise = []
    for mistake in mistakes:
        if mistake.neighbours:
            yield _Trial(mistake, "", _cost(mistake.mend(recorded)))
        else:
            promise.append(min(_undone(mistake, one, suspects), key=lambda trial: trial.rank))
    for trial in sorted(promise, key=lambda trial: trial.rank)[:MOST_PROMISING]:
        yield from _undone(trial.mistake, some, suspects)


def _bad_demos(recorded: Recorded, suspects: Sequence[Measure]) -> list[str]:
    """The demonstrations in which something is wrong; all, if it is the set as a whole."""
    names = [demo[0].demo for demo in recorded.demos]
    accused = {one.demo for one in suspects}
    return [name for name in names if name in accused] or names


def _undone(mistake: Mistake, some: Recorded, suspects: Sequence[Measure]) -> Iterator[_Trial]:
    """A mistake undone everywhere, and only where something is wrong."""
    mended = mistake.mend(some)
    yield _Trial(mistake, "", _cost(mended))
    if not mistake.whole:
        for where, mixed in _parts(some, mended, suspects):
            yield _Trial(mistake, where, _cost(mixed))


def _parts(
    some: Recorded, mended: Recorded, suspects: Sequence[Measure]
) -> Iterator[tuple[str, Recorded]]:
    """The set with a mistake undone only in the steps, or the demonstrations, that are wrong."""
    names = {shown.step for shown in some.steps}
    full = {shown.step for shown in some.steps if shown.holding}
    bad = {one.step for one in suspects} & names
    tried: list[set[str]] = []
    for steps in (bad, full, names - full):
        if 0 < len(steps) < len(names) and steps not in tried:
            tried.append(steps)
            yield f"in the step {_words(steps)}", _mixed(some, mended, steps=steps)
    demos = set(_bad_demos(some, suspects))
    if len(demos) < len(some.demos):
        yield f"in {_words(demos)} alone", _mixed(some, mended, demos=demos)


def _mixed(
    some: Recorded,
    mended: Recorded,
    steps: set[str] | None = None,
    demos: set[str] | None = None,
) -> Recorded:
    def is_meant(demo: str, step: str) -> bool:
        return (steps is None or step in steps) and (demos is None or demo in demos)

    return replace(
        some,
        demos=tuple(
            tuple(
                new if is_meant(old.demo, old.step) else old
                for old, new in zip(before, after, strict=True)
            )
            for before, after in zip(some.demos, mended.demos, strict=True)
        ),
    )


def _some(recorded: Recorded, suspects: Sequence[Measure]) -> Recorded:
    """A few demonstrations: of those that are wrong and, if there are any, of the others."""
    bad = _bad_demos(recorded, suspects)
    good = [demo[0].demo for demo in recorded.demos if demo[0].demo not in bad]
    chosen = bad[:MOST_DEMOS] if not good else bad[: MOST_DEMOS - 1] + good[:1]
    return recorded.limited(set(chosen))


def _cost(recorded: Recorded) -> _Cost:
    found = [one for one in measures(recorded, all_of_them=False) if one.check not in PLAIN]
    count = max(len(recorded.steps), 1)
    return _Cost(sum(one.wrong for one in found) / count, sum(one.cost for one in found) / count)


def _guess(suspects: Sequence[Measure]) -> Diagnosis:
    """What is left when no usual mistake explains it: different frames."""
    tilted = any(one.check is Check.LEVEL for one in suspects)
    if tilted:
        return Diagnosis(
            Mistake(
                "scene in camera frame",
                "the scene clouds are not z up and the poses do not fit them: the clouds are "
                "probably still in the frame of the camera (y down, z forward)",
                "move the clouds into the frame of the poses: cloud.transformed(T_base_camera)",
                lambda one: one,
            ),
            sure=False,
        )
    return Diagnosis(
        Mistake(
            "poses in another frame",
            "no usual mistake explains it by itself: poses and clouds are probably in different "
            "frames, for example the poses in that of the camera, or the camera is not where its "
            "calibration says",
            "bring both into one frame, z up; `handful check camera` measures a calibration",
            lambda one: one,
        ),
        sure=False,
    )


def _words(names: set[str]) -> str:
    return " and ".join(repr(name) for name in sorted(names))
