"""What kernels predict: outputs at any time of training, posteriors, ensembles, learning curves.

    kernel ─► kernel_modes ─► coefficients, fitted_outputs, predicted_outputs    one network
                              ensemble_moments, posterior, log_evidence          many, or Bayes
                              learning_curve                                     the test error
    architecture ─► predict_ensemble                                                 in one call

What needs `theorylab.training` (other losses, steps for times) is imported when it is used.
"""

from typing import TYPE_CHECKING

from theorylab.lazy import lazy

from .ensembles import EnsembleMoments as EnsembleMoments
from .ensembles import Prior as Prior
from .ensembles import ensemble_moments as ensemble_moments
from .ensembles import last_layer_moments as last_layer_moments
from .learning_curves import LearningCurve as LearningCurve
from .learning_curves import Spectrum as Spectrum
from .learning_curves import estimated_spectrum as estimated_spectrum
from .learning_curves import learning_curve as learning_curve
from .methods import Descent as Descent
from .methods import Flow as Flow
from .methods import HeavyBall as HeavyBall
from .methods import Method as Method
from .methods import Nesterov as Nesterov
from .modes import Modes as Modes
from .modes import kernel_modes as kernel_modes
from .networks import predict_ensemble as predict_ensemble
from .outputs import coefficients as coefficients
from .outputs import fitted_outputs as fitted_outputs
from .outputs import linearized_params as linearized_params
from .outputs import predicted_outputs as predicted_outputs
from .outputs import weight_distance as weight_distance
from .posterior import Posterior as Posterior
from .posterior import log_evidence as log_evidence
from .posterior import posterior as posterior

if TYPE_CHECKING:
    from .losses import loss_coefficients as loss_coefficients
    from .steps import largest_learning_rate as largest_learning_rate
    from .steps import training_steps as training_steps
    from .steps import training_time as training_time

_LATER = {
    "loss_coefficients": ".losses",
    "largest_learning_rate": ".steps",
    "training_steps": ".steps",
    "training_time": ".steps",
}

__getattr__, __dir__ = lazy(__name__, _LATER)
