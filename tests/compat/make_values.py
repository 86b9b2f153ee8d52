"""What Neural Tangents gives for the networks and calls below: `values.npz` beside this file.

Every function takes `nt`, which is `neural_tangents` when this file is run, and `theorylab.compat`
when `test_values.py` runs the same lines. The environment is that of
`tests/kernels/neural_tangents/make_values.py`, or Neural Tangents' last commit with JAX 0.4.38:

    python make_values.py
"""

import importlib
import math
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

VALUES = Path(__file__).with_name("values.npz")
SHAPES = {"vectors": (5,), "sequences": (5, 2), "images": (5, 4, 2), "squares": (4, 4, 2)}
MISSING = 100.0


class Case(NamedTuple):
    """A network's layers, its inputs, and what its kernel function takes beside."""

    inputs: str
    layers: list[Any]
    options: dict[str, Any] = {}  # noqa: RUF012  (not written to)


def inputs(kind: str) -> tuple[Any, Any]:
    """Three inputs x1 and two others x2."""
    generator = np.random.default_rng(sum(map(ord, kind)))
    drawn = jnp.asarray(generator.normal(size=(5, *SHAPES[kind])))
    return drawn[:3], drawn[3:]


def masked(kind: str) -> tuple[Any, Any]:
    """The same with missing positions, different ones in every input."""
    generator = np.random.default_rng(1)
    missing = generator.uniform(size=(5, *SHAPES[kind][:-1], 1)) < 0.35
    x1, x2 = inputs(kind)
    return jnp.where(missing[:3], MISSING, x1), jnp.where(missing[3:], MISSING, x2)


def graphs() -> tuple[Any, Any]:
    """A graph without symmetry for every input."""
    drawn = jnp.asarray(np.random.default_rng(2).uniform(size=(5, 5, 5)))
    return drawn[:3], drawn[3:]


def networks(nt: Any) -> dict[str, Case]:
    """Every network by its name."""
    stax = nt.stax
    return {
        **{f"branches, {name}": case for name, case in _branches(stax).items()},
        **{f"positions, {name}": case for name, case in _positions(stax).items()},
        **{f"activation, {name}": case for name, case in _activations(stax).items()},
        **{f"masked, {name}": case for name, case in _masked(stax).items()},
        **{f"attention, {name}": case for name, case in _attention(stax).items()},
        **{f"graph, {name}": case for name, case in _graphs(stax).items()},
    }


def _ways(stax: Any, join: Any, *ways: Any) -> Any:
    return stax.serial(stax.FanOut(len(ways)), stax.parallel(*ways), join)


def _branches(stax: Any) -> dict[str, Case]:
    relu, one = stax.Relu(), partial(stax.Dense, 1, 1.3, 0.2)
    ways = partial(_ways, stax)
    hidden = stax.serial(one(), relu, one())
    conv = stax.Conv(1, (3,), padding="SAME", W_std=1.2, b_std=0.1)

    def wide(width: int, **settings: Any) -> Any:
        return stax.Dense(width, 1.1, 0.3, **settings)

    inner = ways(stax.FanInSum(), hidden, one())
    standard = partial(stax.Dense, W_std=1.3, b_std=0.2, parameterization="standard")
    return {
        "three in a sum": Case("vectors", [ways(stax.FanInSum(), hidden, one(), one()), relu]),
        "three in a product": Case("vectors", [ways(stax.FanInProd(), hidden, one(), one())]),
        "sum in a sum": Case("vectors", [ways(stax.FanInSum(), inner, one()), relu, one()]),
        "channels beside channels": Case(
            "vectors",
            [
                ways(stax.FanInConcat(-1), wide(4), stax.serial(wide(2), relu, wide(6)), wide(3)),
                *(one(), relu),
            ],
        ),
        "positions beside positions": Case(
            "sequences", [ways(stax.FanInConcat(1), conv, one()), relu, stax.GlobalAvgPool()]
        ),
        "rows beside rows": Case(
            "images", [ways(stax.FanInConcat(1), one(), one()), relu, one(), stax.GlobalAvgPool()]
        ),
        "two parallels": Case(
            "vectors",
            [
                *(stax.FanOut(2), stax.parallel(one(), one()), stax.parallel(relu, relu)),
                *(stax.parallel(one(), one()), stax.FanInSum(), relu, one()),
            ],
        ),
        "repeated": Case("vectors", [one(), stax.repeat(stax.serial(relu, one()), 3)]),
        "standard, wider": Case(
            "vectors",
            [
                *(standard(20, s=(1, 3)), relu, standard(10, s=(3, 2)), relu),
                standard(1, s=(2, 1)),
            ],
        ),
        "standard, no spread of biases": Case(
            "vectors", [standard(20, b_std=0.0), relu, standard(1)]
        ),
        "no spread of biases": Case(
            "vectors", [stax.Dense(1, 1.2, 0.0), relu, stax.Dense(1, 1.2, 0.0)]
        ),
    }


