"""Quadratic models under gradient descent: catapults, and where they begin and end.

plane              one example: output and curvature move by an exact map of the plane
phases             the phases of that map: subcritical, catapult, divergent
general            quadratic models without neurons, to which the same map belongs
gated              two-layer ReLU networks seen through their gates; frozen, the quadratic model
one_example        the network, its quadratic and its linear model, trained in their weights
several_examples   examples on a line: a map of the plane for each of two directions
kernel_steps       any quadratic model on any data: outputs and kernel after one step
"""

from . import gated as gated
from . import general as general
from . import kernel_steps as kernel_steps
from . import one_example as one_example
from . import phases as phases
from . import plane as plane
from . import several_examples as several_examples
