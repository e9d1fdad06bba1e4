"""Trainings that take a second: they learn next to nothing, and everything else works."""

from dataclasses import replace

from handful.demos import Action, TaskStep
from handful.learning import (
    GraspQueryObjective,
    LatticeNegatives,
    LearnedQueryObjective,
    Recipe,
    TrainingConfig,
)
from handful.learning.variation import ContextDropout, Variation
from handful.models import (
    EncoderConfig,
    GraspQueryConfig,
    LearnedQueryConfig,
    ModelConfig,
    VerifierConfig,
)
from handful.policy import Preparation, SearchConfig

CONTACT = (0.0, 0.0, 0.145)
SMALL = EncoderConfig(voxel_size=0.02, radius=0.05, layers=1, degree=1, channels=4, heads=2)
COARSE = SearchConfig(spacing=0.05, rotations=24, starts=4, refine_steps=2)
THIN = Preparation(scene_voxel=0.012, grasp_voxel=0.01)


def small_recipe(name: str, action: Action, steps: int = 4, seed: int = 0) -> Recipe:
    """A recipe with a tiny network, a coarse lattice and few steps."""
    training = TrainingConfig(steps=steps, batch=2, seed=seed)
    variation = Variation(context=ContextDropout(probability=0.5))
    lattice = LatticeNegatives(0.05, 24)
    if action.holding:
        model = ModelConfig(SMALL, (4, 2), grasp=GraspQueryConfig(SMALL, 3, 5, 0.03, steps=2))
        objective = GraspQueryObjective(lattice, variation)
    else:
        verifier = VerifierConfig((CONTACT, (0.0, 0.03, 0.145)), hidden=8)
        model = ModelConfig(
            SMALL, (4, 2), learned=LearnedQueryConfig((CONTACT,)), verifier=verifier
        )
        objective = LearnedQueryObjective(lattice, variation)
    return Recipe(TaskStep(name, action), model, objective, training, THIN, COARSE)


def smaller(recipe: Recipe) -> Recipe:
    """A recipe with the same step, variation and training, and all that costs time made small.

    The network is tiny; the lattices of training and search are coarse, and clouds thin.
    """
    encoder = replace(SMALL, use_colors=recipe.model.encoder.use_colors)
    grasp = recipe.model.grasp and replace(recipe.model.grasp, encoder=encoder, count=5, steps=2)
    model = replace(recipe.model, encoder=encoder, descriptor=(4, 2), grasp=grasp)
    objective = replace(recipe.objective, negatives=LatticeNegatives(0.05, 24))
    return replace(recipe, model=model, objective=objective, preparation=THIN, search=COARSE)
