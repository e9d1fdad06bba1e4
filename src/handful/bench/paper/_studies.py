"""Which models each table of the paper compares, and in which setups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from handful.bench.report._paper import (
    LOW_VARIANCE_RATES,
    MIXED_RATES,
    NDF_RATES,
    NDF_UNSEGMENTED_RATES,
    RATES,
    SECONDS,
    TRANSPORTER_RATES,
    TYPE0_FAST_RATES,
    TYPE0_FAST_SECONDS,
    TYPE0_SLOW_RATES,
    TYPE0_SLOW_SECONDS,
    PaperRates,
)
from handful.errors import OptionError, unknown_name_message

TASKS = ("mug", "bowl", "bottle")
UNSEEN = ("instances", "poses", "distractors", "all")
DEMONSTRATIONS = 10
ALL = "all"


@dataclass(frozen=True)
class Contender:
    """A row of a table: a method, trained on some demonstrations.

    Attributes:
        label: For people.
        method: Name of the method.
        preset: Of the method; empty for its first.
        variants: How demonstrations are picked, by the name of the task; `default` where it says
            nothing.
        demonstrations: How many.
        segmented: Whether methods that have to be told which points are the object's are told.
        rates: What the paper reports, by task and setup.
        seconds: Times of inference that the paper reports, by task and step.
    """

    label: str
    method: str
    preset: str = ""
    variants: Mapping[str, str] = field(default_factory=dict)
    demonstrations: int = DEMONSTRATIONS
    segmented: bool = True
    rates: Mapping[tuple[str, str], PaperRates] = field(default_factory=dict)
    seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def variant(self, task: str) -> str:
        """Of the demonstrations of a task."""
        return self.variants.get(task, "default")


@dataclass(frozen=True)
class Study:
    """A table, or a figure.

    Attributes:
        name: On the command line.
        title: Over the table.
        setups: In which the models are judged.
        contenders: Rows.
        tasks: Names of the tasks.
    """

    name: str
    title: str
    setups: tuple[str, ...]
    contenders: tuple[Contender, ...]
    tasks: tuple[str, ...] = TASKS


EDF = Contender("EDF", "edf", rates=RATES, seconds=SECONDS)
TRANSPORTER = Contender(
    "SE(3)-Transporter Networks", "transporter", variants={"mug": "lowvar"}, rates=TRANSPORTER_RATES
)
TYPE0_FAST = Contender(
    "type 0 only (10 / 5)", "edf-type0", "fast", rates=TYPE0_FAST_RATES, seconds=TYPE0_FAST_SECONDS
)
TYPE0_SLOW = Contender(
    "type 0 only (30 / 10)", "edf-type0", "slow", rates=TYPE0_SLOW_RATES, seconds=TYPE0_SLOW_SECONDS
)
NDF = Contender(
    "NDF, segmented", "ndf", variants={"mug": "lowvar", "bottle": "lowvar"}, rates=NDF_RATES
)
NDF_UNSEGMENTED = replace(
    NDF, label="NDF, unsegmented", segmented=False, rates=NDF_UNSEGMENTED_RATES
)

STUDIES = {
    one.name: one
    for one in (
        Study("sota", "Unseen setups (table 1)", UNSEEN, (TRANSPORTER, EDF)),
        Study("default", "The trained setup (appendix)", ("trained",),
              (EDF, TRANSPORTER, TYPE0_FAST, TYPE0_SLOW)),
        Study("ablation", "Descriptors of type 0 only (table 2 and appendix)", ("all",),
              (TYPE0_FAST, TYPE0_SLOW, EDF)),
        Study(
            "demonstrations",
            "Demonstrations of other kinds (appendix)",
            UNSEEN,
            (
                Contender("EDF, low variance", "edf", variants={"mug": "lowvar"},
                          rates=LOW_VARIANCE_RATES),
                Contender("EDF, rim and handle", "edf", variants={"mug": "mixed"},
                          rates=MIXED_RATES),
            ),
            ("mug",),
        ),
        Study("ndf", "Neural Descriptor Fields, with and without segmentation (appendix)",
              ("trained", "poses"), (NDF, NDF_UNSEGMENTED), ("mug", "bottle")),
        Study(
            "curve",
            "Learning curve (figure)",
            ("all",),
            tuple(
                Contender(f"{label}, {count} demonstrations", method, demonstrations=count)
                for label, method in (("EDF", "edf"), ("type 0 only", "edf-type0"))
                for count in (1, 3, 5, 10)
            ),
        ),
    )
}  # fmt: skip
"""By name. The paper's numbers of Neural Descriptor Fields are of another world, with objects in
any pose: they stand beside our setup with lying objects."""


def chosen_studies(name: str) -> list[Study]:
    """The study of a name, or all of them.

    Raises:
        OptionError: There is none.
    """
    if name == ALL:
        return list(STUDIES.values())
    if name not in STUDIES:
        raise OptionError(unknown_name_message("table", name, [*STUDIES, ALL]))
    return [STUDIES[name]]
