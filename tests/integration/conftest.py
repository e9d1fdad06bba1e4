"""The command line in this process."""

import signal
import sys

import pytest

from command_line import Outcome
from handful.apps import cli


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
