"""Models of other methods: Transporter Networks and Neural Descriptor Fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from fuzz.subject import Subject, raise_worst, unseal
from handful.baselines.ndf import NDF, NdfConfig, NetworkConfig, PoseSearch
from handful.baselines.ndf._model import NdfModel
from handful.baselines.ndf._predictor import NdfPredictor
from handful.baselines.transporter import (
    TRANSPORTER,
    TransporterConfig,
    TransporterModel,
    TransporterPredictor,
)
from handful.clouds import PointCloud
from handful.demos import Action, TaskStep, gripper_named
from handful.learning import load_trained

_SCENE = PointCloud(np.random.default_rng(0).uniform(-0.15, 0.15, (300, 3)), np.full((300, 3), 0.5))


def _make_transporter(folder: Path) -> None:
    torch.manual_seed(0)
    for action in Action:
        config = TransporterConfig(
            action.holding, pixels=16, turned_pixels=16, kernel_pixels=16, width=0.05, yaws=2,
            kernels=2, kernel_channels=2,
        )  # fmt: skip
        step, hand = TaskStep(action.value, action), gripper_named("simulated")
        predictor = TransporterPredictor(step, TransporterModel(config), hand)
        TRANSPORTER.save(predictor, folder / action.value)


def _make_ndf(folder: Path) -> None:
    torch.manual_seed(0)
    for action in Action:
        config = NdfConfig(
            action.holding,
            NetworkConfig(points=20, neighbours=4, width=4, latent=6, hidden=5),
            PoseSearch(starts=6, kept=3, steps=2),
            queries=10, voxel=0.01, target_points=30 if action.holding else 0,
        )  # fmt: skip
        model = NdfModel(config).eval()
        model.queries.normal_(0.0, 0.03)
        model.target.normal_(0.0, 0.05)
        step, hand = TaskStep(action.value, action), gripper_named("simulated")
        predictor = NdfPredictor(step, model, hand)
        NDF.save(predictor, folder / action.value)
        # PyTorch makes a folder for its compiler when an optimiser is used for the first time.
        predictor.sample(_SCENE, _SCENE if action.holding else None, n=4)


def _read(folder: Path) -> None:
    errors = []
    for action in Action:
        try:
            predictor = load_trained(folder / action.value)
            predictor.sample(_SCENE, _SCENE if predictor.step.action.holding else None, n=4)
        except Exception as error:
            errors.append(error)
    raise_worst(errors)


def _subject(make: Callable[[Path], None]) -> Subject:
    return Subject(make, _read, 1.0, 60.0, unseal)


BASELINES = {"baseline": _subject(_make_transporter), "ndf": _subject(_make_ndf)}
