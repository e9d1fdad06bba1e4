"""Runs the commands and programs of a page of the docs, each in a process of its own.

The processes are forked from this one, which has loaded libraries that take seconds to load and
nothing of `handful`: what a command needs of `handful` it has to import itself.

Reads from the standard input, as JSON, `libraries` to load and `commands`: a list of [language,
text, statuses that are fine]. Ends with the first command that has another status.
"""

import importlib.util
import json
import os
import shlex
import sys


def run(language: str, text: str) -> None:
    if language == "python":
        exec(compile(text, "<docs>", "exec"), {"__name__": "__main__"})
        return
    from handful.apps.cli import main as handful

    sys.argv = shlex.split(text)
    handful()


def main() -> None:
    page = json.load(sys.stdin)
    sys.path[0] = ""  # the present folder, as for `python -c`, and not that of the tests
    for name in page["libraries"]:
        if importlib.util.find_spec(name.split(".")[0]) is not None:
            importlib.import_module(name)
    loaded = [name for name in sys.modules if name.split(".")[0] == "handful"]
    assert not loaded, loaded
    for language, text, fine in page["commands"]:
        child = os.fork()
        if child == 0:
            run(language, text)
            sys.exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status not in fine:
            sys.exit(f"ended with status {status}:\n{text}")


if __name__ == "__main__":
    main()
