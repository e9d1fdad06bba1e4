"""Every layer: equivariant, local, smooth, differentiable, and the same function as e3nn's."""

import math
from functools import cache
from itertools import pairwise
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from equivariance import assert_equal_up_to_rounding, random_poses, relative_error
from handful.clouds import radius_graph, radius_neighbours
from handful.errors import OptionError
from handful.geometry import (
    haar_rotations,
    pose_apply,
    pose_to_rotation_translation,
    wigner_d_blocks,
)
from handful.geometry import rotate_features as rotated
from handful.nn import (
    DepthwiseTransformerLayer,
    EdgeConvolution,
    EdgeGeometry,
    EquivariantLinear,
    EquivariantNorm,
    FieldEdges,
    Gate,
    RadialNetwork,
    TensorFieldLayer,
    TransformerLayer,
    Types,
    _depthwise,
    _field_sums,
    _pointwise,
    smooth_cutoff,
)
from handful.nn._edge_turns import edge_turns
from handful.nn._frames import frame_rotation
from handful.nn._radial import bernstein_basis
from handful.nn._transformer import LOGIT_LIMIT
from reference_convolution import reference_messages

RADIUS = 0.05
CHANNELS = 8


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_points(count: int = 40, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    points = torch.rand(count, 3, generator=generator(seed), dtype=torch.float64) * 0.12
    return points.to(dtype)


def graph(points: Tensor) -> EdgeGeometry:
    edges = radius_graph(points.detach().double().numpy(), RADIUS)
    return EdgeGeometry.between(
        torch.from_numpy(edges.target), torch.from_numpy(edges.source), points, points, RADIUS
    )


def queries_to(points: Tensor, where: Tensor) -> FieldEdges:
    found = radius_neighbours(where.detach().double().numpy(), points.double().numpy(), RADIUS)
    return FieldEdges(
        torch.from_numpy(found.target), torch.from_numpy(found.source), where, points, RADIUS
    )


def random_features(
    count: int, degree: int, dtype: torch.dtype, channels: int = CHANNELS
) -> Tensor:
    return torch.randn(count, (degree + 1) ** 2, channels, generator=generator(1)).to(dtype)


class FieldOfPoints(nn.Module):
    """A tensor-field layer as a function of features and points, at fixed places."""

    def __init__(self, degree: int, types: Types) -> None:
        super().__init__()
        self.layer = TensorFieldLayer(degree, CHANNELS, types)

    def forward(self, features: Tensor, points: Tensor, where: Tensor) -> Tensor:
        matrices = self.layer.point_matrices(features, self.layer.kernel())
        return self.layer(matrices, queries_to(points, where))


# --- point-wise layers --------------------------------------------------------------------------

POINTWISE = {
    "linear": lambda: EquivariantLinear(2, CHANNELS, 6),
    "norm": lambda: EquivariantNorm(2, CHANNELS),
    "gate": lambda: Gate(2, CHANNELS),
    "gate that knows sizes": lambda: Gate(2, CHANNELS, sizes=True),
    "gate of scalars": lambda: Gate(0, CHANNELS),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_layers_are_equivariant(name, dtype):
    torch.manual_seed(0)
    layer = POINTWISE[name]().to(dtype)
    degree = 0 if "scalars" in name else 2
    features = random_features(20, degree, dtype)
    turn = haar_rotations(20, generator=generator(2), dtype=dtype)
    assert_equal_up_to_rounding(layer(rotated(features, turn)), rotated(layer(features), turn))


class BrokenGate(Gate):
    """Applies the non-linearity to every component: not equivariant."""

    def forward(self, features: Tensor) -> Tensor:
        return nn.functional.silu(features)


class BrokenNorm(EquivariantNorm):
    """Gives NaN."""

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features) * math.nan


@pytest.mark.parametrize("layer", [BrokenGate(2, CHANNELS), BrokenNorm(2, CHANNELS)])
def test_a_broken_layer_fails(layer):
    layer = layer.double()
    features = random_features(20, 2, torch.float64)
    turn = haar_rotations(20, generator=generator(2), dtype=torch.float64)
    with pytest.raises(AssertionError, match="relative error"):
        assert_equal_up_to_rounding(layer(rotated(features, turn)), rotated(layer(features), turn))


def test_scalars_of_a_gate_depend_on_the_sizes_of_vectors_if_they_are_to():
    torch.manual_seed(0)
    features = random_features(5, 2, torch.float64)
    larger = features.clone()
    larger[:, 1:] *= 2.0
    for sizes in (False, True):
        layer = Gate(2, CHANNELS, sizes).double()
        same = torch.equal(layer(features)[:, 0], layer(larger)[:, 0])
        assert same != sizes


def test_a_gate_that_knows_sizes_is_smooth_at_zero():
    torch.manual_seed(0)
    layer = Gate(2, 4, sizes=True).double()
    zero = torch.zeros(3, 9, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (zero,))


def test_norm_is_smooth_at_zero():
    layer = EquivariantNorm(1, 4).double()
    zero = torch.zeros(3, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (zero,))


# --- the convolution ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degree_in", "degree_out"), [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2), (2, 3), (3, 1)]
)
def test_edge_convolution_is_e3nns_tensor_product(degree_in, degree_out):
    torch.manual_seed(degree_in * 5 + degree_out)
    convolution = EdgeConvolution(degree_in, degree_out, 3, 2).double()
    direction = nn.functional.normalize(torch.randn(9, 3, dtype=torch.float64), dim=1)
    length = torch.rand(9, dtype=torch.float64)
    edges = EdgeGeometry(torch.arange(9), torch.arange(9), length, direction, 9)
    features = torch.randn(9, (degree_in + 1) ** 2, 3, dtype=torch.float64)
    order = convolution.max_order
    messages, _ = convolution(features, edges, edges.alignment(degree_in, order))
    ours = edges.alignment(degree_out, order).transpose(1, 2) @ messages
    assert_equal_up_to_rounding(ours, reference_messages(convolution, features, edges))


