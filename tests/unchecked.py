"""Calls as users make them: the run-time type checker of the tests stands aside."""

from collections.abc import Callable

from jaxtyping import config


def unchecked(call: Callable[[], object]) -> None:
    """Call something without the run-time type checker."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        call()
    finally:
        config.update("jaxtyping_disable", before)
