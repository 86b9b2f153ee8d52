"""What the network looks at, and what it looks with: gradient features, units, weights.

    effective rank of the AGOP M = E JᵀJ       (tr M)²/tr M²
    neural feature ansatz                       cos(WWᵀ, G) without multiples of the identity
    dead and saturated units                    by the slope of each activation on the inputs
    singular values of the weights              against those of random matrices

Sources: zhu · agop; the ansatz: Radhakrishnan et al. (2022), arXiv:2212.13881 (radhakrishnan2022);
saturation: Glorot and Bengio (2010) (glorot2010), §3; weights: Martin and Mahoney (2021),
arXiv:1810.01075 (martin2021).
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from theorylab.claims import Source
from theorylab.features import agop_rank, neural_feature_ansatz
from theorylab.features.agop_rank import rows_of
from theorylab.features.split import look_ups, num_entries, split_at
from theorylab.features.unit_walk import FLAT
from theorylab.features.units import UnitActivity
from theorylab.features.weight_spectra import LARGEST, draw_bulk, weight_matrices
from theorylab.kernels.finite.program import program_of, uses_of
from theorylab.models.inputs import one_input
from theorylab.typing import Apply, Inputs, Params

from ..measure import Measure, Reading, Skipped
from ..subject import Subject

_TOP = 4  # directions that are kept
_ROWS = 1_500  # gradients whose inner products are taken, at most
_ENTRIES = 2.5e7  # numbers in all gradients together, at most
_LINES = 24  # layers whose numbers are given one by one, at most


def _agop_rank(subject: Subject) -> Reading:
    if subject.num_inputs < 2:
        raise Skipped("a rank needs at least two inputs")
    at = _looked_at(subject)
    k = rows_of(subject.num_outputs)
    split = split_at(subject.apply, subject.params, subject.x, at)
    dimension = num_entries(split, subject.params, subject.x)[0]
    most = max(2, min(500, _ROWS // k, int(_ENTRIES // (k * dimension))))
    inputs = subject.effort("agop_rank", 0.08, passes=float(k), products=1, most=most).inputs
    x, _ = subject.sample(inputs)
    key = subject.key_for("agop_rank")
    found = agop_rank(subject.apply, subject.params, x, key, top=_TOP, at=at)
    if not found.trace > 0:
        raise Skipped("the outputs do not change with the inputs: every gradient is 0")
    known = math.isfinite(found.low)
    shares = np.asarray(found.shares, dtype=float)
    of = "the inputs" if at is None else f"the rows of {'.'.join(map(str, at))}"
    details: dict[str, float | str] = {"directions in all": float(dimension)}
    details |= {f"share of direction {i}": float(s) for i, s in enumerate(shares, 1)}
    details |= {f"eigenvalue {i}": float(v) for i, v in enumerate(found.eigenvalues, 1)}
    gradients = "" if k == subject.num_outputs else f", {k} random combinations of the outputs"
    return Reading(
        value=found.rank,
        low=found.low,
        high=found.high,
        certainty="95 %" if known else "estimate",
        method=f"gradients by {of} at {inputs:,} inputs{gradients}; jackknife over inputs",
        meaning=f"the outputs depend on {of} as if through {found.rank:.3g} of {dimension:,}"
        f" directions; the top one has {shares[0]:.0%} of the squared gradient",
        products=inputs * k,
        details=details,
        curves={
            "eigenvalues": np.asarray(found.eigenvalues),
            "directions": _as_inputs(subject, at, np.asarray(found.directions).T),
        },
    )


def _looked_at(subject: Subject) -> tuple[int | str, ...] | None:
    """What to differentiate by: the inputs, or the rows that token ids look up."""
    whole = [not jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(subject.x)]
    if not all(whole):
        return None
    try:
        split_at(subject.apply, subject.params, subject.x, None)
        return None  # whole numbers that the network takes as real ones, such as pixels
    except ValueError:
        found = look_ups(subject.apply, subject.params, subject.x)
    if not found:
        raise Skipped(
            "the inputs are whole numbers, and no array of params is found in which they look up"
            " rows: theorylab.features.agop_rank takes at=(embed, rest)"
        )
    return found[0]


def _as_inputs(subject: Subject, at: Any, directions: np.ndarray) -> np.ndarray:
    """Directions in the shape of an input, if inputs are one array."""
    leaves = jax.tree.leaves(subject.x)
    if at is not None or len(leaves) != 1:
        return directions
    return directions.reshape(-1, *leaves[0].shape[1:])


def _draw_directions(reading: Reading, axes: Any) -> None:
    """The top directions: as images beside each other where inputs are images, else as lines."""
    from theorylab.answers.figure import curve

    directions = np.asarray(reading.curves["directions"])
    pictures = [picture for picture in map(as_picture, directions) if picture is not None]
    if pictures:
        gap = np.ones((len(pictures[0]), 1, *pictures[0].shape[2:]))
        parts = [part for picture in pictures for part in (picture, gap)][:-1]
        axes.imshow(np.concatenate(parts, axis=1), cmap="gray", vmin=0, vmax=1)
        axes.set_axis_off()
        return
    flat = directions.reshape(len(directions), -1)
    places = np.arange(1, flat.shape[1] + 1)
    if flat.shape[1] <= 40:
        axes.bar(places, flat[0])
    else:
        curve(axes, places, flat[:2].T)
    axes.set_xlabel("entry of the input")
    axes.set_ylabel("top direction")


def as_picture(direction: np.ndarray) -> np.ndarray | None:
    """A direction as an image (h, w) or (h, w, 3) with entries from 0 to 1; None if it is none.

    Args:
        direction: In the shape of an input: (h, w), (h, w, c) or (c, h, w).

    Example:
        >>> as_picture(np.ones((3, 8, 8))).shape, as_picture(np.ones(8)) is None
        ((8, 8, 3), True)
    """
    shape = direction.shape
    if direction.ndim == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3):
        direction = np.moveaxis(direction, 0, 2)
    if direction.ndim not in (2, 3) or min(direction.shape[:2]) < 4:
        return None
    if direction.ndim == 3:
        direction = direction if direction.shape[2] == 3 else direction.mean(axis=2)
    largest = np.abs(direction).max()
    return 0.5 + 0.5 * direction / (largest if largest > 0 else 1.0)


@dataclass(frozen=True)
class _Combined:
    """A network whose outputs are combined as each input says: f ─► Sf with signs S (r, k)."""

    apply: Apply

    def __call__(self, params: Params, x: tuple[Inputs, Array]) -> Array:
        inputs, signs = x
        return jnp.einsum("nk,nrk->nr", self.apply(params, inputs), signs)


def _feature_ansatz(subject: Subject) -> Reading:
    k, rows = subject.num_outputs, rows_of(subject.num_outputs)
    effort = subject.effort("feature_ansatz", 0.08, passes=1.5 * rows, products=1, most=200)
    x, _ = subject.sample(effort.inputs)
    if rows < k:  # E (Jᵀξ)(Jᵀξ)ᵀ = JᵀJ for signs ξ
        shape = (effort.inputs, rows, k)
        signs = jax.random.rademacher(
            subject.key_for("feature_ansatz"), shape, output_kind(subject)
        )
        found = neural_feature_ansatz(
            _Combined(subject.apply), subject.params, (x, signs / math.sqrt(rows))
        )
    else:
        found = neural_feature_ansatz(subject.apply, subject.params, x)
    last = _output_layer(subject)
    layers = {name: float(one.correlation) for name, one in found.items() if name != last}
    layers = {name: value for name, value in layers.items() if math.isfinite(value)}
    if not layers:
        raise Skipped("no layer before the last has weights that enter by one product")
    value = float(np.median(list(layers.values())))
    exact = effort.inputs == subject.num_inputs and rows == k
    told = f"{k} outputs" if rows == k else f"{rows} random combinations of {k} outputs"
    return Reading(
        value=value,
        low=value if exact else math.nan,
        high=value if exact else math.nan,
        certainty="exact" if exact else "estimate",
        method=f"median of {len(layers)} layers, gradients of {told} at {effort.inputs:,} inputs",
        meaning=_ansatz_meaning(subject, value, list(layers)),
        products=effort.inputs * rows,
        details=dict(list(layers.items())[:_LINES]),
    )


def output_kind(subject: Subject) -> Any:
    """The type of the outputs.

    Example:
        >>> from theorylab.checkup import subject_of
        >>> line, x = lambda w, x: x @ w, jnp.ones((3, 2))
        >>> subject = subject_of(line, jnp.ones((2, 1)), x, x[:, :1], jax.random.key(0), loss="mse")
        >>> output_kind(subject) == x.dtype
        True
    """
    return jax.eval_shape(subject.apply, subject.params, subject.x).dtype


def _output_layer(subject: Subject) -> str:
    """The layer that gives the outputs: its G is WWᵀ by definition, whatever it has learned."""
    program = program_of(subject.apply, subject.params, one_input(subject.x))
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(subject.params)]
    uses = uses_of(program)
    if not uses or uses[-1].sizes.fan_out != subject.num_outputs:
        return ""
    return jax.tree_util.keystr(paths[uses[-1].leaf])


def _ansatz_meaning(subject: Subject, value: float, layers: list[str]) -> str:
    """Weights that still look random say nothing: both matrices share their noise."""
    spectra = subject.spectra
    if all(name in spectra and spectra[name].is_random for name in layers):
        return (
            "the weights look random (weight_spectra), so the ansatz tells nothing yet: with them"
            " both sides share their noise"
        )
    if value > 0.5:
        return (
            "the directions that the weights enlarge are mostly those to which the outputs are"
            " sensitive, as the neural feature ansatz says of learned features"
        )
    return (
        "the directions that the weights enlarge are not those to which the outputs are sensitive:"
        " the neural feature ansatz does not hold"
    )


def _activity(subject: Subject) -> tuple[int, dict[str, UnitActivity]]:
    inputs, found = subject.activity
    if not found:
        raise Skipped("no activation of hidden units is found in the network's program")
    return inputs, found


def _dead_units(subject: Subject) -> Reading:
    inputs, found = _activity(subject)
    dead = {name: np.asarray(one.dead) for name, one in found.items()}
    units = sum(len(one) for one in dead.values())
    number = sum(int(one.sum()) for one in dead.values())
    value, bound = number / units, 1 - 0.05 ** (1 / inputs)
    exact = inputs == subject.num_inputs
    meaning = f"all {units:,} hidden units are active on some of the inputs"
    if number:
        meaning = (
            f"{number:,} of {units:,} hidden units give 0 and get no gradient; each is active on"
            f" less than {bound:.2g} of all inputs (95 %)"
        )
    names = [f"{name} {one.weights}".strip() for name, one in found.items()]
    return Reading(
        value=value,
        low=value if exact else 0.0,
        high=value,
        certainty="exact" if exact else "certified",  # more inputs can only wake units
        method=f"slopes of {len(found)} activations at {inputs:,} inputs",
        meaning=meaning,
        details={
            name: _counted(one)
            for name, one in list(zip(names, dead.values(), strict=True))[:_LINES]
        },
        curves={
            "layers": np.array(list(found)),
            "dead": np.array([one.mean() for one in dead.values()]),
            "active": np.array([float(np.mean(one.active)) for one in found.values()]),
        },
    )


def _counted(chosen: np.ndarray) -> str:
    return f"{int(chosen.sum()):,} of {len(chosen):,}"


def _saturated_units(subject: Subject) -> Reading:
    inputs, found = _activity(subject)
    kept = {name: one for name, one in found.items() if saturates(one)}
    if not kept:
        raise Skipped("no activation saturates: their slopes stay, or are cut as ReLU's are")
    saturated = {name: np.asarray(one.saturated) for name, one in kept.items()}
    units = sum(len(one) for one in saturated.values())
    number = sum(int(one.sum()) for one in saturated.values())
    value = number / units
    exact = inputs == subject.num_inputs
    rest = "so gradients hardly pass them" if number else "so gradients pass all of them"
    shares = {name: float(np.mean(one.flat)) for name, one in kept.items()}
    return Reading(
        value=value,
        low=value if exact else math.nan,
        high=value if exact else math.nan,
        certainty="exact" if exact else "estimate",
        method=f"slopes of {len(kept)} activations at {inputs:,} inputs",
        meaning=f"{number:,} of {units:,} hidden units have less than 1 % of the largest slope at"
        f" 99 % of the inputs, {rest}",
        details={
            f"{name} {kept[name].weights}".strip(): f"{_counted(one)}; {shares[name]:.2g} of all"
            " observations are flat"
            for name, one in list(saturated.items())[:_LINES]
        },
        curves={
            "layers": np.array(list(kept)),
            "saturated": np.array([one.mean() for one in saturated.values()]),
            "flat": np.array(list(shares.values())),
        },
    )


def saturates(activity: UnitActivity) -> bool:
    """Whether an activation is flat on a side, and is not simply cut there, as ReLU is.

    Args:
        activity: Of its units.

    Example:
        >>> network = lambda w, x: jnp.tanh(x @ w) + jax.nn.relu(2 * (x @ w))
        >>> from theorylab.features import unit_activity
        >>> found = unit_activity(network, jnp.eye(2), jnp.ones((3, 2)))
        >>> {name: saturates(one) for name, one in found.items()}
        {'tanh 1': True, 'relu 2': False}
    """
    left, right = sorted(float(tail) for tail in activity.tails)
    if right < FLAT / 2:
        return True
    return 0 < left < FLAT / 2


def _draw_units(reading: Reading, axes: Any) -> None:
    """The share of dead or saturated units, layer by layer."""
    names = reading.curves["layers"].tolist()
    kind = "dead" if "dead" in reading.curves else "saturated"
    places = np.arange(len(names))
    axes.bar(places, 100 * reading.curves[kind])
    axes.set_xticks(places[:_LINES], names[:_LINES], rotation=60, fontsize=7)
    axes.set_ylabel(f"{kind} units, %")


def _weight_spectra(subject: Subject) -> Reading:
    found = subject.spectra
    if not found:
        raise Skipped("no parameter is a matrix, or all have sides above 1,500")
    left_out = [
        name for name, matrix in weight_matrices(subject.params) if min(matrix.shape) > LARGEST
    ]
    energies = {name: one.energy for name, one in found.items()}
    worst = max(found, key=lambda name: (found[name].num_outliers, energies[name]))
    changed = sum(not one.is_random for one in found.values())
    value = max(energies.values())
    total = sum(one.num_outliers for one in found.values())
    meaning = (
        f"{changed} of {len(found)} matrices have {total:,} singular values in all that random"
        " weights do not have: training has left directions in them"
        if changed
        else f"all {len(found)} matrices look as at initialization: no singular value is beyond"
        " those of random or orthogonal weights"
    )
    beyond = f"; {len(left_out)} larger than {LARGEST:,} left out" if left_out else ""
    return Reading(
        value=value,
        low=value,
        high=value,
        certainty="exact",
        method=f"singular values of {len(found)} matrices; outliers by Tracy–Widom's law, 5 % for"
        f" all together{beyond}",
        meaning=meaning,
        details={name: _spectrum_line(one) for name, one in list(found.items())[:_LINES]},
        curves={
            "singular values": np.asarray(found[worst].singular_values),
            "scale": np.array(found[worst].scale),
            "shape": np.array(found[worst].shape),
            "outliers": np.array([one.num_outliers for one in found.values()]),
            "stable ranks": np.array([one.stable_rank for one in found.values()]),
            "distances": np.array([one.distance for one in found.values()]),
        },
    )


def _spectrum_line(one: Any) -> str:
    if one.is_flat:
        return "flat: all singular values are equal, as of orthogonal weights"
    return (
        f"{one.num_outliers} outliers with {one.energy:.0%} of the energy; stable rank"
        f" {one.stable_rank:.3g}; top one {one.distance:+.3g} Tracy–Widom units from the edge,"
        f" p = {one.p_value:.2g}"
    )


def _draw_spectrum(reading: Reading, axes: Any) -> None:
    """The matrix with most outliers, beside Marchenko and Pastur's density."""
    n, p = reading.curves["shape"].tolist()
    scale = float(reading.curves["scale"])
    draw_bulk(axes, reading.curves["singular values"], scale, (n, p))


