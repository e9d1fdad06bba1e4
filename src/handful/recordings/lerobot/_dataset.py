"""LeRobot data sets, format 3: JSON and Parquet tables, and videos. Without the package lerobot."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from handful._strict_json import parse_json
from handful.demos import member_path
from handful.errors import DemoError, FileFormatError, unknown_name_message
from handful.recordings._extras import required

INFO = "meta/info.json"
EPISODES = "meta/episodes"
_FIELD = re.compile(r"\{(\w+)(?::0(\d)d)?\}")
_MOST_INFO = 16 * 2**20


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
        if path.stat().st_size > _MOST_INFO:
            raise FileFormatError(f"{path}: larger than {_MOST_INFO >> 20} MiB.")
        info = parse_json(path.read_text(encoding="utf-8"), str(path))
        version = str(info.get("codebase_version")) if isinstance(info, dict) else "none"
        if not version.startswith("v3."):
            raise DemoError(
                f"{path}: has the version {version!r}: need 'v3.0'. Convert older data sets with "
                "lerobot's own script convert_dataset_v21_to_v30."
            )
        self._info: dict[str, Any] = info
        self.features: dict[str, Any] = dict(info.get("features") or {})

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
            for row in self._table(path).to_pylist():
                found[int(row["episode_index"])] = row
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
        return dict(self.features[name])

    def channel(self, feature: str, name: str, where: str) -> int:
        """The place of a channel in a feature, by its name."""
        names = self.check_feature(feature, where).get("names")
        if isinstance(names, dict):
            names = next((value for value in names.values() if isinstance(value, list)), None)
        known = [str(one) for one in names or ()]
        if name not in known:
            raise DemoError(
                f"{where}: feature {feature!r}: {unknown_name_message('channel', name, known)}"
            )
        return known.index(name)

    def columns(self, episode: int, names: list[str]) -> dict[str, list[Any]]:
        """Columns of an episode's table, in the order of its frames."""
        table = self._rows([*names, "frame_index"], episode)
        part = table.sort_by("frame_index")
        return {name: part.column(name).to_pylist() for name in names}

    def cell(self, episode: int, name: str, frame: int) -> Any:
        """A feature in one frame of an episode, counted from 0."""
        rows = self._rows([name], episode, ("frame_index", "==", frame)).column(name).to_pylist()
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
        return path, float(self.episodes[episode].get(f"videos/{feature}/from_timestamp", 0.0))

    def _file(self, template: str, start: str, episode: int, feature: str = "") -> Path:
        row = self.episodes[episode]
        values: dict[str, Any] = {"video_key": feature, "episode_index": episode}
        for name in ("chunk_index", "file_index"):
            value = row.get(f"{start}/{name}")
            if value is None:
                raise DemoError(f"{self.folder}: episode {episode} has no {start}/{name}.")
            values[name] = int(value)
        text = str(self._info.get(template))
        path = _FIELD.sub(lambda field: _filled(field, values, text), text)
        return member_path(self.folder, path, f"{self.folder / INFO}: {template}")

    def _table(self, path: Path, columns: list[str] | None = None, rows: Any = None) -> Any:
        try:
            return self._parquet.read_table(path, columns=columns, filters=rows)
        except Exception as error:  # whatever a damaged table leads to
            raise FileFormatError(f"{path}: cannot be read: {error}.") from error


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
    try:
        with av.open(str(path)) as container:
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
        raise FileFormatError(f"{path}: cannot be read as a video: {error}.") from error
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
