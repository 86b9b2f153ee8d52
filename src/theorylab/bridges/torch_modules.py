"""A module of PyTorch as `apply(params, x)`: its graph, run in JAX.

    network = from_torch(module, example)
    theorylab.ntk(network.apply, network.params, x)

`params` are the module's floating parameters by the names of its state dict (of tied ones, the
first name), frozen ones too. Buffers, running statistics and constants are held. The module is read
when the bridge is made: what happens to it later changes nothing.
"""

import copy as copying
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.typing import Inputs, Params

from .bridged import Bridged, Outputs, arguments, checked, picked, plain
from .torch_arrays import as_jax, kind_of
from .torch_export import exported, why_not
from .torch_graph import Program, Types, read, run, summary
from .torch_inputs import Example, converted, example_of, inputs_like
from .torch_parameters import check_module, check_tensor, parameters_of


class Reading(NamedTuple):
    """What was read of a module: a program, what fills its places, the tree of its outputs."""

    program: Program
    sources: dict[str, tuple[str, Any]]  # place ─► where its array is found, and under which name
    held: dict[str, Array]
    template: Any  # the outputs, with numbers for arrays


def from_torch(module: Any, example: Any, *, outputs: Outputs = None, copy: bool = True) -> Bridged:
    """Make `apply(params, x)` of a PyTorch module, as it is in evaluation mode.

        network = from_torch(module, torch.zeros(2, 3, 32, 32))
        ntk(network.apply, network.params, images)

    Every operation runs in JAX, so all derivatives are there. Any number of inputs will do. Where
    operations are not covered, the error names them all at once, each with its line.

    Args:
        module: A `torch.nn.Module`; it is not changed.
        example: Inputs with the first axis n: a tensor or array, a tuple of them for several
            arguments, a dictionary for arguments by name.
        outputs: The part of the outputs that is wanted: a name such as "logits", a place, or a
            function of all of them.
        copy: Whether parameters have memory of their own; without, they are the module's where that
            is possible, and change when it is trained.
    """
    check_module(module)
    module = getattr(module, "_orig_mod", module)  # of what torch.compile has made
    parameters = parameters_of(module)
    given = example_of(example, parameters)
    readings = readings_of(module, given, parameters)
    params = {name: as_jax(tensor, copy) for name, tensor in parameters.items()}
    kinds = {name: kind_of(tensor.dtype) for name, tensor in parameters.items()}
    shapes = {name: leaf.shape for name, leaf in params.items()}

    def apply(params: Params, x: Inputs) -> Any:
        check_like(shapes, params)
        leaves = inputs_like(given, x)
        reading, types = readings.of(leaves[0].shape[0]), Types(kinds, params)
        values = values_of(reading, params, leaves, given.kinds, types)
        found = run(reading.program, values, types)
        every = jax.tree.map(lambda place: found[place], reading.template)
        return picked(plain(every), outputs)

    held = {name: as_jax(tensor) for name, tensor in module.named_buffers()}
    return checked(Bridged(apply, params, {**held, **readings.first.held}))


class Readings:
    """The readings of one module: one for all numbers of inputs, or one for each number."""

    def __init__(self, first: Reading, module: Any, given: Example, names: dict[int, str]) -> None:
        self.first, self.module, self.given, self.names = first, module, given, names
        self.known: dict[int, Reading] = {}

    def of(self, number: int) -> Reading:
        """The reading for this number of inputs."""
        if self.module is None:
            return self.first
        if number not in self.known:
            tree = self.given.with_number(number)
            self.known[number] = reading_of(self.module, tree, self.names, False)
        return self.known[number]


