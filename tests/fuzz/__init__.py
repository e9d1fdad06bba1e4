"""A structured fuzzer of everything that `handful` reads, with a corpus of what it once found.

`python -m fuzz --minutes 30` (or `make fuzz MINUTES=30`) runs it as long as one likes;
`tests/integration/test_fuzz.py` runs the corpus and some seconds of it. A case is right if it ends
with a value or a `HandfulError`, in time, within memory, and without a write outside of its folder,
a started program or an unpickled class.
"""

from numba.core.dispatcher import Dispatcher


def _kept_nowhere(_: Dispatcher) -> None:
    """Compiled code is kept by numba in files of its own, as pickles: not what is watched here."""
    raise RuntimeError("cannot cache function: the fuzzer does without")


Dispatcher.enable_caching = _kept_nowhere
