"""Equal programs are compiled once, and programs that differ anywhere are two."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.curvature import sharpness
from theorylab.numerics.counted import CountedOperator
from theorylab.numerics.reuse import compiled

KEY = jax.random.key(0)
ROWS = jnp.arange(1.0, 7.0).reshape(2, 3)
W = jnp.linspace(-1.0, 1.0, 3)


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """The names of what is compiled, or read from the folder of compiled programs."""
    seen: list[str] = []

    def notice(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(notice)
    yield seen
    jax.monitoring.unregister_event_duration_listener(notice)


def same(first: Any, second: Any, like: Any = 1.0) -> bool:
    programs = [jax.make_jaxpr(function)(like).jaxpr for function in (first, second)]
    return compiled(programs[0]) is compiled(programs[1])


def objective(scale, rows, power=2):
    """A loss with a loop, a branch, and a function with a derivative of its own."""

    def loss(w):
        step = lambda total, row: (total + scale * jax.nn.softplus(row @ w) ** power, None)  # noqa: E731
        total, _ = jax.lax.scan(step, 0.0, rows)
        return total + jnp.where(w[0] > 0, jnp.sum(jax.nn.relu(w) ** 3), 0.0)

    return loss


def largest(function, w):
    return np.linalg.eigvalsh(jax.hessian(function)(w))[-1]


def test_a_function_made_anew_compiles_nothing(compilations):
    """Oracle: the compiler's own events; and the dense Hessian of each function, at each w."""

    def plain(scale, rows):
        return lambda w: scale * jnp.mean(jax.nn.relu(rows @ w) ** 3) + jnp.sum(jnp.sin(w))

    sharpness(plain(2.5, ROWS), W, KEY)
    cases = [(2.5, ROWS, 2.0 * W), (2.5, -0.3 * ROWS, W)]
    made = [(plain(scale, rows), w) for scale, rows, w in cases]
    compilations.clear()
    found = [sharpness(function, w, KEY) for function, w in made]
    assert compilations == []
    for each, (function, w) in zip(found, made, strict=True):
        assert float(each.value) == pytest.approx(largest(function, w), rel=1e-9)


@pytest.mark.parametrize(("scale", "power"), [(2.5, 2), (1.0, 3), (-1.0, 2)])
def test_functions_that_differ_have_their_own_answers(scale, power):
    """Oracle: the dense Hessian; only a number or a power inside of the loop's body differs."""
    sharpness(objective(1.0, ROWS), W, KEY)
    found = sharpness(objective(scale, ROWS, power), W, KEY)
    expected = largest(objective(scale, ROWS, power), W)
    assert float(found.value) == pytest.approx(expected, rel=1e-9)


def test_the_other_sign_is_another_program():
    """Oracle: the product and its negative."""
    operators = [CountedOperator(lambda v: 3.0 * v, 1, negative) for negative in (False, True)]
    assert [float(operator(jnp.ones(1, operator.dtype))[0]) for operator in operators] == [3, -3]


def test_what_differs_in_a_single_place_is_not_equal():
    """Oracle: by hand. Constants equal as numbers are not equal as bits or types."""
    assert same(lambda v: v * 2.0, lambda v: v * 2.0)
    assert not same(lambda v: v * 2.0, lambda v: v * 2.0000000000000004)
    assert not same(lambda v: v * 0.0, lambda v: v * -0.0)
    assert not same(lambda v: v + v * 2.0, lambda v: 2.0 * v * v)
    assert not same(lambda v: jnp.sin(v) - 1.0, lambda v: 1.0 - jnp.sin(v))
    assert not same(lambda v: v**2, lambda v: v**3)
    like = jnp.ones((2, 2))
    assert same(lambda v: v.sum(axis=0), lambda v: v.sum(axis=0), like)
    assert not same(lambda v: v.sum(axis=0), lambda v: v.sum(axis=1), like)


def loop(body, times=3):
    return lambda v: jax.lax.fori_loop(0, times, lambda _, u: body(u), v)


def test_bodies_of_loops_are_compared():
    """Oracle: by hand."""
    assert same(loop(lambda u: 2.0 * u), loop(lambda u: 2.0 * u))
    assert not same(loop(lambda u: 2.0 * u), loop(lambda u: 3.0 * u))
    assert not same(loop(lambda u: 2.0 * u), loop(lambda u: 2.0 * u, times=4))


def test_functions_among_settings_are_equal_only_if_they_are_the_same():
    """Oracle: what a callback returns."""

    def called(function):
        shape = jax.ShapeDtypeStruct((), float)
        return lambda v: jax.pure_callback(function, shape, v)

    double, triple = (lambda v: np.asarray(2 * v)), (lambda v: np.asarray(3 * v))
    assert not same(called(double), called(triple))
    closed = [jax.make_jaxpr(called(function))(1.0).jaxpr for function in (double, triple)]
    assert [float(compiled(each)([], jnp.ones(()))) for each in closed] == [2.0, 3.0]
