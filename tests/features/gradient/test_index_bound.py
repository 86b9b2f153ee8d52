import math

import numpy as np
import pytest

from theorylab.data import MultiIndex, quadratic_index
from theorylab.features.gradient import (
    condition_number,
    index_complexity,
    index_needs,
    index_rate,
)


def test_the_condition_number_is_that_of_the_smallest_curvature():
    """Oracle: by hand, H = √2 diag(0.6, 0.8), so that ‖H⁺‖ = 1/(0.6 √2)."""
    law = MultiIndex(5, ((2, 0), (0, 2)), (3.0, 4.0))
    np.testing.assert_allclose(condition_number(law), 1 / (0.6 * 2), rtol=1e-6)


def test_a_hessian_without_full_rank_is_refused():
    with pytest.raises(ValueError, match="rank 1"):
        condition_number(MultiIndex(4, ((3,),), (1.0,)))


def test_the_step_size_is_that_of_the_theorem():
    """Oracle: with nmd = e² and C_l = 2 it is √(d/4³)."""
    nmd = 20 * 3 * 16
    constant = 4 / math.log(nmd)
    np.testing.assert_allclose(index_rate(16, 20, 3, constant), math.sqrt(16 / 4**3), rtol=1e-12)


@pytest.mark.parametrize("constant", [0.1, 1.0])
@pytest.mark.parametrize("accuracy", [0.1, 0.001])
def test_the_least_sizes_are_a_fixed_point(constant, accuracy):
    """Oracle: the theorem's inequalities, evaluated at the sizes, are equalities (τ = 3, r = 2)."""
    law = MultiIndex(32, ((2, 0), (0, 2), (3, 0)), (1.0, 1.0, 1.0))
    n, d, m, steps, _ = index_needs(law, accuracy, constant)
    kappa = 1 / (math.sqrt(2 / 3) * math.sqrt(2))
    scale = constant * (math.log(n) + math.log(m) + math.log(32))
    np.testing.assert_allclose(m, 2**3 * kappa**6 * scale**19 / accuracy, rtol=1e-5)
    np.testing.assert_allclose(n, 32**2 * 2 * kappa**2 * scale**4 + m, rtol=1e-5)
    np.testing.assert_allclose([d, steps], [kappa * 2**1.5, m**2 / accuracy], rtol=1e-5)


def test_the_proofs_last_term_is_that_of_its_norms():
    """Oracle: √(‖ã‖²‖b‖²/n) over ε/3 from the bound on ‖ã‖², at n, m and ℓ of the theorem."""
    law, accuracy = quadratic_index(32, 2), 0.01
    n, _, m, _, scale = index_needs(law, accuracy)
    norm = 2**2 * condition_number(law) ** 4 * scale**12 / m
    expected = math.sqrt(norm * 4 * m / n) / (accuracy / 3)
    np.testing.assert_allclose(index_complexity(law, accuracy), expected, rtol=1e-9)
