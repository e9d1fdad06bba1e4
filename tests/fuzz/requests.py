"""Requests that are fuzzed: forms and their files, and whole bodies, at the service's own routes.

The service runs in this process, without sockets and workers: its front, its guard, and what a
worker does with a job. An answer is right if it is one that the page of the service lists; a
refusal must hold its sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image

from fuzz.subject import Subject
from handful.apps.service import ServiceConfig, create_app
from handful.apps.service._jobs import Message
from handful.apps.service._worker import Inference
from handful.clouds import write_cloud
from handful.demos import Action, TaskStep, gripper_named
from handful.errors import OptionError
from handful.learning import RunFolder
from handful.models import EdfModel
from handful.policy import Predictor, save_predictor
from samples import small_cloud
from small_training import COARSE, THIN, small_recipe

LISTED = (200, 201, 204, 400, 401, 404, 405, 408, 409, 413, 421, 422, 429)
"""Statuses that a caller may get of a service that is well and not in a hurry."""
SIZE = (24, 16)


class _Here:
    """The work of a worker, done at once."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    async def start(self) -> dict[str, Any]:
        return self._inference.describe()

    async def do(self, job: Message, deadline: float) -> Message:
        return self._inference.answer(Message.decoded(job.encoded()))

    def figures(self) -> dict[str, float]:
        return dict.fromkeys(("ready", "busy", "waiting", "restarts", "cancelled", "memory"), 1.0)

    async def stop(self) -> None: ...


@lru_cache
def _inference() -> Inference:
    """Models that were never trained, and answer all the same; loaded once.

    They are no part of the input: spoiled models are a subject of their own.
    """
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(prefix="handful-fuzz-") as folder:
        _make_run(Path(folder))
        return Inference(ServiceConfig(folder))


@lru_cache
def _app() -> Any:
    """The application, made once, as a service does.

    What FastAPI and pydantic make of the routes is not given back with the application: one for
    each case took 0.9 MB each, and what the service itself keeps from request to request would not
    be seen.
    """
    return create_app(ServiceConfig("run"), _Here(_inference()), _inference().describe())


def _make_run(run: Path) -> None:
    for action in Action:
        model = EdfModel(small_recipe(action.value, action).model).eval()
        step = TaskStep(action.value, action)
        hand = gripper_named("simulated")
        save_predictor(Predictor(step, model, hand, THIN, COARSE), run / action.value)
    RunFolder(run).note(steps=[{"name": one.value, "action": one.value} for one in Action])


def _make(folder: Path) -> None:
    _app()
    write_cloud(small_cloud(0, 200), folder / "scene.ply")
    write_cloud(small_cloud(1, 200), folder / "grasp.pcd")
    write_cloud(small_cloud(2, 200), folder / "scene.npz")
    depth = np.full((SIZE[1], SIZE[0]), 300, np.uint16)
    Image.fromarray(depth).save(folder / "depth.png")
    np.save(folder / "depth.npy", depth.astype(np.float32))
    Image.fromarray(np.full((SIZE[1], SIZE[0], 3), 99, np.uint8)).save(folder / "color.png")
    camera = {"fx": 20.0, "fy": 20.0, "cx": 11.5, "cy": 7.5, "width": SIZE[0], "height": SIZE[1],
              "distortion": [0.1, -0.05, 0.001, 0.0, 0.0], "depth_scale": 0.001,
              "T_scene_camera": np.eye(4).tolist()}  # fmt: skip
    (folder / "cameras.json").write_text(json.dumps([camera]))
    (folder / "poses.json").write_text(json.dumps([np.eye(4).tolist()] * 2))
    request = {
        "path": "/v1/steps/pick/poses", "headers": {"host": "127.0.0.1", "x-odd": "1"},
        "fields": {"n": 2, "seed": 0, "frame": "base", "timeout": 5.0, "beside": True,
                   "workspace": "-0.3 -0.3 -0.3 0.3 0.3 0.3"},
        "budget": 0.05, "method": "POST",
    }  # fmt: skip
    (folder / "request.json").write_text(json.dumps(request))
    form = httpx.Request(
        "POST", "http://127.0.0.1/v1/steps/pick/poses", data={"n": "2"},
        files=[("scene", ("scene.ply", (folder / "scene.ply").read_bytes()))],
    )  # fmt: skip
    (folder / "body.bin").write_bytes(form.read())
    (folder / "type.json").write_text(json.dumps({"content-type": form.headers["content-type"]}))


