"""Kernel ridge regression, (K + λI)α = y: three ways to solve it, each telling how well it went.

    cholesky_solve        exact, O(n³) time and one matrix in memory, factorised in place
    conjugate_gradients   exact to a tolerance, no matrix in memory, with a preconditioner
    nystrom_solve         on m′ centres, O(n√n) for m′ ∝ √n

They run on the host with LAPACK, in place and in blocks; the kernel itself runs where JAX does.
"""

from .blocks import BlockProduct as BlockProduct
from .blocks import diagonal as diagonal
from .blocks import gram as gram
from .blocks import rows as rows
from .cholesky import CholeskyFactor as CholeskyFactor
from .cholesky import CholeskySolution as CholeskySolution
from .cholesky import apply_inverse as apply_inverse
from .cholesky import cholesky_factor as cholesky_factor
from .cholesky import cholesky_solve as cholesky_solve
from .cholesky import whiten as whiten
from .conjugate import ConjugateSolution as ConjugateSolution
from .conjugate import conjugate_gradients as conjugate_gradients
from .conjugate import low_rank_preconditioner as low_rank_preconditioner
from .conjugate import nystrom_factor as nystrom_factor
from .conjugate import pivoted_cholesky as pivoted_cholesky
from .nystrom import NystromSolution as NystromSolution
from .nystrom import nystrom_solve as nystrom_solve
