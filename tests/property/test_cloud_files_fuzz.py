"""Laws of cloud files: round trips, and a cloud or a `HandfulError` out of any bytes at all."""

import re
import struct
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from handful.clouds import PointCloud
from handful.clouds.files import read_cloud, write_cloud
from handful.clouds.files._lzf import MAX_EXPANSION, LzfError, lzf_compress, lzf_decompress
from handful.errors import HandfulError

ENCODINGS = [
    (".ply", "binary"),
    (".ply", "binary_big_endian"),
    (".ply", "ascii"),
    (".pcd", "binary"),
    (".pcd", "ascii"),
    (".pcd", "binary_compressed"),
    (".npz", "binary"),
    (".npz", "binary_compressed"),
]
MAGIC = {
    ".ply": b"ply\nformat ascii 1.0\nelement vertex 2\n",
    ".pcd": b"VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\n",
    ".npz": b"PK\x03\x04",
}
MESH = (
    b"ply\nformat binary_little_endian 1.0\nelement face 2\n"
    b"property list uchar int vertex_indices\nelement vertex 2\nproperty float x\n"
    b"property float y\nproperty list char ushort tags\nproperty float z\n"
    b"property ushort red\nproperty ushort green\nproperty ushort blue\nend_header\n"
    + struct.pack("<B3iBi", 3, 0, 1, 2, 1, 0)
    + struct.pack("<ffbHf3H", 0.5, 0.25, 1, 77, 1.0, 65535, 0, 257)
    + struct.pack("<ffbf3H", -0.5, 0.25, 0, 1.0, 1, 2, 3)
)
TEXT_MESH = (
    b"ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int i\nelement vertex 2\n"
    b"property list uchar int i\nproperty float x\nproperty double y\nproperty int z\nend_header\n"
    b"3 0 1 2\n1 5 0 0 0\n0 0.5 1e-3 1\n"
)
ORGANISED = (
    b"# .PCD v.7\nVERSION .7\nFIELDS x y z rgb _ h\nSIZE 4 4 4 4 1 4\nTYPE F F F F U F\n"
    b"COUNT 1 1 1 1 4 2\nWIDTH 3\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 3\nDATA ascii\n"
    b"0 0 0 4.2108e+06 1 2 3 4 5 6\n.5 nan 1 -2e38 1 2 3 4 5 6\n.5 0 1 4.21e6 1 2 3 4 5 6\n"
)
WORDS = [b"-1", b"nan", b"inf", b"1e309", b"0", b"1", b"2", b"3", b"4294967296", b"9" * 18,
         b"9" * 60, b"1000000000", b"x", b"list", b"\x00", b"\xff", b"", b"\n", b" ", b"float",
         b"1_0", b"0x10", b"\xe9", b"\x1c", b"\r"]  # fmt: skip
GARBAGE_LIMIT = 20e6


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def outcome(folder: Path, extension: str, data: bytes) -> PointCloud | HandfulError:
    """What comes of reading some bytes; anything else than these two fails the test."""
    path = folder / f"fuzz{extension}"
    path.write_bytes(data)
    try:
        return read_cloud(path)
    except HandfulError as error:
        if str(path) not in str(error):
            raise
        return error


def samples() -> list[tuple[str, bytes]]:
    """One small file of each encoding with colours, and some that others write."""
    points = np.array([[0, 0.5, -1], [1e-3, 0.25, 3], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3]])
    cloud = PointCloud(points, np.array([[255, 0, 1], [2, 3, 200], [9, 9, 9], [9, 9, 9]]))
    files = [(".ply", MESH), (".ply", TEXT_MESH), (".pcd", ORGANISED)]
    with tempfile.TemporaryDirectory() as name:
        for extension, encoding in ENCODINGS:
            path = Path(name) / f"a{extension}"
            write_cloud(cloud, path, encoding=encoding)
            files.append((extension, path.read_bytes()))
    return files


SAMPLES = samples()
sample_files = st.sampled_from(SAMPLES)


# --- round trips ---------------------------------------------------------------------------------


@st.composite
def clouds(draw: st.DrawFn) -> PointCloud:
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    count = draw(st.integers(2, 12))
    width = 32 if dtype == np.float32 else 64
    points = draw(
        npst.arrays(dtype, (count, 3), elements=st.floats(-9, 9, width=width, allow_nan=False))
    )
    points = np.vstack([points, np.eye(3, dtype=dtype)])
    if not draw(st.booleans()):
        return PointCloud(points, dtype=dtype)
    colors = draw(npst.arrays(np.uint8, (count + 3, 3)))
    return PointCloud(points, colors, dtype=dtype)


