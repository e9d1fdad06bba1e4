"""The service's addresses and their guard, with a stand-in for the workers."""

import asyncio
import json
import time

import httpx
import pytest

pytest.importorskip("fastapi")

from handful.answers import answer_from_json
from handful.apps.service import ServiceConfig, check_service, create_app
from handful.apps.service._jobs import Message, reply
from handful.apps.service._pool import BusyError, LateError, LostError
from handful.apps.service._schemas import example_answer
from handful.errors import OptionError

TOKEN = "0123456789abcdef-token"
DESCRIBED = {
    "steps": [
        {"name": "grab it", "action": "pick", "needs_grasp": False, "needs_colors": True},
        {"name": "drop", "action": "place", "needs_grasp": True, "needs_colors": True},
    ],
    "gripper": {"name": "x", "opening": 0.08, "T_gripper_contact": [[1.0] * 4] * 4,
                "shape_known": True},
}  # fmt: skip


class StandIn:
    """Answers every job with an example, or with what it was told to raise."""

    def __init__(self) -> None:
        self.jobs: list[Message] = []
        self.problem: Exception | None = None
        self.ready, self.seconds, self.cancelled = 1, 0.0, 0

    async def start(self) -> dict:
        return DESCRIBED

    async def do(self, job: Message, deadline: float) -> Message:
        self.jobs.append(job)
        if self.problem is not None:
            raise self.problem
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        body = example_answer(job.header["step"], "pick")
        state = {"frames": 1 + (job.header.get("state") or {"frames": 0})["frames"]}
        return reply(200, json.dumps(body), seconds=0.1, state=state)

    def figures(self) -> dict[str, float]:
        return {"ready": self.ready, "busy": 0, "waiting": 0, "restarts": 0, "cancelled": 0,
                "memory": 1.0}  # fmt: skip

    async def stop(self) -> None: ...


class Caller:
    """Calls an application that runs in this process."""

    def __init__(self, **options) -> None:
        self.pool = StandIn()
        self.app = create_app(ServiceConfig("runs/mug", **options), self.pool, DESCRIBED)

    def __call__(self, method: str, path: str, host: str = "127.0.0.1", **options):
        async def call():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as one:
                return await one.request(method, path, **options)

        return asyncio.run(call())


CLOUD = [("scene", ("a.ply", b"ply\n"))]


def test_answers_go_through_with_what_was_asked():
    caller = Caller()
    data = {"n": "3", "seed": "5", "frame": "base", "workspace": "0, 0, 0, 1, 1, 1"}
    done = caller("POST", "/v1/steps/grab%20it/poses", files=CLOUD, data=data)
    assert done.status_code == 200, done.text
    assert answer_from_json(done.text).step == "grab it"
    (job,) = caller.pool.jobs
    assert job.blobs == (b"ply\n",)
    asked = {name: job.header[name] for name in ("kind", "step", "n", "seed", "frame", "workspace")}
    assert asked == {"kind": "poses", "step": "grab it", "n": 3, "seed": 5, "frame": "base",
                     "workspace": [0, 0, 0, 1, 1, 1]}  # fmt: skip


def test_what_is_served_is_told():
    caller = Caller(workspace=(0, 0, 0, 1, 1, 1), least_confidence=0.3)
    (task,) = caller("GET", "/v1/tasks").json()
    assert task["run"] == "mug"
    assert [step["name"] for step in task["steps"]] == ["grab it", "drop"]
    assert task["limits"]["workspace"] == [0, 0, 0, 1, 1, 1]
    assert task["limits"]["least_confidence"] == 0.3


def test_health_says_when_no_worker_is_ready():
    caller = Caller()
    assert caller("GET", "/v1/health").json()["status"] == "ok"
    caller.pool.ready = 0
    done = caller("GET", "/v1/health")
    assert (done.status_code, done.json()["status"]) == (503, "degraded")


@pytest.mark.parametrize(
    ("problem", "status", "told"),
    [(BusyError(), 429, "queue is full"), (LateError(), 504, "not done within 20 s"),
     (LostError(), 503, "the worker ended")],
)  # fmt: skip
def test_what_workers_cannot_do_is_one_sentence(problem, status, told):
    caller = Caller()
    caller.pool.problem = problem
    done = caller("POST", "/v1/steps/drop/poses", files=CLOUD)
    assert done.status_code == status
    assert told in done.json()["detail"]
    assert ("retry-after" in done.headers) == (status != 504)


# --- the guard --------------------------------------------------------------------------------


def test_without_its_token_a_service_tells_nothing_but_its_health():
    caller = Caller(token=TOKEN)
    for path in ("/v1/tasks", "/metrics", "/", "/openapi.json", "/nowhere"):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
            done = caller("GET", path, headers=headers)
            assert done.status_code == 401
            assert done.headers["www-authenticate"] == "Bearer"
        right = caller("GET", path, headers={"authorization": f"Bearer {TOKEN}"})
        assert right.status_code == (404 if path == "/nowhere" else 200)
    assert caller("GET", "/v1/health").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8720"])
