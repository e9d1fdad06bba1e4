"""The renderer against ray casting, and pictures against what a person would expect of them."""

import numpy as np
import pytest
import trimesh
from PIL import Image

from handful.clouds import Intrinsics, PointCloud, cloud_from_rgbd
from handful.errors import GeometryError, OptionError
from handful.render import (
    Camera,
    ColoredMesh,
    PictureStyle,
    arrow_mesh,
    arrows_mesh,
    ball_mesh,
    beside,
    best_view,
    box_mesh,
    draw_picture,
    frame_meshes,
    framed,
    gripper_mesh,
    joined,
    look_at,
    orbit,
    render_rgbd,
    revolved_mesh,
    tile,
    tube_mesh,
    visible_points,
)
from handful.render import _raster as raster
from handful.render._raster import NEAR, DepthBuffer, draw_discs, draw_triangles

SMALL = Intrinsics.from_field_of_view(40, 30, 0.9)
RED, GREY = (1.0, 0.0, 0.0), (0.5, 0.5, 0.5)


def rays(view: Intrinsics) -> np.ndarray:
    row, column = np.mgrid[: view.height, : view.width]
    return np.stack(
        [(column - view.cx) / view.fx, (row - view.cy) / view.fy, np.ones(row.shape)], axis=-1
    )


def cast(triangles: np.ndarray, view: Intrinsics) -> np.ndarray:
    """Slow reference: nearest depth by solving for each ray and triangle, 0 where none."""
    nearest = np.full((view.height, view.width), np.inf)
    for a, b, c in triangles:
        for pixel in np.ndindex(nearest.shape):
            system = np.stack([b - a, c - a, -rays(view)[pixel]], axis=1)
            if abs(np.linalg.det(system)) < 1e-15:
                continue
            u, v, z = np.linalg.solve(system, -a)
            if min(u, v, 1 - u - v) >= 0 and NEAR <= z < nearest[pixel]:
                nearest[pixel] = z
    return np.where(np.isinf(nearest), 0.0, nearest)


def drawn(triangles: np.ndarray, view: Intrinsics) -> DepthBuffer:
    buffer = DepthBuffer(view)
    draw_triangles(buffer, triangles)
    return buffer


# --- triangles ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_depth_equals_ray_casting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    triangles = rng.normal(size=(6, 3, 3)) * 0.3 + np.array([0.0, 0.0, 0.8])
    triangles[0, 0, 2] = -0.4  # crosses the camera's plane
    view = Intrinsics.from_field_of_view(16, 12, 0.9)
    np.testing.assert_allclose(drawn(triangles, view).depth(), cast(triangles, view), atol=1e-9)


def test_plane_that_passes_under_the_camera_is_exact() -> None:
    corners = np.array([[-9, 0.2, -9], [9, 0.2, -9], [9, 0.2, 9], [-9, 0.2, 9.0]])
    depth = drawn(corners[[[0, 1, 2], [0, 2, 3]]], SMALL).depth()
    slope = rays(SMALL)[..., 1]
    below = (slope > 0) & (0.2 / np.maximum(slope, 1e-9) < 9.0)
    np.testing.assert_allclose(depth[below], 0.2 / slope[below], rtol=1e-9)
    assert not depth[slope <= 0].any()


def test_shared_edges_leave_no_crack() -> None:
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.linspace(-2, 2, 9), np.linspace(-2, 2, 9)), axis=-1)
    grid[1:-1, 1:-1] += rng.uniform(-0.15, 0.15, size=(7, 7, 2))
    points = np.concatenate([grid.reshape(-1, 2), np.ones((81, 1))], axis=1)
    corner = (9 * np.arange(8)[:, None] + np.arange(8)).reshape(-1, 1)
    faces = np.concatenate([np.add(corner, (0, 1, 10)), np.add(corner, (0, 10, 9))])
    assert drawn(points[faces], SMALL).covered.all()


def test_nearest_wins_in_any_order() -> None:
    square = np.array([[[-1, -1, 0], [3, -1, 0], [-1, 3, 0]]], dtype=float)
    near, far = (square + np.array([0.0, 0.0, z]) for z in (1.0, 2.0))
    for order in ([near, far], [far, near]):
        np.testing.assert_allclose(drawn(np.concatenate(order), SMALL).depth(), 1.0)


