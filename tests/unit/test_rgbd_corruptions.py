"""Recordings with the usual mistakes in their files: each is told by its name, as the docs say."""

import json
import shutil
from pathlib import Path

import pytest

from handful.checks import check_demos
from handful.errors import HandfulError
from handful.recordings import import_rgbd, write_rgbd_example
from rgbd_corruptions import CORRUPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "road.md").read_text()


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return write_rgbd_example(tmp_path_factory.mktemp("right") / "peg_images", 2)


def what_is_told(folder: Path) -> tuple[str, str]:
    """Which command says something, and what; nothing for recordings without a mistake."""
    try:
        demos = import_rgbd(folder)
    except HandfulError as error:
        return "import", str(error)
    report = check_demos(demos)
    if not report.wrong:
        return "", ""
    return "check", report.advice or str(report.problems[0])


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda one: one.name)
def test_a_mistake_in_the_files_is_named(corruption, right, tmp_path):
    folder = tmp_path / "peg_images"
    shutil.copytree(right, folder)
    corruption.spoil(folder)
    told_by, told = what_is_told(folder)
    assert (told_by, corruption.told in told) == (corruption.told_by, True), told
    assert f"| {corruption.name} | " in PAGE
    assert f"| {corruption.told} |" in PAGE


def test_recordings_without_a_mistake_pass(right):
    assert what_is_told(right) == ("", "")
    assert len(json.loads((right / "recordings.json").read_text())["recordings"]) == 2
