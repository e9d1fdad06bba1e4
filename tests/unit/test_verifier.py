"""The verifier: left invariant, learns what is right, and says so in ranking and confidence."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from equivariance import assert_equal_up_to_rounding, moved, random_object, random_poses
from handful.clouds import PointCloud
from handful.demos import Action
from handful.errors import OptionError
from handful.geometry import pose_compose
from handful.learning import LatticeNegatives, Rivals, recipe_for, train, verification_loss
from handful.learning._on_target import OFF_TARGET, OFF_THING, on_something_else
from handful.models import (
    EdfModel,
    EncoderConfig,
    GraspQueryConfig,
    LearnedQueryConfig,
    ModelConfig,
    Verifier,
    VerifierConfig,
    config_from_json,
    config_to_json,
)
from handful.policy import CONSIDERED, Confidence, Judged
from samples import thin_sample
from small_training import small_recipe

ENCODER = EncoderConfig(voxel_size=None, radius=0.05, layers=1, degree=1, channels=4, heads=2)
PROBES = ((0.0, 0.0, 0.02), (0.03, 0.0, 0.0), (0.0, -0.03, 0.01))
CONFIG = ModelConfig(
    ENCODER, (3, 2, 1), learned=LearnedQueryConfig(((0.0, 0.0, 0.02),)),
    verifier=VerifierConfig(PROBES, hidden=16),
)  # fmt: skip
SCENE = random_object(0)


def model_of(seed: int = 0) -> EdfModel:
    torch.manual_seed(seed)
    return EdfModel(CONFIG).double()


def verifier_of(model: EdfModel) -> Verifier:
    assert model.verifier is not None
    return model.verifier


def near_poses(count: int, seed: int = 0) -> torch.Tensor:
    return random_poses(count, seed, reach=0.04)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_do_not_change_when_scene_and_pose_move_together(dtype):
    model, poses = model_of().to(dtype), near_poses(20).to(dtype)
    with torch.no_grad():
        here = verifier_of(model)(model(SCENE), poses)
        for motion in random_poses(3, 7):
            there = verifier_of(model)(
                model(moved(SCENE, motion)), pose_compose(motion.to(dtype), poses)
            )
            assert_equal_up_to_rounding(there, here)
    assert float(here.std()) > 1e-3, "the control: other poses have other logits"


def test_logits_see_what_is_around_and_not_only_at_the_contact():
    """A probe's surroundings change; the field at the query point does not."""
    model, poses = model_of(), torch.eye(4, dtype=torch.float64)[None]
    near = SCENE.points[np.linalg.norm(SCENE.points - (0.0, 0.0, 0.02), axis=1) < 0.03]
    assert len(near) >= 2
    far = np.array([[0.075, 0.0, 0.0], [0.074, 0.01, 0.0]])
    bare, more = (PointCloud(p, np.full((len(p), 3), 0.5), dtype=np.float64)
                  for p in (near, np.concatenate([near, far])))  # fmt: skip
    with torch.no_grad():
        one, other = model(bare), model(more)
        assert_equal_up_to_rounding(other(poses), one(poses))
        verifier = verifier_of(model)
        assert abs(float(verifier(other, poses) - verifier(one, poses))) > 1e-6


def test_it_learns_to_tell_right_from_wrong_and_cannot_learn_noise():
    poses = near_poses(160, 3)
    model = model_of()
    with torch.no_grad():
        energy = model(SCENE)
        seen = energy.field((poses @ torch.tensor([0.0, 0.0, 0.02, 1.0]).double())[:, :3])
    right = seen[:, 0] > seen[:, 0].median()
    noise = torch.rand(160, generator=torch.Generator().manual_seed(0)) < 0.5
    half = torch.arange(160) < 120
    for label, learnable in ((right, True), (noise, False)):
        verifier = Verifier(VerifierConfig(PROBES, hidden=16), energy.types).double()
        optimizer = torch.optim.Adam(verifier.parameters(), 0.01)
        for _ in range(200):
            optimizer.zero_grad()
            loss = verification_loss(verifier, energy, poses[half & label], poses[half & ~label])
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            told = verifier(energy, poses[~half]) > 0
        share = float((told == label[~half]).double().mean())
        assert share > 0.85 if learnable else share < 0.75


def test_right_and_wrong_weigh_the_same_and_either_may_be_missing():
    model = model_of()
    with torch.no_grad():
        energy, verifier = model(SCENE), verifier_of(model)
        right, wrong = near_poses(3, 1), near_poses(5, 2)
        loss = verification_loss(verifier, energy, right, wrong)
        repeated = verification_loss(verifier, energy, right, wrong.repeat(4, 1, 1))
        assert_equal_up_to_rounding(repeated, loss)
        good, bad = verifier(energy, right), verifier(energy, wrong)
        by_hand = torch.log1p(torch.exp(-good)).mean() + torch.log1p(torch.exp(bad)).mean()
        assert_equal_up_to_rounding(loss, by_hand)
        alone = verification_loss(verifier, energy, right, wrong[:0])
        assert_equal_up_to_rounding(alone, torch.log1p(torch.exp(-good)).mean())


def test_training_with_rivals_changes_it_and_the_encoder_learns_from_it():
    demos, recipe = thin_sample(1), small_recipe("pick", Action.PICK, steps=3)
    negatives = LatticeNegatives(0.05, 24, rivals=Rivals(4, share=1.0, begin=0.0))
    heard = replace(recipe, objective=replace(recipe.objective, negatives=negatives))
    deaf = replace(heard, objective=replace(heard.objective, verification=0.0))
    weights = [train(demos, one).model.state_dict() for one in (heard, deaf)]
    changed = {name for name in weights[0] if not torch.equal(weights[0][name], weights[1][name])}
    assert any(name.startswith("verifier.") for name in changed)
    assert any(name.startswith("key_field.encoder.") for name in changed)


