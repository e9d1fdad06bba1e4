"""Runs on disk: interrupted, resumed, mixed up, of version 1; and training in two processes."""

import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

import handful
from handful.apps.learn_commands import _tell_separation
from handful.demos import Action, Demonstration, DemoSet, Step, save_demos
from handful.errors import FileFormatError, OptionError
from handful.learning import RunFolder, StepReport, train, train_in_folder
from handful.learning._checkpoint import checkpoint_bytes, resume_from
from handful.learning._registry import method_named
from handful.learning._run import fingerprint
from handful.learning.variation import examples_of
from handful.policy import Predictor, load_predictor
from samples import thin_sample
from small_training import small_recipe

ACTIONS = {"pick": Action.PICK, "place": Action.PLACE}


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    return thin_sample()


class Stop(BaseException):
    """Ctrl-C."""


def weights(predictor: Predictor) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in predictor.model.parameters()])


@pytest.mark.parametrize("name", ACTIONS)
def test_an_interrupted_run_gives_the_same_model(demos, name, tmp_path):
    recipe = small_recipe(name, ACTIONS[name])
    alone = train(demos, recipe)

    def interrupt(report: StepReport) -> None:
        if report.step == 1:
            raise Stop

    with pytest.raises(Stop):
        train_in_folder(demos, recipe, tmp_path / "run", report=interrupt)
    run = RunFolder(tmp_path / "run")
    assert run.checkpoint(name).is_file()
    assert not run.model(name).exists()
    assert [line.step for line in run.curve(name)] == [0, 1]
    with pytest.raises(FileFormatError, match=r"not trained to the end.*--resume"):
        run.predictor(name)
    resumed = train_in_folder(demos, recipe, tmp_path / "run", resume=True)
    assert torch.equal(weights(resumed), weights(alone))
    assert resumed.confidence == alone.confidence
    assert [line.step for line in run.curve(name)] == [0, 1, 2, 3]
    assert not run.checkpoint(name).exists()
    assert run.trained(name).steps == 4
    assert run.trained(name).seconds > 0
    # A second time, it is only loaded.
    told: list[StepReport] = []
    loaded = train_in_folder(demos, recipe, tmp_path / "run", resume=True, report=told.append)
    assert not told
    assert torch.equal(weights(loaded), weights(resumed))


@pytest.fixture(scope="module")
def whole(demos, tmp_path_factory) -> Path:
    """A run with all steps, after one optimiser step each."""
    folder = tmp_path_factory.mktemp("whole")
    for name, action in ACTIONS.items():
        train_in_folder(demos, small_recipe(name, action, steps=1), folder)
    return folder


def test_a_run_knows_its_task_and_its_predictors(demos, whole):
    run = RunFolder(whole)
    assert run.task == demos.task
    predictors = run.predictors()
    assert {name: one.step.action for name, one in predictors.items()} == ACTIONS
    assert all(one.gripper == demos.gripper for one in predictors.values())


def test_a_run_notes_how_many_objects_were_told_from_their_scenes(demos, whole):
    run, recipe = RunFolder(whole), small_recipe("pick", Action.PICK)
    told = [one.separated for one in examples_of(demos, "pick", recipe.preparation)]
    assert run.trained("pick").separated == sum(told)
    assert run.trained("place").separated is None, "a full gripper takes nothing"
    assert run.predictor("pick").trained_on is not None


@pytest.mark.parametrize("separated", [0, 2, 3, None])
def test_where_objects_cannot_be_told_one_sentence_says_so(tmp_path, capsys, separated):
    """A run of before does not say it, and of three out of three there is nothing to say."""
    run = RunFolder(tmp_path)
    run.note(models={"take": {} if separated is None else {"separated": separated}})
    _tell_separation(run, "take", 3)
    said = capsys.readouterr().out
    if separated in (3, None):
        assert said == ""
        return
    assert f"'take': in {3 - separated} of 3 demonstrations" in said
    assert "record the grasp cloud of the next step" in said


def test_a_set_with_picks_only_trains_and_is_used_as_such(demos, tmp_path):
    """Two picks in a row, with names of their own."""
    one, two = demos
    step = one.step("pick")
    both = (
        Step("pick mug", Action.PICK, step.scene, step.targets),
        Step("pick it again", Action.PICK, two.step("pick").scene, two.step("pick").targets),
    )
    picks = DemoSet((Demonstration("a", both),), demos.gripper)
    for name in picks.task.names:
        train_in_folder(picks, small_recipe(name, Action.PICK, steps=1), tmp_path / "run")
    predictors = RunFolder(tmp_path / "run").predictors()
    assert list(predictors) == ["pick mug", "pick it again"]
    assert len(predictors["pick it again"].sample(step.scene, n=2)) > 0


