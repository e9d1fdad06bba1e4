"""LeRobot data sets (format 3) of the moving recording, written with pyarrow and av alone."""

import io
import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from scipy.spatial.transform import Rotation

from handful.demos import gripper_to_json
from handful.recordings.example import GRIPPER
from moving_recording import CAMERA, VIEW, moments

COLOR, DEPTH = "observation.images.front", "observation.images.front_depth"
CHANNELS = ["x", "y", "z", "qx", "qy", "qz", "qw", "gripper"]
EPISODES = 2
"""The same recording twice, in one file."""


def write_dataset(root: Path, depth: str = "image", lossless: bool = True) -> Path:
    """A data set; `depth` is `image` (PNG in the table), `array`, or `video` (16 bits of grey)."""
    seen = [moment for moment in moments() if moment.view is not None]
    count = len(seen)
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    (root / "data/chunk-000").mkdir(parents=True)
    columns: dict[str, pa.Array] = {
        "observation.state": pa.array(
            [_state(moment) for moment in seen] * EPISODES, pa.list_(pa.float64())
        ),
        "timestamp": pa.array([float(i) for i in range(count)] * EPISODES, pa.float32()),
        "frame_index": pa.array(list(range(count)) * EPISODES, pa.int64()),
        "episode_index": pa.array(np.repeat(np.arange(EPISODES), count), pa.int64()),
        "index": pa.array(np.arange(EPISODES * count), pa.int64()),
        "task_index": pa.array(np.zeros(EPISODES * count, np.int64)),
    }
    millimetres = [np.rint(moment.view.metres * 1000.0).astype(np.uint16) for moment in seen]
    if depth == "image":
        rows = [{"bytes": _png(image), "path": None} for image in millimetres] * EPISODES
        columns[DEPTH] = pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    elif depth == "array":
        metres = [moment.view.metres.astype(np.float32).tolist() for moment in seen] * EPISODES
        columns[DEPTH] = pa.array(metres, pa.list_(pa.list_(pa.float32())))
    else:
        _write_video(root / f"videos/{DEPTH}/chunk-000/file-000.mkv", millimetres, "gray16le", True)
    _write_video(
        root / f"videos/{COLOR}/chunk-000/file-000.mkv",
        [moment.view.color for moment in seen],
        "rgb24",
        lossless,
    )
    pq.write_table(pa.table(columns), root / "data/chunk-000/file-000.parquet")
    pq.write_table(
        pa.Table.from_pylist([_episode(index, count, depth) for index in range(EPISODES)]),
        root / "meta/episodes/chunk-000/file-000.parquet",
    )
    (root / "meta/info.json").write_text(json.dumps(_info(count, depth)))
    return root


def _state(moment) -> list[float]:
    quat = Rotation.from_matrix(moment.T_robot_gripper[:3, :3]).as_quat()
    return [*moment.T_robot_gripper[:3, 3].tolist(), *quat.tolist(), moment.width]


def _png(image: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(image).save(out, format="PNG")
    return out.getvalue()


def _write_video(path: Path, images: list[np.ndarray], pixels: str, lossless: bool) -> None:
    path.parent.mkdir(parents=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1" if lossless else "libx264", rate=1)
        stream.width, stream.height = images[0].shape[1], images[0].shape[0]
        stream.pix_fmt = (
            {"rgb24": "bgr0", "gray16le": "gray16le"}[pixels] if lossless else "yuv420p"
        )
        stream.time_base = Fraction(1, 1)
        for index, image in enumerate(images * EPISODES):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format=pixels)
            frame.pts, frame.time_base = index, Fraction(1, 1)
            container.mux(stream.encode(frame.reformat(format=stream.pix_fmt)))
        container.mux(stream.encode())


def _episode(index: int, count: int, depth: str) -> dict:
    row = {
        "episode_index": index, "tasks": ["Put the peg into the box."], "length": count,
        "dataset_from_index": index * count, "dataset_to_index": (index + 1) * count,
        "data/chunk_index": 0, "data/file_index": 0,
    }  # fmt: skip
    for key in (COLOR, DEPTH) if depth == "video" else (COLOR,):
        row |= {
            f"videos/{key}/chunk_index": 0, f"videos/{key}/file_index": 0,
            f"videos/{key}/from_timestamp": float(index * count),
            f"videos/{key}/to_timestamp": float((index + 1) * count),
        }  # fmt: skip
    return row


def _info(count: int, depth: str) -> dict:
    kind = {"image": "image", "array": "float32", "video": "video"}[depth]
    shape = [VIEW.height, VIEW.width]
    return {
        "codebase_version": "v3.0", "robot_type": "peg", "fps": 1, "chunks_size": 1000,
        "total_episodes": EPISODES, "total_frames": EPISODES * count, "total_tasks": 1,
        "splits": {"train": f"0:{EPISODES}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mkv",
        "features": {
            COLOR: {"dtype": "video", "shape": [*shape, 3]},
            DEPTH: {"dtype": kind, "shape": shape if depth == "array" else [*shape, 1]},
            "observation.state": {
                "dtype": "float64", "shape": [8], "names": {"motors": CHANNELS},
            },
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        },
    }  # fmt: skip


def write_setup(folder: Path) -> Path:
    """The setup file that says what the data set does not."""
    quat = Rotation.from_matrix(CAMERA.T_scene_camera[:3, :3]).as_quat()
    hand = {"feature": "observation.state", "position": CHANNELS[:3], "quat_xyzw": CHANNELS[3:7]}
    setup = {
        "format": "handful-lerobot",
        "version": 1,
        "length_unit": "m",
        "gripper": gripper_to_json(GRIPPER, folder),
        "end_effector": hand,
        "gripper_signal": {"feature": "observation.state", "channel": "gripper"},
        "cameras": {
            "front": {
                "color": COLOR,
                "depth": DEPTH,
                "intrinsics": {
                    "fx": VIEW.fx, "fy": VIEW.fy, "cx": VIEW.cx, "cy": VIEW.cy,
                    "width": VIEW.width, "height": VIEW.height,
                },
                "depth_scale": 0.001,
                "T_robot_camera": {
                    "position": CAMERA.T_scene_camera[:3, 3].tolist(),
                    "quat_xyzw": quat.tolist(),
                },
            }
        },
    }  # fmt: skip
    path = folder / "lerobot.json"
    path.write_text(json.dumps(setup))
    return path
