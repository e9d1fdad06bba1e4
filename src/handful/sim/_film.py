"""Videos and stills of an episode, for people."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from handful._files import make_folder
from handful.clouds import Intrinsics, RgbdView
from handful.demos import TaskStep
from handful.errors import OptionError
from handful.policy import Verdict, Watcher
from handful.render import Camera, look_at, tile, write_caption
from handful.sim._errors import SimError
from handful.sim._hand import GROUP_ARM, GROUP_HAND, GROUP_OBJECT, GROUP_SCENE
from handful.sim._ik import solve
from handful.sim._world import FRAME_TIME, World
from handful.sim.objects import Pose
from handful.sim.tasks import Episode, Variant, run_oracle

SIZE = (800, 600)
EVERYTHING = (GROUP_SCENE, GROUP_OBJECT, GROUP_HAND, GROUP_ARM)
SUFFIXES = (".mp4", ".gif")

_VIEWS = np.deg2rad([-75.0, -50.0, -25.0, 0.0, 25.0, 50.0, 75.0])
"""Azimuths of the views to choose from; the robot stands at the far side."""


class Film:
    """Frames of an episode, taken while the physics runs.

    Attributes:
        frames: The video, one picture for every `FRAME_TIME` seconds.
        stills: The moments worth looking at.
        on_take: Called after every frame, for people who watch; what it raises ends the episode.
    """

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self.on_take: Callable[[], None] | None = None
        self._camera = self._view(0.0, np.zeros(3), 1)
        self.frames: list[UInt8[np.ndarray, "h w 3"]] = []
        self.stills: list[tuple[str, Image.Image]] = []
        self._caption = ""
        self._focus = np.array([0.0, 0.0, 0.12])

    def start(self) -> None:
        """Take a frame whenever simulated time has gone on by a frame."""
        self._episode.world.on_frame = self._take

    def stop(self) -> None:
        """Take no more."""
        self._episode.world.on_frame = None

    def cut(self, caption: str, state: Any | None = None) -> None:
        """Go to the view that shows the object and the target in focus best.

        Args:
            caption: What happens next.
            state: Choose the view for this state of the world; the present one if not given.
        """
        world = self._episode.world
        self._caption = caption
        T_scene_item = world.T_scene_item if state is None else world.T_scene_item_in(state)
        spots = [T_scene_item[:3, 3], world.target.T_scene_thing[:3, 3]]
        self._focus = np.mean(spots, axis=0) + np.array([0.0, 0.0, 0.06])
        marks = [self._mark(turn, state) for turn in _VIEWS]
        self._camera = self._view(float(_VIEWS[int(np.argmax(marks))]), self._focus, 1)

    def say(self, caption: str) -> None:
        """Change the caption and keep the view."""
        self._caption = caption

    def still(self, caption: str) -> None:
        """Keep the present view as a still."""
        image = Image.fromarray(self._picture())
        self.stills.append((caption, image))

    def hold(self, seconds: float) -> None:
        """Show the present view for a while."""
        self.frames += [self._picture()] * max(1, round(seconds / FRAME_TIME))

    def sheet(self) -> Image.Image:
        """All stills on one sheet."""
        return tile([image for _, image in self.stills], 3, [caption for caption, _ in self.stills])

    def _take(self) -> None:
        self.frames.append(self._picture())
        if self.on_take is not None:
            self.on_take()

    def _picture(self) -> UInt8[np.ndarray, "h w 3"]:
        episode = self._episode
        view = episode.renderer.render(episode.world, [self._camera], EVERYTHING, pretty=True)
        image = Image.fromarray(_on_paper(view[0]))
        if self._caption:
            write_caption(image, self._caption)
        return np.asarray(image)

    def _view(self, turn: float, focus: np.ndarray, shrink: int) -> Camera:
        width, height = SIZE[0] // shrink, SIZE[1] // shrink
        flat = np.array([np.cos(turn), np.sin(turn), 0.0])
        position = focus + 0.80 * flat + np.array([0.0, 0.0, 0.40])
        return look_at(position, focus, Intrinsics.from_field_of_view(width, height, 0.66))

    def _mark(self, turn: float, state: Any | None) -> float:
        """Share of the object that is not hidden from there, and a little of the target's."""
        camera = self._view(turn, self._focus, 8)
        renderer, world = self._episode.renderer, self._episode.world
        whole = renderer.render(world, [camera], EVERYTHING, state=state)[0].depth
        total = 0.0
        for group, weight in ((GROUP_OBJECT, 1.0), (GROUP_HAND, 0.5)):
            alone = renderer.render(world, [camera], (group,), state=state)[0].depth
            there = alone > 0
            shown = there & (np.abs(alone - whole) < 2e-3)
            total += weight * shown.sum() / max(there.sum(), 1)
        return total


