"""The bound of emerging features: its algebra, what fails, and descent's regret."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features.emergence import (
    General,
    TheoremSizes,
    balancing_steps,
    classifier_sizes,
    drift,
    emergence_bound,
    hinge_regret_margin,
    needed_pairs,
)


@pytest.mark.parametrize("accuracy", [0.5, 0.01])
def test_the_needed_width_and_the_balancing_steps_give_the_accuracy(accuracy):
    """Oracle: with m = k¹²/ε^{3/2} and T = m^{4/3} the terms are ε, ε/k⁵ and ε/k⁶."""
    k = 4
    m = round(needed_pairs(10, k, accuracy))
    bound = emergence_bound(TheoremSizes(10, k, m, round(balancing_steps(m))))
    terms = [bound.features, bound.drift, bound.regret]
    assert terms == pytest.approx([accuracy, accuracy / k**5, accuracy / k**6], rel=1e-6)
    assert bound.total == pytest.approx(sum(terms))
    assert not bound.vacuous


def test_more_steps_trade_regret_for_drift():
    """Oracle: drift is linear in T, regret inverse, features do not depend on it."""
    short, long = (emergence_bound(TheoremSizes(100, 5, 300, steps)) for steps in (100, 1000))
    assert long.drift == pytest.approx(10 * short.drift)
    assert long.regret == pytest.approx(short.regret / 10)
    assert long.features == short.features


@pytest.mark.parametrize(
    ("sizes", "violated"),
    [
        (TheoremSizes(10**4, 60, 10**8, 10**6, structure=0.9, failure=0.9), ("relevant k",)),
        (TheoremSizes(10**4, 100, 10**8, 10**6, structure=0.9, failure=0.9), ("background p_o",)),
        (TheoremSizes(2 * 10**4, 99, 10**7, 10**6, 0.9, 0.5, 0.9), ("relevant k", "width m")),
        (TheoremSizes(4 * 10**4, 130, 10**9, 10**6, 0.9, 0.5, 0.9), ()),
    ],
)
def test_every_requirement_is_named_when_it_fails(sizes, violated):
    """Oracle: k²/D, log²(D/δγ) and k⁴ by hand: 0.36 and 87; 1 and 87; 0.49, 102.5 and 9.6·10⁷."""
    bound = emergence_bound(sizes)
    assert bound.violated == violated
    assert ("outside" if violated else "inside") in str(bound)


def test_the_general_theorem_asks_for_more():
    """Oracle: a clean orthonormal dictionary meets what is new, noise beyond it does not."""
    sizes = TheoremSizes(100, 5, 300, 600)
    clean = emergence_bound(sizes, General(dimension=500, scale=5.0))
    assert clean.violated == ("relevant k", "width m")
    assert clean.requirements[1].needed > emergence_bound(sizes).requirements[1].needed
    # √d/σ̃ = 4.47 < σ̃ = 5, so that noise may be 0.2; and μ may be √d/D = 0.224.
    for noise, coherence, fails in [
        (0.19, 0.22, ()),
        (0.21, 0.23, ("coherence 1/μ", "noise 1/σ_ζ")),
    ]:
        general = General(500, 5.0, incoherence=coherence, noise=noise)
        assert emergence_bound(sizes, general).violated[2:] == fails


def test_a_classifier_with_these_entries_has_this_length():
    """Oracle: ‖ã‖² ≤ ‖ã‖₀ ‖ã‖²_∞, an equality of orders."""
    sizes = classifier_sizes(num_relevant=7, num_pairs=1000, scale=5.0)
    assert sizes.squared_length == pytest.approx(sizes.num_nonzero * sizes.largest**2)
    assert sizes.weights == pytest.approx(5 / 7)
    assert sizes.biases == pytest.approx(1 / 49)
    assert sizes.outer == pytest.approx(1 / 7e6)


def test_drift_grows_with_steps_and_decay():
    """Oracle: Lemma A.18 by hand at k = 2, m = 10, σ̃ = 3: 1/(km²) = 0.005."""
    found = drift(2, 10, 3.0, num_steps=4, learning_rate=0.1, decay=0.5)
    assert found.outer == pytest.approx(0.4 + 0.005)
    assert found.weights == pytest.approx(4 * 0.1 * 0.5 * 3 / 2 + 0.16 + 0.02)
    still = drift(2, 10, 3.0, num_steps=0, learning_rate=0.1, decay=0.5)
    assert still == (pytest.approx(0.005), 0)


def test_the_regret_holds_for_descent_on_the_hinge_loss_and_not_for_ascent():
    """Oracle: a loop in NumPy with the inequality written out; ascent must violate it."""
    drawn = np.random.default_rng(0)
    signed, start, star = drawn.normal(size=(40, 3, 4)), np.ones(4), np.array([0.5, -0.5, 0.0, 2.0])
    run = jax.jit(hinge_regret_margin)
    for rate in (0.01, 0.3, 3.0):
        theta, left, right = start, 0.0, 0.0
        for batch in signed:
            gradient = -(batch * (batch @ theta < 1)[:, None]).mean(axis=0)
            left += np.maximum(1 - batch @ theta, 0).mean() / 40
            length = np.linalg.norm(gradient)
            paid = np.linalg.norm(start) * length + rate * length**2
            right += (np.maximum(1 - batch @ star, 0).mean() + paid) / 40
            theta = theta - rate * gradient
        right += star @ star / (2 * rate * 40)
        margin = run(*map(jnp.asarray, (signed, start, star)), rate)
        assert margin == pytest.approx(right - left, rel=1e-10)
        assert margin >= 0
    assert run(*map(jnp.asarray, (signed, start, star)), -0.3) < 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TheoremSizes(10, 0, 5, 5), "num_relevant must be in"),
        (lambda: TheoremSizes(3, 5, 5, 5), "num_patterns must be in"),
        (lambda: TheoremSizes(10, 5, 5, 5, structure=0.0), "structure must be in"),
        (lambda: General(0, 1.0), "dimension must be in"),
        (lambda: General(1, 1.0, noise=-1.0), "noise must be at least 0"),
        (lambda: General(1, 1.0, least_class=0.6), "least_class must be in"),
        (lambda: needed_pairs(10, 5, 0.0), "accuracy must be in"),
        (lambda: drift(2, 10, 3.0, -1, 0.1), "must be at least 0, got -1"),
        (lambda: drift(2, 10, 3.0, 1, 0.1, float("nan")), "must be at least 0"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
