"""How fast cloud files are read: ours against trimesh (PLY) and numpy (NPZ) on the same files.

Run: ``.venv/bin/python benchmarks/cloud_files.py [points]``
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import trimesh

from handful.clouds import PointCloud
from handful.clouds.files import read_cloud, write_cloud


def scene(count: int) -> PointCloud:
    """A table with a few boxes, in few colours with noise, as a depth camera would give."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.5, 0.5, (count, 3))
    points[:, 2] = np.where(rng.random(count) < 0.6, 0.0, points[:, 2] * 0.2)
    colors = rng.integers(0, 4, (count, 1)) * 60 + rng.integers(0, 10, (count, 3))
    return PointCloud(points, colors.astype(np.uint8))


def best(work: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def with_trimesh(path: Path) -> object:
    loaded = trimesh.load(path, process=False)
    is_mesh = isinstance(loaded, trimesh.Trimesh)
    colors = loaded.visual.vertex_colors if is_mesh else loaded.colors
    return PointCloud(loaded.vertices, np.asarray(colors)[:, :3])


def with_numpy(path: Path) -> object:
    with np.load(path) as arrays:
        return PointCloud(arrays["points"], arrays["colors"])


def mesh_with_faces_first(cloud: PointCloud, path: Path) -> None:
    """Twice as many triangles as points, before them: the slow road of a binary PLY."""
    faces = np.zeros(2 * len(cloud), [("n", "u1"), ("i", "<i4", 3)])
    faces["n"] = 3
    write_cloud(cloud, path)
    head, body = path.read_bytes().split(b"element vertex", 1)
    header, rows = (b"element vertex" + body).split(b"end_header\n", 1)
    face = f"element face {len(faces)}\nproperty list uchar int vertex_indices\n".encode()
    path.write_bytes(head + face + header + b"end_header\n" + faces.tobytes() + rows)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    cloud = scene(count)
    reference = {".ply": with_trimesh, ".npz": with_numpy}
    print(f"{count} coloured points; best of 5")
    with tempfile.TemporaryDirectory() as folder:
        for extension, encoding in [
            (".ply", "binary"),
            (".ply", "ascii"),
            (".ply", "faces first"),
            (".pcd", "binary"),
            (".pcd", "ascii"),
            (".pcd", "binary_compressed"),
            (".npz", "binary"),
            (".npz", "binary_compressed"),
        ]:
            path = Path(folder) / f"cloud{extension}"
            if encoding == "faces first":
                mesh_with_faces_first(cloud, path)
                write = float("nan")
            else:
                write = best(lambda p=path, e=encoding: write_cloud(cloud, p, encoding=e), 2)
            read = best(lambda p=path: read_cloud(p))
            line = (
                f"{extension} {encoding:18} write {write * 1e3:7.1f} ms  read {read * 1e3:7.1f} ms"
            )
            if extension in reference:
                theirs = best(lambda p=path, r=reference[extension]: r(p))
                line += f"  {reference[extension].__name__} takes {theirs / read:5.2f} x as long"
            print(line)


if __name__ == "__main__":
    main()
