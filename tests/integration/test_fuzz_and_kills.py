"""A little of the fuzzer and of the kills; `make fuzz` and `make kills` run as long as one likes.

Both run in processes of their own: what they judge is the software as users run it, without the
checks of types that the other tests install.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


def run_module(*arguments):
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.slow(seconds=40)
def test_the_corpus_and_new_cases_end_well(tmp_path):
    """Every untyped error, write outside and endless case that was found once, and 150 others."""
    done = run_module("fuzz", "--light", "--cases", 150, "--minutes", 5, "--json", tmp_path / "f")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    figures = json.loads((tmp_path / "f").read_text())
    assert figures["cases"] >= 190
    assert figures["wrong"] == 0


@pytest.mark.slow(seconds=20)
def test_requests_leave_no_memory_behind(tmp_path):
    """A service answers for months: what a request leaves behind adds up. It was 1 MB a case."""
    done = run_module("fuzz", "--only", "service", "--cases", 60, "--json", tmp_path / "f",
                      "--minutes", 5)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    figures = json.loads((tmp_path / "f").read_text())
    assert figures["cases"] == 60
    assert figures["readers"]["service"]["grown_MB"] < 15


@pytest.mark.slow(seconds=15)
def test_kills_lose_nothing(tmp_path):
    jobs = "save demonstrations,save a model,add episodes,report"
    done = run_module("kills", "--kills", 12, "--jobs", jobs, "--json", tmp_path / "k")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert json.loads((tmp_path / "k").read_text())["kills"] >= 8


BROKEN = """
import sys
from fuzz import subjects
from fuzz.__main__ import main
from handful.errors import FileFormatError

def outside(folder):
    (folder.parent / "escaped").write_text("x")

def untyped(folder):
    raise KeyError("x")

subjects.SUBJECTS.clear()
subjects.SUBJECTS["broken"] = subjects.Subject(
    lambda folder: (folder / "a.json").write_text("{}"), locals()[sys.argv.pop(1)]
)
main()
"""


@pytest.mark.slow(seconds=15)
@pytest.mark.parametrize("kind", ["outside", "untyped"])
def test_the_fuzzer_sees_what_is_wrong(kind):
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, kind, "--no-corpus", "--cases", "2"],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr[-2000:]
    assert f"{kind}: broken" in done.stdout
