"""Sequences of examples of one function each, to be learned in context: the tasks of Garg et al.

    x₁, f(x₁) + ε₁, x₂, f(x₂) + ε₂, …     x ~ N(0, I),  ε ~ N(0, σ²),  f anew for every sequence

    linear       f(x) = ⟨w, x⟩,  w ~ N(0, I)
    sparse       the same with all but s coordinates of w 0
    tree         a full binary tree: a vertex asks for the sign of a random coordinate, a leaf
                 answers with a number from N(0, 1)
    two_layer    f(x) = √(2/m) Σᵢ aᵢ max(0, ⟨wᵢ, x⟩),  a, w ~ N(0, 1)

Every place is a query for the examples before it, so one sequence holds as many prompts as it has
examples. For a linear task with w ~ N(0, I) the best prediction is ridge regression with λ = σ².

Source: shi · icl-linreg · §5.4; Garg, Tsipras, Liang and Valiant (2022), What can transformers
learn in-context? A case study of simple function classes.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey

from .prompts import check_prompts

Kind = Literal["linear", "sparse", "tree", "two_layer"]
_DEEPEST = 20  # 2ᴰ leaves


class Sequences(NamedTuple):
    """b sequences of n examples: inputs, labels, and what these are without noise."""

    x: Float[Array, "b n d"]
    y: Float[Array, "b n"]
    clean: Float[Array, "b n"]


@dataclass(frozen=True)
class FunctionLaw:
    """From which functions the tasks are drawn.

    Args:
        kind: "linear", "sparse", "tree" or "two_layer".
        dimension: d of the inputs.
        noise: The standard deviation σ of labels.
        sparsity: s, coordinates that matter to a sparse task.
        depth: Questions from the root of a tree to a leaf.
        num_neurons: m of a two-layer task.

    Example:
        >>> FunctionLaw("sparse", dimension=8, sparsity=2).noise
        0.0
    """

    kind: Kind = "linear"
    dimension: int = 8
    noise: float = 0.0
    sparsity: int = 3
    depth: int = 4
    num_neurons: int = 100

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}.")
        for name in ("dimension", "sparsity", "depth", "num_neurons"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.kind == "sparse" and self.sparsity > self.dimension:
            raise ValueError(
                f"sparsity must be at most the dimension {self.dimension}, got {self.sparsity}."
            )
        if self.depth > _DEEPEST:
            raise ValueError(f"depth must be at most {_DEEPEST}, got {self.depth}.")
        if not 0 <= self.noise < math.inf:
            raise ValueError(f"noise must not be negative, got {self.noise}.")


def draw_sequences(
    key: RandomKey, law: FunctionLaw, num_sequences: int, num_examples: int
) -> Sequences:
    """Draw a function for every sequence, and examples of it.

    Args:
        key: The randomness.
        law: From which functions.
        num_sequences: b.
        num_examples: n, the examples of each.

    Example:
        >>> drawn = draw_sequences(jax.random.key(0), FunctionLaw("tree", dimension=3), 2, 5)
        >>> drawn.x.shape, drawn.y.shape
        ((2, 5, 3), (2, 5))
    """
    check_prompts(num_sequences, num_examples)
    input_key, noise_key, task_key = jax.random.split(key, 3)
    flat = jax.random.normal(input_key, (num_sequences * num_examples, law.dimension))
    x = flat.reshape(num_sequences, num_examples, law.dimension)
    answers = {"tree": _tree, "two_layer": _two_layer}.get(law.kind, _linear)
    keys = jax.random.split(task_key, num_sequences)
    clean = jax.vmap(lambda key, x: answers(key, law, x))(keys, x)
    return Sequences(x, clean + law.noise * jax.random.normal(noise_key, clean.shape), clean)


def _linear(key: RandomKey, law: FunctionLaw, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    weight_key, place_key = jax.random.split(key)
    weights = jax.random.normal(weight_key, (law.dimension,))
    if law.kind == "sparse":
        order = jax.random.permutation(place_key, law.dimension)
        weights = jnp.where(order < law.sparsity, weights, 0.0)
    return x @ weights


def _tree(key: RandomKey, law: FunctionLaw, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    question_key, leaf_key = jax.random.split(key)
    num_questions = 2**law.depth - 1
    questions = jax.random.randint(question_key, (num_questions,), 0, law.dimension)
    leaves = jax.random.normal(leaf_key, (2**law.depth,))

    def answer(point: Float[Array, " d"]) -> Float[Array, ""]:
        # Vertex v has the children 2v + 1 and 2v + 2, as in a heap; leaves follow the questions.
        def descend(_: Array, vertex: Array) -> Array:
            return 2 * vertex + 1 + (point[questions[vertex]] > 0)

        return leaves[jax.lax.fori_loop(0, law.depth, descend, 0) - num_questions]

    return jax.vmap(answer)(x)


def _two_layer(key: RandomKey, law: FunctionLaw, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    inner_key, outer_key = jax.random.split(key)
    inner = jax.random.normal(inner_key, (law.dimension, law.num_neurons))
    outer = jax.random.normal(outer_key, (law.num_neurons,))
    return math.sqrt(2 / law.num_neurons) * jax.nn.relu(x @ inner) @ outer