class FilmWatcher(Watcher):
    """Films the steps of an episode while they run.

    Args:
        episode: Fresh from a reset.

    Attributes:
        film: What is taken.
    """

    def __init__(self, episode: Episode) -> None:
        super().__init__()
        self._episode = episode
        self.film = Film(episode)

    def before(self, step: TaskStep, T_scene_gripper: Pose) -> None:
        """Choose the view for what will happen, and film it."""
        episode = self._episode
        state = _at(episode.world, T_scene_gripper, holding=step.action.holding)
        self.film.cut(f"{episode.task.name}, {episode.setup.value}: {step.name}", state)
        if not self.film.stills:
            self.film.still("start")
            self.film.hold(0.8)
        self.film.start()

    def after(self, step: TaskStep, verdict: Verdict) -> None:
        """Keep a still of what happened; after the last step the film goes on."""
        self.film.still(step.name if verdict else f"{step.name}: failed")
        if verdict and step == self._episode.task.task.steps[-1]:
            self.film.say("only the target may hold an object now: two seconds")
        else:
            self.film.stop()


def film_episode(episode: Episode, variant: Variant = Variant.DEFAULT) -> tuple[Verdict, Film]:
    """Run the oracle through an episode and film it."""
    watcher = FilmWatcher(episode)
    verdict = run_oracle(episode, variant, watcher)
    film = watcher.film
    film.stop()
    if not film.stills:
        film.cut("nothing was executed")
    film.say("success" if verdict else f"failed: {verdict.reason}")
    film.still("success" if verdict else "failed")
    film.hold(1.2)
    return verdict, film


def write_video(frames: list[UInt8[np.ndarray, "h w 3"]], path: Path) -> Path:
    """Write frames as MP4 (H.264) if an encoder is there, else as an animated GIF beside it.

    Args:
        frames: At least one.
        path: Ends in `.mp4` or `.gif`.

    Returns:
        What was written: `path`, or the same name with `.gif`.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"{path}: videos are written as {' or '.join(SUFFIXES)}.")
    make_folder(path.parent)
    encoder = _encoder() if path.suffix.lower() == ".mp4" else None
    if encoder is None:
        path = path.with_suffix(".gif")
        _write_gif(frames, path)
    else:
        _write_mp4(frames, path, encoder)
    return path


def _write_mp4(frames: list[UInt8[np.ndarray, "h w 3"]], path: Path, encoder: str) -> None:
    height, width = frames[0].shape[:2]
    command = [
        encoder, "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24",
        "-s", f"{width}x{height}", "-r", str(round(1 / FRAME_TIME)), "-i", "-",
        "-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "21", "-threads", "1",
        "-f", "mp4", "-movflags", "+faststart", str(path),
    ]  # fmt: skip
    raw = b"".join(frame.tobytes() for frame in frames)
    done = subprocess.run(command, input=raw, capture_output=True, check=False)
    if done.returncode:
        raise SimError(f"{path}: ffmpeg failed: {done.stderr.decode(errors='replace').strip()}.")


def _write_gif(frames: list[UInt8[np.ndarray, "h w 3"]], path: Path) -> None:
    small = [Image.fromarray(frame).resize((400, 300)) for frame in frames[::2]]
    small[0].save(
        path, save_all=True, append_images=small[1:], duration=round(2000 * FRAME_TIME), loop=0
    )


def _encoder() -> str | None:
    """An ffmpeg: one on the path, or the one of imageio-ffmpeg.

    Either is run as a program of its own. The binary in imageio-ffmpeg is under the GPL, version 3.
    """
    mine = shutil.which("ffmpeg")
    if mine is not None:
        return mine
    try:
        return str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        return None


def _at(world: World, T_scene_gripper: Pose, holding: bool) -> Any | None:
    """The world with the hand at a pose, to choose a view for it; None if it is out of reach."""
    joints = solve(T_scene_gripper)
    if joints is None:
        return None
    return world.imagine(joints, T_gripper_item=world.T_gripper_item if holding else None)


def _on_paper(view: RgbdView) -> UInt8[np.ndarray, "h w 3"]:
    """The picture with light paper where the renderer saw nothing."""
    assert view.color is not None
    shade = np.linspace(246, 224, view.color.shape[0]).astype(np.uint8)
    paper = np.stack([shade, shade, np.minimum(shade + 4, 255).astype(np.uint8)], axis=1)
    return np.where((view.depth > 0)[..., None], view.color, paper[:, None, :])
