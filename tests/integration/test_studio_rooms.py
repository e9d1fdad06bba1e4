"""The rooms of a studio without a browser: what they show, and what they leave alone."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("viser", reason="the studio needs the extra `view`")

from handful.apps.studio import Studio, StudioConfig
from handful.apps.studio._document import Scene
from handful.apps.studio._folder import StudioFolder
from handful.apps.studio._state import Selection
from handful.apps.studio._train import _at_steps
from handful.demos import gripper_named, load_demos, save_demos
from handful.learning import LogEntry, RunFolder, StepReport, TrainingJob
from samples import thin_sample
from service_process import small_run


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio with one demonstration of two steps, and a run."""
    folder = tmp_path_factory.mktemp("rooms")
    save_demos(thin_sample(1), folder / "set")
    small_run(folder / "set.studio" / "runs" / "first")
    one = Studio(StudioConfig(str(folder / "set"), port=0))
    one.session.desk.wait()
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def said(running: Studio, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The errors that people are told; a test must not leave any."""
    told: list[str] = []
    tell = running.session.tell

    def listen(sentence: str, bad: bool = False) -> None:
        told.extend([sentence] if bad else [])
        tell(sentence, bad)

    monkeypatch.setattr(running.session, "tell", listen)
    yield told
    while running.session.state.undoable:
        at_desk(running, lambda: running._undo("Undo"))
    at_desk(running, lambda: running.session.select(Selection()))


def at_desk(running: Studio, work: Callable[[], object]) -> None:
    """Do something where the pages' wishes are done, and wait for it, but for what moves on."""
    running.session.desk.do(lambda: (work(), None)[1])
    running.session.desk.do(lambda: running.session.desk.drop("ghost"))
    assert running.session.desk.wait()


def enter(running: Studio, room: str) -> None:
    at_desk(running, lambda: running._enter(room))


def open_scene(running: Studio, number: int) -> str:
    """Open a cloud as an upload does; the name that it got."""
    cloud = thin_sample(4)[number].steps[0].scene
    scene = Scene(f"mug_{number}", cloud)
    opened = (f"mug_{number}", lambda document: document.with_scene(scene))
    at_desk(running, lambda: running.teach._opened(opened))
    return running.session.selection.scene


def shown(room: object) -> np.ndarray:
    """Where the points of a room's first cloud are."""
    return room.stage.contents().clouds[0].points


def test_a_cloud_that_was_opened_is_what_the_other_rooms_show(running: Studio, said: list[str]):
    enter(running, "Try")
    taught = thin_sample(1)[0].steps[0].scene
    assert np.array_equal(shown(running.attempt), taught.points)
    enter(running, "Teach")
    open_scene(running, 3)
    new = thin_sample(4)[3].steps[0].scene
    for room in ("Train", "Look", "Try"):
        enter(running, room)
        one = next(one for one in running.rooms if one.name == room)
        assert np.array_equal(shown(one), new.points)
    assert said == []


def test_an_undo_in_another_room_shows_what_is_left_there(running: Studio, said: list[str]):
    enter(running, "Teach")
    name = open_scene(running, 3)
    enter(running, "Try")
    asked = running.attempt.panel.scene
    assert name in asked.label
    at_desk(running, lambda: running._undo("Undo"))
    assert name not in asked.label
    taught = thin_sample(1)[0].steps[0].scene
    assert np.array_equal(shown(running.attempt), taught.points)
    assert said == []


def drag(running: Studio, x: float) -> np.ndarray:
    """Drag the gripper along x as the page's gizmo does; the pose that it is dragged to."""
    pose = running.teach.pose.copy()
    pose[0, 3] += x
    at_desk(running, lambda: running.teach._dragged(pose))
    return pose


def test_a_pose_in_a_new_scene_is_on_the_disk_and_undone_before_the_scene_is(
    running: Studio, said: list[str]
):
    enter(running, "Teach")
    name = open_scene(running, 3)
    first = running.teach.pose.copy()
    moved = drag(running, 0.02)
    at_desk(running, lambda: running.teach.key("release", False, False))
    further = drag(running, 0.03)
    on_disk = StudioFolder(running.session.folder.demos_path).load(gripper_named("franka-hand"))
    assert np.array_equal(on_disk.scene(name).pose, further)
    for wanted in (moved, first):
        at_desk(running, lambda: running._undo("Undo"))
        assert running.session.selection.scene == name
        assert np.array_equal(running.teach.pose, wanted)
    at_desk(running, lambda: running._undo("Redo"))
    assert np.array_equal(running.teach.pose, moved)
    assert said == []


def test_a_drag_that_goes_on_while_another_page_changes_the_scene_moves_nothing_there(
    running: Studio, said: list[str]
):
    enter(running, "Teach")
    teach, session = running.teach, running.session
    name = open_scene(running, 3)
    at_desk(running, lambda: teach.key("grab", False, False))
    begun = drag(running, 0.02)
    open_scene(running, 2)  # on another page
    there = teach.pose.copy()
    at_desk(running, lambda: teach._dragged(begun))
    assert np.array_equal(teach.pose, there)
    assert session.state.document.scene(session.selection.scene).pose is None
    assert np.array_equal(session.state.document.scene(name).pose, begun)  # what was done is kept
    at_desk(running, lambda: teach.key("release", False, False))
    assert np.array_equal(drag(running, 0.02), teach.pose)
    assert said == []


def test_a_page_that_is_closed_while_it_drags_leaves_the_last_pose_and_no_held_mouse(
    running: Studio, said: list[str]
):
    enter(running, "Teach")
    name = open_scene(running, 3)
    at_desk(running, lambda: running.teach.key("grab", False, False))
    moved = drag(running, 0.02)
    running._server._client_disconnect_cb[-1](None)
    assert running.session.desk.wait()
    assert np.array_equal(running.session.state.document.scene(name).pose, moved)
    assert not running.teach._grabbed
    assert said == []


def test_a_key_that_is_held_down_is_one_change(running: Studio, said: list[str]):
    enter(running, "Teach")
    open_scene(running, 3)
    first = running.teach.pose.copy()

    def hold() -> None:
        for _ in range(20):
            running.teach.key("ArrowRight", False, False)

    at_desk(running, hold)
    assert np.linalg.norm(running.teach.pose[:3, 3] - first[:3, 3]) == pytest.approx(0.02)
    at_desk(running, lambda: running._undo("Undo"))
    assert np.array_equal(running.teach.pose, first)
    assert said == []


def look_at(running: Studio, selection: Selection) -> None:
    """Choose something in the list."""
    at_desk(running, lambda: (running.session.select(selection), running.session.changed()))


def test_a_scene_says_what_it_belongs_to_and_what_comes_next(running: Studio, said: list[str]):
    enter(running, "Teach")
    panel, taught = running.teach.panel, thin_sample(1)[0]

    def proposed() -> tuple[str, str, str]:
        return panel.chosen_demo, panel.step.value, panel.action.value

    open_scene(running, 3)
    assert proposed() == ("", "pick", "pick")
    look_at(running, Selection(demo=taught.name, step="pick"))
    at_desk(running, running.teach._next_step)
    following = running.session.selection
    assert proposed() == (taught.name, "place_2", "place")
    look_at(running, Selection(scene="mug_3"))
    assert proposed() == ("", "pick", "pick")
    look_at(running, following)
    assert proposed() == (taught.name, "place_2", "place")
    assert said == []


def test_what_is_held_in_a_taught_step_can_be_mended(running: Studio, said: list[str]):
    enter(running, "Teach")
    chosen = Selection(demo=thin_sample(1)[0].name, step="place")
    look_at(running, chosen)
    assert running.teach.panel.held_folder.visible
    other = thin_sample(2)[1].step("place").grasp
    at_desk(running, lambda: running.teach._uploaded_held("held.ply", other))
    on_disk = load_demos(running.session.folder.demos_path)[0].step("place").grasp
    assert np.array_equal(on_disk.points, other.points)
    assert np.abs(_held(running) - other.transformed(running.teach.pose).points).max() < 1e-6
    assert said == []


def test_a_training_that_is_begun_anew_leaves_the_model_before_alone(
    running: Studio, said: list[str]
):
    train, runs = running.train, running.session.folder.runs
    train.panel.run.value = "first"
    assert train._new_path(["pick"]) == runs / "first_2"
    assert train.panel.run.value == "first_2"
    assert train._new_path(["pick"]) == runs / "first_2"
    train.panel.run.value = "first"
    assert train._new_path(["another step"]) == runs / "first"
    assert said == []


class Trainings:
    """In the place of trainings in other processes: steps without anything to learn."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.resumed: list[bool] = []

    def __call__(
        self,
        jobs: Sequence[TrainingJob],
        *,
        resume: bool,
        report: Callable[[int, StepReport], None],
        checkpoint_seconds: float,
    ) -> None:
        (job,) = jobs
        steps = job.recipe.training.steps
        self.steps.append(steps)
        self.resumed.append(resume)
        checkpoint = RunFolder(job.folder).checkpoint(job.recipe.step.name)
        checkpoint.unlink(missing_ok=True)
        try:
            for step in range(steps):
                time.sleep(0.005)
                report(0, StepReport(step, steps, 1.0 / (1 + step), 0.0, 1.0, 2.0, (), 0))
        except BaseException:
            checkpoint.write_bytes(b"all that was learned")
            raise


def test_a_training_is_stopped_and_resumed_by_a_studio_that_was_started_later(
    running: Studio, said: list[str], monkeypatch: pytest.MonkeyPatch
):
    trainings, train = Trainings(), running.train
    monkeypatch.setattr("handful.apps.studio._train.train_jobs", trainings)
    panel, desk = train.panel, running.session.desk
    run = RunFolder(running.session.folder.runs / "stopped")
    panel.run.value, panel.step.value, panel.force.value = "stopped", "pick", True
    panel.steps.value = 100_000

    def until(true: Callable[[], object]) -> None:
        end = time.monotonic() + 60.0
        while not true():
            assert time.monotonic() < end
            time.sleep(0.02)

    desk.do(lambda: train._begin(resume=False))
    until(lambda: len(train._reports.get("pick", [])) > 3)
    assert panel.stop.visible
    desk.do(train._interrupt)
    until(lambda: panel.resume.visible)
    assert "Stopped" in panel.told.content
    assert not panel.stop.visible
    assert run.summary().options == {"seed": 0, "steps": 100_000}
    # Another studio knows nothing of it but the folder.
    train._jobs, train._reports, panel.steps.value = [], {}, 0
    line = '{"step": 0, "steps": 40, "loss": 5.0, "weights": [], "skipped": 0, "seconds": 0.1}'
    run.log("pick").write_text(line + "\n")
    run.note(options={"steps": 40})
    desk.do(lambda: train._begin(resume=True))
    until(lambda: "Trained: pick" in panel.told.content)
    assert trainings.steps == [100_000, 40]
    assert trainings.resumed == [False, True]
    assert train._reports["pick"][0].loss == 5.0
    assert panel.loss.visible
    assert said == []


def test_curves_begin_where_one_began_to_watch():
    reports = [LogEntry(step=one, loss=float(one)) for one in (3, 4, 6)] + [LogEntry(step=7)]
    found = _at_steps(reports, "loss")
    assert np.array_equal(found, [np.nan] * 3 + [3, 4, np.nan, 6, np.nan], equal_nan=True)


@pytest.mark.parametrize("room", ["Look", "Try"])
def test_a_scene_is_shown_where_its_model_cannot_be_asked(
    running: Studio, said: list[str], room: str
):
    """A place needs what is held, which nobody said of a scene that is new."""
    enter(running, "Teach")
    open_scene(running, 3)
    enter(running, room)
    one = next(one for one in running.rooms if one.name == room)
    one.panel.model.value = "first · place"
    at_desk(running, one._fresh if room == "Look" else one._find)
    contents = one.stage.contents()
    assert np.array_equal(contents.clouds[0].points, thin_sample(4)[3].steps[0].scene.points)
    assert len(contents.clouds) == 1
    assert contents.meshes == ()
    assert "needs what is held" in said.pop()
    one.panel.model.value = "first · pick"
    assert said == []


def test_what_is_taken_is_held_in_the_next_step_and_moves_with_the_gripper(
    running: Studio, said: list[str]
):
    enter(running, "Teach")
    at_desk(running, running.teach._next_step)
    scene = running.session.state.document.scene(running.session.selection.scene)
    assert isinstance(scene, Scene)
    assert scene.grasp is not None
    whole = thin_sample(1)[0].steps[0].scene
    assert len(scene.cloud) + len(scene.grasp) == len(whole)
    held, pose = _held(running), running.teach.pose
    assert np.abs(held - scene.grasp.transformed(pose).points).max() < 1e-6
    at_desk(running, lambda: running.teach.key("PageUp", shift=True, alt=False))
    at_desk(running, lambda: running.teach.key("ArrowLeft", shift=True, alt=True))
    moved = running.teach.pose
    assert not np.allclose(moved, pose, atol=1e-3)
    assert np.abs(_held(running) - scene.grasp.transformed(moved).points).max() < 1e-6
    assert said == []


def _held(running: Studio) -> np.ndarray:
    """The points in the gripper, scene frame."""
    return running.teach.stage.contents().clouds[1].points


def test_a_box_holds_what_stands_in_it_and_a_box_in_the_air_is_refused(
    running: Studio, said: list[str]
):
    enter(running, "Look")
    sample = thin_sample(1)
    step = sample[0].steps[0]
    spot = (step.targets[0] @ sample.gripper.T_gripper_contact)[:3, 3]
    at_desk(running, lambda: running.look._select(spot))
    inside = running.look._object
    table = np.percentile(step.scene.points[:, 2], 5.0)
    assert 50 < inside.sum() < len(step.scene) / 2
    assert step.scene.points[inside][:, 2].min() > table
    at_desk(running, lambda: running.look._select(spot + np.array([0.0, 0.0, 1.0])))
    assert len(said) == 1
    assert "hardly anything is in the box" in said.pop()
    assert running.look._object is inside


def test_a_type_that_descriptors_do_not_have_is_told_and_the_scene_is_shown(
    running: Studio, said: list[str]
):
    layer = running.look.panel.layer
    layer.value = "type 3 by its strength"
    enter(running, "Look")
    layer.value = "type 0 as colours"
    assert "no type 3" in running.look.panel.told.content
    scene = thin_sample(1)[0].steps[0].scene
    cloud = running.look.stage.contents().clouds[0]
    assert np.abs(cloud.colors - scene.colors).max() < 1.0 / 255.0
    assert said == []


def test_a_scene_follows_its_object(running: Studio, said: list[str]):
    enter(running, "Look")
    step, look = thin_sample(1)[0].steps[0], running.look
    spot = (step.targets[0] @ thin_sample(1).gripper.T_gripper_contact)[:3, 3]
    at_desk(running, lambda: look._select(spot))
    inside = look._object
    moved = look._center.copy()
    moved[:3, 3] += [0.05, 0.02, 0.0]
    at_desk(running, lambda: look._dragged(moved))
    points = look._now().points
    assert np.abs(points[: -inside.sum()] - step.scene.points[~inside]).max() == 0.0
    gone = points[-inside.sum() :] - step.scene.points[inside]
    assert np.abs(gone - [0.05, 0.02, 0.0]).max() < 1e-6
    at_desk(running, look._put_back)
    assert np.abs(look._now().points[-inside.sum() :] - step.scene.points[inside]).max() < 1e-6
    assert said == []


def test_the_model_that_was_trained_last_is_offered_first(running: Studio, said: list[str]):
    models, runs = running.attempt._models, running.session.folder.runs
    assert models.fitting("gone · pick", "pick") == "first · pick"
    small_run(runs / "another")
    assert models.labels()[0].startswith("another")
    assert models.fitting("gone · pick", "place") == "another · place"
    for step in ("pick", "place"):
        os.utime(RunFolder(Path(runs / "first")).model(step))
    assert models.fitting("gone · pick", "place") == "first · place"


@pytest.mark.parametrize("room", ["Teach", "Train", "Look", "Try"])
def test_what_a_room_shows_is_saved_as_a_picture_and_as_a_page(
    running: Studio, said: list[str], room: str
):
    enter(running, room)
    for how in ("Picture", "HTML page"):
        at_desk(running, lambda how=how: running._save(how, None))
    png, page = (
        max(running.session.folder.pictures.glob(f"*-{room.lower()}.{kind}"))
        for kind in ("png", "html")
    )
    drawn = np.asarray(Image.open(png).convert("RGB"), dtype=int)
    assert (np.abs(drawn - drawn[0, 0]).sum(axis=2) > 60).mean() > 0.05
    outside = r"(src|href)=(?!\"data:)|https?://"  # pictures are in the page itself
    assert not re.search(outside, page.read_text().split("<script")[0])
    assert said == []
