"""Run folders from anyone: whatever they hold is data, and every problem is one sentence."""

import fcntl
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench_samples import CONDITIONS, STEPS, episode
from handful._files import append_line, file_digest, make_folder, read_bytes, remove_file
from handful._locks import alone
from handful._names import printable, safe_name
from handful._strict_json import MAX_JSON_VALUES, Fields, parse_json, read_json_lines
from handful.bench import EpisodeStore, write_report
from handful.bench.report._charts import Line, line_chart
from handful.bench.report._document import (
    Cell,
    Code,
    Heading,
    Paragraph,
    Picture,
    Table,
    write_markdown,
    write_page,
)
from handful.bench.report._pictures import picture_from_file
from handful.errors import BusyError, FileFormatError, HandfulError
from handful.learning import LogEntry, RunFolder

HOSTILE = [
    "../../escaped", "/tmp/handful-escaped", "..", ".hidden", "", "a/b", "a\0b", "x" * 400,
    "漢" * 64, "\ud800", "<script>alert(1)</script>", "](javascript:alert(1))", "\x1b[31m",
]  # fmt: skip


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", HOSTILE, ids=ascii)
def test_a_safe_name_is_one_file_in_its_folder(tmp_path, word):
    path = tmp_path / f"{safe_name(word)}-energies.svg"
    path.write_text("here")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert not path.name.startswith(".")


def test_different_words_have_different_safe_names():
    assert len({safe_name(word) for word in HOSTILE}) == len(HOSTILE)
    assert safe_name("mug-2.b") == "mug-2.b"


def test_printable_text_has_no_control_codes_and_can_be_written():
    assert printable("a\x1b[31m\udc80b\n") == "a\\x1b[31m\\udc80b\n"
    printable("\ud800").encode()


# --- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [word for word in HOSTILE if word != "\ud800"], ids=ascii)
def test_whatever_stands_in_a_document_is_text(tmp_path, odd):
    evil = f"{odd} <img src=x> [l](javascript:x) | `c` ``` # h"
    blocks = [
        Heading(evil, 1), Paragraph(evil), Code(f"{evil}\n```\n{evil}"),
        Table((evil, "b"), ((Cell(evil, evil), Cell("2")),)),
        Picture(odd, ".svg", b"<svg/>", evil),
    ]  # fmt: skip
    write_page(blocks, tmp_path / "page.html")
    write_markdown(blocks, tmp_path / "page.md")
    page, text = (tmp_path / "page.html").read_text(), (tmp_path / "page.md").read_text()
    assert "<img" not in page.replace('<img alt="', "")
    assert "<script" not in page
    outside = _without_code(text)
    assert "<img" not in outside
    assert not re.search(r"(?<!\\)\]\(javascript", outside)
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 3 for line in rows[:3])
    inside = {one.relative_to(tmp_path).parts[0] for one in tmp_path.rglob("*")}
    assert inside == {"page.html", "page.md", "page_files"}


def _without_code(markdown: str) -> str:
    """Markdown without what stands between fences, as a reader of it would find them."""
    out, fence = [], ""
    for line in markdown.splitlines():
        ticks = len(line) - len(line.lstrip("`"))
        if not fence and ticks >= 3:
            fence = "`" * ticks
        elif fence and line.startswith(fence) and not line.strip("`"):
            fence = ""
        elif not fence:
            out.append(line)
    assert not fence, "a fence is open"
    return "\n".join(out)


def test_the_fence_checker_sees_text_that_breaks_out():
    assert "free" in _without_code("```sh\na\n```\nfree")
    assert "free" not in _without_code("````sh\n```\nfree\n````")


@pytest.mark.parametrize("values", [[1e308, -1e308], [np.inf, 1.0], [1e300, 2.0, 3.0], [np.nan]])
def test_wild_values_are_not_drawn(values):
    x = np.arange(float(len(values)))
    svg = line_chart([Line("a", x, np.array(values))], "t", "x")
    assert "nan" not in svg
    assert "inf" not in svg


def test_one_point_far_to_the_right_can_be_drawn():
    line_chart([Line("a", np.array([1e7]), np.array([0.5]))], "t", "x")


# --- run folders ---------------------------------------------------------------------------------


