"""Reading and writing cloud files: what is kept, and which conventions are understood."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
import trimesh

from handful.clouds import PointCloud
from handful.clouds.files import read_cloud, write_cloud
from handful.errors import CloudColorError, CloudScaleError, OptionError

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
POINTS = np.array([[0.0, 0.1, 0.2], [1.0, -0.5, 1e-7], [0.25, 0.125, -0.0]], np.float32)
COLORS = np.array([[255, 0, 1], [128, 127, 3], [200, 254, 9]], np.uint8)


def uint8(cloud: PointCloud) -> np.ndarray:
    return np.rint(cloud.require_colors() * 255).astype(np.uint8)


def read_bytes(folder: Path, name: str, data: bytes | str, **options: object) -> PointCloud:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_cloud(path, **options)


def ply(properties: str, rows: bytes | str, *, count: int = 3, kind: str = "ascii") -> bytes:
    lines = [f"property {item.strip()}" for item in properties.split(",")]
    head = ["ply", f"format {kind} 1.0", f"element vertex {count}", *lines, "end_header", ""]
    return "\n".join(head).encode() + (rows.encode() if isinstance(rows, str) else rows)


def pcd(
    fields: str,
    sizes: str,
    types: str,
    rows: bytes | str,
    *,
    count: int = 3,
    data: str = "ascii",
    extra: str = "",
) -> bytes:
    head = f"VERSION .7\nFIELDS {fields}\nSIZE {sizes}\nTYPE {types}\n{extra}"
    head += f"WIDTH {count}\nHEIGHT 1\nPOINTS {count}\nDATA {data}\n"
    return head.encode() + (rows.encode() if isinstance(rows, str) else rows)


# --- what comes back is what was written ---------------------------------------------------------


@pytest.mark.parametrize(("extension", "encoding"), ENCODINGS)
@pytest.mark.parametrize("colors", [COLORS, None], ids=["coloured", "plain"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip(tmp_path, extension, encoding, colors, dtype):
    third = POINTS.astype(dtype) / 3
    cloud = PointCloud(third, colors, dtype=dtype)
    path = tmp_path / f"cloud{extension}"
    write_cloud(cloud, path, encoding=encoding)
    first = path.read_bytes()
    back = read_cloud(path, dtype=dtype)
    assert back.points.dtype == dtype
    assert back.points.tobytes() == third.tobytes()
    assert (back.colors is None) if colors is None else (uint8(back) == colors).all()
    write_cloud(back, path, encoding=encoding)
    assert path.read_bytes() == first
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_every_float32_survives_text(tmp_path):
    """Shortest texts can round twice on their way back; ours must not."""
    bits = np.random.default_rng(0).integers(0, 0x41000000, (2000, 3), dtype=np.uint32)
    cloud = PointCloud(bits.view(np.float32))
    write_cloud(cloud, tmp_path / "a.ply", encoding="ascii")
    assert read_cloud(tmp_path / "a.ply").points.tobytes() == cloud.points.tobytes()


def test_every_color_level_survives(tmp_path):
    levels = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    points = np.random.default_rng(0).random((256, 3))
    for extension, encoding in ENCODINGS:
        path = tmp_path / f"a{extension}"
        write_cloud(PointCloud(points, levels), path, encoding=encoding)
        assert (uint8(read_cloud(path)) == levels).all()


def test_double_files_are_read_as_float32_unless_asked(tmp_path):
    write_cloud(PointCloud(POINTS / 3.0, dtype=np.float64), tmp_path / "a.ply")
    assert read_cloud(tmp_path / "a.ply").points.dtype == np.float32


@pytest.mark.parametrize("name", ["A.PLY", "a.Pcd", "a.b.NPZ"])
def test_extension_case_does_not_matter(tmp_path, name):
    write_cloud(PointCloud(POINTS), tmp_path / name)
    assert (read_cloud(str(tmp_path / name)).points == POINTS).all()


def test_scale_turns_millimetres_into_metres(tmp_path):
    rows = "0 0 0\n1000 500 0\n250 0 20\n"
    data = ply("float x, float y, float z", rows)
    cloud = read_bytes(tmp_path, "mm.ply", data, scale=0.001)
    assert np.allclose(cloud.points, [[0, 0, 0], [1, 0.5, 0], [0.25, 0, 0.02]])
    with pytest.raises(CloudScaleError, match=r"mm\.ply: .*scale=0\.001"):
        read_bytes(tmp_path, "mm.ply", data)


@pytest.mark.parametrize(
    "options", [{"scale": s} for s in (0.0, -1.0, float("nan"), float("inf"))] + [{"max_points": 0}]
)
def test_options_out_of_range(tmp_path, options):
    with pytest.raises(OptionError, match=r"(scale|max_points) is .*: need"):
        read_bytes(tmp_path, "a.ply", b"", **options)


def test_options_of_the_wrong_kind(tmp_path):
    with pytest.raises(OptionError, match=r"need np\.float32 or np\.float64"):
        read_bytes(tmp_path, "a.ply", b"", dtype=np.float16)
    with pytest.raises(OptionError, match=r"unknown encoding of \.ply files.*Valid: ascii, binary"):
        write_cloud(PointCloud(POINTS), tmp_path / "a.ply", encoding="asci")


# --- trimesh as an independent reader and writer -------------------------------------------------


@pytest.mark.parametrize("encoding", ["binary", "binary_big_endian", "ascii"])
def test_trimesh_reads_our_ply(tmp_path, encoding):
    write_cloud(PointCloud(POINTS, COLORS), tmp_path / "a.ply", encoding=encoding)
    theirs = trimesh.load(tmp_path / "a.ply")
    assert np.array_equal(np.asarray(theirs.vertices, np.float32), POINTS)
    assert np.array_equal(np.asarray(theirs.colors)[:, :3], COLORS)


@pytest.mark.parametrize("encoding", ["binary", "ascii"])
def test_we_read_a_mesh_that_trimesh_wrote(tmp_path, encoding):
    mesh = trimesh.creation.icosphere(subdivisions=2, radius=0.1)
    shades = np.random.default_rng(0).integers(0, 256, (len(mesh.vertices), 4), dtype=np.uint8)
    mesh.visual.vertex_colors = shades
    data = mesh.export(file_type="ply", encoding=encoding, vertex_normal=True)
    cloud = read_bytes(tmp_path, "mesh.ply", data)
    assert np.allclose(cloud.points, mesh.vertices, atol=1e-7)
    assert (uint8(cloud) == shades[:, :3]).all()


def test_numpy_reads_our_npz(tmp_path):
    write_cloud(PointCloud(POINTS, COLORS), tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as theirs:
        assert (theirs["points"] == POINTS).all()
        assert theirs["colors"].dtype == np.uint8
        assert (theirs["colors"] == COLORS).all()


# --- PLY conventions -----------------------------------------------------------------------------

XYZ_TEXT = ["0 0.1 0.2", "1 -0.5 1e-7", "0.25 0.125 -0"]


@pytest.mark.parametrize(
    "names", ["red green blue", "diffuse_red diffuse_green diffuse_blue", "r g b"]
)
@pytest.mark.parametrize(
    ("kind", "factor"),
    [("uchar", 1), ("uint8", 1), ("int", 1), ("ushort", 257), ("float", 1 / 255), ("double", 1)],
)
def test_ply_color_conventions(tmp_path, names, kind, factor):
    columns = ", ".join(f"{kind} {name}" for name in names.split())
    values = COLORS.astype(float) * factor
    rows = "\n".join(
        f"{xyz} {' '.join(f'{v:.9g}' for v in rgb)}"
        for xyz, rgb in zip(XYZ_TEXT, values, strict=True)
    )
    cloud = read_bytes(tmp_path, "a.ply", ply(f"float x, float y, float z, {columns}", rows))
    assert (cloud.points == POINTS).all()
    assert (uint8(cloud) == COLORS).all()


@pytest.mark.parametrize("kind", ["binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("real", ["float", "float32", "double", "float64"])
def test_ply_any_order_type_and_extra_property(tmp_path, kind, real):
    order = "<" if kind == "binary_little_endian" else ">"
    code = "f4" if real in ("float", "float32") else "f8"
    record = np.dtype([("a", order + "i2"), ("z", order + code), ("red", "u1"), ("x", order + code),
                       ("blue", "u1"), ("nx", order + "f4"), ("green", "u1"), ("y", order + "f4"),
                       ("alpha", "u1"), ("id", order + "u4")])  # fmt: skip
    rows = np.zeros(3, record)
    for i, axis in enumerate("xyz"):
        rows[axis] = POINTS[:, i]
    for i, name in enumerate(("red", "green", "blue")):
        rows[name] = COLORS[:, i]
    rows["alpha"] = 255
    properties = (
        f"short a, {real} z, uchar red, {real} x, uint8 blue, float32 nx, uchar green, float y, "
        "uchar alpha, uint32 id"
    )
    cloud = read_bytes(tmp_path, "a.ply", ply(properties, rows.tobytes(), kind=kind))
    assert (cloud.points == POINTS).all()
    assert (uint8(cloud) == COLORS).all()


def test_ply_header_with_crlf_comments_and_obj_info(tmp_path):
    text = (
        "ply\r\ncomment r\xe9sum\xe9\r\nformat ascii 1.0\r\nobj_info scanner 7\r\n\r\n"
        "element vertex 3\r\nproperty float x\r\nproperty float y\r\nproperty float z\r\n"
        "comment done\r\nend_header\r\n" + "\r\n\r\n".join(XYZ_TEXT)
    )
    assert (read_bytes(tmp_path, "a.ply", text.encode("latin-1")).points == POINTS).all()


def test_ply_binary_after_crlf_header(tmp_path):
    data = ply("float x, float y, float z", "", kind="binary_little_endian")
    data = data.replace(b"\n", b"\r\n") + POINTS.tobytes()
    assert (read_bytes(tmp_path, "a.ply", data).points == POINTS).all()


MESH_HEADER = """ply
format {kind} 1.0
element nothing 1000000000
element camera 1
property double f
element face 2
property uchar flag
property list uchar int vertex_indices
property list int8 float texcoord
property short tail
element vertex 3
property float x
property list uint16 uchar tags
property float y
property float z
property uchar red
property uchar green
property uchar blue
element edge 5
property list uchar int anything
end_header
"""


def test_ply_lists_before_and_inside_vertices_in_text(tmp_path):
    rows = [
        "35.0", "1 3 0 1 2 0 -4", "0 4 0 1 2 2 2 0.5 0.5 9",
        "0 0 0.1 0.2 255 0 1", "1 2 7 8 -0.5 1e-7 128 127 3", "0.25 1 9 0.125 -0 200 254 9",
    ]  # fmt: skip
    cloud = read_bytes(tmp_path, "a.ply", MESH_HEADER.format(kind="ascii") + "\n".join(rows))
    assert (cloud.points == POINTS).all()
    assert (uint8(cloud) == COLORS).all()


@pytest.mark.parametrize(("kind", "o"), [("binary_little_endian", "<"), ("binary_big_endian", ">")])
def test_ply_lists_before_and_inside_vertices_in_binary(tmp_path, kind, o):
    body = struct.pack(o + "d", 35.0)
    body += struct.pack(o + "BB3ibh", 1, 3, 0, 1, 2, 0, -4)
    body += struct.pack(o + "BB4ib2fh", 0, 4, 0, 1, 2, 2, 2, 0.5, 0.5, 9)
    for (x, y, z), rgb, tags in zip(POINTS, COLORS, (b"", b"ab", b"c" * 300), strict=True):
        body += struct.pack(o + "fH", x, len(tags)) + tags + struct.pack(o + "ff3B", y, z, *rgb)
    cloud = read_bytes(tmp_path, "a.ply", MESH_HEADER.format(kind=kind).encode() + body)
    assert (cloud.points == POINTS).all()
    assert (uint8(cloud) == COLORS).all()


def test_two_color_channels_are_no_color(tmp_path):
    rows = "\n".join(f"{xyz} 1 2" for xyz in XYZ_TEXT)
    cloud = read_bytes(tmp_path, "a.ply", ply("float x,float y,float z,uchar r,uchar g", rows))
    assert cloud.colors is None


def test_nan_rows_are_dropped_and_counted(tmp_path):
    rows = "\n".join([*XYZ_TEXT, "nan 0 0"])
    cloud = read_bytes(tmp_path, "a.ply", ply("float x, float y, float z", rows, count=4))
    assert (len(cloud), cloud.dropped) == (3, 1)


def test_colors_out_of_range_name_the_file(tmp_path):
    rows = "\n".join(f"{xyz} 0.5 300 1" for xyz in XYZ_TEXT)
    data = ply("float x, float y, float z, float red, float green, float blue", rows)
    with pytest.raises(CloudColorError, match=r"loud\.ply: colours span 0.5..300"):
        read_bytes(tmp_path, "loud.ply", data)


# --- PCD conventions -----------------------------------------------------------------------------

PACKED = (COLORS.astype(np.uint32) << [16, 8, 0]).sum(axis=1).astype(np.uint32)


@pytest.mark.parametrize("name", ["rgb", "rgba"])
@pytest.mark.parametrize(
    ("data", "kind", "alpha"),
    [("binary", "F", 0), ("binary", "F", 255), ("binary", "U", 255), ("binary", "I", 255),
     ("ascii", "F", 0), ("ascii", "F", 126), ("ascii", "U", 255), ("ascii", "I", 255)],
)  # fmt: skip
def test_pcd_packed_colors(tmp_path, name, data, kind, alpha):
    bits = PACKED | np.uint32(alpha << 24)
    packed = bits.view({"F": np.float32, "U": np.uint32, "I": np.int32}[kind])
    if data == "ascii":
        rows = "\n".join(
            f"{xyz} {value:.9g}" if kind == "F" else f"{xyz} {value}"
            for xyz, value in zip(XYZ_TEXT, packed, strict=True)
        )
    else:
        rows = b"".join(p.tobytes() + c.tobytes() for p, c in zip(POINTS, packed, strict=True))
    file = pcd(f"x y z {name}", "4 4 4 4", f"F F F {kind}", rows, data=data)
    cloud = read_bytes(tmp_path, "a.pcd", file)
    assert (cloud.points == POINTS).all()
    assert (uint8(cloud) == COLORS).all()


def test_pcd_packed_text_color_that_became_nan_drops_the_point(tmp_path):
    rows = f"{XYZ_TEXT[0]} 1e-38\n{XYZ_TEXT[1]} nan\n{XYZ_TEXT[2]} 1e-39\n"
    cloud = read_bytes(tmp_path, "a.pcd", pcd("x y z rgb", "4 4 4 4", "F F F F", rows))
    assert (len(cloud), cloud.dropped) == (2, 1)


def test_pcd_packed_color_as_a_whole_number_in_a_float_field(tmp_path):
    """The way the first files of the format's own tutorial are written."""
    rows = "\n".join(f"{xyz} {value}" for xyz, value in zip(XYZ_TEXT, PACKED, strict=True))
    cloud = read_bytes(tmp_path, "a.pcd", pcd("x y z rgb", "4 4 4 4", "F F F F", rows))
    assert (uint8(cloud) == COLORS).all()


