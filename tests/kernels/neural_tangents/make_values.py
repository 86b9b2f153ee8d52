"""Kernels of Neural Tangents, to compare with: `values.npz` beside this file.

Run in an environment of its own, Python 3.11 with neural-tangents 0.6.5 on JAX 0.4.25 (newer ones
do not import it; TensorFlow is among its imports):

    pip install numpy==1.26.4 scipy==1.13.1 ml-dtypes==0.4.1 opt_einsum dm-tree frozendict \
        tensorflow-cpu==2.17.1
    pip install --no-deps jax==0.4.25 jaxlib==0.4.25 neural-tangents==0.6.5 tf2jax==0.3.6
    python make_values.py

`values.npz` holds the inputs, the names of the cases, and for every case the NNGP and the tangent
kernel between the three inputs x1 and [x1, x2], five in all, (case, kernel, 3, 5): the columns of
x1 from kernel_fn(x1, None), those of x2 from kernel_fn(x1, x2). `test_values.py` has the same
networks, by name, as theorylab writes them.
"""

import importlib
import math
import os
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

VALUES = Path(__file__).with_name("values.npz")
SHAPES = {  # of the inputs, with unequal axes, so that an exchange of axes is seen
    "vectors": (5,),
    "units": (5,),  # scaled to length √5, so that variances are 1
    "signals": (6, 2),
    "images": (6, 4, 2),
    "volumes": (3, 4, 2, 2),
}
HE = math.sqrt(2.0)


def inputs() -> dict[str, np.ndarray]:
    """Five inputs of every shape, the first three being x1; and a graph for each."""
    generator = np.random.default_rng(0)
    drawn = {name: generator.normal(size=(5, *shape)) for name, shape in SHAPES.items()}
    drawn["units"] *= math.sqrt(5) / np.linalg.norm(drawn["units"], axis=1, keepdims=True)
    drawn["graphs"] = generator.uniform(-1, 1, (5, 6, 6))
    return drawn


def cases(stax: Any, jax: Any) -> dict[str, tuple[str, list[Any]]]:
    """Every network by its name: the inputs, and the layers."""
    one = partial(stax.Dense, 1)
    images = [*_images(stax).items(), *_transposed(stax).items()]
    return {
        **{name: ("vectors", layers) for name, layers in _dense(stax).items()},
        **{name: ("vectors", layers) for name, layers in _activations(stax, jax).items()},
        **{name: ("units", layers) for name, layers in _of_variance_one(stax).items()},
        **{name: (kind, [*layers, one()]) for name, (kind, layers) in images},
        **{name: (kind, [*layers, one()]) for name, (kind, layers) in _mixing(stax).items()},
        **_standard(stax),
    }


def _hidden(stax: Any, activation: Any, depth: int, scales: tuple[float, float]) -> list[Any]:
    """`depth` hidden layers with weights and biases, and an output layer with neither scale."""
    return [*(stax.Dense(1, *scales), activation) * depth, stax.Dense(1)]


def _dense(stax: Any) -> dict[str, list[Any]]:
    relu = stax.Relu()
    return {
        "linear": [stax.Dense(1, 1.5, 0.3)],
        "deep linear": [stax.Dense(1, 0.9, 0.3)] * 3,
        "relu, no biases": [stax.Dense(1, HE), relu] * 2 + [stax.Dense(1, HE)],
        "relu": _hidden(stax, relu, 3, (HE, 0.1)),
        "relu, scales by layer": [
            *(stax.Dense(1, 1.7, 0.2), relu, stax.Dense(1, 0.6), relu),
            *(stax.Dense(1, 1.1, 1.3), relu, stax.Dense(1, 2.0, 0.05)),
        ],
        "relu, 20 hidden": _hidden(stax, relu, 20, (HE, 0.1)),
        "erf, 20 hidden": _hidden(stax, stax.Erf(), 20, (1.4, 0.1)),
        "ends with relu": [stax.Dense(1, 1.2, 0.4), relu, stax.Dense(1, 1.2, 0.4), relu],
    }


