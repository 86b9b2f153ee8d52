"""Plane elasticity on a grid of unit squares: how far a loaded plate bends.

    K U = F,   K = Σₑ Eₑ Kₑ,   C = UᵀF = UᵀKU,   ∂C/∂Eₑ = −Uₑᵀ K₀ Uₑ

A square e has Young's modulus Eₑ, thickness 1 and four corners, each of which moves in two
directions: its stiffness is Eₑ times one 8 × 8 matrix K₀ = ∫ BᵀDB, where B maps displacements of
the corners to strains, and D strains to stresses (plane stress, with Poisson's ratio ν). U are the
displacements under the forces F, and C the compliance, twice the energy that is stored.

Corners are numbered down one column of the grid after the other, so that K has a band of
2(rows + 3) diagonals, and Cholesky in the band takes of the order columns · rows³ multiplications.

Source: golikov · ntk-simp · 2.6.2.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float, Int

# The corners of a square in the order of its eight displacements: (column, row), rows downwards.
_CORNERS = np.array([[0, 1], [1, 1], [1, 0], [0, 0]])


class Plate(NamedTuple):
    """A grid of squares, held at some corners and loaded at others.

    Example: two squares have six corners, each with two displacements.
        >>> beam = half_beam(num_columns=2, num_rows=1)
        >>> beam.corners.shape, len(beam.held), float(beam.load.sum())
        ((2, 8), 12, 1.0)
    """

    num_columns: int
    num_rows: int
    element: Float[np.ndarray, "8 8"]  # K₀, at E = 1
    corners: Int[np.ndarray, "e 8"]  # which displacements belong to a square, column by column
    held: Bool[np.ndarray, " u"]  # displacements that are 0: right, then down, of every corner
    load: Float[np.ndarray, " u"]  # F


class Bending(NamedTuple):
    """What the load does.

    Example: C is homogeneous of degree −1 in the moduli, so Σ E ∂C/∂E = −C.
        >>> bending = bend(half_beam(3, 2), np.ones((3, 2)))
        >>> bool(np.isclose(bending.slope.sum(), -bending.compliance))
        True
    """

    compliance: float  # C
    slope: Float[np.ndarray, "columns rows"]  # ∂C/∂E, never positive
    displacement: Float[np.ndarray, " u"]  # U


def element_stiffness(poisson: float = 0.3) -> Float[np.ndarray, "8 8"]:
    """K₀ = ∫ BᵀDB over a unit square, exactly: by Gauss's rule with two points on each axis.

    Example: moving all four corners to the right takes no force.
        >>> to_the_right = np.tile([1.0, 0.0], 4)
        >>> bool(np.allclose(element_stiffness(poisson=0.3) @ to_the_right, 0.0))
        True
    """
    if not -1 < poisson < 0.5:
        raise ValueError(f"poisson must be in (−1, 1/2), got {poisson}.")
    elastic = np.array([[1, poisson, 0], [poisson, 1, 0], [0, 0, (1 - poisson) / 2]])
    elastic = elastic / (1 - poisson**2)
    nodes = 0.5 + np.array([-0.5, 0.5]) / np.sqrt(3)
    total = np.zeros((8, 8))
    for s in nodes:
        for t in nodes:
            across = np.where(_CORNERS == 1, [[s, t]], [[1 - s, 1 - t]])
            signs = 2 * _CORNERS - 1
            along_s, along_t = signs[:, 0] * across[:, 1], signs[:, 1] * across[:, 0]
            strain = np.zeros((3, 8))
            strain[0, 0::2] = strain[2, 1::2] = along_s
            strain[1, 1::2] = strain[2, 0::2] = along_t
            total += strain.T @ elastic @ strain / 4
    return total


def plate(
    num_columns: int,
    num_rows: int,
    held: Bool[np.ndarray, "across down 2"],
    load: Float[np.ndarray, "across down 2"],
    poisson: float = 0.3,
) -> Plate:
    """Make a plate.

    Args:
        num_columns: Squares in a row.
        num_rows: Squares in a column.
        held: Which displacements (to the right, downwards) of which corners are 0.
        load: The forces on the corners.
        poisson: Poisson's ratio ν.

    Example: a unit square of modulus 1, pulled by a unit force, gets longer by 1.
        >>> held, load = np.zeros((2, 2, 2), bool), np.zeros((2, 2, 2))
        >>> held[0, :, 0], held[0, 0, 1] = True, True  # the left side
        >>> load[1, :, 0] = 0.5  # both corners of the right side
        >>> round(bend(plate(1, 1, held, load), np.ones((1, 1))).compliance, 6)
        1.0
    """
    for name, count in (("num_columns", num_columns), ("num_rows", num_rows)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}.")
    if held.sum() < 3:
        raise ValueError(f"at least 3 displacements must be held, got {held.sum()}.")
    column, row = np.divmod(np.arange(num_columns * num_rows), num_rows)
    node = (column[:, None] + _CORNERS[:, 0]) * (num_rows + 1) + row[:, None] + _CORNERS[:, 1]
    corners = (2 * node[:, :, None] + np.arange(2)).reshape(-1, 8)
    element = element_stiffness(poisson)
    return Plate(num_columns, num_rows, element, corners, held.ravel(), load.ravel())


def half_beam(num_columns: int, num_rows: int) -> Plate:
    """The right half of a beam on two supports, with a unit load on the middle of its top.

    The left side is the axis of symmetry, which moves up and down only; the lower right corner
    rests on a roller. Topology optimisation knows it as the MBB beam.

    Example: three corners on the axis of symmetry are held, and one on the roller.
        >>> int(half_beam(num_columns=4, num_rows=2).held.sum())
        4
    """
    held = np.zeros((num_columns + 1, num_rows + 1, 2), bool)
    held[0, :, 0], held[-1, -1, 1] = True, True
    load = np.zeros(held.shape)
    load[0, 0, 1] = 1.0
    return plate(num_columns, num_rows, held, load)


def bend(plate: Plate, moduli: Float[np.ndarray, "columns rows"]) -> Bending:
    """Solve KU = F, and give the compliance with its slope.

    Args:
        plate: Grid, supports and load.
        moduli: E of every square, positive.

    Example:
        >>> beam = half_beam(6, 2)
        >>> stiff, soft = (bend(beam, np.full((6, 2), e)).compliance for e in (2.0, 1.0))
        >>> round(soft / stiff, 6)
        2.0
    """
    if moduli.shape != (plate.num_columns, plate.num_rows) or not moduli.min() > 0:
        raise ValueError(
            f"moduli must be positive and ({plate.num_columns}, {plate.num_rows}), got "
            f"{moduli.shape} with least value {moduli.min()}."
        )
    load = np.where(plate.held, 0.0, plate.load)
    u = scipy.linalg.solveh_banded(_banded(plate, moduli.ravel()), load, lower=True)
    local = u[plate.corners]
    energy = np.einsum("ei,ij,ej->e", local, plate.element, local)
    return Bending(float(u @ load), -energy.reshape(moduli.shape), u)


def _banded(plate: Plate, moduli: Float[np.ndarray, " e"]) -> Float[np.ndarray, "band u"]:
    """K by its lower diagonals; displacements that are held get 1 on the diagonal and no others."""
    size, width = len(plate.load), 2 * (plate.num_rows + 3)
    rows = plate.corners[:, :, None]
    columns = plate.corners[:, None, :]
    kept = (rows >= columns) & ~(plate.held[rows] | plate.held[columns])
    values = moduli[:, None, None] * plate.element[None]
    places = ((rows - columns) * size + columns)[kept]
    banded = np.bincount(places, values[kept], minlength=width * size).reshape(width, size)
    banded[0, plate.held] = 1.0
    return banded
