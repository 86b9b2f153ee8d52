"""The engine of contractions: clusters, exponents, and what follows for O_s and its velocities."""

import math

import pytest

from theorylab.kernels.contractions import (
    ClusterCounts,
    along_gradient,
    clusters,
    exponent,
    size,
    terms_of_order,
    velocity,
)


@pytest.mark.parametrize(
    ("contraction", "expected"),
    [
        (("",), -math.inf),  # E f
        (("", ""), 0.0),  # E f f
        (("a", "a"), 0.0),  # E Θ
        (("a", "a", "b", "b"), 0.0),  # E ΘΘ
        (("a", "a", "", ""), 0.0),  # E Θ f f
        (("ab", "ab"), 0.0),  # E ‖∇²f‖²
        (("aa", ""), 0.0),  # E Δf f
        (("ab", "a", "b"), -math.inf),  # E O₃
        (("ab", "a", "b", ""), -1.0),  # E O₃ f
        (("ab", "a", "b", "cd", "c", "d"), -2.0),  # E O₃ O₃
        (("abc", "a", "b", "c"), -1.0),  # E O₄, two of its terms
        (("ab", "bc", "a", "c"), -1.0),
        (("abc", "a", "b", "c", "", ""), -1.0),  # E O₄ f f
        (("abc", "a", "b", "c", "d", "d"), -1.0),  # E O₄ Θ
        (("ab", "bc", "cd", "da"), -1.0),  # E tr(∇²f)⁴
        (("abcd", "a", "b", "c", "d", ""), -2.0),  # E O₅ f
        (("abcde", "a", "b", "c", "d", "e"), -2.0),  # E O₆
        (("", "", "", ""), 0.0),  # E f f f f
    ],
)
def test_exponent_of_a_pattern(contraction, expected):
    """Oracle: clusters counted by hand."""
    assert exponent(contraction) == expected


def test_clusters_are_joined_by_chains_of_indices():
    assert clusters(("ab", "cd", "bc", "a", "d", "ee")) == ClusterCounts(even=0, odd=2)
    assert clusters(("a", "b", "a", "b")) == ClusterCounts(even=2, odd=0)


def test_the_order_of_tensors_and_the_names_of_indices_do_not_matter():
    assert exponent(("xy", "x", "", "y")) == exponent(("", "ab", "a", "b"))


def test_the_product_rule_has_the_right_terms():
    """Oracle: O₄ = ∂_abc f ∂_a f ∂_b f ∂_c f and ∂_ab f ∂_bc f ∂_a f ∂_c f, and no other form."""
    assert terms_of_order(3) == (("ab", "a", "b"),)
    shapes = {tuple(sorted(map(len, term))) for term in terms_of_order(4)}
    assert shapes == {(1, 1, 1, 3), (1, 1, 2, 2)}
    assert along_gradient((("",),)) == (("a", "a"),)


@pytest.mark.parametrize("order", range(1, 7))
def test_orders_scale_as_the_source_says(order):
    """Oracle: O_s is O(m^(1 − s/2)) for even s, O(m^((1 − s)/2)) for odd."""
    expected = 1 - order / 2 if order % 2 == 0 else (1 - order) / 2
    assert size(terms_of_order(order)) == expected


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("order", range(1, 5))
def test_velocities_scale_as_the_source_says(order, times):
    """Oracle: all time derivatives of O_s are O(m^(−s/2)) for even s, O(m^((1 − s)/2)) for odd."""
    terms = terms_of_order(order)
    for _ in range(times):
        terms = velocity(terms)
    assert size(terms) == (-order / 2 if order % 2 == 0 else (1 - order) / 2)


def test_the_mean_velocity_of_the_kernel_is_of_order_one_over_the_width():
    """Oracle: E O₃ = 0, so the mean movement of Θ comes from E O₃ f alone."""
    exponents = sorted(map(exponent, velocity(terms_of_order(2))))
    assert exponents == [-math.inf, -1.0]


@pytest.mark.parametrize(
    ("contraction", "message"),
    [
        ((), "at least one tensor"),
        (("a",), "every index must stand twice, got a otherwise"),
        (("ab", "a", "ab"), "every index must stand twice, got a otherwise"),
    ],
)
def test_what_is_no_contraction_is_refused(contraction, message):
    with pytest.raises(ValueError, match=message):
        exponent(contraction)


def test_an_order_begins_at_one():
    with pytest.raises(ValueError, match="order must be at least 1, got 0"):
        terms_of_order(0)
