"""Read tensors out of a pickle without unpickling it.

The paper authors' demonstration files are pickles of nested lists and dicts of torch tensors. A
pickle is a program; running one that came from elsewhere runs whatever its author wished. This
module interprets the few instructions that build strings, numbers, containers and tensors, and
refuses every other one. Nothing is imported, looked up by name or called on the file's behalf:
the names a tensor needs are matched as strings and answered by functions of this module.

A pickle can also say "that one again" in two bytes, and so stand for values of any size. What a
file may cost is therefore counted (`_Budget`), and nothing here walks through a value that the
file has built: values are told apart by their type alone, and only texts and small numbers are
hashed or shown.
"""

from __future__ import annotations

import io
import math
import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.errors import FileFormatError, UnsafeFileError

MAX_DEPTH = 4
"""Tensor storages are pickles inside a pickle; no honest file nests them deeper."""

MAX_INSTRUCTIONS = 50_000
"""Of a whole file, storages included; a demonstration takes a few thousand."""

MAX_GROWTH = 8
"""Bytes of built data per byte of the file; a tensor that is stored as text takes two or three."""

_KEY_BITS = 64
_MAX_DIMENSIONS = 16

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


@dataclass
class _Budget:
    """What is left of what a file may cost.

    Attributes:
        instructions: Still to be carried out, at most.
        size: Bytes still to be built, at most.
    """

    instructions: int
    size: int

    def take_instruction(self) -> None:
        """Count one instruction."""
        self.instructions -= 1
        if self.instructions < 0:
            raise UnsafeFileError(
                f"the file has more than {MAX_INSTRUCTIONS} pickle instructions; it was refused."
            )

    def take_bytes(self, count: int) -> None:
        """Count bytes that are about to be built."""
        self.size -= count
        if self.size < 0:
            raise UnsafeFileError(
                f"the file builds more than {MAX_GROWTH} times as many bytes as it has, by "
                "repeating itself; it was refused."
            )


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
        budget = _Budget(MAX_INSTRUCTIONS, MAX_GROWTH * len(data))
        return _interpret(io.BytesIO(data), budget, depth=0)
    except FileFormatError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, struct.error, OverflowError) as error:
        raise FileFormatError(f"not a readable pickle of tensors: {error}") from error


def _interpret(
    stream: io.BytesIO, budget: _Budget, depth: int, persistent: Callable[[Any], Any] | None = None
) -> Any:
    """Run the instructions up to STOP, give the value, and leave the stream after them."""
    if depth > MAX_DEPTH:
        raise UnsafeFileError("the file nests pickles in pickles too deeply; it was refused.")
    machine = _Machine(budget, depth, persistent)
    for opcode, argument, _ in pickletools.genops(stream):
        budget.take_instruction()
        if opcode.name == "STOP":
            return machine.result()
        machine.step(opcode.name, argument)
    raise FileFormatError("the pickle ends before its STOP instruction.")