@pytest.mark.parametrize(
    ("fields", "sizes", "types", "extra"),
    [("x y z r g b", "4 4 4 1 1 1", "F F F U U U", ""),
     ("x y z rgb", "4 4 4 1", "F F F U", "COUNT 1 1 1 3\n")],
)  # fmt: skip
def test_pcd_separate_colors(tmp_path, fields, sizes, types, extra):
    rows = b"".join(p.tobytes() + c.tobytes() for p, c in zip(POINTS, COLORS, strict=True))
    data = pcd(fields, sizes, types, rows, data="binary", extra=extra)
    assert (uint8(read_bytes(tmp_path, "a.pcd", data)) == COLORS).all()


def test_pcd_organised_cloud_with_padding_and_histograms(tmp_path):
    record = np.dtype([("x", "<f4"), ("_", "u1", 4), ("y", "<f8"), ("fpfh", "<f4", 33),
                       ("_2", "u1"), ("z", "<f4")])  # fmt: skip
    rows = np.zeros(4, record)
    rows["x"], rows["y"], rows["z"] = np.vstack([POINTS, [[np.nan] * 3]]).T
    head = (
        "# .PCD v.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x _ y fpfh _ z\n"
        "SIZE 4 1 8 4 1 4\nTYPE F U F F U F\nCOUNT 1 4 1 33 1 1\nWIDTH 2\nHEIGHT 2\n"
        "VIEWPOINT 1 2 3 1 0 0 0\nPOINTS 4\nDATA binary\n"
    )
    cloud = read_bytes(tmp_path, "a.pcd", head.encode() + rows.tobytes() + b"tail")
    assert (cloud.points == POINTS).all()
    assert cloud.dropped == 1


