"""`handful paper`: collect, train, run and show, and nothing twice."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mujoco")

from handful.bench.paper import STUDIES, _studies, _workspace
from handful.learning import RunFolder, method_of


@pytest.fixture
def one_demonstration(monkeypatch):
    """The table `default` with Transporter Networks alone, from one demonstration."""
    table = STUDIES["default"]
    (tns,) = [one for one in table.contenders if one.method == "transporter"]
    small = replace(table, contenders=(replace(tns, demonstrations=1),))
    monkeypatch.setitem(_studies.STUDIES, "default", small)
    monkeypatch.setattr(_workspace, "DEMONSTRATIONS", 1)


@pytest.mark.slow(seconds=30)
def test_a_table_is_collected_trained_run_and_shown(run, one_demonstration, tmp_path):
    words = ("paper", "default", "--tasks", "bowl", "--out", tmp_path / "p", "--steps", 1,
             "--episodes", 1)  # fmt: skip
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert "SE(3)-Transporter Networks" in done.stdout
    assert "(1.00)" in done.stdout  # the paper's
    model = tmp_path / "p" / "runs" / "bowl-transporter-small-default-01"
    assert method_of(model / "pick").name == "transporter"
    page = (tmp_path / "p" / "paper.html").read_text()
    assert "What each method costs" in page
    assert "10000 to 10000" in page
    assert "1 steps only" in page
    before = _times(tmp_path / "p")
    assert run(*words).returncode == 0
    again = _times(tmp_path / "p")
    assert {name: again[name] for name in before} == before
    assert len(RunFolder(model).curve("pick")) == 1


def _times(folder: Path) -> dict[str, int]:
    """When demonstrations, models and episodes were written."""
    kept = [*folder.rglob("*.ply"), *folder.rglob("*.safetensors"), *folder.rglob("bowl-*.jsonl")]
    assert len(kept) > 4
    return {str(path): path.stat().st_mtime_ns for path in kept}


def test_unknown_tables_tasks_and_methods_are_one_sentence(run, tmp_path):
    for words, told in [
        (("paper", "stoa"), "Did you mean 'sota'"),
        (("paper", "sota", "--tasks", "cup"), "no task of the table is named 'cup'"),
        (("paper", "ablation", "--methods", "transporter"), "no method of the table"),
    ]:
        done = run(*words, "--out", tmp_path / "p")
        assert done.returncode == 2
        assert told in done.stderr.replace("\n", " ")
    assert not (tmp_path / "p").exists()