def readings_of(module: Any, given: Example, parameters: Mapping[str, Any]) -> Readings:
    """Read a module, for any number of inputs if it allows that.

    Args:
        module: A module of PyTorch.
        given: The example.
        parameters: The module's floating parameters by their names.
    """
    names = {id(tensor): name for name, tensor in parameters.items()}
    try:
        reading = reading_of(module, given.with_number(given.unlike()), names, True)
    except NotImplementedError:
        raise
    except Exception:  # whatever PyTorch raises: a module may not allow any number
        try:
            reading = reading_of(module, given.tree, names, False)
        except NotImplementedError:
            raise
        except Exception as error:
            shapes = " and ".join(str(shape) for shape in given.shapes)
            raise ValueError(
                "torch.export must be able to read the module with an example of shape"
                f" {shapes}, but raised {why_not(error)}"
            ) from error
        own = copying.deepcopy(module)
        pairs = zip(module.parameters(), own.parameters(), strict=True)
        copies = {id(new): names[id(old)] for old, new in pairs if id(old) in names}
        return Readings(reading, own, given, copies)
    return Readings(reading, None, given, {})


def reading_of(module: Any, tree: Any, names: Mapping[int, str], any_number: bool) -> Reading:
    """Read a module once; raise if an operation is not covered.

    Args:
        module: A module of PyTorch.
        tree: An example of its inputs.
        names: Of floating parameters, by their identity.
        any_number: Whether the number of inputs is left open.
    """
    pytree = importlib.import_module("torch.utils._pytree")
    args, kwargs = arguments(tree)
    found = exported(module, args, kwargs, any_number)
    program, uncovered = read(found.graph)
    if uncovered:
        raise NotImplementedError(summary(uncovered))
    count = iter(range(len(jax.tree.leaves(tree))))
    numbers = jax.tree.map(lambda _: next(count), tree)
    order = iter(pytree.tree_leaves(arguments(numbers)))
    signature = found.graph_signature
    tensors = dict(module.named_parameters(remove_duplicate=False))
    tensors |= dict(module.named_buffers(remove_duplicate=False))
    sources, held = {}, {}
    for spec in signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            sources[spec.arg.name] = ("x", next(order))
            continue
        tensor = tensors.get(spec.target, found.constants.get(spec.target))
        if id(tensor) in names:
            sources[spec.arg.name] = ("params", names[id(tensor)])
            continue
        check_tensor(spec.target, tensor)
        sources[spec.arg.name] = ("held", spec.target)
        held[spec.target] = as_jax(tensor)
    kinds = [spec.kind.name for spec in signature.output_specs]
    places = [place for place, kind in enumerate(kinds) if kind == "USER_OUTPUT"]
    template = plain(pytree.tree_unflatten(places, found.call_spec.out_spec))
    return Reading(program, sources, held, template)


def values_of(
    reading: Reading, params: Params, leaves: list[Array], kinds: tuple[str, ...], types: Types
) -> dict[str, Any]:
    """What fills the places of a program.

    Args:
        reading: What was read of the module.
        params: The parameters.
        leaves: The inputs.
        kinds: Their types in the example.
        types: Of what is computed.
    """
    values: dict[str, Any] = {}
    for place, (where, name) in reading.sources.items():
        if where == "params":
            values[place] = params[name]
        elif where == "held":
            array = reading.held[name]
            is_real = jnp.issubdtype(array.dtype, jnp.floating)
            values[place] = array.astype(types[str(array.dtype)]) if is_real else array
        else:
            values[place] = None if name is None else converted(leaves[name], kinds[name], types)
    return values


def check_like(shapes: Mapping[str, tuple[int, ...]], params: Params) -> None:
    """Raise unless parameters have the names and shapes of the module's.

    Args:
        shapes: Those of the module.
        params: Those that were given.

    Example:
        >>> check_like({"weight": (2, 3)}, {"weight": jnp.ones((3, 2))})
        Traceback (most recent call last):
        ...
        ValueError: params must have the module's shapes, (2, 3) at 'weight', got (3, 2).
    """
    if not isinstance(params, Mapping) or set(params) != set(shapes):
        told = sorted(params) if isinstance(params, Mapping) else f"a {type(params).__name__}"
        raise ValueError(f"params must have the module's names, {sorted(shapes)}, got {told}.")
    for name, shape in shapes.items():
        if jnp.shape(params[name]) != shape:
            raise ValueError(
                f"params must have the module's shapes, {shape} at {name!r}, got"
                f" {jnp.shape(params[name])}."
            )
