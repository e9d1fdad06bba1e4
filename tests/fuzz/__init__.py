"""A structured fuzzer of everything that `handful` reads, with a corpus of what it once found.

`python -m fuzz --minutes 30` (or `make fuzz MINUTES=30`) runs it as long as one likes;
`tests/integration/test_fuzz.py` runs the corpus and some seconds of it. A case is right if it ends
with a value or a `HandfulError`, in time, within memory, and without a write outside of its folder,
a started program or an unpickled class.
"""
