"""What runs on a robot's computer, without torch and pytest: for any Python that is at hand.

`python tests/robot_side.py` with `src` on the path. The first part needs nothing but Python; the
second, the answers and the client, needs numpy, httpx and jaxtyping, and is left out without them.
Prints what was run; ends with an AssertionError if something is not as it should be.
"""

import importlib.util
import json
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def refused(what, *arguments):
    """The sentence of the error that a call must raise."""
    from handful.errors import HandfulError

    try:
        what(*arguments)
    except HandfulError as error:
        return str(error)
    raise AssertionError(f"{what.__name__}{arguments} was not refused")


def check_files(folder):
    from handful._checks import whole_number
    from handful._files import append_line, atomic_write_text, read_bytes, staged_folder
    from handful._locks import alone
    from handful._names import printable
    from handful._strict_json import Fields, parse_json, read_json
    from handful.errors import FileFormatError

    path = folder / "a.json"
    atomic_write_text(path, '{"count": 3, "names": ["a", "b"]}')
    fields = Fields(read_json(path), str(path), FileFormatError)
    assert fields.integer("count") == 3
    assert [value for _, value in fields.items("names")] == ["a", "b"]
    fields.done()
    for text, told in (
        ("[" * 5000, "nested too deeply"),
        ("[" * 150 + "]" * 150, "nested too deeply"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": NaN}', "NaN"),
        ("{", "not valid JSON"),
    ):
        assert told in refused(parse_json, text, "it"), (text[:20], refused(parse_json, text, "it"))
    assert parse_json(json.dumps(["[" * 200, [[]] * 200]), "it")[0] == "[" * 200
    assert "larger than" in refused(read_bytes, path, 5)
    assert "cannot be read" in refused(read_bytes, folder / "none", 5)
    append_line(folder / "log", "one")
    append_line(folder / "log", "two")
    assert (folder / "log").read_text() == "one\ntwo\n"
    with staged_folder(folder / "new") as staging:
        (staging / "x").write_text("x")
    assert (folder / "new" / "x").read_text() == "x"
    with alone(folder / "lock", "it"):
        pass
    assert "\x1b" not in printable("\x1b[31m<x>")
    assert "need" in refused(whole_number, "seed", -1, 0, 5)


def check_client(folder):
    import numpy as np

    from handful.answers import AnsweredPose, PoseAnswer, answer_from_json, answer_to_json
    from handful.client import Client, Retries, View
    from handful.client.__main__ import main

    pose = AnsweredPose(np.eye(4), np.eye(4), np.eye(4), 0.08, None, 1.0, 0.9, True, "")
    answer = PoseAnswer("pick", "pick", "", 0.08, True, 0, "", 0.5, (pose,), 0.1)
    text = answer_to_json(answer)
    assert answer_to_json(answer_from_json(text)) == text
    statuses = [503, 200]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status = statuses.pop(0) if statuses else 200
            body = (text if status == 200 else json.dumps({"detail": "later."})).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    cloud = np.random.default_rng(0).uniform(size=(10, 6))
    with Client(url, timeout=20.0, retries=Retries(most=3, first=0.01)) as client:
        assert client.poses("pick", cloud).best is not None  # asked twice
        depth = np.full((4, 5), 0.5, np.float32)
        view = View(depth, np.eye(4), 5.0, 5.0, 2.0, 1.5, distortion=(0.1, 0, 0, 0, 0))
        assert client.poses("pick", view).chosen == 0
    np.savez(folder / "scene.npz", points=cloud[:, :3])
    asked = [url, "--step", "pick", "--scene", str(folder / "scene.npz")]
    assert main([*asked, "--json", str(folder / "out.json")]) == 0
    assert answer_from_json((folder / "out.json").read_text()).step == "pick"
    server.shutdown()
    assert main([url.rsplit(":", 1)[0] + ":1", "--timeout", "0.2"]) == 1


def main():
    version = ".".join(map(str, sys.version_info[:3]))
    needs = [name for name in ("numpy", "httpx", "jaxtyping") if not importlib.util.find_spec(name)]
    with tempfile.TemporaryDirectory() as folder:
        check_files(Path(folder))
        if not needs:
            check_client(Path(folder))
    assert "torch" not in sys.modules
    print(f"{version}: files" + ("" if needs else ", answers and client"))


if __name__ == "__main__":
    main()