def test_other_names_are_refused(host):
    """A page in a browser of the same machine cannot reach the service by a name of its own."""
    done = Caller()("GET", "/v1/tasks", host)
    assert done.status_code == 421
    assert "is not" in done.json()["detail"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:8720", "[::1]:8720"])
def test_own_names_are_served(host):
    assert Caller()("GET", "/v1/tasks", host).status_code == 200


def test_further_names_can_be_allowed():
    assert Caller(hosts=("robot.lan",))("GET", "/v1/tasks", "robot.lan").status_code == 200


def test_a_service_for_other_machines_needs_a_good_token():
    for token in ("", "short", "with spaces in between it", "ünicode-is-no-token"):
        with pytest.raises(OptionError, match="token"):
            check_service(ServiceConfig("x", host="0.0.0.0", token=token))
    check_service(ServiceConfig("x", host="0.0.0.0", token=TOKEN))
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        check_service(ServiceConfig("x", host=host))
    for options in ({"timeout": 0}, {"max_age": float("nan")}, {"queue": 0}, {"workers": -1}):
        with pytest.raises(OptionError, match="need"):
            check_service(ServiceConfig("x", **options))


def test_large_requests_are_refused_before_they_are_read():
    caller = Caller(max_bytes=1000)
    done = caller("POST", "/v1/steps/drop/poses", files=[("scene", ("a.ply", b"0" * 2000))])
    assert done.status_code == 413
    assert "larger than 1000 bytes" in done.json()["detail"]

    async def pieces():
        yield b'--x\r\nContent-Disposition: form-data; name="scene"; filename="a"\r\n\r\n'
        for _ in range(20):
            yield b"0" * 100

    headers = {"content-type": "multipart/form-data; boundary=x"}
    done = caller("POST", "/v1/steps/drop/poses", content=pieces(), headers=headers)
    assert done.status_code == 413
    assert caller.pool.jobs == []


def test_slow_requests_are_given_up():
    caller = Caller(timeout=0.5)

    async def pieces():
        yield b"--x\r\n"
        await asyncio.sleep(30)

    headers = {"content-type": "multipart/form-data; boundary=x"}
    done = caller("POST", "/v1/steps/drop/poses", content=pieces(), headers=headers)
    assert done.status_code == 408


def test_every_answer_has_safe_headers():
    for path in ("/", "/v1/tasks", "/nowhere"):
        headers = Caller()("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]


# --- stamps and streams -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "status"), [(0.0, 200), (50.0, 200), (150.0, 409), (-0.5, 200), (-200, 409)]
)
def test_old_and_future_stamps_are_refused(age, status):
    data = {"stamp": repr(time.time() - age)}
    caller = Caller(max_age=100.0)
    assert caller("POST", "/v1/steps/drop/poses", files=CLOUD, data=data).status_code == status


def test_a_stream_remembers_its_last_answer_until_it_ends():
    caller = Caller()
    begun = caller("POST", "/v1/steps/drop/tracks")
    assert begun.status_code == 201
    path = f"/v1/tracks/{begun.json()['track']}"
    for frames in range(3):
        assert caller("POST", f"{path}/frames", files=CLOUD).status_code == 200
        state = caller.pool.jobs[-1].header["state"]
        assert state == (None if frames == 0 else {"frames": frames})
    assert caller("DELETE", path).status_code == 204
    assert caller("DELETE", path).status_code == 404
    assert caller("POST", f"{path}/frames", files=CLOUD).status_code == 404


def test_a_frame_that_was_refused_changes_nothing():
    caller = Caller(max_age=100.0)
    path = f"/v1/tracks/{caller('POST', '/v1/steps/drop/tracks').json()['track']}/frames"
    caller.pool.problem = BusyError()
    stamp = {"stamp": repr(time.time())}
    assert caller("POST", path, files=CLOUD, data=stamp).status_code == 429
    caller.pool.problem = None
    assert caller("POST", path, files=CLOUD, data=stamp).status_code == 200
    assert caller("POST", path, files=CLOUD, data=stamp).status_code == 409


def test_streams_are_few_and_forgotten_when_idle():
    caller = Caller(max_tracks=2, track_seconds=3.0)
    begin = [caller("POST", "/v1/steps/drop/tracks").status_code for _ in range(3)]
    assert begin == [201, 201, 429]
    time.sleep(3.1)
    assert caller("POST", "/v1/steps/drop/tracks").status_code == 201


def test_unknown_steps_and_addresses_are_told():
    caller = Caller()
    done = caller("POST", "/v1/steps/grabit/poses", files=CLOUD)
    assert done.status_code == 404
    assert "Did you mean 'grab it'?" in done.json()["detail"]
    assert caller("GET", "/v1/steps/drop/poses").status_code == 405
    assert caller("GET", "/v2").json() == {"detail": "Not Found"}


@pytest.mark.parametrize("poses", ["", "[]", "[[1]]", "{", '"a"', "[[[1,0,0],[0],[0],[0]]]"])
def test_wrong_poses_to_rate_are_told(poses):
    done = Caller()("POST", "/v1/steps/drop/ratings", files=CLOUD, data={"poses": poses})
    assert done.status_code == 422
    assert "poses" in done.json()["detail"]


# --- the page ---------------------------------------------------------------------------------


def test_the_page_needs_nothing_from_elsewhere_and_shows_every_address():
    caller = Caller()
    page = caller("GET", "/").text
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    described = caller("GET", "/openapi.json").json()
    for path, methods in described["paths"].items():
        assert path in page
        for operation in methods.values():
            assert operation["description"].endswith(".")
    assert "curl -F scene=@scene.ply" in page
    assert "T_scene_retreat" in page