def test_pcd_old_header_without_points_count_and_version(tmp_path):
    head = "COLUMNS x y z\r\nSIZE 4 4 4\r\nTYPE F F F\r\nWIDTH 3\r\nDATA ascii\r\n"
    cloud = read_bytes(tmp_path, "a.pcd", head + "\r\n".join(XYZ_TEXT))
    assert (cloud.points == POINTS).all()


# --- NPZ conventions -----------------------------------------------------------------------------


@pytest.mark.parametrize("points", ["points", "xyz", "positions"])
@pytest.mark.parametrize("colors", ["colors", "rgb"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "shades", [COLORS, COLORS / 255.0, COLORS.astype(np.int64), COLORS.astype(np.uint16) * 257]
)
def test_npz_that_numpy_wrote(tmp_path, points, colors, save, shades):
    buffer = io.BytesIO()
    arrays = {points: np.asfortranarray(POINTS.astype(">f8")), colors: shades}
    save(buffer, **arrays, names=np.array(["other"]))
    cloud = read_bytes(tmp_path, "a.npz", buffer.getvalue())
    assert (cloud.points == POINTS).all()
    assert (uint8(cloud) == COLORS).all()


def test_npz_with_alpha_and_with_integers(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, points=np.eye(3, dtype=np.int16), rgb=np.full((3, 4), 7, np.uint8))
    cloud = read_bytes(tmp_path, "a.npz", buffer.getvalue())
    assert (cloud.points == np.eye(3)).all()
    assert (uint8(cloud) == 7).all()
