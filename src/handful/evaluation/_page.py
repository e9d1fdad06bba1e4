"""One page about how good models are: of an evaluation, or of a run that was only trained."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import handful
from handful._files import atomic_write_text, make_folder
from handful._strict_json import Fields, read_json
from handful.bench.report import (
    Block,
    Cards,
    Cell,
    Code,
    Gallery,
    Heading,
    Paragraph,
    Picture,
    Table,
    write_markdown,
    write_page,
)
from handful.demos import DemoSet, load_demos
from handful.errors import FileFormatError, HandfulError
from handful.evaluation._answers import NEAR, TURNED, Answer
from handful.evaluation._calibrate import correction_of
from handful.evaluation._folds import answers_file
from handful.evaluation._found_again import OWN
from handful.evaluation._storage import read_answers
from handful.evaluation._summary import StepSummary, advice, summaries_of
from handful.learning import RunFolder
from handful.policy import Confidence
from handful.viz import picture_of_answer

SUMMARY = "evaluation.json"
FORMAT, VERSION = "handful-evaluation", 1
MAX_FOLDS = 10_000
WORST = 6
"""Pictures of a step."""


@dataclass(frozen=True)
class Evaluation:
    """What `evaluation.json` holds.

    Attributes:
        demos: The demonstration folder.
        count: How many demonstrations it had.
        folds: Into how many parts it was dealt.
        steps: Optimiser steps, if not the recipe's.
        command: As it was given.
        answers: About what was left out.
    """

    demos: str
    count: int
    folds: int
    steps: int | None
    command: str
    answers: tuple[Answer, ...]


def write_evaluation(one: Evaluation, folder: Path) -> None:
    """Write an evaluation's summary; its answers are in the folders of its folds."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "handful": handful.__version__,
        "demonstrations": one.demos,
        "count": one.count,
        "folds": one.folds,
        "steps": one.steps,
        "command": one.command,
    }
    atomic_write_text(folder / SUMMARY, json.dumps(content, indent=2) + "\n")


def read_evaluation(folder: Path) -> Evaluation:
    """Read an evaluation with its answers.

    Raises:
        FileFormatError: A file is missing, or is not what it should be.
    """
    path = folder / SUMMARY
    fields = Fields(read_json(path), str(path), FileFormatError)
    found, version = fields.text("format"), fields.integer("version")
    if found != FORMAT or version != VERSION:
        raise FileFormatError(f"{path}: is {found!r} {version}: need {FORMAT!r} {VERSION}.")
    fields.text("handful")
    demos, command = fields.text("demonstrations"), fields.text("command")
    count = fields.integer("count", low=0)
    folds = fields.integer("folds", low=1, high=MAX_FOLDS)
    steps = None if fields.any("steps") is None else fields.integer("steps", low=0)
    fields.done()
    answers = [
        answer for number in range(folds) for answer in read_answers(answers_file(folder, number))
    ]
    return Evaluation(demos, count, folds, steps, command, tuple(answers))


def is_evaluation(folder: Path) -> bool:
    """Whether a folder holds an evaluation."""
    return (folder / SUMMARY).is_file()


def is_trained_only(folder: Path) -> bool:
    """Whether a folder holds a run that was asked about its own demonstrations."""
    return (folder / OWN).is_file()


