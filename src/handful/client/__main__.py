"""`python -m handful.client URL ...`: ask a service from the command line, without torch."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from handful.answers import answer_to_json
from handful.client import Client
from handful.errors import HandfulError, OptionError

FAILED, WRONG_USE, NOTHING_FOUND, INTERRUPTED = 1, 2, 3, 130
"""Exit statuses, as those of `handful`: docs/commands.md."""


def main(words: list[str] | None = None) -> int:
    """Ask, print the answer, and say by the status whether there is a pose to execute."""
    parser = argparse.ArgumentParser(prog="python -m handful.client", description=__doc__)
    parser.add_argument("url", help="address of the service, for example http://127.0.0.1:8720")
    parser.add_argument("--step", help="a step of the task; without it, what is served is listed")
    parser.add_argument("--scene", help="a cloud: PLY, PCD or NPZ")
    parser.add_argument("--grasp", help="what the gripper holds, in its frame")
    parser.add_argument("-n", type=int, default=16, help="poses at most")
    parser.add_argument("--frame", default="scene", help="name of the scene's frame")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds, retries included")
    parser.add_argument("--json", metavar="FILE", help="write the whole answer to this file")
    given = parser.parse_args(words)
    if given.step and not given.scene:
        parser.error("--step needs --scene: a cloud of what the camera sees.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _ask(given)
    except HandfulError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_USE if isinstance(error, OptionError) else FAILED
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return INTERRUPTED


def _ask(given: argparse.Namespace) -> int:
    token = os.environ.get("HANDFUL_TOKEN", "").strip()
    with Client(given.url, token=token, timeout=given.timeout) as client:
        client.wait_until_ready(given.timeout)
        if not given.step:
            for task in client.tasks():
                steps = ", ".join(f"{one['name']!r} ({one['action']})" for one in task["steps"])
                print(f"{task['run']}: {steps}")
            return 0
        answer = client.poses(given.step, given.scene, given.grasp, n=given.n, frame=given.frame)
    print(answer)
    if given.json:
        try:
            with open(given.json, "w", encoding="utf-8") as file:
                file.write(answer_to_json(answer))
        except OSError as error:
            print(f"error: {given.json}: cannot be written: {error.strerror}.", file=sys.stderr)
            return FAILED
    return 0 if answer.chosen is not None else NOTHING_FOUND


if __name__ == "__main__":
    sys.exit(main())