MEASURES = (
    Measure(
        name="agop_rank",
        group="features",
        title="effective rank of the gradient outer product",
        read=_agop_rank,
        source=Source("zhu", "agop", "Eq. 4.5"),
        experiment="features/agop/gradient_descent",
        draw=_draw_directions,
    ),
    Measure(
        name="feature_ansatz",
        group="features",
        title="neural feature ansatz cor(WWᵀ, AGOP)",
        read=_feature_ansatz,
        source=Source("radhakrishnan2022", "neural-feature-ansatz", "Eq. 1"),
        experiment="features/agop/recursive_features",
    ),
    Measure(
        name="dead_units",
        group="features",
        title="share of hidden units that are dead",
        read=_dead_units,
        source=Source("karp", "wrn-sparsity", "3.1"),
        experiment="features/local_signal/activation_sparsity",
        draw=_draw_units,
    ),
    Measure(
        name="saturated_units",
        group="features",
        title="share of hidden units that are saturated",
        read=_saturated_units,
        source=Source("glorot2010", "saturation", "§3"),
        experiment="features/local_signal/activation_sparsity",
        draw=_draw_units,
    ),
    Measure(
        name="weight_spectra",
        group="features",
        title="energy of weights beyond random matrices",
        read=_weight_spectra,
        source=Source("martin2021", "weight-spectra", "§3"),
        experiment="features/emergence/first_two_steps",
        draw=_draw_spectrum,
    ),
)
