"""The order of tests in parallel processes (`tests/order.py`)."""

import pytest

from order import long_first


def queues(order: list[str], processes: int) -> list[list[str]]:
    """What `worksteal` sends to each process at first."""
    rest, found = list(order), []
    for index in range(processes):
        size = len(rest) // (processes - index)
        found.append(rest[:size])
        del rest[:size]
    return found


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_every_process_begins_with_its_share_of_the_long_tests(processes):
    tests = [f"short {n}" for n in range(20)] + [f"long {n}" for n in range(8)]
    seconds = [0.0] * 20 + [10.0, 80.0, 30.0, 20.0, 50.0, 60.0, 40.0, 70.0]
    order = long_first(tests, seconds, processes)
    assert sorted(order) == sorted(tests)
    total = []
    for queue in queues(order, processes):
        taken = [seconds[tests.index(test)] for test in queue]
        long = [time for time in taken if time]
        assert taken[: len(long)] == sorted(long, reverse=True), "long ones first, longest first"
        total.append(sum(taken))
    assert max(total) - min(total) <= 60.0
    assert max(total) <= 1.34 * 360.0 / processes


def test_short_tests_keep_their_order():
    tests = list("abcdefgh")
    assert long_first(tests, [0.0] * 8, 2) == tests
    assert [t for t in long_first(tests, [0, 0, 9.0, 0, 0, 0, 5.0, 0], 2) if t not in "cg"] == list(
        "abdefh"
    )


def test_more_long_tests_than_fit_into_a_share_are_all_kept():
    tests = list("abcdef")
    order = long_first(tests, [100.0, 1.0, 1.0, 1.0, 1.0, 1.0], 2)
    assert sorted(order) == tests
    assert order[0] == "a"
