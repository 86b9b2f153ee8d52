"""PyTorch's operations in JAX, one by one: the core of ATen, as far as networks need it.

    name in a graph ─► OPERATIONS ─► function of JAX

Some that PyTorch would take apart stay whole, because they are faster so, or because the parts
have derivatives that are not finite: attention, recurrent layers, activations, resizing.
"""

from . import activations as activations
from . import arithmetic as arithmetic
from . import attention as attention
from . import convolution as convolution
from . import indexing as indexing
from . import linear as linear
from . import normalisation as normalisation
from . import pooling as pooling
from . import recurrent as recurrent
from . import reductions as reductions
from . import shapes as shapes
from .table import OPERATIONS as OPERATIONS
