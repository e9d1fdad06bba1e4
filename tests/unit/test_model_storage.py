"""Models on disk: round trips, folders of version 1, configuration files, damaged folders."""

import json
import math
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from equivariance import random_object, random_poses
from handful.errors import FileFormatError, OptionError
from handful.models import (
    EdfModel,
    EncoderConfig,
    GraspQueryConfig,
    LearnedQueryConfig,
    ModelConfig,
    config_from_json,
    config_to_json,
    load_model,
    save_model,
)

ENCODER = EncoderConfig(voxel_size=None, radius=0.05, layers=1, degree=1, channels=4, heads=2)
FINER = replace(ENCODER, radius=0.04)
CONFIGS = {
    "learned": ModelConfig(
        ENCODER, (3, 2), learned=LearnedQueryConfig(((0.0, 0.0, 0.1), (0.01, 0.0, 0.1)))
    ),
    "grasp": ModelConfig(
        ENCODER,
        (3, 2),
        grasp=GraspQueryConfig(FINER, 2, 3, cluster_radius=0.02, steps=2, step_size=0.1, unit=0.02),
        norm="irrepwise_l1",
        temperature=0.5,
    ),
}
SHAPED = replace(CONFIGS["learned"], encoder=replace(ENCODER, degree=2, shape_radius=0.04))
SCENE, GRASP = random_object(0), random_object(1)
POSES = random_poses(5, 0).float()


def small_model(source: str) -> EdfModel:
    torch.manual_seed(0)
    return EdfModel(CONFIGS[source]).eval()


def energies(model: EdfModel) -> torch.Tensor:
    with torch.no_grad():
        return model(SCENE, GRASP if model.holding else None)(POSES)


