"""Running `handful` as a person does."""

import os
import subprocess
import sys
from dataclasses import dataclass

HANDFUL = [sys.executable, "-c", "from handful.apps.cli import main; main()"]


@dataclass(frozen=True)
class Outcome:
    returncode: int
    stdout: str
    stderr: str


def run_process(*arguments: object) -> Outcome:
    """Run the command in a process of its own, as its installed script does."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(
        [*HANDFUL, *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)
