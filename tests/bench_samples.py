"""Episodes as the benchmark keeps them, made up."""

import numpy as np

from handful.bench import Conditions, EpisodeRecord, Failure, StepRecord

CONDITIONS = Conditions("mug", "all", "model", "abc", "", 100)


def step(ok=True, skips=0, seconds=0.5):
    skipped = {"out of reach": skips} if skips else {}
    return StepRecord(ok, 100, skipped, seconds, -3.0, 0.9, 0.95, np.eye(4).tolist(), "seen")


def episode(seed=0, picked=True, placed=True, setup="all", task="mug"):
    failure = Failure.PICK_LOST if not picked else Failure.NONE if placed else Failure.PLACE_LOST
    return EpisodeRecord(
        task, setup, seed, "mug 3", True, picked and placed, failure, "a reason",
        step(picked), step(placed) if picked else None, 2.5,
    )  # fmt: skip
