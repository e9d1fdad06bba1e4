"""Read tensors out of a pickle without unpickling it.

The paper authors' demonstration files are pickles of nested lists and dicts of torch tensors. A
pickle is a program; running one that came from elsewhere runs whatever its author wished. This
module interprets the few instructions that build strings, numbers, containers and tensors, and
refuses every other one. Nothing is imported, looked up by name or called on the file's behalf:
the names a tensor needs are matched as strings and answered by functions of this module.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.errors import FileFormatError, UnsafeFileError

MAX_DEPTH = 4
"""Tensor storages are pickles inside a pickle; no honest file nests them deeper."""

_MARK = object()

_INTEGERS = {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4"}
_TEXTS = {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"}
_BYTES = {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING"}
_LITERAL = _INTEGERS | _TEXTS | _BYTES | {"BINFLOAT", "FLOAT"}
_CONSTANT = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_IGNORED = frozenset({"PROTO", "FRAME"})

_STORAGE_TYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "ByteStorage": "|u1",
    "CharStorage": "|i1",
    "ShortStorage": "<i2",
    "IntStorage": "<i4",
    "LongStorage": "<i8",
}


@dataclass(frozen=True)
class _Name:
    """A global that the pickle names; data, never looked up."""

    module: str
    name: str


@dataclass(frozen=True)
class _StorageKey:
    """A reference from the tensor's header to the numbers that follow it."""

    kind: np.dtype[Any]
    key: str
    count: int


def read_tensor_pickle(data: bytes) -> Any:
    """The lists, dicts, strings, numbers and tensors (as numpy arrays) in a pickle.

    Args:
        data: The whole pickle.

    Raises:
        UnsafeFileError: It asks for anything but data.
        FileFormatError: It is malformed or truncated.
    """
    try:
        return _interpret(data, 0, depth=0)[0]
    except FileFormatError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, struct.error, OverflowError) as error:
        raise FileFormatError(f"not a readable pickle of tensors: {error}") from error


def _interpret(
    data: bytes, start: int, depth: int, persistent: Callable[[Any], Any] | None = None
) -> tuple[Any, int]:
    """Run the instructions from `start` up to STOP; give the value and where they end."""
    if depth > MAX_DEPTH:
        raise UnsafeFileError("the file nests pickles in pickles too deeply.")
    machine = _Machine(depth, persistent)
    for opcode, argument, position in pickletools.genops(memoryview(data)[start:].tobytes()):
        if opcode.name == "STOP":
            return machine.result(), start + (position or 0) + 1
        machine.step(opcode.name, argument)
    raise FileFormatError("the pickle ends before its STOP instruction.")


class _Machine:
    """The stack, the memo, and the instructions that only build data."""

    def __init__(self, depth: int, persistent: Callable[[Any], Any] | None) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._depth = depth
        self._persistent = persistent

    def result(self) -> Any:
        (value,) = self._stack
        return value

    def step(self, name: str, argument: Any) -> None:
        """Carry out one instruction."""
        if name in _IGNORED:
            return
        if name in _LITERAL:
            self._stack.append(argument)
        elif name in _CONSTANT:
            self._stack.append(_CONSTANT[name])
        elif (build := getattr(self, f"_do_{name.lower()}", None)) is not None:
            build(argument)
        else:
            raise UnsafeFileError(
                f"the file uses the pickle instruction {name}, which plain data does not need; "
                "it was refused and nothing of it was run."
            )

    def _above_mark(self) -> list[Any]:
        for index in range(len(self._stack) - 1, -1, -1):
            if self._stack[index] is _MARK:
                values = self._stack[index + 1 :]
                del self._stack[index:]
                return values
        raise FileFormatError("the pickle closes a group that it never opened.")

    def _do_mark(self, _: Any) -> None:
        self._stack.append(_MARK)

    def _do_pop(self, _: Any) -> None:
        self._stack.pop()

    def _do_empty_list(self, _: Any) -> None:
        self._stack.append([])

    def _do_list(self, _: Any) -> None:
        self._stack.append(self._above_mark())

    def _do_append(self, _: Any) -> None:
        value = self._stack.pop()
        _expect(self._stack[-1], list).append(value)

    def _do_appends(self, _: Any) -> None:
        values = self._above_mark()
        _expect(self._stack[-1], list).extend(values)

    def _do_empty_dict(self, _: Any) -> None:
        self._stack.append({})

    def _do_dict(self, _: Any) -> None:
        values = self._above_mark()
        self._stack.append(dict(zip(values[::2], values[1::2], strict=True)))

    def _do_setitem(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        _expect(self._stack[-1], dict)[key] = value

    def _do_setitems(self, _: Any) -> None:
        values = self._above_mark()
        _expect(self._stack[-1], dict).update(zip(values[::2], values[1::2], strict=True))

    def _do_empty_tuple(self, _: Any) -> None:
        self._stack.append(())

    def _do_tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._above_mark()))

    def _do_tuple1(self, _: Any) -> None:
        self._tuple(1)

    def _do_tuple2(self, _: Any) -> None:
        self._tuple(2)

    def _do_tuple3(self, _: Any) -> None:
        self._tuple(3)

    def _tuple(self, size: int) -> None:
        values = tuple(self._stack[-size:])
        if len(values) != size:
            raise FileFormatError("the pickle takes more values than it has.")
        self._stack[-size:] = [values]

    def _do_binput(self, slot: int) -> None:
        self._memo[slot] = self._stack[-1]

    _do_long_binput = _do_put = _do_binput

    def _do_memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _do_binget(self, slot: int) -> None:
        self._stack.append(self._memo[slot])

    _do_long_binget = _do_get = _do_binget

    def _do_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(_known_name(module, name))

    def _do_stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(_known_name(module, name))

    def _do_binpersid(self, _: Any) -> None:
        reference = self._stack.pop()
        if self._persistent is None:
            raise UnsafeFileError("the file refers to data outside itself; it was refused.")
        self._stack.append(self._persistent(reference))

    def _do_reduce(self, _: Any) -> None:
        """Where a pickle would call a function; only the tensor builders are answered."""
        arguments, target = _expect(self._stack.pop(), tuple), self._stack.pop()
        builder = _BUILDERS.get((_expect(target, _Name).module, target.name))
        if builder is None:
            raise _refusal(target.module, target.name)
        self._stack.append(builder(self._depth, *arguments))


