"""The parameters of a PyTorch module, as a bridge takes them; or a refusal in words.

    module ─► {name: tensor}      floating parameters, of tied ones the first name

Refused are parameters that have no values (on the device `meta`, or of a lazy module), and those
that are not plain real numbers: quantized, sparse, complex.
"""

import importlib
from typing import Any

from .torch_arrays import kind_of

FLOATING = ("bfloat16", "float16", "float32", "float64")


def check_module(module: Any) -> None:
    """Raise unless this is a module of PyTorch, made and not only defined.

    Args:
        module: What was given.

    Example: whatever has no modules inside is none.
        >>> check_module(3.0)
        Traceback (most recent call last):
        ...
        TypeError: module must be a torch.nn.Module, got a float.
    """
    if isinstance(module, type):
        name = module.__name__
        raise TypeError(f"module must be a torch.nn.Module, got the class {name}: make one of it.")
    if not any(each.__module__.startswith("torch.") for each in type(module).__mro__):
        raise TypeError(f"module must be a torch.nn.Module, got a {type(module).__name__}.")
    if not isinstance(module, importlib.import_module("torch").nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got a {type(module).__name__}.")


def check_tensor(name: str, tensor: Any) -> None:
    """Raise unless a tensor has values, and these are plain numbers.

    Args:
        name: In the module.
        tensor: A parameter, a buffer, or a constant.
    """
    problem = ""
    if "Uninitialized" in type(tensor).__name__:
        problem = "have a shape, got a lazy one: run the module once"
    elif str(tensor.device).startswith("meta"):
        problem = "have values, got one on the device meta: load the weights first"
    elif tensor.is_quantized:
        problem = "be plain numbers, got quantized ones: bridge the module before quantizing"
    elif kind_of(tensor.layout) != "strided":
        problem = f"be dense, got the layout {kind_of(tensor.layout)}: use to_dense()"
    elif tensor.is_complex():
        problem = f"be real, got {kind_of(tensor.dtype)}"
    if problem:
        raise ValueError(f"{name} must {problem}.")


def parameters_of(module: Any) -> dict[str, Any]:
    """The floating parameters by their names; tied ones once, under their first name.

    Args:
        module: A module of PyTorch.
    """
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        check_tensor(name, tensor)
    found = {
        name: tensor
        for name, tensor in module.named_parameters()
        if kind_of(tensor.dtype) in FLOATING
    }
    if not found:
        raise ValueError("module must have floating parameters, got none.")
    return found