def test_small_pieces_give_the_same_image(monkeypatch: pytest.MonkeyPatch) -> None:
    triangles = np.random.default_rng(1).normal(size=(40, 3, 3)) * 0.2 + [0, 0, 1.0]
    whole = drawn(triangles, SMALL)
    monkeypatch.setattr(raster, "CHUNK", 7)
    pieces = drawn(triangles, SMALL)
    np.testing.assert_array_equal(whole.inverse_depth, pieces.inverse_depth)
    np.testing.assert_array_equal(whole.owner, pieces.owner)


def test_behind_too_near_and_degenerate_triangles_are_not_drawn() -> None:
    triangle = np.array([[[-1, -1, 0], [1, -1, 0], [0, 1, 0]]], dtype=float)
    line = np.array([[[-1, 0, 1], [0, 0, 1], [1, 0, 1]]], dtype=float)
    for bad in (triangle - [0, 0, 1.0], triangle * NEAR + [0, 0, NEAR / 2], line):
        assert not drawn(bad, SMALL).covered.any()
    assert not drawn(np.zeros((0, 3, 3)), SMALL).covered.any()


# --- depth cameras -----------------------------------------------------------------------------


def test_rendered_cloud_lies_on_the_sphere() -> None:
    ball = trimesh.creation.icosphere(subdivisions=5, radius=0.05)
    mesh = ColoredMesh.from_trimesh(ball.apply_translation([0.1, 0.0, 0.3]), RED)
    cameras = [look_at(eye, (0.1, 0, 0.3), SMALL) for eye in [(0.4, 0, 0.3), (0.1, -0.2, 0.6)]]
    cloud = cloud_from_rgbd([render_rgbd([mesh], camera) for camera in cameras])
    distance = np.linalg.norm(cloud.points - [0.1, 0.0, 0.3], axis=1)
    assert len(cloud) > 100
    np.testing.assert_allclose(distance, 0.05, atol=1e-4)
    assert cloud.colors is not None
    assert (cloud.colors[:, 0] > 0.3).all()
    assert not cloud.colors[:, 1:].any()


def test_both_sides_are_lit_and_the_sunny_side_more() -> None:
    floor = box_mesh((-1, -1, 0), (1, 1, 1e-3), GREY)
    above, below = (
        render_rgbd([floor], look_at((0, 0.01, z), (0, 0, 0), SMALL)).color[15, 20, 0]
        for z in (1.0, -1.0)
    )
    assert above > below > 60


def test_nothing_gives_an_empty_view() -> None:
    view = render_rgbd([], look_at((1, 0, 0), (0, 0, 0), SMALL))
    assert not view.depth.any()
    assert not view.color.any()


# --- cameras -----------------------------------------------------------------------------------


def test_look_at_centres_the_target_with_up_upwards() -> None:
    camera = look_at((0.4, -0.3, 0.6), (0.1, 0.1, 0.1), SMALL)
    target = np.array([[0.1, 0.1, 0.1], [0.1, 0.1, 0.2]])
    (middle, above) = camera.project(target)
    np.testing.assert_allclose(middle, [SMALL.cx, SMALL.cy], atol=1e-9)
    assert above[0] == pytest.approx(SMALL.cx)
    assert above[1] < SMALL.cy
    assert np.linalg.det(camera.T_scene_camera[:3, :3]) == pytest.approx(1.0)


@pytest.mark.parametrize("eye", [(0, 0, 1.0), (0, 0, -1.0)])
def test_look_at_straight_down_and_up(eye: tuple[float, float, float]) -> None:
    camera = look_at(eye, (0, 0, 0), SMALL)
    assert np.linalg.det(camera.T_scene_camera[:3, :3]) == pytest.approx(1.0)


def test_magnified_camera_keeps_the_view() -> None:
    camera = look_at((0.4, -0.3, 0.6), (0.1, 0.1, 0.1), SMALL)
    points = np.random.default_rng(0).uniform(-0.1, 0.1, size=(5, 3))
    fine = camera.magnified(2).project(points)
    np.testing.assert_allclose((fine - 0.5) / 2, camera.project(points))


def test_bad_cameras_and_meshes_are_refused() -> None:
    with pytest.raises(GeometryError, match="coincide"):
        look_at((1, 1, 1), (1, 1, 1), SMALL)
    with pytest.raises(GeometryError, match="finite"):
        look_at((np.nan, 1, 1), (1, 1, 0), SMALL)
    for bad in (2 * np.eye(4), np.full((4, 4), np.nan)):
        with pytest.raises(GeometryError, match="rigid"):
            Camera(SMALL, bad)
    corners = np.eye(3)
    with pytest.raises(GeometryError, match="numbered"):
        ColoredMesh(corners, np.array([[0, 1, 3]]), RED)
    with pytest.raises(GeometryError, match="NaN"):
        ColoredMesh(corners * np.nan, np.array([[0, 1, 2]]), RED)
    with pytest.raises(GeometryError, match="0 to 1"):
        ColoredMesh(corners, np.array([[0, 1, 2]]), (2.0, 0.0, 0.0))


