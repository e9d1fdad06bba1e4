"""Messages of errors: bounded, whatever a file holds, with their start and their end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful.errors import LONGEST_MESSAGE, DemoError, HandfulError, OptionError

kinds = st.sampled_from([HandfulError, DemoError, OptionError])


@given(kinds, st.text(max_size=50), st.integers(0, 3 * LONGEST_MESSAGE), st.text(max_size=50))
def test_messages_are_bounded_and_keep_their_start_and_end(kind, start, middle, end):
    whole = start + "0" * middle + end
    said = str(kind(whole))
    assert len(said) <= LONGEST_MESSAGE
    assert said.startswith(start)
    assert said.endswith(end)
    assert (said == whole) == (len(whole) <= LONGEST_MESSAGE)


def test_a_message_that_quotes_a_message_is_bounded_too():
    inner = DemoError("is " + "0, " * 10_000 + ": need 3 numbers.")
    outer = str(OptionError(f"file.json: {inner} See docs."))
    assert outer.startswith("file.json: is 0, ")
    assert outer.endswith(": need 3 numbers. See docs.")
    assert len(outer) <= LONGEST_MESSAGE


def test_an_error_without_a_message_has_none():
    with pytest.raises(HandfulError) as raised:
        raise HandfulError
    assert str(raised.value) == ""
