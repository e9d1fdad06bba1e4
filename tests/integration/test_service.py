"""`handful serve` from the outside: answers, hostile callers, lost workers, stops."""

import asyncio
import io
import json
import math
import os
import runpy
import signal
import socket
import struct
import sys
import threading
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from handful.client import (
    AsyncClient,
    Client,
    ConnectionLostError,
    DeadlineError,
    RefusedError,
    Retries,
    View,
)
from handful.clouds import Intrinsics, PointCloud, RgbdView, cloud_from_rgbd, write_cloud
from handful.demos import save_demos
from handful.learning import RunFolder
from handful.policy import LookAhead, Predictor, Verdict, remote_task, run_task
from samples import thin_sample
from service_process import Service, in_bytes, poses_of, service, small_run

pytest.importorskip("fastapi")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return small_run(tmp_path_factory.mktemp("runs") / "small")


@pytest.fixture(scope="module")
def running(run) -> Service:
    with service(run, "--max-megabytes", 2, "--max-points", 50_000, "--timeout", 10) as one:
        yield one


@pytest.fixture
def client(running) -> Client:
    with Client(running.url) as one:
        yield one


@pytest.fixture(scope="module")
def predictors(run) -> dict[str, Predictor]:
    return RunFolder(run).predictors()


def clouds_of(step: str) -> tuple[PointCloud, PointCloud | None]:
    shown = thin_sample()[0].step(step)
    return in_bytes(shown.scene), in_bytes(shown.grasp) if shown.action.holding else None


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["pick", "place"])
def test_answers_are_those_of_the_predictor(client, predictors, step):
    scene, grasp = clouds_of(step)
    ours = predictors[step].answer(scene, grasp, n=5, seed=4, frame="base", stamp=None)
    theirs = client.poses(step, scene, grasp, n=5, seed=4, frame="base")
    np.testing.assert_array_equal(poses_of(theirs), poses_of(ours))
    assert [one.reason for one in theirs.poses] == [one.reason for one in ours.poses]
    assert (theirs.chosen, theirs.frame, theirs.step) == (ours.chosen, "base", step)


@pytest.mark.parametrize("kind", ["array", "pair", "ply", "pcd", "npz", "object"])
def test_all_kinds_of_clouds_give_the_same_poses(client, kind, tmp_path):
    scene, _ = clouds_of("pick")
    want = client.poses("pick", scene, n=2)
    file = tmp_path / f"scene.{kind}"
    if kind in ("ply", "pcd", "npz"):
        write_cloud(scene, file)
    value = {
        "array": np.concatenate([scene.points, scene.colors], axis=1),
        "pair": (scene.points, np.rint(255 * scene.colors).astype(np.uint8)),
        "object": scene,
    }.get(kind, file)
    np.testing.assert_array_equal(poses_of(client.poses("pick", value, n=2)), poses_of(want))


def rgbd_view(seed: int) -> RgbdView:
    """A bumpy ground, seen from above by a small camera."""
    rng = np.random.default_rng(seed)
    depth = (0.5 + 0.02 * rng.random((48, 64))).astype(np.float32)
    depth[:3] = 0.0
    color = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
    T_scene_camera = np.diag([1.0, -1.0, -1.0, 1.0])
    T_scene_camera[:3, 3] = (0.02 * seed, 0.0, 0.5)
    return RgbdView(depth, color, Intrinsics(60.0, 61.0, 31.5, 23.5, 64, 48), T_scene_camera)


def as_view(view: RgbdView) -> View:
    camera = view.intrinsics
    return View(view.depth, view.T_scene_camera, camera.fx, camera.fy, camera.cx, camera.cy,
                view.color, distortion=camera.distortion)  # fmt: skip


def test_depth_images_are_the_cloud_that_they_show(client, predictors):
    views = [rgbd_view(0), rgbd_view(1)]
    ours = predictors["pick"].answer(cloud_from_rgbd(views), n=3)
    theirs = client.poses("pick", [as_view(view) for view in views], n=3)
    np.testing.assert_array_equal(poses_of(theirs), poses_of(ours))


def test_images_of_a_lens_are_straightened(client, predictors):
    view = rgbd_view(0)
    lens = replace(view.intrinsics, distortion=(0.2, -0.1, 0.002, -0.001, 0.02))
    bent = replace(view, intrinsics=lens)
    assert np.abs(cloud_from_rgbd(bent).points - cloud_from_rgbd(view).points).max() > 0.005
    ours = predictors["pick"].answer(cloud_from_rgbd(bent), n=3)
    theirs = client.poses("pick", as_view(bent), n=3)
    np.testing.assert_array_equal(poses_of(theirs), poses_of(ours))


