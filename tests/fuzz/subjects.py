"""What is fuzzed: for each reader a small right input, and how it is read."""

from __future__ import annotations

import gzip
import json
import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bench_samples import CONDITIONS, episode, write_store_v1
from fuzz.baselines import BASELINES
from fuzz.checkpoints import CHECKPOINTS
from fuzz.evaluations import EVALUATIONS
from fuzz.mutations import spoil_bytes
from fuzz.recorded import RECORDED
from fuzz.requests import REQUESTS
from fuzz.studio import STUDIO
from fuzz.subject import Subject, raise_worst, unseal
from handful.bench import EpisodeStore, curve_run, read_episodes, write_report
from handful.clouds import PointCloud, read_cloud, write_cloud
from handful.demos import (
    Action,
    Step,
    TaskStep,
    gripper_named,
    import_edf,
    import_npz,
    import_posed_clouds,
    load_demos,
    load_gripper,
    save_demos,
)
from handful.demos._hand_mesh import read_hand_meshes
from handful.learning import RunFolder
from handful.models import EdfModel
from handful.policy import Predictor, load_predictor, save_predictor
from handful.sim.objects._user_meshes import _read as read_user_mesh
from handful.viz import picture_of_demos
from samples import small_cloud, small_demos
from small_training import COARSE, THIN, small_recipe


def _cloud(suffix: str) -> Subject:
    def make(folder: Path) -> None:
        for encoding in ("binary", "ascii") if suffix != ".npz" else ("binary",):
            write_cloud(small_cloud(0, 200), folder / f"{encoding}{suffix}", encoding=encoding)

    def read(folder: Path) -> None:
        for path in sorted(folder.glob(f"*{suffix}")):
            read_cloud(path)

    return Subject(make, read)


def _make_demos(folder: Path) -> None:
    save_demos(small_demos(2), folder / "set")


def _read_demos(folder: Path) -> None:
    demos = load_demos(folder / "set")
    if len(demos) == 1:
        picture_of_demos(demos, max_demos=1)


def _make_predictor(folder: Path) -> None:
    torch.manual_seed(0)
    for action in Action:
        recipe = small_recipe(action.value, action)
        model = EdfModel(recipe.model).eval()
        step = TaskStep(action.value, action)
        hand = gripper_named("simulated")
        save_predictor(Predictor(step, model, hand, THIN, COARSE), folder / action.value)


_SCENE = PointCloud(np.random.default_rng(0).uniform(-0.15, 0.15, (300, 3)), np.full((300, 3), 0.5))


def _read_predictor(folder: Path) -> None:
    errors = []
    for action in Action:
        try:
            predictor = load_predictor(folder / action.value)
            predictor.sample(_SCENE, _SCENE if action.holding else None, n=4)
            predictor.rate(np.eye(4)[None], _SCENE, _SCENE if action.holding else None)
        except Exception as error:
            errors.append(error)
    raise_worst(errors)


def _make_run(folder: Path) -> None:
    run = folder / "run"
    for conditions in (CONDITIONS, replace(CONDITIONS, rig="1 camera", objects="cups 0123")):
        store = EpisodeStore(run / "bench", conditions)
        for seed in range(10_000, 10_003):
            store.add(episode(seed, done=1 if seed == 10_001 else 2))
    write_store_v1(run / "bench", "old.jsonl")
    EpisodeStore(curve_run(run, 3) / "bench", CONDITIONS).add(episode(10_000))
    (run / "bench" / "failures").mkdir()
    picture = picture_of_demos(small_demos(1), max_demos=1).resize((64, 48))
    picture.save(run / "bench" / "failures" / f"{Path(CONDITIONS.file_name).stem}-10001.jpg")
    picture.save(run / "demos.png")
    RunFolder(run).note(
        steps=[{"name": one.value, "action": one.value} for one in Action],
        torch="2.0", handful="0.1", python="3.11",
        demonstrations={"folder": str(run), "count": 10},
        options={"preset": "fast", "seed": 0}, command="handful train demos --out run",
        models={one.value: {"seconds": 60.0, "steps": 5, "seed": 1} for one in Action},
    )  # fmt: skip
    line = {
        "step": 0, "steps": 5, "loss": 1.0, "likelihood": 2.0, "target_energy": 1.0,
        "negative_energy": 3.0, "weights": [0.5, 0.5], "skipped": 0, "seconds": 0.1,
    }  # fmt: skip
    for action in Action:
        RunFolder(run).log(action.value).write_text(f"{json.dumps(line)}\n" * 5)
    note = {"command": "handful bench mug", "handful": "0.1", "python": "3", "machine": "m"}
    (run / "bench" / "commands.jsonl").write_text(json.dumps(note) + "\n")


def _rename(folder: Path, rng: random.Random) -> None:
    """Demonstrations noted where they are, and now and then a folder of an odd name."""
    path = folder / "run" / "run.json"
    content = json.loads(path.read_text())
    content["demonstrations"]["folder"] = str(folder / "run")
    path.write_text(json.dumps(content))
    if rng.random() < 0.1:
        odd = rng.choice(["demos-²", "demos-", "demos-99999999999", "demos--1", "demos-003 "])
        (folder / "run" / "curve" / "demos-003").rename(folder / "run" / "curve" / odd)


