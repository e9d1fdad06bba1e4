"""The road of a new user, as docs/road.md has it: from ten RGB-D recordings to an asked service.

Every command is typed as it stands there, but for fewer optimiser steps and another port, in an
environment with nothing but the wheel and its libraries; before that, the first steps of README.md.
One test does it all: a wheel is built and installed, and loops are compiled, once.
`make road` runs all of it with ten recordings, and prints the times; `make test` takes two
recordings and leaves out the evaluation, whose four trainings take a minute of the processor.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import handful
from docs_commands import commands_of
from wheel import clean_environment, run

PAGE = Path(__file__).parents[2] / "docs" / "road.md"
FEWER = {"train": ["--steps", "2"], "evaluate": ["--steps", "2", "--no-pictures"]}
WHOLE = bool(os.environ.get("HANDFUL_ROAD"))


def commands() -> list[str]:
    (block,) = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found = [line.removeprefix("$ ") for line in block.splitlines()]
    names = [name_of(command) for command in found]
    assert names == [
        "sample",
        "check",
        "import",
        "check",
        "train",
        "evaluate",
        "serve",
        *["client"] * 3,
    ]
    if WHOLE:
        return found
    return [one.replace("--demos 10", "--demos 2") for one in found if name_of(one) != "evaluate"]


def words_of(command: str, url: str, programs: Path) -> list[str]:
    """What is run for a line of the page."""
    words = shlex.split(command)
    if words[0] == "handful":
        return [str(programs / "handful"), *words[1:], *FEWER.get(words[1], [])]
    assert words[:3] == ["python", "-m", "handful.client"]
    return [str(programs / "python"), *words[1:3], url, *words[4:]]


def name_of(command: str) -> str:
    words = command.split()
    return words[1] if words[0] == "handful" else "client"


def walk_the_readme(programs: Path, folder: Path) -> None:
    """The first steps as they stand there, with one demonstration and one optimiser step."""
    folder.mkdir()
    assert handful.__version__ in run(programs / "handful", "--version", cwd=folder)
    for language, line in commands_of(PAGE.parents[1] / "README.md"):
        if language == "sh":
            words = shlex.split(line)
            assert words[0] == "handful"
            run(programs / "handful", *words[1:], cwd=folder, statuses=(0, 3))
    assert (folder / "out/sample/demos.png").is_file()
    assert (folder / "poses.png").is_file()
    ask = (programs / "python", "-m", "handful.client", "http://127.0.0.1:1", "--timeout", 0.1)
    run(*ask, statuses=(1,))


def check_what_is_in(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "handful/bench/report/templates/page.html.j2" in names
    assert "handful/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]


@pytest.mark.slow(seconds=60)
def test_the_road_of_a_new_user(built_wheel, installed, tmp_path, capsys):
    check_what_is_in(built_wheel)
    if not WHOLE:
        walk_the_readme(installed, tmp_path / "readme")
    environment = clean_environment()
    seconds: list[tuple[str, float, float]] = []
    said: dict[str, str] = {}
    served, url = None, ""
    try:
        for command in commands():
            start, used = time.monotonic(), os.times()
            if command.endswith("&"):
                words = [*words_of(command.removesuffix("&"), url, installed), "--port", "0"]
                served = subprocess.Popen(
                    words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
                )
                line = served.stdout.readline()
                url = re.search(r"http://\S+:\d+", line).group()
            else:
                done = subprocess.run(
                    words_of(command, url, installed), cwd=tmp_path, env=environment,
                    capture_output=True, text=True, timeout=900, check=False,
                )  # fmt: skip
                right = (0, 3) if "--step" in command else (0,)
                assert done.returncode in right, f"{command}: {done.stdout} {done.stderr}"
                said[command] = done.stdout
            now = os.times()
            cpu = now.children_user + now.children_system
            cpu -= used.children_user + used.children_system
            seconds.append((name_of(command), time.monotonic() - start, cpu))
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0
    finally:
        if served is not None:
            served.kill()
            served.wait()
            served.stdout.close()
    count = 10 if WHOLE else 2
    found = {name_of(command): text for command, text in reversed(said.items())}
    found["check"] = said["handful check peg"]
    assert "Camera 'table': is where its pose says" in said["handful check camera peg_images"]
    assert f"{count} demonstrations checked: poses and clouds fit each other" in found["check"]
    assert "Own demonstrations" in found["train"]
    assert found["client"].strip() == "peg: 'take peg' (pick), 'insert peg' (place)"
    assert (tmp_path / "runs/peg_evaluation/report.html").is_file() == WHOLE
    if WHOLE:
        assert "calibrated on left-out demonstrations: take peg, insert peg" in found["evaluate"]
    answer = json.loads((tmp_path / "take.json").read_text())
    assert (answer["format"], answer["step"]) == ("handful-poses", "take peg")
    if WHOLE:
        with capsys.disabled():
            for name, wall, cpu in seconds:
                print(f"{name:10s} {wall:6.1f} s, {cpu:6.1f} s of the processor")
