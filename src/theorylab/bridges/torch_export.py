"""PyTorch's own reading of a module: `torch.export`, in evaluation mode, for any number of inputs.

    module ─► export (n is a symbol) ─► detached parts are marked ─► core operations ─► graph

The module is in evaluation mode while it is read, and as it was afterwards. The number of inputs is
left open; a module that does not allow that is read once for each number of inputs.
"""

import importlib
import inspect
import logging
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

WHOLE = (  # operations that PyTorch would take apart, and that stay whole
    "celu",
    "elu",
    "glu",
    "gru.input",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "linalg_vector_norm",
    "linear",
    "log_sigmoid",
    "logsumexp",
    "lstm.input",
    "mish",
    "prelu",
    "relu6",
    "rms_norm",
    "rnn_relu.input",
    "rnn_tanh.input",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "silu",
    "softplus",
    "softshrink",
    "threshold",
    "upsample_bilinear2d.vec",
    "upsample_linear1d.vec",
    "upsample_nearest1d.vec",
    "upsample_nearest2d.vec",
    "upsample_nearest3d.vec",
    "upsample_trilinear3d.vec",
)


def exported(module: Any, args: tuple, kwargs: dict, any_number: bool) -> Any:
    """The module as PyTorch exports it, in core operations.

    Args:
        module: A module of PyTorch.
        args: Tensors by place.
        kwargs: Tensors by name.
        any_number: Whether the first axis of every tensor is left open.
    """
    torch = importlib.import_module("torch")
    pytree = importlib.import_module("torch.utils._pytree")
    shapes = None
    if any_number:
        number = torch.export.Dim("num_inputs", min=1)
        axes = lambda tensor: None if tensor is None else {0: number}  # noqa: E731
        shapes = _by_argument(module, *pytree.tree_map(axes, (args, kwargs)))
    with evaluating(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what PyTorch does inside
        program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
        mark_held(program.graph_module)
        return program.run_decompositions(decompositions())


def _by_argument(module: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Shapes by the names of the arguments of `forward`, as PyTorch wants them."""
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Evaluation mode, with attention computed by single operations; afterwards all is as before.

    Args:
        module: A module of PyTorch; every module inside gets its own mode back.
    """
    backend = importlib.import_module("torch.backends.mha")
    transformer: Any = importlib.import_module("torch.nn.modules.transformer")
    log = logging.getLogger("torch._subclasses.fake_tensor")  # tells of an error that is raised too
    modes = {each: each.training for each in module.modules()}
    fast, is_causal = backend.get_fastpath_enabled(), transformer._detect_is_causal_mask
    silent = log.disabled
    try:
        module.train(False)
        log.disabled = True
        backend.set_fastpath_enabled(False)
        # It looks at the values of a mask, which are not there, only to choose a faster way.
        transformer._detect_is_causal_mask = lambda mask, told=None, size=None: told is True
        yield
    finally:
        log.disabled, transformer._detect_is_causal_mask = silent, is_causal
        backend.set_fastpath_enabled(fast)
        for each, mode in modes.items():
            each.training = mode


def decompositions() -> Any:
    """PyTorch's table of what is taken apart, without what stays whole."""
    torch = importlib.import_module("torch")
    table = torch.export.default_decompositions()
    for name in WHOLE:
        packet, _, overload = name.partition(".")
        known = getattr(torch.ops.aten, packet, None)
        if known is not None and hasattr(known, overload or "default"):
            table.pop(getattr(known, overload or "default"), None)
    return table


def mark_held(graph_module: Any) -> None:
    """Mark what no gradient flows through, or its mark would be lost with the next reading.

    Args:
        graph_module: Its graph is changed: `detach`, and what runs under `no_grad`.
    """
    torch = importlib.import_module("torch")
    graph = graph_module.graph

    def mark(node: Any) -> None:
        with graph.inserting_after(node):
            held = graph.call_function(held_operation(), (node,))
        node.replace_all_uses_with(held, delete_user_cb=lambda use: use is not held)
        held.meta.update(node.meta)

    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is torch.ops.aten.detach.default:
            node.target = held_operation()
        elif "set_grad_enabled" in str(node.target) and node.args[0] is False:
            for part in list(node.users):
                mark(part)
    graph_module.recompile()


@cache
def held_operation() -> Any:
    """An operation that does nothing, under a name that PyTorch does not take apart."""
    torch = importlib.import_module("torch")

    made = torch.library.custom_op(
        "theorylab::held", torch.clone, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    made.register_fake(torch.empty_like)
    return torch.ops.theorylab.held.default


def why_not(error: BaseException) -> str:
    """What PyTorch says first, and the line of the user's own that it was about.

    Args:
        error: What `torch.export` raised.

    Example:
        >>> why_not(ValueError("Expected 3 channels. And much more."))
        'ValueError: Expected 3 channels. And much more.'
    """
    here = {"torch", "theorylab", "contextlib.py", "functools.py", "importlib"}
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if frame.filename[:1] != "<" and not here & set(Path(frame.filename).parts)
    ]
    said = " ".join(str(error).split("\n\n")[0].split())[:300]
    told = f"{type(error).__name__}: {said}"
    if own:
        told += f" At {own[-1].filename}, line {own[-1].lineno}: {own[-1].line}"
    if "data-dependent" in said:
        told += " (what is run must not depend on values; write that with torch.where)"
    return told
