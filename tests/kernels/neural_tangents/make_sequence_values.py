"""Kernels of Neural Tangents for masked inputs and for attention: `sequence_values.npz`.

Run with neural-tangents 0.6.6 (its main branch) in an environment of its own, on JAX 0.4.38:

    python make_sequence_values.py

For every case the file holds the NNGP and the tangent kernel between the three inputs x1 and
[x1, x2], five in all, (kernel, 3, 5), in float64: the columns of x1 from kernel_fn(x1, None), those
of x2 from kernel_fn(x1, x2). Missing entries of the inputs are `MISSING`; the cases whose name ends
with "whole" have another number there and no mask. `test_sequence_values.py` has the same networks.
"""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

VALUES = Path(__file__).with_name("sequence_values.npz")
MISSING = 99.0


def inputs() -> dict[str, np.ndarray]:
    """Five sequences and five images, with missing positions."""
    generator = np.random.default_rng(0)
    sequences = generator.normal(size=(5, 6, 3))
    for where in ((0, slice(4, 6)), (1, 2), (3, slice(1, 6)), (4, 0)):
        sequences[where] = MISSING
    images = generator.normal(size=(5, 6, 4, 2))
    for where in ((0, slice(4, 6)), (1, slice(6), 3), (2, 2, 1), (4, slice(2), slice(2))):
        images[where] = MISSING
    return {"sequences": sequences, "images": images}


def cases(stax: Any, jax: Any) -> dict[str, tuple[str, list[Any]]]:
    """Every network by its name: the inputs, and the layers."""
    return {
        **{name: ("sequences", layers) for name, layers in _sequences(stax).items()},
        **{name: ("images", layers) for name, layers in _images(stax).items()},
        **{name: ("sequences", layers) for name, layers in _attention(stax, jax).items()},
        **_positions_of_images(stax, jax),
    }


SCALES = {"W_std": 1.3, "b_std": 0.2}


def _sequences(stax: Any) -> dict[str, list[Any]]:
    dense, conv = partial(stax.Dense, 1, **SCALES), partial(stax.Conv, 1, **SCALES)
    relu, pool = stax.Relu(), stax.GlobalAvgPool()
    wide = partial(conv, (3,), padding="SAME")
    standard = {**SCALES, "parameterization": "standard"}
    branch = stax.serial(relu, wide())
    return {
        "pool": [conv((3,)), relu, pool, dense()],
        "sum pool": [wide(), stax.Erf(), stax.GlobalSumPool(), dense()],
        "cosine": [dense(), stax.Cos(), pool, dense()],
        "flatten": [conv((2,), (2,), "SAME"), relu, stax.Flatten(), dense()],
        "layer norm": [dense(), stax.LayerNorm(), relu, wide(), relu, pool, dense()],
        "layer norm of all": [dense(), stax.LayerNorm((1, 2)), relu, wide(), relu, pool, dense()],
        "local": [stax.ConvLocal(1, (3,), **SCALES), relu, stax.Flatten(), dense()],
        "residual": [
            *(dense(), stax.FanOut(2), stax.parallel(branch, stax.Identity())),
            *(stax.FanInSum(), relu, pool, dense()),
        ],
        "standard": [
            *(stax.Conv(16, (3,), None, "SAME", **standard), relu, pool),
            stax.Dense(1, **standard),
        ],
        "dropout": [dense(), relu, stax.Dropout(0.8), pool, dense()],
        "resize": [
            *(dense(), relu, stax.ImageResize((-1, 12, -1), "linear"), conv((2,)), relu),
            *(pool, dense()),
        ],
        "outputs with positions": [conv((3,)), relu, dense(), stax.GlobalSumPool()],
    }


