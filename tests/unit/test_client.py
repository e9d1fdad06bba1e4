"""The client: what it needs, what it sends, when it asks again, and when it gives up."""

import asyncio
import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

pytest.importorskip("httpx")

from handful.answers import AnsweredPose, PoseAnswer, answer_to_json
from handful.client import (
    AsyncClient,
    Client,
    ConnectionLostError,
    DeadlineError,
    RefusedError,
    Retries,
    View,
)
from handful.client._questions import question
from handful.clouds import Box, array_from_bytes, cloud_from_bytes
from handful.errors import HandfulError, OptionError
from unchecked import unchecked

POSE = AnsweredPose(np.eye(4), np.eye(4), np.eye(4), 0.08, None, 1.0, 0.9, True, "")
ANSWER = answer_to_json(PoseAnswer("pick", "pick", "", 0.08, True, 0, "", 0.5, (POSE,), 0.1))
QUICK = Retries(most=3, first=0.01, longest=0.02)
CLOUD = np.random.default_rng(0).uniform(size=(10, 6))


def test_the_client_needs_neither_torch_nor_the_rest():
    code = (
        "import sys, handful.client; heavy = {'torch', 'scipy', 'trimesh', 'PIL', 'mujoco', "
        "'fastapi', 'typer', 'safetensors'} & set(sys.modules); ours = sorted(n[8:] for n in "
        "sys.modules if n.startswith('handful.') and n.count('.') == 1); print(*heavy, *ours)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light = {"errors", "_checks", "_names", "_files", "_strict_json", "answers", "client"}
    assert {"answers", "client"} <= set(told.stdout.split()) <= light


# --- a service that says what it is told to ---------------------------------------------------


class Script(ThreadingHTTPServer):
    """Answers requests with what the script says, in order; the last line is repeated."""

    daemon_threads = True

    def __init__(self, *lines: tuple[int, str] | str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lines, self.requests, self.headers = list(lines), [], []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        server.requests.append((self.path, body))
        server.headers.append(dict(self.headers))
        line = server.lines.pop(0) if len(server.lines) > 1 else server.lines[0]
        if line == "break off":
            self.connection.close()
            return
        if line == "sleep":
            time.sleep(20.0)
            line = (200, ANSWER)
        status, text = line
        self.send_response(status)
        if status == 429:
            self.send_header("retry-after", "0")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_POST = do_DELETE = do_GET

    def log_message(self, *_) -> None: ...


@pytest.fixture
def script() -> Iterator:
    made = []

    def make(*lines) -> Script:
        made.append(Script(*lines))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()
        one.server_close()


def asked(script: Script, kind: str, **options) -> PoseAnswer:
    """The answer to one question, by the client of a kind."""
    timeout = options.pop("timeout", 5.0)
    if kind == "waiting":
        with Client(script.url, retries=QUICK, timeout=timeout, **options) as client:
            return client.poses("hang mug", CLOUD)

    async def ask() -> PoseAnswer:
        async with AsyncClient(script.url, retries=QUICK, timeout=timeout, **options) as client:
            return await client.poses("hang mug", CLOUD)

    return asyncio.run(ask())


KINDS = pytest.mark.parametrize("kind", ["waiting", "awaited"])
BUSY = (429, json.dumps({"detail": "all workers are busy."}))
LOST = (503, json.dumps({"detail": "the worker ended."}))
WRONG = (422, json.dumps({"detail": "scene: x.ply: the file is empty."}))


@KINDS
def test_a_question_is_answered(script, kind):
    told = script((200, ANSWER))
    answer = asked(told, kind, token="0123456789abcdef")
    assert answer.best.confidence == 0.9
    assert told.requests[0][0] == "/v1/steps/hang%20mug/poses"
    assert told.headers[0]["authorization"] == "Bearer 0123456789abcdef"
    assert b'name="timeout"' in told.requests[0][1]


@KINDS
@pytest.mark.parametrize("problem", [BUSY, LOST, "break off"])
def test_what_was_not_done_is_asked_again(script, kind, problem):
    told = script(problem, problem, (200, ANSWER))
    assert asked(told, kind).step == "pick"
    assert len(told.requests) == 3


@KINDS
def test_what_is_wrong_is_not_asked_again(script, kind):
    told = script(WRONG)
    with pytest.raises(RefusedError, match=r"the file is empty\. \(status 422\)") as caught:
        asked(told, kind)
    assert caught.value.status == 422
    assert len(told.requests) == 1


@KINDS
def test_retries_end(script, kind):
    told = script(BUSY)
    with pytest.raises(RefusedError, match="busy"):
        asked(told, kind)
    assert len(told.requests) == 1 + QUICK.most


@KINDS
@pytest.mark.parametrize("line", ["sleep", (504, '{"detail": "not done in time"}')])
def test_deadlines_are_kept(script, kind, line):
    start = time.monotonic()
    with pytest.raises(DeadlineError):
        asked(script(line), kind, timeout=0.3)
    assert time.monotonic() - start < 10.0


@KINDS
def test_a_service_that_is_not_there_is_told(kind):
    gone = Script((200, ""))
    gone.shutdown()
    gone.server_close()
    with pytest.raises(ConnectionLostError, match="does `handful serve` run"):
        asked(gone, kind)


@KINDS
def test_an_answer_that_is_none_is_told(script, kind):
    for line in ((200, "<html>"), (200, "{}")):
        with pytest.raises(HandfulError, match="the answer"):
            asked(script(line), kind)


def test_a_frame_is_not_sent_twice_unless_it_was_not_looked_at(script):
    told = script((201, '{"track": "a"}'), BUSY, (200, ANSWER), "break off")
    with Client(told.url, retries=QUICK) as client:
        track = client.track("pick")
        track.frame(CLOUD)
        with pytest.raises(ConnectionLostError):
            track.frame(CLOUD)
    assert len(told.requests) == 4


def test_pauses_grow_and_end_at_the_deadline():
    from handful.client._retries import Attempts

    attempts = Attempts.within(Retries(most=5, first=0.1, longest=0.4), 100.0)
    pauses = [attempts.pause_after(ConnectionLostError("x")) for _ in range(5)]
    for pause, most in zip(pauses, (0.1, 0.2, 0.4, 0.4, 0.4), strict=True):
        assert 0.5 * most <= pause <= most
    with pytest.raises(DeadlineError, match=r"no answer within 0\.1 s; at last: x"):
        Attempts.within(Retries(first=1.0), 0.1).pause_after(ConnectionLostError("x"))
    for wrong in ({"most": -1}, {"first": 0.0}, {"first": 3.0}, {"longest": float("nan")}):
        with pytest.raises(OptionError):
            Retries(**wrong)
    for wrong in ({"timeout": 0}, {"timeout": float("inf")}, {"url": "127.0.0.1:8720"}):
        with pytest.raises(OptionError):
            Client(**wrong)


def test_wrong_kinds_are_sentences():
    """As they come without the run-time type checker of the tests."""
    client = Client("http://127.0.0.1:1", timeout=0.2)
    for call, told in [
        (lambda: Client(8720), "url is 8720: need one like"),
        (lambda: Client(token=None), "token is None: need text"),
        (lambda: Client(timeout="5"), "timeout is '5': need a positive number"),
        (lambda: client.poses(None, CLOUD), "step is None: need its name"),
        (lambda: client.poses("pick", [["a", "b", "c"]]), "equally many real numbers"),
        (
            lambda: client.poses("pick", View(np.ones((4, 4)), [1], 1, 1, 1, 1)),
            r"a pose of shape \(1,\)",
        ),
        (lambda: client.rate("pick", "here", CLOUD), "something else than numbers"),
        (lambda: client.rate("pick", np.zeros((2, 7)), CLOUD), r"shape \(2, 7\)"),
        (lambda: client.rate("pick", np.full((4, 4), np.nan), CLOUD), "not finite"),
    ]:
        with pytest.raises(HandfulError, match=told):
            unchecked(call)


def test_a_workspace_may_be_a_box():
    asked = question(CLOUD, None, workspace=Box((0.0, 0.0, 0.0), (1.0, 1.0, 0.5)))
    assert asked.fields["workspace"] == "0.0 0.0 0.0 1.0 1.0 0.5"


# --- what is sent -----------------------------------------------------------------------------


class OpenCloud:
    def __init__(self, points, colors) -> None:
        self.points, self.colors = points, colors


@pytest.mark.parametrize("kind", ["six", "pair", "object", "bytes"])
def test_clouds_of_all_kinds_become_the_same_file(kind):
    points, colors = CLOUD[:, :3], CLOUD[:, 3:]
    value = {"six": CLOUD, "pair": (points, colors), "object": OpenCloud(points, colors),
             "bytes": (points, np.rint(255 * colors).astype(np.uint8))}[kind]  # fmt: skip
    ((name, (file, content)),) = question(value, None).files
    assert (name, file) == ("scene", "scene.npz")
    cloud = cloud_from_bytes(content, file)
    np.testing.assert_array_equal(cloud.points, points.astype(np.float32))
    np.testing.assert_array_equal(np.rint(255 * cloud.colors), np.rint(255 * colors))


def test_views_become_images_and_cameras():
    depth = np.arange(12, dtype=np.uint16).reshape(3, 4)
    color = np.zeros((3, 4, 3), dtype=np.uint8)
    view = View(depth, np.eye(4), 10.0, 11.0, 1.5, 1.0, color, 0.002)
    asked = question([view, view], view, n=3, beside=False, workspace=[0, 0, 0, 1, 1, 1], x=None)
    assert [name for name, _ in asked.files] == [
        "scene_depth", "scene_depth", "scene_color", "scene_color", "grasp_depth", "grasp_color",
    ]  # fmt: skip
    np.testing.assert_array_equal(array_from_bytes(asked.files[0][1][1], "depth"), depth)
    (camera, _) = json.loads(asked.fields["scene_cameras"])
    assert (camera["width"], camera["height"], camera["depth_scale"]) == (4, 3, 0.002)
    assert "T_gripper_camera" in json.loads(asked.fields["grasp_cameras"])[0]
    assert asked.fields["beside"] == "false"
    assert asked.fields["workspace"] == "0.0 0.0 0.0 1.0 1.0 1.0"
    assert "x" not in asked.fields


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "NoneType"),
        (3, "of type int"),
        (np.zeros((4, 2)), r"shape \(4, 2\)"),
        ((np.zeros((4, 3)), np.zeros((3, 3))), r"shape \(3, 3\)"),
        ((np.zeros((4, 3)), np.full((4, 3), 255.0)), "floats in"),
        ("scene.txt", "need a cloud file"),
        ("nowhere.ply", "cannot be read"),
    ],
)
def test_what_is_no_cloud_is_told_before_it_is_sent(value, told):
    with pytest.raises(HandfulError, match=told):
        question(value, None)


def test_arrays_are_read_with_suspicion():
    out = io.BytesIO()
    np.save(out, np.arange(6, dtype=np.int16).reshape(2, 3), allow_pickle=False)
    np.testing.assert_array_equal(array_from_bytes(out.getvalue(), "a.npy"), [[0, 1, 2], [3, 4, 5]])
    for broken, told in [(out.getvalue()[:-1], "truncated"), (b"PK", "not a numpy array"),
                         (out.getvalue().replace(b"<i2", b"|O8"), "pickled")]:  # fmt: skip
        with pytest.raises(HandfulError, match=told):
            array_from_bytes(broken, "a.npy")
