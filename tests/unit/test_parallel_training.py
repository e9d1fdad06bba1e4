"""Steps trained side by side: the same models to the bit, and nothing is lost."""

import contextlib
import json
import os
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest
import torch

from handful._locks import exclusive
from handful.demos import Action, DemoSet
from handful.errors import HandfulError, OptionError
from handful.learning import (
    RunFolder,
    StepReport,
    TrainingError,
    _parallel,
    train,
    train_side_by_side,
)
from handful.learning._parallel import TrainingJob, _started
from samples import thin_sample
from small_training import small_recipe

ACTIONS = {"pick": Action.PICK, "place": Action.PLACE}


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    return thin_sample()


def weights(predictor) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in predictor.model.parameters()])


@pytest.fixture(scope="module")
def side_by_side(demos, tmp_path_factory) -> tuple[Path, list[tuple[str, int]]]:
    folder = tmp_path_factory.mktemp("runs") / "both"
    told: list[tuple[str, int]] = []
    recipes = [small_recipe(name, action) for name, action in ACTIONS.items()]

    def tell(name: str, report: StepReport) -> None:
        told.append((name, report.step))

    train_side_by_side(demos, recipes, folder, workers=2, report=tell)
    return folder, told


def test_side_by_side_gives_the_models_that_one_process_gives(demos, side_by_side):
    folder, told = side_by_side
    for name, predictor in RunFolder(folder).predictors().items():
        alone = train(demos, small_recipe(name, ACTIONS[name]))
        assert torch.equal(weights(predictor), weights(alone))
        assert predictor.confidence == alone.confidence
        assert [step for who, step in told if who == name] == [0, 1, 2, 3]


def test_both_processes_are_in_the_summary(side_by_side):
    summary = RunFolder(side_by_side[0]).summary()
    assert set(summary.models) == set(ACTIONS)
    assert summary.task.names == tuple(ACTIONS)


def test_a_process_that_is_interrupted_while_it_loads_says_nothing(demos, tmp_path, capfd):
    """It was interrupted among its imports, and printed a traceback."""
    job = TrainingJob(demos, small_recipe("pick", Action.PICK), tmp_path / "run")
    connection, process = _started(0, job, {})
    os.kill(process.pid, signal.SIGINT)
    with contextlib.suppress(ConnectionError):
        connection.send(demos)
    process.join(120)
    assert process.exitcode == 0
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "run").exists()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


class Stop(BaseException):
    """Ctrl-C."""


def test_an_interrupt_leaves_checkpoints_from_which_the_same_models_come(demos, tmp_path):
    recipes = [small_recipe(name, action, steps=40) for name, action in ACTIONS.items()]
    seen: set[str] = set()

    def interrupt(name: str, report: StepReport) -> None:
        seen.add(name)
        if seen == set(ACTIONS):
            raise Stop

    with pytest.raises(Stop):
        train_side_by_side(demos, recipes, tmp_path / "run", workers=2, report=interrupt)
    run = RunFolder(tmp_path / "run")
    done = {name: len(run.curve(name)) for name in ACTIONS}
    assert all(run.checkpoint(name).is_file() and not run.model(name).exists() for name in ACTIONS)
    assert all(0 < count < 40 for count in done.values())
    train_side_by_side(demos, recipes[:1], tmp_path / "run", workers=2, resume=True)
    alone = train(demos, recipes[0])
    assert torch.equal(weights(run.predictor("pick")), weights(alone))


def test_a_failure_in_a_process_is_one_sentence(demos, tmp_path, capfd):
    """Steps that had not begun when another one failed printed a traceback."""
    checkpoint = RunFolder(tmp_path).checkpoint("pick")
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_bytes(b"this is no checkpoint")
    recipes = [small_recipe(name, action, steps=40) for name, action in ACTIONS.items()]
    with pytest.raises(TrainingError, match=re.escape(checkpoint.name)):
        train_side_by_side(demos, recipes, tmp_path, workers=2, resume=True)
    assert capfd.readouterr().err == ""


@pytest.fixture
def no_process(monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(_parallel, "_started", refuse)


@pytest.mark.usefixtures("no_process")
def test_what_is_refused_is_refused_before_a_process_starts(demos, side_by_side, tmp_path):
    folder, _ = side_by_side
    (tmp_path / "file").write_text("")
    with pytest.raises(HandfulError, match="a file stands in its way"):
        train_side_by_side(demos, [small_recipe("pick", Action.PICK)], tmp_path / "file" / "run")
    with pytest.raises(OptionError, match=r"was begun there\. Go on with --resume"):
        train_side_by_side(demos, [small_recipe("pick", Action.PICK)], folder)
    other = small_recipe("pick", Action.PICK, seed=1)
    with pytest.raises(HandfulError, match="other demonstrations or options"):
        train_side_by_side(demos, [other], folder, resume=True)


@pytest.mark.usefixtures("no_process")
def test_what_is_done_starts_no_process_and_a_damaged_model_is_told(demos, side_by_side, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(side_by_side[0], run)
    recipes = [small_recipe(name, action) for name, action in ACTIONS.items()]
    train_side_by_side(demos, recipes, run, resume=True)
    weights_file = run / "place" / "weights.safetensors"
    content = bytearray(weights_file.read_bytes())
    content[-1] ^= 1
    weights_file.write_bytes(content)
    with pytest.raises(HandfulError, match=r"weights\.safetensors"):
        train_side_by_side(demos, recipes, run, resume=True)


def test_notes_of_many_threads_are_all_kept(tmp_path):
    """Each note reads, merges and writes; without the lock most would be lost."""
    run = RunFolder(tmp_path)
    threads = [
        threading.Thread(target=run.note, kwargs={"models": {f"step {number}": {"seed": number}}})
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = json.loads((tmp_path / "run.json").read_text())
    assert len(content["models"]) == 12


def test_a_lock_keeps_others_waiting(tmp_path):
    order: list[str] = []

    def second() -> None:
        with exclusive(tmp_path / "lock"):
            order.append("second")

    with exclusive(tmp_path / "lock"):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
