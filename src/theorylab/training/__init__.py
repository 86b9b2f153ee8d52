"""How a network learns: the loss with its normalisation, descent, SGD, flow, and what they record.

    loss, params, optimizer ─► descend | sgd | gradient_flow ─► Trajectory

Every run is a pure function: jit it, vmap it over seeds, or give it to `ensemble`.
"""

from .dag_ensemble import dag_ensemble as dag_ensemble
from .descent import descend as descend
from .ensemble import ensemble as ensemble
from .ensemble import seed_blocks as seed_blocks
from .flow import Solver as Solver
from .flow import flow as flow
from .flow import gradient_flow as gradient_flow
from .losses import Loss as Loss
from .losses import convert_learning_rate as convert_learning_rate
from .losses import cross_entropy as cross_entropy
from .losses import empirical_risk as empirical_risk
from .losses import exponential as exponential
from .losses import hinge as hinge
from .losses import logistic as logistic
from .losses import squared as squared
from .losses import zero_one as zero_one
from .optimizers import gradient_descent as gradient_descent
from .optimizers import heavy_ball as heavy_ball
from .optimizers import nesterov as nesterov
from .optimizers import with_learning_rates as with_learning_rates
from .schedules import catapults as catapults
from .schedules import follow_critical as follow_critical
from .schedules import scheduled as scheduled
from .schedules import stepwise as stepwise
from .schedules import triangular as triangular
from .sgd import Batches as Batches
from .sgd import probed_sgd as probed_sgd
from .sgd import sgd as sgd
from .to_target import DescentRun as DescentRun
from .to_target import descend_until as descend_until
from .torch_optimizers import torch_optimizer as torch_optimizer
from .trajectory import Trajectory as Trajectory
from .trajectory import every as every
from .trajectory import logarithmic as logarithmic
from .until import StoppedRun as StoppedRun
from .until import Until as Until
from .until import train_until as train_until
