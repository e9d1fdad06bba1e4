"""Laws of Transporter Networks: projection, poses, equivariance in the plane, correlation, loss."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation
from torch.nn import functional

from handful.baselines.transporter import (
    ImageAugmentation,
    ImageFrame,
    PlanarFrame,
    PlanarPose,
    Points,
    ResidualNetwork,
    TransporterConfig,
    TransporterModel,
    correlation,
    pose_loss,
)
from handful.demos import gripper_named

SMALL = {"pixels": 32, "turned_pixels": 40, "kernel_pixels": 16, "pixel_size": 0.02, "width": 0.06,
         "blocks": 1, "embedding": 4, "kernels": 2, "kernel_channels": 3}  # fmt: skip
GRIPPER = gripper_named("simulated")


def some_points(seed: int, count: int = 400, low: float = -0.2, high: float = 0.2) -> Points:
    rng = np.random.default_rng(seed)
    xyz = np.concatenate([rng.uniform(low, high, (count, 2)), rng.uniform(0, 0.3, (count, 1))], 1)
    return Points.sorted(xyz, rng.uniform(0, 1, (count, 3)))


def turned(points: Points, angle: float) -> Points:
    motion = np.eye(4)
    motion[:3, :3] = Rotation.from_euler("z", angle).as_matrix()
    return points.moved(motion)


# --- projection ----------------------------------------------------------------------------------


@given(row=st.integers(0, 31), column=st.integers(0, 31), size=st.floats(0.001, 0.05))
def test_the_middle_of_a_pixel_lies_in_it(row, column, size):
    frame = ImageFrame.around((0.3, -0.1), 32, size)
    x, y = frame.middles()[row, column]
    assert frame.pixel_of(x, y) == (row, column)
    assert frame.contains(np.array([[x, y]])).all()


@given(pixels=st.sampled_from([16, 48, 96]), size=st.floats(0.001, 0.05))
def test_the_origin_of_a_kernel_is_the_middle_of_its_middle_pixel(pixels, size):
    middle = ImageFrame.about_origin(pixels, size, -0.2).middles()[pixels // 2, pixels // 2]
    assert np.abs(middle).max() < 1e-9


def slow_image(frame: ImageFrame, points: Points) -> np.ndarray:
    """Point by point: every pixel shows the highest point that covers it."""
    image = np.zeros((4, frame.pixels, frame.pixels))
    highest = np.full((frame.pixels, frame.pixels), -math.inf)
    for position, color in zip(points.xyz, points.rgb, strict=True):
        row, column = frame.pixel_of(position[0], position[1])
        height = position[2] - frame.bottom
        if not -0.02 <= height <= frame.top:
            continue
        height = max(height, 0.0)
        for i in range(row - frame.splat, row + frame.splat + 1):
            for j in range(column - frame.splat, column + frame.splat + 1):
                if frame.holds(i, j) and height >= highest[i, j]:
                    highest[i, j] = height
                    image[:, i, j] = [*color, height]
    return image


@pytest.mark.parametrize("splat", [0, 1, 2])
def test_an_image_shows_the_highest_points(splat):
    frame = ImageFrame(24, 0.015, (-0.15, -0.2), bottom=0.05, top=0.2, splat=splat)
    points = some_points(splat)
    assert np.allclose(frame.draw(points), slow_image(frame, points), atol=1e-6)


def test_noise_makes_no_holes_in_a_table():
    """Training adds noise to points, and use does not: both must see the table."""
    rng = np.random.default_rng(0)
    table = np.c_[rng.uniform(-0.3, 0.3, (50_000, 2)), np.zeros(50_000)]
    clean = Points.sorted(table, np.full((50_000, 3), 0.5))
    frame = ImageFrame.around((0.0, 0.0), 104, 0.005)
    seen = [frame.draw(one)[0] > 0 for one in (clean, ImageAugmentation().noisy(clean, rng))]
    assert seen[1].mean() > seen[0].mean() - 0.02


def test_turning_the_points_or_the_image_is_the_same():
    frame, points = ImageFrame.around((0.05, 0.02), 32, 0.02), some_points(4)
    turn, pivot = math.radians(40.0), np.array([0.05, 0.02, 0.0])
    motion = np.eye(4)
    motion[:3, :3] = Rotation.from_euler("z", turn).as_matrix()
    motion[:3, 3] = pivot - motion[:3, :3] @ pivot
    drawn = frame.draw(points.moved(motion), turn, (0.05, 0.02))
    assert (np.abs(drawn - frame.draw(points)) < 1e-6).mean() > 0.99  # points on edges may move


# --- poses ---------------------------------------------------------------------------------------

angles = st.floats(-math.pi, math.pi)
lengths = st.floats(-0.5, 0.5)


@given(quaternion=st.tuples(*[st.floats(-1, 1)] * 4), x=lengths, y=lengths, z=lengths,
       base=st.sampled_from(["down", "sideways"]))  # fmt: skip
def test_poses_come_back_from_their_six_numbers(quaternion, x, y, z, base):
    if np.linalg.norm(quaternion) < 1e-3:
        quaternion = (1.0, 0.0, 0.0, 0.0)
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_quat(quaternion).as_matrix()
    pose[:3, 3] = x, y, z
    frame = PlanarFrame(base)
    planar = frame.planar(pose, GRIPPER)
    if abs(abs(planar.pitch) - math.pi / 2) < 1e-2:
        return  # where the angles are ambiguous; bases keep demonstrated poses far from there
    assert np.allclose(frame.pose(planar, GRIPPER), pose, atol=1e-6)


@given(turn=angles, yaw=st.floats(-1, 1), roll=st.floats(-1, 1), pitch=st.floats(-1, 1))
def test_turning_a_pose_in_the_plane_changes_its_yaw_only(turn, yaw, roll, pitch):
    frame, motion = PlanarFrame("down"), np.eye(4)
    motion[:3, :3] = Rotation.from_euler("z", turn).as_matrix()
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_euler("xyz", [roll, pitch, yaw]).as_matrix() @ np.diag([1, -1, -1])
    pose = pose @ np.linalg.inv(GRIPPER.T_gripper_contact)
    before, after = frame.planar(pose, GRIPPER), frame.planar(motion @ pose, GRIPPER)
    assert np.allclose(after.rest, before.rest, atol=1e-6)
    apart = (after.yaw - before.yaw - turn + math.pi) % (2 * math.pi) - math.pi
    assert abs(apart) < 1e-6


def test_what_is_held_looks_as_it_does_in_the_scene():
    for base in ("down", "sideways"):
        frame = PlanarFrame(base)
        pose = frame.pose(PlanarPose(0.0, 0.0, 0.0, 0.0, 0.0, 0.0), GRIPPER)
        assert np.allclose(pose, frame.held(GRIPPER), atol=1e-9)


# --- the networks --------------------------------------------------------------------------------


def test_the_original_network_has_the_parameters_of_the_original():
    count = sum(p.numel() for p in ResidualNetwork(6, 20).parameters())
    assert abs(count - 9.84e6) < 0.03e6


@settings(max_examples=5, deadline=None)
@given(turns=st.integers(1, 35))
def test_attention_is_equivariant_to_turns_in_the_plane(turns):
    """The scene turned by k yaws has the scores of the scene, k yaws further on."""
    torch.manual_seed(0)
    config = TransporterConfig(False, **SMALL)
    model, points = TransporterModel(config), some_points(1)
    with torch.no_grad():
        one = model(points, None)
        other = model(turned(points, 2 * math.pi * turns / config.yaws), None)
    moved = one.logits.roll(turns, dims=0)
    # Points on the edge of a pixel may fall to its neighbour, by rounding.
    assert ((moved - other.logits).abs() < 1e-4).float().mean() > 0.95
    assert ((one.logits - other.logits).abs() < 1e-4).float().mean() < 0.5  # it is no constant


def test_networks_move_with_the_image():
    """A shift by the stride of the network moves the features, but for those near the edges."""
    torch.manual_seed(0)
    network = ResidualNetwork(6, 3, width=0.06, blocks=1)
    image = torch.zeros(1, 6, 160, 160)
    image[..., 72:88, 72:88] = torch.rand(1, 6, 16, 16)
    with torch.no_grad():
        one, other = network(image), network(image.roll(8, dims=-1))
    inside = slice(48, 112)
    assert torch.allclose(one[..., inside, 48:96], other[..., inside, 56:104], atol=1e-5)


@settings(max_examples=3, deadline=None)
@given(turns=st.integers(1, 35))
def test_transport_is_equivariant_to_turning_what_is_held(turns):
    """What is held, turned by k yaws in the hand, goes where it went k yaws further on."""
    torch.manual_seed(0)
    config = TransporterConfig(True, **SMALL)
    model, scene, held = TransporterModel(config), some_points(1), some_points(2, 200, -0.1, 0.1)
    with torch.no_grad():
        one = model(scene, held)
        other = model(scene, turned(held, -2 * math.pi * turns / config.yaws))
    moved = one.logits.roll(turns, dims=0)
    close = (moved - other.logits).abs() < 0.05 * one.logits.std()
    assert close.float().mean() > 0.9


# --- kernels with references ---------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(
    size=st.tuples(st.integers(5, 20), st.integers(5, 20)),
    kernel=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    seed=st.integers(0, 100),
)
def test_correlation_by_transforms_is_the_direct_one(size, kernel, seed):
    generator = torch.Generator().manual_seed(seed)
    image = torch.rand(2, 3, *size, generator=generator)
    kernels = torch.rand(4, 2, 3, *kernel, generator=generator)
    rows, columns = kernel
    padded = functional.pad(image, (columns // 2, columns, rows // 2, rows))
    direct = torch.stack(
        [functional.conv2d(padded[g : g + 1], kernels[:, g])[0] for g in range(2)], dim=1
    )[..., : size[0], : size[1]]
    assert torch.allclose(correlation(image, kernels), direct, atol=1e-4)


def slow_loss(logits, rest, valid, target, target_rest, holding):
    """The formula, number by number, with all yaws."""
    total = 0.0
    for k, i, j in np.ndindex(*logits.shape):
        if valid[k, i, j]:
            total += math.exp(logits[k, i, j])
    k, i, j = target
    likelihood = -math.log(math.exp(logits[k, i, j]) / total)
    scale = (0.2 / 4, math.pi / 4, math.pi / 2 / 4)
    share = (1.0, 1.0, 1.0) if holding else (0.3, 1.0, 1.0)
    regression = 0.0
    for place in range(3):
        error = rest[k, place, i, j] - target_rest[place]
        if place == 1:
            error = min((error + 2 * math.pi * n for n in (-2, -1, 0, 1, 2)), key=abs)
        regression += 0.5 * (error / (share[place] * scale[place])) ** 2
    return likelihood, regression


@pytest.mark.parametrize("holding", [False, True])
def test_the_loss_is_the_formula(holding):
    rng = np.random.default_rng(int(holding))
    logits, rest = rng.normal(size=(4, 5, 6)), 3.0 * rng.normal(size=(4, 3, 5, 6))
    valid = rng.uniform(size=(4, 5, 6)) < 0.8
    target, target_rest = (2, 3, 4), rng.normal(size=3)
    given = (torch.tensor(logits), torch.tensor(rest), torch.tensor(valid), torch.ones(4).double())
    loss = pose_loss(*given, target, torch.tensor(target_rest), holding)
    likelihood, regression = slow_loss(logits, rest, valid, target, target_rest, holding)
    assert loss.likelihood.item() == pytest.approx(likelihood, rel=1e-9)
    assert loss.regression.item() == pytest.approx(regression, rel=1e-9)


def test_few_wrong_yaws_stand_for_all_of_them_on_average():
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(size=(36, 4, 4)))
    exact = torch.logsumexp(logits.flatten(), 0).exp().item()
    rest, valid = torch.zeros(6, 3, 4, 4).double(), torch.ones(6, 4, 4, dtype=torch.bool)
    weights = torch.tensor([1.0, *[35 / 5] * 5]).double()
    sums = []
    for _ in range(1000):
        some = [0, *rng.choice(np.arange(1, 36), 5, replace=False).tolist()]
        loss = pose_loss(
            logits[some], rest, valid, weights, (0, 1, 1), torch.zeros(3).double(), False
        )
        sums.append(loss.others.exp().item())
    assert np.mean(sums) == pytest.approx(exact, rel=0.02)
