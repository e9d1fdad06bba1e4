"""The benchmark without physics: records, stores, statistics, seeds, threads."""

import json
import os
from dataclasses import replace

import pytest
import torch
from scipy.stats import binomtest

from bench_samples import (
    CONDITIONS,
    CONDITIONS_V1,
    EPISODES_V1,
    STEPS,
    TIDY,
    episode,
    episode_v1,
    episode_without_layout,
    step,
    step_v1,
    write_store_v1,
)
from handful._names import safe_name
from handful._strict_json import parse_json, read_json_lines
from handful.bench import (
    BenchError,
    EpisodeJob,
    EpisodeStore,
    Failure,
    Rate,
    WorkerConfig,
    by_steps,
    check_sizes,
    episode_seeds,
    kind_of_seeds,
    read_episodes,
    summarise,
    table_as_json,
    table_of,
)
from handful.bench.report._paper import RATES
from handful.bench.run import _executors, one_thread, record_from_json
from handful.errors import FileFormatError, OptionError
from handful.policy import LookedAhead, StepFailure

# --- records -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        episode(),
        episode(done=0),
        episode(done=1, kind=StepFailure.AWAY),
        episode(task="tidy", steps=TIDY, things=("mug 3", "bowl 1")),
        episode(task="tidy", steps=TIDY, done=2),
        episode(task="reach", steps=("pick",)),
        episode_without_layout(),
    ],
)
def test_a_record_survives_being_written(record):
    assert record_from_json(parse_json(record.to_json(), "here"), "here") == record
    assert "\n" not in record.to_json()


def test_a_record_names_the_step_that_failed_and_how():
    record = episode(task="tidy", steps=TIDY, done=1, kind=StepFailure.AWAY)
    assert record.outcome == "hang mug: went to something else"
    assert record.step("pick mug").ok
    assert not record.step("hang mug").ok
    assert record.step("pick bowl") is None
    assert episode().outcome == ""
    assert episode_without_layout().outcome == "no layout"


def test_numbers_that_json_lacks_become_null():
    odd = replace(step(), energy=float("nan"), confidence=float("inf"))
    record = replace(episode(), steps=(odd, step("place")))
    back = record_from_json(parse_json(record.to_json(), "here"), "here")
    assert (back.steps[0].energy, back.steps[0].confidence) == (None, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "one"}, "'seed' is a string"),
        ({"success": 1}, "'success'"),
        ({"failure": "bad luck"}, "failure: is a string"),
        ({"failure": {"step": "pick", "kind": "bad luck"}}, "kind of failure 'bad luck'"),
        ({"failure": {"step": "wave", "kind": "object not held"}}, "names the step 'wave'"),
        ({"surplus": 1}, "unknown field 'surplus'"),
        ({"steps": [{"ok": True}]}, r"steps\[0\]"),
        ({"steps": {}}, "'steps' is an object"),
        ({"planned": ["place", "pick"]}, r"need the first ones of \['place', 'pick'\]"),
        ({"planned": ["pick", "place", "wave"]}, "'success' is true"),
        ({"success": False}, "'failure' is null"),
        ({"things": [3]}, r"things\[0\]"),
    ],
)
def test_a_wrong_record_is_refused_with_its_address(change, message):
    value = {**json.loads(episode().to_json()), **change}
    with pytest.raises(FileFormatError, match=f"line 7.*{message}"):
        record_from_json(value, "line 7")