def test_a_convolution_that_leaves_an_order_out_is_not_e3nns():
    """The broken control; and the reason why all orders that both ends have are kept."""
    torch.manual_seed(0)
    convolution = EdgeConvolution(2, 2, 3, 2).double()
    edges = graph(random_points(6))
    features = torch.randn(len(edges.source), 9, 3, dtype=torch.float64)
    expected = reference_messages(convolution, features, edges)
    with torch.no_grad():
        convolution.pairs[-1].zero_()
    alignment = edges.alignment(2, 2)
    messages, _ = convolution(features, edges, alignment)
    with pytest.raises(AssertionError, match="relative error"):
        assert_equal_up_to_rounding(alignment.transpose(1, 2) @ messages, expected)


def test_messages_do_not_depend_on_the_choice_of_frame(monkeypatch):
    """Any turn about the edge gives the same message."""
    torch.manual_seed(0)
    convolution = EdgeConvolution(2, 2, CHANNELS, CHANNELS).double()
    points = random_points()
    features = random_features(40, 2, torch.float64)

    def messages() -> Tensor:
        edges = graph(points)
        alignment = edges.alignment(2, 2)
        local, _ = convolution(features[edges.source], edges, alignment)
        return alignment.transpose(1, 2) @ local

    expected = messages()

    def turned_frame(direction: Tensor) -> Tensor:
        angle = torch.rand(len(direction), dtype=direction.dtype) * 6
        cos, sin, one, zero = angle.cos(), angle.sin(), torch.ones_like(angle), 0 * angle
        about_y = torch.stack([cos, zero, sin, zero, one, zero, -sin, zero, cos], -1)
        return about_y.view(-1, 3, 3) @ frame_rotation(direction)

    monkeypatch.setattr("handful.nn._frames.frame_rotation", turned_frame)
    assert_equal_up_to_rounding(messages(), expected)