def made_run(folder: Path, task: str = "mug") -> Path:
    store = EpisodeStore(folder / "bench", replace(CONDITIONS, task=task))
    for seed in range(10_000, 10_003):
        store.add(episode(seed, done=1 if seed == 10_001 else 2, task=task))
    RunFolder(folder).note(
        steps=[{"name": name, "action": name} for name in STEPS],
        demonstrations={"folder": str(folder), "count": 10},
        models={name: {"seconds": 60.0, "seed": 1} for name in STEPS},
    )
    line = LogEntry(0, 5, 1.0, 2.0, 3.0, 4.0)
    RunFolder(folder).log("pick").write_text(f"{line.to_json()}\n" * 5)
    return folder


def change(folder: Path, *path, to):
    file = folder / "run.json"
    content = json.loads(file.read_text())
    node = content
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = to
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("task", [HOSTILE[0], HOSTILE[1], HOSTILE[8], HOSTILE[10]], ids=ascii)
def test_a_report_writes_only_where_it_was_told_to(tmp_path, task):
    run = made_run(tmp_path / "a" / "b" / "run", task[:300])
    before = {path for path in tmp_path.rglob("*") if run not in path.parents}
    write_report(run, run / "report.html", pictures=False)
    assert {path for path in tmp_path.rglob("*") if run not in path.parents} == before
    assert "<script>" not in (run / "report.html").read_text()
    assert "<script>" not in _without_code((run / "report.md").read_text())


BAD_SUMMARIES = {
    "text": (("demonstrations",), "ten", "demonstrations: is a string"),
    "list": (("demonstrations",), [1], "demonstrations: is a list"),
    "huge count": (("demonstrations", "count"), 10**400, "field 'count'"),
    "NaN": (("models", "pick", "seconds"), float("nan"), "NaN is not a number"),
    "infinite": (("models", "pick", "seconds"), 1e999, "Infinity is not a number"),
    "ages": (("models", "pick", "seconds"), 1e308, "need 0 to 1e[+]09"),
    "negative": (("models", "pick", "seed"), -1, "field 'seed' is -1"),
    "models": (("models",), "pick", "models: is a string"),
    "command": (("command",), {"a": 1}, "'command' is an object: need a string"),
    "long": (("command",), "x" * 10**6, "1,000,000 characters"),
    "unknown": (("demonstratoins",), {}, "Did you mean 'demonstrations'"),
    "outside": (("steps", 0, "name"), "../../x", "steps: step name '../../x'"),
    "option": (("options",), {"a": [[]]}, "options: field 'a': need a plain value"),
    "format": (("format",), "else", "need format 'handful-run'"),
}


@pytest.mark.parametrize("case", BAD_SUMMARIES)
def test_a_bad_run_json_is_named_with_its_field(tmp_path, case):
    path, value, message = BAD_SUMMARIES[case]
    run = made_run(tmp_path)
    change(run, *path, to=value)
    with pytest.raises(FileFormatError, match=message):
        write_report(run, run / "report.html", pictures=False)


def test_nothing_can_be_noted_that_cannot_be_read(tmp_path):
    run = RunFolder(tmp_path)
    with pytest.raises(FileFormatError, match="seconds"):
        run.note(models={"pick": {"seconds": -1.0}})
    assert not (tmp_path / "run.json").exists()
    run.note_training("demos \udc80", 3, "handful \x1b[31m" + "x" * 20_000, {"seed": 0})
    assert run.summary().demonstrations.count == 3
    assert "\x1b" not in run.summary().command


@pytest.mark.parametrize("name", ["../x", "a/b", "", "bench"])
def test_files_of_a_run_have_names_of_steps(tmp_path, name):
    for path in (RunFolder(tmp_path).model, RunFolder(tmp_path).log, RunFolder(tmp_path).lock):
        with pytest.raises(HandfulError, match="step name"):
            path(name)


def test_a_log_of_before_with_nan_is_read_and_written_without(tmp_path):
    run = made_run(tmp_path)
    run = RunFolder(run)
    run.log("pick").write_text('{"step": 0, "loss": NaN, "likelihood": Infinity}\n')
    (entry,) = run.curve("pick")
    assert (entry.loss, entry.likelihood) == (None, None)
    assert LogEntry(0, 1, loss=float("nan")).to_json().count("null") == 5
    run.log("pick").write_text('{"step": 0, "loss": ' + "1" * 400 + "}\n")
    with pytest.raises(FileFormatError, match="line 1: field 'loss' is too large"):
        run.curve("pick")


@pytest.mark.parametrize("name", ["demos-²", "demos-99999999999", "demos-x", "demos-"])
def test_odd_folders_of_a_curve_are_passed_over(tmp_path, name):
    run = made_run(tmp_path)
    EpisodeStore(run / "curve" / name / "bench", CONDITIONS).add(episode(10_000))
    write_report(run, run / "report.html", pictures=False)


