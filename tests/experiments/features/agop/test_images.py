"""Images for whom, flipped labels, and students, against their definitions."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.experiments.features.agop import _images as tasks
from theorylab.experiments.features.agop._polynomials import super_critical
from theorylab.features import agop, agop_alignment
from theorylab.kernels import ntk
from theorylab.training import Batches, Until

KEY = jax.random.key(3)
CONFIG = tasks.ImageConfig(images="digits", num_train=40, num_known=70, num_test=30)


@pytest.fixture(scope="module")
def data():
    return tasks.read(CONFIG)


@pytest.fixture(scope="module")
def parts(data):
    return tasks.parts_of(data, CONFIG, KEY, flipped=0.1)


def rows(x):
    return {row.tobytes() for row in np.asarray(x)}


def test_no_image_is_for_tests_and_for_learning(data, parts):
    assert data.input_shape == (4, 4, 1)
    assert [len(part.x) for part in parts] == [40, 30, 70, 30]
    assert rows(parts.train.x) | rows(parts.validation.x) == rows(parts.known.x)
    assert not rows(parts.known.x) & rows(parts.test.x)
    assert rows(parts.test.x) < rows(data.x)


def test_a_tenth_of_the_students_labels_are_wrong_and_no_others(data, parts):
    """Oracle: the labels that the same images have in the whole set."""
    truth = dict(zip(map(bytes, np.asarray(data.x)), np.asarray(data.y), strict=True))

    def wrong(part):
        labels = zip(map(bytes, np.asarray(part.x)), np.asarray(part.y), strict=True)
        return sum(int(y[0] != truth[x][0]) for x, y in labels)

    assert wrong(parts.train) == 4
    assert wrong(parts.known) == wrong(parts.validation) == wrong(parts.test) == 0


def test_the_critical_rate_is_that_of_the_kernel(data, parts):
    """Oracle: n/λ_max of the whole kernel."""
    model = tasks.student(parts, replace(CONFIG, widths=(8, 8)))
    params = model.init(KEY)
    top = np.linalg.eigvalsh(np.asarray(ntk(model.apply, params, parts.train.x)))[-1]
    rate = tasks.critical_rate(model, params, parts.train, KEY)
    np.testing.assert_allclose(rate, 40 / top, rtol=1e-6)


def test_a_student_is_measured_where_it_was_best(data, parts):
    """Oracle: one step of descent by hand, with its losses and features."""
    model = tasks.student(parts, replace(CONFIG, widths=(8,)))
    params = model.init(KEY)
    reference = jnp.diag(jnp.arange(16.0))

    def loss(w, part):
        return jnp.mean((model.apply(w, part.x) - part.y) ** 2)

    end = (Batches(40), Until(1e-9, 1, 1))

    @jax.jit
    def learned(rate, counted):
        return tasks.learn(KEY, model, params, parts, reference, rate, *end, counted)

    student = learned(0.1, True)
    gradient = jax.grad(loss)(params, parts.train)
    stepped = jax.tree.map(lambda w, g: w - 0.1 * g, params, gradient)
    np.testing.assert_allclose(student.test, loss(stepped, parts.test), rtol=1e-9)
    wrong = np.mean(np.sign(model.apply(stepped, parts.test.x)) != np.asarray(parts.test.y))
    np.testing.assert_allclose(student.error, wrong, atol=1e-12)
    features = agop(model.apply, stepped, parts.train.x)
    np.testing.assert_allclose(student.alignment, agop_alignment(features, reference), rtol=1e-9)
    assert not student.reached
    # With η just above the critical rate the one step is super-critical, if it is counted.
    above = 1.05 * tasks.critical_rate(model, params, parts.train, KEY)
    assert super_critical(model.apply, params, parts.train.x, above)
    assert [int(learned(above, counted).num_supercritical) for counted in (True, False)] == [1, 0]
    assert int(learned(0.9 * above, True).num_supercritical) == 0


def test_other_images_choose_when_it_was_best(data, parts):
    """Where their labels are the outputs after one step of two, it was best after that one."""
    model = tasks.student(parts, replace(CONFIG, widths=(8,)))
    params = model.init(KEY)

    def loss(w, part):
        return jnp.mean((model.apply(w, part.x) - part.y) ** 2)

    gradient = jax.grad(loss)(params, parts.train)
    stepped = jax.tree.map(lambda w, g: w - 0.1 * g, params, gradient)
    labels = model.apply(stepped, parts.validation.x)
    chosen = parts._replace(validation=replace(parts.validation, y=labels))
    given = (KEY, model, params, chosen, jnp.eye(16))
    student = tasks.learn(*given, 0.1, Batches(40), Until(1e-9, 2, 1))
    np.testing.assert_allclose(student.test, loss(stepped, parts.test), rtol=1e-9)
    assert student.num_steps == 2


def test_too_many_images_are_refused():
    with pytest.raises(ValueError, match=r"must be at most 361 together, .* got 400"):
        tasks.read(replace(CONFIG, num_train=100, num_known=300, num_test=100))