def _upload(folder: Path, *names: str) -> tuple[str, bytes]:
    """The first of some files that is still a file."""
    for name in names:
        path = folder / name
        if path.is_file():
            return name, path.read_bytes()[: 2**20]
    return names[0], b""


def _json(folder: Path, name: str) -> dict[str, Any]:
    """What a file of the case says, if it says anything."""
    try:
        value = json.loads(_upload(folder, name)[1])
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _bytes(value: Any) -> bytes:
    return _text(value).encode("utf-8", "replace")[:20_000]


def _calls(folder: Path) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path, and options for httpx, of all that is asked in a case."""
    asked = _json(folder, "request.json")
    given = asked.get("fields")
    fields = {
        _text(name)[:1000]: _bytes(value) for name, value in given.items()
    } if isinstance(given, dict) else {}  # fmt: skip
    cloud = [("scene", _upload(folder, "scene.ply"))]
    held = [("grasp", _upload(folder, "grasp.pcd"))]
    cameras = _upload(folder, "cameras.json")[1]
    images = [("scene_depth", _upload(folder, "depth.png", "depth.npy")),
              ("scene_color", _upload(folder, "color.png"))]  # fmt: skip
    arrays = [("scene_depth", _upload(folder, "depth.npy")), images[1]]
    plain = {"scene_cameras": cameras, "n": b"1"}
    poses = {"poses": _upload(folder, "poses.json")[1]}
    kind = _json(folder, "type.json").get("content-type")
    body = _upload(folder, "body.bin")[1]
    path = _text(asked.get("path"))[:2000]
    return [
        (_text(asked.get("method"))[:20], path, {"files": cloud, "data": fields}),
        ("POST", "/v1/steps/place/poses", {"files": [*cloud, *held], "data": {"n": b"1"}}),
        ("POST", "/v1/steps/pick/poses", {"files": [("scene", _upload(folder, "scene.npz"))]}),
        ("POST", "/v1/steps/pick/poses", {"files": images, "data": plain}),
        ("POST", "/v1/steps/pick/poses", {"files": arrays, "data": plain}),
        ("POST", "/v1/steps/pick/ratings", {"files": cloud, "data": poses}),
        ("POST", "/v1/steps/pick/poses",
         {"content": body, "headers": {"content-type": _bytes(kind)}}),
    ]  # fmt: skip


async def _ask(app: Any, method: str, path: str, options: dict[str, Any]) -> httpx.Response | None:
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        try:
            request = client.build_request(method, path, **options)
        except Exception:  # httpx cannot even say it
            return None
        return await client.send(request)


def _read(folder: Path) -> None:
    refusal = ""
    for method, path, options in _calls(folder):
        with contextlib.redirect_stderr(io.StringIO()) as told:
            answer = asyncio.run(_ask(_app(), method, path, options))
        if answer is None:
            continue
        if answer.status_code not in LISTED:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:300]}\n"
                                 f"{told.getvalue()[-1500:]}")  # fmt: skip
        if answer.status_code >= 400 and method != "HEAD":
            refusal = answer.json()["detail"]
            if not isinstance(refusal, str) or not refusal.strip() or len(refusal) > 3000:
                raise AssertionError(f"{method} {path}: refused without a sentence: {refusal!r}")
    if refusal:
        raise OptionError(refusal)


REQUESTS = {"service": Subject(_make, _read, 2.0, 40.0)}
