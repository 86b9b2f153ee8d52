"""Blocks of inputs: every pair is compared, halves are mirrored, memory is bounded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.finite import blocks
from theorylab.kernels.finite.blocks import JacobianBlocks, kernel_by_blocks
from theorylab.kernels.finite.contraction import MEAN
from theorylab.kernels.finite.jacobian import Jacobian

SQUARES = Jacobian(at=lambda x: [x[None] ** 2], num_outputs=1, held=24, working=24)


def compare(first, second):
    (one,), (two,) = first, second
    return [jnp.einsum("iap,jap->ij", one, two)]


@pytest.mark.parametrize(("size", "starts"), [(3, [0, 3, 4]), (7, [0]), (1, list(range(7)))])
def test_blocks_cover_all_inputs_and_are_of_one_size(size, starts):
    assert JacobianBlocks(7, size, lambda start: []).starts == starts


@pytest.mark.parametrize("block_size", [None, 1, 3, 7])
@pytest.mark.parametrize("same", [True, False])
def test_all_pairs_of_inputs_are_compared(block_size, same, monkeypatch):
    """Oracle: one matrix product. With None, Jacobians are at hand and cut in blocks of two."""
    monkeypatch.setattr(blocks, "_FEWEST_ROWS", 2)
    monkeypatch.setattr(blocks, "_MOST_BLOCKS", 4)
    x1 = jnp.asarray(np.random.default_rng(0).normal(size=(7, 3)))
    x2 = None if same else x1[:5] + 1.0
    expected = (x1**2) @ ((x1 if x2 is None else x2) ** 2).T
    run = jax.jit(lambda x1, x2: kernel_by_blocks(SQUARES, compare, MEAN, x1, x2, block_size))
    np.testing.assert_allclose(run(x1, x2)[0], expected, rtol=1e-13)


def test_jacobians_are_made_some_at_a_time(monkeypatch):
    """Oracle: all at once; 7 inputs in portions of 2 leave a rest, 6 do not."""
    monkeypatch.setattr(blocks, "WORKING_BYTES", 60)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(7, 3)))
    for inputs in (x, x[:6]):
        (made,) = blocks.jacobians(SQUARES, inputs)
        np.testing.assert_array_equal(jnp.squeeze(jnp.asarray(made), 1), inputs**2)


def test_half_of_a_symmetric_kernel_is_computed():
    """Oracle: counting the pairs of blocks: 1 + 2 + 3 of 9."""
    starts = [0, 2, 4]
    assert len(list(blocks._pairs(starts, starts, symmetric=True))) == 6
    assert len(list(blocks._pairs(starts, starts, symmetric=False))) == 9
    first = [new for _, _, new in blocks._pairs(starts, starts, symmetric=True)]
    assert first == [True, False, False, True, False, True]
