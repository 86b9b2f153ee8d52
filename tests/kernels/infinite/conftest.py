"""Kernels of finite networks, by Monte Carlo: the oracle of every layer."""

import math

import jax
import numpy as np
import pytest

from theorylab.models import network
from theorylab.models.parts import Bias


@pytest.fixture(scope="session")
def monte_carlo():
    """Give the kernels of `num_seeds` networks: NNGP over the outputs, tangent kernel of one."""

    def measure(make, x, scales, bias: Bias = "none", width=64, num_seeds=100, graphs=None):
        beside = () if graphs is None else (graphs,)
        shape = jax.tree.leaves(x)[0].shape  # of the inputs, masked or not
        model = network(make(width, width), shape[1:], scales, bias)

        def first(params):
            f = model.apply(params, x, *beside)
            return f[:, 0], f

        def one(key):
            # The first output does not see the weights of the others: its gradient there is 0.
            gradients, f = jax.jacrev(first, has_aux=True)(model.init(key))
            rows = [leaf.reshape(shape[0], -1) for leaf in jax.tree.leaves(gradients)]
            return f @ f.T / width, sum(row @ row.T for row in rows)

        keys = jax.random.split(jax.random.key(1), num_seeds)
        options = {"xla_backend_optimization_level": 1}
        samples = jax.jit(lambda keys: jax.lax.map(one, keys), compiler_options=options)(keys)
        return tuple(map(np.asarray, samples))

    return measure


@pytest.fixture(scope="session")
def agree():
    """Check that a mean of samples is a limit, up to 2/width, by which a finite mean is off.

    Within 3 standard errors for the sum over entries, within 4.5 for each of them.
    """

    def check(samples, limits, width=64, precision=0.1):
        for sample, limit in zip(samples, limits, strict=True):
            num_seeds, limit = sample.shape[0], np.asarray(limit)
            weights = limit / np.linalg.norm(limit)
            sums = np.sum(sample * weights, axis=(1, 2))
            goal = np.sum(limit * weights)
            error = sums.std(ddof=1) / math.sqrt(num_seeds)
            assert abs(sums.mean() - goal) < 3 * error + 2 * goal / width
            assert error < precision * goal  # else it would say nothing
            errors = sample.std(axis=0, ddof=1) / math.sqrt(num_seeds)
            off = np.abs(sample.mean(axis=0) - limit)
            assert np.all(off < 4.5 * errors + 2 * np.abs(limit).max() / width)

    return check
