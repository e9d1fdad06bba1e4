"""Recipes: what a step's model is made of, for any step of any task."""

from dataclasses import replace

import numpy as np
import pytest

from handful.clouds import PointCloud
from handful.demos import Action, ContactFrame, Demonstration, DemoSet, Gripper, Step
from handful.errors import DemoError, OptionError
from handful.learning import (
    EDF_TYPE0,
    GraspQueryObjective,
    JointNegatives,
    LatticeNegatives,
    LearnedQueryObjective,
    MethodOptions,
    PaperNegatives,
    recipe_for,
)
from handful.learning._recipe import descriptor_channels
from handful.learning.variation import Augmentation, ContextDropout, Variation
from samples import mug_sample, small_demos


def renamed(demos: DemoSet, names: dict[str, str]) -> DemoSet:
    """The same demonstrations with other names of their steps."""
    return replace(
        demos,
        demonstrations=tuple(
            Demonstration(
                demo.name,
                tuple(
                    Step(names[one.name], one.action, one.scene, one.targets, one.grasp)
                    for one in demo.steps
                ),
            )
            for demo in demos
        ),
    )


def test_a_recipe_depends_on_the_action_and_not_on_the_name():
    demos = small_demos()
    other = renamed(demos, {"pick": "place the gripper", "place": "pick a spot"})
    for name, another in (("pick", "place the gripper"), ("place", "pick a spot")):
        one, two = recipe_for(demos, name), recipe_for(other, another)
        assert two.step.name == another
        assert replace(two, step=one.step) == one


def test_the_query_point_of_an_empty_gripper_is_the_contact_point():
    demos = small_demos()
    for contact in (
        ContactFrame((0.0, 0.0, 0.0)),
        ContactFrame((0.02, -0.01, 0.1), (0.5, 0.5, 0.5, 0.5)),
    ):
        held_with = replace(demos, gripper=Gripper(contact, "y", 0.05))
        recipe = recipe_for(held_with, "pick")
        assert recipe.model.learned.positions == (contact.position,)


def test_the_source_of_query_points_follows_what_the_gripper_holds():
    demos = small_demos()
    empty, full = recipe_for(demos, "pick"), recipe_for(demos, "place")
    assert isinstance(empty.objective, LearnedQueryObjective)
    assert isinstance(full.objective, GraspQueryObjective)
    assert (empty.model.grasp, full.model.learned) == (None, None)
    with pytest.raises(DemoError, match=r"step 'pikc'.*Did you mean 'pick'"):
        recipe_for(demos, "pikc")


def test_colours_are_used_if_all_clouds_have_them():
    demos = small_demos()
    assert recipe_for(demos, "pick").model.encoder.use_colors
    step = demos[0].step("pick")
    grey = Step("pick", Action.PICK, PointCloud(step.scene.points), step.targets)
    some = DemoSet((demos[0], Demonstration("grey", (grey,))), demos.gripper)
    assert not recipe_for(some, "pick").model.encoder.use_colors


def variation_of(name: str, **options):
    return recipe_for(small_demos(), name, **options).objective.variation


@pytest.mark.parametrize("name", ["pick", "place"])
def test_colours_shapes_clutter_and_cameras_vary_unasked_in_every_step(name):
    varied = variation_of(name)
    assert varied.augmentation.recolor > 0
    assert varied.augmentation.fade > 0
    assert min(varied.warp.size, varied.warp.proportion) > 0
    assert varied.clutter.most > 0
    assert min(varied.sensor.noisy, varied.sensor.sigma, varied.sensor.sparse) > 0
    assert varied.context.probability > 0


def test_what_is_known_of_the_object_decides_what_else_varies():
    """An object to be taken can be put elsewhere; what is held has sides and a shape of its own."""
    empty, full = variation_of("pick"), variation_of("place")
    assert empty.composition.probability > 0
    assert empty.warp.profile > 0
    assert full.composition.probability == 0
    assert min(full.one_sided, full.held_warp.size, full.held_warp.profile) > 0


