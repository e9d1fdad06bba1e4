"""The studio in a real browser: open, drag, save, reload; train; slide; and who is refused."""

import re
from pathlib import Path

import httpx
import numpy as np
import pytest

from handful.clouds import write_cloud
from handful.demos import load_demos, save_demos
from handful.learning import RunFolder
from samples import thin_sample
from service_process import small_run
from studio_page import browser, gizmo_tip, need_browser, opened, pixel_of, studio, until, view_of

SIZE = (900, 420)


def drag(page: object, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag with the left mouse button, as a hand does."""
    page.mouse.move(*start)
    page.wait_for_timeout(1500)  # the page must have seen what is under the mouse
    page.mouse.down()
    for share in np.linspace(0.1, 1.0, 8):
        x, y = (1 - share) * np.array(start) + share * np.array(end)
        page.mouse.move(float(x), float(y))
        page.wait_for_timeout(60)
    page.mouse.up()


def canvas_size(page: object) -> tuple[float, float]:
    box = page.locator("canvas").last.bounding_box()
    return box["width"], box["height"]


@pytest.mark.slow(seconds=30)
def test_a_pose_is_dragged_saved_and_there_again(tmp_path: Path):
    need_browser()
    save_demos(thin_sample(1), tmp_path / "set")
    before = load_demos(tmp_path / "set")
    step = before[0].steps[-1]
    target, contact = step.targets[0], before.gripper.T_gripper_contact
    with studio(tmp_path / "set") as running, browser() as chromium:
        page = opened(chromium, running.url, SIZE)
        shown = page.get_by_text("Contact point").inner_text()
        position, look = view_of(step.scene.points)
        size = canvas_size(page)
        moved = None
        for axis in range(3):  # one of the arrows is in sight of the mouse
            tip = gizmo_tip(target, contact, axis)
            start = pixel_of(tip, position, look, size)
            end = pixel_of(tip + 0.04 * (target @ contact)[:3, axis], position, look, size)
            drag(page, start, end)
            page.wait_for_timeout(1500)
            moved = load_demos(tmp_path / "set")[0].step(step.name).targets[0]
            if not np.array_equal(moved, target):
                break
        assert not np.array_equal(moved, target), "no arrow of the gizmo was caught"
        along = (moved - target)[:3, 3] @ (target @ contact)[:3, axis]
        assert 0.005 < along < 0.1
        words = page.get_by_text("Contact point").inner_text()
        assert words != shown
        page.wait_for_timeout(2000)
        moved = load_demos(tmp_path / "set")[0].step(step.name).targets[0]
        page.get_by_role("button", name="Undo").click()
        until(lambda: _pose(tmp_path, step.name, target))
        page.get_by_role("button", name="Redo").click()
        until(lambda: _pose(tmp_path, step.name, moved))
        page.reload()
        page.get_by_text("Contact point").wait_for()
        assert page.get_by_text("Contact point").inner_text() == words
        # A second page sees the same, and a key there is seen here.
        other = opened(chromium, running.url, (900, 300))
        other.keyboard.press("PageUp")
        until(lambda: page.get_by_text("Contact point").inner_text() != words)
        page.get_by_role("button", name="Undo").click()
        until(lambda: _pose(tmp_path, step.name, moved))
    with studio(tmp_path / "set") as running, browser() as chromium:
        page = opened(chromium, running.url, SIZE)
        assert page.get_by_text("Contact point").inner_text() == words
    again = load_demos(tmp_path / "set")[0].step(step.name).targets[0]
    assert np.abs(again - moved).max() < 1e-6


def _pose(tmp_path: Path, step: str, wanted: np.ndarray) -> bool:
    found = load_demos(tmp_path / "set")[0].step(step).targets[0]
    return bool(np.abs(found - wanted).max() < 1e-6)


@pytest.mark.slow(seconds=30)
def test_clouds_are_uploaded_taught_trained_and_tried(tmp_path: Path):
    need_browser()
    sample = thin_sample(1)
    write_cloud(sample[0].steps[0].scene, tmp_path / "mug.ply")
    (tmp_path / "bad.ply").write_bytes(b"this is no cloud")
    folder = tmp_path / "studio"
    with studio(folder) as running, browser() as chromium:
        page = chromium.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        page.set_default_timeout(90_000)
        page.goto(running.url)
        page.get_by_text("Open a cloud above").wait_for()
        for file in ("bad.ply", "mug.ply"):
            with page.expect_file_chooser() as chooser:
                page.get_by_role("button", name="Open a cloud").click()
            chooser.value.set_files(tmp_path / file)
        page.get_by_text("mug opened").wait_for()
        assert (folder / "scenes" / "mug.ply").is_file()
        assert not (folder / "scenes" / "bad.ply").exists()
        page.get_by_role("button", name="Add this step").click()
        page.get_by_text("added").wait_for()
        assert [one.name for one in load_demos(folder / "demos")] == ["demo_mug"]
        page.get_by_role("button", name="Train", exact=True).click()
        page.get_by_label("Training steps").fill("2")
        page.get_by_label("Training steps").press("Enter")
        page.get_by_text("Train even if checks fail").click()
        page.get_by_role("button", name="Start training").click()
        page.get_by_text("Trained: pick").wait_for()
        assert RunFolder(folder / "runs" / "first").model("pick").is_dir()
        page.get_by_role("button", name="Try", exact=True).click()
        page.get_by_text("pose 1 of").wait_for()
        page.keyboard.press("ArrowRight")
        page.get_by_text("pose 2 of").wait_for()
    assert len(load_demos(folder / "demos")) == 1


@pytest.mark.slow(seconds=15)
def test_a_wrong_token_is_refused_and_the_right_one_opens_the_page(tmp_path: Path):
    need_browser()
    token = "a-token-of-twenty-letters"
    save_demos(thin_sample(1), tmp_path / "set")
    run = small_run(tmp_path / "run")
    with studio(tmp_path / "set", "--run", run, HANDFUL_TOKEN=token) as running:
        assert httpx.get(running.url).status_code == 401
        assert httpx.get(f"{running.url}/?token=wrong").status_code == 401
        assert httpx.get(f"{running.url}/assets/../../../_viser.py").status_code in (401, 404)
        assert httpx.get(running.url, headers={"Host": "evil.example"}).status_code == 421
        with browser() as chromium:
            page = chromium.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
            page.set_default_timeout(90_000)
            page.goto(f"{running.url}/?token=not-the-right-token")
            page.get_by_text("That token is wrong").wait_for()
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Open").click()
            page.get_by_text("Contact point").wait_for()
            assert token not in page.url
            page.get_by_role("button", name="Look", exact=True).click()
            page.get_by_text(re.compile("query points?, weight")).wait_for()
