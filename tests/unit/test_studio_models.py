"""What the studio asks trained models: the model so far, energies and fields as colours."""

from pathlib import Path

import numpy as np
import pytest
import torch

from handful.demos import Action
from handful.errors import HandfulError, OptionError
from handful.learning import RunFolder, StepReport, predictor_so_far, train_in_folder
from handful.policy import Predictor
from handful.viz import FieldOnCloud, energy_heat, heat_colors, palette_of_field
from samples import thin_sample
from small_training import small_recipe

RECIPE = small_recipe("pick", Action.PICK, steps=4)


class _Enough(Exception):
    pass


def interrupted(folder: Path, after: int) -> None:
    """A training that was stopped, and left its checkpoint."""

    def report(step: StepReport) -> None:
        if step.step + 1 == after:
            raise _Enough

    with pytest.raises(_Enough):
        train_in_folder(thin_sample(), RECIPE, folder, report=report, checkpoint_seconds=0.0)


def test_the_model_so_far_is_that_of_the_last_checkpoint(tmp_path: Path):
    assert predictor_so_far(thin_sample(), RECIPE, tmp_path) is None
    interrupted(tmp_path, 2)
    two = predictor_so_far(thin_sample(), RECIPE, tmp_path)
    assert isinstance(two, Predictor)
    scene = thin_sample()[0].steps[0].scene
    assert len(two.sample(scene, n=2)) > 0
    done = train_in_folder(thin_sample(), RECIPE, tmp_path, resume=True)
    assert predictor_so_far(thin_sample(), RECIPE, tmp_path) is None
    assert RunFolder(tmp_path).model("pick").is_dir()
    before, after = (one.model.state_dict() for one in (two, done))
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_checkpoint_of_other_demonstrations_is_refused(tmp_path: Path):
    interrupted(tmp_path, 1)
    with pytest.raises(HandfulError, match="other demonstrations"):
        predictor_so_far(thin_sample(1), RECIPE, tmp_path)


def test_energies_over_a_scene_are_those_of_poses_that_are_rated(tmp_path: Path):
    predictor = train_in_folder(thin_sample(), RECIPE, tmp_path)
    step = thin_sample()[0].steps[0]
    view = predictor.look(step.scene)
    places, energies = energy_heat(view, step.targets[0], predictor.gripper, step.scene, most=60)
    assert len(places) == len(energies) <= 60
    poses = np.repeat(step.targets[:1], len(places), axis=0)
    poses[:, :3, 3] = places - poses[0, :3, :3] @ predictor.gripper.T_gripper_contact[:3, 3]
    rated = view.rate(poses)
    assert np.allclose(np.sort(energies), rated.energy, atol=1e-4)
    assert np.allclose(energies, view.energies_at(poses), atol=1e-6)
    colors = heat_colors(places, energies, places)
    assert colors.shape == (len(places), 3)
    assert colors[energies.argmin()].sum() > colors[energies.argmax()].sum()


def test_fields_become_colours_and_a_missing_type_is_told(tmp_path: Path):
    predictor = train_in_folder(thin_sample(), RECIPE, tmp_path)
    scene = thin_sample()[0].steps[0].scene
    energy, _ = predictor.energy(scene, own_frames=False)
    seen = FieldOnCloud.of(scene, energy.field, palette_of_field(energy.field))
    for colors in (seen.colors(scene.points), seen.strength_colors(1, scene.points)):
        assert colors.shape == scene.points.shape
        assert 0.0 <= colors.min() <= colors.max() <= 1.0
    assert len(seen.arrows(0.05).faces) > 0
    with pytest.raises(OptionError, match="no type 3"):
        seen.strength(3)
