"""What learns: architectures, their finite networks, their parametrizations, Taylor expansions.

An `Architecture` says what a network is; `network` reads it as `Model(init, apply)` in a chosen
parametrization; `linearize` and `quadratize` expand any `apply(params, x)` in its parameters.
"""

from .activations import ACTIVATIONS as ACTIVATIONS
from .activations import Elementwise as Elementwise
from .activations import activation as activation
from .architecture import Activation as Activation
from .architecture import Architecture as Architecture
from .architecture import AvgPool as AvgPool
from .architecture import Concatenate as Concatenate
from .architecture import Conv as Conv
from .architecture import ConvTranspose as ConvTranspose
from .architecture import Dense as Dense
from .architecture import Flatten as Flatten
from .architecture import GlobalPool as GlobalPool
from .architecture import LayerNorm as LayerNorm
from .architecture import Product as Product
from .architecture import Residual as Residual
from .architecture import Serial as Serial
from .builders import cnn as cnn
from .builders import densenet as densenet
from .builders import mlp as mlp
from .mixing import Aggregate as Aggregate
from .mixing import Dropout as Dropout
from .mixing import SelfAttention as SelfAttention
from .mixing import Upsample as Upsample
from .network import Bias as Bias
from .network import Model as Model
from .network import network as network
from .parameters import Law as Law
from .parameters import Parameter as Parameter
from .parameters import summary as summary
from .parametrization import ABC as ABC
from .parametrization import NTK as NTK
from .parametrization import Exponents as Exponents
from .parametrization import MeanField as MeanField
from .parametrization import MuP as MuP
from .parametrization import Parametrization as Parametrization
from .parametrization import Scaling as Scaling
from .parametrization import Standard as Standard
from .regimes import Regime as Regime
from .regimes import regime as regime
from .taylor import linearize as linearize
from .taylor import quadratize as quadratize