@pytest.mark.parametrize("axis", [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0], [1, 1, 1]])
def test_frames_are_rotations_that_bring_the_edge_to_the_pole(axis):
    direction = nn.functional.normalize(torch.tensor([axis], dtype=torch.float64), dim=1)
    (frame,) = frame_rotation(direction)
    torch.testing.assert_close(frame @ direction[0], torch.tensor([0, 1, 0], dtype=torch.float64))
    torch.testing.assert_close(frame @ frame.T, torch.eye(3, dtype=torch.float64))
    assert torch.linalg.det(frame) > 0


def test_polar_rows_are_the_polar_rows_of_the_full_alignment():
    edges = graph(random_points())
    full = edges.alignment(3, 3)
    torch.testing.assert_close(edges.alignment(3, 0), full[:, :4], atol=1e-12, rtol=0)


# --- layers on graphs ---------------------------------------------------------------------------

LAYERS = {
    "transformer": lambda: TransformerLayer(2, 2, CHANNELS),
    "first transformer": lambda: TransformerLayer(0, 2, CHANNELS),
    "type-0 transformer": lambda: TransformerLayer(0, 0, CHANNELS),
    "growing transformer": lambda: TransformerLayer(1, 3, CHANNELS, heads=2),
    "transformer whose gate knows sizes": lambda: TransformerLayer(2, 2, CHANNELS, gate_sizes=True),
    "depthwise": lambda: DepthwiseTransformerLayer(2, 2, CHANNELS),
    "growing depthwise": lambda: DepthwiseTransformerLayer(1, 3, CHANNELS, heads=2),
    "shrinking depthwise": lambda: DepthwiseTransformerLayer(2, 1, CHANNELS),
}
IN_DEGREE = {
    "transformer": 2, "growing transformer": 1, "depthwise": 2, "growing depthwise": 1,
    "shrinking depthwise": 2, "transformer whose gate knows sizes": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_transformer_layers_are_equivariant(name, dtype):
    torch.manual_seed(0)
    layer = LAYERS[name]().to(dtype)
    degree = IN_DEGREE.get(name, 0)
    points = random_points(dtype=torch.float64)
    features = random_features(40, degree, dtype)
    expected = layer(features, graph(points.to(dtype)))
    for pose in random_poses(20, 3):
        rotation, _ = pose_to_rotation_translation(pose)
        turn = rotation.to(dtype)
        there = pose_apply(pose, points).to(dtype)
        # Rounding may add or remove a pair at the edge of the cut-off, where its weight is zero.
        assert_equal_up_to_rounding(
            layer(rotated(features, turn), graph(there)), rotated(expected, turn)
        )


@pytest.mark.parametrize("types", [(6, 4, 3, 2), (6,), (4, 0, 3), (0, 3)])
def test_tensor_fields_are_equivariant(types, dtype):
    torch.manual_seed(0)
    layer = FieldOfPoints(2, Types(types)).to(dtype)
    points, where = random_points(), random_points(15, seed=7)
    features = random_features(40, 2, dtype)
    expected = layer(features, points.to(dtype), where.to(dtype))
    for pose in random_poses(20, 4):
        turn = pose[:3, :3].to(dtype)
        there, asked = (pose_apply(pose, p).to(dtype) for p in (points, where))
        assert_equal_up_to_rounding(
            layer(rotated(features, turn), there, asked), Types(types).rotated(expected, turn)
        )


@pytest.mark.parametrize("name", ["transformer", "depthwise", "field"])
def test_layers_do_not_depend_on_the_order_of_points(name):
    torch.manual_seed(0)
    points, features = random_points(), random_features(40, 2, torch.float64)
    order = torch.randperm(40, generator=generator(5))
    if name == "field":
        layer, where = FieldOfPoints(2, Types((6, 4))).double(), random_points(9, seed=3)
        expected = layer(features, points, where)
        actual = layer(features[order], points[order], where)
    else:
        layer = LAYERS[name]().double()
        expected = layer(features, graph(points))[order]
        actual = layer(features[order], graph(points[order]))
    assert_equal_up_to_rounding(actual, expected)


def test_edges_in_parts_give_the_same_features_and_derivatives(monkeypatch):
    """However many edges are worked on at once; a part that is left out would be seen."""
    torch.manual_seed(0)
    layer = TransformerLayer(2, 2, CHANNELS).double()
    points = random_points()
    features = random_features(len(points), 2, torch.float64).requires_grad_()
    edges = len(graph(points).target)
    found = []
    for most in (10**6, 7, edges - 1):
        monkeypatch.setattr("handful.nn._transformer.EDGES_AT_ONCE", most)
        out = layer(features, graph(points))
        (slope,) = torch.autograd.grad(out.square().sum(), features)
        found.append((out.detach(), slope))
    for out, slope in found[1:]:
        torch.testing.assert_close(out, found[0][0], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(slope, found[0][1], rtol=1e-9, atol=1e-9)
    assert sum(len(part.target) for part in graph(points).parts(7)) == edges


@pytest.mark.parametrize("name", ["transformer", "depthwise"])
def test_points_beyond_the_radius_change_nothing(name):
    torch.manual_seed(0)
    transformer = LAYERS[name]().double()
    field = FieldOfPoints(2, Types((6, 4))).double()
    points, features = random_points(), random_features(41, 2, torch.float64)
    center = points.mean(0, keepdim=True)
    far = torch.cat([points, center + torch.tensor([[0.0, 0.0, 0.3]])])
    before = transformer(features[:40], graph(points))
    after = transformer(features, graph(far))[:40]
    assert torch.equal(before, after)
    assert torch.equal(field(features[:40], points, center), field(features, far, center))


@pytest.mark.parametrize("layer", ["transformer", "depthwise", "field"])
def test_a_neighbour_fades_in_smoothly(layer):
    """Across the cut-off the output changes by no more than the third power of the distance."""
    torch.manual_seed(0)
    features = random_features(3, 2, torch.float64)
    if layer in LAYERS:
        module = LAYERS[layer]().double()
    else:
        module = FieldOfPoints(2, Types((6, 4))).double()

    def output(distance: float) -> Tensor:
        points = torch.tensor([[0, 0, 0], [0.02, 0, 0], [0, distance, 0]], dtype=torch.float64)
        if layer in LAYERS:
            return module(features, graph(points))[:1]
        return module(features, points, torch.zeros(1, 3, dtype=torch.float64))

    outside = output(RADIUS * 1.001)
    steps = [1e-1, 1e-2, 1e-3]
    jumps = [(output(RADIUS * (1 - step)) - outside).abs().max().item() for step in steps]
    assert jumps[0] > 0
    for larger, smaller in pairwise(jumps):
        assert smaller < larger / 300


def test_a_field_falls_smoothly_to_the_vacuum():
    torch.manual_seed(0)
    layer = FieldOfPoints(2, Types((6, 4))).double()
    points, features = random_points(), random_features(40, 2, torch.float64)
    away = torch.tensor([[5.0, 5.0, 5.0], [-3.0, 0.0, 0.0]], dtype=torch.float64)
    vacuum = layer(features, points, away)
    assert torch.isfinite(vacuum).all()
    assert torch.equal(vacuum[0], vacuum[1])
    assert vacuum[0, :6].abs().max() > 0
    assert vacuum[0, 6:].abs().max() == 0
    edge = points[points[:, 0].argmax()] + torch.tensor([RADIUS * 0.999, 0.0, 0.0])
    near = layer(features, points, edge[None])
    assert relative_error(near.detach(), vacuum[:1].detach()) < 1e-6


def test_a_field_is_differentiable_where_it_meets_a_point():
    torch.manual_seed(0)
    layer = FieldOfPoints(2, Types((4, 3, 2))).double()
    points, features = random_points(), random_features(40, 2, torch.float64)
    where = points[:3].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(features, points, x), (where,), atol=1e-5)


@pytest.mark.parametrize("types", [(4, 3, 2), (1,)])
def test_a_field_can_be_differentiated_twice(types):
    torch.manual_seed(0)
    layer = FieldOfPoints(1, Types(types)).double()
    points, features = random_points(8), random_features(8, 1, torch.float64)
    where = random_points(2, seed=9).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: layer(features, points, x), (where,), atol=1e-4)