def _positions(stax: Any) -> dict[str, Case]:
    relu, pool, one = stax.Relu(), stax.GlobalAvgPool(), partial(stax.Dense, 1, 1.3, 0.2)
    conv = stax.Conv(1, (3, 2), padding="SAME", W_std=1.2, b_std=0.1)
    difference = (((1,), (0,)), ((), ()))
    mixture = (((1, 2), (1, 0)), ((), ()))
    table = jnp.asarray(np.random.default_rng(3).normal(size=(4, 5)))
    norm = partial(stax.LayerNorm, eps=0.01)
    return {
        "slice": Case("images", [conv, relu, stax.Index(stax.Slice[:, 1:4, ::2]), one(), pool]),
        "row": Case("images", [conv, relu, stax.Index(stax.Slice[:, 2]), one(), relu, pool]),
        "last column": Case("images", [one(), relu, stax.Index(stax.Slice[..., -1, :]), pool]),
        "factor": Case("vectors", [one(), relu, stax.DotGeneral(rhs=2.0), one()]),
        "difference": Case(
            "images",
            [
                *(one(), relu, stax.Index(stax.Slice[:, :2])),
                stax.DotGeneral(rhs=jnp.array([1.0, -1.0]), dimension_numbers=difference),
                *(one(), relu, pool),
            ],
        ),
        "weighted sum": Case(
            "images",
            [one(), relu, stax.DotGeneral(rhs=table, dimension_numbers=mixture), one(), relu],
        ),
        "norm of all": Case("images", [one(), norm(axis=(1, 2, 3)), relu, pool]),
        "norm of rows": Case("images", [one(), norm(axis=(-1, 2)), relu, one(), stax.Flatten()]),
        "norm of channels": Case("images", [conv, norm(), relu, pool]),
        "smaller": Case(
            "squares",
            [one(), relu, stax.ImageResize((-1, 3, 3, -1), "linear"), one(), relu, pool],
        ),
        "larger": Case(
            "squares",
            [one(), relu, stax.ImageResize((-1, 6, 6, -1), "linear"), one(), relu, pool],
        ),
        "edges": Case(
            "images",
            [one(), relu, stax.AvgPool((3, 2), padding="SAME", normalize_edges=True), pool],
        ),
        "pool by one": Case("images", [conv, relu, stax.AvgPool((2, 2)), stax.Flatten(), one()]),
        "outputs with positions": Case("sequences", [one(), relu]),
    }


def _activations(stax: Any) -> dict[str, Case]:
    """One hidden layer, at variances that are not 1."""
    one = partial(stax.Dense, 1, 0.9, 0.2)

    def exponential(c: Any, q1: Any, q2: Any) -> Any:
        size = jnp.sqrt(q1 * q2)
        return size * jnp.exp(c / size - 1)

    functions = {
        "by its dual": stax.Elementwise(nngp_fn=exponential),
        "by its dual and slope": stax.Elementwise(
            nngp_fn=lambda c, q1, q2: c**2, d_nngp_fn=lambda c, q1, q2: 2 * c
        ),
        "numerical": stax.ElementwiseNumerical(jnp.tanh, deg=5),
        "numerical with slope": stax.ElementwiseNumerical(jnp.sin, deg=4, df=jnp.cos),
        "normalised exponential": stax.ExpNormalized(0.7, -0.5),
        "hermite": stax.Hermite(3),
        "constant hermite": stax.Hermite(0),
        "upward gaussian": stax.Gaussian(0.8, 0.02),
        "approximate gelu": stax.Gelu(approximate=True),
        "leaky": stax.LeakyRelu(0.3, do_stabilize=True),
    }
    cases = {
        name: Case("vectors", [one(), function, one()]) for name, function in functions.items()
    }
    cases["numerical on images"] = Case(
        "sequences",
        [one(), stax.ElementwiseNumerical(jnp.tanh, deg=6), one(), stax.GlobalAvgPool()],
    )
    return cases


