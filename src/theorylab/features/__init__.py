"""Feature learning: which directions of the inputs matter to what was learned.

agop            the average gradient outer product of any network, exact and sketched
agop_rank       how many directions of the inputs an AGOP has, with an interval over inputs
agop_penalty    training with a price on its size
layers          the same for the inputs of every layer, beside what its weights prefer
units           which units are active, dead or saturated, for every activation of any network
weight_spectra  singular values of weights against those of random matrices
coordinate_check  how sizes at every layer go with the width
signals         what comes into every layer, how far training moved it, weights of a wrong size
recursive       recursive feature machines: kernels in a metric that they learn; for scikit-learn in
                `RecursiveFeatureRegressor` and `RecursiveFeatureClassifier`
teachers        where the truth is not known: the features of a well trained network
fixed           what can be learned without learning features: random, tangent and Fourier features
compare         a network against all of them on your own data, in one call
emergence       features that emerge from the structure of inputs in one or two steps
gradient        gradient features: what the first step of descent finds in the data
fourier         how networks add numbers modulo p: margins, cosines, frequencies of trained weights
local_signal    how one filter with a threshold finds a patch among noisy ones
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

from .agop import Sketch as Sketch
from .agop import agop as agop
from .agop import agop_alignment as agop_alignment
from .agop import agop_product as agop_product
from .agop import agop_sketch as agop_sketch
from .agop import sketch_alignment as sketch_alignment
from .agop_penalty import agop_penalty as agop_penalty
from .agop_penalty import penalized as penalized
from .agop_rank import AgopRank as AgopRank
from .agop_rank import agop_rank as agop_rank
from .compare import FeatureComparison as FeatureComparison
from .compare import compare_features as compare_features
from .coordinate_check import CoordinateCheck as CoordinateCheck
from .coordinate_check import coordinate_check as coordinate_check
from .fixed import Features as Features
from .fixed import accuracy as accuracy
from .fixed import best_rate as best_rate
from .fixed import class_accuracies as class_accuracies
from .fixed import fit_features as fit_features
from .fixed import random_features as random_features
from .fixed import random_fourier_features as random_fourier_features
from .fixed import tangent_features as tangent_features
from .layers import Ansatz as Ansatz
from .layers import LayerFeatures as LayerFeatures
from .layers import feature_ansatz as feature_ansatz
from .layers import layer_features as layer_features
from .layers import neural_feature_ansatz as neural_feature_ansatz
from .radial import Radial as Radial
from .radial import radial_agop as radial_agop
from .radial import radial_kernel as radial_kernel
from .recursive import LearnedFeatures as LearnedFeatures
from .recursive import Machine as Machine
from .recursive import Recursion as Recursion
from .recursive import learn_features as learn_features
from .signals import FeatureMovement as FeatureMovement
from .signals import LayerPosition as LayerPosition
from .signals import LayerSignals as LayerSignals
from .signals import feature_movement as feature_movement
from .signals import layer_inputs as layer_inputs
from .signals import layers_of as layers_of
from .signals import misscaled as misscaled
from .signals import signal_sizes as signal_sizes
from .teachers import Teacher as Teacher
from .teachers import halving_cnn as halving_cnn
from .teachers import teach as teach
from .units import UnitActivity as UnitActivity
from .units import unit_activity as unit_activity
from .weight_spectra import WeightSpectrum as WeightSpectrum
from .weight_spectra import matrix_spectrum as matrix_spectrum
from .weight_spectra import weight_spectra as weight_spectra

if TYPE_CHECKING:
    from .feature_machines import RecursiveFeatureClassifier as RecursiveFeatureClassifier
    from .feature_machines import RecursiveFeatureRegressor as RecursiveFeatureRegressor

_LATER = {
    "RecursiveFeatureClassifier": ".feature_machines",
    "RecursiveFeatureRegressor": ".feature_machines",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