def test_gradients_of_weights_and_features_are_right():
    torch.manual_seed(0)
    layer = TransformerLayer(1, 1, 4, heads=2).double()
    points = random_points(6)
    features = random_features(6, 1, torch.float64, channels=4).requires_grad_()
    edges = graph(points)
    assert torch.autograd.gradcheck(lambda f: layer(f, edges), (features,), atol=1e-6)


def test_compiled_wigner_matrices_are_those_of_the_frames(dtype):
    axes = torch.cat([torch.eye(3), -torch.eye(3), torch.tensor([[1.0, 1, 0], [-1, 1, 1]])])
    given = torch.cat([axes, torch.randn(50, 3, generator=generator())])
    direction = nn.functional.normalize(given.double(), dim=1).to(dtype)
    blocks = wigner_d_blocks(frame_rotation(direction), 2)
    expected = torch.cat([block.flatten(1) for block in blocks], dim=1)
    atol = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(edge_turns(direction), expected, rtol=0, atol=atol)


def compile_for(monkeypatch: pytest.MonkeyPatch, size: str, module: ModuleType, name: str) -> None:
    """Let a module use kernels for just its sizes, or those for any size."""
    make = cache(getattr(module, name).__wrapped__)
    own, any_size = make, lambda *numbers: make(*numbers[:-1], 0)
    monkeypatch.setattr(module, name, own if size == "own" else any_size)


