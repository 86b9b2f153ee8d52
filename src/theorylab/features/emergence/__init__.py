"""Features that emerge from the structure of inputs in one or two steps of gradient descent.

network        two layers of truncated ReLUs with noise inside, in closed form
stages         training in three stages: emergence, improvement, classifier
good_network   a network written down by hand that is right about every label
tasks          sizes, data and starts of a comparison
comparison     network, tangent model, random features and probes on the same data
meters         what gradients are made of, where weights point, what counting allows
"""

from .comparison import Compared as Compared
from .comparison import compare_laws as compare_laws
from .good_network import bump as bump
from .good_network import good_network as good_network
from .meters import Parts as Parts
from .meters import cosine_map as cosine_map
from .meters import cosines as cosines
from .meters import expected_largest_cosine as expected_largest_cosine
from .meters import gradient_parts as gradient_parts
from .meters import normalized as normalized
from .meters import relevant_direction as relevant_direction
from .meters import sampling_floor as sampling_floor
from .meters import threshold_ceiling as threshold_ceiling
from .network import Neurons as Neurons
from .network import Scales as Scales
from .network import first_half as first_half
from .network import opening as opening
from .network import outputs as outputs
from .network import preactivations as preactivations
from .network import smoothed_outputs as smoothed_outputs
from .network import smoothed_relu as smoothed_relu
from .network import start_scales as start_scales
from .network import truncated_relu as truncated_relu
from .network import unbiased_start as unbiased_start
from .stages import Emerged as Emerged
from .stages import Stage as Stage
from .stages import classifier_rates as classifier_rates
from .stages import classify as classify
from .stages import emerge as emerge
from .stages import emergence_stages as emergence_stages
from .stages import gradients as gradients
from .stages import step as step
from .tasks import Setting as Setting
from .tasks import Theory as Theory
from .tasks import theory_of as theory_of
