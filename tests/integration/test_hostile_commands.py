"""Odd options: one sentence, and the status that docs/commands.md says."""

import pytest

from bench_samples import CONDITIONS, episode
from handful.bench import EpisodeStore
from handful.demos import save_demos
from samples import small_demos

WRONG = [
    ["sample", "--seed", "-1"],
    ["sample", "--seed", 2**64],
    ["train", "DEMOS", "--seed", "-1"],
    ["train", "DEMOS", "--seed", 2**64],
    ["train", "DEMOS", "--steps", 10**30],
    ["train", "DEMOS", "--steps", "0"],
    ["collect", "mug", "--seed", "-1"],
    ["demo", "--seed", 2**64],
    ["demo", "--steps", 10**30],
]


@pytest.mark.parametrize("arguments", WRONG, ids=lambda words: " ".join(map(str, words))[:40])
def test_options_out_of_range_are_refused_at_once(tmp_path, run, arguments):
    done = run(*arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "variables",
    [
        {"WORLD_SIZE": "2"},
        {"WORLD_SIZE": "two", "RANK": "0"},
        {"WORLD_SIZE": "2", "RANK": "2"},
        {"WORLD_SIZE": "²", "RANK": "0"},
    ],
)
def test_half_of_torchrun_is_told(tmp_path, run, monkeypatch, variables):
    save_demos(small_demos(1), tmp_path / "demos")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = run("train", tmp_path / "demos", "--out", tmp_path / "run", "--steps", 1, "--force")
    assert done.returncode == 2
    assert "WORLD_SIZE" in done.stderr
    assert "torchrun sets them" in done.stderr.replace("\n", " ")


def test_reports_and_benchmarks_in_places_that_cannot_be(tmp_path, run):
    (tmp_path / "file").write_text("")
    EpisodeStore(tmp_path / "run" / "bench", CONDITIONS).add(episode(10_000))
    for place in (tmp_path / "file" / "x.html", "/proc/none/x.html"):
        done = run("report", tmp_path / "run", "--no-pictures", "--out", place)
        assert done.returncode == 1
        assert "cannot be made" in done.stderr.replace("\n", " ")
    for place in (tmp_path / "file" / "x", "/proc/none/x"):
        done = run("bench", "mug", "--run", place, "--policy", "oracle", "--episodes", 1)
        assert done.returncode == 1
        assert "cannot be made" in done.stderr.replace("\n", " ")
    done = run("report", tmp_path / "run", "--out", tmp_path / "x.pdf")
    assert done.returncode == 2
