"""What tests of bridges share: the comparison of a bridged module with the module itself."""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from theorylab.bridges import Bridged, from_torch

if importlib.util.find_spec("torch"):
    importlib.import_module("torch").set_num_threads(1)


def repeated(example: Any, number: int) -> Any:
    """Another number of inputs: those of the example over and over."""
    return jax.tree.map(lambda leaf: leaf[[i % len(leaf) for i in range(number)]], example)


def called(module: Any, x: Any) -> Any:
    """The module's outputs, as its framework calls it."""
    if isinstance(x, dict):
        return module(**x)
    return module(*x) if isinstance(x, tuple) else module(x)


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Equal, relative to the largest entry."""
    expected = np.asarray(expected)
    scale = max(np.abs(expected).max(), 1e-3)
    np.testing.assert_allclose(np.asarray(found) / scale, expected / scale, atol=tolerance, rtol=0)


def outputs_agree(module: Any, network: Bridged, example: Any, numbers: tuple[int, ...]) -> None:
    """Outputs are the module's, at several numbers of inputs."""
    for number in numbers:
        x = repeated(example, number)
        expected = called(module, x).detach().numpy()
        found = jax.jit(network.apply)(network.params, as_numpy(x))
        assert found.dtype == expected.dtype
        close(found, expected, 1e-5)


def as_numpy(x: Any) -> Any:
    """Tensors as arrays."""
    return jax.tree.map(lambda leaf: leaf.numpy(), x)


def differentiated(module: Any, network: Bridged, example: Any, second: bool) -> None:
    """The gradient of a mean square is PyTorch's; so is a product with its Hessian."""
    torch = importlib.import_module("torch")
    names, parameters = zip(*module.named_parameters(), strict=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        loss = (called(module, example) ** 2).mean()
        gradient = torch.autograd.grad(loss, parameters, create_graph=second)
        product: Any = ()
        direction = [torch.randn_like(each) for each in parameters]
        if second:
            slope = sum((g * v).sum() for g, v in zip(gradient, direction, strict=True))
            product = torch.autograd.grad(slope, parameters)
    x = as_numpy(example)
    objective = lambda params: (network.apply(params, x) ** 2).mean()  # noqa: E731
    found = jax.jit(jax.grad(objective))(network.params)
    for name, expected in zip(names, gradient, strict=True):
        close(found[name], expected.detach().numpy(), 1e-4)
    if second:
        along = {name: v.numpy() for name, v in zip(names, direction, strict=True)}
        twice = jax.jit(lambda p, v: jax.jvp(jax.grad(objective), (p,), (v,))[1])
        found = twice(network.params, along)
        for name, expected in zip(names, product, strict=True):
            close(found[name], expected.numpy(), 1e-3)


@pytest.fixture
def agrees() -> Callable[..., Bridged]:
    """Holds a bridged module to PyTorch: outputs at 1 and 7 inputs, derivatives at 2.

    float32 on both sides; sums are taken in different orders, hence 1e-5 of the largest output,
    1e-4 of the largest entry of a gradient, 1e-3 of a product with the Hessian.
    """
    torch = pytest.importorskip("torch")

    def check(
        module: Any,
        example: Any,
        gradients: bool = True,
        second: bool = False,
        numbers: tuple[int, ...] = (1, 7),
    ) -> Bridged:
        before = {name: leaf.clone() for name, leaf in module.state_dict().items()}
        modes = [each.training for each in module.modules()]
        network = from_torch(module, example)
        assert [each.training for each in module.modules()] == modes
        for name, leaf in module.state_dict().items():
            assert torch.equal(leaf, before[name]), f"{name} has changed"
        module.eval()
        outputs_agree(module, network, example, numbers)
        if gradients:
            differentiated(module, network, example, second)
        return network

    return check