def _activations(stax: Any, jax: Any) -> dict[str, list[Any]]:
    """Two hidden layers; one where Neural Tangents has no number at equal inputs, but NaN."""
    functions = {
        "leaky relu": stax.LeakyRelu(0.2),
        "two slopes": stax.ABRelu(-0.3, 1.4),
        "abs": stax.Abs(),
        "sign": stax.Sign(),
        "erf": stax.Erf(),
        "scaled erf": stax.Erf(0.7, 1.3, 0.2),
        "sigmoid like": stax.Sigmoid_like(),
        "gelu": stax.Gelu(),
        "sine": stax.Sin(),
        "scaled sine": stax.Sin(1.2, 0.8, 0.3),
        "cosine": stax.Cos(),
        "scaled cosine": stax.Cos(1.2, 0.8, 0.3),
        "rbf": stax.Rbf(0.7),
        "gabor": stax.Gabor(),
        "exponential": stax.Exp(0.5, 0.4),
        "gaussian": stax.Gaussian(0.9, -0.6),
        "square": stax.Monomial(2),
        "cube": stax.Monomial(3),
        "fifth power": stax.Monomial(5),
        "polynomial": stax.Polynomial([0.2, -0.5, 0.3, 0.1]),
        "tanh": stax.ElementwiseNumerical(jax.numpy.tanh, 128),
        "swish": stax.ElementwiseNumerical(jax.nn.silu, 128),
    }
    rectified = {
        "step": stax.RectifiedMonomial(0),
        "relu squared": stax.RectifiedMonomial(2),
        "relu cubed": stax.RectifiedMonomial(3),
    }
    scales = (0.8, 0.2)
    return {
        **{name: _hidden(stax, function, 2, scales) for name, function in functions.items()},
        **{name: _hidden(stax, function, 1, scales) for name, function in rectified.items()},
    }


def _of_variance_one(stax: Any) -> dict[str, list[Any]]:
    """Where its kernels are those of the function at variance 1 only."""
    one = stax.Dense(1)
    return {
        "hermite": [one, stax.Hermite(3), one, stax.Hermite(2), one],
        "normalised exponential": [one, stax.ExpNormalized(1.2), one, stax.ExpNormalized(0.7), one],
    }


def _images(stax: Any) -> dict[str, tuple[str, list[Any]]]:
    """Convolutions and pooling."""
    relu, flatten, average = stax.Relu(), stax.Flatten(), stax.GlobalAvgPool()

    def conv(*window: int, padding: str = "VALID", strides: Any = None, bias: Any = 0.2) -> Any:
        return stax.Conv(1, window, strides, padding, 1.3, bias)

    local = partial(stax.ConvLocal, 1, W_std=1.3, b_std=0.2)
    myrtle = [conv(3, 3, padding="SAME", bias=None), relu]
    return {
        "signal, valid, flat": ("signals", [conv(3), relu, conv(2), relu, flatten]),
        "signal, same, pooled": ("signals", [*(conv(3, padding="SAME"), relu) * 2, average]),
        "signal, circular, pooled": (
            "signals",
            [*(conv(3, padding="CIRCULAR"), relu) * 2, average],
        ),
        "image, valid, flat": ("images", [conv(3, 2), relu, conv(2, 2), relu, flatten]),
        "image, same, flat": ("images", [*(conv(3, 2, padding="SAME"), relu) * 2, flatten]),
        "image, valid, pooled": ("images", [conv(3, 2), relu, conv(2, 2), relu, average]),
        "image, circular, pooled": (
            "images",
            [*(conv(3, 2, padding="CIRCULAR"), stax.Erf()) * 2, average],
        ),
        "image, same, strides": (
            "images",
            [conv(3, 3, padding="SAME", strides=(2, 1)), relu, conv(2, 2), relu, average],
        ),
        "image, circular, strides": (
            "images",
            [conv(3, 2, padding="CIRCULAR", strides=(2, 2)), relu, flatten],
        ),
        "image, valid, strides": ("images", [conv(2, 2, strides=(1, 2)), relu, average]),
        "volume, same, pooled": ("volumes", [conv(2, 3, 2, padding="SAME"), relu, average]),
        "volume, valid, flat": ("volumes", [conv(2, 3, 2), relu, flatten]),
        "dense at every position": (
            "images",
            [stax.Dense(1, 1.3, 0.2), relu, conv(3, 2), relu, stax.Dense(1, 1.3), relu, average],
        ),
        "average pool": (
            "images",
            [conv(3, 3, padding="SAME"), relu, stax.AvgPool((2, 2), (2, 2)), conv(2, 2), flatten],
        ),
        "average pool, strides": (
            "images",
            [conv(3, 3, padding="SAME"), relu, stax.AvgPool((3, 2), (2, 1)), flatten],
        ),
        "average pool, same": (
            "images",
            [
                *(conv(3, 3, padding="SAME"), relu, stax.AvgPool((3, 2), (2, 1), "SAME")),
                *(conv(2, 2), relu, average),
            ],
        ),
        "sum pool, circular": (
            "images",
            [conv(3, 3, padding="SAME"), relu, stax.SumPool((3, 2), (1, 2), "CIRCULAR"), flatten],
        ),
        "global sum": ("images", [conv(3, 3, padding="SAME"), relu, stax.GlobalSumPool()]),
        "myrtle": (
            "images",
            [
                *(*myrtle, *myrtle, stax.AvgPool((2, 2), (2, 2))),
                *(*myrtle, stax.AvgPool((3, 2), (3, 2)), *myrtle, average),
            ],
        ),
        "local, valid, pooled": (
            "images",
            [local((3, 2)), relu, local((2, 2)), relu, average],
        ),
        "local, same, flat": ("images", [local((3, 2), padding="SAME"), relu, flatten]),
        "local after conv": (
            "signals",
            [conv(3, padding="SAME"), relu, local((2,)), relu, average],
        ),
    }


