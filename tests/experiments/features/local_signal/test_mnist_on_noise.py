import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.data import Dataset, on_background
from theorylab.experiments.features.local_signal import mnist_on_noise as experiment

SMOKE = experiment.PRESETS["smoke"]


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_kernels_are_solved_in_double_precision(smoke):
    assert smoke.residual < 1e-3


def test_no_digit_is_learned_from_and_judged_by():
    """Oracle: the colour of a one-pixel object is its number; each is drawn several times."""
    colours = jnp.arange(1.0, 11.0)
    pictures = jnp.broadcast_to(colours[:, None, None, None], (10, 2, 2, 1))
    objects = Dataset(pictures, jnp.eye(10), law="colours", source="synthetic")
    parts = experiment._split(experiment.Config(), objects, jax.random.key(0), 0.0, 20, 4)
    seen = [np.unique(np.asarray(part.x).max(axis=(1, 2, 3))) for part in parts]
    assert [len(part) for part in seen] == [8, 2]
    assert not set(seen[0]) & set(seen[1])
    np.testing.assert_array_equal(np.asarray(parts[0].x)[0].shape, (3, 3, 1))


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("more of its accuracy in noise than its own kernel", "network"),
        ("seed by seed", "network"),
        ("keeps 93 %", "network"),
        ("Infinite width is no cure", "infinite"),
        ("it is trained", "tangent_train"),
    ],
)
def test_what_happens_in_the_noise_decides(smoke, verdict, words, field):
    """A network that keeps nothing, a kernel that keeps all, a linearisation that learned none."""
    broken = getattr(smoke, field).copy()
    broken[-1] = broken[0] if field == "infinite" else 0.1
    assert verdict(words, smoke._replace(**{field: broken})) == Verdict.REFUTED


def test_widths_and_the_controls_can_fail(smoke, verdict):
    fallen = smoke._replace(by_width=smoke.by_width[::-1])
    for words in ("gets better with its width", "the nearer"):
        assert verdict(words, fallen) == Verdict.REFUTED
    there = np.stack([smoke.by_width[0], smoke.limit])
    near = smoke._replace(by_width=there)
    assert verdict("From a width factor of 50", near) == Verdict.SUPPORTED
    far = near._replace(by_width=there - 0.03)
    assert verdict("From a width factor of 50", far) == Verdict.REFUTED
    blind = smoke._replace(tangent=np.full_like(smoke.tangent, 0.1))
    assert verdict("On black", blind) == Verdict.REFUTED
    hasty = smoke._replace(gained=smoke.gained + 0.1)
    assert verdict("It is solved", hasty) == Verdict.REFUTED


def test_other_canvases_would_be_seen(smoke, verdict, monkeypatch):
    """Planted: pasting adds the object to the background; a background of deviation σ²."""
    true = on_background

    def added(key, images, *given):
        canvas = true(key, images, *given)
        return canvas + jax.random.normal(key, canvas.shape)

    monkeypatch.setattr(experiment, "on_background", added)
    wrong = smoke._replace(**experiment._canvas_pixels(SMOKE))
    assert verdict("as they were", wrong) == Verdict.REFUTED
    squared = functools.partial(true, squared_level=True)
    monkeypatch.setattr(experiment, "on_background", squared)
    wrong = smoke._replace(**experiment._canvas_pixels(SMOKE))
    assert verdict("have the deviation σ", wrong) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"levels": (2.0, 1.0)}, "levels must be increasing"),
        (
            {"width_factors": (4, 2)},
            "width_factors must be whole numbers, two or more",
        ),
        ({"batch_size": 30000}, "batch_size must be at most num_train 2500"),
        ({"num_kernel_seeds": 7}, "num_kernel_seeds must be at most num_seeds 6"),
        ({"tangent_rates": (0.0,)}, "tangent_rates must be positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