def _masked(stax: Any) -> dict[str, Case]:
    relu, pool, one = stax.Relu(), stax.GlobalAvgPool(), partial(stax.Dense, 1, 1.3, 0.2)
    options = {"mask_constant": MISSING}

    def conv(*window: int, padding: str = "VALID", strides: Any = None) -> Any:
        return stax.Conv(1, window, strides, padding, 1.2, 0.1)

    def case(kind: str, *layers: Any) -> Case:
        return Case(kind, list(layers), options)

    attention = partial(stax.GlobalSelfAttention, 1, 1, 1, 1, b_std=0.2)
    residual = _ways(stax, stax.FanInSum(), stax.Identity(), stax.serial(relu, one()))
    return {
        "pooled": case("sequences", one(), relu, one(), pool),
        "flat": case("sequences", one(), relu, stax.Flatten(), one()),
        "convolution": case("sequences", conv(3), relu, pool, one()),
        "convolutions": case("sequences", conv(3, padding="SAME"), relu, conv(2), relu, pool),
        "images": case("images", conv(3, 2, padding="SAME"), relu, conv(2, 2), relu, pool),
        "strides": case("images", conv(3, 2, padding="SAME", strides=(2, 1)), relu, pool),
        "average pool": case("images", one(), relu, stax.AvgPool((2, 2)), one(), pool),
        "sums": case("sequences", one(), relu, stax.GlobalSumPool(), one()),
        "residual": case("sequences", one(), residual, relu, pool),
        "norm of all": case("sequences", one(), stax.LayerNorm((1, 2)), relu, pool),
        "norm of channels": case("sequences", one(), stax.LayerNorm(), relu, pool),
        "attention": case("sequences", one(), attention(), relu, pool),
        "attention, flat": case("sequences", conv(3), relu, attention(), relu, stax.Flatten()),
        "attention on images": case("images", one(), attention(), relu, pool),
    }


def _attention(stax: Any) -> dict[str, Case]:
    relu, pool, one = stax.Relu(), stax.GlobalAvgPool(), partial(stax.Dense, 1, 1.3, 0.2)
    scales = {"W_key_std": 1.2, "W_value_std": 0.8, "W_query_std": 1.1, "W_out_std": 1.5}
    attention = partial(stax.GlobalSelfAttention, 1, 1, 1, 1, **scales)

    def case(kind: str, **settings: Any) -> Case:
        return Case(kind, [one(), relu, attention(**settings), relu, pool])

    def decay(distance: Any) -> Any:
        return 1 / (1 + distance**2)

    return {
        "plain": case("sequences"),
        "on images": case("images", b_std=0.3),
        "identity": case("sequences", attention_mechanism="IDENTITY"),
        "abs": case("sequences", attention_mechanism="ABS", b_std=0.3),
        "relu": case("images", attention_mechanism="RELU"),
        "root, identity": case("sequences", attention_mechanism="IDENTITY", linear_scaling=False),
        "positions added": case("sequences", pos_emb_type="SUM", W_pos_emb_std=0.7),
        "positions that decay": case("images", pos_emb_type="SUM", pos_emb_decay_fn=decay),
        "positions beside": case("sequences", pos_emb_type="CONCAT", n_chan_pos_emb=3),
        "positions in values": case(
            "sequences", pos_emb_type="SUM", val_pos_emb=True, pos_emb_decay_fn=decay, b_std=0.2
        ),
        "positions, 1-norm": case(
            "images", pos_emb_type="SUM", pos_emb_decay_fn=decay, pos_emb_p_norm=1
        ),
    }


def _graphs(stax: Any) -> dict[str, Case]:
    relu, pool, one = stax.Relu(), stax.GlobalAvgPool(), partial(stax.Dense, 1, 1.3, 0.2)
    options = {"pattern": graphs()}

    def case(*layers: Any) -> Case:
        return Case("sequences", list(layers), options)

    inner = stax.serial(relu, stax.Aggregate(1), one())
    return {
        "then pooled": case(stax.Aggregate(1), one(), relu, stax.Aggregate(1), one(), pool),
        "then flat": case(one(), relu, stax.Aggregate(aggregate_axis=1), stax.Flatten(), one()),
        "residual": case(one(), _ways(stax, stax.FanInSum(), stax.Identity(), inner), relu, pool),
    }


def kernels(nt: Any, case: Case) -> Any:
    """Both kernels between x1 and x2, which share no input, (2, 3, 2, ...)."""
    x1, x2 = masked(case.inputs) if "mask_constant" in case.options else inputs(case.inputs)
    _, _, kernel_fn = nt.stax.serial(*case.layers)
    found = kernel_fn(x1, x2, ("nngp", "ntk"), **case.options)
    return np.stack([np.asarray(found.nngp), np.asarray(found.ntk)])


