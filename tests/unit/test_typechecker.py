"""The checker of types and shapes that the whole suite runs under finds what is wrong."""

import importlib
import sys
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from handful.clouds import PointCloud
from handful.geometry import pose_apply

MODULE = """
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from jaxtyping import Float, Int

if TYPE_CHECKING:
    from nowhere import Unknown

Row = Float[np.ndarray, "n"]


@dataclass(frozen=True)
class Pair:
    one: Float[np.ndarray, "n"]
    two: Float[np.ndarray, "n"]
    name: str = ""

    @classmethod
    def twice(cls, one: Row) -> Pair:
        return cls(one, one)

    @property
    def total(self) -> int:
        return self.name

    @cached_property
    def kept(self) -> int:
        return self.name

    @staticmethod
    def half(number: int) -> float:
        return number // 2


def add(one: Row, two: Row | None = None, *, times: int = 1) -> Row:
    return one if two is None else times * (one + two)


def cut(one: Row) -> Row:
    return one[1:]


def rows(many: list[Row]) -> None:
    pass


def words(count: float, *names: str, **more: int) -> str:
    return " ".join(names) if count else None


def outer(value: object) -> int:
    def inner(number: int) -> int:
        return number

    return inner(value)


def each(values: list[float]) -> Iterator[int]:
    yield from values


def stranger(one: Unknown) -> Unknown:
    return one


def never() -> NoReturn:
    raise KeyError("never")


def called(with_rows: Callable[[Row], Row]) -> Int[np.ndarray, ""]:
    return np.array(1)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A module in the package that is checked."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "made_up.py").write_text(MODULE)
    hook = next(one for one in sys.meta_path if hasattr(one, "modules"))
    sys.path.insert(0, str(folder))
    before = hook.modules
    hook.modules = [*before, "made_up"]
    try:
        yield importlib.import_module("made_up")
    finally:
        hook.modules = before
        sys.path.remove(str(folder))
        del sys.modules["made_up"]


THREE, FOUR = np.zeros(3), np.zeros(4)


def test_what_is_right_passes(made):
    assert made.add(THREE, THREE, times=2).shape == (3,)
    assert made.add(one=THREE).shape == (3,)
    assert made.Pair(THREE, THREE).name == ""
    assert made.Pair.twice(FOUR).two.shape == (4,), "sizes of one call are not those of another"
    assert made.words(2, "a", "b", more=3) == "a b", "a whole number is a number"
    assert made.rows([THREE, THREE]) is None
    assert made.Pair.half(4) == 2
    assert made.outer(3) == 3
    assert list(made.each([1.0])) == [1.0]
    assert made.stranger("anything") == "anything"
    assert made.called(lambda row: row) == 1
    with pytest.raises(KeyError):
        made.never()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda made: made.add(THREE, FOUR), "parameters of made_up.add"),
        (lambda made: made.add(THREE.astype(int)), "parameters of made_up.add"),
        (lambda made: made.add(THREE[None]), "parameters of made_up.add"),
        (lambda made: made.add([0.0]), "parameters of made_up.add"),
        (lambda made: made.add(THREE, times="2"), "parameters of made_up.add"),
        (lambda made: made.cut(THREE), "result of made_up.cut"),
        (lambda made: made.rows([FOUR[None]]), "parameters of made_up.rows"),
        (lambda made: made.Pair(THREE, FOUR), "parameters of made_up.Pair.__init__"),
        (lambda made: made.Pair(THREE, THREE, 3), "parameters of made_up.Pair.__init__"),
        (lambda made: made.Pair.twice(3), "parameters of made_up.Pair.twice"),
        (lambda made: made.Pair.half("4"), "parameters of made_up.Pair.half"),
        (lambda made: made.Pair(THREE, THREE).total, "result of made_up.Pair.total"),
        (lambda made: made.Pair(THREE, THREE).kept, "result of made_up.Pair.kept"),
        (lambda made: made.words(1, 2), "parameters of made_up.words"),
        (lambda made: made.words(1, more="3"), "parameters of made_up.words"),
        (lambda made: made.words(0), "result of made_up.words"),
        (lambda made: made.outer("3"), "parameters of made_up.outer.<locals>.inner"),
        (lambda made: made.called(3), "parameters of made_up.called"),
    ],
)
def test_what_is_wrong_is_told(made, call, told):
    for _ in range(2):  # the checks of a function are kept
        with pytest.raises(TypeCheckError, match=told):
            call(made)


def test_missing_and_unknown_arguments_are_told(made):
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        made.add()
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        made.add(THREE, often=2)


def test_the_functions_of_handful_are_checked():
    with pytest.raises(TypeCheckError, match=r"pose_apply"):
        pose_apply(np.eye(4), np.zeros((2, 3)))
    with pytest.raises(TypeCheckError, match=r"PointCloud\.transformed"):
        PointCloud(np.eye(3)).transformed(np.eye(3))


def test_the_checker_can_be_put_aside(made):
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        assert made.outer("3") == "3"
        assert made.Pair(THREE, FOUR).name == ""
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


def test_names_and_documentation_stay():
    assert PointCloud.transformed.__name__ == "transformed"
    assert PointCloud.transformed.__doc__
    assert Path(sys.modules[PointCloud.__module__].__file__).name == "_cloud.py"