def _read_report(folder: Path) -> None:
    write_report(folder / "run", folder / "out" / "report.html", pictures=False)


def _read_stores(folder: Path) -> None:
    for path in sorted((folder / "run" / "bench").glob("*.jsonl")):
        if path.name != "commands.jsonl":
            read_episodes(path)
    for action in Action:
        RunFolder(folder / "run").curve(action.value)
    RunFolder(folder / "run").summary()


def _make_meshes(folder: Path) -> None:
    import trimesh

    for suffix in (".obj", ".stl", ".ply", ".glb"):
        trimesh.creation.cylinder(radius=0.03, height=0.1, sections=8).export(
            folder / f"tin{suffix}"
        )
    text = (folder / "tin.obj").read_text()
    (folder / "tin.obj").write_text(f"mtllib ../secret.mtl\nusemtl x\n{text}")


def _read_meshes(folder: Path) -> None:
    errors = []
    for path in sorted(folder.glob("tin.*")):
        for read in (read_user_mesh, read_hand_meshes):
            try:
                read(path)
            except Exception as error:
                if path.suffix != ".glb" or read is read_user_mesh:
                    errors.append(error)
    raise_worst(errors)


def _make_gripper(folder: Path) -> None:
    demos = replace(small_demos(1), gripper=gripper_named("robotiq-2f-85"))
    save_demos(demos, folder / "set")
    content = json.loads((folder / "set" / "demos.json").read_text())
    (folder / "hand.json").write_text(json.dumps(content["gripper"]))
    for mesh in (folder / "set").glob("*.obj"):
        (folder / mesh.name).write_bytes(mesh.read_bytes())


def _make_recordings(folder: Path) -> None:
    arrays = {}
    for step in small_demos(1)[0].steps:
        arrays[f"{step.name}_scene_points"] = step.scene.points
        arrays[f"{step.name}_target_poses"] = step.targets
    (folder / "npz").mkdir()
    np.savez(folder / "npz" / "demo_0.npz", **arrays)
    (folder / "edf").mkdir()
    original = [_original_step(step) for step in small_demos(1)[0].steps]
    packed = gzip.compress(pickle.dumps(original, protocol=4))
    (folder / "edf" / "demo_0.gzip").write_bytes(packed)
    (folder / "clouds").mkdir()
    write_cloud(small_cloud(1), folder / "clouds" / "a.ply")
    (folder / "clouds" / "poses.csv").write_text(
        "demo,step,scene,x,y,z,qw,qx,qy,qz\na,pick,a.ply,0,0,0.1,1,0,0,0\n"
    )
    pose = {"demo": "a", "step": "pick", "scene": "a.ply", "position": [0, 0, 0.1],
            "quat_wxyz": [1, 0, 0, 0]}  # fmt: skip
    (folder / "clouds" / "poses.json").write_text(json.dumps([pose]))


def _original_step(step: Step) -> dict[str, object]:
    """A step as the paper's authors save it."""
    colors = step.scene.colors
    return {
        "name": step.name,
        "scene_points": torch.tensor(step.scene.points),
        "scene_colors": torch.zeros(0) if colors is None else torch.tensor(colors),
        "target_poses": torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.2]]),
    }


def _unpack(folder: Path, rng: random.Random) -> None:
    """The pickle inside a gzip file is spoiled as often as the file: gzip has a checksum."""
    path = folder / "edf" / "demo_0.gzip"
    if rng.random() < 0.3:
        data = spoil_bytes(gzip.decompress(path.read_bytes()), rng)
        path.write_bytes(gzip.compress(data))


def _read_recordings(folder: Path) -> None:
    hand, errors = gripper_named("simulated"), []
    for read in (
        lambda: import_npz(folder / "npz", gripper=hand),
        lambda: import_edf(folder / "edf"),
        lambda: import_posed_clouds(folder / "clouds", folder / "clouds/poses.csv", gripper=hand),
        lambda: import_posed_clouds(folder / "clouds", folder / "clouds/poses.json", gripper=hand),
    ):
        try:
            read()
        except Exception as error:
            errors.append(error)
    raise_worst(errors)


SUBJECTS = {
    "ply": _cloud(".ply"),
    "pcd": _cloud(".pcd"),
    "npz": _cloud(".npz"),
    "manifest": Subject(_make_demos, _read_demos, 2.0),
    "gripper": Subject(_make_gripper, lambda folder: load_gripper(folder / "hand.json"), 0.5),
    "recordings": Subject(_make_recordings, _read_recordings, 1.5, prepare=_unpack),
    "model": Subject(_make_predictor, _read_predictor, 2.0, 60.0, unseal),
    "report": Subject(_make_run, _read_report, 2.0, 20.0, _rename),
    "stores": Subject(_make_run, _read_stores, 1.5),
    "meshes": Subject(_make_meshes, _read_meshes, 1.5, 20.0),
    **BASELINES,
    **CHECKPOINTS,
    **EVALUATIONS,
    **RECORDED,
    **REQUESTS,
    **STUDIO,
}
