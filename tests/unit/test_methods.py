"""The registry of methods, and models of other methods on disk."""

import json
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
from torch import nn

from handful.demos import Action, TaskStep, gripper_named
from handful.errors import FileFormatError, OptionError
from handful.learning import (
    EDF,
    MethodOptions,
    StoredModel,
    load_trained,
    method_named,
    method_names,
    method_of,
    read_parts,
    read_weights,
    save_parts,
)
from handful.learning import _registry as registry
from handful.policy import Preparation

STORED = StoredModel(TaskStep("pick", Action.PICK), gripper_named("simulated"), Preparation(0.01))


@pytest.fixture
def installed(monkeypatch):
    """Entry points of packages that are not really installed."""
    entries = []
    monkeypatch.setattr(registry, "entry_points", lambda group: tuple(entries))
    return entries


def test_our_methods_have_the_names_they_are_found_by():
    for name in registry.OURS:
        method = method_named(name)
        assert method.name == name
        assert method.preset_of(MethodOptions()) == method.presets[0]


def test_an_unknown_method_is_told_with_the_nearest_name():
    with pytest.raises(OptionError, match=r"unknown method 'edff'. Did you mean 'edf'"):
        method_named("edff")


def test_methods_of_other_packages_are_found_and_never_shadow_ours(installed):
    where = "handful.learning:EDF_TYPE0"
    installed += [EntryPoint("edf", where, registry.GROUP)]
    installed += [EntryPoint("theirs", where, registry.GROUP)]
    assert method_named("edf") is EDF
    assert method_names()[-1] == "theirs"
    with pytest.raises(OptionError, match="need an object of a class"):  # it has another name
        method_named("theirs")


def test_a_package_that_does_not_work_is_one_sentence(installed):
    installed += [EntryPoint("broken", "no_such_module:M", registry.GROUP)]
    with pytest.raises(OptionError, match=r"broken.*ModuleNotFoundError.*mend or remove"):
        method_named("broken")


def test_presets_and_colours_are_checked_by_the_method():
    with pytest.raises(OptionError, match=r"unknown preset 'quick'"):
        EDF.preset_of(MethodOptions("quick"))
    assert EDF.preset_of(MethodOptions("paper", colors_matter=True)) == "paper"


def test_a_model_of_a_method_comes_back_from_disk(tmp_path):
    model = nn.Linear(3, 2)
    save_parts(tmp_path / "pick", "theirs", STORED, model)
    assert read_parts(tmp_path / "pick", "theirs", Preparation) == STORED
    other = nn.Linear(3, 2)
    read_weights(tmp_path / "pick", other)
    assert torch.equal(other.weight, model.weight)


def test_a_model_of_a_method_that_is_not_installed_says_so(tmp_path):
    save_parts(tmp_path / "pick", "theirs", STORED, nn.Linear(3, 2))
    with pytest.raises(FileFormatError, match=r"unknown method 'theirs'.*Install the package"):
        load_trained(tmp_path / "pick")


@pytest.mark.parametrize("change", ["weights", "config", "method", "field"])
def test_a_changed_model_is_refused(tmp_path, change):
    folder = save_parts(tmp_path / "pick", "theirs", STORED, nn.Linear(3, 2))
    file = folder / "config.json"
    content = json.loads(file.read_text())
    if change == "weights":
        data = bytearray((folder / "weights.safetensors").read_bytes())
        data[-1] ^= 1
        (folder / "weights.safetensors").write_bytes(data)
    elif change == "config":
        content["config"]["scene_voxel"] = 0.02
    elif change == "method":
        content["method"] = "others"
    else:
        content["more"] = 1
    file.write_text(json.dumps(content))
    with pytest.raises(FileFormatError):
        read_parts(folder, "theirs", Preparation)


def test_a_model_without_digests_is_read(tmp_path):
    folder = save_parts(tmp_path / "pick", "theirs", STORED, nn.Linear(3, 2))
    content = json.loads((folder / "config.json").read_text())
    del content["digests"]
    (folder / "config.json").write_text(json.dumps(content))
    assert read_parts(folder, "theirs", Preparation) == STORED


def test_weights_of_another_shape_or_not_finite_are_refused(tmp_path):
    folder = save_parts(tmp_path / "pick", "theirs", STORED, nn.Linear(3, 2))
    with pytest.raises(FileFormatError, match="need"):
        read_weights(folder, nn.Linear(4, 2))
    bad = nn.Linear(3, 2)
    with torch.no_grad():
        bad.bias[0] = float(np.nan)
    with pytest.raises(FileFormatError, match="NaN"):
        read_weights(save_parts(tmp_path / "place", "theirs", STORED, bad), nn.Linear(3, 2))


def test_a_folder_without_a_model_is_told(tmp_path):
    with pytest.raises(FileFormatError, match="give the folder of a saved model"):
        method_of(tmp_path)