@settings(max_examples=60)
@given(cloud=clouds(), how=st.sampled_from(ENCODINGS))
def test_round_trip_keeps_every_bit(folder, cloud, how):
    extension, encoding = how
    dtype = cloud.points.dtype.type
    path = folder / f"round{extension}"
    write_cloud(cloud, path, encoding=encoding)
    written = path.read_bytes()
    back = read_cloud(path, dtype=dtype)
    assert back.points.tobytes() == cloud.points.tobytes()
    assert back.has_colors == cloud.has_colors
    assert not cloud.has_colors or (back.colors == cloud.colors).all()
    write_cloud(back, path, encoding=encoding)
    assert path.read_bytes() == written


# --- LZF -----------------------------------------------------------------------------------------


def slow_lzf(stream: bytes) -> bytes:
    """The format byte by byte, as its definition reads."""
    out: list[int] = []
    data = iter(stream)
    for control in data:
        if control < 32:
            out += [next(data) for _ in range(control + 1)]
            continue
        length = control >> 5
        if length == 7:
            length += next(data)
        distance = (control % 32) * 256 + next(data) + 1
        for _ in range(length + 2):
            out.append(out[len(out) - distance])
    return bytes(out)


repetitive = st.lists(
    st.tuples(st.binary(min_size=1, max_size=12), st.integers(1, 300)), max_size=8
).map(lambda parts: b"".join(piece * times for piece, times in parts))


@settings(max_examples=100)
@given(st.one_of(st.binary(max_size=400), repetitive))
def test_lzf_round_trip_and_reference(data):
    stream = lzf_compress(data)
    assert lzf_decompress(stream, len(data)) == data == slow_lzf(stream)
    assert len(data) <= len(stream) * MAX_EXPANSION
    assert len(stream) <= len(data) + len(data) // 32 + 1


def test_lzf_across_blocks_and_the_whole_window(monkeypatch):
    """Repeats at the edge of reach, and over the seam between two searched pieces."""
    monkeypatch.setattr("handful.clouds.files._lzf._BLOCK", 1000)
    noise = np.random.default_rng(0).integers(0, 256, 9000, dtype=np.uint8).tobytes()
    for distance in (8190, 8191, 8192, 8193):
        data = noise[:distance] + noise[:distance]
        assert slow_lzf(lzf_compress(data)) == data
    near, far = (len(lzf_compress(noise[:n] * 2)) for n in (8192, 8193))
    assert near < far - 7000


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 3000))
def test_lzf_of_random_bytes_agrees_with_the_reference_or_fails(stream, size):
    try:
        found = lzf_decompress(stream, size)
    except LzfError:
        return
    assert found == slow_lzf(stream)


# --- any bytes at all ----------------------------------------------------------------------------


@pytest.mark.parametrize(("extension", "data"), SAMPLES)
def test_truncation_everywhere(folder, extension, data):
    assert isinstance(outcome(folder, extension, data), PointCloud)
    for length in range(len(data)):
        outcome(folder, extension, data[:length])


@pytest.mark.parametrize(("extension", "data"), SAMPLES)
def test_one_wrong_byte_everywhere(folder, extension, data):
    for at in range(len(data)):
        flip = 1 << (at * 5 % 8)
        outcome(folder, extension, data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :])


@settings(max_examples=300)
@given(
    file=sample_files,
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.binary(max_size=6), st.integers(0, 8)), max_size=6
    ),
)
def test_random_edits(folder, file, edits):
    extension, data = file
    for place, new, removed in edits:
        at = int(place * len(data))
        data = data[:at] + new + data[at + removed :]
    outcome(folder, extension, data)


@settings(max_examples=300)
@given(
    file=sample_files, swaps=st.lists(st.tuples(st.integers(0), st.sampled_from(WORDS)), max_size=3)
)
def test_words_replaced_by_nasty_ones(folder, file, swaps):
    extension, data = file
    for index, word in swaps:
        parts = re.split(rb"([ \n])", data)
        parts[index % len(parts)] = word
        data = b"".join(parts)
    outcome(folder, extension, data)


@settings(max_examples=150)
@given(extension=st.sampled_from(sorted(MAGIC)), tail=st.binary(max_size=200))
def test_random_bytes_after_the_magic(folder, extension, tail):
    outcome(folder, extension, MAGIC[extension] + tail)


@settings(max_examples=60)
@given(file=sample_files, digits=st.integers(10**6, 10**30), index=st.integers(0))
def test_huge_numbers_take_no_memory(folder, file, digits, index):
    extension, data = file
    numbers = list(re.finditer(rb"[0-9]+", data))
    number = numbers[index % len(numbers)]
    big = data[: number.start()] + str(digits).encode() + data[number.end() :]
    tracemalloc.start()
    try:
        outcome(folder, extension, big)
        assert tracemalloc.get_traced_memory()[1] < GARBAGE_LIMIT
    finally:
        tracemalloc.stop()
