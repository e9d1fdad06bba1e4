"""Wigner matrices and spherical harmonics against e3nn and against the laws they must obey."""

import pytest
import torch
from e3nn import o3
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from handful import geometry as g
from handful.errors import GeometryError

MAX_DEGREE = 8


def rotations(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return g.haar_rotations(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def special_rotations() -> Tensor:
    """Identity, half turns, quarter turns about the polar axis, and rotations next to them."""
    angles = [0.0, 1e-9, 1e-4, torch.pi / 2, torch.pi - 1e-9, torch.pi]
    return torch.stack(
        [g.rotation_exp(a * torch.eye(3, dtype=torch.float64)[k]) for a in angles for k in range(3)]
    )


@pytest.fixture(autouse=True)
def _double_constants():
    """e3nn builds its constants in the default type; references need all digits."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def e3nn_wigner(rotation: Tensor, degree: int) -> Tensor:
    """Slow reference: matrix exponentials of the generators along the rotation vector."""
    generators = o3.so3_generators(degree).to(torch.float64)
    rotvec = g.rotation_log(rotation.double())
    return torch.linalg.matrix_exp(torch.einsum("...k,kij->...ij", rotvec, generators))


def check_steering(blocks: list[Tensor], rotation: Tensor, tolerance: float) -> None:
    """Y(R x) = D(R) Y(x) for every degree: the check that a Wigner matrix must pass."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 3, generator=generator, dtype=torch.float64).to(rotation.dtype)
    degrees = list(range(len(blocks)))
    sizes = [2 * degree + 1 for degree in degrees]
    before = g.spherical_harmonics(x, degrees[-1]).split(sizes, dim=-1)
    after = g.spherical_harmonics(g.rotation_apply(rotation, x), degrees[-1]).split(sizes, dim=-1)
    for block, old, new in zip(blocks, before, after, strict=True):
        torch.testing.assert_close(old @ block.mT, new, atol=tolerance, rtol=0.0)


@pytest.mark.parametrize("degree", range(MAX_DEGREE + 1))
def test_equals_e3nn(degree):
    rotation = torch.cat([rotations(degree, 100), special_rotations()])
    ours = g.wigner_d(rotation, degree)
    torch.testing.assert_close(ours, e3nn_wigner(rotation, degree), atol=1e-10, rtol=0.0)
    # e3nn's own path goes over Euler angles, which lose digits next to the poles.
    theirs = o3.Irrep(degree, 1).D_from_matrix(rotation[:100])
    torch.testing.assert_close(ours[:100], theirs, atol=1e-10, rtol=0.0)


@pytest.mark.parametrize("degree", range(MAX_DEGREE + 1))
def test_single_precision_stays_close(degree):
    rotation = rotations(degree, 1000, dtype=torch.float32)
    error = g.wigner_d(rotation, degree).double() - e3nn_wigner(rotation, degree)
    assert float(error.abs().max()) < 1e-5


@given(
    seed=st.integers(0, 2**31 - 1),
    shape=st.sampled_from([(), (3,), (2, 2), (0,)]),
    degree=st.integers(0, MAX_DEGREE),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_is_an_orthogonal_representation(seed, shape, degree, dtype):
    tolerance = 3e-5 if dtype == torch.float32 else 1e-12
    a, b = rotations(seed, *shape, dtype=dtype), rotations(seed + 1, *shape, dtype=dtype)
    d_a, d_b = g.wigner_d(a, degree), g.wigner_d(b, degree)
    size = 2 * degree + 1
    assert d_a.shape == (*shape, size, size)
    assert d_a.dtype == dtype
    close = {"atol": tolerance, "rtol": 0.0}
    identity = torch.eye(size, dtype=dtype).expand_as(d_a)
    torch.testing.assert_close(g.wigner_d(a @ b, degree), d_a @ d_b, **close)
    torch.testing.assert_close(d_a @ d_a.mT, identity, **close)
    torch.testing.assert_close(g.wigner_d(a.mT, degree), d_a.mT, **close)
    torch.testing.assert_close(g.wigner_d(a @ a.mT, degree), identity, **close)


def test_degree_one_is_the_rotation_itself(dtype):
    rotation = rotations(0, 5, dtype=dtype)
    assert torch.equal(g.wigner_d(rotation, 1), rotation)


def test_blocks_equal_single_degrees():
    rotation = rotations(1, 4)
    for degree, block in enumerate(g.wigner_d_blocks(rotation, 5)):
        torch.testing.assert_close(block, g.wigner_d(rotation, degree), atol=1e-13, rtol=0.0)


def test_steers_spherical_harmonics(dtype):
    rotation = rotations(2, dtype=dtype)
    blocks = g.wigner_d_blocks(rotation, MAX_DEGREE)
    check_steering(blocks, rotation, 2e-4 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("degree", [1, 2, 3, MAX_DEGREE])
@pytest.mark.parametrize("fault", ["transposed", "permuted", "nan"])
def test_steering_check_rejects_broken_matrices(degree, fault):
    rotation = rotations(3)
    blocks = g.wigner_d_blocks(rotation, MAX_DEGREE)
    broken = {
        "transposed": blocks[degree].mT,
        "permuted": blocks[degree].flip(-1),
        "nan": torch.full_like(blocks[degree], torch.nan),
    }[fault]
    blocks[degree] = broken
    with pytest.raises(AssertionError):
        check_steering(blocks, rotation, 1e-3)


@pytest.mark.parametrize("rotvec", [[0.3, -1.0, 0.5], [0.0, 0.0, 0.0], [0.0, torch.pi, 0.0]])
def test_gradient_matches_finite_differences(rotvec):
    rotvec = torch.tensor(rotvec, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda v: tuple(g.wigner_d_blocks(g.rotation_exp(v), 4)[1:]), (rotvec,), atol=1e-6
    )


def test_constants_made_in_inference_mode_serve_autograd():
    with torch.inference_mode():
        g.wigner_d_blocks(rotations(0, 2), 7)
    rotvec = torch.ones(3, dtype=torch.float64, requires_grad=True)
    g.wigner_d(g.rotation_exp(rotvec), 7).square().sum().backward()
    assert bool(torch.isfinite(rotvec.grad).all())


def test_rotate_features_is_the_block_diagonal_product(dtype):
    generator = torch.Generator().manual_seed(4)
    features = torch.randn(6, 16, 5, generator=generator, dtype=torch.float64).to(dtype)
    rotation = rotations(4, 6, dtype=dtype)
    dense = torch.stack([torch.block_diag(*g.wigner_d_blocks(one, 3)) for one in rotation])
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(
        g.rotate_features(features, rotation), dense @ features, atol=tolerance, rtol=0.0
    )
    one_for_all = g.rotate_features(features, rotation[0])
    torch.testing.assert_close(one_for_all, dense[0] @ features, atol=tolerance, rtol=0.0)


def test_wrong_sizes_are_named():
    rotation = rotations(0)
    with pytest.raises(GeometryError, match="5 components"):
        g.rotate_features(torch.zeros(5, 2), rotation.float())
    with pytest.raises(GeometryError, match="degree is -1"):
        g.wigner_d(rotation, -1)
    with pytest.raises(GeometryError, match="max_degree is -2"):
        g.spherical_harmonics(torch.zeros(3), -2)


@pytest.mark.parametrize("normalization", ["component", "norm"])
@pytest.mark.parametrize("normalize", [True, False])
def test_harmonics_equal_e3nn(normalization, normalize):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(4, 50, 3, generator=generator, dtype=torch.float64)
    x = torch.cat([x, torch.eye(3, dtype=torch.float64).expand(4, 3, 3)], dim=1)
    ours = g.spherical_harmonics(x, MAX_DEGREE, normalize=normalize, normalization=normalization)
    theirs = o3.spherical_harmonics(
        list(range(MAX_DEGREE + 1)), x, normalize, normalization=normalization
    )
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_harmonics_do_not_depend_on_length(scale, dtype):
    x = torch.tensor([[0.3, -0.5, 0.7], [0.0, 2.0, 0.0]], dtype=dtype)
    torch.testing.assert_close(
        g.spherical_harmonics(scale * x, 3), g.spherical_harmonics(x, 3), atol=1e-5, rtol=0.0
    )


def test_harmonics_component_normalisation_is_orthonormal_on_the_sphere():
    x = torch.randn(200_000, 3, generator=torch.Generator().manual_seed(6))
    y = g.spherical_harmonics(x, 2)
    torch.testing.assert_close(y.mT @ y / len(y), torch.eye(9), atol=0.02, rtol=0.0)


def test_harmonics_gradients():
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(5, 3, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: g.spherical_harmonics(v, 4), (x,))
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    value = g.spherical_harmonics(zero, 4)
    (gradient,) = torch.autograd.grad(value.sum(), zero)
    assert bool(torch.isfinite(gradient).all())
    assert torch.equal(value, torch.eye(25, dtype=torch.float64)[0])
