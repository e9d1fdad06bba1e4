"""Runs commands and programs of the docs, each in a process of its own.

The processes are forked from this one, which has loaded libraries that take seconds to load and
nothing of `handful`: what a command needs of `handful` it has to import itself. Models are small
(`small_handful.py`), and nothing else differs from what is typed.

Arguments are the libraries to load. Each line of the standard input is one page, as JSON: the
`folder` to be in, and `commands`, a list of [language, text, statuses that are fine]. The answer is
one line: what went wrong, as JSON text, which is empty if nothing did. A page ends with the first
command that has another status.
"""

import gc
import importlib.util
import json
import multiprocessing.process
import os
import shlex
import signal
import sys
import tempfile

TIMEOUT = 600
"""Seconds after which a command is ended."""
TOLD = 4000
"""Last characters of what a failed command said."""


def run(language: str, text: str) -> None:
    import small_handful  # `main` has loaded it; processes that this one starts cannot find it

    small_handful.install()
    if language == "python":
        exec(compile(text, "<docs>", "exec"), {"__name__": "__main__"})
        return
    from handful.apps.cli import main as handful

    sys.argv = shlex.split(text)
    handful()


def status_of(language: str, text: str, folder: str, said: int) -> int:
    """The status of a command that was run in a folder; what it says goes to a file."""
    child = os.fork()
    if child == 0:
        signal.alarm(TIMEOUT)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(folder)
        multiprocessing.process.ORIGINAL_DIR = folder  # where processes that it starts begin
        run(language, text)
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def problem_of(folder: str, commands: list[tuple[str, str, list[int]]]) -> str:
    """What went wrong with a page; empty if nothing did."""
    for language, text, fine in commands:
        with tempfile.TemporaryFile() as said:
            status = status_of(language, text, folder, said.fileno())
            if status not in fine:
                said.seek(0)
                words = said.read().decode(errors="replace")[-TOLD:]
                return f"ended with status {status}:\n{text}\n{words}"
    return ""


def main() -> None:
    importlib.import_module("small_handful")
    sys.path[0] = ""  # the present folder, as for `python -c`, and not that of the tests
    for name in sys.argv[1:]:
        if importlib.util.find_spec(name.split(".")[0]) is not None:
            importlib.import_module(name)
    loaded = [name for name in sys.modules if name.split(".")[0] == "handful"]
    assert not loaded, loaded
    gc.freeze()  # what is loaded stays: no process need look through it, and copy it by that
    for line in sys.stdin:
        page = json.loads(line)
        print(json.dumps(problem_of(page["folder"], page["commands"])), flush=True)


if __name__ == "__main__":
    main()