def finite(nt: Any) -> dict[str, Callable[[], Any]]:
    """What is computed of networks that are drawn, by name."""
    stax, key = nt.stax, jax.random.PRNGKey(0)
    dense = partial(stax.Dense, W_std=1.3, b_std=0.2)
    init_fn, apply_fn, _ = stax.serial(dense(4), stax.Erf(), dense(3))
    x1, x2 = inputs("vectors")
    _, params = init_fn(key, (-1, 5))
    moved = jax.tree_util.tree_map(lambda w: w + 0.1 * jnp.cos(w), params)

    def applied(kind: str, *layers: Any, **options: Any) -> Callable[[], Any]:
        def outputs() -> Any:
            init_fn, apply_fn, _ = stax.serial(*layers)
            x, _ = masked(kind) if "mask_constant" in options else inputs(kind)
            _, params = init_fn(key, (-1, *x.shape[1:]))
            found = apply_fn(params, x, **options)
            return getattr(found, "masked_value", found)  # without the mask

        return outputs

    conv = partial(stax.Conv, 3, W_std=1.2, b_std=0.1)
    spread = partial(stax.ConvTranspose, 3, W_std=1.2, b_std=0.1)
    ways = partial(_ways, stax)
    standard = partial(stax.Dense, parameterization="standard", b_std=0.3)
    kernel = nt.empirical_kernel_fn(apply_fn)
    samples = nt.monte_carlo_kernel_fn(init_fn, apply_fn, key, 3)
    return {
        "outputs": lambda: apply_fn(params, x1),
        "convolutions": applied(
            "images",
            *(conv((3, 2), (2, 1), "SAME"), stax.Relu(), stax.AvgPool((2, 2))),
            *(conv((2, 1), padding="CIRCULAR"), stax.Flatten(), dense(2)),
        ),
        "transposed": applied(
            "images",
            *(spread((3, 2), (2, 1), "SAME"), stax.Relu(), spread((2, 3)), stax.GlobalAvgPool()),
        ),
        "local": applied(
            "images", stax.ConvLocal(3, (3, 2), padding="SAME", b_std=0.2), stax.GlobalSumPool()
        ),
        "standard": applied(
            "vectors", standard(4, s=(1, 2)), stax.Relu(), standard(3, s=(2, 1), W_std=1.5)
        ),
        "repeated ways": applied(
            "vectors",
            ways(stax.FanInConcat(), dense(4), stax.serial(dense(2), stax.Relu())),
            ways(stax.FanInProd(), dense(4), dense(4), dense(4)),
            stax.repeat(stax.serial(stax.Gelu(True), dense(4), stax.LayerNorm()), 2),
        ),
        "masked": applied(
            "sequences",
            *(conv((2,)), stax.Relu(), dense(2), stax.GlobalAvgPool()),
            mask_constant=MISSING,
        ),
        "graph": applied(
            "sequences", stax.Aggregate(1), dense(2), stax.Relu(), pattern=graphs()[0]
        ),
        "attention": applied("sequences", stax.GlobalSelfAttention(3, 4, 2, 2, b_std=0.2)),
        "attention with positions": applied(
            "sequences",
            stax.GlobalSelfAttention(
                *(3, 4, 2, 2, False, 1.1, 1.2, 1.3, 1.4, 0.2, "RELU", "CONCAT"),
                n_chan_pos_emb=3,
                pos_emb_decay_fn=lambda distance: 1 / (1 + distance),
            ),
        ),
        "tangent kernel": lambda: kernel(x1, x2, "ntk", params),
        "nngp": lambda: kernel(x1, x2, "nngp", params),
        "all outputs": lambda: nt.empirical_ntk_fn(apply_fn, trace_axes=())(x1, x2, params),
        "every output": lambda: nt.empirical_ntk_fn(
            apply_fn, trace_axes=(), diagonal_axes=(-1,), implementation=2
        )(x1, x2, params),
        "all outputs' nngp": lambda: nt.empirical_nngp_fn(apply_fn, ())(x1, x2, params),
        "tangent kernel times vectors": lambda: nt.empirical_ntk_vp_fn(apply_fn, x1, None, params)(
            jnp.cos(apply_fn(params, x1))
        ),
        "sampled tangent kernel": lambda: samples(x1, x2, "ntk"),
        "sampled nngp": lambda: samples(x1, None).nngp,
        "linearised": lambda: nt.linearize(apply_fn, params)(moved, x1),
        "third order": lambda: nt.taylor_expand(apply_fn, params, 3)(moved, x1),
    }