def _images(stax: Any) -> dict[str, list[Any]]:
    dense, conv = partial(stax.Dense, 1, **SCALES), partial(stax.Conv, 1, **SCALES)
    relu, pool = stax.Relu(), stax.GlobalAvgPool()
    wide = partial(conv, (3, 3), None, "SAME")
    # Images are resized before any convolution: after one, Neural Tangents exchanges their axes.
    return {
        "average pool": [
            *(wide(), relu, stax.AvgPool((2, 2), (2, 2)), conv((2, 2)), stax.Erf()),
            *(pool, dense()),
        ],
        "strides": [
            *(conv((3, 2), (2, 1), "SAME"), relu, conv((3, 3), (2, 2), "CIRCULAR"), relu),
            *(stax.Flatten(), dense()),
        ],
        "normalized edges": [
            *(wide(), relu, stax.AvgPool((2, 3), (1, 2), "SAME", normalize_edges=True)),
            *(conv((2, 1)), stax.Erf(), pool, dense()),
        ],
        "smaller": [
            *(dense(), relu, stax.ImageResize((-1, 4, 3, -1), "linear"), conv((2, 2)), relu),
            *(pool, dense()),
        ],
        "smaller, no antialias": [
            *(dense(), stax.ImageResize((-1, 4, 5, -1), "linear", antialias=False), wide(), relu),
            *(pool, dense()),
        ],
        "nearest": [
            *(dense(), relu, stax.ImageResize((-1, 4, 6, -1), "nearest"), conv((2, 2)), relu),
            *(stax.Flatten(), dense()),
        ],
        "layer norm of rows": [wide(), stax.LayerNorm((2, 3)), relu, pool, dense()],
        "layer norm of images": [wide(), stax.LayerNorm((1, 2, 3)), relu, pool, dense()],
        "transposed": [
            *(stax.ConvTranspose(1, (2, 2), (2, 2), **SCALES), relu, pool, dense()),
        ],
    }


def _around(stax: Any, attention: Any) -> list[Any]:
    dense = partial(stax.Dense, **SCALES)
    return [dense(3), attention, stax.Relu(), stax.GlobalAvgPool(), dense(1)]


def _attend(stax: Any, **settings: Any) -> list[Any]:
    matrices = {"W_key_std": 0.9, "W_query_std": 1.4, "W_value_std": 1.2, "W_out_std": 0.8}
    return _around(stax, stax.GlobalSelfAttention(1, 1, 1, 1, b_std=0.3, **matrices, **settings))


def _decay(jax: Any) -> dict[str, Any]:
    return {"pos_emb_decay_fn": lambda d: jax.numpy.exp(-0.3 * d), "pos_emb_p_norm": 1.5}


def _attention(stax: Any, jax: Any) -> dict[str, list[Any]]:
    attend = partial(_attend, stax)
    identity = {"linear_scaling": False, "attention_mechanism": "IDENTITY"}
    found = {"softmax whole": attend(), "root whole": attend(**identity)}
    for mechanism in ("SOFTMAX", "IDENTITY", "ABS", "RELU"):
        found[mechanism.lower()] = attend(attention_mechanism=mechanism)
    found["root"] = attend(**identity)
    for kind, join in (("SUM", "sum"), ("CONCAT", "concatenate")):
        for in_values in (False, True):
            name = f"{join}{' in values' if in_values else ''}"
            embedding = {"pos_emb_type": kind, "val_pos_emb": in_values, "W_pos_emb_std": 0.7}
            channels = {"n_chan_pos_emb": 5} if kind == "CONCAT" else {}
            found[name] = attend(**embedding)
            found[f"{name}, decay"] = attend(**embedding, **channels, **_decay(jax))
            found[f"{name}, root"] = attend(**embedding, **identity)
    return found


def _positions_of_images(stax: Any, jax: Any) -> dict[str, tuple[str, list[Any]]]:
    embedding = {"pos_emb_type": "SUM", "val_pos_emb": True, **_decay(jax)}
    root = {"linear_scaling": False, "attention_mechanism": "IDENTITY"}
    return {
        "images": ("images", _attend(stax, **embedding)),
        "images, root": ("images", _attend(stax, **embedding, **root)),
    }


def main() -> None:
    """Compute all of them."""
    import jax
    from neural_tangents import stax  # type: ignore[attr-defined]

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    found = {}
    for name, (kind, layers) in cases(stax, jax).items():
        x, masks = inputs()[kind], {"mask_constant": MISSING}
        if name.endswith("whole"):
            x, masks = np.where(x == MISSING, 0.5, x), {}
        kernel_fn = stax.serial(*layers)[2]
        wanted = ("nngp", "ntk")
        sides = [kernel_fn(x[:3], other, wanted, **masks) for other in (None, x[3:])]
        kernels = [np.concatenate([getattr(s, each) for s in sides], 1) for each in wanted]
        found[name] = np.stack(kernels)
    np.savez_compressed(VALUES, **found)


if __name__ == "__main__":
    main()
