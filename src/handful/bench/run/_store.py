"""Finished episodes on disk: one JSON object a line, appended when each episode ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import handful
from handful._files import append_line, atomic_write_text, file_digest, make_subfolder
from handful._names import safe_name
from handful._strict_json import Fields, read_json_lines
from handful.bench._errors import BenchError
from handful.bench.run._records import MAX_NAME, VERSION, EpisodeRecord, record_from_json
from handful.errors import FileFormatError
from handful.policy import LEAST_CONFIDENCE

FORMAT = "handful-bench-episodes"
_VERSIONS = (1, VERSION)


@dataclass(frozen=True)
class Conditions:
    """What all episodes of a file have in common; its first line.

    Attributes:
        task: Name of the task.
        setup: Name of the setup.
        policy: Name of the policy.
        models: Fingerprint of the trained models; empty for policies that have none.
        objects: Name and fingerprint of a folder of meshes; empty for the task's own objects.
        samples: Poses that a predictor is asked for.
        gripper: Name of the hand that the robot carried, if it was another one than that of the
            models; empty for that one, and for the simulated hand of policies without models.
        rig: The cameras in words (`CameraRig.special`); empty for the default rig, and in files
            that were written when there was no other.
        handful: Version of the software.
        look_ahead: Whether picks were chosen with the next step in mind; true only for models.
        least_confidence: Poses of lower confidence were not executed; 0 for other policies.
        segmented: Whether models that have to be told which points are the object's were told.
    """

    task: str
    setup: str
    policy: str
    models: str
    objects: str
    samples: int
    gripper: str = ""
    rig: str = ""
    handful: str = handful.__version__
    look_ahead: bool = True
    least_confidence: float = LEAST_CONFIDENCE
    segmented: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether models ran as in the paper.

        With the task's own objects, the hand they were trained with, and the default cameras.
        """
        return self.policy == "model" and not (self.objects or self.gripper or self.rig)

    @property
    def objects_name(self) -> str:
        """Name of the folder of meshes; empty for the task's own objects."""
        return self.objects.rpartition(" ")[0]

    @property
    def caution(self) -> list[str]:
        """How models ran otherwise than by default: look-ahead, confidence, segmentation."""
        words = []
        if self.policy == "model" and not self.look_ahead:
            words.append("no look-ahead")
        if self.policy == "model" and self.least_confidence != LEAST_CONFIDENCE:
            words.append(f"least confidence {self.least_confidence:g}")
        if not self.segmented:
            words.append("unsegmented")
        return words

    @property
    def file_name(self) -> str:
        """Where these episodes are kept; all of its characters are safe in file names."""
        words = [self.task, self.setup]
        words += [self.policy] if self.policy != "model" else []
        rig = self.rig.replace(", ", "-").replace(" ", "_")
        words += [word for word in (self.objects_name, self.gripper, rig) if word]
        words += [word.replace(" ", "-") for word in self.caution]
        return "-".join(map(safe_name, words)) + ".jsonl"


class EpisodeStore:
    """The episodes of one task and setup in a run's folder.

    Args:
        folder: `RUN/bench`; made if it is missing.
        conditions: What the episodes must have in common.

    Raises:
        BenchError: The file that is there is of other models, objects or settings.
        FileFormatError: The file that is there does not hold episodes.
    """

    def __init__(self, folder: Path, conditions: Conditions) -> None:
        self.path = folder / conditions.file_name
        self.conditions = conditions
        self._records: dict[int, EpisodeRecord] = {}
        make_subfolder(folder)
        if self.path.exists():
            there, records, version = _read(self.path)
            _check_same(self.path, there, conditions)
            self._records = {record.seed: record for record in records}
            if version != VERSION:  # more lines will be of the present version
                text = "".join(f"{record.to_json()}\n" for record in records)
                atomic_write_text(self.path, _first_line(conditions) + text)
        else:
            atomic_write_text(self.path, _first_line(conditions))

    @property
    def records(self) -> dict[int, EpisodeRecord]:
        """Finished episodes by seed."""
        return dict(self._records)

    def add(self, record: EpisodeRecord) -> None:
        """Keep an episode; it is on the disk when this returns.

        Raises:
            FileFormatError: It cannot be written; the episodes before it are still there.
        """
        append_line(self.path, record.to_json())
        self._records[record.seed] = record


def read_episodes(path: Path) -> tuple[Conditions, list[EpisodeRecord]]:
    """A file of episodes; a last line that was cut off while it was written is left out.

    Files of version 1, with one pick and one place in each episode, are read, too.

    Raises:
        FileFormatError: The file holds something else.
    """
    conditions, records, _ = _read(path)
    return conditions, records


def _read(path: Path) -> tuple[Conditions, list[EpisodeRecord], int]:
    """Conditions, episodes by seed, and the version of the file."""
    lines = read_json_lines(path)
    first = next(lines, None)
    if first is None:
        raise FileFormatError(f"{path}: is empty: need a first line with conditions.")
    conditions, version = _conditions(first[1], first[0])
    records: dict[int, EpisodeRecord] = {}
    for address, value in lines:
        record = record_from_json(value, address, version)
        if (record.task, record.setup) != (conditions.task, conditions.setup):
            raise FileFormatError(
                f"{address}: is of {record.task}, {record.setup}: need {conditions.task}, "
                f"{conditions.setup}."
            )
        records[record.seed] = record
    return conditions, [records[seed] for seed in sorted(records)], version


def fingerprint(folder: Path) -> str:
    """A short digest of all files in a folder, by name and content."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(file_digest(path))
    return digest.hexdigest()[:16]


def models_fingerprint(folders: Sequence[Path]) -> str:
    """A short digest of trained models, given by their folders."""
    return "-".join(fingerprint(folder)[:8] for folder in folders)


def _first_line(conditions: Conditions) -> str:
    line = {"format": FORMAT, "version": VERSION, **asdict(conditions)}
    return json.dumps(line, ensure_ascii=False) + "\n"


def _conditions(value: Any, address: str) -> tuple[Conditions, int]:
    """The conditions in a first line, and the version of the file."""
    fields = Fields(value, address, FileFormatError)
    name, version = fields.text("format"), fields.integer("version")
    if name != FORMAT or version not in _VERSIONS:
        raise FileFormatError(
            f"{address}: is format {name[:80]!r}, version {version}: need {FORMAT!r}, version "
            f"{' or '.join(map(str, _VERSIONS))}."
        )
    words = ("task", "setup", "policy", "models", "objects", "handful")
    conditions = Conditions(
        **{name: fields.text(name, longest=MAX_NAME) for name in words},
        samples=fields.integer("samples", low=1),
        gripper=fields.text("gripper", longest=MAX_NAME) if version > 1 else "",
        rig=fields.text("rig", "", longest=MAX_NAME),
        # Before these were noted, nobody looked ahead, and every best pose was executed.
        look_ahead=fields.flag("look_ahead", False),
        least_confidence=fields.number("least_confidence", 0.0, 0.0, 1.0),
        segmented=fields.flag("segmented", True),
    )
    fields.done()
    return conditions, version


def _check_same(path: Path, there: Conditions, wanted: Conditions) -> None:
    ours, theirs = asdict(wanted), asdict(there)
    different = [name for name in ours if name != "handful" and ours[name] != theirs[name]]
    if different:
        name = different[0]
        raise BenchError(
            f"{path}: holds episodes with {name} {theirs[name]!r}, this run has {ours[name]!r}: "
            "results would mix. Use another run folder, or --fresh to drop the old episodes."
        )