def test_records_of_version_1_are_read():
    records = [record_from_json(value, "here", version=1) for value in EPISODES_V1]
    assert {record.planned for record in records} == {STEPS}
    assert [record.failure for record in records] == [
        None,
        Failure("pick", StepFailure.AWAY),
        Failure("place", StepFailure.LOST),
        Failure("pick", StepFailure.INFEASIBLE),
        None,
    ]
    assert [record.begun for record in records] == [True, True, True, True, False]
    assert [len(record.steps) for record in records] == [2, 1, 2, 1, 0]
    assert [step.failure for step in records[2].steps] == [None, StepFailure.LOST]
    first = records[0]
    assert (first.success, first.things, first.lying) == (True, ("mug 3",), True)
    assert first.steps[1].T_scene_gripper == step_v1()["pose"]
    assert (first.steps[0].skips, first.steps[0].seconds) == (2, 0.75)
    assert records[4].things == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"failure": "pick: bad luck"}, "'failure' is 'pick: bad luck'"),
        ({"pick": 3}, "pick: need an object"),
        ({"place": {"ok": True}}, r"steps\[1\].*'skipped' is missing"),
        ({"surplus": 1}, "unknown field 'surplus'"),
    ],
)
def test_a_wrong_record_of_version_1_is_refused_with_its_address(change, message):
    with pytest.raises(FileFormatError, match=f"line 7.*{message}"):
        record_from_json(episode_v1(1, **change), "line 7", version=1)


def test_a_record_is_not_read_as_one_of_another_version():
    with pytest.raises(FileFormatError, match="here"):
        record_from_json(episode_v1(1), "here")
    with pytest.raises(FileFormatError, match="here"):
        record_from_json(json.loads(episode().to_json()), "here", version=1)


# --- the store ---------------------------------------------------------------------------------


def test_a_store_keeps_episodes_and_finds_them_again(tmp_path):
    store = EpisodeStore(tmp_path / "bench", CONDITIONS)
    assert store.records == {}
    for seed in (5, 3):
        store.add(episode(seed))
    again = EpisodeStore(tmp_path / "bench", CONDITIONS)
    assert set(again.records) == {3, 5}
    conditions, records = read_episodes(store.path)
    assert conditions == CONDITIONS
    assert [record.seed for record in records] == [3, 5]


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    store = EpisodeStore(tmp_path, CONDITIONS)
    store.add(episode(1))
    store.add(episode(2))
    whole = store.path.read_bytes()
    store.path.write_bytes(whole[:-20])
    again = EpisodeStore(tmp_path, CONDITIONS)
    assert set(again.records) == {1}
    again.add(episode(2))
    assert store.path.read_bytes() == whole


def test_a_store_of_version_1_is_read_and_goes_on_as_version_2(tmp_path):
    as_then = replace(CONDITIONS, look_ahead=False, least_confidence=0.0)
    path = write_store_v1(tmp_path, as_then.file_name)
    before = path.read_bytes()
    conditions, records = read_episodes(path)
    assert (conditions.look_ahead, conditions.least_confidence) == (False, 0.0)
    assert path.read_bytes() == before, "reading changes nothing"
    assert (conditions.models, conditions.gripper) == ("abc", "")
    assert [record.seed for record in records] == [10_000, 10_001, 10_002, 10_003, 10_004]
    store = EpisodeStore(tmp_path, as_then)
    assert list(store.records.values()) == records
    store.add(episode(10_005))
    assert json.loads(path.read_text().splitlines()[0])["version"] == 2
    _, more = read_episodes(path)
    assert more == [*records, episode(10_005)]


def test_episodes_of_other_models_or_hands_do_not_mix(tmp_path):
    store = EpisodeStore(tmp_path, CONDITIONS)
    with pytest.raises(BenchError, match=r"models 'abc'.*'xyz'.*--fresh"):
        EpisodeStore(tmp_path, replace(CONDITIONS, models="xyz"))
    EpisodeStore(tmp_path, replace(CONDITIONS, handful="9.9"))
    other = replace(CONDITIONS, gripper="simulated-long")
    assert EpisodeStore(tmp_path, other).path != store.path
    store.path.write_bytes((tmp_path / other.file_name).read_bytes())
    with pytest.raises(BenchError, match="gripper 'simulated-long', this run has ''"):
        EpisodeStore(tmp_path, CONDITIONS)


