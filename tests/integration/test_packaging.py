"""The Pythons that the package is for; `test_new_user_road.py` builds, installs and uses it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from wheel import ROOT, run

VERSIONS = ("3.10", "3.11", "3.12")
"""Of Python, that pyproject.toml says are supported."""


def answers(python: Path) -> bool:
    """Whether it is an interpreter, and not a stand-in for one that is not installed."""
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


def python_of(version: str) -> Path:
    """An interpreter of that version, where one is at hand."""
    places = [*Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")]
    places += [Path(found)] if (found := shutil.which(f"python{version}")) else []
    python = next((place for place in places if answers(place)), None)
    if python is None:
        pytest.skip(f"no Python {version} is at hand here")
    return python


@pytest.mark.parametrize("version", [*VERSIONS, "3.13"])
def test_the_sources_are_of_every_supported_python(version):
    """Their syntax; mypy checks the same sources against the library of 3.10."""
    code = (
        "import ast, pathlib, sys\n"
        "for path in pathlib.Path(sys.argv[1]).rglob('*.py'): ast.parse(path.read_bytes())\n"
        "print(sys.version_info[:2])"
    )
    told = run(python_of(version), "-c", code, ROOT / "src")
    assert told.strip() == str(tuple(map(int, version.split("."))))


@pytest.mark.parametrize("version", [*VERSIONS, "3.13"])
def test_what_a_robot_needs_runs_on_every_supported_python(version):
    """Files, strict JSON and names; answers and client where numpy and httpx are at hand, too.

    `make pythons` makes environments that have them.
    """
    place = ROOT / ".venv" / f"python{version}" / "bin" / "python"
    python = place if place.exists() else python_of(version)
    told = run(python, ROOT / "tests" / "robot_side.py", PYTHONPATH=str(ROOT / "src"))
    assert re.search(rf"^{re.escape(version)}\.\d+: files", told, re.MULTILINE)


def test_supported_versions_are_those_that_are_tested():
    text = (ROOT / "pyproject.toml").read_text()
    assert tuple(re.findall(r"Python :: (3\.\d+)", text)) == VERSIONS
    assert f'requires-python = ">={VERSIONS[0]}"' in text