def _transposed(stax: Any) -> dict[str, tuple[str, list[Any]]]:
    relu, flatten, average = stax.Relu(), stax.Flatten(), stax.GlobalAvgPool()

    def spread(*window: int, **settings: Any) -> Any:
        return stax.ConvTranspose(1, window, W_std=1.3, b_std=0.2, **settings)

    return {
        "transposed, valid": ("signals", [spread(3), relu, flatten]),
        "transposed, strides": ("signals", [spread(3, strides=(2,)), relu, average]),
        "transposed, same": (
            "signals",
            [spread(3, strides=(2,), padding="SAME"), relu, spread(2, padding="SAME"), average],
        ),
        "transposed, circular": ("signals", [spread(3, padding="CIRCULAR"), relu, average]),
        "transposed, circular, strides": (
            "signals",
            [spread(3, padding="CIRCULAR", strides=(2,)), relu, average],
        ),
        "transposed image": (
            "images",
            [spread(2, 3, strides=(1, 2), padding="SAME"), relu, flatten],
        ),
        "transposed image, valid": (
            "images",
            [spread(2, 3, strides=(2, 1)), relu, average],
        ),
    }


def _mixing(stax: Any) -> dict[str, tuple[str, list[Any]]]:
    """Branches, normalisation, dropout, graphs, attention, resizing."""
    relu, flatten, average = stax.Relu(), stax.Flatten(), stax.GlobalAvgPool()
    same = partial(stax.Conv, 1, padding="SAME", W_std=1.3, b_std=0.2)

    def dense(width: int = 1) -> Any:
        return stax.Dense(width, 1.3, 0.2)

    def ways(join: Any, *ways: Any) -> Any:
        return stax.serial(stax.FanOut(len(ways)), stax.parallel(*ways), join)

    def residual(*branch: Any) -> Any:
        return ways(stax.FanInSum(), stax.Identity(), stax.serial(*branch))

    def attention(scale: float, bias: float | None) -> Any:
        return stax.GlobalSelfAttention(
            *(1, 1, 1, 1),
            linear_scaling=True,
            W_key_std=scale,
            W_value_std=scale,
            W_query_std=scale,
            W_out_std=scale,
            b_std=bias,
        )

    gate = ways(stax.FanInProd(), dense(), stax.serial(dense(), relu, dense()))
    beside = ways(stax.FanInConcat(-1), stax.Identity(), stax.serial(relu, dense(6)))
    norm = stax.LayerNorm()
    # Images are resized to squares: after an odd number of convolutions Neural Tangents holds a
    # kernel with exchanged axes, and resizes it as if they were not.
    return {
        "residual": ("vectors", [dense(), residual(relu, dense()), relu]),
        "residual blocks": (
            "vectors",
            [dense(), *[residual(relu, dense(), relu, dense())] * 3, relu],
        ),
        "residual convolutions": (
            "images",
            [same(filter_shape=(3, 3)), residual(relu, same(filter_shape=(3, 2))), relu, average],
        ),
        "residual with shortcut": (
            "vectors",
            [ways(stax.FanInSum(), stax.Dense(1, 0.7), stax.serial(dense(), relu, dense())), relu],
        ),
        "product": ("vectors", [gate]),
        "concatenation": ("vectors", [dense(4), beside, dense(), relu]),
        "layer norm": ("vectors", [dense(), norm, relu, dense(), norm, relu]),
        "layer norm of images": ("images", [same(filter_shape=(3, 2)), norm, relu, average]),
        "dropout": ("vectors", [dense(), relu, stax.Dropout(0.7), dense(), relu]),
        "dropout of images": (
            "images",
            [same(filter_shape=(3, 2)), relu, stax.Dropout(0.7), dense(), relu, average],
        ),
        "graph": ("signals", [stax.Aggregate(1), dense(), relu, stax.Aggregate(1), average]),
        "graph, flat": ("signals", [dense(), relu, stax.Aggregate(1), dense(), relu, flatten]),
        "attention": ("signals", [dense(), relu, attention(1.3, None), relu, average]),
        "attention with biases": ("signals", [dense(), relu, attention(1.3, 0.2), flatten]),
        "attention to images": ("images", [attention(1.3, 0.2), relu, flatten]),
        "upsampling, nearest": (
            "images",
            [
                *(same(filter_shape=(3, 2)), relu, stax.ImageResize((-1, 12, 12, -1), "nearest")),
                *(same(filter_shape=(3, 2)), relu, average),
            ],
        ),
        "upsampling, linear": (
            "images",
            [
                *(same(filter_shape=(3, 2)), relu, stax.ImageResize((-1, 12, 12, -1), "linear")),
                *(same(filter_shape=(3, 2)), relu, flatten),
            ],
        ),
    }


