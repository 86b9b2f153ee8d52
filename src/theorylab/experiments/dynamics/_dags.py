"""Three kinds of graphs of neurons, on which wide networks are compared.

Source: zhu · pl-star · 2.4.
"""

from theorylab.models import Dag
from theorylab.models.dag_builders import densely_connected, drop_edges, fully_connected
from theorylab.typing import RandomKey

NAMES = ("fully connected", "densely connected", "half of the edges")


def dag_kinds(key: RandomKey, dimension: int, width: int, activation: str) -> list[Dag]:
    """Graphs with two hidden layers, in the order of `NAMES`.

    Args:
        key: Chooses the edges that are dropped.
        dimension: The number of inputs d.
        width: Neurons of each hidden layer.
        activation: φ, by name.
    """
    dense = densely_connected(dimension, [width, width], activation=activation)
    plain = fully_connected(dimension, [width, width], activation=activation)
    return [plain, dense, drop_edges(key, dense, 0.5)]
