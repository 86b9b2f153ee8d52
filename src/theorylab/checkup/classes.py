"""Classes as targets have them: which input is classified correctly, by which margin; chance.

one output          y = ±1                                  margin y f
classes             rows with one largest entry             margin f_y − max of the others
several labels      rows of ±1, of any number of +1         margin min_a y_a f_a: all are right
"""

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theorylab.generalization import classification_margins
from theorylab.training import Loss

_SIGNS = ("logistic", "exponential", "hinge")


def has_classes(loss: Loss, y: Float[Array, "n k"]) -> bool:
    """Whether targets are classes; for the squared loss, whether they are one-hot rows, or ±1.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> has_classes(squared("mean"), jnp.eye(3)), has_classes(squared("mean"), 2 * jnp.eye(3))
        (True, False)
    """
    if loss.kind in _SIGNS:
        return True
    rows = np.asarray(y)
    if rows.shape[1] == 1:
        return bool((np.abs(rows) == 1).all() and len(np.unique(rows)) == 2)
    if loss.kind in ("cross_entropy", "zero_one"):
        return True
    return bool(((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all())


def has_many_labels(y: Float[Array, "n k"]) -> bool:
    """Whether an input may have several labels: rows of ±1 that have not one +1 each.

    Example:
        >>> import jax.numpy as jnp
        >>> has_many_labels(jnp.array([[1.0, 1.0, -1.0]])), has_many_labels(jnp.eye(3))
        (True, False)
    """
    rows = np.asarray(y)
    signs = rows.shape[1] > 1 and bool((np.abs(rows) == 1).all())
    return signs and bool(((rows == 1).sum(axis=1) != 1).any())


def margins_of(outputs: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[np.ndarray, " n"]:
    """The margin of every input.

    Example:
        >>> import jax.numpy as jnp
        >>> margins_of(jnp.array([[2.0, 3.0]]), jnp.array([[1.0, -1.0]])).tolist()
        [-1.0]
    """
    if has_many_labels(y):
        return (np.asarray(outputs, float) * np.asarray(y, float)).min(axis=1)
    return classification_margins(outputs, y)


def is_right(outputs: Float[Array, "n k"], y: Float[Array, "n k"]) -> Bool[np.ndarray, " n"]:
    """Which inputs are classified correctly; of equal outputs the first counts.

    Example:
        >>> import jax.numpy as jnp
        >>> is_right(jnp.zeros((2, 2)), jnp.eye(2)).tolist()
        [True, False]
    """
    f, rows = np.asarray(outputs), np.asarray(y)
    if f.shape[1] == 1 or has_many_labels(y):
        return margins_of(outputs, y) > 0
    return (f.argmax(axis=1) == rows.argmax(axis=1)) & np.isfinite(f).all(axis=1)


def class_numbers(y: Float[Array, "n k"]) -> Int[np.ndarray, " n"]:
    """The class of every input; of several labels, the number of the set of them.

    Example:
        >>> import jax.numpy as jnp
        >>> class_numbers(jnp.array([[1.0], [-1.0]])).tolist()
        [1, 0]
    """
    rows = np.asarray(y)
    if rows.shape[1] == 1:
        return (rows[:, 0] > 0).astype(int)
    if has_many_labels(y):
        return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return rows.argmax(axis=1)


def chance(y: Float[Array, "n k"]) -> float:
    """The share of the largest class: what saying it always would score.

    Example:
        >>> import jax.numpy as jnp
        >>> chance(jnp.eye(3)[jnp.array([0, 0, 1, 2])])
        0.5
    """
    return float(np.bincount(class_numbers(y)).max() / len(y))
