"""Fourier circuits: how networks add numbers modulo p.

polynomial       the network with the activation zᵏ, and its norm
margins          margins on all sums, and a bound on them by Fourier transforms
maximum_margin   the largest margin there is, and the cosine network that has it
spectra          frequencies and phases of neurons, and of attention; how evenly they are used
learning         training networks to add, and when they have learned it
transformer      attention between numbers, and its scores
"""

from .learning import AdditionRecipe as AdditionRecipe
from .learning import Curves as Curves
from .learning import accuracy as accuracy
from .learning import delay as delay
from .learning import learn_addition as learn_addition
from .learning import scores as scores
from .learning import solved_at as solved_at
from .margins import average_margin as average_margin
from .margins import diagonal_spectrum as diagonal_spectrum
from .margins import function_spectrum as function_spectrum
from .margins import least_margin as least_margin
from .margins import margin as margin
from .margins import normalized_margin as normalized_margin
from .margins import weighted_margin as weighted_margin
from .maximum_margin import ascended_neuron as ascended_neuron
from .maximum_margin import cosine_neuron as cosine_neuron
from .maximum_margin import least_penalized_loss as least_penalized_loss
from .maximum_margin import maximum_margin as maximum_margin
from .maximum_margin import maximum_margin_network as maximum_margin_network
from .maximum_margin import num_cosine_neurons as num_cosine_neurons
from .polynomial import PolynomialNeurons as PolynomialNeurons
from .polynomial import group_norm as group_norm
from .polynomial import initial_neurons as initial_neurons
from .polynomial import neuron_norms as neuron_norms
from .polynomial import polynomial_network as polynomial_network
from .polynomial import scaled as scaled
from .spectra import NeuronSpectra as NeuronSpectra
from .spectra import attention_concentration as attention_concentration
from .spectra import attention_power as attention_power
from .spectra import concentration as concentration
from .spectra import coverage as coverage
from .spectra import frequency_counts as frequency_counts
from .spectra import interpolated as interpolated
from .spectra import neuron_spectra as neuron_spectra
from .spectra import power as power
from .spectra import uniformity as uniformity
from .transformer import AdditionTransformer as AdditionTransformer
from .transformer import token_scores as token_scores
from .transformer import weight_norm as weight_norm
