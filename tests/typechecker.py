"""The run-time type and shape checker that the test suite installs over `handful`.

jaxtyping's import hook decorates every function and dataclass. Its own decorator binds the
arguments of each call to the signature, checks them twice, and compiles two functions whenever a
nested function is defined: most of the time of many tests. The decorator here makes the same checks
for a fraction of that time: beartype checks the arguments before a call and the result after it,
and one name of a dimension has one size in all of them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from types import FunctionType, NoneType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeCallHintViolation

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))

_sizes = jaxtyping.jaxtyped("context")
"""Sizes of dimensions are compared within this context, and forgotten at its end."""

Check = Callable[..., None]


def install(package: str) -> None:
    """Check all functions of a package that is not imported yet."""
    jaxtyping.jaxtyped = _decorated  # which is what the hook writes over every function and class
    jaxtyping.install_import_hook(package, "typechecker.checked")


def _decorated(*, typechecker: object) -> Callable[[Any], Any]:
    """What the import hook asks for; the checker is always `checked`."""
    return with_checks


def with_checks(thing: Any) -> Any:
    """A function, or a class, whose dataclass is checked when it is made."""
    if not inspect.isclass(thing):
        return _checked_function(thing)
    if dataclasses.is_dataclass(thing) and not hasattr(thing.__init__, "__checked__"):
        thing.__init__ = _checked_function(thing.__init__)
    return thing


def _checked_function(function: FunctionType) -> Callable[..., Any]:
    if getattr(function, "__no_type_check__", False):
        return function
    parameters, result, shaped = _checks_of(function)

    def in_one_context(*values: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*values, **named)
        with _sizes:
            return in_any_context(*values, **named)

    def in_any_context(*values: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*values, **named)
        try:
            parameters(*values, **named)
        except BeartypeCallHintViolation as error:
            raise _wrong("parameters", function, error) from None
        found = function(*values, **named)
        try:
            result(found)
        except BeartypeCallHintViolation as error:
            raise _wrong("result", function, error) from None
        return found

    wrapped = functools.wraps(function)(in_one_context if shaped else in_any_context)
    wrapped.__checked__ = True  # type: ignore[attr-defined]
    return wrapped


def _wrong(what: str, function: FunctionType, error: Exception) -> jaxtyping.TypeCheckError:
    where = f"{function.__module__}.{function.__qualname__}"
    return jaxtyping.TypeCheckError(f"{what} of {where}: {error}")


_known: dict[Any, tuple[Check, Check, bool]] = {}


def _checks_of(function: FunctionType) -> tuple[Check, Check, bool]:
    """Checks of parameters and of the result, and whether they compare sizes of dimensions.

    A function in another one is defined again by each call of that one: its checks are kept.
    """
    key = function.__code__, tuple(function.__annotations__.items())
    try:
        known = _known.get(key)
    except TypeError:  # an annotation that cannot be hashed
        return _new_checks_of(function)
    if known is None:
        known = _known[key] = _new_checks_of(function)
    return known


def _new_checks_of(function: FunctionType) -> tuple[Check, Check, bool]:
    hints = {
        name: _resolved(hint, function.__globals__)
        for name, hint in function.__annotations__.items()
    }
    shaped = any(_may_have_shape(hint) for hint in hints.values())
    result = _result_check(hints.pop("return", Any))
    return _parameter_check(function, hints), result, shaped


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    """An annotation that is no text; `Any` for names that only type checkers import."""
    if not isinstance(hint, str):
        return hint
    holder = FunctionType((lambda value: None).__code__, names)
    holder.__annotations__ = {"value": hint}
    try:
        return typing.get_type_hints(holder, include_extras=True)["value"]
    except Exception:
        return Any


def _may_have_shape(hint: Any) -> bool:
    """Whether something in an annotation may be an array with dimensions."""
    parts = [part for one in typing.get_args(hint) for part in _flat(one)]
    if parts:
        return any(_may_have_shape(part) for part in parts)
    if inspect.isclass(hint):
        return issubclass(hint, jaxtyping.AbstractArray) or hint.__module__ == "jaxtyping"
    return not (hint in (None, Any, Ellipsis) or isinstance(hint, str | int | bytes))


def _flat(argument: Any) -> Iterator[Any]:
    """The arguments of a `Callable` are a list in the arguments of its annotation."""
    if isinstance(argument, list):
        yield from argument
    else:
        yield argument


def _parameter_check(function: FunctionType, hints: dict[str, Any]) -> Check:
    """A function that takes the same parameters, checks them and does nothing."""
    signature = inspect.signature(function, follow_wrapped=False)
    bare = [
        one.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
        for one in signature.parameters.values()
    ]
    taken = inspect.Signature(bare)
    scope: dict[str, Any] = {}
    exec(f"def {function.__name__}{taken}: pass", scope)
    check = scope[function.__name__]
    check.__annotations__ = hints
    check.__defaults__, check.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    check.__module__, check.__qualname__ = function.__module__, function.__qualname__
    return checked(check)


def _result_check(hint: Any) -> Check:
    if hint is Any or hint is typing.NoReturn:
        return _nothing
    return _kept_result_check(NoneType if hint is None else hint)


def _nothing(value: Any) -> None:
    """The check of what may be anything."""


@functools.cache
def _kept_result_check(hint: Any) -> Check:
    def result(value: Any) -> None:
        pass

    result.__annotations__ = {"value": hint}
    return checked(result)