# --- shapes ------------------------------------------------------------------------------------


def test_shapes_are_closed_and_outward() -> None:
    angle = np.linspace(0, 2, 9)
    path = np.stack([np.cos(angle), np.sin(angle), angle], axis=1)
    profile = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0], [0.0, 1.0]])
    meshes = [
        box_mesh((0, 0, 0), (1, 2, 3), RED),
        revolved_mesh(profile, RED),
        tube_mesh(path, 0.1, RED),
        arrow_mesh(np.zeros(3), np.array([0.0, 0.0, 0.2])),
        arrows_mesh(np.zeros((4, 3)), np.random.default_rng(0).normal(size=(4, 3))),
        ball_mesh(np.ones(3), 0.2, RED),
    ]
    for mesh in meshes:
        solid = trimesh.Trimesh(mesh.vertices, mesh.faces)
        assert solid.is_watertight
        assert solid.volume > 0
    assert trimesh.Trimesh(meshes[0].vertices, meshes[0].faces).volume == pytest.approx(6.0)


def test_arrow_spans_its_ends() -> None:
    arrow = arrow_mesh(np.array([0.0, 0, 0.1]), np.array([0.0, 0, 0.3]), width=0.01)
    assert arrow.vertices[:, 2].min() == pytest.approx(0.1)
    assert arrow.vertices[:, 2].max() == pytest.approx(0.3)
    with pytest.raises(GeometryError, match="no direction"):
        arrow_mesh(np.zeros(3), np.zeros(3))


def test_many_arrows_are_the_single_ones_and_those_without_length_are_left_out() -> None:
    rng = np.random.default_rng(0)
    starts, ends = rng.normal(size=(2, 5, 3))
    ends[2] = starts[2]
    many = arrows_mesh(starts, ends, RED, width=0.01, sides=16)
    single = [arrow_mesh(starts[i], ends[i], RED, width=0.01) for i in (0, 1, 3, 4)]
    np.testing.assert_allclose(many.triangles, joined(single).triangles)
    assert not len(arrows_mesh(starts[:0], ends[:0]).faces)


def test_ball_is_round_and_in_place() -> None:
    ball = ball_mesh(np.array([1.0, 2.0, 3.0]), 0.1, RED, 0.5)
    np.testing.assert_allclose(np.linalg.norm(ball.vertices - [1, 2, 3], axis=1), 0.1)
    assert ball.opacity == 0.5


def test_frame_has_red_x_and_blue_z() -> None:
    x, _, z = frame_meshes(np.eye(4), 0.1)
    assert x.vertices[:, 0].max() == pytest.approx(0.1)
    assert z.vertices[:, 2].max() == pytest.approx(0.1)
    assert np.argmax(x.color) == 0
    assert np.argmax(z.color) == 2


@pytest.mark.parametrize("axis", ["x", "y"])
def test_gripper_opens_along_its_axis(axis: str) -> None:
    mesh = gripper_mesh(tip=0.2, opening=0.06, axis=axis)
    assert mesh.vertices[:, 2].max() == pytest.approx(0.2)
    tips = mesh.vertices[mesh.vertices[:, 2] > 0.199]
    across = np.abs(tips[:, "xy".index(axis)])
    assert across.min() == pytest.approx(0.03)
    assert len({tuple(np.sign(tip)) for tip in tips[:, :2]}) == 4


def test_joined_keeps_every_triangle() -> None:
    boxes = [box_mesh((0, 0, 0), (1, 1, 1), RED), box_mesh((2, 0, 0), (3, 1, 1), GREY)]
    both = joined(boxes)
    np.testing.assert_array_equal(both.triangles, np.concatenate([box.triangles for box in boxes]))
    assert both.color == RED
    with pytest.raises(GeometryError, match="got none"):
        joined([])


# --- points ------------------------------------------------------------------------------------


def test_discs_cover_their_area_and_shrink_with_distance() -> None:
    view = Intrinsics.from_field_of_view(200, 200, 0.8)
    counts = []
    for z in (0.5, 1.0):
        buffer = DepthBuffer(view)
        draw_discs(buffer, np.array([[0.0, 0.0, z]]), np.array([0.05]))
        counts.append(buffer.covered.sum())
        assert counts[-1] == pytest.approx(np.pi * (0.05 * view.fx / z) ** 2, rel=0.02)
        assert buffer.depth()[100, 100] == pytest.approx(z, abs=1e-3)
    assert counts[0] > 3.5 * counts[1]