def test_episodes_of_other_caution_have_files_of_their_own_and_do_not_mix(tmp_path):
    store = EpisodeStore(tmp_path, CONDITIONS)
    assert store.path.name == "mug-all.jsonl"
    names = {
        "mug-all-no-look-ahead.jsonl": {"look_ahead": False},
        "mug-all-least-confidence-0.jsonl": {"least_confidence": 0.0},
    }
    for name, changes in names.items():
        other = replace(CONDITIONS, **changes)
        assert EpisodeStore(tmp_path, other).path.name == name
        assert read_episodes(tmp_path / name)[0] == other
        store.path.write_bytes((tmp_path / name).read_bytes())
        with pytest.raises(BenchError, match="results would mix"):
            EpisodeStore(tmp_path, CONDITIONS)
    oracle = replace(CONDITIONS, policy="oracle", look_ahead=False, least_confidence=0.0)
    assert oracle.file_name == "mug-all-oracle.jsonl"


def test_what_was_refused_and_looked_ahead_survives_the_disk(tmp_path):
    ahead = LookedAhead(tried=3, passed=1, unknown=1, seconds=0.5, changed=True)
    taken = replace(step("pick"), looks=2, looked_ahead=ahead)
    unsure = step("place", ok=False, kind=StepFailure.UNSURE)
    record = replace(
        episode(), success=False, failure=Failure("place", StepFailure.UNSURE),
        steps=(taken, unsure),
    )  # fmt: skip
    assert record.outcome == "place: not sure enough"
    assert record_from_json(json.loads(record.to_json()), "here") == record
    summary = summarise([record, episode(1)])
    assert summary.failures == (("place: not sure enough", 1),)
    assert [one.redirected for one in summary.steps] == [1, 0]


def test_episodes_from_before_looking_ahead_are_read():
    """Lines of version 2 without the fields `looks` and `looked_ahead`."""
    values = json.loads(episode().to_json())
    for one in values["steps"]:
        del one["looks"], one["looked_ahead"]
    record = record_from_json(values, "here")
    assert record == episode()
    values["steps"][0]["looked_ahead"] = {"tried": 1}
    with pytest.raises(FileFormatError, match=r"looked_ahead: field 'passed' is missing"):
        record_from_json(values, "here")


def test_other_files_are_refused(tmp_path):
    path = tmp_path / CONDITIONS.file_name
    later = json.dumps({**CONDITIONS_V1, "version": 3, "gripper": ""})
    v1_with_gripper = json.dumps({**CONDITIONS_V1, "gripper": ""})
    for content in (
        "", "{}\n", '{"format": "other", "version": 1}\n', "not json\n", later + "\n",
        v1_with_gripper + "\n",
    ):  # fmt: skip
        path.write_text(content)
        with pytest.raises(FileFormatError, match=str(path)):
            EpisodeStore(tmp_path, CONDITIONS)


def test_an_episode_of_another_setup_in_the_file_is_refused(tmp_path):
    store = EpisodeStore(tmp_path, CONDITIONS)
    with open(store.path, "a") as file:
        file.write(episode(setup="poses").to_json() + "\n")
    with pytest.raises(FileFormatError, match="line 2: is of mug, poses"):
        read_episodes(store.path)


def test_files_are_named_after_what_is_special():
    assert CONDITIONS.file_name == "mug-all.jsonl"
    special = replace(CONDITIONS, policy="random", objects="meshes 123abc")
    assert special.file_name == "mug-all-random-meshes.jsonl"
    other_hand = replace(CONDITIONS, gripper="simulated-long")
    assert other_hand.file_name == "mug-all-simulated-long.jsonl"
    other_rig = replace(CONDITIONS, rig="1 camera, 2 grasp views, noise usual, arm in view")
    assert other_rig.file_name == ("mug-all-1_camera-2_grasp_views-noise_usual-arm_in_view.jsonl")
    assert CONDITIONS.is_plain
    assert not any(one.is_plain for one in (special, other_hand, other_rig))


def test_files_from_before_there_were_rigs_are_of_the_default_rig(tmp_path):
    store = EpisodeStore(tmp_path, CONDITIONS)
    store.add(episode(7))
    first, rest = store.path.read_text().split("\n", 1)
    older = json.loads(first)
    assert older.pop("rig") == ""
    store.path.write_text(json.dumps(older) + "\n" + rest)
    again = EpisodeStore(tmp_path, CONDITIONS)
    assert list(again.records) == [7]
    assert read_episodes(store.path)[0].is_plain


