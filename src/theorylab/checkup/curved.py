"""What the measures of curvature share: one sketch of the Hessian's spectrum, and its kin.

    spectrum         of ∇²L on the sample: extremes, trace, rank, density from the same products
    gauss_newton     λ_max of Jᵀ ∇²ℓ J on the same sample; for the squared loss c λ_max(K)
    preconditioned   λ_max of P^(−½) ∇²L P^(−½), with P of the optimiser's state

Each is `subject.shared(...)` of a function here.
"""

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from theorylab.curvature import preconditioner
from theorylab.numerics import SpectralSketch, certified_eigenpairs
from theorylab.numerics.counted import CompiledOperator
from theorylab.numerics.sketch import Extreme

from . import programs
from .effort import GAUSS_NEWTON, HESSIAN
from .subject import Subject

_LONGEST_RUN = 180  # products of the first run, where they cost little
_SHORTEST_RUN = 14  # with fewer the largest eigenvalue is not even told to 10 %
_MOST = 150  # products of which probes take their part
_KEPT = (16, 40)  # Ritz vectors, at least and at most


def spectrum(subject: Subject) -> SpectralSketch:
    """The sketch of the Hessian on the sample of `subject.curved`; products follow when needed.

    Args:
        subject: The network.
    """
    inputs, products = subject.curved
    num_probes = 6 if products >= 40 else 4
    spare = subject.affordable("sharpness", 0.3, HESSIAN, inputs, _LONGEST_RUN + products)
    num_steps = max(2, int(0.6 * min(max(spare, products), _MOST) / num_probes))
    first = max(_SHORTEST_RUN, products - num_probes * num_steps)
    return SpectralSketch(
        subject.hessian,
        subject.flat,
        subject.key_for("spectrum"),
        first=max(first, min(spare - num_probes * num_steps, _LONGEST_RUN)),
        num_probes=num_probes,
        num_steps=num_steps,
        num_kept=min(max(_KEPT[0], subject.num_outputs + 6), _KEPT[1]),
    )


def gauss_newton(subject: Subject) -> tuple[Extreme, int]:
    """λ_max of the Gauss–Newton matrix on the sample of `subject.curved`, and its products."""
    inputs = subject.curved.inputs
    x, y = subject.sample(inputs)
    operator = CompiledOperator(
        lambda v: programs.gauss_newton_product(
            subject.apply, subject.loss, subject.params, x, y, v
        )
    )
    return _largest(subject, "gauss_newton", operator, 0.08, GAUSS_NEWTON)


def preconditioned(subject: Subject) -> tuple[Extreme, int]:
    """λ_max of P^(−½) ∇²L P^(−½) on the sample of `subject.curved`, and its products."""
    root = jnp.sqrt(ravel_pytree(preconditioner(subject.optimizer_state, subject.params))[0])

    def product(vector: Float[Array, " p"]) -> Float[Array, " p"]:
        return subject.hessian(vector / root) / root

    operator = CompiledOperator(product)
    return _largest(subject, "preconditioned_sharpness", operator, 0.1, HESSIAN)


def _largest(
    subject: Subject, name: str, operator: CompiledOperator, share: float, passes: float
) -> tuple[Extreme, int]:
    """The largest eigenvalue, to 1 % or as far as the products go."""
    budget = subject.affordable(name, share, passes, subject.curved.inputs, _LONGEST_RUN)
    found = certified_eigenpairs(
        operator, subject.flat, 1, subject.key_for(name), budget=max(budget, _SHORTEST_RUN)
    )
    return Extreme(float(found.values[0]), float(found.bounds[0])), found.products
