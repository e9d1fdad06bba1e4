"""Every `handful` command and every Python block of the README and the docs is run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS = {"simulation.md": "mujoco", "benchmark.md": "mujoco"}


def shortened(text: str) -> str:
    """Training is cut to two steps: docs show what people type, tests check that it runs."""
    if text.startswith("handful train "):
        return f"{text} --steps 2"
    return re.sub(r"(train_step\(demos, [^)]*seed=0)\)", r"\1, steps=2)", text)


def commands(page: Path) -> list[tuple[str, str]]:
    """(language, text) of what is run: `handful` lines of sh blocks, and whole python blocks."""
    found = []
    for language, text in BLOCK.findall(page.read_text()):
        if language == "python":
            found.append((language, text))
        else:
            lines = [line.split(" #")[0].strip() for line in text.splitlines()]
            found += [("sh", line) for line in lines if line.startswith("handful ")]
    return [(language, shortened(text)) for language, text in found]


NOTHING_FOUND = 3
"""Status of `handful infer` with a model of two steps."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_docs_run(page, tmp_path):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    for language, text in commands(page):
        if language == "python":
            command = [sys.executable, "-c", text]
        else:
            command = [
                sys.executable, "-c", "from handful.apps.cli import main; main()",
                *shlex.split(text)[1:],
            ]  # fmt: skip
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        fine = (0, NOTHING_FOUND) if text.startswith("handful infer ") else (0,)
        assert done.returncode in fine, f"{page.name}: {text}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_in_the_docs_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_has_commands_to_run():
    assert [text.split()[1] for kind, text in commands(PAGES[0]) if kind == "sh"] == [
        "sample",
        "show",
        "train",
        "infer",
    ]
