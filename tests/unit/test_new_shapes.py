"""The generator of new shapes: kitchens' mugs, bowls and bottles that the tasks can use."""

import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh

pytest.importorskip("mujoco")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "policies"))

from kitchen_shapes import KINDS
from kitchen_surfaces import Section, revolved
from new_shapes import DRAWS, contact_sheet, draw_shape, write_shapes

from handful.sim._errors import ObjectRefusedError
from handful.sim.objects._surface import find_handle, find_neck, find_rim

FIRST = [(kind, number) for kind, (families, _) in KINDS.items() for number in range(len(families))]
"""One shape of each family."""


def features(mesh, kind):
    """What the oracle must find."""
    points = np.asarray(trimesh.sample.sample_surface(mesh, 60_000, seed=0)[0])
    if kind == "bottle":
        return find_neck(points, kind)
    if kind == "bowl":
        return find_rim(points, kind)
    return find_rim(points, kind), find_handle(points, kind)


def quiet(text):
    pass


@pytest.mark.parametrize(("kind", "number"), FIRST)
def test_each_family_is_closed_stands_on_the_table_and_has_what_the_oracle_needs(kind, number):
    name, mesh = draw_shape(kind, number, seed=5)
    assert name.startswith(f"{kind}_{number:03d}_")
    assert mesh.is_watertight
    assert mesh.volume > 0
    assert abs(mesh.bounds[0, 2]) < 1e-9
    assert 0.03 < mesh.extents.max() < 0.35
    assert len(mesh.faces) < 9000
    features(mesh, kind)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_sizes_differ_by_a_factor_of_two(kind):
    widths = [draw_shape(kind, number, seed=5)[1].extents.min() for number in range(30)]
    heights = [draw_shape(kind, number, seed=5)[1].extents[2] for number in range(30)]
    assert max(max(widths) / min(widths), max(heights) / min(heights)) > 2.0


def test_a_mug_without_its_handle_is_told():
    _, mesh = draw_shape("mug", 0, seed=5)
    body = max(mesh.split(only_watertight=False), key=lambda part: part.area)
    with pytest.raises(ObjectRefusedError, match="handle"):
        features(body, "mug")


def test_the_same_seed_gives_the_same_shapes_and_another_seed_others():
    one, again, other = (draw_shape("bowl", 3, seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(one.vertices, again.vertices)
    assert one.vertices.shape != other.vertices.shape or not np.allclose(
        one.vertices, other.vertices
    )


def test_sections_go_from_round_to_square():
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    assert np.allclose(Section().radius(angle), 1.0)
    square = Section(exponent=8.0).radius(angle)
    assert square[6] / square[0] > 1.25
    profile = np.array([[0.0, 0.0], [0.03, 0.0], [0.03, 0.1], [0.0, 0.1]])
    low_only = revolved(profile, Section(exponent=8.0), lambda z: (z < 0.05).astype(float))
    radius = np.linalg.norm(low_only.vertices[:, :2], axis=1)
    assert np.ptp(radius[48:96]) < 1e-12 < 0.004 < np.ptp(radius[:48])


def test_refused_shapes_are_drawn_anew_and_counted(tmp_path):
    def odd_ones_only(path, kind):
        return "" if int(path.stem.split("_")[1]) % 2 else f"{path.stem}: is even."

    batch = write_shapes(tmp_path, "bowl", 3, 7, odd_ones_only, quiet)
    names = sorted(path.stem for path in tmp_path.glob("*.obj"))
    assert [name[:8] for name in batch.kept] == ["bowl_001", "bowl_003", "bowl_005"]
    assert names == list(batch.kept)
    assert [refusal.name[:8] for refusal in batch.refused] == ["bowl_000", "bowl_002", "bowl_004"]
    assert "is even" in batch.refused[0].reason
    # The same again goes on with what is there; another seed does not mix with it.
    assert write_shapes(tmp_path, "bowl", 3, 7, odd_ones_only, quiet) == batch
    with pytest.raises(SystemExit, match="another shape"):
        write_shapes(tmp_path, "bowl", 3, 8, lambda path, kind: "", quiet)


def test_draws_are_bounded(tmp_path):
    told = []
    batch = write_shapes(tmp_path, "bottle", 2, 7, lambda path, kind: "no.", told.append)
    assert batch.kept == ()
    assert len(batch.refused) == len(told) == DRAWS * 2
    assert not list(tmp_path.glob("*.obj"))


def test_other_meshes_in_the_folder_are_told(tmp_path):
    (tmp_path / "mine.obj").write_text("v 0 0 0\n")
    with pytest.raises(SystemExit, match="mine"):
        write_shapes(tmp_path, "bottle", 1, 7, lambda path, kind: "", quiet)


def test_the_contact_sheet_shows_all(tmp_path):
    write_shapes(tmp_path, "bottle", 2, 7, lambda path, kind: "", quiet)
    sheet = np.asarray(contact_sheet(tmp_path, "bottle", columns=2))
    left, right = np.array_split(sheet, 2, axis=1)
    assert left.std() > 5
    assert right.std() > 5
