"""Bad cloud files: each is refused with its own sentence, in bounded memory, and nothing runs."""

import io
import os
import pickle
import re
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from handful.clouds import PointCloud
from handful.clouds.files import read_cloud, write_cloud
from handful.errors import EmptyCloudError, FileFormatError, NonFiniteCloudError, UnsafeFileError

F3 = "property float x\nproperty float y\nproperty float z\n"
LE = "format binary_little_endian 1.0\n"
ASCII = "format ascii 1.0\n"
ROWS = "0 0 0\n1 0 0\n0 1 0\n"


def ply(head: str, body: bytes | str = b"") -> bytes:
    tail = body.encode() if isinstance(body, str) else body
    return f"ply\n{head}end_header\n".encode() + tail


def text_ply(rows: bytes | str) -> bytes:
    return ply(ASCII + "element vertex 3\n" + F3, rows)


def binary_ply(rows: bytes) -> bytes:
    return ply(LE + "element vertex 3\n" + F3, rows)


def pcd(body: bytes | str = b"", **changed: str | None) -> bytes:
    """A PCD file with some header lines changed, or left out when None."""
    lines: dict[str, str | None] = {
        "VERSION": "0.7", "FIELDS": "x y z", "SIZE": "4 4 4", "TYPE": "F F F", "COUNT": "1 1 1",
        "WIDTH": "3", "HEIGHT": "1", "POINTS": "3", "DATA": "ascii",
    }  # fmt: skip
    lines.update(changed)
    head = "".join(f"{key} {value}\n" for key, value in lines.items() if value is not None)
    return head.encode() + (body.encode() if isinstance(body, str) else body)


def packed(stream: bytes, plain: int = 36, size: int | None = None) -> bytes:
    sizes = struct.pack("<II", len(stream) if size is None else size, plain)
    return pcd(sizes + stream, DATA="binary_compressed")