def test_a_broken_picture_is_a_sentence_in_the_report(tmp_path):
    run = made_run(tmp_path)
    (run / "demos.png").write_bytes(b"\x89PNG not really")
    page = write_report(run, run / "report.html", pictures=False).read_text()
    assert "demos.png cannot be shown" in page
    Image.new("1", (8_000, 8_000)).save(run / "demos.png")
    shown = picture_from_file(run / "demos.png", "x", "y")
    assert isinstance(shown, Paragraph)
    assert "50,000,000 pixels" in shown.text


def test_a_report_that_cannot_be_written_says_so(tmp_path):
    run = made_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="a file stands in its way"):
        write_report(run, tmp_path / "file" / "sub" / "report.html", pictures=False)


# --- strict JSON ---------------------------------------------------------------------------------


def test_values_are_counted_before_they_are_made():
    with pytest.raises(FileFormatError, match="more than 2,000,000 values"):
        parse_json("[" + "[]," * MAX_JSON_VALUES + "[]]", "here")


def test_lines_are_read_one_after_the_other(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('1\n2\nnonsense\n{"cut": ')
    lines = read_json_lines(path)
    assert [next(lines)[1], next(lines)[1]] == [1, 2]
    with pytest.raises(FileFormatError, match="line 3"):
        next(lines)


def test_half_a_character_is_not_text():
    with pytest.raises(FileFormatError, match="half of a character"):
        parse_json('{"name": "\\ud800"}', "here")
    assert parse_json('"\\ud83d\\ude00"', "here") == "\U0001f600"


def test_fields_have_ranges():
    fields = Fields({"a": 5, "b": 2**70, "c": "xxx", "d": [1, 2, 3]}, "here", FileFormatError)
    assert fields.integer("a", low=5, high=5) == 5
    for ask in (
        lambda: fields.integer("a", high=4),
        lambda: fields.number("a", low=6.0),
        lambda: fields.integer("b"),
        lambda: fields.text("c", longest=2),
        lambda: fields.items("d", most=2),
    ):
        with pytest.raises(FileFormatError, match=r"here: field '.'"):
            ask()


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "missing", "NUL"])
def test_what_has_no_end_is_not_read(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "NUL":
        path = Path("a\0b")
    with pytest.raises(FileFormatError, match=r"regular file|directory|No such|not a usable path"):
        read_bytes(path, 100)


def test_files_are_read_up_to_a_size(tmp_path):
    (tmp_path / "x").write_bytes(bytes(100))
    assert len(read_bytes(tmp_path / "x", 100)) == 100
    with pytest.raises(FileFormatError, match="larger than"):
        read_bytes(tmp_path / "x", 99)
    assert len(file_digest(tmp_path / "x")) == 32


def test_a_line_that_was_cut_off_is_dropped_when_the_next_is_added(tmp_path):
    path = tmp_path / "log"
    append_line(path, "one")
    with path.open("ab") as file:
        file.write(b"half" * 3000)
    append_line(path, "two")
    assert path.read_text() == "one\ntwo\n"
    path.write_bytes(b"no end")
    append_line(path, "three")
    assert path.read_text() == "three\n"


def test_a_folder_in_the_way_of_a_file_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="stands in its way"):
        make_folder(tmp_path / "file" / "below")


def test_what_is_removed_is_gone_or_told(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    remove_file(path / "below")  # `handful evaluate --out` under a file ended in a traceback
    remove_file(path)
    remove_file(path)
    assert not path.exists()
    with pytest.raises(FileFormatError, match=r"cannot be removed: (Is a directory|Operation not)"):
        remove_file(tmp_path)
    with pytest.raises(FileFormatError, match="cannot be removed: embedded null byte"):
        remove_file("a\0b")


# --- two processes -------------------------------------------------------------------------------

HOLD = """
import sys, time
from handful._locks import alone
with alone(sys.argv[1], "it"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_process_is_told_who_works_there_and_the_lock_goes_with_its_holder(tmp_path):
    path = tmp_path / ".lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(BusyError, match=rf"another process \({holder.pid}\)"),
            alone(path, "it"),
        ):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with alone(path, "it"):
        pass


def test_benchmarks_and_reports_are_written_by_one_process_at_a_time(tmp_path):
    run = made_run(tmp_path)
    descriptor = os.open(run / ".report.html.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(BusyError, match=r"report\.html is being worked on"):
            write_report(run, run / "report.html", pictures=False)
    finally:
        os.close(descriptor)
    write_report(run, run / "report.html", pictures=False)
