"""A worker that does what jobs say, for tests of the pool; importable by worker processes."""

import json
import os
import signal
import time

from handful.apps.service._config import ServiceConfig
from handful.apps.service._entry import CANCEL
from handful.apps.service._jobs import Message, problem, reply


class Stopped(BaseException):
    pass


def stop(*_: object) -> None:
    raise Stopped


def work(connection, config: ServiceConfig) -> None:
    """Sleeps, dies, refuses to be cancelled, or says its process id."""
    signal.signal(CANCEL, signal.SIG_IGN)
    if config.run == "nowhere":
        connection.send_bytes(problem(500, "nowhere: there is no such folder.").encoded())
        return
    connection.send_bytes(reply(200, json.dumps({"steps": []})).encoded())
    while True:
        try:
            job = Message.decoded(connection.recv_bytes()).header
        except EOFError:
            return
        if job.get("die"):
            os._exit(3)
        if job.get("deaf"):
            time.sleep(60)
        try:
            signal.signal(CANCEL, stop)
            time.sleep(job.get("sleep", 0.0))
            signal.signal(CANCEL, signal.SIG_IGN)
            answer = reply(200, json.dumps({"pid": os.getpid()}))
        except Stopped:
            answer = problem(499, "stopped")
        connection.send_bytes(answer.encoded())