def test_images_in_common_formats_are_read(running, predictors):
    view = rgbd_view(0)
    millimetres = np.rint(view.depth * 2000).astype(np.uint16)
    depth, color = io.BytesIO(), io.BytesIO()
    Image.fromarray(millimetres).save(depth, "PNG")
    Image.fromarray(view.color).save(color, "PNG")
    camera = as_view(view).described("T_scene_camera") | {"depth_scale": 0.0005}
    done = httpx.post(
        f"{running.url}/v1/steps/pick/poses",
        data={"scene_cameras": json.dumps([camera]), "n": "2"},
        files=[("scene_depth", ("d.png", depth.getvalue())),
               ("scene_color", ("c.png", color.getvalue()))],
    )  # fmt: skip
    assert done.status_code == 200, done.text
    rounded = RgbdView(millimetres * 0.0005, view.color, view.intrinsics, view.T_scene_camera)
    ours = predictors["pick"].answer(cloud_from_rgbd(rounded), n=2)
    got = [pose["T_scene_gripper"] for pose in done.json()["poses"]]
    np.testing.assert_array_equal(got, poses_of(ours))


def test_a_stream_is_followed(client, predictors):
    scene, _ = clouds_of("pick")
    with client.track("pick") as track:
        first = track.frame(scene, stamp=time.time(), timeout=10)
        second = track.frame(scene, stamp=time.time(), budget=5.0)
        assert first.tracking.whole
        alone = predictors["pick"].track(scene, None)
        np.testing.assert_array_equal(first.poses[0].T_scene_gripper, alone.T_scene_gripper[0])
        assert second.poses[0].energy <= first.poses[0].energy + 1.0
        with pytest.raises(RefusedError, match="not after that of the last frame"):
            track.frame(scene, stamp=time.time() - 3)
    with pytest.raises(RefusedError, match="no such stream"):
        track.frame(scene)
    track.end()  # once more is fine


def test_a_task_runs_on_remote_predictors_as_on_those_in_process(client, predictors):
    demos = thin_sample()

    class Recorded:
        """Sees what was recorded; can reach every third pose."""

        gripper = demos.gripper

        def __init__(self) -> None:
            self.asked, self.went = 0, []

        def observe_scene(self):
            return clouds_of("pick")[0]

        def observe_grasp(self):
            return clouds_of("place")[1]

        def reach(self, step, T_scene_gripper):
            self.asked += 1
            return Verdict(self.asked % 3 == 0, "every third")

        def execute(self, step, motion):
            self.went.append(motion.T_scene_gripper)
            return Verdict(True)

    here, there = Recorded(), Recorded()
    task, remote = remote_task(client, demos.gripper)
    assert task == demos.task
    options = {"samples": 20, "least_confidence": 0.0, "look_ahead": LookAhead(math.inf, 2)}
    ours = run_task(here, task, predictors, **options)
    theirs = run_task(there, task, remote, **options)
    assert [one.ok for one in theirs] == [one.ok for one in ours]
    np.testing.assert_array_equal(there.went, here.went)
    assert there.asked == here.asked


def test_the_awaited_client_gives_the_same(running, client):
    scene, grasp = clouds_of("place")

    async def ask():
        async with AsyncClient(running.url) as one:
            assert (await one.health())["status"] == "ok"
            assert (await one.tasks())[0]["run"] == "small"
            many = await asyncio.gather(
                *(one.poses("place", scene, grasp, n=2, seed=3) for _ in range(4))
            )
            rated = await one.rate("place", poses_of(many[0]), scene, grasp)
            async with await one.track("pick") as track:
                followed = await track.frame(clouds_of("pick")[0], timeout=10)
            return many, rated, followed

    many, rated, followed = asyncio.run(ask())
    want = client.poses("place", scene, grasp, n=2, seed=3)
    for one in many:
        np.testing.assert_array_equal(poses_of(one), poses_of(want))
    np.testing.assert_allclose(
        sorted(pose.energy for pose in rated.poses),
        sorted(pose.energy for pose in want.poses), rtol=1e-4,
    )  # fmt: skip
    assert followed.tracking.whole


