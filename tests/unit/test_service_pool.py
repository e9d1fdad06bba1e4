"""Workers of the service: deadlines, cancellation, queues, and workers that die."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("fastapi")

from handful.apps.service import LocalPool, ServiceConfig
from handful.apps.service import _pool as pool_module
from handful.apps.service._jobs import Message
from handful.apps.service._pool import BusyError, LateError, LostError
from handful.errors import FileFormatError
from stub_worker import work


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch):
    monkeypatch.setattr(pool_module, "GRACE", 0.5)


@asynccontextmanager
async def pool(**options):
    one = LocalPool(ServiceConfig("somewhere", **options), work, preload=())
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


async def ask(one: LocalPool, seconds: float = 20.0, **job) -> int:
    done = await one.do(Message(job), time.monotonic() + seconds)
    return json.loads(done.blobs[0])["pid"]


def test_jobs_are_done_and_messages_survive_the_pipe():
    blobs = (b"", b"\x00\xff" * 1000, b"x")
    message = Message({"a": [1, None, "ü"]}, blobs)
    assert Message.decoded(message.encoded()) == message

    async def main():
        async with pool(workers=2) as one:
            pids = await asyncio.gather(*(ask(one, sleep=0.05) for _ in range(6)))
            assert len(set(pids)) == 2
            assert one.figures()["ready"] == 2
            assert one.figures()["memory"] > 0

    asyncio.run(main())


def test_a_late_job_is_ended_and_its_worker_stays():
    async def main():
        async with pool() as one:
            before = await ask(one)
            with pytest.raises(LateError):
                await ask(one, 0.1, sleep=30.0)
            assert await ask(one) == before
            assert one.figures()["cancelled"] == 1
            assert one.figures()["restarts"] == 0

    asyncio.run(main())


def test_a_job_that_nobody_waits_for_is_ended():
    async def main():
        async with pool() as one:
            before = await ask(one)
            asked = asyncio.ensure_future(ask(one, sleep=30.0))
            await asyncio.sleep(0.2)
            asked.cancel()
            start = time.monotonic()
            assert await ask(one) == before
            assert time.monotonic() - start < 5.0
            assert one.figures()["cancelled"] == 1

    asyncio.run(main())


def test_a_worker_that_does_not_hear_is_replaced():
    async def main():
        async with pool() as one:
            before = await ask(one)
            with pytest.raises(LateError):
                await ask(one, 0.2, deaf=True)
            assert await ask(one) != before
            assert one.figures()["restarts"] == 1

    asyncio.run(main())


def test_a_worker_that_dies_is_told_and_replaced():
    async def main():
        async with pool() as one:
            before = await ask(one)
            with pytest.raises(LostError):
                await ask(one, die=True)
            assert await ask(one) != before

    asyncio.run(main())


def test_a_full_queue_refuses_and_a_waiting_job_can_be_late():
    async def main():
        async with pool(queue=1) as one:
            first = asyncio.ensure_future(ask(one, sleep=0.6))
            await asyncio.sleep(0.1)
            second = asyncio.ensure_future(ask(one, 0.2))
            await asyncio.sleep(0.05)
            with pytest.raises(BusyError):
                await ask(one)
            with pytest.raises(LateError):
                await second
            assert await first
            assert await ask(one)

    asyncio.run(main())


def test_a_run_that_cannot_be_served_is_one_sentence():
    async def main():
        one = LocalPool(ServiceConfig("nowhere"), work, preload=())
        with pytest.raises(FileFormatError, match="there is no such folder"):
            await one.start()
        await one.stop()

    asyncio.run(main())