def test_a_missing_model_is_named_with_its_command(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "place")
    with pytest.raises(
        FileFormatError,
        match=r"partial: it has 'pick', and 'place' was not trained: .*--step place$",
    ):
        RunFolder(tmp_path / "run").predictors()
    shutil.rmtree(tmp_path / "run" / "pick")
    with pytest.raises(FileFormatError, match="not begun: the step 'pick' was not trained"):
        RunFolder(tmp_path / "run").predictors()
    with pytest.raises(FileFormatError, match="nowhere: there is no such folder"):
        _ = RunFolder(tmp_path / "nowhere").task
    with pytest.raises(FileFormatError, match="holds no training run"):
        _ = RunFolder(tmp_path).task


def test_a_run_of_version_1_is_read(whole, tmp_path):
    """It names no steps, and has the figures of its models at the top."""
    shutil.copytree(whole, tmp_path / "run")
    file = tmp_path / "run" / "run.json"
    content = json.loads(file.read_text())
    models = content.pop("models")
    del content["steps"]
    file.write_text(json.dumps({**content, "version": 1, **models}))
    run = RunFolder(tmp_path / "run")
    assert [(one.name, one.action) for one in run.task] == list(ACTIONS.items())
    assert asdict(run.trained("pick")) == models["pick"]
    assert set(run.predictors()) == {"pick", "place"}


def test_a_run_is_not_overwritten_or_mixed_up(demos, tmp_path):
    def recipe(seed: int = 0):
        return small_recipe("pick", Action.PICK, steps=1, seed=seed)

    train_in_folder(demos, recipe(), tmp_path / "run")
    assert RunFolder(tmp_path / "run").holds(demos, recipe())
    assert not RunFolder(tmp_path / "run").holds(demos, recipe(1))
    with pytest.raises(OptionError, match="--resume"):
        train_in_folder(demos, recipe(), tmp_path / "run")
    with pytest.raises(OptionError, match="other demonstrations or options"):
        train_in_folder(demos, recipe(1), tmp_path / "run", resume=True)
    train_in_folder(demos, recipe(1), tmp_path / "run", overwrite=True)
    assert RunFolder(tmp_path / "run").trained("pick").seed == 1


def test_a_broken_checkpoint_is_one_sentence(demos, tmp_path):
    RunFolder(tmp_path).checkpoint("pick").write_bytes(b"not tensors")
    recipe = small_recipe("pick", Action.PICK)
    with pytest.raises(FileFormatError, match="not a whole checkpoint"):
        train_in_folder(demos, recipe, tmp_path, resume=True)
    with pytest.raises(OptionError, match="was begun there"):
        train_in_folder(demos, recipe, tmp_path)


def _checkpoint_after_a_step(demos, recipe, folder):
    def interrupt(_: StepReport) -> None:
        raise Stop

    with pytest.raises(Stop):
        train_in_folder(demos, recipe, folder, report=interrupt)
    return RunFolder(folder).checkpoint(recipe.step.name)


def _spoiled_checkpoint(path, name, value):
    with safe_open(path, framework="pt") as file:
        tensors = {one: file.get_tensor(one) for one in file.keys()}  # noqa: SIM118
        meta = file.metadata()
    tensors[name] = value(tensors.get(name))
    path.write_bytes(checkpoint_bytes(tensors, meta["fingerprint"], float(meta["seconds"])))


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("trainer.counts", lambda _: torch.tensor(3), "need torch.int64 "),
        ("trainer.counts", lambda old: old.double(), "need torch.int64 "),
        ("trainer.counts", lambda _: torch.tensor([-1, 0, 0]), "-1 steps are done"),
        ("trainer.counts", lambda _: torch.tensor([2**62, 0, 0]), "steps are done"),
        ("optimizer.adam.0.step", lambda _: torch.tensor(torch.inf), "inf steps are done"),
        ("optimizer.adam.0.step", lambda _: torch.tensor(-5.0), "-5.0 steps are done"),
        ("average.0", lambda old: old[None].repeat(2, *[1] * old.ndim), "average.0 is"),
        ("average.0", lambda old: old.to(torch.complex64), "average.0 is torch.complex64"),
        ("more", lambda _: torch.zeros(1), "unknown tensor 'more'"),
    ],
)
def test_a_checkpoint_that_cannot_be_of_this_training_is_one_sentence(
    demos, tmp_path, name, value, match
):
    recipe = small_recipe("pick", Action.PICK)
    path = _checkpoint_after_a_step(demos, recipe, tmp_path)
    _spoiled_checkpoint(path, name, value)
    with pytest.raises(FileFormatError, match=match):
        train_in_folder(demos, recipe, tmp_path, resume=True)