def run_example(name: str, monkeypatch, capsys, *words: object) -> str:
    """What an example prints; it runs in this process, which has loaded its libraries."""
    monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_the_example_of_a_camera_follows_its_target(running, monkeypatch, capsys):
    told = run_example(
        "camera_loop.py", monkeypatch, capsys, "--url", running.url, "--step", "pick", "--frames", 2
    )
    assert [line.split(":")[0] for line in told.splitlines()] == ["0", "1"]
    assert "skipped" not in told


def test_the_example_of_a_robot_goes_through_its_task(running, monkeypatch, capsys, tmp_path):
    folder = save_demos(thin_sample(), tmp_path / "demos")
    words = ("--url", running.url, "--folder", folder, "--least-confidence", 0)
    told = run_example("own_robot.py", monkeypatch, capsys, *words)
    assert "pick done" in told or "pick given up: " in told
    assert ("T_scene_retreat" in told) == ("pick done" in told)


# --- hostile callers --------------------------------------------------------------------------


def bomb_npz() -> bytes:
    """A zip of a few kilobytes that says it holds a billion points, and would unpack to them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 3), }"
        header = header.ljust(118) + b"\n"
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
        archive.writestr("points.npy", start + b"\0" * 1_000_000)
    return out.getvalue()


def bomb_png(width: int = 60_000, height: int = 60_000) -> bytes:
    """A PNG of a few bytes that says it is 60,000 pixels wide and high."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )  # fmt: skip


def camera_json(**changes) -> str:
    return json.dumps([as_view(rgbd_view(0)).described("T_scene_camera") | changes])


PLY = b"ply\nformat binary_little_endian 1.0\nelement vertex 40000\n" + b"".join(
    b"property float %c\n" % axis for axis in b"xyz"
)


@pytest.mark.parametrize(
    ("status", "told", "files", "data"),
    [
        (422, "scene is missing", [], {}),
        (422, "points: at most 50000", [("scene", ("x.npz", bomb_npz()))], {}),
        (422, "truncated or", [("scene", ("x.ply", PLY + b"end_header\n"))], {}),
        (422, "starts with", [("scene", ("x.ply", b"\x00" * 500))], {}),
        (422, "the file is empty", [("scene", ("x.ply", b""))], {}),
        (422, "extension", [("scene", ("../../etc/passwd", b"root"))], {}),
        (422, "is no whole PNG image", [("scene_depth", ("d.png", bomb_png(64, 48)))],
         {"scene_cameras": camera_json()}),
        (422, "its camera says 64 x 48", [("scene_depth", ("d.png", bomb_png(640, 480)))],
         {"scene_cameras": camera_json()}),
        (422, "at most 50000 pixels", [("scene_depth", ("d.png", bomb_png()))],
         {"scene_cameras": camera_json(width=60_000, height=60_000)}),
        (422, "not a numpy array", [("scene_depth", ("d.npy", b"\x93NUMPY\x09\x00"))],
         {"scene_cameras": camera_json()}),
        (422, "need as many of each", [("scene_depth", ("d.png", b""))], {"scene_cameras": "[]"}),
        (422, "not valid JSON", [("scene_depth", ("d.png", b""))], {"scene_cameras": "{"}),
        (422, "nested too deeply", [("scene_depth", ("d.png", b""))],
         {"scene_cameras": "[" * 15_000}),
        (422, "field 'fx'", [("scene_depth", ("d.png", b""))],
         {"scene_cameras": camera_json(fx="wide")}),
        (422, "distortion [k1, k2, p1, p2, k3]", [("scene_depth", ("d.png", b""))],
         {"scene_cameras": camera_json(distortion=[0.1, 0.2])}),
        (422, "folds the image", [("scene_depth", ("d.png", b""))],
         {"scene_cameras": camera_json(distortion=[-9.0, 0, 0, 0, 0])}),
        (422, "T_scene_camera", [("scene_depth", ("d.png", bomb_png(64, 48)))],
         {"scene_cameras": camera_json(T_scene_camera=[[1, 2], [3]])}),
        (422, "one of the two", [("scene", ("x.ply", b"")), ("scene_depth", ("d.png", b""))], {}),
        (422, "seed: Input should be", [("scene", ("x.ply", b""))], {"seed": "-1"}),
        (422, "stamp: Input should be", [("scene", ("x.ply", b""))], {"stamp": "nan"}),
        (422, "lower < upper", [("scene", ("x.ply", b""))], {"workspace": "1 1 1 0 0 0"}),
        (409, "s old", [("scene", ("x.ply", b""))], {"stamp": "12.5"}),
        (409, "in the future", [("scene", ("x.ply", b""))], {"stamp": "99999999999"}),
        (413, "larger than 2097152 bytes", [("scene", ("x.ply", b"\0" * 2_100_000))], {}),
    ],
)  # fmt: skip
def test_hostile_uploads_get_one_sentence(running, status, told, files, data):
    done = httpx.post(f"{running.url}/v1/steps/pick/poses", files=files or None, data=data)
    assert done.status_code == status, done.text
    assert told in done.json()["detail"]
    assert list(done.json()) == ["detail"]


