"""Pictures of episodes that failed."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image

from handful.bench.run._episode import EpisodeWatcher
from handful.bench.run._records import EpisodeRecord
from handful.demos import TaskStep
from handful.policy import Look, Verdict
from handful.render import tile
from handful.sim import Episode, Film, write_video
from handful.viz import picture_of_poses

_STILL = (400, 300)
"""Width and height of one picture on the sheet, pixels."""
_PAUSE = 0.6
"""Seconds for which the video stands before and after each step."""


@dataclass
class FilmingWatcher(EpisodeWatcher):
    """Films an episode while a policy runs it.

    Attributes:
        film: What is taken.
        last: Name of the last step: the video goes on after it until the end is judged.
        moving: Take a video, not only stills; drawing takes longer than the physics.
    """

    film: Film | None = None
    last: str = ""
    moving: bool = False

    @classmethod
    def of(cls, episode: Episode, moving: bool) -> FilmingWatcher:
        """A watcher that films an episode."""
        return cls(film=Film(episode), last=episode.task.task.names[-1], moving=moving)

    def before(self, step: TaskStep, T_scene_gripper: Float[np.ndarray, "4 4"]) -> None:
        """Show what will happen."""
        if self.film is None:
            return
        self.film.cut(step.name)
        if not self.film.stills:
            self.film.still("start")
        if self.moving:
            self.film.hold(_PAUSE)
            self.film.start()

    def after(self, step: TaskStep, verdict: Verdict) -> None:
        """Show what happened."""
        if self.film is None:
            return
        self.film.still(f"after the step {step.name!r}")
        if not (step.name == self.last and verdict):
            self._stop()

    def judged(self, verdict: Verdict) -> None:
        """Show the end."""
        if self.film is None:
            return
        self.film.still("at the end")
        self._stop()

    def _stop(self) -> None:
        if self.film is not None and self.moving:
            self.film.stop()
            self.film.hold(_PAUSE)


def sheet_of_failure(record: EpisodeRecord, watcher: FilmingWatcher) -> bytes:
    """One JPEG: what the policy proposed in each step, and stills of what happened."""
    panels, captions = [], []
    for look in watcher.looks:
        if len(look.proposed):
            panels.append(_picture_of_look(look))
            captions.append(f"{look.step.name}: proposed poses{_which(look)}")
    stills = _stills(watcher)
    for first in range(0, len(stills), 2):
        words, images = zip(*stills[first : first + 2], strict=True)
        panels.append(tile(images, 2, words))
        captions.append("" if first else "what happened")
    title = f"{record.task}, {record.setup}, seed {record.seed}: {record.outcome}"
    content = io.BytesIO()
    tile(panels, 2, captions, title).save(content, "JPEG", quality=82)
    return content.getvalue()


def video_of_failure(watcher: FilmingWatcher) -> bytes:
    """An MP4 of the whole episode, or a GIF where there is no encoder; empty if nothing moved."""
    if watcher.film is None or not watcher.film.frames:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        return write_video(watcher.film.frames, Path(folder) / "film.mp4").read_bytes()


def _stills(watcher: FilmingWatcher) -> list[tuple[str, Image.Image]]:
    """Captions and small pictures; at least one."""
    if watcher.film is None:
        return []
    if not watcher.film.stills:
        watcher.film.cut("nothing was executed")
        watcher.film.still("start")
    return [
        (caption, image.resize(_STILL, Image.Resampling.LANCZOS))
        for caption, image in watcher.film.stills
    ]


def _picture_of_look(look: Look) -> Image.Image:
    """The proposed poses, that which was executed first."""
    order = list(range(len(look.proposed)))
    if look.chosen is not None:
        order.insert(0, order.pop(look.chosen))
    return picture_of_poses(
        look.scene,
        look.proposed.T_scene_gripper[order],
        look.proposed.gripper,
        grasp=look.grasp,
        best=5,
        size=_STILL,
    )


def _which(look: Look) -> str:
    if look.chosen is None:
        return f", none of {len(look.proposed)} executed"
    return f", number {look.chosen + 1} of {len(look.proposed)} executed"