def test_near_discs_hide_far_ones_and_each_pixel_takes_the_nearest_centre() -> None:
    buffer = DepthBuffer(SMALL)
    centers = np.array([[0.0, 0, 1.0], [0.0, 0, 2.0], [0.1, 0, 1.0], [0.0, 0.0, -1.0]])
    draw_discs(buffer, centers, np.full(4, 0.2), first_owner=5)
    assert set(np.unique(buffer.owner)) == {-1, 5, 7}
    assert buffer.owner[15, 19] == 5
    assert buffer.owner[15, 24] == 7


# --- pictures ----------------------------------------------------------------------------------


def plane_cloud(z: float, color: tuple[float, float, float] | None = GREY) -> PointCloud:
    side = np.linspace(-0.1, 0.1, 60)
    xy = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    cloud = PointCloud(np.concatenate([xy, np.full((len(xy), 1), z)], axis=1))
    return cloud if color is None else cloud.painted(color)


TOP = look_at((0.0, -0.001, 0.4), (0, 0, 0), Intrinsics.from_field_of_view(80, 60, 0.7))


def test_even_cloud_has_no_holes_and_keeps_its_colour() -> None:
    image = np.asarray(draw_picture([plane_cloud(0.0)], [], TOP))
    assert image.shape == (60, 80, 3)
    inside = image[20:40, 25:55].astype(int)
    assert np.abs(inside - 128).max() < 25


def test_nothing_to_draw_is_background() -> None:
    image = np.asarray(draw_picture([], [], TOP))
    assert len(np.unique(image.reshape(-1, 3), axis=0)) == 1
    away = look_at((0, -0.001, 0.4), (0, 0, 1.0), TOP.intrinsics)
    np.testing.assert_array_equal(np.asarray(draw_picture([plane_cloud(0.0)], [], away)), image)


def test_meshes_hide_points_and_see_through_ones_do_not() -> None:
    lid = box_mesh((-0.05, -0.05, 0.05), (0.05, 0.05, 0.06), RED)
    middle = (slice(25, 35), slice(35, 45))
    results = {}
    for opacity in (1.0, 0.5):
        mesh = lid.recolored(RED, opacity)
        results[opacity] = np.asarray(draw_picture([plane_cloud(0.0)], [mesh], TOP))[middle]
    assert results[1.0][..., 1].max() == 0
    assert 40 < results[0.5][..., 1].mean() < 90
    behind = box_mesh((-0.05, -0.05, -0.06), (0.05, 0.05, -0.05), RED)
    hidden = np.asarray(draw_picture([plane_cloud(0.0)], [behind], TOP))[middle]
    faint = np.asarray(draw_picture([plane_cloud(0.0)], [behind.recolored(RED, 0.5)], TOP))[middle]
    assert hidden[..., 0].mean() < faint[..., 0].mean() < results[0.5][..., 0].mean()


def test_edges_darken_what_lies_behind_them() -> None:
    high = plane_cloud(0.1).within(np.array([0.0, 0.0, 0.1]), 0.03)
    bright, dark = (
        np.asarray(
            draw_picture([plane_cloud(0.0), high], [], TOP, PictureStyle(edge_darkness=strength))
        ).min()
        for strength in (0.0, 1.0)
    )
    assert dark < bright - 30


def test_cloud_without_colours_is_coloured_by_height() -> None:
    rng = np.random.default_rng(0)
    cloud = PointCloud(rng.uniform(-0.1, 0.1, size=(3000, 3)))
    side = look_at((0.0, -0.5, 0.0), (0, 0, 0), TOP.intrinsics)
    image = np.asarray(draw_picture([cloud], [], side)).astype(float)
    top, bottom = image[18:22, 35:45].mean((0, 1)), image[38:42, 35:45].mean((0, 1))
    assert top[0] > bottom[0] + 30


def test_caption_is_written() -> None:
    plain, labelled = (np.asarray(draw_picture([], [], TOP, caption=text)) for text in ("", "mug"))
    assert (plain != labelled).any()
    assert (plain[:30] == labelled[:30]).all()


def test_bad_styles_are_refused() -> None:
    with pytest.raises(OptionError, match="point_size"):
        PictureStyle(point_size=float("nan"))
    with pytest.raises(OptionError, match="smoothing"):
        PictureStyle(smoothing=9)


