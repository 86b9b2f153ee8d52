"""Kernels at work: completed matrices and images, and structures built by a network."""

from . import completion as completion
from . import elasticity as elasticity
from . import topology as topology
