"""The studio: one page with its rooms, from the first request to Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType

import viser

from handful.apps._listening import bound, web_address
from handful.apps.studio._config import StudioConfig, check_studio
from handful.apps.studio._folder import StudioFolder
from handful.apps.studio._guard import PageGuard
from handful.apps.studio._look import LookRoom
from handful.apps.studio._models import Models
from handful.apps.studio._saving import save_page, save_picture
from handful.apps.studio._session import Room, Session
from handful.apps.studio._teach import TeachRoom
from handful.apps.studio._train import TrainRoom
from handful.apps.studio._try import TryRoom
from handful.apps.studio._viser import client_folder, start_viser
from handful.demos import gripper_named, load_gripper

PICTURE, PAGE = "Picture", "HTML page"
UNDO, REDO = "Undo", "Redo"
HINTS = {
    "Teach": "Put the gripper where it belongs. Drag beside it to turn the view, with the right "
    "button to move it.",
    "Train": "Train a model of what was taught, and watch it learn.",
    "Look": "See what a trained model sees.",
    "Try": "See what the robot would do; the arrow keys go from pose to pose.",
}


class Studio:
    """A running studio; `close` ends it.

    Args:
        config: What it is asked to be.

    Raises:
        HandfulError: The folder is another studio's, or cannot be read; or the address is taken.
    """

    def __init__(self, config: StudioConfig) -> None:
        check_studio(config)
        self._folder = StudioFolder(config.folder)
        self._lock = self._folder.held()
        self._lock.__enter__()
        try:
            self._start(config)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def _start(self, config: StudioConfig) -> None:
        hand = load_gripper if config.gripper.endswith(".json") else gripper_named
        document = self._folder.load(hand(config.gripper))
        listener = bound(config.host, config.port)
        self.address = web_address(listener)
        guard = PageGuard(config, client_folder(), self._key)
        self._server, self._stop_pages = start_viser(listener, guard, config.max_bytes)
        self.session = Session(config, self._folder, document, self._server)
        self._server.scene.set_up_direction("+z")
        self._server.gui.configure_theme(
            control_layout="fixed",
            control_width="large",
            show_logo=False,
            show_share_button=False,
            brand_color=(36, 92, 178),
        )
        self._build()
        self._server.on_client_connect(self.session.aim)
        self._server.on_client_disconnect(lambda _: self._key("release", False, False))
        for problem in self._folder.problems:
            self.session.tell(problem, bad=True)
        self.session.desk.do(partial(self._enter, self.rooms[0].name))

    def _build(self) -> None:
        session, gui = self.session, self._server.gui
        self._buttons = gui.add_button_group("Room", tuple(HINTS))
        self._title = gui.add_markdown("")
        session.say_in(gui.add_markdown(""))
        self._history = gui.add_button_group("Edit", (UNDO, REDO))
        self.rooms: list[Room] = self._make_rooms()
        self._saving = gui.add_button_group("Save as", (PICTURE, PAGE))
        self._center = gui.add_button("Look at everything", icon=viser.Icon.FOCUS)
        self._buttons.on_click(
            lambda event: session.desk.do(partial(self._enter, event.target.value))
        )
        self._history.on_click(
            lambda event: session.desk.do(partial(self._undo, event.target.value))
        )
        self._saving.on_click(
            lambda event: session.desk.do(partial(self._save, event.target.value, event.client))
        )
        session.clicked(self._center, lambda client: session.aim(client) if client else None)
        self._open: Room | None = None
        session.on_change = lambda: self._open.open() if self._open is not None else None

    def _make_rooms(self) -> list[Room]:
        models = Models(self._folder, self.session.config.runs)
        self.teach, self.train = TeachRoom(self.session), TrainRoom(self.session)
        self.look, self.attempt = LookRoom(self.session, models), TryRoom(self.session, models)
        return [self.teach, self.train, self.look, self.attempt]

    # --- at the desk -----------------------------------------------------------------------

    def _enter(self, name: str) -> None:
        """Go to a room."""
        self.session.click.forget()
        for room in self.rooms:
            here = room.name == name
            if room is self._open and not here:
                room.close()
            room.stage.show(here)
            room.panel.folder.visible = here
        self._open = next(room for room in self.rooms if room.name == name)
        self._title.content = f"### {name}"
        self.session.tell(HINTS[name])
        self._open.open()

    def _undo(self, which: str) -> None:
        session = self.session
        session.desk.at_once("commit")
        undone = which == UNDO
        what = session.state.undo() if undone else session.state.redo()
        session.changed()
        if not what:
            session.tell(f"There is nothing to {which.lower()}.")
        else:
            session.tell(f"{'Taken back' if undone else 'Done again'}: {what}.")

    def _save(self, how: str, client: viser.ClientHandle | None) -> None:
        assert self._open is not None
        save = save_picture if how == PICTURE else save_page
        file = save(self._open.stage.contents(), self._folder.pictures, self._open.name, client)
        self.session.tell(f"Saved: {file}")

    def _key(self, name: str, shift: bool, alt: bool) -> None:
        """A page sent a key; called in a thread of the pages."""

        def work() -> None:
            if name in ("undo", "redo"):
                self._undo(UNDO if name == "undo" else REDO)
            elif self._open is not None:
                self._open.key(name, shift, alt)

        self.session.desk.do(work)

    def close(self) -> None:
        """Finish what was begun, and stop."""
        self.train.end()
        for room in self.rooms:
            self.session.desk.do(room.close)
        self.session.desk.close()
        self.session.reader.close()
        self.session.archives.close()
        self._stop_pages()
        self._lock.__exit__(None, None, None)


def run_studio(config: StudioConfig, ready: Callable[[str], None]) -> None:
    """Serve a studio until SIGINT or SIGTERM.

    Args:
        config: What it is asked to be.
        ready: Told the studio's address when it answers.

    Raises:
        HandfulError: It cannot be started.
    """
    told = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        told.set()

    studio = Studio(config)
    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        ready(studio.address)
        told.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        studio.close()
