"""The checker itself: it must fail where it should."""

import math

import pytest
import torch

from equivariance import assert_equal_up_to_rounding, relative_error

VALUES = torch.tensor([[1.0, -2.0], [3.0, 4.0]], dtype=torch.float64)


def test_equal_values_pass(dtype):
    assert_equal_up_to_rounding(VALUES.to(dtype), VALUES.to(dtype))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_fail(bad):
    broken = VALUES.clone()
    broken[0, 0] = bad
    for actual, expected in ((broken, VALUES), (VALUES, broken), (broken, broken)):
        with pytest.raises(AssertionError, match="relative error inf"):
            assert_equal_up_to_rounding(actual, expected)


def test_a_small_difference_fails(dtype):
    limit = {torch.float32: 1e-4, torch.float64: 1e-9}[dtype]
    values = VALUES.to(dtype)
    with pytest.raises(AssertionError):
        assert_equal_up_to_rounding(values + 4.0 * limit * 1.5, values)


def test_another_shape_fails():
    assert relative_error(VALUES, VALUES[:1]) == math.inf