def test_a_body_without_length_is_cut_off_when_it_is_too_large(running):
    def endless():
        yield b'--x\r\nContent-Disposition: form-data; name="scene"; filename="a.ply"\r\n\r\n'
        for _ in range(200):
            yield b"\0" * 65_536

    headers = {"content-type": "multipart/form-data; boundary=x"}
    try:
        done = httpx.post(f"{running.url}/v1/steps/pick/poses", content=endless(), headers=headers)
    except (httpx.WriteError, httpx.ReadError):  # it was cut off while we were writing
        return
    assert done.status_code == 413


def test_an_upload_that_breaks_off_leaves_the_service_well(running, client):
    head = (
        b"POST /v1/steps/pick/poses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
    )
    address = running.url.removeprefix("http://").split(":")
    for _ in range(5):
        with socket.create_connection((address[0], int(address[1]))) as connection:
            connection.sendall(head)
    assert client.health()["status"] == "ok"
    assert client.poses("pick", clouds_of("pick")[0], n=1).step == "pick"


def test_work_ends_when_the_caller_has_gone(running, client):
    """A job that takes seconds is given up, and the worker keeps its models."""
    before = figures(running)
    scene, _ = clouds_of("pick")
    with pytest.raises(DeadlineError):
        client.poses("pick", scene, n=1000, timeout=0.1)
    end = time.monotonic() + 10
    while figures(running)["handful_workers_cancelled"] == before["handful_workers_cancelled"]:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert client.poses("pick", scene, n=1).step == "pick"
    assert figures(running)["handful_workers_restarts"] == before["handful_workers_restarts"]


def figures(running: Service) -> dict[str, float]:
    lines = httpx.get(f"{running.url}/metrics").text.splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in rows}


def test_figures_tell_requests_times_workers_and_memory(running, client):
    client.poses("pick", clouds_of("pick")[0], n=1)
    told = figures(running)
    assert told['handful_requests_total{route="/v1/steps/{step}/poses",status="200"}'] >= 1
    assert told['handful_inference_seconds_count{step="pick"}'] >= 1
    assert told["handful_workers_ready"] == 1
    assert told["handful_workers_memory_bytes"] > 10e6


# --- ends -------------------------------------------------------------------------------------


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.parent.name))
    return found


def descendants_of(pid: int) -> list[int]:
    return [one for child in children_of(pid) for one in (child, *descendants_of(child))]


def test_killed_workers_are_replaced_and_a_killed_service_starts_again(run):
    scene, _ = clouds_of("pick")
    first = Service(run)
    try:
        client = Client(first.url, timeout=60, retries=Retries(most=50, longest=0.5))
        want = poses_of(client.poses("pick", scene, n=2))
        everyone = descendants_of(first.process.pid)
        worker = max(everyone)  # the youngest
        os.kill(worker, signal.SIGKILL)
        np.testing.assert_array_equal(poses_of(client.poses("pick", scene, n=2)), want)
        assert figures(first)["handful_workers_restarts"] == 1
        everyone += descendants_of(first.process.pid)
    finally:
        first.end()
    with pytest.raises(ConnectionLostError, match="does `handful serve` run"):
        Client(first.url, retries=Retries(most=1)).health()
    end = time.monotonic() + 10
    while any(is_running(pid) for pid in everyone):  # nothing stays behind
        assert time.monotonic() < end
        time.sleep(0.05)
    second = Service(run, "--port", first.url.rsplit(":", 1)[1])
    try:
        np.testing.assert_array_equal(poses_of(client.poses("pick", scene, n=2)), want)
        # Told to stop, it finishes what it has begun, and ends well.
        found = []
        asking = threading.Thread(
            target=lambda: found.append(client.poses("pick", scene, n=1000, timeout=20))
        )
        asking.start()
        while figures(second)["handful_workers_busy"] == 0 and asking.is_alive():
            time.sleep(0.01)
        assert second.stop() == 0
        asking.join()
        assert len(found) == 1
    finally:
        second.end()
    assert second.problems == []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
