"""The command line in this process, and the package as it is installed."""

import signal
import sys
from pathlib import Path

import pytest

import wheel
from command_line import Outcome
from handful.apps import cli


@pytest.fixture(scope="session")
def built_wheel(tmp_path_factory) -> Path:
    """The wheel, built from the source distribution."""
    pytest.importorskip("hatchling")
    return wheel.build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def installed(built_wheel, tmp_path_factory) -> Path:
    """Programs of an environment with the wheel."""
    return wheel.install(built_wheel, tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run the command in this process: the same `main`, without the seconds torch takes to load."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    before = signal.getsignal(signal.SIGINT)

    def run_here(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["handful", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), out, err)

    yield run_here
    signal.signal(signal.SIGINT, before)
