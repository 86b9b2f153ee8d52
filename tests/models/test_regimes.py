import pytest

from theorylab.models import ABC, NTK, MeanField, MuP, Standard, regime
from theorylab.models.parametrization import Exponents


def source(a, b, c):
    """A parametrization in the source's letters: one c, exponents of input, hidden, output."""
    return ABC(*(Exponents(ai, bi, c) for ai, bi in zip(a, b, strict=True)))


NTK_OF_SOURCE = source(a=(0, 0.5, 0.5), b=(0, 0, 0), c=0)
MUP_OF_SOURCE = source(a=(-0.5, 0, 0.5), b=(0.5, 0.5, 0.5), c=0)
STANDARD_OVER_N = source(a=(0, 0, 0), b=(0, 0.5, 0.5), c=1)


@pytest.mark.parametrize(
    ("parametrization", "exponent", "learns_features"),
    [
        (NTK_OF_SOURCE, 0.5, False),
        (MUP_OF_SOURCE, 0.0, True),
        (STANDARD_OVER_N, 0.5, False),
        (NTK(), 0.5, False),
        (MuP(), 0.0, True),
        (MeanField(), 0.0, True),
    ],
)
def test_presets_have_the_regime_of_the_source(parametrization, exponent, learns_features):
    """Oracle: values of r worked out by hand."""
    found = regime(parametrization)
    assert found.feature_exponent == pytest.approx(exponent, abs=1e-12)
    assert found.stable
    assert found.nontrivial
    assert found.learns_features == learns_features
    assert found.follows_kernel == (not learns_features)


def test_standard_with_a_learning_rate_that_does_not_fall_is_unstable():
    found = regime(Standard())
    assert found.stable_at_initialisation
    assert not found.stable
    assert not found.learns_features
    assert not found.follows_kernel


@pytest.mark.parametrize(
    ("a", "b", "c", "stable_at_initialisation", "stable", "nontrivial"),
    [
        ((-0.5, 0, 0.5), (0.5, 0.5, 0.5), 0.25, True, True, False),  # μP, too slow
        ((-0.5, 0, 0.5), (0.5, 0.5, 0.5), -0.25, True, False, False),  # μP, too fast
        ((-0.5, 0, 0.75), (0.5, 0.5, 0.25), 0, True, True, True),  # output still moves by features
        ((-0.5, 0, 0.5), (0.25, 0.5, 0.5), 0, False, False, True),  # inputs blow up
        ((-0.5, 0, 0.5), (0.5, 0.25, 0.5), 0, False, False, True),  # hidden layers blow up
        ((-0.5, 0, 0.25), (0.5, 0.5, 0), 0, False, False, False),  # output blows up
        ((0, 0.5, 0.4), (0, 0, 0.4), 0, True, False, False),  # only 2a_out + c < 1
        (
            (-0.125, 0.375, 0.5),
            (0.125, 0.125, 0),
            0,
            True,
            False,
            True,
        ),  # only a_out + b_out + r < 1
        ((-0.625, -0.125, 0.5), (0.625, 0.625, 1), 0, True, False, True),  # only r < 0
    ],
)
def test_perturbed_exponents(a, b, c, stable_at_initialisation, stable, nontrivial):
    """Oracle: the inequalities, worked out by hand."""
    found = regime(source(a, b, c))
    assert found.stable_at_initialisation == stable_at_initialisation
    assert found.stable == stable
    assert found.nontrivial == nontrivial


def test_equivalent_exponents_have_one_regime():
    e = NTK_OF_SOURCE
    shifted = ABC(e.input.shifted(0.3), e.hidden.shifted(-0.7), e.output.shifted(1.1))
    assert regime(shifted).feature_exponent == pytest.approx(0.5)
    assert regime(shifted)[1:] == regime(NTK_OF_SOURCE)[1:]


@pytest.mark.parametrize(("a", "b"), [((0.5, 0.5, 0.5), (-0.5, 0, 0)), ((0, 1, 0.5), (0, -0.5, 0))])
def test_the_layer_that_moves_most_decides(a, b):
    """By hand: NTK with slower input or slower hidden weights still has r = ½."""
    assert regime(source(a, b, c=0)).feature_exponent == pytest.approx(0.5)