@pytest.mark.parametrize("size", ["own", "any"])
def test_compiled_messages_and_their_derivatives_are_those_of_array_operations(monkeypatch, size):
    compile_for(monkeypatch, size, _depthwise, "depthwise_kernels")
    torch.manual_seed(0)
    layer = DepthwiseTransformerLayer(2, 2, CHANNELS).double()
    points, features = random_points(), random_features(40, 2, torch.float64).requires_grad_()
    assert layer._convolution.compiled
    found = []
    for moving in (False, True):  # compiled, and by array operations
        edges = graph(points.clone().requires_grad_(moving))
        assert edges.differentiable == moving
        out = layer(features, edges)
        found.append([out, *torch.autograd.grad(out.sin().sum(), [features, *layer.parameters()])])
    for compiled, slow in zip(*found, strict=True):
        assert torch.isfinite(compiled).all()
        torch.testing.assert_close(compiled, slow, rtol=1e-9, atol=1e-9)
    parameters = dict(layer.named_parameters())
    assert all(slope.abs().max() > 0 for slope in found[0][2:]), parameters.keys()


@pytest.mark.parametrize("order", ["many", "few"])
@pytest.mark.parametrize(
    ("harmonic", "size"), [(2, "own"), (0, "any"), (1, "any"), (2, "any"), (3, "any")]
)
def test_compiled_fields_and_their_derivatives_are_those_of_array_operations(
    monkeypatch, harmonic, size, order
):
    compile_for(monkeypatch, size, _field_sums, "field_kernels")
    torch.manual_seed(0)
    layer = TensorFieldLayer(2, CHANNELS, Types((3, 2, 1)), max_harmonic=harmonic).double()
    points, features = random_points(), random_features(40, 2, torch.float64).requires_grad_()
    where = torch.cat([random_points(6, seed=3), points[:1]]).requires_grad_()
    edges, kernel = queries_to(points, where), layer.kernel()
    matrices = layer.point_matrices(features, kernel)
    if order == "many":
        compiled, slow = layer(matrices, edges), layer._product_sums(edges.geometry, matrices)
    else:
        compiled = layer.at_few(features, kernel, edges)
        sums, weight = layer._outer_sums(edges.geometry, features.flatten(1))
        by_basis = kernel.unflatten(1, (-1, layer.types.dim)).transpose(0, 1).flatten(0, 1)
        slow = sums.flatten(1) @ by_basis, weight
    expected = layer._mean(*slow)
    torch.testing.assert_close(compiled, expected, rtol=1e-9, atol=1e-9)
    inputs = [features, where, *layer._weights]
    slopes = [
        torch.autograd.grad(values.sin().sum(), inputs, retain_graph=True)
        for values in (compiled, expected)
    ]
    for by_compiled, by_slow in zip(*slopes, strict=True):
        assert by_slow.abs().max() > 0
        torch.testing.assert_close(by_compiled, by_slow, rtol=1e-9, atol=1e-9)
    # Where nothing is learned, only derivatives by positions are computed, and they are the same.
    if order == "many":
        known = layer(matrices.detach(), edges)
    else:
        known = layer.at_few(features.detach(), kernel.detach(), edges)
    (moved,) = torch.autograd.grad(known.sin().sum(), [where])
    torch.testing.assert_close(moved, slopes[0][1], rtol=1e-12, atol=1e-12)