def write_evaluation_page(
    folder: Path, page: Path, pictures: bool = True, tell: Callable[[str], None] | None = None
) -> Path:
    """Write the page of an evaluation, or of a run that was only trained.

    Args:
        folder: Its folder.
        page: The HTML file to write; a Markdown file goes beside it.
        pictures: Draw the worst answers; needs the demonstration folder where it was.
        tell: Told what is being done.
    """
    say = tell or (lambda what: None)
    left_out = is_evaluation(folder)
    if left_out:
        read = read_evaluation(folder)
        answers, command, source, steps = read.answers, read.command, read.demos, read.steps
        about = (
            f"Each of {read.count} demonstrations was left out once ({read.folds} folds). Models "
            "of the others were asked where the gripper should go in it."
        )
    else:
        summary = RunFolder(folder).summary()
        answers = tuple(read_answers(folder / OWN))
        source = summary.demonstrations.folder or ""
        command, steps = summary.command, None
        about = (
            "The models were asked about some of the demonstrations that they were trained on. "
            "That says whether they have learned them; `handful evaluate` says how they do on "
            "others."
        )
    summaries = summaries_of(answers)
    blocks: list[Block] = [
        Heading("How good is it?" if left_out else "Does it know its demonstrations?", 1),
        Paragraph(about),
        Cards(tuple(_card(one) for one in summaries)),
        Heading("What to do next"),
        *(Paragraph(sentence) for sentence in advice(summaries, left_out, steps)),
    ]
    demos = _demos(source) if pictures else None
    for one in summaries:
        blocks += [Heading(f"Step {one.step!r}"), _table(one)]
        if left_out and one.reliability:
            blocks.append(Paragraph(_confidence(one)))
        if demos is not None:
            say(f"drawing answers of the step {one.step!r}")
            blocks.append(Gallery(tuple(_pictures(one, demos))))
    blocks += [
        Heading("How it is judged"),
        Paragraph(
            f"found: the best feasible pose is within {100 * NEAR:g} cm and "
            f"{np.degrees(TURNED):.0f} degrees of a demonstrated one, of the contact point of an "
            "empty gripper (its fingers may change sides) or of the middle of what a full one "
            "holds, with a confidence of 0.5 or more. another place: it is not, but the "
            "demonstrated pose is as good as the proposed ones by its energy and has a confidence "
            "of 0.5 or more. not sure: it is, with less confidence. missed: else. without: the "
            "confidence of the best pose when the target is cut out of the same scene, which "
            "should be low."
        ),
        Heading("How to make this again"),
        Code(command or "(no command was kept)"),
    ]
    make_folder(page.parent)
    write_page(blocks, page)
    write_markdown(blocks, page.with_suffix(".md"))
    return page


def _confidence(one: StepSummary) -> str:
    """What left-out demonstrations say of a step's confidence, and what they would make of it."""
    text = f"Confidence: {one.reliability}."
    curve = correction_of(one, Confidence(0.0, 1.0))
    if curve is None:
        return text
    before = np.array([0.3, 0.5, 0.7, 0.9])
    after = curve.of(np.log(1.0 / before - 1.0))
    told = ", ".join(f"{a:.1f} becomes {b:.2f}" for a, b in zip(before, after, strict=True))
    return f"{text} `--calibrate RUN` would correct a run by them: {told}."


def _card(one: StepSummary) -> tuple[str, str, str]:
    note = f"mean confidence {one.confidence:.2f}"
    if one.found:
        note += f"; off by {100 * one.distance:.1f} cm, {np.degrees(one.angle):.0f} degrees"
    return f"{one.right} of {len(one.answers)}", f"right: {one.step}", note


def _table(one: StepSummary) -> Table:
    head = ("demonstration", "outcome", "off by", "rank", "confidence", "demonstrated", "without",
            "feasible")  # fmt: skip
    rows = []
    for answer in one.answers:
        off = "-"
        if np.isfinite(answer.distance):
            off = f"{100 * answer.distance:.1f} cm, {np.degrees(answer.angle):.0f} degrees"
        tone = "good" if answer.outcome.good else "bad"
        rows.append(
            (
                Cell(answer.demo),
                Cell(answer.outcome.value, tone=tone),
                Cell(off),
                Cell("-" if answer.rank is None else str(answer.rank)),
                Cell(f"{answer.confidence:.2f}"),
                Cell(f"{answer.demonstrated:.2f}"),
                Cell("-" if answer.without is None else f"{answer.without:.2f}"),
                Cell("yes" if answer.feasible else "no"),
            )
        )
    return Table(head, tuple(rows))


def _pictures(one: StepSummary, demos: DemoSet) -> list[Picture]:
    """The worst answers, and one more than the bad ones so that something can be compared."""
    bad = sum(not answer.outcome.good for answer in one.answers)
    made = []
    for number, answer in enumerate(one.answers[: min(WORST, bad + 1)]):
        found = [demo for demo in demos if demo.name == answer.demo]
        if found and one.step in found[0].task.names and answer.T_scene_gripper is not None:
            step = found[0].step(one.step)
            image = picture_of_answer(step, demos.gripper, answer.T_scene_gripper)
            content = io.BytesIO()
            image.save(content, "JPEG", quality=85)
            caption = f"{answer.demo}: {answer.outcome.value}; green: demonstrated, red: the answer"
            made.append(Picture(f"step-{one.step}-{number}", ".jpg", content.getvalue(), caption))
    return made


def _demos(source: str) -> DemoSet | None:
    """The demonstrations, if they are still where they were."""
    try:
        return load_demos(Path(source)) if source else None
    except HandfulError:
        return None
