"""The report's pictures of what the models see: poses and key field, upright and lying."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from handful._files import read_bytes
from handful._names import safe_name
from handful.bench.report._document import Paragraph, Picture
from handful.bench.run import (
    hand_for_bench,
    one_thread,
    run_episode,
    trained_hand,
    trained_predictors,
)
from handful.policy import Look, PicturedPredictor, Predictor, TrainedPredictor, Watcher
from handful.sim import Setup, task_named
from handful.viz import palette_of_field, picture_of_field, picture_of_poses, view_of_pose

SEED = 2_000
"""Of the scenes that are shown: one kept for development."""
_SCENES = ((Setup.TRAINED, "Upright, as demonstrated"), (Setup.POSES, "Lying, never demonstrated"))
_LARGEST = 1100
"""Pixels: wider pictures are made smaller."""
MAX_PICTURE_BYTES = 64 * 2**20
MAX_PIXELS = 50_000_000
"""Of a picture that is read: 150 MB of memory."""


def pictures_of_models(run: Path, name: str, tell: Callable[[str], None]) -> list[Picture]:
    """Each model in a scene as demonstrated and in one with the object lying.

    Args:
        run: A run with a trained model for each step.
        name: Of the task.
        tell: Told what is being drawn.
    """
    chosen = task_named(name)
    with one_thread():
        hand = hand_for_bench("", trained_hand(run, chosen.task))
        predictors = trained_predictors(run, chosen.task, hand)
        looks: list[tuple[Look, str]] = []
        for setup, words in _SCENES:
            tell(f"{name}: looking at a scene ({words.lower()})")
            watcher = Watcher()
            with chosen.reset(SEED, setup, gripper=hand) as episode:
                run_episode(episode, lambda _: predictors, watcher=watcher)
            looks += [(look, words) for look in watcher.looks if len(look.proposed)]
        made = []
        for step in chosen.task:
            tell(f"{name}: drawing the fields of the step {step.name!r}")
            group = [one for one in looks if one[0].step == step]
            made += _pictures_of_step(
                group, predictors[step.name], f"{name}-{safe_name(step.name)}"
            )
    return made


def _pictures_of_step(
    group: list[tuple[Look, str]], predictor: TrainedPredictor, name: str
) -> list[Picture]:
    """Poses, and what the model shows of itself: key fields, or what its method draws."""
    if not group:
        return []
    if not isinstance(predictor, Predictor):
        return _pictures_of_other(group, predictor, name)
    energies = [predictor.energy(look.scene, look.grasp, own_frames=False)[0] for look, _ in group]
    fields: list[Any] = [energy.field for energy in energies]
    palette = palette_of_field(*fields)
    made = []
    for number, ((look, words), energy) in enumerate(zip(group, energies, strict=True)):
        made.append(_picture_of_poses(look, words, f"{name}-{number}-poses"))
        best = look.proposed.T_scene_gripper[0]
        about, gripper = _about(look, words), look.proposed.gripper
        shown = picture_of_field(
            look.scene,
            fields[number],
            camera=view_of_pose(look.scene, best, gripper, look.grasp, with_hand=False),
            palette=palette,
            queries=energy.queries,
            pose=best,
        )
        caption = f"{about}: the key field, colours and arrows."
        made.append(jpeg(f"{name}-{number}-field", shown, caption))
    return made


def _pictures_of_other(
    group: list[tuple[Look, str]], predictor: TrainedPredictor, name: str
) -> list[Picture]:
    """Poses and, where the method draws one, its own picture."""
    made = []
    for number, (look, words) in enumerate(group):
        made.append(_picture_of_poses(look, words, f"{name}-{number}-poses"))
        if isinstance(predictor, PicturedPredictor):
            caption = f"{_about(look, words)}: what the model sees."
            shown = predictor.picture(look.scene, look.grasp)
            made.append(jpeg(f"{name}-{number}-seen", shown, caption))
    return made


def _picture_of_poses(look: Look, words: str, name: str) -> Picture:
    T_scene_gripper, gripper = look.proposed.T_scene_gripper, look.proposed.gripper
    shown = picture_of_poses(look.scene, T_scene_gripper, gripper, grasp=look.grasp)
    return jpeg(name, shown, f"{_about(look, words)}: best poses of {len(T_scene_gripper)}.")


def _about(look: Look, words: str) -> str:
    return f"Model of the step {look.step.name!r}. {words}"


def jpeg(name: str, image: Image.Image, caption: str = "") -> Picture:
    """A picture for the report, not larger than needed."""
    if image.width > _LARGEST:
        height = round(image.height * _LARGEST / image.width)
        image = image.resize((_LARGEST, height), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    image.convert("RGB").save(content, "JPEG", quality=85)
    return Picture(name, ".jpg", content.getvalue(), caption)


def picture_from_file(path: Path, name: str, caption: str) -> Picture | Paragraph:
    """A picture file for the report; a sentence instead if it cannot be shown.

    Args:
        path: A PNG or JPEG file. It may be anything: what it says of itself is not trusted.
        name: Of the picture's file beside the report.
        caption: Below the picture.
    """
    try:
        content = io.BytesIO(read_bytes(path, MAX_PICTURE_BYTES))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, about odd files
            with Image.open(content, formats=("PNG", "JPEG")) as image:
                if image.width * image.height > MAX_PIXELS:
                    return _not_shown(path, f"more than {MAX_PIXELS:,} pixels")
                return jpeg(name, image, caption)
    except Exception as error:  # Pillow's readers raise whatever their parsers raise
        return _not_shown(path, str(error) or type(error).__name__)


def _not_shown(path: Path, reason: str) -> Paragraph:
    return Paragraph(f"The picture {path} cannot be shown: {reason}.")