def test_a_nan_goes_through_compiled_layers():
    """A network that is broken must not look healthy: compiled sums keep what is no number."""
    torch.manual_seed(0)
    layer, points = DepthwiseTransformerLayer(2, 2, CHANNELS).double(), random_points()
    field = FieldOfPoints(2, Types((3, 2))).double()
    features = random_features(40, 2, torch.float64)
    features[7, 1, 2] = math.nan
    assert torch.isnan(layer(features, graph(points))[7]).any()
    assert torch.isnan(field(features, points, points[7:8])).any()


@pytest.mark.parametrize("channels", [(3, 2, 1), (2,)])
def test_both_orders_of_the_sum_give_one_field_with_the_same_derivatives(channels):
    torch.manual_seed(0)
    layer = TensorFieldLayer(2, CHANNELS, Types(channels)).double()
    points = random_points(8)
    features = random_features(8, 2, torch.float64).requires_grad_()
    nowhere = torch.full((1, 3), 50.0, dtype=torch.float64)
    where = torch.cat([random_points(5, seed=3), nowhere, points[:1]]).requires_grad_()
    edges, kernel = queries_to(points, where), layer.kernel()
    many = layer(layer.point_matrices(features, kernel), edges)
    few = layer.at_few(features, kernel, edges)
    assert_equal_up_to_rounding(few, many)
    inputs = (features, where, *layer.parameters())
    slopes = []
    for values in (many, few):
        (slope,) = torch.autograd.grad(values.square().sum(), where, create_graph=True)
        slopes.append(torch.autograd.grad(slope.sin().sum() + values.sum(), inputs,
                                          allow_unused=True, retain_graph=True))  # fmt: skip
    for by_many, by_few in zip(*slopes, strict=True):
        assert (by_many is None) == (by_few is None)
        if by_many is not None:
            torch.testing.assert_close(by_few, by_many, rtol=1e-9, atol=1e-9)


def test_few_positions_without_any_neighbour_see_the_vacuum():
    torch.manual_seed(0)
    layer = TensorFieldLayer(1, CHANNELS, Types((2, 1))).double()
    points, where = random_points(4), torch.full((2, 3), 50.0, dtype=torch.float64)
    features = random_features(4, 1, torch.float64)
    kernel = layer.kernel()
    edges = queries_to(points, where)
    many = layer(layer.point_matrices(features, kernel), edges)
    assert_equal_up_to_rounding(layer.at_few(features, kernel, edges), many)


