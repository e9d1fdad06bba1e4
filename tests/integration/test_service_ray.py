"""`handful serve --ray` on a local cluster of two nodes: the same answers at the same address."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("ray.serve", exc_type=ImportError)

from command_line import run_process
from handful.client import Client, ConnectionLostError, DeadlineError, Retries
from handful.learning import RunFolder
from ray_cluster import two_nodes
from samples import thin_sample
from service_process import Service, in_bytes, poses_of, small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("served") / "run")


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as address:
        yield address


def replicas_of(served: Service) -> list[int]:
    """Processes of Ray that are replicas of this service, which is named after its process."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if f"ServeReplica:handful-{served.process.pid}:".encode() in file.read():
                    found.append(int(pid))
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.slow(seconds=60)
def test_replicas_give_the_same_answers_are_replaced_and_go(run, cluster):
    scene = in_bytes(thin_sample()[0].step("pick").scene)
    want = poses_of(RunFolder(run).predictor("pick").answer(scene, n=2))
    served = Service(run, "--ray", cluster, "--workers", 2, "--timeout", 60)
    try:
        assert len(replicas_of(served)) == 2
        with socket.socket() as port:  # callers come through our guard, and Ray's proxy is off
            assert port.connect_ex(("127.0.0.1", 8000)) != 0
        with Client(served.url, timeout=120.0, retries=Retries(most=100)) as client:
            assert client.health()["workers"] == 2
            with ThreadPoolExecutor(4) as threads:
                answers = list(threads.map(lambda _: client.poses("pick", scene, n=2), range(12)))
            with client.track("pick") as track:  # its state is at the front: any replica will do
                frames = [track.frame(scene, stamp=time.time()) for _ in range(3)]
            assert [len(frame.poses) for frame in frames] == [1, 1, 1]
            with (
                Client(served.url, timeout=0.1, retries=Retries(most=0)) as impatient,
                pytest.raises((DeadlineError, ConnectionLostError)),
            ):
                impatient.poses("pick", scene, n=1000)
            os.kill(replicas_of(served)[0], signal.SIGKILL)
            answers += [client.poses("pick", scene, n=2) for _ in range(4)]
            for answer in answers:
                np.testing.assert_array_equal(poses_of(answer), want)
            end = time.monotonic() + 120.0
            while len(replicas_of(served)) < 2 and time.monotonic() < end:
                time.sleep(0.2)
            assert len(replicas_of(served)) == 2
        assert served.stop(signal.SIGTERM) == 0, served.problems
    finally:
        served.end()
    assert replicas_of(served) == []


def test_what_cannot_be_served_on_ray_is_one_sentence(run, tmp_path):
    for folder, cluster, status, told in (
        (tmp_path / "none", "auto", 1, "there is no such folder"),
        (run, "127.0.0.1:1", 1, "no Ray cluster answers at '127.0.0.1:1'"),
    ):
        done = run_process("serve", folder, "--port", 0, "--ray", cluster)
        assert (done.returncode, told in done.stderr) == (status, True), done.stderr
        assert "Traceback" not in done.stderr
