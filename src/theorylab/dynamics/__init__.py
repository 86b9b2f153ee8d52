"""Theories of training in time: what gradient descent does to outputs, kernel and curvature.

`linear`, `quadratic` and `gated` are modules of one model each: the linear model, the quadratic
model on one example as a map of the plane, and the two-layer ReLU network that both expand.
`edge` watches a real network at the edge of stability, `descent_lemma` says where that edge is.
"""

from . import gated as gated
from . import linear as linear
from . import quadratic as quadratic
from .descent_lemma import descent_slack as descent_slack
from .descent_lemma import guaranteed_decrease as guaranteed_decrease
from .descent_lemma import stability_threshold as stability_threshold
from .edge import Watched as Watched
from .edge import watch as watch
from .thresholds import threshold as threshold
