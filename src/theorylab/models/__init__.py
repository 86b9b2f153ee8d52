"""What learns: architectures, their finite networks, their parametrizations, Taylor expansions.

An `Architecture` says what a network is; `network` reads it as `Model(init, apply)` in a chosen
parametrization, and `dag_network` makes one of any directed acyclic graph; `linearize` and
`quadratize` expand any `apply(params, x)` in its parameters. `Transformer` stands for itself, with
`init` and `apply` of its own, and a cache.
"""

from .activations import ACTIVATIONS as ACTIVATIONS
from .activations import activation as activation
from .architecture import Activation as Activation
from .architecture import Architecture as Architecture
from .architecture import AvgPool as AvgPool
from .architecture import BatchNorm as BatchNorm
from .architecture import Concatenate as Concatenate
from .architecture import Conv as Conv
from .architecture import Dense as Dense
from .architecture import Flatten as Flatten
from .architecture import GlobalPool as GlobalPool
from .architecture import LayerNorm as LayerNorm
from .architecture import Residual as Residual
from .architecture import Serial as Serial
from .builders import cnn as cnn
from .builders import densenet as densenet
from .builders import mlp as mlp
from .dag_network import dag_network as dag_network
from .dags import Dag as Dag
from .dags import dag as dag
from .fast_convolutions import as_written as as_written
from .fast_convolutions import fast_convolutions as fast_convolutions
from .masks import Masked as Masked
from .mixing import Aggregate as Aggregate
from .mixing import Dropout as Dropout
from .mixing import SelfAttention as SelfAttention
from .network import Model as Model
from .network import in_batches as in_batches
from .network import network as network
from .parameters import summary as summary
from .parametrization import ABC as ABC
from .parametrization import NTK as NTK
from .parametrization import MeanField as MeanField
from .parametrization import MuP as MuP
from .parametrization import Parametrization as Parametrization
from .parametrization import Standard as Standard
from .regimes import regime as regime
from .taylor import linearize as linearize
from .taylor import quadratize as quadratize
from .transformer import Transformer as Transformer
from .transformer import greedy_decode as greedy_decode
from .transformer import rotary as rotary
from .vision import resnet as resnet
from .vision import vit as vit
from .vision import wide_resnet as wide_resnet
