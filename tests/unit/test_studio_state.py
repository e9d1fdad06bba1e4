"""The studio without a browser: what is taught, undone, saved, and who may do it."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from handful.apps.studio._desk import Desk
from handful.apps.studio._document import Document, Scene
from handful.apps.studio._folder import StudioFolder
from handful.apps.studio._opening import opened_path
from handful.apps.studio._posing import first_pose, nudged
from handful.apps.studio._state import Selection, State
from handful.apps.studio._words import plain
from handful.clouds import CloudReader, write_cloud
from handful.demos import (
    Action,
    LiveDemoFolder,
    TaskStep,
    gripper_named,
    load_demos,
    save_demos,
)
from handful.errors import BusyError, DemoError, FileFormatError, HandfulError
from handful.recordings import write_rgbd_example
from samples import pose_at, small_cloud, small_demos

HAND = gripper_named("simulated")
PICK = next(iter(Action))


def document(scenes: int = 2) -> Document:
    empty = Document(HAND)
    for number in range(scenes):
        empty = empty.with_scene(Scene("cup", small_cloud(number)))
    return empty


def described(what: Document) -> list:
    """All of a document that can be compared."""
    return [
        what.gripper.name,
        [
            (one.name, one.cloud.points.tobytes(), one.grasp is None, one.follows, one.place)
            for one in what.scenes
        ],
        [None if one.pose is None else one.pose.tobytes() for one in what.scenes],
        [
            (demo.name, step.name, step.action, step.scene.points.tobytes(), step.targets.tobytes())
            for demo in what.demonstrations
            for step in demo.steps
        ],
    ]


def test_names_of_scenes_are_their_own_and_safe_for_files():
    made = document().with_scene(Scene("../../etc/{x}", small_cloud(5)))
    assert [one.name for one in made.scenes] == ["cup", "cup_2", "etc_x"]


def test_a_taught_scene_becomes_a_demonstration_and_comes_back():
    pose = pose_at(0.0, 0.0, 0.2)
    taught = document().taught("cup", "take", PICK, pose)
    assert [one.name for one in taught.scenes] == ["cup_2"]
    assert taught.demos is not None
    assert np.array_equal(taught.step("demo_cup", "take").targets[0], pose)
    back = taught.without_step("demo_cup", "take")
    assert back.demos is None
    assert len(back.scenes) == 2
    assert np.array_equal(back.scenes[-1].pose, pose)


def test_a_step_that_was_taken_back_is_taught_again_at_its_place():
    one = document(3).taught("cup", "take", PICK, pose_at(0, 0, 0.2))
    one = one.taught("cup_2", "put", Action.PLACE, pose_at(0, 0, 0.2), "demo_cup")
    back = one.without_step("demo_cup", "take")
    scene = back.scenes[-1]
    assert scene.follows == "demo_cup"
    again = back.taught(scene.name, "take", PICK, scene.pose, "demo_cup")
    assert again.demos.task.names == one.demos.task.names == ("take", "put")
    # A scene that goes on from a demonstration comes after all of its steps.
    more = again.with_scene(Scene("next", small_cloud(7), follows="demo_cup"))
    more = more.taught("next", "take again", PICK, pose_at(0, 0, 0.2), "demo_cup")
    assert more.demos.task.names == ("take", "put", "take again")


def test_what_a_scene_shows_is_proposed_from_what_others_show():
    empty, pose = document(5), pose_at(0, 0, 0.2)
    assert empty.proposed_step("cup", "") == TaskStep("pick", PICK)
    one = empty.taught("cup", "take", PICK, pose)
    assert one.proposed_step("cup_2", "") == TaskStep("take", PICK)
    assert one.proposed_step("cup_2", "demo_cup") == TaskStep("place", Action.PLACE)
    whole = one.taught("cup_2", "put", Action.PLACE, pose, "demo_cup")
    two = whole.taught("cup_3", "take", PICK, pose)
    assert two.proposed_step("cup_4", "demo_cup_3") == TaskStep("put", Action.PLACE)
    assert two.proposed_step("cup_4", "demo_cup") == TaskStep("pick", PICK)
    # Where something is in the gripper, it goes on from there.
    more = two.with_scene(
        Scene("next", small_cloud(7), small_cloud(8), follows="demo_cup", place=1)
    )
    assert more.proposed_step("next", "demo_cup") == TaskStep("place", Action.PLACE)
    between = more.taught("next", "place", Action.PLACE, pose, "demo_cup")
    assert [one.name for one in between.demonstrations[0].steps] == ["take", "place", "put"]


def test_another_gripper_stands_and_holds_alike_in_scenes_that_are_not_taught():
    held, pose, other = small_cloud(3), pose_at(0.1, 0, 0.2), gripper_named("franka-hand")
    before = document().with_draft("cup", pose).with_held("cup", held)
    after = before.with_gripper(other).scene("cup")
    contact = pose @ HAND.T_gripper_contact
    assert np.allclose(after.pose @ other.T_gripper_contact, contact)
    there = after.grasp.transformed(after.pose).points
    every = held.transformed(pose).points
    assert all(np.abs(every - one).max(axis=1).min() < 1e-6 for one in there)
    assert before.with_gripper(other).scene("cup_2").pose is None


def test_a_second_task_in_one_set_is_refused():
    taught = document().taught("cup", "take", PICK, pose_at(0, 0, 0.2))
    with pytest.raises(DemoError, match="one task"):
        taught.taught("cup_2", "take", Action.PLACE, pose_at(0, 0, 0.2))


def test_poses_are_added_changed_and_removed_but_for_the_last():
    pose, other = pose_at(0, 0, 0.2), pose_at(0.1, 0, 0.2)
    taught = document().taught("cup", "take", PICK, pose)
    two = taught.with_further_pose("demo_cup", "take", other)
    assert len(two.step("demo_cup", "take").targets) == 2
    changed = two.with_pose("demo_cup", "take", 0, other)
    assert np.array_equal(changed.step("demo_cup", "take").targets, np.stack([other, other]))
    one = changed.without_pose("demo_cup", "take", 1)
    with pytest.raises(DemoError, match="no other pose"):
        one.without_pose("demo_cup", "take", 0)


def test_undo_and_redo_go_through_every_state_and_each_is_saved():
    saved: list[Document] = []
    state = State(document(), saved.append)
    states = [state.document]
    for number in range(5):
        pose = pose_at(0.01 * number, 0, 0.2)
        new = state.document
        new = (
            new.taught("cup", "take", PICK, pose)
            if number == 0
            else new.with_pose("demo_cup", "take", 0, pose)
        )
        state.change(f"change {number}", new)
        states.append(new)
    for number in reversed(range(5)):
        assert state.undo() == f"change {number}"
        assert state.document is states[number]
    assert state.undo() == ""
    for number in range(5):
        assert state.redo() == f"change {number}"
    assert state.redo() == ""
    assert state.document is states[-1] is saved[-1]
    state.undo()
    state.change("another", states[0])
    assert state.redoable == ""


def test_undo_and_redo_look_at_what_they_change():
    state = State(document(), lambda _: None)
    pose = pose_at(0.0, 0.0, 0.2)
    state.change("added", state.document.taught("cup", "take", PICK, pose))
    assert state.selection == Selection(scene="cup_2")
    moved = pose_at(0.1, 0.0, 0.2)
    state.change("moved", state.document.with_draft("cup_2", moved))
    state.selection = Selection(demo="demo_cup", step="take")
    assert state.undo() == "moved"
    assert state.selection == Selection(scene="cup_2")
    assert state.document.scene("cup_2").pose is None
    assert state.undo() == "added"
    assert state.selection == Selection(scene="cup")
    state.redo()
    state.redo()
    assert state.selection == Selection(scene="cup_2")
    assert np.array_equal(state.document.scene("cup_2").pose, moved)


def test_the_parts_of_one_drag_are_undone_together():
    state = State(document().taught("cup", "take", PICK, pose_at(0, 0, 0.2)), lambda _: None)
    first = state.document
    for drag, x in [("a", 0.1), ("a", 0.2), ("b", 0.3), ("b", 0.4)]:
        new = state.document.with_pose("demo_cup", "take", 0, pose_at(x, 0, 0.2))
        state.change("moved", new, drag)
    state.undo()
    assert state.document.step("demo_cup", "take").targets[0, 0, 3] == 0.2
    state.undo()
    assert state.document is first
    state.redo()
    state.change("moved", first, "b")
    state.undo()
    assert state.document.step("demo_cup", "take").targets[0, 0, 3] == 0.2


def test_a_change_that_cannot_be_saved_did_not_happen():
    def full(_: Document) -> None:
        raise FileFormatError("the disk is full.")

    state = State(document(), full)
    before = state.document
    with pytest.raises(FileFormatError):
        state.change("lost", document(0))
    assert state.document is before
    assert state.undoable == ""


def test_a_selection_that_is_gone_becomes_another_one():
    state = State(document(), lambda _: None)
    assert state.nearest(Selection(scene="cup_2")).scene == "cup_2"
    assert state.nearest(Selection(scene="gone")).scene == "cup"
    state.change("taught", state.document.taught("cup", "take", PICK, pose_at(0, 0, 0.2)))
    kept = state.nearest(Selection(demo="demo_cup", step="take", target=7))
    assert kept == Selection(demo="demo_cup", step="take", target=0)


# --- on the disk -------------------------------------------------------------------------------


def test_everything_is_on_the_disk_after_every_change(tmp_path: Path):
    folder = StudioFolder(tmp_path / "studio")
    state = State(folder.load(HAND), folder.save)
    steps = [
        lambda now: now.with_scene(Scene("cup", small_cloud(1))),
        lambda now: now.with_scene(Scene("cup", small_cloud(2), small_cloud(3))),
        lambda now: now.with_draft("cup", pose_at(0.01, 0.3, 0.2)),
        lambda now: now.with_draft("cup_2", pose_at(0.3, 0.1, 0.2)),
        lambda now: now.with_held("cup_2", small_cloud(4)),
        lambda now: now.taught("cup", "take", PICK, pose_at(0, 0, 0.2)),
        lambda now: now.taught("cup_2", "put", Action.PLACE, pose_at(0, 0, 0.2), "demo_cup"),
        lambda now: now.with_pose("demo_cup", "put", 0, pose_at(0.1, 0.02, 0.2)),
        lambda now: now.without_step("demo_cup", "take"),
        lambda now: now.without_step("demo_cup", "put"),
        lambda now: now.without_scene("demo_cup"),
    ]
    for step in steps:
        state.change("next", step(state.document))
        there = StudioFolder(tmp_path / "studio").load(HAND)
        assert described(there) == described(state.document)
    left = {file.name.split(".")[0] for file in (tmp_path / "studio" / "scenes").iterdir()}
    assert left == {one.name for one in state.document.scenes}
    while state.undo():
        there = StudioFolder(tmp_path / "studio").load(HAND)
        assert described(there) == described(state.document)


def test_a_demonstration_set_is_taught_in_place(tmp_path: Path):
    save_demos(small_demos(), tmp_path / "set")
    folder = StudioFolder(tmp_path / "set")
    state = State(folder.load(HAND), folder.save)
    pose = pose_at(0.05, 0.01, 0.25)
    state.change("moved", state.document.with_pose("demo_1", "place", 0, pose))
    again = load_demos(tmp_path / "set")
    assert np.array_equal(again[1].step("place").targets[0], pose)
    assert folder.path == tmp_path / "set.studio"


def test_two_studios_do_not_have_one_folder(tmp_path: Path):
    with (
        StudioFolder(tmp_path / "one").held(),
        pytest.raises(BusyError, match=f"another process .{os.getpid()}"),
        StudioFolder(tmp_path / "one").held(),
    ):
        pass
    with StudioFolder(tmp_path / "one").held():
        pass


def test_a_scene_that_cannot_be_read_is_left_out_and_told(tmp_path: Path):
    (tmp_path / "studio" / "scenes").mkdir(parents=True)
    (tmp_path / "studio" / "scenes" / "bad.ply").write_bytes(b"no cloud at all")
    write_cloud(small_cloud(), tmp_path / "studio" / "scenes" / "good.ply")
    folder = StudioFolder(tmp_path / "studio")
    assert [one.name for one in folder.load(HAND).scenes] == ["good"]
    assert len(folder.problems) == 1
    assert "bad.ply" in folder.problems[0]


@pytest.mark.parametrize(
    "said", ['{"T_scene_gripper": 3}', '{"T_scene_gripper": [[1]]}', '{"other": 1}', "no JSON"]
)
def test_a_scene_whose_pose_cannot_be_read_is_opened_without_it(tmp_path: Path, said: str):
    scenes = tmp_path / "studio" / "scenes"
    scenes.mkdir(parents=True)
    write_cloud(small_cloud(), scenes / "cup.ply")
    (scenes / "cup.json").write_text(said)
    folder = StudioFolder(tmp_path / "studio")
    (scene,) = folder.load(HAND).scenes
    assert scene.pose is None
    (problem,) = folder.problems
    assert "cup.json" in problem


@pytest.mark.parametrize("file", ["my cup.ply", "cup.pcd", "cup.npz"])
def test_a_cloud_that_was_copied_there_is_one_scene_until_it_is_taught(tmp_path: Path, file: str):
    scenes = tmp_path / "studio" / "scenes"
    scenes.mkdir(parents=True)
    write_cloud(small_cloud(), scenes / file)

    def names() -> list[str]:
        return [one.name for one in StudioFolder(tmp_path / "studio").load(HAND).scenes]

    folder = StudioFolder(tmp_path / "studio")
    state = State(folder.load(HAND), folder.save)
    (name,) = names()
    state.change("moved", state.document.with_draft(name, pose_at(0, 0, 0.2)))
    assert names() == [name]
    state.change("added", state.document.taught(name, "take", PICK, pose_at(0, 0, 0.2)))
    assert names() == []
    state.undo()
    assert names() == [name]


def test_clouds_that_are_there_are_not_written_again(tmp_path: Path):
    live = LiveDemoFolder(tmp_path / "set")
    demos = small_demos()
    live.write(demos)
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / "set").glob("*/*.ply")}
    live = LiveDemoFolder(tmp_path / "set")
    loaded = live.load()
    assert loaded is not None
    live.write(loaded)
    assert {file: file.stat().st_mtime_ns for file in files} == files
    assert load_demos(tmp_path / "set")[0].name == "demo_0"


def test_clouds_go_one_write_after_the_manifest_forgot_them_and_strangers_stay(tmp_path: Path):
    live = LiveDemoFolder(tmp_path / "set")
    both, one = small_demos(2), small_demos(1)
    live.write(both)
    stranger = tmp_path / "set" / "demo_0" / "mine.ply"
    stranger.write_bytes(b"not ours")
    old = set((tmp_path / "set").glob("*/*.ply"))
    live.write(one)
    assert old <= set((tmp_path / "set").glob("*/*.ply"))  # a reader may be at work
    live.write(one)
    left = set((tmp_path / "set").glob("*/*.ply")) & old
    assert left == {stranger}
    live.write(None)
    assert list((tmp_path / "set").glob("*/*.ply")) == [stranger]


@pytest.mark.slow(seconds=10)
def test_a_path_is_opened_as_what_is_there(tmp_path: Path):
    reader = CloudReader(max_points=1000)
    try:
        write_cloud(small_cloud(), tmp_path / "cup.ply")
        change = opened_path(tmp_path / "cup.ply", reader)
        assert [one.name for one in change(Document(HAND)).scenes] == ["cup"]
        save_demos(small_demos(), tmp_path / "set")
        change = opened_path(tmp_path / "set", reader)
        assert len(change(Document(HAND)).demonstrations) == len(small_demos())
        write_rgbd_example(tmp_path / "images", 1)
        opened = opened_path(tmp_path / "images", reader)(Document(HAND))
        assert [step.name for step in opened.demonstrations[0].steps] == ["take peg", "insert peg"]
        assert opened.gripper.name != HAND.name
        write_cloud(small_cloud(count=1001), tmp_path / "large.ply")
        with pytest.raises(HandfulError, match="at most 1000"):
            opened_path(tmp_path / "large.ply", reader)
    finally:
        reader.close()


# --- the desk ----------------------------------------------------------------------------------


def test_the_desk_does_everything_in_order_in_one_thread():
    done: list[tuple[int, int]] = []
    desk = Desk(lambda *_: None)
    threads = [
        threading.Thread(
            target=lambda: desk.do(lambda: done.append((len(done), threading.get_ident())))
        )
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.close()
    assert [number for number, _ in done] == list(range(20))
    assert len({who for _, who in done}) == 1


def test_of_a_drag_only_the_latest_place_is_looked_at():
    seen: list[int] = []
    desk = Desk(lambda *_: None)
    hold = threading.Event()
    desk.do(hold.wait)
    for number in range(100):
        desk.do(lambda number=number: seen.append(number), "drag")
    hold.set()
    desk.close()
    assert seen == [99]


def test_what_is_for_later_waits_for_quiet_and_is_done_before_the_end():
    seen: list[str] = []
    desk = Desk(lambda *_: None)
    for _ in range(5):
        desk.later("commit", 0.1, lambda: seen.append("quiet"))
        time.sleep(0.01)
    assert desk.wait(5.0)
    assert seen == ["quiet"]
    desk.later("commit", 60.0, lambda: seen.append("end"))
    desk.close()
    assert seen == ["quiet", "end"]


def test_what_is_dropped_is_not_done_though_its_time_has_come():
    """As when a room is left at the moment in which its ghost would move."""
    seen: list[str] = []
    desk = Desk(lambda *_: None)
    desk.later("ghost", 0.02, lambda: seen.append("ghost"))
    desk.later("commit", 0.02, lambda: seen.append("commit"))
    busy = threading.Event()
    desk.do(busy.wait)
    desk.do(lambda: desk.drop("ghost"))
    desk.do(lambda: (desk.at_once("commit"), seen.append("after")))
    time.sleep(0.1)
    busy.set()
    assert desk.wait(5.0)
    desk.close()
    assert seen == ["commit", "after"]


def test_an_error_is_told_and_the_desk_goes_on(capsys: pytest.CaptureFixture[str]):
    told: list[tuple[str, bool]] = []
    desk = Desk(lambda sentence, mendable: told.append((sentence, mendable)))

    def wrong() -> None:
        raise DemoError("a sentence.")

    def bug() -> None:
        raise ZeroDivisionError

    done: list[int] = []
    for work in (wrong, bug, lambda: done.append(1)):
        desk.do(work)
    desk.close()
    assert told[0] == ("a sentence.", True)
    assert told[1][1] is False
    assert done == [1]
    assert "ZeroDivisionError" in capsys.readouterr().err


# --- words and keys ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{alert(1)}", "<img onerror=x>", "`a` *b* [c](d)", "a\x00b"])
def test_words_cannot_be_code(text: str):
    assert not set(plain(text)) & set("{}<>`*[]()\\\x00")


def test_words_that_are_just_words_stay():
    assert plain("Saved: cup 2, 3.5 mm") == "Saved: cup 2, 3.5 mm"


def test_keys_move_along_the_gripper_and_opposite_keys_undo_each_other():
    pose = first_pose(small_cloud(), HAND)
    for key, other in [
        ("ArrowLeft", "ArrowRight"),
        ("ArrowUp", "ArrowDown"),
        ("PageUp", "PageDown"),
    ]:
        for shift in (False, True):
            for alt in (False, True):
                moved = nudged(pose, HAND, key, shift, alt)
                assert not np.allclose(moved, pose, atol=1e-5)
                assert np.allclose(nudged(moved, HAND, other, shift, alt), pose, atol=1e-12)
    down = nudged(pose, HAND, "PageDown", False, False)
    assert np.isclose(down[2, 3], pose[2, 3] - 0.001)  # it looks down: its approach is -z
    assert nudged(pose, HAND, "Home", False, False) is pose


def test_the_first_pose_is_above_the_scene_and_looks_down():
    cloud = small_cloud()
    contact = first_pose(cloud, HAND) @ HAND.T_gripper_contact
    assert contact[2, 3] > cloud.points[:, 2].max()
    assert np.allclose(contact[:3, 2], [0, 0, -1])