@pytest.mark.parametrize("source", CONFIGS)
def test_a_model_round_trips(tmp_path, source):
    model = small_model(source)
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.config == model.config
    assert loaded.holding is (source == "grasp")
    assert not loaded.training
    assert torch.equal(energies(loaded), energies(model))
    save_model(model, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_saving_does_not_replace_other_folders(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileFormatError, match="holds no model"):
        save_model(small_model("learned"), tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


# --- shapes as an input -------------------------------------------------------------------------


def test_a_model_that_sees_shapes_round_trips(tmp_path):
    torch.manual_seed(0)
    model = EdfModel(SHAPED).eval()
    folder = save_model(model, tmp_path / "model")
    stored = json.loads((folder / "config.json").read_text())["config"]["encoder"]
    assert stored["shape_radius"] == 0.04
    loaded = load_model(folder)
    assert loaded.config == SHAPED
    assert torch.equal(energies(loaded), energies(model))


@pytest.mark.parametrize("source", CONFIGS)
def test_a_model_from_before_shapes_were_an_input_is_read_and_is_the_same(tmp_path, source):
    model = small_model(source)
    folder = save_model(model, tmp_path / "model")
    content = json.loads((unsealed(folder) / "config.json").read_text())
    del content["config"]["encoder"]["shape_radius"]
    if source == "grasp":
        del content["config"]["grasp"]["encoder"]["shape_radius"]
    (folder / "config.json").write_text(json.dumps(content))
    loaded = load_model(folder)
    assert loaded.config == CONFIGS[source]
    assert torch.equal(energies(loaded), energies(model))


def test_weights_of_a_model_without_shapes_do_not_fit_one_with_shapes(tmp_path):
    folder = save_model(small_model("learned"), tmp_path / "model")
    change_config(config__encoder__degree=2, config__encoder__shape_radius=0.04)(folder)
    with pytest.raises(FileFormatError, match=r"weights\.safetensors"):
        load_model(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape_radius": -0.01}, "encoder shape_radius is -0.01: need metres, 0 to 1"),
        ({"shape_radius": math.nan}, "encoder shape_radius is nan"),
        ({"shape_radius": 0.03}, "encoder degree is 1: need 2 or more for shapes"),
    ],
)
def test_impossible_shape_radii_are_refused(change, message):
    with pytest.raises(OptionError, match=message):
        replace(ENCODER, **change)


# --- version 1 ----------------------------------------------------------------------------------

ENCODER_1 = {
    "voxel_size": None,
    "radius": 0.05,
    "layers": 1,
    "degree": 1,
    "channels": 4,
    "heads": 2,
    "use_colors": True,
}
CONFIGS_1 = {
    "learned": {
        "format": "handful-model",
        "version": 1,
        "kind": "pick",
        "config": {
            "encoder": ENCODER_1,
            "descriptor": [3, 2],
            "query_positions": [[0.0, 0.0, 0.1], [0.01, 0.0, 0.1]],
            "learn_positions": False,
            "norm": "squared",
            "temperature": 1.0,
        },
    },
    "grasp": {
        "format": "handful-model",
        "version": 1,
        "kind": "place",
        "config": {
            "scene_encoder": ENCODER_1,
            "grasp_encoder": {**ENCODER_1, "radius": 0.04},
            "descriptor": [3, 2],
            "queries": {
                "count": 3,
                "cluster_radius": 0.02,
                "steps": 2,
                "step_size": 0.1,
                "unit": 0.02,
            },
            "strongest": 2,
            "norm": "irrepwise_l1",
            "temperature": 0.5,
        },
    },
}
"""What `config.json` of version 1 held for the models of `CONFIGS`."""


def write_version_1(source, folder):
    """A folder as version 1 wrote it; the names of the weights have not changed since."""
    folder.mkdir()
    save_file(small_model(source).state_dict(), folder / "weights.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIGS_1[source]))
    return folder


@pytest.mark.parametrize("source", CONFIGS)
def test_a_folder_of_version_1_holds_the_same_model(tmp_path, source):
    loaded = load_model(write_version_1(source, tmp_path / "old"))
    assert loaded.config == CONFIGS[source]
    assert torch.equal(energies(loaded), energies(small_model(source)))


def test_a_model_of_version_1_that_is_saved_again_is_of_version_2(tmp_path):
    loaded = load_model(write_version_1("grasp", tmp_path / "old"))
    folder = save_model(loaded, tmp_path / "new")
    assert json.loads((folder / "config.json").read_text())["version"] == 2
    assert load_model(folder).config == loaded.config


# --- configurations -----------------------------------------------------------------------------


@pytest.mark.parametrize("source", CONFIGS)
def test_a_configuration_survives_json(source):
    text = json.dumps(config_to_json(CONFIGS[source]))
    assert config_from_json(ModelConfig, json.loads(text), "here") == CONFIGS[source]


def test_a_missing_field_takes_its_default_at_every_depth():
    read = config_from_json(ModelConfig, {"grasp": {"encoder": {"radius": 0.03}}}, "here")
    assert read == ModelConfig(grasp=GraspQueryConfig(EncoderConfig(radius=0.03)))


BAD_CONFIGS = {
    "no default": ({"learned": {}}, "here: learned: field 'positions' is missing"),
    "unknown": ({"temprature": 1.0}, "unknown field 'temprature'. Did you mean 'temperature'"),
    "unknown below": (
        {"grasp": {"encoder": {"radios": 1.0}}},
        "here: grasp: encoder: unknown field 'radios'. Did you mean 'radius'",
    ),
    "list": ([], "here: is a list: need an object"),
    "number for object": ({"encoder": 3}, "here: encoder: is the number 3: need an object"),
    "nothing for object": ({"encoder": None}, "here: encoder: is nothing: need an object"),
    "number for list": ({"descriptor": 3}, "here: descriptor: need a list"),
    "text in list": ({"descriptor": [3, "2"]}, r"descriptor\[1\]: is '2': need int"),
    "float for whole number": ({"encoder": {"layers": 2.0}}, "layers: is 2.0: need int"),
    "true for number": ({"temperature": True}, "temperature: is True: need float"),
    "number for truth": ({"encoder": {"use_colors": 1}}, "use_colors: is 1: need bool"),
    "nothing for number": ({"temperature": None}, "temperature: is None: need float"),
    "NaN": ({"temperature": math.nan}, "temperature: is nan: need a finite number"),
    "together": ({}, "here: a model has query points of one source"),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_configuration_is_refused_with_its_address(case):
    value, message = BAD_CONFIGS[case]
    with pytest.raises(FileFormatError, match=message):
        config_from_json(ModelConfig, value, "here")


# --- damaged folders ----------------------------------------------------------------------------


def unsealed(folder):
    """The model as software of before wrote it, without digests: each check is then alone."""
    path = folder / "config.json"
    content = json.loads(path.read_text())
    content.pop("digests", None)
    path.write_text(json.dumps(content, indent=2))
    return folder


def change_config(**changes):
    def apply(folder):
        unsealed(folder)
        path = folder / "config.json"
        content = json.loads(path.read_text())
        for name, value in changes.items():
            *parents, last = name.split("__")
            node = content
            for parent in parents:
                node = node[parent]
            node[last] = value
        path.write_text(json.dumps(content))

    return apply


def change_weights(edit):
    def apply(folder):
        path = folder / "weights.safetensors"
        weights = load_file(path)
        edit(weights)
        save_file(weights, path)

    return apply


def cut(name, count):
    def apply(folder):
        path = folder / name
        path.write_bytes(path.read_bytes()[:-count])

    return apply


LOGITS = "queries._logits"
BAD_FOLDERS = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "no config.json there"),
    "no weights": (lambda folder: (folder / "weights.safetensors").unlink(), "cannot be read"),
    "cut config": (cut("config.json", 20), "not valid JSON"),
    "cut weights": (cut("weights.safetensors", 100), "not readable weights"),
    "empty weights": (cut("weights.safetensors", 10**9), "not readable weights"),
    "format": (change_config(format="x"), "need format 'handful-model'"),
    "version": (change_config(version=3), "need format 'handful-model', version 1 or 2"),
    "more fields": (change_config(kind="pick"), "unknown field 'kind'"),
    "typo": (change_config(config__temprature=1.0), "Did you mean 'temperature'"),
    "nested typo": (change_config(config__encoder__radios=1.0), "encoder: unknown field 'radios'"),
    "text for number": (change_config(config__encoder__layers="2"), "layers: is '2': need int"),
    "bad value": (change_config(config__encoder__radius=-1.0), "radius is -1"),
    "huge": (change_config(config__encoder__channels=40_000), "need 1 to 512"),
    "huge number": (change_config(config__temperature=10**400), "need a finite number"),
    "norm": (change_config(config__norm="l2"), "unknown energy norm 'l2'"),
    "ragged": (change_config(config__learned__positions=[[0.0], [1.0, 2.0]]), "query positions"),
    "no source": (change_config(config__learned=None), "query points of one source"),
    "heads": (change_config(config__encoder__heads=3), "config.json: config: 4 channels cannot"),
    "another size": (change_config(config__encoder__channels=8), "need torch.float32"),
    "more layers": (change_config(config__encoder__layers=2), "is missing"),
    "NaN": (change_weights(lambda w: w[LOGITS].fill_(math.nan)), "holds NaN"),
    "missing": (change_weights(lambda w: w.pop(LOGITS)), "'queries._logits' is missing"),
    "extra": (change_weights(lambda w: w.update(x=torch.ones(1))), "'x' does not belong"),
    "double": (change_weights(lambda w: w.update({LOGITS: w[LOGITS].double()})), "torch.float64"),
}


@pytest.mark.parametrize("case", BAD_FOLDERS)
def test_a_damaged_folder_is_refused_with_the_reason(tmp_path, case):
    damage, message = BAD_FOLDERS[case]
    folder = unsealed(save_model(small_model("learned"), tmp_path / "model"))
    damage(folder)
    with pytest.raises(FileFormatError, match=message):
        load_model(folder)


BAD_FOLDERS_1 = {
    "kind": ("learned", change_config(kind="pik"), "Did you mean 'pick'"),
    "typo": ("learned", change_config(config__temprature=1.0), "Did you mean 'temperature'"),
    "nested typo": ("grasp", change_config(config__queries__cout=3), "Did you mean 'count'"),
    "ragged": ("learned", change_config(config__query_positions=[[0.0]]), "query positions"),
    "norm": ("grasp", change_config(config__norm="l2"), "unknown energy norm 'l2'"),
    "strongest": ("grasp", change_config(config__strongest=0), "config: strongest is 0"),
    "of the other kind": ("grasp", change_config(kind="pick"), "field 'encoder' is missing"),
}


@pytest.mark.parametrize("case", BAD_FOLDERS_1)
def test_a_damaged_folder_of_version_1_is_refused_with_the_reason(tmp_path, case):
    source, damage, message = BAD_FOLDERS_1[case]
    folder = write_version_1(source, tmp_path / "old")
    damage(folder)
    with pytest.raises(FileFormatError, match=message):
        load_model(folder)
