"""A bag of ROS 1 or ROS 2, read with the standard message types and never with the bag's own.

`rosbags` makes Python code of message definitions. Those in a bag may come from anyone, so that
they are not used: all that is needed here is standard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from handful._files import check_regular, read_bytes
from handful._memory import bounded_memory
from handful.errors import DemoError, FileFormatError, HandfulError, unknown_name_message
from handful.recordings._extras import required

NANO = 1e-9
_TF_MESSAGE = "geometry_msgs/TransformStamped[] transforms"
METADATA = "metadata.yaml"
MAX_METADATA = 2**20
"""Bytes of the file that lists the files and topics of a bag of ROS 2."""
_PACKED_FILES = re.compile(r"compression_mode:\s*[\"']?file\b", re.IGNORECASE)
_TF_TYPES = ("tf2_msgs/msg/TFMessage", "tf/msg/tfMessage")


class Bag:
    """An open bag.

    Args:
        path: For messages.
        reader: Of the package `rosbags`, open.
        decode: Makes a message of bytes and the name of its type.
    """

    def __init__(self, path: Path, reader: Any, decode: Callable[[bytes, str], Any]) -> None:
        self.path = path
        self._reader = reader
        self._decode = decode
        self.types = {one.topic: one.msgtype for one in reader.connections}

    def check_topic(self, topic: str, kinds: tuple[str, ...], option: str) -> None:
        """Refuse a topic that is not there, or not of one of some types.

        Args:
            topic: Its name.
            kinds: Endings of types, for example `PointCloud2`.
            option: Where it was given, for messages.
        """
        if topic not in self.types:
            message = unknown_name_message("topic", topic, self.types)
            raise DemoError(f"{self.path}: {option}: {message}")
        if not self.types[topic].endswith(kinds):
            raise DemoError(
                f"{self.path}: {option}: topic {topic!r} has the type {self.types[topic]}: need "
                f"{' or '.join(kinds)}."
            )

    def messages(self, topic: str) -> Iterator[tuple[int, Any]]:
        """Times and messages of a topic."""
        for connection, time, data in self._raw(topic):
            yield time, self._message(data, connection.msgtype, topic)

    def message_at(self, topic: str, time: int) -> Any:
        """The message of a topic that was recorded at a time, nanoseconds."""
        for connection, _, data in self._raw(topic, time, time + 1):
            return self._message(data, connection.msgtype, topic)
        raise FileFormatError(f"{self.path}: {topic} has no message at {time * NANO:.3f} s.")

    def _raw(
        self, topic: str, start: int | None = None, stop: int | None = None
    ) -> Iterator[tuple[Any, int, bytes]]:
        chosen = [one for one in self._reader.connections if one.topic == topic]
        found = self._reader.messages(connections=chosen, start=start, stop=stop) if chosen else ()
        parts = iter(found)
        while True:
            try:
                with bounded_memory(self.path):
                    part = next(parts)
            except StopIteration:
                return
            except HandfulError:
                raise
            except Exception as error:  # whatever damaged bytes lead to
                raise FileFormatError(
                    f"{self.path}: messages of {topic} cannot be read: {_short(error)}."
                ) from error
            yield part

    def _message(self, data: bytes, kind: str, topic: str) -> Any:
        try:
            with bounded_memory(self.path):
                return self._decode(data, kind)
        except HandfulError:
            raise
        except Exception as error:  # the decoder raises whatever damaged bytes lead to
            raise FileFormatError(
                f"{self.path}: a message of {topic} cannot be read as {kind}: {_short(error)}."
            ) from error


@contextmanager
def open_bag(path: Path) -> Iterator[Bag]:
    """Open a bag: a `.bag` file, an `.mcap` or `.db3` file, or a folder with `metadata.yaml`.

    Raises:
        HandfulError: It is none, is damaged, or `rosbags` is not installed.
    """
    store = required("rosbags.typesys", "ros")
    if not path.exists():
        raise DemoError(f"{path}: no such file or folder.")
    first = path.suffix.lower() == ".bag" and path.is_file()
    package = required("rosbags.rosbag1" if first else "rosbags.rosbag2", "ros")
    types = store.get_typestore(store.Stores.ROS1_NOETIC if first else store.Stores.ROS2_HUMBLE)
    if first:
        for name in _TF_TYPES:
            types.register(store.get_types_from_msg(_TF_MESSAGE, name))
    decode = types.deserialize_ros1 if first else types.deserialize_cdr
    _check_files(path)
    try:
        with bounded_memory(path):
            reader = package.Reader(path)
            reader.open()
    except FileFormatError:
        raise
    except Exception as error:  # whatever a damaged file leads to
        raise FileFormatError(
            f"{path}: is not a readable bag: {_short(error)}. Give a .bag, .mcap or .db3 file, or "
            "the folder of a ROS 2 bag."
        ) from error
    try:
        yield Bag(path, reader, decode)
    finally:
        reader.close()


def _check_files(path: Path) -> None:
    """Refuse a bag of which something is no file, is no list of files, or has to be unpacked."""
    if not path.is_dir():
        check_regular(path)
        return
    for one in path.iterdir():
        check_regular(one)
    described = path / METADATA
    if described.exists():
        text = read_bytes(described, MAX_METADATA).decode("utf-8", "replace")
        if _PACKED_FILES.search(text):
            raise FileFormatError(
                f"{described}: its files are compressed as a whole: unpack them with `ros2 bag "
                "convert` first."
            )


def _short(error: BaseException) -> str:
    """What a library says of an error; its first line, or its kind."""
    lines = str(error).strip().splitlines()
    return (lines[0][:300] if lines else type(error).__name__).rstrip(".")
