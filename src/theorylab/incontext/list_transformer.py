"""A transformer of one layer on sets of tokens, its gradients in closed form, and its descent.

    f(X) = σ(V X σ(XᵀWX)),   X = [e_{i₁} … e_{iₙ}],   loss = mean over tokens of −log f(X)_{y_j, j}

σ is the softmax of columns, W stands for W_KᵀW_Q. For one query a with attention p over the set,
logits z = Vp and probabilities q = σ(z),

    ∂loss/∂W[k, a] = p_k Σ_l (q_l − 1{l = y})(V[l, k] − z_l)
    ∂loss/∂V[l, k] = (q_l − 1{l = y}) p_k

each times 1/n. A query reads its own column of W only, so the Hessian in W has L blocks of L × L,
and L products with it give all of them. At W = 0 and V = cP the loss is log(n + (L − n)e^{−c/n}),
between log n and log L; all tokens of the set tie there, and a tie is an error.

Source: karp · dl-former · §4.2.1.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theorylab.typing import Scalar


class ListTransformer(NamedTuple):
    """The two matrices.

    Example:
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=jnp.eye(3))
        >>> list_logits(params, jnp.array([[0, 2]]))[0].tolist()  # labels × tokens of the set
        [[0.5, 0.5], [0.0, 0.0], [0.5, 0.5]]
    """

    attention: Float[Array, "l l"]  # W[key, query]
    values: Float[Array, "l l"]  # V[label, key]


class Sets(NamedTuple):
    """Sets of tokens with the labels of all their tokens.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2]])
        >>> Sets(tokens, labels=tokens).labels.tolist()
        [[0, 1], [0, 2]]
    """

    tokens: Int[Array, "b n"]
    labels: Int[Array, "b n"]


def aligned_values(permutation: Int[Array, " l"], scale: Scalar) -> Float[Array, "l l"]:
    """V = cP, with P[π(i), i] = 1.

    Example:
        >>> aligned_values(jnp.array([1, 0]), scale=5.0).tolist()
        [[0.0, 5.0], [5.0, 0.0]]
    """
    size = len(permutation)
    return jnp.zeros((size, size)).at[permutation, jnp.arange(size)].set(scale)


def attention_weights(
    attention: Float[Array, "l l"], tokens: Int[Array, "b n"]
) -> Float[Array, "b n n"]:
    """p[set, key, query]: every query's attention, which sums to 1 over keys.

    Example:
        >>> attention_weights(jnp.zeros((3, 3)), jnp.array([[0, 2]]))[0].tolist()
        [[0.5, 0.5], [0.5, 0.5]]
    """
    return jax.nn.softmax(attention[tokens[:, :, None], tokens[:, None, :]], axis=1)


def list_logits(params: ListTransformer, tokens: Int[Array, "b n"]) -> Float[Array, "b l n"]:
    """Vp of every query of every set.

    Example:
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> list_logits(params, jnp.array([[0, 2]]))[0].tolist()
        [[1.5, 1.5], [0.0, 0.0], [1.5, 1.5]]
    """
    read = params.values.T[tokens]  # (b, key, label)
    return jnp.einsum("bkl,bkj->blj", read, attention_weights(params.attention, tokens))


def list_loss(params: ListTransformer, sets: Sets) -> Float[Array, ""]:
    """The mean of −log f over all tokens of all sets.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> round(float(list_loss(params, sets)), 4)
        0.7989
    """
    scores = jax.nn.log_softmax(list_logits(params, sets.tokens), axis=1)
    return -jnp.take_along_axis(scores, sets.labels[:, None, :], axis=1).mean()


def list_margins(params: ListTransformer, sets: Sets) -> Float[Array, "b n"]:
    """The right logit minus the largest wrong one: positive where the token is classified.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> list_margins(params, sets)[0].tolist()  # both tokens tie
        [0.0, 0.0]
    """
    logits = list_logits(params, sets.tokens)
    right = jnp.take_along_axis(logits, sets.labels[:, None, :], axis=1)[:, 0]
    labels = jnp.arange(logits.shape[1])[None, :, None]
    wrong = jnp.where(labels == sets.labels[:, None, :], -jnp.inf, logits).max(axis=1)
    return right - wrong


def is_perfect(params: ListTransformer, sets: Sets) -> Bool[Array, ""]:
    """Whether every token of every set is classified, without a tie.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> bool(is_perfect(params, sets))
        False
        >>> bool(is_perfect(params._replace(attention=jnp.eye(3)), sets))
        True
    """
    return (list_margins(params, sets) > 0).all()


def set_gradients(
    params: ListTransformer, sets: Sets
) -> tuple[Float[Array, "b n n"], Float[Array, "b n l"]]:
    """Gradients of every set's loss by what it reads, in closed form.

    Returns:
        By W, [set, key, query], and by V, [set, key, label], both with the 1/n of the mean.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> [part.shape for part in set_gradients(params, sets)]
        [(3, 2, 2), (3, 2, 3)]
    """
    tokens, labels = sets
    n = tokens.shape[1]
    read = params.values.T[tokens]
    p = attention_weights(params.attention, tokens)
    z = jnp.einsum("bkl,bkj->blj", read, p)
    right = jnp.arange(z.shape[1])[None, :, None] == labels[:, None, :]
    residual = jax.nn.softmax(z, axis=1) - right
    own = jnp.einsum("bkl,blj->bkj", read, residual) - (residual * z).sum(axis=1)[:, None, :]
    return p * own / n, jnp.einsum("blj,bkj->bkl", residual, p) / n


def list_gradient(params: ListTransformer, sets: Sets) -> ListTransformer:
    """The gradient of the mean loss of all sets, in closed form.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> slope = jax.grad(list_loss)(params, sets)
        >>> bool(jnp.allclose(list_gradient(params, sets).values, slope.values))
        True
    """
    tokens = sets.tokens
    by_attention, by_values = set_gradients(params, sets)
    count, size = len(tokens), len(params.values)
    keys = jnp.broadcast_to(tokens[:, :, None], by_attention.shape)
    queries = jnp.broadcast_to(tokens[:, None, :], by_attention.shape)
    empty = jnp.zeros((size, size))
    attention = empty.at[keys, queries].add(by_attention) / count
    return ListTransformer(attention, empty.at[tokens].add(by_values).T / count)


def attention_sharpness(params: ListTransformer, sets: Sets) -> Float[Array, ""]:
    """λ_max of the loss's Hessian in W, exactly: from its L blocks, one for every query.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> round(float(attention_sharpness(params, sets)), 4)
        0.253
    """
    size = len(params.values)

    def gradient(attention: Float[Array, "l l"]) -> Float[Array, "l l"]:
        return list_gradient(params._replace(attention=attention), sets).attention

    def along(key: Int[Array, ""]) -> Float[Array, "l l"]:
        # The same key in all columns at once: columns do not see each other.
        direction = jnp.zeros((size, size)).at[key].set(1.0)
        return jax.jvp(gradient, (params.attention,), (direction,))[1]

    blocks = jax.lax.map(along, jnp.arange(size))  # [key′, key, query]
    return jnp.linalg.eigvalsh(jnp.moveaxis(blocks, 2, 0)).max()


def list_sharpness(params: ListTransformer, sets: Sets) -> Float[Array, ""]:
    """λ_max of the loss's Hessian in W and V together, by the dense matrix of 2L² rows.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> bool(list_sharpness(params, sets) >= attention_sharpness(params, sets))
        True
    """
    flat, restore = jax.flatten_util.ravel_pytree(params)

    def gradient(entries: Float[Array, " p"]) -> Float[Array, " p"]:
        return jax.flatten_util.ravel_pytree(list_gradient(restore(entries), sets))[0]

    hessian = jax.jacfwd(gradient)(flat)
    return jnp.linalg.eigvalsh((hessian + hessian.T) / 2).max()


def list_descent(
    params: ListTransformer,
    sets: Sets,
    learning_rates: tuple[Scalar, Scalar],
    num_steps: int,
) -> ListTransformer:
    """All iterates of gradient descent on the mean loss, the start among them.

    Args:
        params: The start.
        sets: What is learned.
        learning_rates: η of W and of V; 0 leaves a matrix as it is.
        num_steps: How many steps.

    Returns:
        Matrices with a leading axis of num_steps + 1.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> path = list_descent(params, sets, learning_rates=(1.0, 0.0), num_steps=4)
        >>> path.attention.shape, bool((path.values == params.values[None]).all())
        ((5, 3, 3), True)
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")

    def step(params: ListTransformer, _: None) -> tuple[ListTransformer, ListTransformer]:
        slope = list_gradient(params, sets)
        return ListTransformer(
            params.attention - learning_rates[0] * slope.attention,
            params.values - learning_rates[1] * slope.values,
        ), params

    last, before = jax.lax.scan(step, params, None, length=num_steps)
    return jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), before, last)


