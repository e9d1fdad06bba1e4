"""Recordings with the usual mistakes in their files: each is told by its name, as the docs say.

They are read in a process of its own, without the checks of types that the other tests install.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rgbd_corruptions import CORRUPTIONS

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "road.md").read_text()


@pytest.fixture(scope="module")
def told():
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "rgbd_corruptions"], capture_output=True, text=True, timeout=600,
        check=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda one: one.name)
def test_a_mistake_in_the_files_is_named(corruption, told):
    told_by, sentence = told[corruption.name]
    assert (told_by, corruption.told in sentence) == (corruption.told_by, True), sentence
    assert f"| {corruption.name} | " in PAGE
    assert f"| {corruption.told} |" in PAGE


def test_recordings_without_a_mistake_pass(told):
    assert told[""] == ["", ""]