# --- pieces -------------------------------------------------------------------------------------


def test_cutoff_is_one_at_zero_and_gone_at_one():
    x = torch.linspace(0, 1.5, 2001, dtype=torch.float64, requires_grad=True)
    value = smooth_cutoff(x)
    (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x)
    assert value[0] == 1
    assert (value[x >= 1] == 0).all()
    assert (slope <= 0).all()
    for derivative in (value, slope, bend):
        assert derivative.diff().abs().max() < 0.05
    assert bend[0] == 0


def test_radial_basis_adds_up():
    length = torch.linspace(0, 1, 50, dtype=torch.float64)
    basis = bernstein_basis(length, 6)
    torch.testing.assert_close(basis.sum(1), torch.full((50,), math.sqrt(6), dtype=torch.float64))
    network = RadialNetwork(6, 8, 4).double()
    columns = torch.tensor([3, 0, 0, 2])
    torch.testing.assert_close(network.spread(length, columns), network(length)[:, columns])


@pytest.mark.parametrize("channels", [(), (0,), (3, -1), (2, 0), (1,) * 9])
def test_impossible_types_are_refused(channels):
    with pytest.raises(OptionError, match="descriptor channels"):
        Types(channels)


def test_types_rotate_like_the_uniform_layout():
    types = Types((3, 3, 3))
    flat = torch.randn(5, types.dim, generator=generator(), dtype=torch.float64)
    turn = haar_rotations(5, generator=generator(), dtype=torch.float64)
    uniform = rotated(flat.view(5, 9, 3), turn).flatten(1)
    torch.testing.assert_close(types.rotated(flat, turn), uniform)
    assert_equal_up_to_rounding(types.norms(types.rotated(flat, turn)), types.norms(flat))


def test_heads_must_share_out_the_channels():
    with pytest.raises(OptionError, match="8 channels cannot be shared out to 3 heads"):
        TransformerLayer(0, 1, 8, heads=3)


def test_a_lonely_point_hears_nobody():
    torch.manual_seed(0)
    layer = TransformerLayer(0, 2, CHANNELS).double()
    points = torch.tensor([[0.0, 0, 0], [1.0, 0, 0]], dtype=torch.float64)
    features = random_features(2, 0, torch.float64)
    out = layer(features, graph(points))
    alone = layer(features[:1], graph(points[:1]))
    torch.testing.assert_close(out[:1], alone)
    assert out[:, 1:].abs().max() == 0, "without neighbours there is no direction"
    assert torch.isfinite(out).all()
    assert out[:, 0].abs().max() > 0


# --- attention ----------------------------------------------------------------------------------