def _standard(stax: Any) -> dict[str, tuple[str, list[Any]]]:
    """The standard parametrization, whose tangent kernel knows the widths."""
    relu = stax.Relu()
    dense = partial(stax.Dense, W_std=1.3, b_std=0.2, parameterization="standard")
    conv = partial(stax.Conv, W_std=1.3, b_std=0.2, padding="SAME", parameterization="standard")
    return {
        "standard": ("vectors", [dense(20), relu, dense(10), relu, dense(1)]),
        "standard, no biases": (
            "vectors",
            [dense(20, b_std=None), stax.Erf(), dense(1, b_std=None)],
        ),
        "standard convolutions": (
            "images",
            [conv(8, (3, 2)), relu, conv(6, (2, 2)), relu, stax.GlobalAvgPool(), dense(1)],
        ),
    }


def kernels(layers: list[Any], x: np.ndarray, graphs: np.ndarray | None, stax: Any) -> np.ndarray:
    """Both kernels between x1 and all five inputs, (kernel, 3, 5)."""
    kernel_fn = stax.serial(*layers)[2]

    def between(first: slice, second: slice | None) -> np.ndarray:
        x2 = None if second is None else x[second]
        pattern = {}
        if graphs is not None:
            pattern["pattern"] = (graphs[first], graphs[first if second is None else second])
        found = kernel_fn(x[first], x2, ("nngp", "ntk"), **pattern)
        return np.stack([np.asarray(found.nngp), np.asarray(found.ntk)])

    train, test = slice(0, 3), slice(3, 5)
    return np.concatenate([between(train, None), between(train, test)], axis=-1)


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["JAX_PLATFORMS"] = "cpu"
    warnings.simplefilter("ignore")
    jax = importlib.import_module("jax")
    stax = importlib.import_module("neural_tangents.stax")
    given = inputs()
    names: list[str] = []
    values: dict[str, list[np.ndarray]] = {"float32": [], "float64": []}
    for dtype, found in values.items():
        jax.config.update("jax_enable_x64", dtype == "float64")
        networks = cases(stax, jax)
        names = list(networks)
        for name, (kind, layers) in networks.items():
            x = jax.numpy.asarray(given[kind], dtype)
            graphs = jax.numpy.asarray(given["graphs"], dtype) if "graph" in name else None
            try:
                found.append(kernels(layers, x, graphs, stax))
            except Exception as problem:
                sys.exit(f"{name}: {problem!r}")
            assert found[-1].shape == (2, 3, 5), name
            assert found[-1].dtype == dtype, name
    stacked = {dtype: np.stack(found) for dtype, found in values.items()}
    arrays: dict[str, Any] = {"names": np.array(names), **given, **stacked}
    np.savez_compressed(VALUES, **arrays)
    print(f"{len(names)} networks, {VALUES.stat().st_size} bytes in {VALUES.name}.")


if __name__ == "__main__":
    main()
