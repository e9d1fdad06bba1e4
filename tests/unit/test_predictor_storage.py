"""Predictors on disk: round trips, folders of version 1, and folders that are not whole."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from equivariance import random_object
from handful.demos import (
    Action,
    ContactFrame,
    Gripper,
    HandBox,
    HandMesh,
    HandShape,
    TaskStep,
    gripper_from_tip,
    gripper_named,
)
from handful.errors import FileFormatError, HandfulError
from handful.models import (
    EdfModel,
    EncoderConfig,
    GraspQueryConfig,
    LearnedQueryConfig,
    ModelConfig,
    save_model,
)
from handful.policy import (
    CloudStatistics,
    Confidence,
    Crossings,
    Predictor,
    Preparation,
    SearchConfig,
    load_predictor,
    save_predictor,
)

ENCODER = EncoderConfig(voxel_size=None, radius=0.05, layers=1, degree=1, channels=4, heads=2)
CONFIGS = {
    Action.PICK: ModelConfig(ENCODER, (3, 2), learned=LearnedQueryConfig(((0.0, 0.0, 0.145),))),
    Action.PLACE: ModelConfig(ENCODER, (3, 2), grasp=GraspQueryConfig(ENCODER, 2, 3, steps=2)),
}
TETRAHEDRON = HandMesh(
    ((0.0, 0.0, 0.0), (0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.03)),
    ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)),
)
ODD_HAND = Gripper(
    ContactFrame((0.01, -0.02, 0.12), (0.5, 0.5, -0.5, 0.5)),
    "y",
    0.06,
    HandShape((HandBox((0.0, 0.0, 0.03), (0.1, 0.05, 0.04), side=-1),), (TETRAHEDRON,)),
    "odd",
)
"""Nothing about it is a default."""


def predictor(action: Action, gripper: Gripper = ODD_HAND) -> Predictor:
    torch.manual_seed(0)
    return Predictor(
        TaskStep(f"{action.value} the left mug", action),
        EdfModel(CONFIGS[action]).eval(),
        gripper,
        Preparation(scene_voxel=0.007, grasp_voxel=0.004),
        SearchConfig(spacing=0.03, rotations=30, starts=4, refine_steps=1, reach=0.02),
        Confidence(1.25, 0.125),
    )


def answer(model: Predictor):
    grasp = random_object(1, 60, 0.03) if model.model.holding else None
    return model.sample(random_object(0, 80), grasp, n=3, seed=4)


# --- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("gripper", [ODD_HAND, replace(ODD_HAND, shape=None)], ids=["hand", "bare"])
@pytest.mark.parametrize("action", Action)
def test_a_predictor_round_trips(tmp_path, action, gripper):
    saved = predictor(action, gripper)
    loaded = load_predictor(save_predictor(saved, tmp_path / "model"))
    assert loaded.step == saved.step
    assert loaded.model.config == saved.model.config
    assert loaded.trained_gripper == loaded.gripper == gripper
    assert (loaded.preparation, loaded.search) == (saved.preparation, saved.search)
    assert loaded.confidence == saved.confidence
    one, other = answer(saved), answer(loaded)
    np.testing.assert_array_equal(one.T_scene_gripper, other.T_scene_gripper)
    np.testing.assert_array_equal(one.confidence, other.confidence)


def test_a_predictor_for_another_gripper_is_stored_with_the_gripper_of_its_demonstrations(tmp_path):
    saved = predictor(Action.PICK)
    turned = saved.for_gripper(gripper_named("simulated"))
    loaded = load_predictor(save_predictor(turned, tmp_path / "model"))
    assert loaded.gripper == ODD_HAND
    np.testing.assert_array_equal(answer(loaded).T_scene_gripper, answer(saved).T_scene_gripper)
    assert not np.allclose(answer(turned).T_scene_gripper, answer(saved).T_scene_gripper)


def test_what_a_predictor_was_trained_on_is_stored_and_missing_in_older_files(tmp_path):
    usual, scene = CloudStatistics(0.006, 0.001, 0.05), random_object(0, 80, 0.3)
    saved = replace(predictor(Action.PICK), trained_on=usual)
    folder = save_predictor(saved, tmp_path / "model")
    loaded = load_predictor(folder)
    assert loaded.trained_on == usual
    assert loaded.unlike(scene) == saved.unlike(scene) != []
    without_use("trained_on")(folder)
    older = load_predictor(folder)
    assert older.trained_on is None
    assert older.unlike(scene) == [], "what is not known is not told"
    again = load_predictor(save_predictor(older, tmp_path / "again"))
    assert again.trained_on is None


def test_what_demonstrations_showed_is_stored_and_missing_in_older_files(tmp_path):
    saved = replace(predictor(Action.PLACE), crossings=Crossings((0.0, 1.5, 12.0)))
    folder = save_predictor(saved, tmp_path / "model")
    assert load_predictor(folder).crossings == saved.crossings
    without_use("crossings")(folder)
    assert load_predictor(folder).crossings == Crossings()


@pytest.mark.parametrize("counts", [[0.0, 1.0], [0.0, 0.0, -1.0], "many"])
def test_impossible_crossings_are_refused(tmp_path, counts):
    folder = save_predictor(predictor(Action.PLACE), tmp_path / "model")
    change_use("crossings", "counts", to=counts)(folder)
    with pytest.raises(FileFormatError, match="crossings"):
        load_predictor(folder)


@pytest.mark.parametrize("value", [-1.0, 1e9, "wide", None])
def test_impossible_statistics_of_training_are_refused(tmp_path, value):
    usual = CloudStatistics(0.006, 0.001, 0.5)
    folder = save_predictor(replace(predictor(Action.PICK), trained_on=usual), tmp_path / "model")
    change_use("trained_on", "extent", to=value)(folder)
    with pytest.raises(FileFormatError, match="trained_on"):
        load_predictor(folder)


# --- version 1 ----------------------------------------------------------------------------------

USE_1 = {
    "format": "handful-trained-model",
    "version": 1,
    "gripper": {"tip": 0.14, "opening": 0.07, "axis": "y"},
    "search": {
        "spacing": 0.03,
        "rotations": 30,
        "starts": 4,
        "refine_steps": 1,
        "reach": 0.02,
        "scene_voxel": 0.007,
        "grasp_voxel": 0.004,
    },
    "confidence": {"threshold": 1.25, "scale": 0.125},
}


def config_1(action: Action) -> dict:
    """`config.json` of version 1 for the models of `CONFIGS`."""
    encoder = {
        "voxel_size": None, "radius": 0.05, "layers": 1, "degree": 1, "channels": 4, "heads": 2,
        "use_colors": True,
    }  # fmt: skip
    energy = {"descriptor": [3, 2], "norm": "squared", "temperature": 1.0}
    drawn = {"count": 3, "cluster_radius": 0.015, "steps": 2, "step_size": 0.005, "unit": 0.01}
    query_points = {
        Action.PICK: {
            "encoder": encoder,
            "query_positions": [[0.0, 0.0, 0.145]],
            "learn_positions": False,
        },
        Action.PLACE: {
            "scene_encoder": encoder,
            "grasp_encoder": encoder,
            "queries": drawn,
            "strongest": 2,
        },
    }
    config = {**energy, **query_points[action]}
    return {"format": "handful-model", "version": 1, "kind": action.value, "config": config}


def write_version_1(action: Action, folder, use: dict = USE_1):
    save_model(predictor(action).model, folder, {"use.json": json.dumps(use)})
    (folder / "config.json").write_text(json.dumps(config_1(action)))
    return folder


@pytest.mark.parametrize("action", Action)
def test_a_folder_of_version_1_is_read(tmp_path, action):
    loaded = load_predictor(write_version_1(action, tmp_path / "old"))
    assert loaded.step == TaskStep(action.value, action)
    assert loaded.gripper == gripper_from_tip(0.14, 0.07, "y")
    np.testing.assert_allclose(loaded.gripper.T_gripper_contact[:3, 3], [0.0, 0.0, 0.14])
    np.testing.assert_allclose(loaded.gripper.T_gripper_contact[:3, 0], [0.0, 1.0, 0.0], atol=1e-12)
    expected = predictor(action)
    assert loaded.model.config == expected.model.config
    assert (loaded.preparation, loaded.search) == (expected.preparation, expected.search)
    assert loaded.confidence == expected.confidence
    same = replace(expected, trained_gripper=loaded.trained_gripper)
    np.testing.assert_array_equal(answer(loaded).T_scene_gripper, answer(same).T_scene_gripper)


def test_a_predictor_of_version_1_that_is_saved_again_is_the_same(tmp_path):
    old = load_predictor(write_version_1(Action.PLACE, tmp_path / "old"))
    new = load_predictor(save_predictor(old, tmp_path / "new"))
    assert json.loads((tmp_path / "new" / "use.json").read_text())["version"] == 2
    assert (new.step, new.gripper, new.search) == (old.step, old.gripper, old.search)


def test_a_search_of_version_1_without_voxel_sizes_takes_the_defaults(tmp_path):
    use = {**USE_1, "search": {"spacing": 0.03}}
    loaded = load_predictor(write_version_1(Action.PICK, tmp_path / "old", use))
    assert loaded.preparation == Preparation()
    assert loaded.search == SearchConfig(spacing=0.03)


BAD_USE_1 = {
    "tip": ({"gripper": {"tip": 5.0, "opening": 0.07, "axis": "y"}}, "gripper tip is 5.0"),
    "axis": ({"gripper": {"tip": 0.1, "opening": 0.07, "axis": "q"}}, "gripper axis"),
    "no tip": ({"gripper": {"opening": 0.07, "axis": "y"}}, "gripper: field 'tip' is missing"),
    "voxel": ({"search": {"scene_voxl": 0.006}}, "search: unknown field 'scene_voxl'"),
    "voxel type": ({"search": {"scene_voxel": "6 mm"}}, "scene_voxel: is '6 mm': need float"),
    "step": ({"step": {"name": "pick", "action": "pick"}}, "unknown field 'step'"),
}


@pytest.mark.parametrize("case", BAD_USE_1)
def test_a_wrong_file_of_version_1_is_refused_with_the_reason(tmp_path, case):
    change, message = BAD_USE_1[case]
    folder = write_version_1(Action.PICK, tmp_path / "old", {**USE_1, **change})
    with pytest.raises(HandfulError, match=message):
        load_predictor(folder)


# --- folders that are not whole -----------------------------------------------------------------


def unsealed(folder):
    """The model as software of before wrote it, without digests: each check is then alone."""
    file = folder / "config.json"
    content = json.loads(file.read_text())
    content.pop("digests", None)
    file.write_text(json.dumps(content, indent=2))
    return folder


def change_use(*path, to):
    def apply(folder):
        unsealed(folder)
        file = folder / "use.json"
        content = json.loads(file.read_text())
        node = content
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = to
        file.write_text(json.dumps(content))

    return apply


def without_use(*path):
    def apply(folder):
        unsealed(folder)
        file = folder / "use.json"
        content = json.loads(file.read_text())
        node = content
        for name in path[:-1]:
            node = node[name]
        del node[path[-1]]
        file.write_text(json.dumps(content))

    return apply


def cut(name):
    def apply(folder):
        file = folder / name
        file.write_bytes(file.read_bytes()[:-30])

    return apply


BAD_FOLDERS = {
    "no use": (lambda folder: (folder / "use.json").unlink(), "nobody trained the model"),
    "no model": (lambda folder: (folder / "config.json").unlink(), "no config.json there"),
    "cut use": (cut("use.json"), "use.json: line .*: not valid JSON"),
    "cut config": (cut("config.json"), "config.json: line .*: not valid JSON"),
    "cut weights": (cut("weights.safetensors"), "not readable weights"),
    "format": (change_use("format", to="x"), "need format 'handful-trained-model'"),
    "version": (change_use("version", to=3), "version 1 or 2"),
    "unknown": (change_use("serch", to={}), "unknown field 'serch'. Did you mean 'search'"),
    "unknown in search": (
        change_use("search", "spacng", to=0.1),
        "search: unknown field 'spacng'. Did you mean 'spacing'",
    ),
    "unknown in gripper": (
        change_use("gripper", "contact", "positon", to=0.1),
        "gripper: contact: unknown field 'positon'. Did you mean 'position'",
    ),
    "unknown in step": (change_use("step", "nam", to="x"), "step: unknown field 'nam'"),
    "no gripper": (without_use("gripper"), "field 'gripper' is missing"),
    "no opening": (without_use("gripper", "opening"), "gripper: field 'opening' is missing"),
    "no step": (without_use("step"), "field 'step' is missing"),
    "no confidence": (without_use("confidence"), "field 'confidence' is missing"),
    "opening": (change_use("gripper", "opening", to=80.0), "gripper opening is 80"),
    "mesh": (change_use("gripper", "shape", "meshes", 0, "faces", 0, to=[0, 1, 9]), "vertices"),
    "spacing": (
        change_use("search", "spacing", to=-0.1),
        "search spacing is -0.1: need 0.001 to 10",
    ),
    "whole number": (change_use("search", "rotations", to=3.5), "rotations: is 3.5: need int"),
    "scale": (change_use("confidence", "scale", to=0.0), "confidence: .*scale 0.0"),
    "flipped": (
        change_use("step", "action", to="place"),
        "action is 'place', and the model beside it is for an empty gripper",
    ),
}


@pytest.mark.parametrize("case", BAD_FOLDERS)
def test_a_folder_that_is_not_whole_is_refused_with_the_reason(tmp_path, case):
    damage, message = BAD_FOLDERS[case]
    folder = unsealed(save_predictor(predictor(Action.PICK), tmp_path / "model"))
    damage(folder)
    with pytest.raises(FileFormatError, match=message):
        load_predictor(folder)


def test_a_model_for_a_full_gripper_does_not_take_the_file_of_an_empty_one(tmp_path):
    folder = save_predictor(predictor(Action.PLACE), tmp_path / "model")
    change_use("step", "action", to="pick")(folder)
    with pytest.raises(FileFormatError, match=r"is 'pick', and .* is for a full gripper"):
        load_predictor(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_use("step", "action", to="plaice"), "step: unknown action 'plaice'.*'place'"),
        (change_use("step", "name", to="../pick"), "step: step name '../pick'"),
        (change_use("step", "name", to="bench"), "name of a folder that every run has"),
    ],
)
def test_an_impossible_step_is_refused(tmp_path, change, message):
    folder = save_predictor(predictor(Action.PICK), tmp_path / "model")
    change(folder)
    with pytest.raises(HandfulError, match=message):
        load_predictor(folder)
