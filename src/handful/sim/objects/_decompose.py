"""Taking a mesh apart into convex pieces, in a process of its own.

CoACD is compiled code that cannot be interrupted and may crash or run for hours on odd meshes. This
module is the caller's side and, run as a program, the other side, which loads nothing but numpy
and CoACD.
"""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

MOST_SECONDS = 600.0
"""After which a mesh is given up; a usual one takes a minute."""
MOST_MEMORY = 4 * 2**30
"""Bytes of the other process."""
SETTINGS = {
    "threshold": 0.04,
    "mcts_nodes": 10,
    "mcts_iterations": 40,
    "mcts_max_depth": 2,
    "resolution": 1000,
    "preprocess_mode": "on",  # remeshing closes holes and takes a quarter of the time
    "preprocess_resolution": 45,
    "seed": 0,
}


class NotTakenApart(Exception):
    """A mesh could not be taken apart, with the reason."""


def take_apart(
    vertices: np.ndarray,
    faces: np.ndarray,
    on_second: Callable[[float], None] | None = None,
    most_seconds: float = MOST_SECONDS,
) -> list[np.ndarray]:
    """Corners of the convex pieces of a mesh.

    Args:
        vertices: [vertices, 3], metres.
        faces: [faces, 3].
        on_second: Told the seconds that have passed, once a second.
        most_seconds: After which it is given up.

    Raises:
        NotTakenApart: It takes too long, or the other process fails. Whatever ends the wait, an
            interrupt too, ends the other process.
    """
    given = io.BytesIO()
    np.savez(given, vertices=vertices, faces=faces)
    start = time.monotonic()
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            waiting: bytes | None = given.getvalue()
            while True:
                try:
                    answer, _ = process.communicate(waiting, timeout=1.0)
                    break
                except subprocess.TimeoutExpired:
                    waiting = None  # it was passed on with the first call
                    seconds = time.monotonic() - start
                    if seconds > most_seconds:
                        raise NotTakenApart(
                            f"taking it apart takes more than {most_seconds:.0f} s: give a simpler "
                            "mesh."
                        ) from None
                    if on_second is not None:
                        on_second(seconds)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise NotTakenApart(
            f"taking it apart failed (status {process.returncode}): give a simpler, closed mesh."
        )
    with np.load(io.BytesIO(answer), allow_pickle=False) as pieces:
        return [pieces[name] for name in pieces.files]


def main() -> None:
    """The other side: a mesh from the standard input, its pieces to the standard output."""
    import os
    import resource

    answers = os.dup(1)
    os.dup2(2, 1)  # CoACD prints
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    import coacd

    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as given:
        mesh = coacd.Mesh(given["vertices"], given["faces"])
    coacd.set_log_level("error")
    pieces = coacd.run_coacd(mesh, **SETTINGS)
    found = io.BytesIO()
    np.savez(found, **{f"piece{n}": corners for n, (corners, _) in enumerate(pieces)})
    with os.fdopen(answers, "wb") as file:
        file.write(found.getvalue())


if __name__ == "__main__":
    main()
