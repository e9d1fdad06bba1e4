"""Pictures of episodes that failed."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from handful.bench._episode import Look, Watcher
from handful.bench._record import EpisodeRecord
from handful.models import picture_of_poses
from handful.render import tile
from handful.sim import GRIPPER, Episode, Film, Verdict, write_video
from handful.sim.objects import Pose

_STILL = (400, 300)
"""Width and height of one picture on the sheet, pixels."""
_MOMENTS = {"pick": "after the pick", "place": "after the place", "end": "at the end"}


@dataclass
class FilmingWatcher(Watcher):
    """Films an episode while a policy runs it.

    Attributes:
        film: What is taken.
        moving: Take a video, not only stills; drawing takes longer than the physics.
    """

    film: Film | None = None
    moving: bool = False

    def before(self, step: str, pose: Pose) -> None:
        """Show what will happen."""
        if self.film is None:
            return
        self.film.cut(step)
        if step == "pick":
            self.film.still("start")
        if self.moving:
            self.film.hold(0.6)
            self.film.start()

    def after(self, step: str, verdict: Verdict) -> None:
        """Show what happened."""
        if self.film is None:
            return
        self.film.still(_MOMENTS[step])
        if self.moving and step != "place":
            self.film.stop()
            self.film.hold(0.6)


def sheet_of_failure(record: EpisodeRecord, watcher: FilmingWatcher) -> bytes:
    """One JPEG: what the policy proposed, and stills of what happened."""
    panels, captions = [], []
    for look in watcher.looks:
        if len(look.poses):
            panels.append(_picture_of_look(look))
            captions.append(f"{look.step}: proposed poses{_which(look)}")
    stills = _stills(watcher)
    for pair in (stills[:2], stills[2:]):
        if pair:
            words, images = zip(*pair, strict=True)
            panels.append(tile(images, 2, words))
            captions.append("what happened" if pair == stills[:2] else "")
    title = f"{record.task}, {record.setup}, seed {record.seed}: {record.failure.value}"
    content = io.BytesIO()
    tile(panels, 2, captions, title).save(content, "JPEG", quality=82)
    return content.getvalue()


def video_of_failure(watcher: FilmingWatcher) -> bytes:
    """An MP4 of the whole episode, or a GIF where there is no encoder; empty if nothing moved."""
    if watcher.film is None or not watcher.film.frames:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        return write_video(watcher.film.frames, Path(folder) / "film.mp4").read_bytes()


def filming(episode: Episode, moving: bool) -> FilmingWatcher:
    """A watcher that films an episode."""
    return FilmingWatcher(film=Film(episode), moving=moving)


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
    order = list(range(len(look.poses)))
    if look.chosen is not None:
        order.insert(0, order.pop(look.chosen))
    return picture_of_poses(
        look.scene, look.poses[order], GRIPPER, grasp=look.grasp, best=5, size=_STILL
    )


def _which(look: Look) -> str:
    if look.chosen is None:
        return f", none of {len(look.poses)} feasible"
    return f", number {look.chosen + 1} of {len(look.poses)} executed"
