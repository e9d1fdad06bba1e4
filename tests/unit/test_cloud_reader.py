"""Foreign cloud files, read by another process within limits of time and memory."""

import io
import resource
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from handful.clouds import CloudReader, PointCloud, write_cloud
from handful.errors import HandfulError

POINTS = np.random.default_rng(0).uniform(size=(50, 3)).astype(np.float32)
COLORS = np.rint(255 * POINTS).astype(np.uint8)


@pytest.fixture(scope="module")
def reader() -> Iterator[CloudReader]:
    one = CloudReader(max_points=5_000_000, seconds=4)
    yield one
    one.close()


def packed_pcd(points: int, copies: bool) -> bytes:
    """A compressed PCD file of rows of 60,000 bytes.

    Args:
        points: How many rows.
        copies: It unpacks to 88 times its size; otherwise to half of it, byte by byte.
    """
    header = (
        "VERSION 0.7\nFIELDS x y z _\nSIZE 4 4 4 1\nTYPE F F F U\nCOUNT 1 1 1 59988\n"
        f"WIDTH {points}\nHEIGHT 1\nPOINTS {points}\nDATA binary_compressed\n"
    )
    plain = 60_000 * points
    count, rest = divmod(plain - 1, 264) if copies else (0, plain - 1)
    body = b"\x00\x00" + b"\xe0\xff\x00" * count + b"\x00\x00" * rest
    return header.encode() + struct.pack("<II", len(body), plain) + body


def zip_bomb() -> bytes:
    """An NPZ file of a megabyte that unpacks to a gigabyte."""
    content, header = io.BytesIO(), io.BytesIO()
    meant = {"descr": "<f4", "fortran_order": False, "shape": (80_000_000, 3)}
    np.lib.format.write_array_header_1_0(header, meant)
    with (
        zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("points.npy", "w") as entry,
    ):
        entry.write(header.getvalue())
        for _ in range(960):
            entry.write(bytes(1_000_000))
    return content.getvalue()


@pytest.mark.slow(seconds=15)
def test_a_cloud_comes_through_unchanged(reader: CloudReader, tmp_path: Path):
    write_cloud(PointCloud(POINTS, COLORS), tmp_path / "it.pcd")
    found = reader.read(tmp_path / "it.pcd")
    assert np.array_equal(found.points, POINTS)
    assert np.array_equal(np.rint(255 * found.require_colors()), COLORS)
    write_cloud(PointCloud(POINTS), tmp_path / "it.ply")
    bare = reader.read_bytes((tmp_path / "it.ply").read_bytes(), "it.ply")
    assert np.array_equal(bare.points, POINTS)
    assert bare.colors is None


@pytest.mark.slow(seconds=10)
def test_what_is_no_cloud_is_told_in_the_readers_own_sentence(reader: CloudReader, tmp_path: Path):
    with pytest.raises(HandfulError, match=r"^it\.ply: the file starts with"):
        reader.read_bytes(b"this is no cloud", "it.ply")
    with pytest.raises(HandfulError, match=r"nothing\.ply: there is no such file"):
        reader.read(tmp_path / "nothing.ply")


@pytest.mark.slow(seconds=25)
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (zip_bomb, "at most 5000000|MiB of memory"),
        (lambda: packed_pcd(33_000, copies=True), "memory"),
        (lambda: packed_pcd(600, copies=False), "too much time"),
    ],
    ids=["zip", "memory", "time"],
)
def test_a_file_that_takes_too_much_is_given_up(reader: CloudReader, make, why: str):
    content = make()
    name = "it.npz" if content.startswith(b"PK") else "it.pcd"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(HandfulError, match=why):
        reader.read_bytes(content, name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2_000_000


@pytest.mark.slow(seconds=5)
def test_a_closed_reader_leaves_no_process():
    one = CloudReader(max_points=10)
    one.close()
    assert one._process.returncode is not None
    with pytest.raises(HandfulError, match=r"it\.ply"):
        one.read_bytes(b"x", "it.ply")
