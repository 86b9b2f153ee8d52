"""The landscape of the loss: how flat it is around a network, what lies between two of them.

connectivity    the loss on the straight segment between two sets of parameters, and its barrier
flatness        how much noise the weights take before the loss rises
"""

from .connectivity import Segment as Segment
from .connectivity import segment as segment
from .flatness import Flatness as Flatness
from .flatness import flatness as flatness
from .flatness import noisy_losses as noisy_losses
