"""Theories of training in time: what gradient descent does to outputs, kernel and curvature.

`quadratic` has the quadratic models: the map of the plane, its phases, and what trains beside it.
`linear` has linear models in closed form, outputs and weights, `deep_linear` the modes of deep
linear networks, `two_layer_flow` the gradient flow of two layers and what it conserves,
`mean_field` its limit as a flow of measures.
`edge` watches a real network at the edge of stability, `descent_lemma` says where that edge is.
"""

from . import deep_linear as deep_linear
from . import linear as linear
from . import mean_field as mean_field
from . import quadratic as quadratic
from . import two_layer_flow as two_layer_flow
from .critical import critical_learning_rate as critical_learning_rate
from .critical import exact_critical_learning_rate as exact_critical_learning_rate
from .critical import kernel_matrix as kernel_matrix
from .critical import top_kernel_eigenvalue as top_kernel_eigenvalue
from .decomposition import Decomposition as Decomposition
from .decomposition import decompose as decompose
from .decomposition import projected_losses as projected_losses
from .decomposition import top_modes as top_modes
from .descent_lemma import descent_slack as descent_slack
from .descent_lemma import guaranteed_decrease as guaranteed_decrease
from .edge import Watched as Watched
from .edge import watch as watch
from .noise_scale import NoiseScale as NoiseScale
from .noise_scale import gradient_noise_scale as gradient_noise_scale
from .polyak import batch_noise as batch_noise
from .polyak import descent_bound as descent_bound
from .polyak import drift_bound as drift_bound
from .polyak import gradient_bound as gradient_bound
from .polyak import polyak_ratio as polyak_ratio
from .polyak import relu_gradient_square as relu_gradient_square
from .polyak import stochastic_rate as stochastic_rate
from .spikes import Match as Match
from .spikes import num_catapults as num_catapults
from .spikes import num_supercritical as num_supercritical
from .spikes import spike_match as spike_match
from .spikes import spikes as spikes
from .stability import stability_threshold as stability_threshold
from .thresholds import threshold as threshold
from .watched_sgd import WatchedSteps as WatchedSteps
from .watched_sgd import watch_sgd as watch_sgd
