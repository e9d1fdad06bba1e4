"""Every `handful` command and every Python block of the README and the docs is run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs_commands import commands_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNER = ROOT / "tests" / "run_page.py"
LIBRARIES = ("numpy", "scipy.spatial.transform", "torch", "PIL.Image", "typer", "mujoco")
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


def run_page(
    todo: list[tuple[str, str]], folder: Path, libraries: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run commands and programs in order, each in a process of its own; libraries load once."""
    given = [
        (language, text, (0, NOTHING_FOUND) if text.startswith("handful infer ") else (0,))
        for language, text in todo
    ]
    return subprocess.run(
        [sys.executable, str(RUNNER)],
        input=json.dumps({"libraries": libraries, "commands": given}),
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("page", SOME_SLOW)
def test_commands_in_the_docs_run(page, tmp_path):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    todo = commands_of(page)
    done = run_page(todo, tmp_path, LIBRARIES)
    assert done.returncode == 0, f"{page.name}: {done.stderr[-4000:]}"


@pytest.mark.parametrize(
    ("language", "text", "told"),
    [
        ("sh", "handful sohw x", "status 2"),
        ("python", "raise SystemExit(5)", "status 5"),
        ("python", "import handful\nhandful.errors.HandfulError", "no attribute 'errors'"),
        ("python", "print(demos)", "NameError"),
    ],
)
def test_a_command_that_fails_is_told(language, text, told, tmp_path):
    """Also if it lacks only what an earlier one has loaded or named."""
    before = ("python", "import handful.errors\ndemos = 1")
    assert run_page([before], tmp_path).returncode == 0
    done = run_page([before, (language, text)], tmp_path)
    assert done.returncode == 1
    assert told in done.stderr
    assert text in done.stderr


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