def test_without_a_verifier_energies_are_all_that_speaks_against_poses():
    model, poses = model_of(), near_poses(6)
    with torch.no_grad():
        energy = model(SCENE)
        energies = energy(poses)
        judged = Judged.of(energy, None, poses, energies)
    assert torch.equal(judged.energies, energies)
    assert_equal_up_to_rounding(judged.evidence, energies / energy.of_nothing())


def test_doubts_are_added_to_energies():
    model, poses = model_of(), near_poses(300)
    with torch.no_grad():
        energy = model(SCENE)
        logits = verifier_of(model)(energy, poses)
        judged = Judged.of(energy, model.verifier, poses, energy(poses))
    doubts = -torch.log(torch.sigmoid(logits))
    assert_equal_up_to_rounding(judged.energies, energy(poses).detach() + doubts)
    assert_equal_up_to_rounding(judged.evidence, -logits)
    best = judged.sorted()
    assert float(best.energies[0]) == float(judged.energies.min())
    assert bool((best.energies.diff() >= 0).all())
    none = Judged.of(energy, model.verifier, poses[:0], energies=logits[:0])
    assert len(none) == 0


def test_a_pose_that_is_doubted_is_not_the_best_one():
    """Of two equal objects one is doubted: the answer is at the other, and confidence says why."""
    demos = thin_sample(1)
    predictor = train(demos, small_recipe("pick", Action.PICK, steps=1))
    scene = demos[0].step("pick").scene
    before = predictor.sample(scene, n=4)
    model, first = predictor.model, before.T_scene_gripper[0]
    view = predictor.look(scene)
    at = torch.from_numpy(view.clouds.between_frames(first[None])[0, :3, 3]).float()

    def doubting(energy, poses):
        return torch.where((poses[:, :3, 3] - at).norm(dim=-1) < 0.1, -20.0, 20.0)

    doubted = verifier_of(model).__class__
    honest = doubted.forward
    try:
        doubted.forward = lambda self, energy, poses: doubting(energy, poses)
        after = replace(predictor, confidence=Confidence(0.0, 1.0)).sample(scene, n=4)
        rated = predictor.rate(np.stack([first, after.T_scene_gripper[0]]), scene)
    finally:
        doubted.forward = honest
    assert np.linalg.norm(after.T_scene_gripper[0, :3, 3] - first[:3, 3]) >= 0.1
    assert after.confidence[0] > 0.99
    assert len(after) == 4 < CONSIDERED
    np.testing.assert_allclose(rated.T_scene_gripper[1], first, atol=1e-6)
    assert rated.energy[1] - rated.energy[0] > 10.0


# --- what is wrong for sure ---------------------------------------------------------------------


def test_poses_are_on_something_else_only_where_that_is_sure():
    demos = thin_sample(1)
    step, contact = demos[0].step("pick"), demos.gripper.T_gripper_contact
    target = step.targets[0]
    at = (target @ contact)[:3, 3]
    thing = PointCloud(at + np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -0.1]]))
    poses = np.repeat(target[None], 4, axis=0)
    poses[1:, 2, 3] += (-0.1, 0.1, 0.3)
    assert on_something_else(poses, step, contact, thing).tolist() == [False, False, True, True]
    assert on_something_else(poses, step, contact).tolist() == [False, False, False, True]
    assert OFF_THING < 0.1
    assert 0.1 < OFF_TARGET < 0.3


# --- configurations -----------------------------------------------------------------------------


def test_models_of_before_have_no_verifier():
    written = json.loads(json.dumps(config_to_json(CONFIG)))
    assert config_from_json(ModelConfig, written, "here") == CONFIG
    del written["verifier"]
    assert config_from_json(ModelConfig, written, "here").verifier is None


def test_a_verifier_is_of_an_empty_gripper_and_fits_into_memory():
    with pytest.raises(OptionError, match="is for an empty gripper"):
        replace(CONFIG, learned=None, grasp=GraspQueryConfig(ENCODER))
    huge = VerifierConfig(PROBES * 300, hidden=4096)
    with pytest.raises(OptionError, match="need at most 5,000,000"):
        replace(CONFIG, verifier=huge)


def test_only_models_that_have_rivals_in_training_have_a_verifier():
    """One that is not trained would add noise to energies."""
    demos = thin_sample(1)
    for options, there in (({}, True), ({"types": (0,)}, False), ({"preset": "paper"}, False)):
        assert (recipe_for(demos, "pick", **options).model.verifier is not None) == there
        assert recipe_for(demos, "place", **options).model.verifier is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"probes": ()}, "need one or more x, y, z"),
        ({"probes": ((0.0, 1.0),)}, "need one or more x, y, z"),
        ({"probes": ((0.0, 0.0, math.nan),)}, "need one or more x, y, z"),
        ({"probes": ((0.0, 0.0, 11.0),)}, "within 10 m"),
        ({"probes": ((0.0, 0.0, 0.0),) * 1001}, "at most 1000"),
        ({"hidden": 0}, "need 1 to 4096"),
        ({"hidden": 5000}, "need 1 to 4096"),
    ],
)
def test_senseless_verifiers_are_refused(wrong, words):
    with pytest.raises(OptionError, match=words):
        replace(VerifierConfig(PROBES), **wrong)
