"""The report's pictures of what the models see: poses and key field, upright and lying."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from handful.bench._document import Picture
from handful.bench._episode import Look, Watcher, run_episode
from handful.bench._policies import policy_maker
from handful.bench._worker import use_one_thread
from handful.learning import TrainedModel
from handful.models import palette_of_field, picture_of_field, picture_of_poses, view_of_pose
from handful.sim import Setup, task_named

SEED = 2_000
"""Of the scenes that are shown: one kept for development."""
_SCENES = ((Setup.TRAINED, "Upright, as demonstrated"), (Setup.POSES, "Lying, never demonstrated"))
_LARGEST = 1100
"""Pixels: wider pictures are made smaller."""


def pictures_of_models(run: Path, task: str, tell: Callable[[str], None]) -> list[Picture]:
    """Each model in a scene as demonstrated and in one with the object lying.

    Args:
        run: A run with trained models.
        task: Name of the task.
        tell: Told what is being drawn.
    """
    use_one_thread()
    maker = policy_maker("model", run)
    looks: list[tuple[Look, TrainedModel, str]] = []
    for setup, words in _SCENES:
        tell(f"{task}: looking at a scene ({words.lower()})")
        with task_named(task).reset(SEED, setup) as episode:
            watcher = Watcher()
            run_episode(episode, maker, watcher=watcher)
            policy = maker(episode)
        for look in watcher.looks:
            model = policy.pick if look.step == "pick" else policy.place
            if isinstance(model, TrainedModel) and len(look.poses):
                looks.append((look, model, words))
    made = []
    for step in ("pick", "place"):
        group = [one for one in looks if one[0].step == step]
        tell(f"{task}: drawing the {step} model's fields")
        made += _pictures_of_step(group, f"{task}-{step}")
    return made


def _pictures_of_step(group: list[tuple[Look, TrainedModel, str]], name: str) -> list[Picture]:
    """Poses and key fields; the fields of all scenes in the same colours."""
    energies = [
        model.energy(model.search.prepared(look.scene, look.grasp, own_frames=False))
        for look, model, _ in group
    ]
    fields: list[Any] = [energy.field for energy in energies]
    if not fields:
        return []
    palette = palette_of_field(*fields)
    made = []
    for number, ((look, model, words), energy) in enumerate(zip(group, energies, strict=True)):
        poses = look.poses
        caption = f"{look.step.capitalize()} model. {words}: best poses of {len(poses)}."
        shown = picture_of_poses(look.scene, poses, model.gripper, grasp=look.grasp)
        made.append(jpeg(f"{name}-{number}-poses.jpg", shown, caption))
        camera = view_of_pose(look.scene, poses[0], model.gripper, look.grasp, with_hand=False)
        field: Any = energy.field
        shown = picture_of_field(
            look.scene, field, camera=camera, palette=palette, queries=energy.queries, pose=poses[0]
        )
        caption = f"{look.step.capitalize()} model. {words}: the key field, colours and arrows."
        made.append(jpeg(f"{name}-{number}-field.jpg", shown, caption))
    return made


def jpeg(name: str, image: Image.Image, caption: str = "") -> Picture:
    """A picture for the report, not larger than needed."""
    if image.width > _LARGEST:
        height = round(image.height * _LARGEST / image.width)
        image = image.resize((_LARGEST, height), Image.Resampling.LANCZOS)
    content = io.BytesIO()
    image.convert("RGB").save(content, "JPEG", quality=85)
    return Picture(name, content.getvalue(), caption)
