"""The slow, readable form of the edge-frame convolution: a sum over Clebsch-Gordan paths by e3nn.

`path_weights` maps the weights of `EdgeConvolution` to those of e3nn's tensor product: in the frame
of an edge the path J couples input order m to output order m' with the coefficient
C(l_out m', J 0, l_in m) Y_J0, and for each pair of degrees these must add up to the entries A_m and
B_m of the edge-frame matrices.
"""

import math

import torch
from e3nn import o3
from torch import Tensor

from handful.nn import EdgeConvolution, EdgeGeometry
from handful.nn._layout import rows_by_order

Path = tuple[int, int, int]


def dense_edge_kernel(convolution: EdgeConvolution) -> Tensor:
    """The kernel in the edge's frame without its radial factors.

    Returns:
        [in components, inputs, out components, outputs], components by degree.
    """
    order = convolution.max_order
    rows_in = rows_by_order(convolution.in_degree, order)
    rows_out = rows_by_order(convolution.out_degree, order)
    c_in, c_out = convolution.inputs, convolution.outputs
    kernel = torch.zeros(
        (convolution.in_degree + 1) ** 2, c_in, (convolution.out_degree + 1) ** 2, c_out
    ).to(convolution.polar)
    blocks = [convolution.polar[:, : (convolution.out_degree + 1) * c_out]]
    for a, b in convolution.pairs:
        blocks.append(torch.cat([torch.cat([a, b], 1), torch.cat([-b, a], 1)], 0))
    first_in = first_out = 0
    for block in blocks:
        n_in, n_out = block.shape[0] // c_in, block.shape[1] // c_out
        values = block.view(n_in, c_in, n_out, c_out)
        for i in range(n_in):
            for j in range(n_out):
                kernel[rows_in[first_in + i], :, rows_out[first_out + j]] = values[i, :, j]
        first_in, first_out = first_in + n_in, first_out + n_out
    return kernel


def path_coefficients(l_in: int, l_out: int) -> dict[int, Tensor]:
    """For each J, the matrix [m', m] that the path has in the edge's frame (edge along y)."""
    pole = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    matrices = {}
    for j in range(abs(l_in - l_out), l_in + l_out + 1):
        harmonics = o3.spherical_harmonics(j, pole, normalize=True, normalization="component")
        coupling = o3.wigner_3j(l_in, j, l_out, dtype=torch.float64)
        matrices[j] = torch.einsum("ijk,j->ki", coupling, harmonics)
    return matrices


def path_weights(convolution: EdgeConvolution, length: Tensor) -> dict[Path, Tensor]:
    """Weights [edges, inputs, outputs] of each path (l_in, J, l_out), radial factors included."""
    kernel = dense_edge_kernel(convolution).double()
    order = convolution.max_order
    factors = convolution.radial.spread(length, convolution._columns)
    factors = factors.view(len(length), -1, convolution.inputs).double()
    place = {row: i for i, row in enumerate(rows_by_order(convolution.in_degree, order))}
    weights: dict[Path, Tensor] = {}
    for l_in in range(convolution.in_degree + 1):
        for l_out in range(convolution.out_degree + 1):
            shared = min(l_in, l_out)
            matrices = path_coefficients(l_in, l_out)
            entries = [
                (m, sign * m) for m in range(shared + 1) for sign in ((1, -1) if m else (1,))
            ]
            system = torch.stack(
                [torch.stack([matrices[j][l_out + out, l_in + m] for m, out in entries])
                 for j in matrices], dim=1,
            )  # fmt: skip
            rows_in = [l_in**2 + l_in + m for m, _ in entries]
            rows_out = [l_out**2 + l_out + out for _, out in entries]
            target = torch.stack(
                [factors[:, place[i], :, None] * kernel[i, :, k]
                 for i, k in zip(rows_in, rows_out, strict=True)], dim=1,
            )  # fmt: skip
            solved = torch.einsum("je,neab->njab", torch.linalg.inv(system), target)
            for index, j in enumerate(matrices):
                weights[l_in, j, l_out] = solved[:, index]
    return weights


def reference_messages(
    convolution: EdgeConvolution, features: Tensor, edges: EdgeGeometry
) -> Tensor:
    """Messages in the scene's frame [edges, out components, outputs], by e3nn's tensor product.

    Args:
        convolution: Whose weights to use.
        features: Features of each edge's source [edges, in components, inputs].
        edges: The edges.
    """
    c_in, c_out = convolution.inputs, convolution.outputs
    degree_in, degree_out = convolution.in_degree, convolution.out_degree
    irreps_in = o3.Irreps([(c_in, (degree, 1)) for degree in range(degree_in + 1)])
    irreps_sh = o3.Irreps([(1, (degree, 1)) for degree in range(degree_in + degree_out + 1)])
    irreps_out = o3.Irreps([(c_out, (degree, 1)) for degree in range(degree_out + 1)])
    instructions = [
        (l_in, j, l_out, "uvw", True, 1.0)
        for l_in in range(degree_in + 1)
        for l_out in range(degree_out + 1)
        for j in range(abs(l_in - l_out), l_in + l_out + 1)
    ]
    usual = torch.get_default_dtype()
    torch.set_default_dtype(features.dtype)  # e3nn keeps its constants in the default type
    product = o3.TensorProduct(
        irreps_in, irreps_sh, irreps_out, instructions,
        irrep_normalization="none", path_normalization="none",
        internal_weights=False, shared_weights=False,
    )  # fmt: skip
    torch.set_default_dtype(usual)
    weights = path_weights(convolution, edges.length)
    flat = torch.cat(
        [weights[i, j, k].reshape(len(features), -1) for i, j, k, *_ in instructions], 1
    ).to(features)
    harmonics = o3.spherical_harmonics(irreps_sh, edges.direction, True, "component")
    blocks = [
        features[:, degree * degree : (degree + 1) ** 2].transpose(1, 2).reshape(len(features), -1)
        for degree in range(degree_in + 1)
    ]
    out = product(torch.cat(blocks, 1), harmonics, flat)
    parts, first = [], 0
    for degree in range(degree_out + 1):
        size = c_out * (2 * degree + 1)
        parts.append(out[:, first : first + size].view(-1, c_out, 2 * degree + 1).transpose(1, 2))
        first += size
    assert math.isclose(first, out.shape[1])
    return torch.cat(parts, 1)
