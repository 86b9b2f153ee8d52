"""Many networks on many graphs, few compiled programs.

What `ensemble` is for seeds: one run, compiled once, of networks with other widths and other
architectures. Graphs of about the same size are written as arrays of one shape (`models.wire`);
much larger ones have a program of their own, as to fill small ones up would cost more than to
compile again.

Source: zhu · dag-net · CPU reproduction.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from theorylab.models import Dag
from theorylab.models.dag_network import wire
from theorylab.typing import Apply, RandomKey

from .ensemble import ensemble

_SMALL = 40_000  # weights, below which a network runs faster than it compiles
Run = Callable[[Apply, Float[Array, " p"], RandomKey], Any]


def dag_ensemble(run: Run, graphs: Sequence[Dag], keys: Key[Array, " g"]) -> Any:
    """Draw a network on every graph and run it.

    Args:
        run: A pure function of the network's `apply`, its initial weights, which are N(0, 1), and
            a key to a pytree of arrays. Entries that are no weights of the graph are 0, and do
            nothing.
        graphs: Graphs with the same number of inputs and outputs and the same activation.
        keys: One key for every graph.

    Returns:
        What the runs gave, with the graphs as leading axis, as NumPy arrays.

    Example:
        >>> from theorylab.models.dag_builders import fully_connected
        >>> graphs = [fully_connected(2, [width]) for width in (2, 3)]
        >>> count = lambda apply, weights, key: (weights != 0).sum()
        >>> dag_ensemble(count, graphs, jax.random.split(jax.random.key(0), 2)).tolist()
        [6, 9]
    """
    if len(graphs) != len(keys):
        raise ValueError(f"keys must be one for every graph, {len(graphs)}, got {len(keys)}.")
    groups = _groups(graphs)
    parts = [_together(run, [graphs[i] for i in some], keys[np.array(some)]) for some in groups]
    order = np.argsort(np.concatenate(groups))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[order], *parts)


def _groups(graphs: Sequence[Dag]) -> list[list[int]]:
    """Numbers of graphs that are alike: sizes within a factor of 4, or small; weights shared."""
    largest = max(graph.num_weights for graph in graphs)
    groups: dict[tuple[bool, int], list[int]] = {}
    for index, graph in enumerate(graphs):
        shared = graph.num_weights < len(graph.edges)
        ratio = max(1.0, largest / max(graph.num_weights, _SMALL))
        groups.setdefault((shared, int(math.log(ratio, 4))), []).append(index)
    return list(groups.values())


def _together(run: Run, graphs: Sequence[Dag], keys: Key[Array, " g"]) -> Any:
    """Run graphs that share one program."""
    wired, wirings = wire(graphs)

    def one(given: tuple[Any, RandomKey]) -> Any:
        wiring, key = given
        weight_key, run_key = jax.random.split(key)
        draws = jax.random.normal(weight_key, wiring.numbers.shape)
        weights = jnp.where(wiring.numbers < 0, 0.0, draws)
        return run(lambda weights, x: wired(wiring, weights, x), weights, run_key)

    return jax.tree.map(np.asarray, ensemble(one, (wirings, keys)))