@pytest.mark.parametrize("name", ACTIONS)
def test_a_flipped_bit_anywhere_in_a_checkpoint_is_one_sentence(demos, tmp_path, name):
    """Such a training went on with other weights, and without a word, before there were digests."""
    recipe = small_recipe(name, ACTIONS[name])
    path = _checkpoint_after_a_step(demos, recipe, tmp_path)
    right, mark, rng = path.read_bytes(), fingerprint(demos, recipe), random.Random(0)
    header = 8 + int.from_bytes(right[:8], "little")
    places = [rng.randrange(8 * header, 8 * len(right)) for _ in range(60)]
    trainer = method_named(recipe.method).trainer(demos, recipe)
    for place in [8 * header, *places, 8 * len(right) - 1]:
        spoiled = bytearray(right)
        spoiled[place // 8] ^= 1 << place % 8
        path.write_bytes(spoiled)
        with pytest.raises(FileFormatError, match=r"not a whole checkpoint \(the SHA-256 digest"):
            resume_from(trainer, path, mark)
    for place in (rng.randrange(8 * header) for _ in range(60)):
        spoiled = bytearray(right)
        spoiled[place // 8] ^= 1 << place % 8
        path.write_bytes(spoiled)
        with pytest.raises((FileFormatError, OptionError)):
            resume_from(trainer, path, mark)


def test_a_checkpoint_without_a_digest_is_resumed(demos, tmp_path):
    """Those of before have none."""
    recipe = small_recipe("pick", Action.PICK)
    path = _checkpoint_after_a_step(demos, recipe, tmp_path)
    with safe_open(path, framework="pt") as file:
        tensors = {one: file.get_tensor(one) for one in file.keys()}  # noqa: SIM118
        meta = file.metadata()
    del meta["digest"]
    path.write_bytes(save(tensors, meta))
    resumed = train_in_folder(demos, recipe, tmp_path, resume=True)
    assert torch.equal(weights(resumed), weights(train(demos, recipe)))


def test_a_checkpoint_that_is_too_large_or_says_more_is_one_sentence(demos, tmp_path):
    recipe = small_recipe("pick", Action.PICK)
    path = _checkpoint_after_a_step(demos, recipe, tmp_path)
    with safe_open(path, framework="pt") as file:
        meta = file.metadata()
    path.write_bytes(save({"step": torch.zeros(1)}, {**meta, "digets": "0"}))
    with pytest.raises(FileFormatError, match="unknown field 'digets': need fingerprint"):
        train_in_folder(demos, recipe, tmp_path, resume=True)
    os.truncate(path, 10**12)
    with pytest.raises(FileFormatError, match=r"1,000,000,000,000 bytes: need at most"):
        train_in_folder(demos, recipe, tmp_path, resume=True)


def test_a_checkpoint_of_other_options_is_not_called_damaged(demos, tmp_path):
    _checkpoint_after_a_step(demos, small_recipe("pick", Action.PICK), tmp_path)
    with pytest.raises(OptionError, match="other demonstrations or options"):
        train_in_folder(demos, small_recipe("pick", Action.PICK, seed=1), tmp_path, resume=True)


TWO = """
import sys, torch
from torch import distributed
sys.path.insert(0, {tests!r})
torch.set_num_threads(1)
from small_training import small_recipe
from handful.demos import Action
from handful.demos import load_demos
from handful.learning import train_in_folder
distributed.init_process_group("gloo")
train_in_folder(load_demos({demos!r}), small_recipe("place", Action.PLACE), {run!r})
distributed.destroy_process_group()
"""


@pytest.mark.slow(seconds=20)
def test_two_processes_train_the_same_model_as_one(demos, tmp_path):
    """The gradients are added up in another order, so weights agree to rounding."""
    save_demos(demos, tmp_path / "demos")
    here = Path(__file__).parent
    script = tmp_path / "two.py"
    script.write_text(
        TWO.format(
            tests=str(here.parent),
            demos=str(tmp_path / "demos"),
            run=str(tmp_path / "run"),
        )
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launch, "--nproc-per-node", "2", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    alone = train(handful.load_demos(tmp_path / "demos"), small_recipe("place", Action.PLACE))
    together = load_predictor(tmp_path / "run" / "place")
    torch.testing.assert_close(weights(together), weights(alone), rtol=1e-3, atol=1e-5)
