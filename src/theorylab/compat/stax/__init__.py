"""Layers by the names, arguments and defaults of `neural_tangents.stax`.

Each is a triple `(init_fn, apply_fn, kernel_fn)` around an `Architecture` of theorylab.
"""

from .activations import ABRelu as ABRelu
from .activations import Abs as Abs
from .activations import Cos as Cos
from .activations import Elementwise as Elementwise
from .activations import ElementwiseNumerical as ElementwiseNumerical
from .activations import Erf as Erf
from .activations import Exp as Exp
from .activations import ExpNormalized as ExpNormalized
from .activations import Gabor as Gabor
from .activations import Gaussian as Gaussian
from .activations import Gelu as Gelu
from .activations import Hermite as Hermite
from .activations import LeakyRelu as LeakyRelu
from .activations import Monomial as Monomial
from .activations import Polynomial as Polynomial
from .activations import Rbf as Rbf
from .activations import RectifiedMonomial as RectifiedMonomial
from .activations import Relu as Relu
from .activations import Sigmoid_like as Sigmoid_like
from .activations import Sign as Sign
from .activations import Sin as Sin
from .attention import GlobalSelfAttention as GlobalSelfAttention
from .combinators import FanInConcat as FanInConcat
from .combinators import FanInProd as FanInProd
from .combinators import FanInSum as FanInSum
from .combinators import FanOut as FanOut
from .combinators import from_architecture as from_architecture
from .combinators import parallel as parallel
from .combinators import repeat as repeat
from .combinators import serial as serial
from .custom import layer as layer
from .custom import requires as requires
from .custom import supports_masking as supports_masking
from .custom import unmask_fn as unmask_fn
from .mixing import Aggregate as Aggregate
from .mixing import DotGeneral as DotGeneral
from .mixing import ImageResize as ImageResize
from .mixing import Index as Index
from .mixing import Slice as Slice
from .positions import AvgPool as AvgPool
from .positions import Dropout as Dropout
from .positions import Flatten as Flatten
from .positions import GlobalAvgPool as GlobalAvgPool
from .positions import GlobalSumPool as GlobalSumPool
from .positions import Identity as Identity
from .positions import LayerNorm as LayerNorm
from .positions import SumPool as SumPool
from .weights import Conv as Conv
from .weights import ConvLocal as ConvLocal
from .weights import ConvTranspose as ConvTranspose
from .weights import Dense as Dense
