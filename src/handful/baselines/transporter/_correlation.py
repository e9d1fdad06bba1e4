"""Cross-correlation of feature images through the fast Fourier transform."""

from __future__ import annotations

import torch
from jaxtyping import Float
from scipy.fft import next_fast_len
from torch import Tensor


def correlation(
    image: Float[Tensor, "groups channels height width"],
    kernels: Float[Tensor, "kernels groups channels rows columns"],
) -> Float[Tensor, "kernels groups height width"]:
    """Each kernel's match with the image at every pixel, summed over the channels of a group.

    out[k, g, y, x] = sum over c, i, j of image[g, c, y + i - rows // 2, x + j - columns // 2]
    kernels[k, g, c, i, j]; outside of the image there are zeros.

    Args:
        image: Features of the scene.
        kernels: Features of what is moved over it; pixel (rows // 2, columns // 2) is its origin.
    """
    height, width = image.shape[-2:]
    rows, columns = kernels.shape[-2:]
    size = (next_fast_len(height + rows - 1, real=True),
            next_fast_len(width + columns - 1, real=True))  # fmt: skip
    of_image = torch.fft.rfft2(image, s=size)
    matched = [
        torch.fft.irfft2((of_image * torch.fft.rfft2(kernel, s=size).conj()).sum(1), s=size)
        for kernel in kernels  # one after the other: their transforms are large
    ]
    # Pixel y of the result belongs to the kernel's first row; its origin is rows // 2 further on.
    rolled = torch.stack(matched).roll((rows // 2, columns // 2), dims=(-2, -1))
    return rolled[..., :height, :width]