def npz(method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def npy(descr: str = "'<f4'", shape: str = "(3, 3)", body: bytes = bytes(36)) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("pickle-ran",)


def object_array() -> bytes:
    return npy("'|O'", "(3, 3)", pickle.dumps(Bomb()))


def damaged(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


BAD = {
    # --- any format
    "empty file": ("a.ply", b"", "the file is empty"),
    "unknown extension": ("a.xyz", b"0 0 0", r"'.xyz' is not .*: need .ply, .pcd, .npz"),
    "no extension": ("a", b"0 0 0", r"extension '' is not .*: need .ply, .pcd, .npz"),
    "PLY named PCD": ("a.pcd", ply(ASCII), r"starts like a .ply file: rename"),
    "picture named PLY": ("a.ply", b"\x89PNG\r\n\x1a\n", r"starts with b'.x89PNG.*need one of"),
    # --- PLY header
    "PLY header cut": ("a.ply", b"ply\nformat ascii 1.0\n", "file ends before 'end_header'"),
    "PLY header without end": (
        "a.ply",
        b"ply\n" + b"comment a\n" * 2000,
        "in the first 1000 lines",
    ),
    "PLY header of one line": ("a.ply", b"ply\n" + b"c" * 10**6, "in the first 65536 bytes"),
    "PLY without format": ("a.ply", ply("element vertex 3\n"), "no 'format' line"),
    "PLY of unknown format": ("a.ply", ply("format binari 1.0\n"), "unknown PLY format 'binari'"),
    "PLY of version 2": (
        "a.ply",
        ply("format ascii 2.0\n"),
        "line 2 is 'format ascii 2.0': need one 'format",
    ),
    "PLY unknown line": ("a.ply", ply(ASCII + "elephant\n"), "line 3 is 'elephant': need"),
    "PLY property first": ("a.ply", ply(ASCII + "property float x\n"), "line 3 is .*: need one"),
    "PLY odd property": (
        "a.ply",
        ply(ASCII + "element vertex 3\nproperty x\n"),
        "property 'x': need",
    ),
    "PLY unknown type": (
        "a.ply",
        ply(ASCII + "element vertex 3\nproperty flaot x\n"),
        "unknown PLY type 'flaot'. Did you mean 'float'",
    ),
    "PLY without vertices": ("a.ply", ply(ASCII + "element face 0\n"), "need one element 'vertex'"),
    "PLY vertices twice": (
        "a.ply",
        ply(ASCII + "element vertex 3\n" * 2),
        "need one element 'vertex'",
    ),
    "PLY without z": (
        "a.ply",
        ply(ASCII + "element vertex 3\n" + F3[:-2] + "w\n"),
        "no vertex property 'z'",
    ),
    "PLY x is a list": (
        "a.ply",
        ply(LE + "element vertex 3\n" + F3.replace("float x", "list char int x")),
        "no scalar vertex property 'x'",
    ),
    "PLY x twice": ("a.ply", ply(ASCII + "element vertex 3\n" + F3 * 2), "'x' is there 2 times"),
    "PLY negative count": (
        "a.ply",
        ply(ASCII + "element vertex -3\n" + F3),
        "rows is '-3': need a whole",
    ),
    "PLY NaN count": (
        "a.ply",
        ply(ASCII + "element vertex nan\n" + F3),
        "rows is 'nan': need a whole",
    ),
    "PLY count overflow": (
        "a.ply",
        ply(ASCII + "element vertex " + "9" * 40 + "\n" + F3),
        "need a whole number",
    ),
    "PLY float list length": (
        "a.ply",
        ply(LE + "element face 1\nproperty list float int i\n"),
        "length of type float: need an integer",
    ),
    # --- PLY rows
    "PLY claims 10^9 points": (
        "a.ply",
        ply(LE + "element vertex 1000000000\n" + F3, bytes(900)),
        "1000000000 points: at most 20000000",
    ),
    "PLY claims 10^7 points": (
        "a.ply",
        ply(LE + "element vertex 10000000\n" + F3, bytes(900)),
        "10000000 vertex rows of at least 12 bytes, 120000000 in all, and 900",
    ),
    "PLY text claims 10^7": (
        "a.ply",
        ply(ASCII + "element vertex 10000000\n" + F3, ROWS),
        "and 18 bytes follow",
    ),
    "PLY binary cut": ("a.ply", binary_ply(bytes(35)), "36 in all, and 35 bytes"),
    "PLY text cut": ("a.ply", text_ply("0 0 0\n1.0001 0.0001 1\n"), "3 vertex rows and 2 follow"),
    "PLY text short row": (
        "a.ply",
        text_ply("0 0 0\n1 0\n0 1 0 4\n"),
        "vertex row 2 is '1 0': need 3 numbers",
    ),
    "PLY text long row": ("a.ply", text_ply("0 0 0 0\n" * 3), "row 1 is '0 0 0 0'"),
    "PLY text not a number": (
        "a.ply",
        text_ply("0 0 0\n1 two 0\n0 1 0\n"),
        "vertex row 2 is '1 two 0': need 3 numbers",
    ),
    "PLY endless line": ("a.ply", text_ply(b"1" * 2_000_000), "row 1 is longer than"),
    "PLY red of 300": (
        "a.ply",
        ply(ASCII + "element vertex 3\n" + F3 + "property uchar red\n", "0 0 0 300\n" * 3),
        "'red' holds 300, which is no uint8",
    ),
    "PLY list longer than file": (
        "a.ply",
        ply(
            LE + "element face 1\nproperty list uint int i\nelement vertex 3\n" + F3,
            b"\xff\xff\xff\xff" + bytes(60),
        ),
        "list of 4294967295 items takes 17179869180 bytes",
    ),
    "PLY list of -1": (
        "a.ply",
        ply(
            LE + "element face 1\nproperty list char int i\nelement vertex 3\n" + F3,
            b"\xff" + bytes(60),
        ),
        "list of -1 items: need 0 or more",
    ),
    "PLY 10^9 lists": (
        "a.ply",
        ply(
            LE + "element face 1000000000\nproperty list char int i\nelement vertex 3\n" + F3,
            bytes(60),
        ),
        "1000000000 'face' rows of at least 1 bytes",
    ),
    "PLY text list lies": (
        "a.ply",
        ply(ASCII + "element vertex 1\n" + F3 + "property list uchar int i\n", "0 0 0 9 1 2\n"),
        "vertex row 1 is '0 0 0 9 1 2': need numbers for 4 properties",
    ),
    "PLY faces cut": (
        "a.ply",
        ply(
            ASCII + "element face 5\nproperty list uchar int i\nelement vertex 3\n" + F3,
            "3 0 1 2\n3 0 1 2\n",
        ),
        "element 'face' has 2 of 5 rows",
    ),
    # --- PCD header
    "PCD header cut": ("a.pcd", b"VERSION 0.7\nFIELDS x y z\n", "file ends before the DATA line"),
    "PCD unknown line": (
        "a.pcd",
        b"VERSION 0.7\nWIDHT 3\n",
        "unknown PCD header line 'WIDHT'. Did you mean 'WIDTH'",
    ),
    "PCD line twice": ("a.pcd", b"VERSION 0.7\nWIDTH 3\nWIDTH 3\n", "two WIDTH lines"),
    "PCD version": ("a.pcd", pcd(VERSION="9"), "VERSION is '9': need one of"),
    "PCD unknown data": ("a.pcd", pcd(DATA="zip"), "unknown PCD DATA 'zip'"),
    "PCD without z": (
        "a.pcd",
        pcd(FIELDS="x y w"),
        "no field 'z': need x, y and z; found 'x', 'y', 'w'",
    ),
    "PCD x twice": ("a.pcd", pcd(FIELDS="x y z x"), "field 'x' is there 2 times"),
    "PCD sizes missing": ("a.pcd", pcd(SIZE="4 4"), "SIZE has 2 entries for 3 FIELDS"),
    "PCD odd size": ("a.pcd", pcd(SIZE="4 4 3"), "field 'z' has TYPE 'F' and SIZE '3': need"),
    "PCD absurd COUNT": (
        "a.pcd",
        pcd(FIELDS="x y z h", SIZE="4 4 4 4", TYPE="F F F F", COUNT="1 1 1 1000000000"),
        "COUNT of field 'h' is 1000000000: need 1 to 65536",
    ),
    "PCD COUNT 0": ("a.pcd", pcd(COUNT="1 1 0"), "COUNT of field 'z' is 0: need 1"),
    "PCD wide rows": (
        "a.pcd",
        pcd(
            FIELDS="x y z " + " ".join(f"h{i}" for i in range(9)),
            SIZE="4 " * 3 + "8 " * 9,
            TYPE="F " * 12,
            COUNT="1 1 1 " + "65536 " * 9,
            DATA="binary",
        ),
        "a row takes 4718604 bytes: at most",
    ),
    "PCD negative width": ("a.pcd", pcd(WIDTH="-3"), "WIDTH is '-3': need a whole number"),
    "PCD points disagree": ("a.pcd", pcd(POINTS="4"), "POINTS is 4 and WIDTH x HEIGHT is 3"),
    "PCD without count": ("a.pcd", pcd(POINTS=None, WIDTH=None), "neither POINTS nor WIDTH"),
    "PCD rgb of 8 bytes": (
        "a.pcd",
        pcd("0 0 0 1\n" * 3, FIELDS="x y z rgb", SIZE="4 4 4 8", TYPE="F F F U", COUNT="1 1 1 1"),
        "'rgb' has TYPE U, SIZE 8 and COUNT 1: need",
    ),
    # --- PCD points
    "PCD claims 10^18": (
        "a.pcd",
        pcd(WIDTH="1000000000", HEIGHT="1000000000", POINTS=None),
        "at most 20000000",
    ),
    "PCD binary cut": (
        "a.pcd",
        pcd(bytes(35), DATA="binary"),
        "3 point rows of at least 12 bytes, 36 in all, and 35",
    ),
    "PCD text not a number": (
        "a.pcd",
        pcd("0 0 0\n0 0 #\n0 0 1\n"),
        "point row 2 is '0 0 #': need 3 numbers",
    ),
    "PCD sizes cut": (
        "a.pcd",
        pcd(bytes(7), DATA="binary_compressed"),
        "pair of compressed sizes needs 8",
    ),
    "PCD plain size lies": (
        "a.pcd",
        packed(b"\x00a", plain=1 << 31),
        "expand to 2147483648 bytes; 3 points take 36",
    ),
    "PCD packed size lies": (
        "a.pcd",
        packed(b"\x00a", size=999),
        "36 bytes are said to come from 999",
    ),
    "PCD expands too much": ("a.pcd", packed(b""), "36 bytes are said to come from 0 compressed"),
    "LZF reference too far": (
        "a.pcd",
        packed(b"\x00a\x20\x05"),
        "back-reference of 6 bytes after 1 bytes",
    ),
    "LZF run too long": ("a.pcd", packed(b"\x1fabc"), "run of 32 plain bytes passes the end"),
    "LZF cut": ("a.pcd", packed(b"\x00a\xe0"), "ends in the middle of a back-reference"),
    "LZF too much": ("a.pcd", packed(b"\x00a\xe0\xff\x00"), "expands to more than 36 bytes"),
    "LZF too little": ("a.pcd", packed(b"\x00a\x20\x00"), "expands to 4 bytes instead of 36"),
    # --- NPZ
    "NPZ cut": ("a.npz", npz(points=npy())[:-30], "zip archive is damaged"),
    "NPZ wrong checksum": (
        "a.npz",
        damaged(npz(zipfile.ZIP_STORED, points=npy()), 120, b"\x01"),
        "Bad CRC",
    ),
    "NPZ of nothing": (
        "a.npz",
        npz(),
        r"no array 'points' \(or 'xyz', 'positions'\); found nothing",
    ),
    "NPZ other names": ("a.npz", npz(verts=npy()), "no array 'points'.*found 'verts'"),
    "NPZ not an array": ("a.npz", npz(points=b"hello world"), "'points.npy' is not a numpy array"),
    "NPZ flat": ("a.npz", npz(points=npy(shape="(9,)")), r"has shape \[9\]: need \[n, 3\]"),
    "NPZ text array": ("a.npz", npz(points=npy("'<U4'")), "is of type '<U4': need real numbers"),
    "NPZ complex": ("a.npz", npz(points=npy("'<c8'")), "is of type '<c8': need real numbers"),
    "NPZ records": ("a.npz", npz(points=npy("[('x', '<f4')]")), "is of type 'a record': need"),
    "NPZ header is code": (
        "a.npz",
        npz(points=npy("__import__('os')")),
        "need descr, fortran_order, shape",
    ),
    "NPZ long header": (
        "a.npz",
        npz(points=b"\x93NUMPY\x02\x00\xff\xff\xff\x7f"),
        "header of 2147483647 bytes",
    ),
    "NPZ claims 10^9": (
        "a.npz",
        npz(points=npy(shape="(1000000000, 3)")),
        "says 1000000000 points: at most",
    ),
    "NPZ claims 10^7": (
        "a.npz",
        npz(points=npy(shape="(10000000, 3)")),
        "says that it holds 120000000 bytes",
    ),
    "NPZ cut inside": (
        "a.npz",
        npz(points=npy(body=bytes(24))),
        "'points.npy' holds 24 bytes of 36",
    ),
    "NPZ colours short": (
        "a.npz",
        npz(points=npy(), colors=npy("'|u1'", "(2, 3)", bytes(6))),
        "3 points and 2 colours",
    ),
    "NPZ in bzip2": ("a.npz", npz(zipfile.ZIP_BZIP2, points=npy()), "packed in an unusual way"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_file_is_named_and_explained(tmp_path, case):
    name, data, message = BAD[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FileFormatError, match=message) as caught:
        read_cloud(tmp_path / name)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / name}: ")
    assert said.endswith(".")
    assert len(said) - len(str(tmp_path)) < 330
    assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.ply", ply(ASCII + "element vertex 0\n" + F3)), ("a.pcd", pcd(WIDTH="0", POINTS="0")),
     ("a.npz", npz(points=npy(shape="(0, 3)", body=b"")))],
)  # fmt: skip
def test_no_points(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(EmptyCloudError, match=rf"{re.escape(name)}: the header says 0 points"):
        read_cloud(tmp_path / name)


def test_errors_of_the_cloud_keep_their_class_and_name_the_file(tmp_path):
    (tmp_path / "far.ply").write_bytes(text_ply("0 0 inf\n" * 3))
    with pytest.raises(NonFiniteCloudError, match=r"far\.ply: 3 of 3 points are infinite"):
        read_cloud(tmp_path / "far.ply")


def test_max_points_is_the_callers(tmp_path):
    write_cloud(PointCloud(np.eye(3)), tmp_path / "a.ply")
    assert len(read_cloud(tmp_path / "a.ply", max_points=3)) == 3
    with pytest.raises(FileFormatError, match="3 points: at most 2 are read"):
        read_cloud(tmp_path / "a.ply", max_points=2)


# --- what the operating system refuses -----------------------------------------------------------


def test_missing_file_folder_and_pipe(tmp_path):
    with pytest.raises(FileFormatError, match=r"gone\.ply: there is no such file"):
        read_cloud(tmp_path / "gone.ply")
    (tmp_path / "dir.ply").mkdir()
    with pytest.raises(FileFormatError, match=r"dir\.ply: is a folder"):
        read_cloud(tmp_path / "dir.ply")
    os.mkfifo(tmp_path / "pipe.ply")
    with pytest.raises(FileFormatError, match=r"pipe\.ply: is a device or pipe"):
        read_cloud(tmp_path / "pipe.ply")
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_cloud(tmp_path / ("n" * 300 + ".ply"))
    with pytest.raises(FileFormatError, match="not a usable path"):
        read_cloud("nul\0.ply")


def test_unreadable_file(tmp_path, monkeypatch):
    def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.ply").write_bytes(b"ply\n")
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(FileFormatError, match=r"a\.ply: cannot be read: Permission denied\."):
        read_cloud(tmp_path / "a.ply")


# --- pickles, and memory -------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["points", "colors"])
def test_pickled_objects_are_refused_and_never_run(tmp_path, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    arrays = {"points": npy(), key: object_array()}
    (tmp_path / "evil.npz").write_bytes(npz(**arrays))
    with pytest.raises(UnsafeFileError, match=r"evil\.npz: .*pickled Python objects.*not read"):
        read_cloud("evil.npz")
    assert not (tmp_path / "pickle-ran").exists()


def test_the_bomb_of_the_test_above_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Bomb()))
    assert (tmp_path / "pickle-ran").exists()


def zip_bomb() -> bytes:
    """Twenty million honest points of zeros, in half a megabyte."""
    return npz(points=npy(shape="(20000000, 3)", body=bytes(240_000_000)))


LIARS = {
    "PLY": ("a.ply", ply(LE + "element vertex 1000000000\n" + F3, bytes(900))),
    "PLY text": ("a.ply", ply(ASCII + "element vertex 1000000000\n" + F3, ROWS)),
    "PLY list": BAD["PLY list longer than file"][:2],
    "PLY lists": BAD["PLY 10^9 lists"][:2],
    "PCD": ("a.pcd", pcd(bytes(900), WIDTH="1000000000", POINTS="1000000000", DATA="binary")),
    "PCD text": ("a.pcd", pcd(ROWS, WIDTH="1000000000", POINTS="1000000000")),
    "PCD packed": ("a.pcd", packed(bytes(900), plain=4_000_000_000)),
    "NPZ": BAD["NPZ claims 10^9"][:2],
    "NPZ shape": ("a.npz", npz(points=npy(shape="(1000000000000, 1000000000000)"))),
}


@pytest.mark.parametrize("max_points", [1_000_000, 10**12])
@pytest.mark.parametrize("case", LIARS)
def test_memory_is_not_given_to_liars(tmp_path, case, max_points):
    """The second limit takes the first line of defence away: only the file's size is left."""
    name, data = LIARS[case]
    (tmp_path / name).write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError):
            read_cloud(tmp_path / name, max_points=max_points)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


def test_zip_bomb_is_bounded_by_max_points(tmp_path):
    (tmp_path / "bomb.npz").write_bytes(zip_bomb())
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="20000000 points: at most 100000 are read"):
            read_cloud(tmp_path / "bomb.npz", max_points=100_000)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