class ListDescent(NamedTuple):
    """Iterates of descent at η = 1/λ_max, and the eigenvalues it met."""

    path: ListTransformer  # with a leading axis of steps
    sharpness: Float[Array, ""]  # λ_max of η = 1/λ_max
    met: Float[Array, " t"]  # the largest eigenvalue at every iterate


def descend_at_sharpness(
    params: ListTransformer,
    sets: Sets,
    sharpness: Callable[[ListTransformer, Sets], Float[Array, ""]],
    trained: tuple[bool, bool],
    num_steps: int,
    num_rounds: int = 3,
) -> ListDescent:
    """Descend with η = 1/λ_max, λ_max the largest eigenvalue of the Hessian on the way.

    The way depends on η: so it is gone several times, each time with the largest eigenvalue that
    was met so far; before the first, that of the start.

    Args:
        params: The start.
        sets: What is learned.
        sharpness: `attention_sharpness` or `list_sharpness`.
        trained: Whether W is trained, and V.
        num_steps: How many steps.
        num_rounds: How often the way is gone.

    Example:
        >>> tokens = jnp.array([[0, 1], [0, 2], [1, 2]])
        >>> sets = Sets(tokens, labels=tokens)
        >>> params = ListTransformer(attention=jnp.zeros((3, 3)), values=3.0 * jnp.eye(3))
        >>> way = descend_at_sharpness(params, sets, attention_sharpness, (True, False), 3)
        >>> losses = jax.vmap(lambda at: list_loss(at, sets))(way.path)
        >>> bool((jnp.diff(losses) < 0).all())
        True
    """

    def descend(largest: Float[Array, ""]) -> ListDescent:
        rates = (trained[0] / largest, trained[1] / largest)
        path = list_descent(params, sets, rates, num_steps)
        return ListDescent(path, largest, jax.lax.map(lambda at: sharpness(at, sets), path))

    def again(_: Int[Array, ""], before: ListDescent) -> ListDescent:
        # With an infinite λ nothing moves, and what is met is the eigenvalue of the start.
        so_far = jnp.where(jnp.isinf(before.sharpness), 0.0, before.sharpness)
        return descend(jnp.maximum(so_far, before.met.max()))

    shapes = jax.eval_shape(descend, jnp.array(jnp.inf))
    still = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    first = ListDescent(still.path, jnp.array(jnp.inf), still.met + sharpness(params, sets))
    return jax.lax.fori_loop(0, num_rounds, again, first)