def _expect(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise FileFormatError(
            f"the pickle has a {type(value).__name__} where a {kind.__name__} goes."
        )
    return value


def _refusal(module: Any, name: Any) -> UnsafeFileError:
    return UnsafeFileError(
        f"the file asks for {module}.{name}; only tensors and plain data are read, so it was "
        "refused and nothing of it was run."
    )


def _known_name(module: Any, name: Any) -> _Name:
    if (module, name) in _BUILDERS or (module == "torch" and name in _STORAGE_TYPES):
        return _Name(module, name)
    raise _refusal(module, name)


# --- what stands in for the functions that a tensor's pickle names -----------------------------


def _build_bytes(_: int, text: Any, encoding: Any) -> bytes:
    if encoding != "latin1":
        raise FileFormatError(f"bytes in encoding {encoding!r}: need 'latin1'.")
    return str(_expect(text, str)).encode("latin1")


def _build_mapping(_: int, *pairs: Any) -> dict[Any, Any]:
    return dict(*pairs)


def _build_storage(depth: int, data: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """The numbers of one storage: five pickles (the fourth refers to the data), then raw bytes."""
    raw = bytes(_expect(data, bytes))
    position, root = 0, None
    for part in range(5):
        value, position = _interpret(raw, position, depth + 1, _storage_key)
        root = value if part == 3 else root
    storage = _expect(root, _StorageKey)
    (count,) = struct.unpack_from("<q", raw, position)
    end = position + 8 + count * storage.kind.itemsize
    if count != storage.count or end != len(raw):
        raise FileFormatError(
            f"a tensor says {storage.count} numbers but its data has another size."
        )
    return np.frombuffer(raw, storage.kind, count, position + 8)


def _storage_key(reference: Any) -> _StorageKey:
    kind, storage_type, key, _, count, *_ = _expect(reference, tuple)
    if kind != "storage":
        raise FileFormatError(f"reference to {kind!r}: need 'storage'.")
    name = _expect(storage_type, _Name).name
    return _StorageKey(np.dtype(_STORAGE_TYPES[name]), str(key), int(count))


def _build_tensor(
    _: int, storage: Any, offset: Any, size: Any, stride: Any, *__: Any
) -> np.ndarray[Any, np.dtype[Any]]:
    """A strided copy out of a storage, with every index checked against its end."""
    flat = _expect(storage, np.ndarray)
    shape, steps = tuple(map(int, size)), tuple(map(int, stride))
    if len(shape) != len(steps) or int(offset) < 0 or min((*shape, *steps), default=0) < 0:
        raise FileFormatError(f"a tensor has offset {offset}, shape {shape} and strides {steps}.")
    elements = int(np.prod(shape, dtype=object))
    last = int(offset) + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    if elements > flat.size or (elements > 0 and last >= flat.size):
        raise FileFormatError(f"a tensor of shape {shape} does not fit its {flat.size} numbers.")
    strides = [step * flat.itemsize for step in steps]
    view = np.lib.stride_tricks.as_strided(flat[int(offset) :], shape, strides, writeable=False)
    return view.copy()


_BUILDERS: dict[tuple[Any, Any], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _build_tensor,
    ("torch.storage", "_load_from_bytes"): _build_storage,
    ("_codecs", "encode"): _build_bytes,
    ("collections", "OrderedDict"): _build_mapping,
}
