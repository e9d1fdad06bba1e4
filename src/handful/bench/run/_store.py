"""Finished episodes on disk: one JSON object a line, appended as each ends."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import handful
from handful._files import atomic_write_text
from handful._strict_json import Fields, read_json_lines
from handful.bench._errors import BenchError
from handful.bench._policies import STEPS
from handful.bench._record import EpisodeRecord, record_from_json
from handful.errors import FileFormatError

FORMAT = "handful-bench-episodes"
VERSION = 1


@dataclass(frozen=True)
class Conditions:
    """What all episodes of a file have in common; its first line.

    Attributes:
        task: Name of the task.
        setup: Name of the setup.
        policy: Name of the policy.
        models: Fingerprint of the trained models; empty for policies that have none.
        objects: Name and fingerprint of a folder of meshes; empty for the task's own objects.
        samples: Poses that a model is asked for.
        handful: Version.
    """

    task: str
    setup: str
    policy: str
    models: str
    objects: str
    samples: int
    handful: str = handful.__version__

    @property
    def is_plain(self) -> bool:
        """Whether a model ran with the task's own objects."""
        return self.policy == "model" and not self.objects

    @property
    def file_name(self) -> str:
        """Where such episodes are kept."""
        words = [self.task, self.setup]
        words += [self.policy] if self.policy != "model" else []
        words += [self.objects.split(" ")[0]] if self.objects else []
        return "-".join(words) + ".jsonl"


class EpisodeStore:
    """The episodes of one task and setup in a run's folder.

    Args:
        folder: `RUN/bench`; made if it is not there.
        conditions: What the episodes must have in common.

    Raises:
        BenchError: The file that is there is of other models, objects or settings.
        FileFormatError: It is no such file.
    """

    def __init__(self, folder: Path, conditions: Conditions) -> None:
        self.path = folder / conditions.file_name
        self.conditions = conditions
        self._records: dict[int, EpisodeRecord] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenchError(f"{folder}: cannot be made: {error.strerror}.") from error
        if self.path.exists():
            there, records = read_episodes(self.path)
            _same_kind(self.path, there, conditions)
            self._records = {record.seed: record for record in records}
            _mend_last_line(self.path)
        else:
            line = {"format": FORMAT, "version": VERSION, **asdict(conditions)}
            atomic_write_text(self.path, json.dumps(line, ensure_ascii=False) + "\n")

    @property
    def records(self) -> dict[int, EpisodeRecord]:
        """Finished episodes by seed."""
        return dict(self._records)

    def add(self, record: EpisodeRecord) -> None:
        """Keep an episode; it is on the disk when this returns."""
        try:
            with open(self.path, "ab") as file:
                file.write(record.to_json().encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BenchError(f"{self.path}: cannot be written: {error.strerror}.") from error
        self._records[record.seed] = record


def read_episodes(path: Path) -> tuple[Conditions, list[EpisodeRecord]]:
    """A file of episodes; a last line that was cut off while it was written is left out.

    Raises:
        FileFormatError: It is something else.
    """
    lines = read_json_lines(path)
    if not lines:
        raise FileFormatError(f"{path}: is empty: need a first line with conditions.")
    conditions = _conditions(lines[0][1], lines[0][0])
    records: dict[int, EpisodeRecord] = {}
    for address, value in lines[1:]:
        record = record_from_json(value, address)
        if (record.task, record.setup) != (conditions.task, conditions.setup):
            raise FileFormatError(
                f"{address}: is of {record.task}, {record.setup}: need {conditions.task}, "
                f"{conditions.setup}."
            )
        records[record.seed] = record
    return conditions, [records[seed] for seed in sorted(records)]


def fingerprint(folder: Path) -> str:
    """A short digest of all files in a folder, by name and content."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def models_fingerprint(run: Path) -> str:
    """A short digest of the trained models of a run."""
    return "-".join(fingerprint(run / step)[:8] for step in STEPS)


def _conditions(value: Any, address: str) -> Conditions:
    fields = Fields(value, address, FileFormatError)
    if (fields.text("format"), fields.integer("version")) != (FORMAT, VERSION):
        raise FileFormatError(f"{address}: need format {FORMAT!r}, version {VERSION}.")
    words = ("task", "setup", "policy", "models", "objects", "handful")
    conditions = Conditions(
        **{name: fields.text(name) for name in words}, samples=fields.integer("samples")
    )
    fields.done()
    return conditions


def _same_kind(path: Path, there: Conditions, wanted: Conditions) -> None:
    ours, theirs = asdict(wanted), asdict(there)
    different = [name for name in ours if name != "handful" and ours[name] != theirs[name]]
    if different:
        name = different[0]
        raise BenchError(
            f"{path}: holds episodes with {name} {theirs[name]!r}, this run has {ours[name]!r}: "
            "results would mix. Use another run folder, or --fresh to drop the old episodes."
        )


def _mend_last_line(path: Path) -> None:
    """Take away a last line that was cut off, so that the next one is whole."""
    raw = path.read_bytes()
    if not raw.endswith(b"\n"):
        atomic_write_text(path, raw[: raw.rfind(b"\n") + 1].decode("utf-8"))
