"""The studio in a real browser: teach, train, look and try; and who is refused.

Loading a page and drawing it in software takes seconds of a core: most tests share one studio, in
this process, and one page of it.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from handful.clouds import write_cloud
from handful.demos import Action, DemoSet, load_demos, save_demos
from handful.learning import Recipe, RunFolder, train_in_folder
from samples import thin_sample
from service_process import small_run
from small_training import SMALL, small_recipe
from studio_page import (
    PATIENCE,
    Heard,
    browser,
    canvas_size,
    click_on,
    gizmo_tip,
    need_browser,
    opened,
    pixel_of,
    places,
    rim_of,
    studio,
    until,
    upload,
    view_of,
)

SIZE = (900, 420)
TOKEN = "a-token-of-twenty-letters"
TRAINING = 3.0 * PATIENCE
"""Milliseconds that a training may take to begin, or to end: it takes ten seconds of a core."""
LAYERS = (
    "type 1 as arrows", "type 2 by its strength", "type 3 by its strength",
    "energy around the best pose", "as it was recorded",
)  # fmt: skip


@dataclass
class Shared:
    """A studio with a token, a page of it, and the demonstration set that is taught there."""

    url: str
    page: object
    folder: Path

    @property
    def heard(self) -> Heard:
        return self.page.heard

    def room(self, name: str) -> object:
        """The page, in one of its rooms."""
        self.page.get_by_role("button", name=name, exact=True).click()
        self.page.get_by_role("heading", name=name).wait_for()
        return self.page

    def demos(self) -> DemoSet:
        """What is on the disk."""
        return load_demos(self.folder)


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    need_browser()
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def shared(chromium: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """With a demonstration, and runs of models that know next to nothing."""
    from handful.apps.studio import Studio, StudioConfig

    folder = tmp_path_factory.mktemp("shared")
    save_demos(thin_sample(1), folder / "set")
    one = small_run(folder / "one")
    two = shutil.copytree(one, folder / "two")
    train_in_folder(thin_sample(), all_types(), folder / "all")
    runs = tuple(map(str, (one, two, folder / "all")))
    config = StudioConfig(str(folder / "set"), port=0, token=TOKEN, runs=runs)
    running = Studio(config)
    try:
        url = f"{running.address}/?token={TOKEN}"
        page = opened(chromium, url, SIZE, "Contact point", listening=True)
        yield Shared(running.address, page, folder / "set")
        page.close()
    finally:
        running.close()


def all_types() -> Recipe:
    """A small recipe of which the descriptors hold every type that the room Look shows."""
    small = small_recipe("pick", Action.PICK, steps=1)
    model = replace(small.model, encoder=replace(SMALL, degree=3), descriptor=(4, 2, 1, 1))
    return replace(small, model=model)


def choose(page: object, field: str, option: str) -> None:
    page.get_by_label(field, exact=True).first.click()
    page.get_by_role("option", name=option, exact=True).click()


def has_arrows(heard: Heard) -> bool:
    kinds = ("MeshMessage", "RemoveSceneNodeMessage")
    found = [one["type"] for one in heard.all() if one.get("name") == "/look/arrows"]
    return [one for one in found if one in kinds][-1:] == ["MeshMessage"]


@contextmanager
def held(page: object, start: tuple[float, float], end: tuple[float, float]) -> Iterator[None]:
    """Drag with the left mouse button, as a hand does, and let go afterwards."""
    page.mouse.move(*start)
    page.wait_for_timeout(800)  # the page must have seen what is under the mouse
    page.mouse.down()
    for share in np.linspace(0.1, 1.0, 8):
        x, y = (1 - share) * np.array(start) + share * np.array(end)
        page.mouse.move(float(x), float(y))
        page.wait_for_timeout(60)
    yield
    page.mouse.up()


@pytest.mark.slow(seconds=30)
def test_a_new_user_goes_from_three_clouds_to_poses_in_a_fourth(chromium: object, tmp_path: Path):
    """Without the command line: upload, click, add; train, stop, resume; try, and save."""
    sample = thin_sample(4)
    scenes = [demo.steps[0].scene for demo in sample]
    for number, scene in enumerate(scenes):
        write_cloud(scene, tmp_path / f"mug_{number}.ply")
    (tmp_path / "bad.ply").write_bytes(b"this is no cloud")
    folder = tmp_path / "studio"
    with studio(folder) as running:
        page = opened(chromium, running.url, SIZE, "Open a cloud above")
        upload(page, "Open a cloud", tmp_path / "bad.ply")
        page.get_by_text("starts with").first.wait_for()
        for number in range(3):
            upload(page, "Open a cloud", tmp_path / f"mug_{number}.ply")
            page.get_by_text(f"mug_{number} opened").wait_for()
            assert (folder / "scenes" / f"mug_{number}.ply").is_file()
            contact = sample[number].steps[0].targets[0] @ sample.gripper.T_gripper_contact
            points, spot = scenes[number].points, contact[:3, 3]
            click_on(page, points, rim_of(points, spot - 0.03, spot + 0.03))
            page.get_by_role("button", name="Add this step").click()
            page.get_by_text(f"demo_mug_{number} added").wait_for()
        assert not (folder / "scenes" / "bad.ply").exists()
        taught = load_demos(folder / "demos")
        assert [one.name for one in taught] == [f"demo_mug_{number}" for number in range(3)]
        for one, shown in zip(taught, sample, strict=False):  # at the rim that was clicked
            found = (one.steps[0].targets[0] @ taught.gripper.T_gripper_contact)[:3, 3]
            wanted = (shown.steps[0].targets[0] @ sample.gripper.T_gripper_contact)[:3, 3]
            assert np.linalg.norm(found - wanted) < 0.06
        page.get_by_role("button", name="Train", exact=True).click()
        page.get_by_label("Training steps").fill("4")
        page.get_by_label("Training steps").press("Enter")
        page.get_by_text("Train even if checks fail").click()
        page.get_by_role("button", name="Start training").click()
        page.get_by_role("button", name="Stop").click()
        ended = page.get_by_text(re.compile("Stopped. Resume|Trained: pick"))
        ended.wait_for(timeout=TRAINING)
        run = RunFolder(folder / "runs" / "first")
        if page.get_by_role("button", name="Resume").is_visible():
            assert run.checkpoint("pick").is_file()
            page.get_by_role("button", name="Resume").click()
        page.get_by_text("Trained: pick").wait_for(timeout=TRAINING)
        assert run.model("pick").is_dir()
        page.get_by_role("button", name="Teach", exact=True).click()
        upload(page, "Open a cloud", tmp_path / "mug_3.ply")
        page.get_by_text("mug_3 opened").wait_for()
        page.get_by_role("button", name="Try", exact=True).click()
        page.get_by_text("pose 1 of").wait_for()
        page.keyboard.press("ArrowRight")
        page.get_by_text("pose 2 of").wait_for()
        page.close()
        assert running.stop() == 0
        assert running.said == "Stopped.\n"  # and no word of the libraries
    assert len(load_demos(folder / "demos")) == 3


def test_a_pose_is_dragged_saved_and_there_again(chromium: object, shared: Shared):
    before = shared.demos()
    step = before[0].steps[0]
    target, contact = step.targets[0], before.gripper.T_gripper_contact

    def pose() -> np.ndarray:
        return shared.demos()[0].step(step.name).targets[0]

    def is_at(wanted: np.ndarray) -> bool:
        return bool(np.abs(pose() - wanted).max() < 1e-6)

    page = shared.room("Teach")
    place = page.get_by_text("Contact point")
    shown = place.inner_text()
    view, size = view_of(step.scene.points), canvas_size(page)
    for axis in range(3):  # one of the arrows is in sight of the mouse
        tip = gizmo_tip(target, contact, axis)
        start = pixel_of(tip, *view, size)
        end = pixel_of(tip + 0.04 * (target @ contact)[:3, axis], *view, size)
        with held(page, start, end):  # nothing is saved between two moves, and checks are told
            page.wait_for_timeout(700)
            assert is_at(target)
            caught = place.inner_text() != shown
            assert not caught or page.get_by_text(re.compile("Fine|Look:|Wrong:")).count()
        if caught:
            break
    assert caught, "no arrow of the gizmo was caught"
    until(lambda: not is_at(target))
    page.wait_for_timeout(1500)  # the last place of the mouse may come later
    moved, words = pose(), place.inner_text()
    assert 0.005 < (moved - target)[:3, 3] @ (target @ contact)[:3, axis] < 0.1
    page.get_by_role("button", name="Undo").click()
    until(lambda: is_at(target))
    page.get_by_role("button", name="Redo").click()
    until(lambda: is_at(moved))
    # A page that is loaded now shows the same, and a key there is seen here.
    other = opened(chromium, f"{shared.url}/?token={TOKEN}", (900, 300))
    assert other.get_by_text("Contact point").inner_text() == words
    other.keyboard.press("PageUp")
    until(lambda: place.inner_text() != words)
    until(lambda: not is_at(moved))
    other.close()
    page.get_by_role("button", name="Undo").click()
    until(lambda: is_at(moved))
    page.get_by_role("button", name="Undo").click()
    until(lambda: is_at(target))


def test_two_models_are_compared_and_saved_as_a_page_of_its_own(
    chromium: object, shared: Shared, tmp_path: Path
):
    page = shared.room("Try")
    choose(page, "Model", "one · pick")
    choose(page, "Compare with", "two · pick")
    for label in ("one", "two"):
        page.get_by_text(f"{label} · pick: pose 1 of").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML page").click()
    download.value.save_as(tmp_path / "try.html")
    choose(page, "Compare with", "(none)")
    page.get_by_text("two · pick: pose 1 of").wait_for(state="detached")
    context = chromium.new_context(offline=True, viewport={"width": 600, "height": 400})
    saved = context.new_page()
    problems: list[object] = []
    asked: list[str] = []
    saved.on("pageerror", lambda error: problems.append(error))
    saved.on("request", lambda request: asked.append(request.url))
    saved.goto((tmp_path / "try.html").as_uri())
    saved.wait_for_timeout(800)
    saved.screenshot(path=tmp_path / "saved.png")
    context.close()
    assert not problems
    assert asked == [(tmp_path / "try.html").as_uri()]
    drawn = np.asarray(Image.open(tmp_path / "saved.png").convert("RGB")).astype(int)
    paper = drawn[-1, -1]
    assert (np.abs(drawn - paper).sum(axis=2) > 60).mean() > 0.05


def test_every_layer_is_shown_and_an_object_is_boxed_and_moved(shared: Shared):
    page = shared.room("Look")
    page.get_by_text("Looked with").wait_for()
    choose(page, "Model", "all · pick")
    page.get_by_text("Looked with all · pick").wait_for()
    heard = page.heard
    painted = [heard.colors("/look/scene")]
    for layer in LAYERS:
        choose(page, "Key field", layer)
        until(lambda: heard.colors("/look/scene") != painted[-1])
        page.wait_for_timeout(300)
        painted.append(heard.colors("/look/scene"))
        until(lambda layer=layer: has_arrows(heard) == ("arrows" in layer))
    assert len({tuple(sorted(one.items())) for one in painted}) == len(painted)
    # A box where the mug is: it stands at the demonstrated pose.
    sample = thin_sample(1)
    step, contact = sample[0].steps[0], sample.gripper.T_gripper_contact
    spot = (step.targets[0] @ contact)[:3, 3]
    view, size = view_of(step.scene.points), canvas_size(page)
    page.get_by_role("button", name="Put the box where I click").click()
    page.get_by_text("Click on the object").wait_for()
    page.wait_for_timeout(1000)
    rim = rim_of(step.scene.points, spot - 0.03, spot + 0.03)
    page.mouse.click(*pixel_of(rim, *view, size))
    told = page.get_by_text("points are in the box").inner_text()
    assert int(told.split()[0]) > 50
    middle = np.array(heard.last("SetPositionMessage", "/look/object")["position"])
    assert np.linalg.norm(middle - spot) < 0.12
    for axis in np.eye(3)[:2]:
        tip = middle + 0.13 * axis
        with held(page, pixel_of(tip, *view, size), pixel_of(tip + 0.06 * axis, *view, size)):
            page.wait_for_timeout(300)
        page.wait_for_timeout(2000)
        if page.get_by_text("The object was moved").count():
            break
    page.get_by_text("The object was moved").wait_for()


def test_the_slider_goes_through_the_poses_and_the_way_is_shown_or_not(shared: Shared):
    page = shared.room("Try")
    page.get_by_text("poses in").wait_for()
    count = int(re.search(r"pose 1 of (\d+)", page.get_by_text("pose 1 of").inner_text())[1])
    rank, confidence = page.get_by_role("slider").nth(0), page.get_by_role("slider").nth(1)
    rank.press("ArrowRight")
    page.get_by_text(f"pose 2 of {count}").wait_for()
    rank.press("End")
    page.get_by_text(f"pose {count} of {count}").wait_for()
    confidence.press("End")
    page.get_by_text("no pose of this rank").wait_for()
    confidence.press("Home")
    page.get_by_text(f"pose {count} of {count}").wait_for()
    # The ghost comes from the pre-pose to the pose, and goes on to the retreat.
    ghost = "/try/side0/ghost"
    pose = np.array(page.heard.last("SetPositionMessage", "/try/side0/hand")["position"])
    far = np.linalg.norm(places(page.heard.during(4500), ghost) - pose, axis=1)
    assert far.min() < 1e-6
    assert 0.06 < far.max() < 0.081
    page.get_by_label("Show the way").click()
    until(lambda: not page.heard.during(700))
    assert page.heard.during(1500) == []
    assert [one for one in page.heard.all() if one.get("name") == ghost][-1] == {
        "type": "RemoveSceneNodeMessage", "name": ghost,
    }  # fmt: skip
    page.get_by_label("Show the way").click()
    until(lambda: len(places(page.heard.during(500), ghost)) > 0)
    page.get_by_role("button", name="Train", exact=True).click()
    page.get_by_role("heading", name="Train").wait_for()
    page.wait_for_timeout(500)
    assert len(places(page.heard.during(1000), ghost)) == 0
    shared.room("Try").get_by_label("Show the way").click()  # it would be drawn all the time


@pytest.mark.xfail(
    run=False, reason="passes alone, and not after the other tests of this page; the cause is open"
)
def test_an_episode_of_a_simulated_task_is_run_gone_through_again_and_stopped(shared: Shared):
    pytest.importorskip("mujoco", reason="episodes need the extra `sim`")
    page = shared.room("Try")
    page.get_by_text("In the simulated world").click()
    choose(page, "Run", "one")
    page.get_by_role("button", name="Run the episode").click()
    page.get_by_text("Moment", exact=True).wait_for()  # it has ended
    page.locator("img").last.wait_for()
    moment = page.get_by_role("slider").last
    assert int(moment.get_attribute("aria-valuenow")) > 1
    moment.press("Home")
    until(lambda: moment.get_attribute("aria-valuenow") == "1")
    page.get_by_role("button", name="Run the episode").click()
    page.get_by_role("button", name="Stop it").click()  # while the scene is set up, at the latest
    page.get_by_text("Stopped.").wait_for()
    page.get_by_text("In the simulated world").click()


def test_a_wrong_token_is_refused_and_the_right_one_opens_the_page(
    chromium: object, shared: Shared
):
    assert httpx.get(shared.url).status_code == 401
    assert httpx.get(f"{shared.url}/?token=wrong").status_code == 401
    assert httpx.get(f"{shared.url}/assets/../../../_viser.py").status_code in (401, 404)
    assert httpx.get(shared.url, headers={"Host": "evil.example"}).status_code == 421
    context = chromium.new_context()
    context.route("**/assets/**", lambda route: route.abort())  # nothing is to be drawn here
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{shared.url}/?token=not-the-right-token")
    page.get_by_text("That token is wrong").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open").click()
    page.get_by_text("Keys in Teach").wait_for()
    assert TOKEN not in page.url
    context.close()
