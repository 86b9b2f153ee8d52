"""Theories of training in time: what gradient descent does to outputs, kernel and curvature.

`gated`, `linear`, `quadratic` are modules of one model each: the two-layer ReLU network, its linear
model, its quadratic model as a map of the plane; `phases` are those of the quadratic model, and
`one_example` trains all three in their weights.
`linear_model` has the weights of linear regression in closed form, `deep_linear` the modes of deep
linear networks, `two_layer_flow` the gradient flow of two layers and what it conserves.
`edge` watches a real network at the edge of stability, `descent_lemma` says where that edge is.
"""

from . import deep_linear as deep_linear
from . import gated as gated
from . import linear as linear
from . import linear_model as linear_model
from . import one_example as one_example
from . import phases as phases
from . import quadratic as quadratic
from . import two_layer_flow as two_layer_flow
from .descent_lemma import descent_slack as descent_slack
from .descent_lemma import guaranteed_decrease as guaranteed_decrease
from .descent_lemma import stability_threshold as stability_threshold
from .edge import Watched as Watched
from .edge import watch as watch
from .thresholds import threshold as threshold
