"""What the experiments on decision lists share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float

from theorylab.incontext.list_theorems import Audit
from theorylab.typing import Measured


def first_perfect(perfect: Bool[Array, " t"]) -> float:
    """The first iterate that classifies everything, or NaN."""
    found = np.asarray(perfect)
    return float(found.argmax()) if found.any() else float("nan")


def audited(audit: Audit, least_gradient: float, delta: float) -> dict[str, Any]:
    """What both experiments keep of an audited descent, in the units of the proofs."""
    checks = Audit(*(np.asarray(part, float) for part in audit))
    return {
        "loss": checks.loss,
        "gradient": checks.gradient / least_gradient,
        "inside": checks.inside,
        "outside": checks.outside,
        "rare": checks.rare / delta,
        "solved": checks.perfect,
    }


def unsolved(result: Any, values: Float[Measured, "..."]) -> np.ndarray:
    """Values at iterates where something is still wrong; elsewhere nothing is claimed."""
    return values[result.solved == 0]


def table(rows: Sequence[dict[str, Any]], *shape: int) -> dict[str, np.ndarray]:
    """The fields of all rows, each as one array whose leading axes have this shape."""
    stacked = {name: np.stack([np.asarray(row[name], float) for row in rows]) for name in rows[0]}
    return {name: part.reshape(*shape, *part.shape[1:]) for name, part in stacked.items()}


def check_sizes(num_tokens: int, size: int, length: int) -> None:
    """Refuse sequences and lists that do not fit into so many tokens."""
    if max(size, length) >= num_tokens:
        got = f"got {num_tokens} tokens, size {size}, length {length}"
        raise ValueError(f"size and length must be below the number of tokens, {got}.")