def attention(strength: float, points: Tensor) -> Tensor:
    """Weights [edges, heads] of a layer whose queries are `strength` times as long as usual."""
    torch.manual_seed(0)
    layer = TransformerLayer(0, 1, CHANNELS).double()
    edges = graph(points)
    features = random_features(len(points), 0, torch.float64)
    with torch.no_grad():
        layer._queries.weight.mul_(strength)
        inward = edges.alignment(0, 0)
        _, keys = layer._convolution(features.index_select(0, edges.source), edges, inward)
        count = len(edges.source)
        one_each = torch.eye(count, dtype=torch.float64)[:, :, None].expand(-1, -1, CHANNELS)
        strength = layer._strength(layer._queries(features[:, 0]), keys, edges)
        mean = layer._weighted_mean([(edges, one_each, strength)], len(points), count)
        return mean[edges.target, torch.arange(count)][:, :: CHANNELS // layer._heads]


@pytest.mark.parametrize("strength", [1.0, 1e3, 1e9])
def test_attention_adds_up_to_less_than_one(strength):
    """Because of the one in the denominator, which no limited logit can outweigh."""
    points = random_points()
    weights = attention(strength, points)
    total = torch.zeros(len(points), weights.shape[1], dtype=torch.float64)
    total.index_add_(0, graph(points).target, weights)
    assert (weights > 0).all()
    assert (total < 1).all()
    assert total.max() > 0.5


def test_no_neighbour_outweighs_another_by_more_than_the_limit_of_the_logits():
    """At equal distance the cut-off cancels, and logits differ by at most twice the limit."""
    around = nn.functional.normalize(torch.randn(30, 3, generator=generator(6)), dim=1).double()
    points = torch.cat([torch.zeros(1, 3, dtype=torch.float64), 0.03 * around])
    to_middle = graph(points).target == 0
    spread = []
    for strength in (1.0, 1e9):
        weights = attention(strength, points)[to_middle]
        spread.append((weights.max(0).values / weights.min(0).values).log().max().item())
    assert spread[0] < 2.0
    assert spread[1] == pytest.approx(2.0 * LOGIT_LIMIT, rel=1e-3)


# --- what the field's kernel leaves out ---------------------------------------------------------


@pytest.mark.parametrize(("harmonic", "reaches"), [(2, False), (3, True)])
def test_type_3_of_a_field_needs_more_than_scalars_where_harmonics_end_at_2(harmonic, reaches):
    """A type-0 feature becomes type 3 by harmonics of degree 3 only; the default has none."""
    torch.manual_seed(0)
    types = Types((2, 1, 1, 1))
    layer = TensorFieldLayer(1, CHANNELS, types, max_harmonic=harmonic).double()
    points, where = random_points(), random_points(9, seed=3)
    features = random_features(40, 1, torch.float64)

    def type_3(features: Tensor) -> Tensor:
        return layer(layer.point_matrices(features, layer.kernel()), queries_to(points, where))[
            :, -7:
        ]

    scalars = features.clone()
    scalars[:, 1:] = 0.0
    assert bool(type_3(scalars).abs().max() > 1e-6) is reaches
    assert type_3(features).abs().max() > 1e-6


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("sizes", [False, True])
def test_compiled_norms_and_gates_and_their_derivatives_are_those_of_array_operations(
    degree, sizes, monkeypatch
):
    torch.manual_seed(0)
    norm, gate = EquivariantNorm(degree, CHANNELS).double(), Gate(degree, CHANNELS, sizes).double()
    nn.init.normal_(norm.scale)
    features = random_features(20, degree, torch.float64).requires_grad_()

    def layers(values: Tensor) -> Tensor:
        return gate(norm(values))

    def slopes() -> list[Tensor]:
        out = layers(features)
        inputs = [features, *norm.parameters(), *gate.parameters()]
        return [out, *torch.autograd.grad(out.sin().sum(), inputs)]

    compiled = slopes()
    assert torch.autograd.gradgradcheck(layers, (features[:2].detach().requires_grad_(),))
    for function in ("_Normalised", "_Invariants", "_Gated"):
        monkeypatch.setattr(_pointwise, function, SlowFunction)
    for fast, slow in zip(compiled, slopes(), strict=True):
        assert torch.isfinite(slow).all()
        assert slow.abs().max() > 0
        torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)


class SlowFunction:
    """In the place of a compiled function: what that takes for derivatives of derivatives."""

    @staticmethod
    def apply(slow, *inputs):
        return slow(*(given for given in inputs if isinstance(given, Tensor)))


def test_a_linear_layer_mixes_the_channels_of_each_degree_by_its_own_matrix():
    torch.manual_seed(0)
    layer, features = (
        EquivariantLinear(2, CHANNELS, 3).double(),
        random_features(7, 2, torch.float64),
    )
    nn.init.normal_(layer.bias)
    out = layer(features)
    for row in range(9):
        degree = int(row**0.5)
        expected = features[:, row] @ layer.weight[degree] + (layer.bias if row == 0 else 0.0)
        torch.testing.assert_close(out[:, row], expected, rtol=1e-12, atol=1e-12)