def predictions(nt: Any) -> dict[str, Callable[[], Any]]:
    """What is predicted of training, by name."""
    predict, stax = nt.predict, nt.stax
    dense = partial(stax.Dense, 1, 1.4, 0.2)
    _, _, kernel_fn = stax.serial(dense(), stax.Erf(), dense())
    x, x_test = inputs("vectors")
    y = jnp.asarray(np.random.default_rng(4).normal(size=(3, 2)))
    train, cross = kernel_fn(x, None, "ntk"), kernel_fn(x_test, x, "ntk")
    start, test_start = 0.3 * y[::-1], jnp.ones((2, 2))
    times = jnp.array([[0.5, 3.0], [20.0, 200.0]])
    both = kernel_fn(x, None, ("nngp", "ntk"))
    both_cross = kernel_fn(x_test, x, ("nngp", "ntk"))
    before = kernel_fn(x_test, None, "nngp")
    several = jnp.einsum("nm,ab->nmab", train, jnp.array([[2.0, 0.5], [0.5, 1.0]]))
    several_cross = jnp.einsum("nm,ab->nmab", cross, jnp.array([[2.0, 0.5], [0.5, 1.0]]))

    def logistic(f: Any, y: Any) -> Any:
        return jnp.mean(jnp.logaddexp(0.0, -f * y))

    mse = partial(predict.gradient_descent_mse, train, y, 0.7)
    ensemble = partial(predict.gradient_descent_mse_ensemble, kernel_fn, x, y, 0.7)
    inference = predict.gp_inference(both, y, diag_reg=0.1)
    flow = predict.gradient_descent(logistic, train, y, 0.7)
    ball = predict.gradient_descent(logistic, train, y, 0.7, 0.9)
    state = predict.ODEState(start, test_start, -start, 0.5 * test_start)
    late = jnp.array([1.0, 5.0])
    rates = predict.max_learning_rate
    return {
        "mse": lambda: mse()(times, start, test_start, cross),
        "mse at the end": lambda: mse(diag_reg=0.01)(None, 0.0, 0.0, cross),
        "mse, ridge": lambda: mse(0.2, True)(times, start, test_start, cross),
        "mse, test only": lambda: mse()(2.0, None, 0.0, cross),
        "mse, coupled outputs": lambda: predict.gradient_descent_mse(several, y, trace_axes=())(
            times, start, test_start, several_cross
        ),
        "posterior": lambda: inference(None, both_cross, before),
        "posterior means": lambda: inference("ntk", both_cross),
        "posterior of the tangent kernel": lambda: inference(
            "ntkgp", both_cross, kernel_fn(x_test, None, ("nngp", "ntk"))
        ),
        "ensemble": lambda: ensemble()(times, x_test, None, True),
        "ensemble with ridge": lambda: ensemble(0.1)(times, x_test, None, True),
        "ensemble at the end": lambda: ensemble(0.1)(None, x_test, None, True),
        "ensemble at the samples": lambda: ensemble(0.1)(times, None, None, True),
        "ensemble means": lambda: ensemble()(5.0, x_test, "nngp"),
        "flow": lambda: flow(late, start, test_start, cross),
        "momentum": lambda: ball(late, start, test_start, cross),
        "momentum, resumed": lambda: ball(late, state, None, cross).fx_test,
        "largest rate": lambda: rates(train, 6),
        "largest rate, momentum": lambda: rates(several, momentum=0.5),
    }


def values(nt: Any) -> dict[str, Callable[[], Any]]:
    """Everything by its name."""
    found = {name: partial(kernels, nt, case) for name, case in networks(nt).items()}
    for kind, calls in (("finite", finite(nt)), ("predict", predictions(nt))):
        found |= {f"{kind}, {name}": call for name, call in calls.items()}
    return found


def flat(found: Any) -> np.ndarray:
    """All numbers of a result, one after the other."""
    leaves = jax.tree_util.tree_leaves(found)
    return np.concatenate([np.ravel(np.asarray(leaf)) for leaf in leaves])


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_threefry_partitionable", True)
    nt = importlib.import_module("neural_tangents")
    found = {}
    for name, call in values(nt).items():
        try:
            found[name] = flat(call())
        except Exception as problem:
            print(f"{name}: {problem!r:.300}")
    unsure = [name for name, numbers in found.items() if not math.isfinite(numbers.sum())]
    print(f"{len(found)} results, {sum(map(len, found.values()))} numbers; not finite: {unsure}.")
    np.savez_compressed(VALUES, **found)


if __name__ == "__main__":
    main()
