"""Every `handful` command and every Python block of the README and the docs is run."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs_commands import commands_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNER = ROOT / "tests" / "run_page.py"
LIBRARIES = (
    "numpy",
    "scipy.spatial.transform",
    "scipy.ndimage",
    "scipy.sparse.csgraph",
    "torch",
    "torch.utils.checkpoint",
    "numba",
    "trimesh",
    "safetensors.torch",
    "jaxtyping",
    "PIL.Image",
    "typer",
    "rich.progress",
    "jinja2",
    "mujoco",
)
SECONDS = {
    "README.md": 30,
    "benchmark.md": 40,
    "training.md": 60,
    "methods.md": 15,
    "robot.md": 20,
    "simulation.md": 20,
}
SOME_SLOW = [
    pytest.param(
        page,
        id=page.name,
        marks=[pytest.mark.slow(seconds=SECONDS[page.name])] if page.name in SECONDS else [],
    )
    for page in PAGES
]
NEEDS = {"simulation.md": "mujoco", "benchmark.md": "mujoco"}


NOTHING_FOUND = 3
"""Status of `handful infer` with a model that has learned nothing."""


class PageRunner:
    """Runs commands and programs in order, each in a process of its own; libraries load once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(RUNNER), *LIBRARIES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def problem(self, todo: list[tuple[str, str]], folder: Path) -> str:
        """What went wrong, with the command and what it said; empty if nothing did."""
        given = [
            (language, text, (0, NOTHING_FOUND) if text.startswith("handful infer ") else (0,))
            for language, text in todo
        ]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        page = json.dumps({"folder": str(folder), "commands": given})
        self._process.stdin.write(f"{page}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._process.stdout.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[PageRunner]:
    one = PageRunner()
    yield one
    one.end()


@pytest.mark.parametrize("page", SOME_SLOW)
def test_commands_in_the_docs_run(runner, page, tmp_path):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    problem = runner.problem(commands_of(page), tmp_path)
    assert not problem, f"{page.name}: {problem}"


@pytest.mark.parametrize(
    ("language", "text", "told"),
    [
        ("sh", "handful sohw x", "status 2"),
        ("python", "raise SystemExit(5)", "status 5"),
        ("python", "import handful\nhandful.errors.HandfulError", "no attribute 'errors'"),
        ("python", "print(demos)", "NameError"),
    ],
)
def test_a_command_that_fails_is_told(language, text, told, runner, tmp_path):
    """Also if it lacks only what an earlier one has loaded or named."""
    before = ("python", "import handful.errors\ndemos = 1")
    assert not runner.problem([before], tmp_path)
    problem = runner.problem([before, (language, text)], tmp_path)
    assert told in problem
    assert text in problem


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_in_the_docs_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_has_commands_to_run():
    assert [text.split()[1] for kind, text in commands_of(PAGES[0]) if kind == "sh"] == [
        "sample",
        "show",
        "train",
        "infer",
    ]
