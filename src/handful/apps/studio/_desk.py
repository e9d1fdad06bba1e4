"""The desk: everything that people do on the pages is done here, one thing after the other.

Pages call from many threads. The state is changed by one thread only, so that two pages cannot
overwrite each other; and of a mouse that is dragged, only the latest place is looked at.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from handful.errors import HandfulError

Work = Callable[[], None]


class Desk:
    """Does work in order, in a thread of its own.

    Args:
        tell: Told the sentence of an error, and whether it is the user's to mend.
    """

    def __init__(self, tell: Callable[[str, bool], None]) -> None:
        self._tell = tell
        self._waiting: list[tuple[str, Work]] = []
        self._later: dict[str, tuple[float, Work]] = {}
        self._changed = threading.Condition()
        self._closed = self._busy = False
        self._thread = threading.Thread(target=self._run, name="studio-desk", daemon=True)
        self._thread.start()

    def do(self, work: Work, key: str = "") -> None:
        """Do something as soon as everything before it is done.

        Args:
            work: What to do.
            key: Work of the same key that still waits is left out: this is done in its place.
        """
        with self._changed:
            if key:
                for place, (other, _) in enumerate(self._waiting):
                    if other == key:
                        self._waiting[place] = (key, work)
                        return
            self._waiting.append((key, work))
            self._changed.notify_all()

    def later(self, key: str, seconds: float, work: Work) -> None:
        """Do something after a while in which nothing of the same key was asked for."""
        with self._changed:
            self._later[key] = (time.monotonic() + seconds, work)
            self._changed.notify_all()

    def at_once(self, key: str) -> None:
        """Do now what was asked for later, if there is something. Call it from work only."""
        work = self._taken(key)
        if work is not None:
            work()

    def awaits(self, key: str) -> bool:
        """Whether something was asked for later and is not done yet."""
        with self._changed:
            return key in self._later or any(key == other for other, _ in self._waiting)

    def drop(self, key: str) -> None:
        """Do not do what was asked for later."""
        self._taken(key)

    def _taken(self, key: str) -> Work | None:
        """Take away what was asked for later, also where its time has come and it waits already."""
        with self._changed:
            waiting = [work for other, work in self._waiting if other == key]
            self._waiting = [one for one in self._waiting if one[0] != key]
            later = self._later.pop(key, None)
        if later is not None:
            return later[1]
        return waiting[-1] if waiting else None

    def wait(self, seconds: float = 30.0) -> bool:
        """Wait until nothing is left to do, that for later included; False when it takes longer."""
        end = time.monotonic() + seconds
        with self._changed:
            while self._waiting or self._later or self._busy:
                if not self._changed.wait(max(0.0, min(end - time.monotonic(), 0.05))) and (
                    time.monotonic() > end
                ):
                    return False
        return True

    def close(self) -> None:
        """Finish what was asked for, that for later included, and end."""
        with self._changed:
            self._closed = True
            for key, (_, work) in self._later.items():
                self._waiting.append((key, work))
            self._later.clear()
            self._changed.notify_all()
        self._thread.join()

    # --- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except HandfulError as error:
                self._say(str(error), True)
            except Exception:  # a bug must not end the studio, nor be hidden
                traceback.print_exc()
                self._say("something went wrong inside of handful; see the terminal.", False)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _say(self, sentence: str, mendable: bool) -> None:
        try:
            self._tell(sentence, mendable)
        except Exception:
            traceback.print_exc()

    def _next(self) -> Work | None:
        """What is to be done next; waits for it. None when the desk is closed."""
        with self._changed:
            while True:
                now = time.monotonic()
                for key, (when, work) in sorted(self._later.items(), key=lambda one: one[1][0]):
                    if when <= now:
                        del self._later[key]
                        self._waiting.append((key, work))
                if self._waiting:
                    self._busy = True
                    return self._waiting.pop(0)[1]
                if self._closed:
                    return None
                next_time = min((when for when, _ in self._later.values()), default=now + 60.0)
                self._changed.wait(max(0.001, next_time - now))