class _Machine:
    """The stack, the memo, and the instructions that only build data."""

    def __init__(
        self, budget: _Budget, depth: int, persistent: Callable[[Any], Any] | None
    ) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._budget = budget
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
        self._stack.append(_mapping(values[::2], values[1::2]))

    def _do_setitem(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        _expect(self._stack[-1], dict).update(_mapping([key], [value]))

    def _do_setitems(self, _: Any) -> None:
        values = self._above_mark()
        _expect(self._stack[-1], dict).update(_mapping(values[::2], values[1::2]))

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
        name, module = _expect(self._stack.pop(), str), _expect(self._stack.pop(), str)
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
        self._stack.append(builder(self._budget, self._depth, *arguments))


def _expect(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise FileFormatError(
            f"the pickle has a {type(value).__name__} where a {kind.__name__} goes."
        )
    return value


def _mapping(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    """A dict whose keys are texts or small numbers: others may take forever to hash."""
    for key in keys:
        if not isinstance(key, str) and _expect(key, int).bit_length() > _KEY_BITS:
            raise FileFormatError("the pickle has a dict key of more than 64 bits.")
    return dict(zip(keys, values, strict=True))


def _refusal(module: str, name: str) -> UnsafeFileError:
    return UnsafeFileError(
        f"the file asks for {module[:48]}.{name[:48]}; only tensors and plain data are read, so it "
        "was refused and nothing of it was run."
    )


def _known_name(module: str, name: str) -> _Name:
    if (module, name) in _BUILDERS or (module == "torch" and name in _STORAGE_TYPES):
        return _Name(module, name)
    raise _refusal(module, name)


# --- what stands in for the functions that a tensor's pickle names -----------------------------


def _build_bytes(budget: _Budget, _: int, text: Any, encoding: Any) -> bytes:
    if _expect(encoding, str) != "latin1":
        raise FileFormatError(f"bytes in encoding {encoding[:48]!r}: need 'latin1'.")
    budget.take_bytes(len(_expect(text, str)))
    return str(text).encode("latin1")


def _build_mapping(_: _Budget, __: int) -> dict[Any, Any]:
    """An OrderedDict begins empty; its items follow as instructions of their own."""
    return {}


def _build_storage(budget: _Budget, depth: int, data: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """The numbers of one storage: five pickles (the fourth refers to the data), then raw bytes."""
    raw = bytes(_expect(data, bytes))
    budget.take_bytes(len(raw))
    stream = io.BytesIO(raw)
    parts = [_interpret(stream, budget, depth + 1, _storage_key) for _ in range(5)]
    storage = _expect(parts[3], _StorageKey)
    (count,) = struct.unpack("<q", stream.read(8))
    if count != storage.count or count * storage.kind.itemsize != len(raw) - stream.tell():
        raise FileFormatError(
            f"a tensor says {storage.count} numbers but its data has another size."
        )
    return np.frombuffer(raw, storage.kind, count, stream.tell())


def _storage_key(reference: Any) -> _StorageKey:
    kind, storage_type, key, _, count, *_ = _expect(reference, tuple)
    if _expect(kind, str) != "storage":
        raise FileFormatError(f"reference to {kind[:48]!r}: need 'storage'.")
    name = _expect(storage_type, _Name).name
    return _StorageKey(np.dtype(_STORAGE_TYPES[name]), _expect(key, str), _expect(count, int))


def _build_tensor(
    budget: _Budget, _: int, storage: Any, offset: Any, size: Any, stride: Any, *__: Any
) -> np.ndarray[Any, np.dtype[Any]]:
    """A strided copy out of a storage, with every index checked against its end."""
    flat = _expect(storage, np.ndarray)
    (start,), shape, steps = _lengths([offset]), _lengths(size), _lengths(stride)
    if len(shape) != len(steps):
        raise FileFormatError(f"a tensor has shape {shape} and strides {steps}.")
    elements = math.prod(shape)
    last = start + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    if elements > flat.size or (elements > 0 and last >= flat.size):
        raise FileFormatError(f"a tensor of shape {shape} does not fit its {flat.size} numbers.")
    budget.take_bytes(elements * flat.itemsize)
    strides = [step * flat.itemsize for step in steps]
    view = np.lib.stride_tricks.as_strided(flat[start:], shape, strides, writeable=False)
    return view.copy()


def _lengths(values: Any) -> tuple[int, ...]:
    """A few whole numbers, none of them negative or absurd."""
    found = tuple(_expect(value, int) for value in values[:_MAX_DIMENSIONS])
    if len(values) > _MAX_DIMENSIONS or not all(0 <= value < 2**63 for value in found):
        raise FileFormatError(
            f"a tensor has {len(values)} sizes or strides: need at most {_MAX_DIMENSIONS}, 0 or "
            "more each."
        )
    return found


_BUILDERS: dict[tuple[Any, Any], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _build_tensor,
    ("torch.storage", "_load_from_bytes"): _build_storage,
    ("_codecs", "encode"): _build_bytes,
    ("collections", "OrderedDict"): _build_mapping,
}