def test_tile_and_beside_sizes() -> None:
    images = [Image.new("RGB", (30, 20), "red")] * 3
    sheet = tile(images, columns=2, gap=4)
    assert sheet.size == (4 + 2 * 34, 4 + 2 * 24)
    assert sheet.getpixel((5, 5)) == (255, 0, 0)
    assert sheet.getpixel((60, 40)) == (255, 255, 255)
    assert tile(images, 2, captions=["a", "b", "c"], title="t", gap=4).height > sheet.height
    assert beside(images[:2], gap=3).size == (63, 20)


def test_a_title_longer_than_the_sheet_is_broken_into_lines() -> None:
    image = [Image.new("RGB", (300, 20), "red")]
    short = tile(image, 1, title="Hang the cup.")
    long = tile(image, 1, title="Hang the cup on the hook. " * 8)
    assert long.width == short.width
    assert long.height > short.height + 50
    right = np.asarray(long.convert("L"))[: long.height - 40, -4:]
    assert (right == 255).all(), "the title reaches the edge of the sheet"


def test_a_sheet_of_nothing_is_refused() -> None:
    images = [Image.new("RGB", (30, 20), "red")] * 3
    with pytest.raises(OptionError, match="captions"):
        tile(images, 2, captions=["a"])
    with pytest.raises(OptionError, match="need one of each"):
        tile([], 2)


# --- viewpoints --------------------------------------------------------------------------------


def test_orbit_shows_the_whole_ball() -> None:
    ball = trimesh.creation.icosphere(radius=0.2).vertices + np.array([0.1, 0.2, 0.3])
    for camera in orbit(np.array([0.1, 0.2, 0.3]), 0.2, TOP.intrinsics):
        pixels = camera.project(ball)
        assert (pixels > -1).all()
        assert (pixels < [81, 61]).all()
        assert pixels[:, 1].max() - pixels[:, 1].min() > 55


@pytest.mark.parametrize("seed", range(4))
def test_framed_points_just_fill_the_image(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(200, 3)) * rng.uniform(0.05, 0.5, size=3) + rng.normal(size=3)
    view = Intrinsics(90.0, 80.0, 30.0, 33.0, 80, 60)
    camera = framed(look_at(rng.normal(size=3), rng.normal(size=3), view), points, margin=0.1)
    pixels = camera.project(points) + 0.5
    assert (camera.to_camera(points)[:, 2] > NEAR).all()
    low, high = pixels.min(axis=0) / [80, 60], pixels.max(axis=0) / [80, 60]
    assert (low >= 0.1 - 1e-9).all()
    assert (high <= 0.9 + 1e-9).all()
    assert (np.abs([low - 0.1, high - 0.9]).max(axis=0) < 1e-9).any(), "one direction is filled"


def test_framing_one_point_keeps_it_in_front() -> None:
    point = np.array([[0.1, 0.2, 0.3]])
    camera = framed(TOP, point)
    np.testing.assert_allclose(camera.project(point)[0], [TOP.intrinsics.cx, TOP.intrinsics.cy])
    assert camera.to_camera(point)[0, 2] > NEAR


def test_points_behind_a_surface_or_outside_the_image_are_not_visible() -> None:
    near, far = plane_cloud(0.05).points, plane_cloud(0.0).points
    aside, behind = np.array([[0.9, 0.0, 0.0]]), np.array([[0.0, 0.0, 0.9]])
    seen = visible_points(np.concatenate([near, far, aside, behind]).astype(float), TOP)
    middle = np.tile(np.linalg.norm(near[:, :2], axis=1) < 0.05, 2)
    assert seen[: len(near)][middle[: len(near)]].all()
    assert not seen[len(near) : -2][middle[len(near) :]].any()
    assert not seen[-2:].any()


def test_best_view_looks_past_the_wall() -> None:
    rng = np.random.default_rng(0)
    thing = rng.normal(size=(400, 3)) * 0.01
    wall = np.stack([np.full(4000, 0.06), *rng.uniform(-0.15, 0.15, size=(2, 4000))], axis=1)
    interest = np.repeat([1.0, 0.0], [400, 4000])[:, None]
    cameras = orbit(np.zeros(3), 0.1, TOP.intrinsics, elevations=(0.2,), azimuths=4)
    best = best_view(np.concatenate([thing, wall]), interest, cameras)
    assert best.position[0] < 0.05
    with pytest.raises(OptionError, match="camera"):
        best_view(thing, interest[:400], [])