ODD = ["my cups", "../up", "a/b", "tab\tand\nline", "..", ".hidden", "", "cup?*<>|:", "x" * 300]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_safe_in_file_names(tmp_path, name):
    conditions = replace(CONDITIONS, objects=f"{name} 0123", gripper=name)
    assert conditions.objects_name == name
    assert set(conditions.file_name) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
    )
    store = EpisodeStore(tmp_path / "bench", conditions)
    store.add(episode(1))
    assert store.path.parent == tmp_path / "bench"
    assert read_episodes(store.path)[0] == conditions


def test_safe_names_stay_different():
    names = [*ODD, "my_cups", "a_b", "x" * 301, "mug", "pick mug", "pick_mug"]
    assert len({safe_name(name) for name in names}) == len(names)
    assert safe_name("gso_ace-2.1") == "gso_ace-2.1"


def test_json_lines_name_the_line_that_is_wrong(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n{"a": NaN}\n')
    with pytest.raises(FileFormatError, match="line 2"):
        list(read_json_lines(path))


# --- statistics --------------------------------------------------------------------------------


@pytest.mark.parametrize(("good", "of"), [(0, 10), (10, 10), (95, 100), (1, 3), (49, 50)])
def test_intervals_are_wilsons(good, of):
    reference = binomtest(good, of).proportion_ci(method="wilson")
    assert Rate(good, of).interval == pytest.approx((reference.low, reference.high), abs=1e-12)


def test_no_trials_mean_no_rate():
    assert Rate(0, 0).value is None
    assert Rate(0, 0).interval == (0.0, 1.0)
    assert str(Rate(0, 0)) == "-"
    with pytest.raises(OptionError, match="2 in 1"):
        Rate(2, 1)


def test_steps_are_counted_among_the_episodes_that_came_to_them():
    row = summarise([episode(0), episode(1), episode(2, done=0), episode(3, done=1)])
    assert [one.rate for one in row.steps] == [Rate(3, 4), Rate(2, 3)]
    assert row.total == Rate(2, 4)
    assert dict(row.failures) == {"pick: object not held": 1, "place: object not held": 1}
    assert row.seeds == (0, 3)


def test_a_task_of_four_steps_has_four_rates():
    records = [episode(n, done=n, task="tidy", steps=TIDY) for n in range(5)]
    row = summarise(records)
    assert row.step_names == TIDY
    assert [one.rate for one in row.steps] == [Rate(4, 5), Rate(3, 4), Rate(2, 3), Rate(1, 2)]
    assert row.total == Rate(1, 5)
    assert row.paper is None
    with pytest.raises(OptionError, match=r"unknown step 'hang mog'\. Did you mean 'hang mug'"):
        row.step("hang mog")


def test_a_place_that_the_end_undid_fails_and_later_steps_keep_their_rates():
    """The mug fell off while the bowl was placed: the judge names the step that hung it."""
    good = episode(0, task="tidy", steps=TIDY)
    fallen = replace(
        good,
        seed=1,
        success=False,
        failure=Failure("hang mug", StepFailure.LOST),
        steps=tuple(step(name, ok=name != "hang mug") for name in TIDY),
    )
    row = summarise([good, record_from_json(json.loads(fallen.to_json()), "here")])
    assert [one.rate.successes for one in row.steps] == [2, 1, 2, 2]
    assert row.total == Rate(1, 2)
    assert row.failures == (("hang mug: object not held", 1),)


def test_times_are_medians_and_skips_are_means_of_the_steps_that_were_reached():
    records = [
        replace(episode(n), steps=(step("pick", skips=n, seconds=float(seconds)), step("place")))
        for n, seconds in enumerate((1.0, 2.0, 9.0))
    ]
    never = [replace(one, planned=(*STEPS, "wave")) for one in records]
    row = summarise([replace(one, success=False, failure=None) for one in never])
    assert (row.step("pick").seconds, row.step("pick").skips) == (2.0, 1.0)
    assert (row.step("wave").seconds, row.step("wave").skips) == (None, None)
    assert row.step("wave").rate == Rate(0, 0)


def test_an_episode_that_could_not_begin_is_in_no_rate():
    row = summarise([episode(0), episode_without_layout()])
    assert row.total == Rate(1, 1)
    assert row.void == 1


def test_a_table_has_a_row_for_each_setup():
    rows = table_of([episode(0), episode(1, setup="poses"), episode(2)])
    assert [(row.setup, row.total.trials) for row in rows] == [("all", 2), ("poses", 1)]
    with pytest.raises(OptionError, match="2 kinds"):
        summarise([episode(0), episode(1, setup="poses")])
    with pytest.raises(OptionError, match="0 episodes"):
        summarise([])


def test_tasks_with_other_steps_have_tables_of_their_own():
    rows = table_of(
        [episode(0), episode(1, task="tidy", steps=TIDY), episode(2, task="bowl"),
         episode(3, task="reach", steps=("pick",))]
    )  # fmt: skip
    groups = by_steps(rows, lambda row: row)
    assert [[row.task for row in group] for group in groups] == [
        ["mug", "bowl"],
        ["tidy"],
        ["reach"],
    ]


def test_a_table_as_json_has_the_steps_of_each_task():
    records = [episode(0), episode(1, task="tidy", steps=TIDY, done=1)]
    text = table_as_json(table_of(records), records, {"mug": "simulated"})
    content = json.loads(text)
    mug, tidy = content["table"]
    assert [one["name"] for one in mug["steps"]] == list(STEPS)
    assert mug["steps"][1]["paper"] == RATES["mug", "all"].steps["place"]
    assert (mug["gripper"], tidy["gripper"]) == ("simulated", "")
    assert [one["trials"] for one in tidy["steps"]] == [1, 1, 0, 0]
    assert tidy["steps"][3]["rate"] is None
    assert tidy["failures"] == {"hang mug: object not held": 1}
    assert [record_from_json(one, "here") for one in content["episodes"]] == records


def test_the_papers_total_is_pick_times_place():
    """The paper prints all three; a slip of the pen in one of them would break the product."""
    for rates in RATES.values():
        product = rates.steps["pick"] * rates.steps["place"]
        assert rates.total == pytest.approx(product, abs=0.0051)


# --- seeds -------------------------------------------------------------------------------------


def test_seeds_are_of_one_kind():
    assert kind_of_seeds(episode_seeds(10_000, 100)) == "evaluation"
    assert kind_of_seeds(episode_seeds(2_000, 50)) == "development"
    assert kind_of_seeds(episode_seeds(0, 5)) not in ("evaluation", "development")
    with pytest.raises(OptionError, match="kept for evaluation"):
        episode_seeds(9_990, 20)
    with pytest.raises(OptionError, match="episodes is 0: need 1 to 100000"):
        episode_seeds(0, 0)


@pytest.mark.parametrize("sizes", [[], [3, 1], [1, 1], [0, 2]])
def test_sizes_of_a_learning_curve_increase(sizes):
    with pytest.raises(OptionError, match=r"1,3,5,10"):
        check_sizes(sizes)


# --- threads -----------------------------------------------------------------------------------


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_one_thread_is_undone_whatever_happens(three_threads):
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 3


def test_episodes_in_this_process_leave_threads_and_environment_as_they_were(
    three_threads, monkeypatch
):
    seen = []

    class Probe:
        def __init__(self, config):
            seen.append(torch.get_num_threads())

        def run(self, job):
            seen.append(torch.get_num_threads())
            return job

    monkeypatch.setattr(_executors, "Worker", Probe)
    environment = dict(os.environ)
    jobs = [EpisodeJob("all", 1), EpisodeJob("all", 2)]
    between = []
    config = WorkerConfig("mug", "oracle", "nowhere", "simulated")
    for result in _executors.run_here(config, jobs):
        between.append((result, torch.get_num_threads()))
    assert seen == [1, 1, 1]
    assert between == [(jobs[0], 3), (jobs[1], 3)]
    assert torch.get_num_threads() == 3
    assert dict(os.environ) == environment
