"""Things: ten clearly different ones per family, and geometry that finds rim, handle and neck."""

from dataclasses import astuple

import numpy as np
import pytest
import trimesh

pytest.importorskip("mujoco")

from handful.errors import FileFormatError, OptionError
from handful.sim import ObjectRefusedError, load_things
from handful.sim.objects import (
    DEFAULT_BOTTLES,
    DEFAULT_BOWL,
    DEFAULT_MUG,
    DISTRACTOR_FAMILIES,
    UNSEEN_BOTTLES,
    UNSEEN_BOWLS,
    UNSEEN_MUGS,
    draw_distractor,
    load_thing,
)
from handful.sim.objects import _user_meshes as user_meshes
from handful.sim.objects._parts import prism_parts
from handful.sim.objects._surface import find_handle, find_neck, find_rim
from handful.sim.objects._user_meshes import cache_folder

FAMILIES = [
    ((DEFAULT_MUG,), UNSEEN_MUGS),
    ((DEFAULT_BOWL,), UNSEEN_BOWLS),
    (DEFAULT_BOTTLES, UNSEEN_BOTTLES),
]


def surface(thing):
    mesh = trimesh.util.concatenate([trimesh.Trimesh(m.vertices, m.faces) for m in thing.meshes])
    return np.asarray(trimesh.sample.sample_surface(mesh, 120_000, seed=0)[0])


@pytest.mark.parametrize(("trained", "unseen"), FAMILIES, ids=["mug", "bowl", "bottle"])
def test_ten_unseen_instances_clearly_differ_from_all_others(trained, unseen):
    assert len(unseen) == 10
    everything = np.array([astuple(shape) for shape in (*trained, *unseen)])
    share = (everything - everything.min(axis=0)) / np.ptp(everything, axis=0)
    gaps = np.linalg.norm(share[:, None] - share[None], axis=2) + 9 * np.eye(len(share))
    assert gaps.min() > 0.3


def test_prism_of_boxes_is_the_prism():
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.04, 0.04, size=(4000, 3))
    parts = prism_parts(0.03, -0.02, 0.03, sides=12)
    inside = np.zeros(len(points), dtype=bool)
    for part in parts:
        local = (points - part.T_thing_part[:3, 3]) @ part.T_thing_part[:3, :3]
        inside |= (np.abs(local) <= part.size).all(axis=1)
    normals = np.stack([(np.cos(a), np.sin(a)) for a in np.arange(12) * np.pi / 6])
    true = ((points[:, :2] @ normals.T) <= 0.03).all(axis=1)
    true &= (points[:, 2] >= -0.02) & (points[:, 2] <= 0.03)
    assert (inside == true).all()


@pytest.mark.parametrize("family", sorted(DISTRACTOR_FAMILIES))
def test_every_family_of_distractors_makes_small_things(family):
    for seed in range(3):
        thing, rotation = draw_distractor(np.random.default_rng(seed), family=family)
        size = np.ptp(thing.vertices, axis=0).max()
        assert 0.02 < size < 0.25
        assert np.allclose(rotation @ rotation.T, np.eye(3))


def test_there_are_at_least_eight_families_of_distractors():
    assert len(DISTRACTOR_FAMILIES) >= 8
    with pytest.raises(OptionError, match="Did you mean 'duck'"):
        draw_distractor(np.random.default_rng(0), family="duk")


@pytest.mark.parametrize("shape", [DEFAULT_MUG, *UNSEEN_MUGS[:4]])
def test_geometry_finds_rim_and_handle_of_a_mug(shape):
    thing = shape.thing()
    points = surface(thing)
    rim, handle = find_rim(points, "mug"), find_handle(points, "mug")
    radius = np.linalg.norm(rim.points[:, :2], axis=1)
    assert np.abs(rim.points[:, 2] - shape.height).max() < 0.003
    assert np.median(np.abs(radius - (shape.radius - shape.wall / 2))) < 0.003
    assert abs(handle.radius - thing.handle.radius) < 0.003
    assert np.linalg.norm(handle.hole - thing.handle.hole) < 0.012
    assert handle.outward[0] > 0.95


def test_geometry_finds_the_neck_of_a_bottle():
    shape = UNSEEN_BOTTLES[0]
    neck = find_neck(surface(shape.thing()), "bottle")
    assert abs(neck.top - shape.height) < 0.001
    assert abs(neck.radius - shape.neck_radius - shape.cap_radius) < 0.002


def test_geometry_refuses_with_a_reason():
    bowl = surface(DEFAULT_BOWL.thing())
    with pytest.raises(ObjectRefusedError, match="no handle with a hole"):
        find_handle(bowl, "bowl")
    brick = surface_of(trimesh.creation.box(bounds=[(-0.05, -0.05, 0), (0.05, 0.05, 0.1)]))
    with pytest.raises(ObjectRefusedError, match="no opening"):
        find_rim(brick, "brick")
    with pytest.raises(ObjectRefusedError, match="fingers take 68 mm"):
        find_neck(brick, "brick")


def surface_of(mesh):
    return np.asarray(trimesh.sample.sample_surface(mesh, 60_000, seed=0)[0])


def test_meshes_are_taken_apart_once(tmp_path, monkeypatch):
    pytest.importorskip("coacd")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trimesh.creation.cylinder(radius=0.02, height=0.1, sections=12).export(tmp_path / "tin.obj")
    calls = []
    real = user_meshes.take_apart
    monkeypatch.setattr(user_meshes, "take_apart", lambda *a: calls.append(1) or real(*a))
    first = load_thing(tmp_path / "tin.obj", "bottle")
    second = load_thing(tmp_path / "tin.obj", "bottle")
    assert len(calls) == 1
    assert len(first.parts) == len(second.parts) >= 1
    assert np.array_equal(first.parts[0].vertices, second.parts[0].vertices)
    assert abs(first.bounds[0, 2]) < 1e-9
    broken = next(cache_folder().glob("*.npz"))
    broken.write_bytes(b"half of a file")
    load_thing(tmp_path / "tin.obj", "bottle")
    assert len(calls) == 2


def test_bad_meshes_are_refused_with_a_reason(tmp_path):
    trimesh.creation.box(extents=(80, 80, 100)).export(tmp_path / "millimetres.stl")
    (tmp_path / "nonsense.obj").write_text("this is not a mesh")
    things, refused = load_things(tmp_path, "bowl")
    assert things == []
    reasons = {one.path.name: one.reason for one in refused}
    assert "100 m large" in reasons["millimetres.stl"]
    assert "nonsense.obj" in reasons["nonsense.obj"]
    with pytest.raises(FileFormatError):
        load_thing(tmp_path / "nonsense.obj", "mug")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileFormatError, match="holds no mesh"):
        load_things(tmp_path / "empty", "mug")
    with pytest.raises(FileFormatError, match="does not exist"):
        load_things(tmp_path / "nowhere", "mug")
