"""The gripper as a contract: contact frames, shapes, hands by name."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st

import handful.demos._hand_mesh as mesh_module
import handful.render._mesh_files as mesh_files
from handful.demos import (
    HANDS,
    ContactFrame,
    Gripper,
    HandBox,
    HandMesh,
    HandShape,
    gripper_from_tip,
    gripper_named,
)
from handful.demos._hand_mesh import hand_meshes, obj_text, read_hand_meshes
from handful.errors import DemoError, FileFormatError

seeds = st.integers(0, 2**32 - 1)
axes = st.sampled_from(["x", "y"])


def unit_quaternion(rng: np.random.Generator) -> tuple[float, ...]:
    quat = rng.normal(size=4)
    return tuple((quat / np.linalg.norm(quat)).tolist())


def random_box(rng: np.random.Generator) -> HandBox:
    return HandBox(
        tuple(rng.uniform(-0.1, 0.1, 3).tolist()),
        tuple(rng.uniform(0.02, 0.15, 3).tolist()),
        unit_quaternion(rng),
    )


def random_gripper(rng: np.random.Generator, axis: str) -> Gripper:
    contact = ContactFrame(tuple(rng.uniform(-0.3, 0.3, 3).tolist()), unit_quaternion(rng))
    return Gripper(contact, axis, 0.08)


def random_pose(rng: np.random.Generator) -> np.ndarray:
    pose = trimesh.transformations.quaternion_matrix(unit_quaternion(rng))
    pose[:3, 3] = rng.uniform(-0.5, 0.5, 3)
    return pose


def as_trimesh(box: HandBox, grown: float = 0.0) -> trimesh.Trimesh:
    """Reference for a box: trimesh builds it from its own conventions, not from ours."""
    pose = trimesh.transformations.quaternion_matrix(box.quat_wxyz)
    pose[:3, 3] = box.center
    return trimesh.creation.box(extents=np.array(box.size) + 2.0 * grown, transform=pose)


def inside_convex(mesh: trimesh.Trimesh, points: np.ndarray) -> np.ndarray:
    """Slow reference for a convex solid: behind the planes of all of its faces."""
    heights = np.einsum("fx,pfx->pf", mesh.face_normals, points[:, None] - mesh.triangles[:, 0])
    return (heights <= 0).all(axis=1)


def near_surface(mesh: trimesh.Trimesh, points: np.ndarray) -> np.ndarray:
    heights = np.einsum("fx,pfx->pf", mesh.face_normals, points[:, None] - mesh.triangles[:, 0])
    return (np.abs(heights) < 1e-9).any(axis=1)


# --- the contact frame -------------------------------------------------------------------------


@given(seeds, axes)
def test_the_canonical_contact_frame_opens_along_x_and_approaches_along_z(seed, axis):
    gripper = random_gripper(np.random.default_rng(seed), axis)
    canonical, given_frame = gripper.T_gripper_contact, gripper.contact.matrix
    rotation = canonical[:3, :3]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(rotation) == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(canonical[:, 2:], given_frame[:, 2:], atol=1e-12)
    np.testing.assert_allclose(rotation[:, 0], given_frame[:3, "xy".index(axis)], atol=1e-12)


def test_a_frame_that_is_only_swapped_is_left_handed():
    """The test above can fail: exchanging x and y without a sign mirrors the hand."""
    pose = random_gripper(np.random.default_rng(0), "y").contact.matrix
    assert np.linalg.det(pose[:3, [1, 0, 2]]) == pytest.approx(-1.0)


@given(seeds, axes, axes, axes)
def test_frames_between_grippers_compose_and_invert(seed, first, second, third):
    rng = np.random.default_rng(seed)
    a, b, c = (random_gripper(rng, axis) for axis in (first, second, third))
    np.testing.assert_allclose(a.T_gripper_other(a), np.eye(4), atol=1e-9)
    np.testing.assert_allclose(a.T_gripper_other(b) @ b.T_gripper_other(a), np.eye(4), atol=1e-9)
    np.testing.assert_allclose(
        a.T_gripper_other(b) @ b.T_gripper_other(c), a.T_gripper_other(c), atol=1e-9
    )


@given(seeds, axes, axes)
def test_another_gripper_holds_at_the_same_place(seed, first, second):
    """T_scene_b = T_scene_a T_a_b puts b's contact frame where a's is."""
    rng = np.random.default_rng(seed)
    a, b, T_scene_a = random_gripper(rng, first), random_gripper(rng, second), random_pose(rng)
    T_scene_b = T_scene_a @ a.T_gripper_other(b)
    np.testing.assert_allclose(
        T_scene_b @ b.T_gripper_contact, T_scene_a @ a.T_gripper_contact, atol=1e-9
    )
    wrong = T_scene_a @ b.T_gripper_other(a)
    assert not np.allclose(wrong @ b.T_gripper_contact, T_scene_a @ a.T_gripper_contact, atol=1e-3)


# --- boxes -------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([0.0, 0.01, -0.005]))
def test_points_in_boxes_agree_with_trimesh(seed, margin):
    rng = np.random.default_rng(seed)
    boxes = tuple(random_box(rng) for _ in range(3))
    points = rng.uniform(-0.2, 0.2, (200, 3))
    expected = np.zeros(len(points), dtype=bool)
    for box in boxes:
        expected |= inside_convex(as_trimesh(box, margin), points)
    assert np.array_equal(HandShape(boxes).contains(points, margin), expected)


def test_the_reference_tells_a_box_from_its_mirror_image():
    """The test above can fail: a quaternion read as xyzw is another box."""
    rng = np.random.default_rng(1)
    box = random_box(rng)
    w, x, y, z = box.quat_wxyz
    points = rng.uniform(-0.2, 0.2, (2000, 3))
    other = HandShape((replace(box, quat_wxyz=(x, y, z, w)),)).contains(points)
    assert not np.array_equal(other, inside_convex(as_trimesh(box), points))


@given(seeds)
def test_the_surface_of_a_box_is_that_of_trimesh(seed):
    box = random_box(np.random.default_rng(seed))
    surface = trimesh.Trimesh(*box.surface(), process=False)
    assert surface.is_watertight
    assert surface.volume == pytest.approx(math.prod(box.size))
    np.testing.assert_allclose(
        np.array(sorted(surface.vertices.round(9).tolist())),
        np.array(sorted(as_trimesh(box).vertices.round(9).tolist())),
        atol=1e-8,
    )


@given(seeds)
def test_a_shape_moves_rigidly_with_its_gripper(seed):
    """Points and boxes moved together stay in and out."""
    rng = np.random.default_rng(seed)
    box, points, pose = random_box(rng), rng.uniform(-0.2, 0.2, (100, 3)), random_pose(rng)
    turn = trimesh.transformations.quaternion_matrix(box.quat_wxyz)
    quat = trimesh.transformations.quaternion_from_matrix(pose @ turn)
    center = pose[:3, :3] @ box.center + pose[:3, 3]
    moved = replace(box, center=tuple(center.tolist()), quat_wxyz=tuple(quat.tolist()))
    there = points @ pose[:3, :3].T + pose[:3, 3]
    assert np.array_equal(
        HandShape((moved,)).contains(there, 1e-3), HandShape((box,)).contains(points, 1e-3)
    )


# --- meshes ------------------------------------------------------------------------------------


def mesh_of(box: HandBox) -> HandMesh:
    (mesh,) = hand_meshes(*box.surface())
    return mesh


@given(seeds, st.sampled_from([0.0, -0.005]))
def test_a_mesh_of_a_box_contains_what_the_box_contains(seed, margin):
    rng = np.random.default_rng(seed)
    box, points = random_box(rng), rng.uniform(-0.2, 0.2, (300, 3))
    assert np.array_equal(
        mesh_of(box).contains(points, margin), HandShape((box,)).contains(points, margin)
    )


@given(seeds)
def test_a_grown_mesh_is_rounded_at_its_edges(seed):
    """A mesh grows by distance: less than the grown box, more than the box."""
    rng = np.random.default_rng(seed)
    box, points, margin = random_box(rng), rng.uniform(-0.2, 0.2, (300, 3)), 0.02
    grown = HandShape((), (mesh_of(box),)).contains(points, margin)
    local = (points - box.center) @ trimesh.transformations.quaternion_matrix(box.quat_wxyz)[:3, :3]
    outside = np.maximum(np.abs(local) - np.array(box.size) / 2.0, 0.0)
    assert np.array_equal(grown, np.linalg.norm(outside, axis=1) <= margin)


def test_rays_through_edges_and_corners_are_counted_once():
    """Points of a lattice that fits the mesh send rays through its edges, if anything does."""
    direction = mesh_module._RAY
    box = HandBox((0.0, 0.0, 0.0), (0.2, 0.2, 0.2))
    corners, faces = box.surface()
    mids = (corners[faces] + corners[faces[:, [1, 2, 0]]]).reshape(-1, 3) / 2.0
    for on_edge in np.concatenate([corners, mids]):
        points = on_edge - np.array([0.05, 0.02, -0.05])[:, None] * direction
        expected = (np.abs(points) < 0.1).all(axis=1)
        assert np.array_equal(mesh_of(box).contains(points), expected)


def test_a_mesh_need_not_be_convex():
    ring = trimesh.creation.torus(0.08, 0.02)
    (mesh,) = hand_meshes(np.asarray(ring.vertices), np.asarray(ring.faces))
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.12, 0.12, (4000, 3))
    tube = np.hypot(np.hypot(points[:, 0], points[:, 1]) - 0.08, points[:, 2])
    clear = np.abs(tube - 0.02) > 0.002
    assert np.array_equal(mesh.contains(points)[clear], (tube < 0.02)[clear])
    assert not mesh.contains(np.zeros((1, 3)))[0]


def test_a_mesh_of_touching_parts_is_split():
    one = HandBox((0.0, 0.0, 0.0), (0.1, 0.1, 0.1)).surface()
    two = HandBox((0.1, 0.1, 0.0), (0.1, 0.1, 0.1)).surface()
    both = trimesh.util.concatenate([trimesh.Trimesh(*one), trimesh.Trimesh(*two)])
    both.merge_vertices()
    assert len(both.vertices) == 14, "the boxes share an edge"
    parts = hand_meshes(np.asarray(both.vertices), np.asarray(both.faces))
    assert [len(part.faces) for part in parts] == [12, 12]


CUBE = mesh_of(HandBox((0.0, 0.0, 0.0), (0.1, 0.1, 0.1)))
APART = tuple((x + 0.5, y, z) for x, y, z in CUBE.vertices)
BAD_MESHES = {
    "open": (CUBE.vertices, CUBE.faces[1:], "not closed"),
    "too few": (CUBE.vertices, CUBE.faces[:3], "3 faces: need 4 to 20000"),
    "no triangles": (CUBE.vertices, ((0, 1, 2, 3),) * 12, "need 4 to 20000 triangles"),
    "missing vertex": (CUBE.vertices[:-1], CUBE.faces, "vertices that it does not have"),
    "spare vertex": ((*CUBE.vertices, (0.0, 0.0, 0.0)), CUBE.faces, "belong to no face"),
    "NaN": (((math.nan, 0.0, 0.0), *CUBE.vertices[1:]), CUBE.faces, "finite"),
    "millimetres": (tuple((100.0 * x, y, z) for x, y, z in CUBE.vertices), CUBE.faces, "5 m from"),
    "two parts": (
        CUBE.vertices + APART,
        CUBE.faces + tuple(tuple(i + 8 for i in face) for face in CUBE.faces),
        "several parts",
    ),
}


@pytest.mark.parametrize("case", BAD_MESHES)
def test_a_mesh_that_is_no_closed_surface_is_refused(case):
    vertices, faces, message = BAD_MESHES[case]
    with pytest.raises(DemoError, match=message):
        HandMesh(vertices, faces)


# --- mesh files --------------------------------------------------------------------------------


@given(seeds)
def test_an_obj_file_comes_back_number_for_number(seed):
    rng = np.random.default_rng(seed)
    meshes = tuple(mesh_of(random_box(rng)) for _ in range(rng.integers(1, 4)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hand.obj"
        path.write_text(obj_text(meshes))
        assert read_hand_meshes(path) == meshes


@pytest.mark.parametrize("kind", ["obj", "stl", "ply"])
def test_mesh_files_of_other_programs_are_read(tmp_path, kind):
    ball = trimesh.creation.icosphere(2, radius=0.05).apply_translation([0.3, 0.0, 0.0])
    trimesh.util.concatenate([trimesh.creation.box((0.1, 0.2, 0.3)), ball]).export(
        tmp_path / f"hand.{kind}"
    )
    meshes = read_hand_meshes(tmp_path / f"hand.{kind}")
    assert [len(mesh.faces) for mesh in meshes] == [12, 320]
    points = np.array([[0.04, 0.09, 0.14], [0.3, 0.0, 0.0], [0.06, 0.0, 0.0]])
    assert HandShape((), meshes).contains(points).tolist() == [True, True, False]


def test_a_mesh_file_leads_to_no_other_file(tmp_path):
    """An OBJ file can name a file of materials; it is not opened."""
    path = tmp_path / "hand.obj"
    path.write_text("mtllib secret.mtl\nusemtl skin\n" + obj_text((CUBE,)))
    (tmp_path / "secret.mtl").mkdir()
    assert read_hand_meshes(path) == (CUBE,)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("hand.dae", b"<x/>", r"need a mesh file, \.obj, \.stl, \.ply"),
        ("hand.obj", b"", r"hand\.obj"),
        ("hand.stl", b"\xff" * 300, r"hand\.stl"),
        ("hand.ply", b"ply\nformat ascii 1.0\nelement vertex 99999999\nend_header\n", r"hand\.ply"),
        ("hand.obj", obj_text((CUBE,)).replace("f ", "# ", 1).encode(), "not closed"),
        ("hand.obj", obj_text((CUBE,)).replace("v -0.05", "v nan", 1).encode(), r"hand\.obj"),
        ("hand.obj", obj_text((CUBE,)).replace("v -0.05", "v -50.0", 1).encode(), "50 m from"),
    ],
)
def test_a_bad_mesh_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((FileFormatError, DemoError), match=message):
        read_hand_meshes(tmp_path / name)


def test_mesh_files_are_bounded(tmp_path, monkeypatch):
    path = tmp_path / "hand.obj"
    path.write_text(obj_text((CUBE,)))
    monkeypatch.setattr(mesh_files, "MAX_MESH_BYTES", 100)
    with pytest.raises(FileFormatError, match="is larger than"):
        read_hand_meshes(path)
    monkeypatch.undo()
    monkeypatch.setattr(mesh_module, "MAX_FACES", 11)
    with pytest.raises(DemoError, match="has 12 faces: need 4 to 11"):
        read_hand_meshes(path)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_hand_meshes(tmp_path / "none.obj")


# --- the gripper -------------------------------------------------------------------------------

GOOD_BOX = HandBox((0.0, 0.0, 0.0), (0.1, 0.1, 0.1))
BAD_VALUES = {
    "axis": (lambda: Gripper(ContactFrame((0, 0, 0)), "z", 0.08), "unknown gripper axis 'z'"),
    "opening": (
        lambda: Gripper(ContactFrame((0, 0, 0)), "x", 80.0),
        "opening is 80.0: need metres",
    ),
    "no opening": (lambda: Gripper(ContactFrame((0, 0, 0)), "x", 0.0), "opening is 0.0"),
    "NaN opening": (lambda: Gripper(ContactFrame((0, 0, 0)), "x", math.nan), "opening is nan"),
    "NaN contact": (lambda: ContactFrame((0, math.nan, 0)), "contact position"),
    "contact in mm": (lambda: ContactFrame((0, 0, 145.0)), "need metres, at most 2"),
    "two numbers": (lambda: ContactFrame((0, 0)), "need 3 finite numbers"),
    "NaN rotation": (lambda: ContactFrame((0, 0, 0), (1, 0, 0, math.nan)), "contact quat_wxyz"),
    "long rotation": (lambda: ContactFrame((0, 0, 0), (1, 1, 0, 0)), "need length 1, not 1.414"),
    "NaN box": (lambda: replace(GOOD_BOX, center=(0, 0, math.nan)), "hand box center"),
    "NaN size": (lambda: replace(GOOD_BOX, size=(0.1, math.nan, 0.1)), "hand box size"),
    "flat box": (lambda: replace(GOOD_BOX, size=(0.1, 0.0, 0.1)), "need a positive size"),
    "no rotation": (lambda: replace(GOOD_BOX, quat_wxyz=(0, 0, 0, 0)), "need length 1, not 0"),
    "NaN turn": (lambda: replace(GOOD_BOX, quat_wxyz=(math.nan, 0, 0, 1)), "hand box quat_wxyz"),
    "side": (lambda: replace(GOOD_BOX, side=2), "side -1, 0 or 1"),
    "no shape": (lambda: HandShape(), "needs one box or mesh"),
    "tip in mm": (lambda: gripper_from_tip(150.0, 0.08, "x"), "gripper tip is 150"),
    "NaN tip": (lambda: gripper_from_tip(math.nan, 0.08, "x"), "gripper tip is nan"),
    "name": (lambda: gripper_named("franka"), "Did you mean 'franka-hand'"),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_wrong_values_are_refused_with_what_is_right(case):
    build, message = BAD_VALUES[case]
    with pytest.raises(DemoError, match=message):
        build()


@pytest.mark.parametrize("name", HANDS)
def test_every_known_hand_is_consistent(name):
    """Open fingers leave the opening free at the contact, closed ones meet there."""
    gripper = gripper_named(name)
    assert gripper.name == name
    assert gripper.shape is not None
    pose = gripper.T_gripper_contact
    offsets = np.linspace(-gripper.opening / 2, gripper.opening / 2, 41)[1:-1, None]
    line = pose[:3, 3] + offsets * pose[:3, 0]
    assert not gripper.shape.contains(line).any()
    ends = pose[:3, 3] + np.array([[-1.0], [1.0]]) * (gripper.opening / 2 + 0.002) * pose[:3, 0]
    assert gripper.shape.contains(ends).all()
    closed = gripper.with_width(0.0).shape
    assert closed is not None
    assert closed.contains(pose[:3, 3] + np.array([[-0.001], [0.001]]) * pose[:3, 0], 1e-6).all()
    corners = np.concatenate([vertices for vertices, _ in gripper.shape.surfaces()])
    ahead = (corners - pose[:3, 3]) @ pose[:3, 2]
    assert 0.0 < ahead.max() < 0.05, "the finger tips are a little beyond the contact"
    assert corners[:, 2].min() >= -1e-9, "nothing is behind the gripper's frame"


def test_published_numbers():
    """The figures of the makers: see `_hands.py` for the documents."""
    franka = gripper_named("franka-hand")
    assert (franka.contact.position, franka.axis, franka.opening) == ((0, 0, 0.1034), "y", 0.08)
    assert gripper_named("robotiq-2f-85").opening == 0.085
    assert gripper_named("robotiq-2f-140").opening == 0.14


@given(axes, st.floats(0.0, 0.08))
def test_with_width_moves_fingers_and_nothing_else(axis, width):
    plain = gripper_from_tip(0.15, 0.08, axis)
    moved = plain.with_width(width)
    assert plain.shape is not None
    assert moved.shape is not None
    along = plain.T_gripper_contact[:3, 0]
    for before, after in zip(plain.shape.boxes, moved.shape.boxes, strict=True):
        shift = np.array(after.center) - np.array(before.center)
        np.testing.assert_allclose(shift, -before.side * (0.08 - width) / 2 * along, atol=1e-12)
        assert replace(after, center=before.center) == before
    assert (moved.contact, moved.axis, moved.opening) == (plain.contact, plain.axis, plain.opening)
    assert plain.with_width(width + 1.0).shape == plain.shape
    assert replace(plain, shape=None).with_width(width).shape is None


def test_with_width_follows_a_turned_contact_frame():
    half = math.sqrt(0.5)
    contact = ContactFrame((0.0, 0.0, 0.1), (half, 0.0, 0.0, half))
    fingers = tuple(HandBox((0.0, s * 0.05, 0.1), (0.02, 0.02, 0.02), side=s) for s in (1, -1))
    closed = Gripper(contact, "x", 0.08, HandShape(fingers)).with_width(0.0)
    assert closed.shape is not None
    np.testing.assert_allclose([b.center[1] for b in closed.shape.boxes], [0.01, -0.01], atol=1e-12)


def test_is_hand_spares_what_is_held():
    gripper = gripper_named("simulated")
    palm, fingers, held = [0.0, 0.0, 0.04], [0.0445, 0.0, 0.13], [0.0, 0.0, 0.145]
    beside_palm, far = [0.0, 0.029, 0.04], [0.0, 0.04, 0.04]
    points = np.array([palm, fingers, held, beside_palm, far])
    assert gripper.is_hand(points).tolist() == [True, False, False, True, False]
    assert gripper.is_hand(points, behind=0.0).tolist() == [True, True, False, True, False]
    assert gripper.is_hand(points, margin=0.0).tolist() == [True, False, False, False, False]
    assert not replace(gripper, shape=None).is_hand(points).any()


@given(seeds)
def test_is_hand_does_not_depend_on_the_gripper_frame(seed):
    """The same hand described in another frame: a tool frame, say, and not the flange."""
    rng = np.random.default_rng(seed)
    hand, T_other_gripper = gripper_named("franka-hand"), random_pose(rng)
    assert hand.shape is not None

    def moved(position, quat):
        pose = T_other_gripper @ trimesh.transformations.quaternion_matrix(quat)
        at = T_other_gripper[:3, :3] @ position + T_other_gripper[:3, 3]
        return tuple(at.tolist()), tuple(trimesh.transformations.quaternion_from_matrix(pose))

    boxes = []
    for box in hand.shape.boxes:
        center, quat = moved(box.center, box.quat_wxyz)
        boxes.append(replace(box, center=center, quat_wxyz=quat))
    contact = ContactFrame(*moved(hand.contact.position, hand.contact.quat_wxyz))
    other = replace(hand, contact=contact, shape=HandShape(tuple(boxes)))
    points = rng.uniform([-0.05, -0.12, -0.02], [0.05, 0.12, 0.13], (300, 3))
    there = points @ T_other_gripper[:3, :3].T + T_other_gripper[:3, 3]
    assert np.array_equal(other.is_hand(there), hand.is_hand(points))
    closed, closed_other = hand.with_width(0.02), other.with_width(0.02)
    assert np.array_equal(
        closed_other.is_hand(there, behind=-1.0), closed.is_hand(points, behind=-1.0)
    )


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize("tip", [0.05, 0.15, 0.3])
def test_the_gripper_of_version_1_holds_at_its_tips(axis, tip):
    gripper = gripper_from_tip(tip, 0.06, axis)
    assert gripper.contact == ContactFrame((0.0, 0.0, tip))
    assert (gripper.axis, gripper.opening) == (axis, 0.06)
    assert gripper.shape is not None
    along = np.eye(3)["xy".index(axis)]
    just_behind = np.array([0.0, 0.0, tip - 1e-4])
    for side in (1.0, -1.0):
        assert not gripper.shape.contains((just_behind + side * 0.0299 * along)[None])[0]
        assert gripper.shape.contains((just_behind + side * 0.0301 * along)[None])[0]


def finger_points(gripper: Gripper, width: float) -> np.ndarray:
    """Points inside the fingers at a width, gripper frame."""
    shape, rng = gripper.with_width(width).shape, np.random.default_rng(0)
    assert shape is not None
    fingers = [box for box in shape.boxes if box.side]
    rows = []
    for box in fingers:
        vertices, _ = box.surface()
        middle, corners = vertices.mean(axis=0), vertices - vertices.mean(axis=0)
        weights = rng.dirichlet(np.ones(len(corners)), 200)
        rows.append(middle + weights @ corners)
    return np.concatenate(rows)


@pytest.mark.parametrize("name", ["simulated", "franka-hand"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.77, 1.0])
def test_where_a_finger_is_at_some_width_a_point_may_be_a_finger(name, share):
    gripper = gripper_named(name)
    assert gripper.may_be_finger(finger_points(gripper, share * gripper.opening)).all()


@pytest.mark.parametrize("name", ["simulated", "franka-hand"])
def test_the_palm_and_what_is_far_away_is_no_finger(name):
    gripper = gripper_named(name)
    contact = gripper.T_gripper_contact
    palm = np.array([box.center for box in gripper.shape.boxes if not box.side])
    far = contact[:3, 3] + np.array([[0.0, 0.0, 0.3], [0.3, 0.0, 0.0], [0.0, 0.3, 0.0]])
    beside = contact[:3, 3] + 0.08 * np.array([contact[:3, 1], -contact[:3, 1]])
    beyond = contact[:3, 3] + 0.04 * contact[:3, 2]
    others = np.vstack([palm, far, beside, beyond])
    assert not gripper.may_be_finger(others).any()
    assert gripper.shape.contains(palm).all(), "the control: the palm is of the hand"


def test_a_hand_of_unknown_shape_or_without_fingers_says_nothing_of_fingers():
    gripper = gripper_named("simulated")
    points = finger_points(gripper, 0.5 * gripper.opening)
    assert not replace(gripper, shape=None).may_be_finger(points).any()
    still = HandShape(tuple(replace(box, side=0) for box in gripper.shape.boxes))
    assert not replace(gripper, shape=still).may_be_finger(points).any()
