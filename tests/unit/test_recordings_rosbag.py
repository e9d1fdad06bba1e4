"""Bags of ROS: what `rosbags` wrote is imported, equal to the source; steps are found."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

pytest.importorskip("rosbags")

from handful.demos import Action
from handful.errors import HandfulError
from handful.recordings import (
    CloudOptions,
    RosCamera,
    RosTopics,
    Sight,
    StepPlan,
    held_cloud,
    import_rosbag,
    rosbag_events,
    scene_cloud,
)
from moving_recording import GRIPPER, LAYOUT, assert_equal_clouds, sight_at
from ros_bags import BagText, write_bag

RAW = RosCamera(depth="/camera/depth/image", color="/camera/color/image")
EVERY = CloudOptions(voxel=0.0)
STEPS = StepPlan(("take peg", "insert peg"))
TAKE_SEEN, INSERT_SEEN, HELD_SEEN = 2.0, 9.0, (6.0, 7.0, 9.0)
"""Images that show the scene of each step, the hand out of the way, and what is held."""


def topics(camera: RosCamera = RAW, **changes) -> RosTopics:
    given = {"base": "base", "gripper": "flange", "signal": "/joint_states", "joint": "finger"}
    return RosTopics((camera,), **{**given, **changes})


@pytest.fixture(scope="module", params=["mcap", "db3", "bag"])
def bag(request, tmp_path_factory):
    return write_bag(tmp_path_factory.mktemp("bags"), request.param)


@pytest.fixture(scope="module")
def one_bag(tmp_path_factory):
    return write_bag(tmp_path_factory.mktemp("bags"), "mcap")


def seen_at(time: float, flying: bool = False) -> Sight:
    """Straight from the source; depth in single precision, as bags have it."""
    return sight_at(time, lambda metres: metres.astype(np.float32), flying)


def test_a_bag_is_equal_to_its_source(bag):
    demos = import_rosbag([bag], topics(), GRIPPER, STEPS, EVERY)
    take, insert = demos[0].steps
    assert [(step.name, step.action) for step in demos.task] == [
        ("take peg", Action.PICK),
        ("insert peg", Action.PLACE),
    ]
    np.testing.assert_allclose(take.targets[0], LAYOUT.T_robot_grasp, atol=1e-6)
    np.testing.assert_allclose(insert.targets[0], LAYOUT.T_robot_release, atol=1e-6)
    assert_equal_clouds(take.scene, scene_cloud([seen_at(TAKE_SEEN)], GRIPPER, EVERY))
    held = held_cloud([seen_at(time) for time in HELD_SEEN], GRIPPER, EVERY)
    assert_equal_clouds(insert.grasp, held)
    scene = scene_cloud([seen_at(INSERT_SEEN)], GRIPPER, EVERY, held)
    assert_equal_clouds(insert.scene, scene)


def test_clouds_are_equal_to_their_source(bag):
    demos = import_rosbag([bag], topics(RosCamera(cloud="/camera/points")), GRIPPER, STEPS, EVERY)
    source = scene_cloud([seen_at(TAKE_SEEN, flying=True)], GRIPPER, EVERY)
    assert_equal_clouds(demos[0].step("take peg").scene, source)


def test_compressed_and_millimetre_images_are_the_same_scene(one_bag):
    whole = import_rosbag([one_bag], topics(), GRIPPER, STEPS)[0].step("take peg").scene
    for camera in (
        RosCamera(
            depth="/camera/depth/image/compressedDepth", color="/camera/color/image/compressed"
        ),
        RosCamera(depth="/camera/depth/millimetres", color="/camera/color/image"),
    ):
        other = import_rosbag([one_bag], topics(camera), GRIPPER, STEPS)[0].step("take peg").scene
        away = cKDTree(whole.points).query(other.points)[0]
        assert np.quantile(away, 0.99) < 0.002
        assert len(other) == pytest.approx(len(whole), rel=0.02)


def test_depth_without_colour_is_a_cloud_without_colour(one_bag):
    camera = RosCamera(depth="/camera/depth/image")
    scene = import_rosbag([one_bag], topics(camera), GRIPPER, STEPS)[0].step("take peg").scene
    assert not scene.has_colors


def test_steps_are_found_where_the_gripper_closes_and_opens(bag):
    found = rosbag_events(bag, topics())
    assert [event.action for event, _ in found] == [Action.PICK, Action.PLACE]
    assert [event.time for event, _ in found] == pytest.approx([3.4, 10.6], abs=1e-3)
    np.testing.assert_allclose(found[0][1], LAYOUT.T_robot_grasp, atol=1e-6)


def test_a_signal_that_grows_as_fingers_close_is_the_same(one_bag):
    other = topics(signal="/gripper/closing", joint="", high_is_closed=True)
    found = [event for event, _ in rosbag_events(one_bag, other)]
    assert [event.action for event in found] == [Action.PICK, Action.PLACE]
    assert [event.time for event in found] == pytest.approx([3.4, 10.6], abs=1e-3)
    wrong = topics(signal="/gripper/closing", joint="")
    assert [event.action for event, _ in rosbag_events(one_bag, wrong)] == [
        Action.PLACE,
        Action.PICK,
    ]


def test_steps_have_names_of_their_own_until_they_are_named(one_bag):
    assert import_rosbag([one_bag], topics(), GRIPPER).task.names == ("pick 1", "place 2")
    kept = import_rosbag([one_bag], topics(), GRIPPER, StepPlan(("only",), drop=(2,)))
    assert kept.task.names == ("only",)
    assert kept[0].steps[0].action is Action.PICK


def test_without_grasp_clouds_if_nobody_wants_them(one_bag):
    plan = StepPlan(STEPS.names, held=False)
    step = import_rosbag([one_bag], topics(), GRIPPER, plan)[0].step("insert peg")
    assert step.grasp is None
    assert step.scene.points[:, 2].max() < 0.15  # hand and peg are gone all the same


MISTAKES = [
    ({"camera": RosCamera(depth="/camera/deph/image")}, {}, "Did you mean '/camera/depth/image'"),
    ({"camera": RosCamera(cloud="/tf")}, {}, "has the type .*TFMessage: need /PointCloud2"),
    ({"signal": "/tf"}, {}, "signal: topic '/tf' has the type"),
    ({"joint": "fingr"}, {}, "has no joint 'fingr': name one of finger, shoulder"),
    ({"joint": "shoulder"}, {}, "is 0.3 all the time: it never closes or opens"),
    ({"base": "bas"}, {}, "TF: unknown frame 'bas'. Did you mean 'base'"),
    ({"gripper": "tool0"}, {}, "TF: unknown frame 'tool0'"),
    ({}, {"names": ("a", "b", "c")}, r"3 names \(a, b, c\) for 2 steps: the gripper closes \(1\)"),
    ({}, {"drop": (7,)}, "there is no event 7 to drop"),
    ({}, {"drop": (1, 2)}, "no step is left"),
]


@pytest.mark.parametrize(("changes", "plan", "told"), MISTAKES)
def test_a_mistake_is_one_sentence(one_bag, changes, plan, told):
    changes = dict(changes)
    camera = changes.pop("camera", RAW)
    with pytest.raises(HandfulError, match=told) as caught:
        import_rosbag([one_bag], topics(camera, **changes), GRIPPER, StepPlan(**plan))
    assert str(one_bag) in str(caught.value)


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("/tf_static", "unknown frame 'camera_optical'"),
        ("/camera/depth/camera_info", "record '/camera/depth/camera_info'"),
    ],
)
def test_a_topic_that_is_missing_is_told(tmp_path, missing, told):
    path = write_bag(tmp_path, "db3", leave_out=(missing,))
    with pytest.raises(HandfulError, match=told):
        import_rosbag([path], topics(), GRIPPER, STEPS)


def test_a_bag_that_is_damaged_or_none_is_told(tmp_path, one_bag):
    (file,) = one_bag.glob("*.mcap")
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(file.read_bytes()[:2000])
    (tmp_path / "text.bag").write_text("not a bag")
    for path in (cut, tmp_path / "text.bag", tmp_path / "nothing.mcap", tmp_path):
        with pytest.raises(HandfulError, match=r"not a readable bag|no such file"):
            import_rosbag([path], topics(), GRIPPER, STEPS)


def test_a_cloud_with_rows_padding_and_nan_is_read():
    from handful.recordings.rosbag._messages import cloud_of

    text = BagText(first=False)
    table = np.zeros((2, 3), dtype=[("x", ">f4"), ("pad", "V4"), ("y", ">f4"), ("z", ">f4")])
    table["x"], table["y"] = [[0, 1, 2]] * 2, [[0], [1]]
    table["z"][0, 1] = np.nan
    rows = np.zeros((2, 60), np.uint8)
    rows[:, :48] = table.view(np.uint8).reshape(2, 48)
    message = text.make(
        "sensor_msgs/msg/PointCloud2",
        header=text.header(0.0, "x"), height=2, width=3, is_bigendian=True, point_step=16,
        row_step=60, data=rows.reshape(-1), is_dense=False,
        fields=[
            text.make("sensor_msgs/msg/PointField", name=name, offset=at, datatype=7, count=1)
            for name, at in (("x", 0), ("y", 8), ("z", 12))
        ],
    )  # fmt: skip
    cloud = cloud_of(message, "here")
    np.testing.assert_array_equal(
        cloud.points, [[0, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0]]
    )
    assert cloud.dropped == 1
    message.data = message.data[:100]
    with pytest.raises(HandfulError, match="100 bytes for 2 rows"):
        cloud_of(message, "here")
