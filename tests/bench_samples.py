"""Episodes as the benchmark keeps them, made up."""

import json

import numpy as np

from handful.bench import Conditions, EpisodeRecord, Failure
from handful.policy import StepFailure, StepRecord

CONDITIONS = Conditions("mug", "all", "model", "abc", "", 100)
STEPS = ("pick", "place")
TIDY = ("pick mug", "hang mug", "pick bowl", "place bowl")


def step(name="pick", ok=True, skips=0, seconds=0.5, kind=StepFailure.LOST):
    skipped = {"out of reach": skips} if skips else {}
    failure = None if ok else kind
    pose = np.eye(4).tolist()
    return StepRecord(name, ok, 100, skipped, seconds, -3.0, 0.9, 0.95, pose, failure, "seen")


def episode(
    seed=0,
    done=None,
    setup="all",
    task="mug",
    steps=STEPS,
    things=("mug 3",),
    kind=StepFailure.LOST,
):
    """An episode whose first `done` steps went well; all of them if not given."""
    done = len(steps) if done is None else done
    records = [step(name) for name in steps[:done]]
    failure = None
    if done < len(steps):
        records.append(step(steps[done], ok=False, kind=kind))
        failure = Failure(steps[done], kind)
    return EpisodeRecord(
        task, setup, seed, steps, things, True, failure is None, failure, "a reason",
        tuple(records), 2.5,
    )  # fmt: skip


def episode_without_layout(seed=9, setup="all"):
    return EpisodeRecord("mug", setup, seed, STEPS, reason="none of 60 layouts could be used")


# --- as version 1 wrote them: lines of a store that the software before this version made -------

_POSE_V1 = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]

CONDITIONS_V1 = {
    "format": "handful-bench-episodes", "version": 1, "task": "mug", "setup": "all",
    "policy": "model", "models": "abc", "objects": "", "samples": 100, "handful": "0.1.0",
}  # fmt: skip


def step_v1(ok=True, **changes):
    return {
        "ok": ok, "proposed": 100, "skipped": {"out of reach": 2}, "seconds": 0.75,
        "energy": -3.25, "confidence": 0.9, "best_confidence": 0.95, "pose": _POSE_V1,
        "reason": "the object rose by 0.199 m", **changes,
    }  # fmt: skip


def episode_v1(seed, failure="", **changes):
    values = {
        "task": "mug", "setup": "all", "seed": seed, "thing": "mug 3", "lying": True,
        "success": failure == "", "failure": failure, "reason": "a reason",
        "pick": step_v1(not failure.startswith("pick")),
        "place": None if failure.startswith("pick") else step_v1(not failure),
        "seconds": 2.5,
    }  # fmt: skip
    return {**values, **changes}


EPISODES_V1 = [
    episode_v1(10_000),
    episode_v1(10_001, "pick: went to something else"),
    episode_v1(10_002, "place: object not held by the target"),
    episode_v1(
        10_003,
        "pick: no proposed pose is feasible",
        pick=step_v1(False, energy=None, confidence=None, pose=None, reason="none of 100 poses"),
    ),
    episode_v1(10_004, "no layout", thing="", lying=False, pick=None, place=None, seconds=0.0),
]


def write_store_v1(folder, name="mug-all.jsonl"):
    """A file of episodes as version 1 wrote it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [CONDITIONS_V1, *EPISODES_V1]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / name).write_text(text)
    return folder / name


RUN_JSON_V1 = {
    "format": "handful-run", "version": 1, "handful": "0.1.0", "torch": "2.7.0+cpu",
    "python": "3.12.3",
    "pick": {"seconds": 240.0, "fingerprint": "0a1b", "skipped": 0, "steps": 700, "seed": 0},
    "place": {"seconds": 480.0, "fingerprint": "2c3d", "skipped": 1, "steps": 500, "seed": 0},
    "demonstrations": {"folder": "nowhere", "count": 10},
    "options": {"preset": "fast", "descriptor": "0,1,2,3", "vary": "colors", "seed": 0},
    "command": "handful train demos --out run",
}  # fmt: skip
"""`run.json` as version 1 of a training run wrote it."""
