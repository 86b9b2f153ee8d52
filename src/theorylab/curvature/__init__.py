"""Curvature of a loss: its Hessian and Gauss–Newton matrix as operators, and its sharpness.

No matrix is ever stored; an operator says what it does to a vector of the parameters' shape.
"""

from .operators import gauss_newton as gauss_newton
from .operators import hessian as hessian
from .sharpness import Sharpness as Sharpness
from .sharpness import sharpness as sharpness
