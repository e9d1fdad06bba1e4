"""Odd options: one sentence, and the status that docs/commands.md says."""

import subprocess
import sys

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


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_trainings_in_places_that_cannot_be_are_one_sentence(tmp_path, run, command):
    save_demos(small_demos(2), tmp_path / "demos")
    (tmp_path / "file").write_text("")
    done = run(
        command, tmp_path / "demos", "--out", tmp_path / "file" / "x", "--steps", 1, "--force"
    )
    assert done.returncode == 1
    assert "a file stands in its way" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_meshes_of_which_none_can_be_used_have_the_status_of_a_failure(tmp_path, run):
    (tmp_path / "tins").mkdir()
    (tmp_path / "tins" / "a.obj").write_text("v 0 0 0\nv 0 0 1\nv 0 1 0\nf 1 2 3\n")
    done = run("bench", "bowl", "--run", tmp_path / "run", "--policy", "oracle",
               "--objects", tmp_path / "tins")  # fmt: skip
    assert done.returncode == 1
    assert "none of its meshes can be used" in done.stderr.replace("\n", " ")


MISSING = {
    "serve": ["serve", "NOWHERE"],
    "token": ["serve", "NOWHERE", "--token-file", "NOWHERE"],
    "infer": ["infer", "NOWHERE", "NOWHERE"],
    "show": ["show", "NOWHERE"],
    "objects": ["bench", "mug", "--run", "OUT", "--policy", "oracle", "--objects", "NOWHERE"],
    "report": ["report", "NOWHERE"],
}


@pytest.mark.parametrize("command", MISSING)
def test_what_is_missing_has_the_status_of_a_failure_everywhere(tmp_path, run, command):
    places = {"NOWHERE": tmp_path / "nowhere", "OUT": tmp_path / "out"}
    done = run(*(places.get(word, word) for word in MISSING[command]))
    assert done.returncode == 1
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_client_has_the_statuses_of_the_commands(tmp_path):
    def ask(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "handful.client", "http://127.0.0.1:9", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    for words, status in (
        (("--timeout", 0.2), 1),
        (("--timeout", "nan"), 2),
        (("--step", "pick"), 2),
        (("--nothing",), 2),
    ):
        done = ask(*words)
        assert done.returncode == status, (words, done.stderr)
        assert "Traceback" not in done.stderr
