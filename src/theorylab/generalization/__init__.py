"""Why what was learned on a sample holds beyond it: tail bounds, margins, and bounds of the gap."""

from . import exact_tails as exact_tails
from . import tail_bounds as tail_bounds
from . import tangent_bounds as tangent_bounds
from .leave_one_out import Predictability as Predictability
from .leave_one_out import label_predictability as label_predictability
from .leave_one_out import leave_one_out as leave_one_out
from .leave_one_out import value_predictability as value_predictability
from .margins import classification_margins as classification_margins
from .pac_bayes import chernoff_upper as chernoff_upper
from .pac_bayes import choice_penalty as choice_penalty
from .pac_bayes import gaussian_divergence as gaussian_divergence
from .pac_bayes import mcallester_gap as mcallester_gap
from .pac_bayes import pac_bayes_gap as pac_bayes_gap
from .spectral import LayerNorm as LayerNorm
from .spectral import layer_norms as layer_norms
from .spectral import spectral_bound as spectral_bound
from .spectral import spectral_complexity as spectral_complexity
from .spectral import stable_rank_bound as stable_rank_bound