@pytest.mark.parametrize("name", ["pick", "place"])
def test_colours_stay_where_they_matter_and_all_else_varies_all_the_same(name):
    free, kept = variation_of(name), variation_of(name, colors_matter=True)
    assert (kept.augmentation.recolor, kept.augmentation.fade) == (0, 0)
    assert kept.composition.recolored * kept.composition.probability == 0
    again = replace(
        kept,
        augmentation=replace(
            kept.augmentation, recolor=free.augmentation.recolor, fade=free.augmentation.fade
        ),
        composition=replace(kept.composition, recolored=free.composition.recolored),
    )
    assert again == free


@pytest.mark.parametrize("name", ["pick", "place"])
def test_steps_and_seed_are_as_asked_for_and_change_nothing_else(name):
    demos = small_demos()
    recipe, asked = recipe_for(demos, name), recipe_for(demos, name, steps=7, seed=5)
    assert (asked.training.steps, asked.training.seed) == (7, 5)
    training = replace(asked.training, steps=recipe.training.steps, seed=recipe.training.seed)
    assert replace(asked, training=training) == recipe


def test_a_word_for_what_varies_is_no_longer_an_option():
    with pytest.raises(TypeError, match="vary"):
        recipe_for(small_demos(), "pick", vary=("colors",))


@pytest.mark.parametrize("name", ["pick", "place"])
def test_the_preset_paper_is_the_paper(name):
    """Appendices on query models and experiments: 600 steps, 100 SVGD steps, growing chains."""
    recipe = recipe_for(mug_sample(), name, preset="paper")
    assert recipe.training.steps == 600
    rates = [recipe.training.schedule.rate(step, 600) for step in (0, 599)]
    assert rates == pytest.approx([0.005, 0.001], rel=1e-3)
    assert isinstance(recipe.objective.negatives, PaperNegatives)
    variation = recipe.objective.variation
    assert variation.augmentation.point_jitter > 0
    calm = replace(variation, augmentation=Augmentation())
    nothing = ContextDropout(probability=0.0)
    assert calm == Variation(context=nothing, held_context=nothing), "nothing else is made up"
    assert variation.augmentation.recolor == variation.augmentation.fade == 0
    sensor = variation.sensor
    assert sensor.noisy == sensor.sparse == variation.composition.probability == 0
    if recipe.step.action.holding:
        assert (recipe.model.grasp.steps, recipe.model.grasp.step_size) == (100, 0.005)
        assert recipe.objective.as_in_paper
    with pytest.raises(OptionError, match="preset 'fats'"):
        recipe_for(mug_sample(), name, preset="fats")


def test_type_0_alone_is_as_long_as_all_types():
    assert descriptor_channels((0, 1, 2, 3)) == (16, 8, 4, 4)
    assert descriptor_channels((0,)) == (88,)
    assert descriptor_channels((1,)) == (0, 8)
    for wrong in ((0, 4), ()):
        with pytest.raises(OptionError, match="choose some of"):
            descriptor_channels(wrong)


def test_type_0_alone_has_query_points_enough_to_know_an_orientation():
    demos = small_demos()
    (centre,) = recipe_for(demos, "pick").model.learned.positions
    many = recipe_for(demos, "pick", types=(0,)).model.learned.positions
    around = np.array(many) - centre
    assert len(around) == 10
    np.testing.assert_allclose(np.linalg.norm(around, axis=1), 0.02)
    assert np.linalg.matrix_rank(around, tol=1e-3) == 3
    for name in demos.task.names:
        assert isinstance(recipe_for(demos, name).objective.negatives, LatticeNegatives)
        joint = recipe_for(demos, name, types=(0,)).objective.negatives
        assert isinstance(joint, JointNegatives)


@pytest.mark.parametrize(("preset", "counts"), [("fast", (10, 5)), ("slow", (30, 10))])
def test_the_ablation_has_the_query_points_of_the_paper(preset, counts):
    demos = small_demos()
    pick, place = (
        EDF_TYPE0.recipe(demos, name, MethodOptions(preset)) for name in demos.task.names
    )
    assert len(pick.model.learned.positions) == counts[0]
    assert place.model.grasp.strongest == counts[1]
    assert (place.objective.strongest, place.objective.candidates) == (counts[1], counts[1])
    assert pick.method == "edf"
