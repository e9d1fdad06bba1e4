"""The order in which parallel test processes run the tests: long ones first.

`pytest -n N --dist worksteal` gives each of N processes one Nth of the tests, in order, and lets a
process that has finished take the later half of what another one still has to do. The last two
tests of a process are never taken. A long test among them keeps one process busy while the others
idle, so the long tests are spread over the processes and come first, and short tests even it out.
"""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def long_first(tests: Sequence[T], seconds: Sequence[float], processes: int) -> list[T]:
    """Order tests such that each process begins with its share of the long ones.

    Args:
        tests: In the order in which they were collected.
        seconds: About how long each takes; 0 for short ones, which keep their order.
        processes: How many share the tests, as `worksteal` does: the first process gets the first
            `len(tests) // processes`.

    Returns:
        The same tests.
    """
    longest = sorted((n for n in range(len(tests)) if seconds[n] > 0), key=lambda n: -seconds[n])
    short = [n for n in range(len(tests)) if seconds[n] <= 0]
    shares: list[list[int]] = [[] for _ in range(processes)]
    for number in longest:
        least = min(shares, key=lambda share: sum(seconds[n] for n in share))
        least.append(number)
    order: list[int] = []
    for index, share in enumerate(shares):
        size = (len(tests) - len(order)) // (processes - index)
        room = max(0, size - len(share))
        order += share + short[:room]
        del short[:room]
    return [tests[n] for n in order]
