"""Episodes of the simulated robot, watched while they run."""

from __future__ import annotations

import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import viser
from PIL import Image

from handful.apps.studio._models import Models
from handful.apps.studio._scenes import set_options
from handful.apps.studio._session import Session
from handful.apps.studio._stage import Stage
from handful.apps.studio._words import plain
from handful.errors import HandfulError, OptionError

NO_RUN = "(no run)"
START = 0.4
"""Seconds of the film that show the scene before anything is done."""
LOOK_AGAIN = 0.25
"""Seconds between two pictures of an episode that runs."""
MOST_FRAMES = 150
"""Of an episode that was run, kept to be watched again."""


class _Stopped(Exception):
    """The person has seen enough."""


class EpisodePanel:
    """Runs the task of a run in the simulated world, and shows it.

    Args:
        session: The studio.
        models: Its runs.
        folder: Where the fields go.
        stage: Of the room: what is saved of it has the film's picture.
    """

    def __init__(
        self, session: Session, models: Models, folder: viser.GuiFolderHandle, stage: Stage
    ) -> None:
        self._session, self._models, self._stage = session, models, stage
        self._film: Any = None
        self._frames: list[np.ndarray] = []
        self._thread: threading.Thread | None = None
        self._wanted = False
        gui = session.server.gui
        with folder, gui.add_folder("In the simulated world", expand_by_default=False):
            self.run = gui.add_dropdown("Run", (NO_RUN,), NO_RUN)
            self.task = gui.add_dropdown("Task", ("mug", "bowl", "bottle", "tidy"), "mug")
            self.setup = gui.add_dropdown(
                "Setup", ("trained", "instances", "poses", "distractors", "all"), "trained"
            )
            self.seed = gui.add_number("Seed", 0, 0, 10**6, 1)
            self.start = gui.add_button("Run the episode", icon=viser.Icon.PLAYER_PLAY)
            self.end = gui.add_button("Stop it", visible=False, icon=viser.Icon.PLAYER_STOP)
            self.frame = gui.add_slider("Moment", 1, 2, 1, 1, visible=False)
            self.picture = gui.add_image(np.full((30, 40, 3), 245, np.uint8), visible=False)
            self.told = gui.add_markdown("")
        session.clicked(self.start, lambda _: self._begin())
        session.clicked(self.end, lambda _: self.stop())
        session.edited(self.frame, self._watch_again, "moment")

    def offer(self) -> None:
        """Offer the runs that there are."""
        names = tuple(self._models.runs()) or (NO_RUN,)
        value = self.run.value if self.run.value in names else names[-1]
        set_options(self.run, names, value)

    def stop(self) -> None:
        """End the episode that runs, at its next frame."""
        self._wanted = False
        if self._thread is not None and self._thread.is_alive():
            self.told.content = "Stopping at the next frame ..."

    def _begin(self) -> None:
        path = self._models.runs().get(self.run.value)
        if path is None:
            raise OptionError("there is no run: train one in the room Train.")
        if self._thread is not None and self._thread.is_alive():
            raise OptionError("an episode is running: stop it first.")
        self._wanted, self._film = True, None
        self.end.visible, self.frame.visible = True, False
        self.told.content = "Setting up ..."
        asked = (path, self.task.value, self.setup.value, int(self.seed.value))
        self._thread = threading.Thread(target=self._run, args=asked, daemon=True)
        self._thread.start()
        self._session.desk.later("film", LOOK_AGAIN, self._look)

    def _run(self, path: Path, task: str, setup: str, seed: int) -> None:
        """Run an episode, in a thread of its own: it takes a minute."""
        try:
            told = self._ran(path, task, setup, seed)
        except _Stopped:
            told = "Stopped."
        except HandfulError as error:
            told = f"Not run: {error}"
        except Exception:  # a bug must not leave the panel waiting, nor be hidden
            traceback.print_exc()
            told = "Not run: something went wrong inside of handful; see the terminal."
        self._session.desk.do(partial(self._ended, told))

    def _ran(self, path: Path, task: str, setup: str, seed: int) -> str:
        from handful.bench.run import hand_for_bench, policy_maker, run_episode, trained_hand
        from handful.sim import FilmWatcher, Setup, task_named

        chosen, kind = task_named(task), Setup.named(setup)
        hand = hand_for_bench("", trained_hand(path, chosen.task))
        maker = policy_maker("model", path, chosen.task, hand)
        with chosen.reset(seed, kind, gripper=hand) as episode:
            watcher = FilmWatcher(episode)
            self._film = watcher.film
            # There is something to see while the model thinks, and when it does nothing.
            watcher.film.cut(f"{chosen.name}, {setup}: before the first step")
            watcher.film.still("start")
            watcher.film.hold(START)
            watcher.film.on_take = self._check
            record = run_episode(episode, maker, watcher=watcher)
        self._check()  # it may have ended without a further frame
        outcome = "Success" if record.success else record.outcome
        return f"{outcome}: {record.reason}" if record.reason else outcome

    def _check(self) -> None:
        if not self._wanted:
            raise _Stopped

    def _look(self) -> None:
        """Show the latest frame, and come back while the episode runs."""
        film = self._film
        if film is not None and film.frames:
            self.picture.visible = True
            self._picture(_small(film.frames[-1]))
            self.told.content = f"{len(film.frames)} frames"
        if self._thread is not None and self._thread.is_alive():
            self._session.desk.later("film", LOOK_AGAIN, self._look)

    def _ended(self, told: str) -> None:
        self._look()
        self._session.desk.drop("film")
        taken = [] if self._film is None else self._film.frames
        self._film = None
        self._frames = [_small(one) for one in taken[:: len(taken) // MOST_FRAMES + 1]]
        self.end.visible = False
        if len(self._frames) > 1:
            self.frame.max = self.frame.value = len(self._frames)
            self.frame.visible = True
        self.told.content = f"**{plain(told)}**"

    def _watch_again(self) -> None:
        """Show a moment of the episode that was run last."""
        if self._frames:
            self._picture(self._frames[int(self.frame.value) - 1])

    def _picture(self, frame: np.ndarray) -> None:
        self.picture.image = frame
        self._stage.pictures = (Image.fromarray(frame),)


def _small(frame: np.ndarray) -> np.ndarray:
    """A frame as large as the panel shows it."""
    return frame[::2, ::2].copy()
