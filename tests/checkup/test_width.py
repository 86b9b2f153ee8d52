"""Rows of the width: planted multipliers, healthy networks, and parametrizations told apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.checkup import examine
from theorylab.features import coordinate_check, layers_of, misscaled, signal_sizes
from theorylab.models import ABC, NTK, MuP, Standard, mlp, network, vit
from theorylab.models.parametrization import Exponents
from theorylab.training import cross_entropy, squared

WIDTH, SEEDS, ENOUGH = 256, 20, 19
HE = Standard(weight_scale=2**0.5)
# μP with one learning rate for all, which is the same network: shifts of (a, b, c) by c/2.
MUP = ABC(Exponents(-0.5, 0.5), Exponents(0.0, 0.5), Exponents(0.5, 0.5))
WIDTHS, OUTPUTS = (32, 64, 128, 256), 10


def classification(key, shape=(20,), n=20):
    """Gaussian inputs in classes at random."""
    x = jax.random.normal(key, (n, *shape))
    return x, jax.nn.one_hot(jax.random.randint(key, (n,), 0, 10), 10)


def flagged(model, change=lambda params: params):
    """The layers that are named, for twenty seeds."""
    found = []
    for seed in range(SEEDS):
        params = change(model.init(jax.random.key(seed)))
        x, y = classification(jax.random.key(100 + seed))
        layers = layers_of(model.apply, params, x)
        sizes = signal_sizes(model.apply, params, x, y, cross_entropy("mean"))
        found.append(list(misscaled(layers, sizes)))
    return found


def times(layer, factor):
    """Multiply the weights of one layer."""

    def change(params):
        part = {**params[layer], "weight": factor * params[layer]["weight"]}
        return (*params[:layer], part, *params[layer + 1 :])

    return change


@pytest.fixture(scope="module")
def healthy():
    """A network of three hidden layers in each parametrization."""
    given = {"ntk": NTK(), "he": HE, "mup": MuP()}
    return {
        name: network(mlp((WIDTH,) * 3, 10), (20,), each, bias="zero")
        for name, each in given.items()
    }


@pytest.mark.parametrize("name", ["ntk", "he", "mup"])
def test_a_healthy_network_is_not_accused(healthy, name):
    """Named in at most one of twenty seeds."""
    assert sum(map(bool, flagged(healthy[name]))) <= SEEDS - ENOUGH


@pytest.mark.parametrize("layer", [0, 2, 4, 6])
@pytest.mark.parametrize("name", ["ntk", "he"])
def test_a_layer_without_its_multiplier_is_named(healthy, name, layer):
    """Planted: weights √256 times too large, in every layer, the readout too."""
    found = flagged(healthy[name], times(layer, WIDTH**0.5))
    assert sum(names == [f"[{layer}]['weight']"] for names in found) >= ENOUGH


@pytest.mark.parametrize("layer", [0, 2, 4])
def test_a_layer_that_loses_its_signal_is_named(healthy, layer):
    """Planted: hidden weights √256 times too small."""
    found = flagged(healthy["ntk"], times(layer, WIDTH**-0.5))
    assert sum(names == [f"[{layer}]['weight']"] for names in found) >= ENOUGH


def test_a_transformer_is_not_accused():
    """Normalised layers with residual streams: queries, keys, values and neurons are all seen."""
    model = network(vit(2, 32, 4, 2, 10), (4, 4, 3), bias="zero")
    x, y = classification(jax.random.key(0), (4, 4, 3), 5)
    params = model.init(jax.random.key(1))
    layers = layers_of(model.apply, params, x)
    assert len(layers) == 2 + 2 * 6
    assert not misscaled(layers, signal_sizes(model.apply, params, x, y, cross_entropy("mean")))


def test_sizes_are_root_mean_squares():
    """Oracle: a network of two layers written out, with its gradient by hand."""
    rng = np.random.default_rng(0)
    w, v, x, y = (rng.normal(size=shape) for shape in ((3, 5), (5, 2), (7, 3), (7, 2)))
    apply = lambda p, x: 0.5 * (jnp.tanh(x @ p["w"]) @ p["v"])  # noqa: E731
    found = signal_sizes(
        apply,
        {"w": jnp.asarray(w), "v": jnp.asarray(v)},
        jnp.asarray(x),
        jnp.asarray(y),
        squared("sum"),
    )
    h = np.tanh(x @ w)
    f = 0.5 * h @ v
    back = (f - y) @ v.T * (1 - h**2)  # 2(f − y) · ½
    rms = lambda a: np.sqrt((a**2).mean())  # noqa: E731
    expected = {
        "['w']": (rms(w) * 3**0.5, rms(x), rms(x @ w), rms(back)),
        "['v']": (rms(v) * 5**0.5 / 2, rms(h), rms(f), rms(f - y)),
    }
    for name, sizes in expected.items():
        np.testing.assert_allclose([float(size) for size in found[name]], sizes, rtol=1e-10)


def test_the_card_names_the_layer(healthy):
    """The row says which layer, by how much, and that a factor is missing."""
    model = healthy["ntk"]
    x, y = classification(jax.random.key(0))
    params = times(2, 16.0)(model.init(jax.random.key(0)))
    found = examine(model.apply, params, x, y, only=["signal_scale"]).reading("signal_scale")
    assert found.details["flagged"] == "[2]['weight']"
    assert 13 < found.value < 19
    assert "1/√fan-in is missing" in found.meaning


MODELS = {
    (name, n): network(mlp((n, n), OUTPUTS), (10,), each)
    for name, each in (("standard", Standard()), ("ntk", NTK()), ("mup", MUP))
    for n in WIDTHS
}


def check(name, seed=0, rate=0.05):
    """Sizes by width of a parametrization."""

    def by_width(n):
        model = MODELS[name, n]
        return model.apply, model.init(jax.random.fold_in(jax.random.key(seed), n))

    x = jax.random.normal(jax.random.key(9), (20, 10))
    return coordinate_check(by_width, x, jnp.sin(x), squared("mean"), rate, WIDTHS, num_steps=2)


# The exponents of Golikov's Thm 3.4.6, first step: changes of both hidden layers, and of outputs.
LIMITS = {"standard": (-0.5, 0.5, 1.0), "ntk": (-0.5, -0.5, 0.0), "mup": (0.0, 0.0, 0.0)}


@pytest.mark.parametrize("name", LIMITS)
def test_changes_go_with_width_as_the_exponents_say(name):
    """Oracle: n⁻ʳ of the abc-parametrizations; ±0.15 is what narrow widths leave."""
    found = [check(name, seed) for seed in range(2)]
    layers = ("[0]['weight']", "[2]['weight']", "outputs")
    growth = [np.mean([each.growth(layer).exponent for each in found]) for layer in layers]
    np.testing.assert_allclose(growth, LIMITS[name], atol=0.15)


def by_width(parametrization):
    """The network of a width."""

    def made(n):
        if n > 512:
            raise ValueError("too wide")
        model = network(mlp((n, n), OUTPUTS), (10,), parametrization)
        return model.apply, model.init(jax.random.key(n))

    return made


def card(parametrization):
    """The row of a parametrization."""
    x = jax.random.normal(jax.random.key(9), (20, 10))
    model = MODELS["ntk", 32]
    known = {"loss": "mse", "learning_rate": 0.05, "by_width": by_width(parametrization)}
    params = model.init(jax.random.key(0))
    found = examine(model.apply, params, x, jnp.sin(x), only=["width_scaling"], **known)
    return found.reading("width_scaling")


def test_the_standard_parametrization_blows_up_at_the_output():
    """Oracle: Δf grows as n, from Golikov's Thm 3.4.6; the row says so."""
    found = card(Standard())
    assert found.details["flagged"] in ("[4]['weight']", "outputs")
    assert 0.7 < found.value < 1.3
    assert "should shrink" in found.meaning
    assert list(found.curves["widths"]) == [64, 128, 256, 512]


def test_mup_is_not_accused():
    """Nothing grows."""
    found = card(MUP)
    assert found.details["flagged"] == ""
    assert found.value < 0.25


def test_a_network_of_one_width_is_skipped():
    """The reason says what by_width raised."""

    def fixed(n):
        raise ValueError("the width is 10")

    x = jnp.ones((4, 10))
    model = MODELS["ntk", 32]
    params = model.init(jax.random.key(0))
    found = examine(model.apply, params, x, x, loss="mse", by_width=fixed, only=["width_scaling"])
    assert found["width_scaling"].status == "skipped"
    assert "the width is 10" in found["width_scaling"].reason
