"""The tables of benchmarks/policies, from a made-up folder of results."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mujoco")

from bench_samples import CONDITIONS, STEPS, episode, write_store_v1
from handful.bench import EpisodeStore

FOLDER = Path(__file__).parents[2] / "benchmarks" / "policies"


def judged(run: Path, failed: int, objects: str = "") -> None:
    store = EpisodeStore(run / "bench", replace(CONDITIONS, objects=objects))
    for number in range(10):
        store.add(episode(10_000 + number, done=2 if number >= failed else 1))
    note = {"models": {step: {"seconds": 100.0} for step in STEPS}}
    (run / "run.json").write_text(json.dumps(note))


def printed_tables(folder: Path) -> str:
    words = [sys.executable, FOLDER / "tables.py", folder]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_every_table_has_its_rows(tmp_path):
    judged(tmp_path / "runs" / "mug", 1)
    judged(tmp_path / "runs" / "mug", 4, "mug 0123")
    judged(tmp_path / "more" / "mug-seed-1", 2)
    judged(tmp_path / "runs" / "authors", 3)
    printed = printed_tables(tmp_path)
    for line in (
        "| mug | all | 10 | 1.00 | 0.90 | **0.90** [0.60, 0.98] | 1.00 0.95 0.95 |",
        "| mug, meshes | 10 | 1.00 | 0.60 | **0.60** [0.31, 0.83] | mug 3 6/10 |",
        "| mug | 1 | 10 | 1.00 | 0.80 |",
        "| mug | mean |  |  |  | 0.850, sd 0.071 |",
        "place: object not held | 4 |",
        "| more/mug-seed-1 | 100 s | 100 s | 0.50 s | 0.50 s |",
    ):
        assert line in printed


def test_results_and_runs_of_version_1_have_their_rows(tmp_path):
    run = tmp_path / "runs" / "mug"
    write_store_v1(run / "bench")
    (run / "run.json").write_text(json.dumps({step: {"seconds": 100.0} for step in STEPS}))
    printed = printed_tables(tmp_path)
    for line in (
        "| mug | all | 4 | 0.50 | 0.50 | **0.25** [0.05, 0.70] | 1.00 0.95 0.95 | 2.0 + 2.0 |",
        "| mug | mug-all | pick: went to something else | 1 |",
        "| runs/mug | 100 s | 100 s | 0.75 s | 0.75 s |",
    ):
        assert line in printed


def test_the_script_is_a_script():
    subprocess.run(["bash", "-n", FOLDER / "run.sh"], check=True)


def test_the_script_trains_every_task_alike():
    """One recipe: no option of `handful train` in the script depends on the task."""
    script = (FOLDER / "run.sh").read_text()
    trained = [line for line in script.splitlines() if "$handful train" in line]
    assert len(trained) == 1
    assert "--vary" not in script
    assert "--colors-matter" not in script
