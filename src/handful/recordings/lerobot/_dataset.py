"""LeRobot data sets, format 3: JSON and Parquet tables, and videos. Without the package lerobot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from handful._files import check_regular, read_bytes
from handful._memory import bounded_memory
from handful._strict_json import parse_json
from handful.demos import member_path
from handful.errors import DemoError, FileFormatError, HandfulError, unknown_name_message
from handful.recordings._extras import required

INFO = "meta/info.json"
EPISODES = "meta/episodes"
_FIELD = re.compile(r"\{(\w+)(?::0(\d)d)?\}")
_MOST_INFO = 16 * 2**20
_MOST_VALUES = 64 * 2**20
"""Bytes of a table or a column that becomes Python's values, which take ten times as much."""


class LerobotDataset:
    """An opened data set.

    Args:
        folder: With `meta/info.json`.

    Raises:
        HandfulError: It is no data set of version 3, or a package is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parquet = required("pyarrow.parquet", "lerobot")
        path = folder / INFO
        if not path.is_file():
            raise DemoError(f"{folder}: no {INFO} there: give the folder of a LeRobot data set.")
        info = parse_json(_decoded(read_bytes(path, _MOST_INFO), path), str(path))
        version = str(info.get("codebase_version")) if isinstance(info, dict) else "none"
        if not version.startswith("v3."):
            raise DemoError(
                f"{path}: has the version {version!r}: need 'v3.0'. Convert older data sets with "
                "lerobot's own script convert_dataset_v21_to_v30."
            )
        self._info: dict[str, Any] = info
        self.features = _features(info.get("features"), path)

    @property
    def rate(self) -> float:
        """Frames a second."""
        rate = self._info.get("fps")
        if not isinstance(rate, (int, float)) or not 0 < rate < 10_000:
            raise DemoError(f"{self.folder / INFO}: fps is {rate!r}: need a positive number.")
        return float(rate)

    @cached_property
    def episodes(self) -> dict[int, dict[str, Any]]:
        """What the data set says of each episode, by its number."""
        found: dict[int, dict[str, Any]] = {}
        for path in sorted((self.folder / EPISODES).rglob("*.parquet")):
            for row in self._list(self._table(path), path):
                number = row.get("episode_index")
                if type(number) is not int or number < 0:
                    raise FileFormatError(f"{path}: episode_index is {number!r}: need 0 or more.")
                found[number] = row
        if not found:
            raise DemoError(f"{self.folder}: no episodes in {EPISODES}.")
        return dict(sorted(found.items()))

    def check_feature(self, name: str, where: str) -> dict[str, Any]:
        """The description of a feature.

        Raises:
            DemoError: There is none of that name.
        """
        if name not in self.features:
            message = unknown_name_message("feature", name, self.features)
            raise DemoError(f"{where}: {message}")
        return self.features[name]

    def channel(self, feature: str, name: str, where: str) -> int:
        """The place of a channel in a feature, by its name."""
        names = self.check_feature(feature, where).get("names")
        if isinstance(names, dict):
            names = next((value for value in names.values() if isinstance(value, list)), None)
        known = [str(one)[:100] for one in names] if isinstance(names, list) else []
        if name not in known:
            raise DemoError(
                f"{where}: feature {feature!r}: {unknown_name_message('channel', name, known)}"
            )
        return known.index(name)

    def columns(self, episode: int, names: list[str]) -> dict[str, list[Any]]:
        """Columns of an episode's table, in the order of its frames."""
        table = self._rows([*names, "frame_index"], episode)
        path = self.folder
        with _told(path):
            part = table.sort_by("frame_index")
            columns = {name: part.column(name) for name in names}
        return {name: self._list(column, path) for name, column in columns.items()}

    def cell(self, episode: int, name: str, frame: int) -> Any:
        """A feature in one frame of an episode, counted from 0."""
        table = self._rows([name], episode, ("frame_index", "==", frame))
        with _told(self.folder):
            column = table.column(name)
        rows = self._list(column, self.folder)
        if len(rows) != 1:
            raise FileFormatError(
                f"{self.folder}: episode {episode} has {len(rows)} rows of frame {frame}: need one."
            )
        return rows[0]

    def _rows(self, names: list[str], episode: int, *more: tuple[str, str, int]) -> Any:
        path = self._file("data_path", "data", episode)
        return self._table(path, names, [("episode_index", "==", episode), *more])

    def is_video(self, feature: str) -> bool:
        """Whether a feature is in video files and not in the tables."""
        return bool(self.features[feature].get("dtype") == "video")

    def video(self, episode: int, feature: str) -> tuple[Path, float]:
        """The file that shows an episode, and the time in it at which the episode begins."""
        path = self._file("video_path", f"videos/{feature}", episode, feature)
        start = self.episodes[episode].get(f"videos/{feature}/from_timestamp", 0.0)
        if not isinstance(start, int | float) or not 0.0 <= start < 1e9:
            raise FileFormatError(
                f"{self.folder}: episode {episode} begins at {start!r} s of its video {feature!r}: "
                "need seconds."
            )
        return path, float(start)

    def _file(self, template: str, start: str, episode: int, feature: str = "") -> Path:
        row = self.episodes[episode]
        values: dict[str, Any] = {"video_key": feature, "episode_index": episode}
        for name in ("chunk_index", "file_index"):
            value = row.get(f"{start}/{name}")
            if value is None:
                raise DemoError(f"{self.folder}: episode {episode} has no {start}/{name}.")
            if type(value) is not int or not 0 <= value < 10**6:
                raise DemoError(
                    f"{self.folder}: episode {episode} has {value!r} as {start}/{name}: need a "
                    "number of a file."
                )
            values[name] = value
        text = str(self._info.get(template))
        path = _FIELD.sub(lambda field: _filled(field, values, text), text)
        return member_path(self.folder, path, f"{self.folder / INFO}: {template}")

    def _table(self, path: Path, columns: list[str] | None = None, rows: Any = None) -> Any:
        check_regular(path)
        with _told(path), bounded_memory(path):
            return self._parquet.read_table(path, columns=columns, filters=rows)

    def _list(self, values: Any, path: Path) -> list[Any]:
        """A table's or a column's values as those of Python."""
        with _told(path), bounded_memory(path):
            if values.nbytes > _MOST_VALUES:
                raise FileFormatError(
                    f"{path}: has more than {_MOST_VALUES >> 20} MiB in one table."
                )
            return list(values.to_pylist())


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whatever a damaged file leads a library to is one sentence."""
    try:
        yield
    except HandfulError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise FileFormatError(f"{path}: cannot be read: {lines[0][:300].rstrip('.')}.") from error


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: is no text in UTF-8.") from error


def _features(value: Any, path: Path) -> dict[str, dict[str, Any]]:
    """The features that a data set describes, by their names."""
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        raise FileFormatError(f"{path}: features: need an object of objects, one a feature.")
    return value


def _filled(field: re.Match[str], values: dict[str, Any], text: str) -> str:
    name, digits = field[1], field[2]
    if name not in values:
        raise DemoError(f"the path {text!r}: {unknown_name_message('field', name, values)}")
    return f"{values[name]:0{digits}d}" if digits else str(values[name])


def video_frame(path: Path, time: float, rate: float, pixels: str) -> Shaped[np.ndarray, "..."]:
    """One frame of a video, the nearest to a time.

    Args:
        path: The file.
        time: Seconds.
        rate: Frames a second.
        pixels: `rgb24`, or `gray16le` for depth.

    Raises:
        FileFormatError: It cannot be read, has no such frame, or is no depth.
    """
    av = required("av", "lerobot")
    check_regular(path)
    try:
        with bounded_memory(path), av.open(str(path)) as container:
            stream = container.streams.video[0]
            if pixels == "gray16le" and "gray1" not in str(stream.codec_context.pix_fmt):
                raise FileFormatError(
                    f"{path}: has pixels of the kind {stream.codec_context.pix_fmt}, a picture of "
                    "depth for people: need 16 bits of grey, without loss."
                )
            container.seek(int(max(time - 1.0 / rate, 0.0) / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if frame.time is not None and frame.time >= time - 0.5 / rate:
                    if frame.time > time + 0.5 / rate:
                        break
                    return frame.to_ndarray(format=pixels)
    except FileFormatError:
        raise
    except Exception as error:  # whatever a damaged video leads to
        kind = str(error).strip() or type(error).__name__
        raise FileFormatError(f"{path}: cannot be read as a video: {kind[:300]}.") from error
    raise FileFormatError(f"{path}: has no frame at {time:.3f} s.")


def array_column(values: list[Any], shape: tuple[int, ...], where: str) -> Float[np.ndarray, "..."]:
    """Numbers of a column, one array of that shape for each frame."""
    try:
        array = np.asarray(values, dtype=np.float64).reshape(len(values), *shape)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{where}: does not hold {list(shape)} numbers a frame.") from error
    if not np.isfinite(array).all():
        raise FileFormatError(f"{where}: holds NaN or infinity.")
    return array
