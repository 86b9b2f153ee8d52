"""What a bridge from PyTorch promises: any n, any derivative, nothing changed, plain refusals."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import theorylab
from theorylab.bridges import bridge, from_torch
from theorylab.models import fast_convolutions

torch = pytest.importorskip("torch", reason="needs PyTorch; .ci/run has an environment with it")
nn = torch.nn
KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class CNN(nn.Module):
    """Small, with all that is special in evaluation."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(16, 2)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.tanh(self.norm(self.conv(x))), 2)
        return self.head(self.drop(x.flatten(1)))


@pytest.fixture(scope="module")
def cnn():
    """A module in training mode, with one part in evaluation mode, and its bridge."""
    torch.manual_seed(0)
    module = CNN()
    module.norm.running_mean.normal_()
    module.norm.eval()
    return module, from_torch(module, torch.zeros(1, 1, 6, 6))


def images(number):
    return jax.random.normal(KEY, (number, 1, 6, 6), jnp.float32)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_one_bridge_takes_any_number_of_inputs(cnn, number):
    """Oracle: PyTorch in evaluation mode. The bridge was made with one input."""
    module, network = cnn
    x = images(number)
    with torch.no_grad():
        evaluated = CNN().eval()
        evaluated.load_state_dict(module.state_dict())
        expected = evaluated(torch.tensor(np.array(x))).numpy()
    np.testing.assert_allclose(network.apply(network.params, x), expected, atol=1e-6)


def test_the_module_is_as_before(cnn):
    """Oracle: what was set: training, but for one part."""
    module, _ = cnn
    assert module.training
    assert module.drop.training
    assert not module.norm.training


def test_params_and_held_are_by_the_names_of_the_state_dict(cnn):
    """Oracle: the state dict, all of whose arrays are in one of them."""
    module, network = cnn
    apply, params, held = network
    assert {**params, **held}.keys() == module.state_dict().keys()
    assert {name for name, _ in module.named_parameters()} == params.keys()
    assert all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in params.values())
    assert held["norm.num_batches_tracked"] == 0
    assert callable(apply)


def test_single_inputs_can_be_mapped(cnn):
    """Oracle: the batch. An input alone is a batch of one."""
    _, network = cnn
    x = images(3)
    alone = jax.vmap(lambda one: network.apply(network.params, one[None])[0])(x)
    np.testing.assert_allclose(alone, network.apply(network.params, x), atol=1e-6)


def test_fast_convolutions_give_the_same(cnn):
    """Oracle: the gradient as it is written."""
    _, network = cnn
    gradient = jax.grad(lambda params: (network.apply(params, images(3)) ** 2).sum())
    found = fast_convolutions(gradient)(network.params)
    for name, expected in gradient(network.params).items():
        np.testing.assert_allclose(found[name], expected, atol=1e-4)


def test_measures_take_a_bridged_network(cnn):
    """Oracle: the kernel from PyTorch's gradients; the others are finite and of their shapes."""
    module, network = cnn
    x = images(3)
    kernel = theorylab.ntk(network.apply, network.params, x)
    rows = []
    evaluated = CNN().eval()
    evaluated.load_state_dict(module.state_dict())
    for output in evaluated(torch.tensor(np.array(x))).T.flatten():
        parts = torch.autograd.grad(output, tuple(evaluated.parameters()), retain_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]).numpy())
    jacobian = np.array(rows).reshape(2, 3, -1)
    expected = np.einsum("kip,kjp->ij", jacobian, jacobian) / 2
    np.testing.assert_allclose(kernel, expected, rtol=1e-4)

    objective = lambda params: (network.apply(params, x) ** 2).mean()  # noqa: E731
    assert theorylab.sharpness(objective, network.params, KEY).value > 0
    assert theorylab.agop(network.apply, network.params, x).shape == (36, 36)


def test_parameters_of_more_bits_compute_in_more_bits(cnn):
    """Oracle: PyTorch in double precision, to its rounding: the types follow the parameters."""
    module, network = cnn
    double = CNN().eval()
    double.load_state_dict(module.state_dict())
    double.double()
    x = np.array(images(2), float)
    wide = {name: leaf.astype(float) for name, leaf in network.params.items()}
    found = network.apply(wide, x)
    assert found.dtype == jnp.float64
    np.testing.assert_allclose(found, double(torch.tensor(x)).detach().numpy(), atol=1e-12)


def test_parameters_of_16_bits_stay_so():
    """Oracle: float32, to the rounding of bfloat16."""
    module = nn.Linear(3, 2).bfloat16()
    network = from_torch(module, torch.zeros(2, 3, dtype=torch.bfloat16))
    assert network.params["weight"].dtype == jnp.bfloat16
    x = np.array([[0.1, -0.5, 2.0]], np.float32)
    expected = module.float()(torch.tensor(x)).detach().numpy()
    found = network.apply(network.params, x)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.astype(float), expected, atol=0.02)


def test_training_the_module_later_changes_nothing_but_without_a_copy():
    """Oracle: the output before. Without a copy the array is the module's own memory."""
    module = nn.BatchNorm1d(64)
    x = np.ones((2, 64), np.float32)
    network = from_torch(module, x)
    before = np.array(network.apply(network.params, x))
    with torch.no_grad():
        module.weight.mul_(3)
        module.running_mean.add_(5)
        module.running_var.add_(5)
    np.testing.assert_array_equal(network.apply(network.params, x), before)
    shared = from_torch(module, x, copy=False).params["weight"]
    address = module.weight.data_ptr()
    assert address % 64 or shared.unsafe_buffer_pointer() == address


class Stopped(nn.Module):
    """Parts through which no gradient goes."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(3, 3) for _ in range(3))

    def forward(self, x):
        with torch.no_grad():
            target = self.a(x)
        return self.c(x) * target + self.b(x).detach() + self.b(x)


def test_detached_parts_pass_no_gradient_on(agrees):
    """Oracle: PyTorch's gradient; under `no_grad` there is none."""
    torch.manual_seed(1)
    module, x = Stopped(), torch.randn(2, 3)
    network = from_torch(module, x)
    found = jax.grad(lambda params: (network.apply(params, x.numpy()) ** 2).sum())(network.params)
    (module(x) ** 2).sum().backward()
    assert module.a.weight.grad is None
    assert not found["a.weight"].any()
    for name in ("b.weight", "c.weight"):
        expected = dict(module.named_parameters())[name].grad.numpy()
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)


class OneByOne(nn.Module):
    """Asks how many inputs there are, so that it cannot be read for any number."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return torch.stack([self.head(x[i]) for i in range(x.shape[0])])


def test_a_module_for_one_number_of_inputs_is_read_for_each():
    """Oracle: PyTorch, with parameters that were changed after the bridge was made."""
    module = OneByOne()
    network = from_torch(module, torch.zeros(2, 3))
    weight = network.params["head.weight"] * 2
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    for number in (2, 3):
        found = network.apply({**network.params, "head.weight": weight}, x[:number])
        expected = x[:number] @ np.array(weight).T + module.head.bias.detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5)


class Several(nn.Module):
    """A dictionary of outputs, one of which is None."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x, mask=None):
        found = self.head(x)
        return {"logits": found, "hidden": (found.tanh(), x), "loss": None}


def test_outputs_are_picked():
    """Oracle: the module's own dictionary."""
    module, x = Several(), torch.ones(2, 3)
    expected = module(x)["logits"].detach().numpy()
    every = from_torch(module, {"x": x})
    found: Any = every.apply(every.params, {"x": x.numpy()})
    assert found.keys() == {"logits", "hidden"}
    np.testing.assert_allclose(found["hidden"][1], x)
    for outputs in ("logits", lambda f: f["logits"]):
        network = from_torch(module, x, outputs=outputs)
        np.testing.assert_allclose(network.apply(network.params, x.numpy()), expected, rtol=1e-6)
    wrong = from_torch(module, x, outputs="scores")
    with pytest.raises(ValueError, match="outputs must name a part of what the network returns"):
        wrong.apply(wrong.params, x.numpy())


class Strange(nn.Module):
    """Two operations that are not covered."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        x = torch.special.bessel_j0(self.head(x))
        return x + torch.rand_like(x)


def test_all_operations_that_are_not_covered_are_named_with_their_lines():
    """Oracle: this file."""
    with pytest.raises(NotImplementedError) as told:
        from_torch(Strange(), torch.zeros(2, 3))
    text = str(told.value)
    assert text.startswith("2 operations of this module are not covered:")
    assert re.search(r"bessel_j0.*test_torch_bridge\.py.*torch\.special\.bessel_j0\(", text)
    assert re.search(r"aten\.rand.*test_torch_bridge\.py.*torch\.rand_like\(x\)", text)


class Branching(nn.Module):
    """Control flow that depends on values."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        if x.sum() > 0:
            x = -x
        return self.head(x)


def broken(value):
    module = nn.Linear(3, 2)
    with torch.no_grad():
        module.weight[0, 0] = value
    return module


@pytest.mark.parametrize(
    ("module", "example", "error", "words"),
    [
        (abs, np.ones((2, 3)), TypeError, "module must be a torch.nn.Module, got a builtin"),
        (nn.Linear, np.ones((2, 3)), TypeError, "got the class Linear: make one of it"),
        (nn.Linear(3, 2), np.ones((2, 4)), ValueError, r"example of shape \(2, 4\), but raised"),
        (nn.Linear(3, 2), 3.0, TypeError, "example must hold tensors or arrays"),
        (nn.Linear(3, 2), (), ValueError, "example must hold at least one tensor"),
        (nn.Linear(3, 2), np.ones(()), ValueError, "example must have one first axis"),
        (nn.ReLU(), np.ones((2, 3)), ValueError, "must have floating parameters, got none"),
        (nn.Linear(3, 2, device="meta"), np.ones((2, 3)), ValueError, "on the device meta"),
        (nn.LazyLinear(2), np.ones((2, 3)), ValueError, "run the module once"),
        (nn.Linear(3, 2, dtype=torch.complex64), np.ones((2, 3)), ValueError, "must be real"),
        (broken(float("nan")), np.ones((2, 3)), ValueError, r"NaN or infinity at \['weight'\]"),
        (Branching(), np.ones((2, 3)), ValueError, r"py, line \d+: if x\.sum.*torch\.where"),
    ],
    ids=lambda each: each[:30] if isinstance(each, str) else None,
)
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_what_cannot_be_bridged_is_refused_in_words(module, example, error, words):
    """Oracle: the rules that the error quotes."""
    with pytest.raises(error, match=words):
        from_torch(module, example)


def test_inputs_and_parameters_are_held_to_the_example(cnn):
    """Oracle: the shapes of the example and of the module."""
    _, network = cnn
    with pytest.raises(ValueError, match=r"x must have the example's shape \(n, 1, 6, 6\)"):
        network.apply(network.params, jnp.ones((2, 1, 5, 6)))
    with pytest.raises(ValueError, match="x must be a tree like the example's"):
        network.apply(network.params, (images(1),))
    with pytest.raises(ValueError, match="params must have the module's names"):
        network.apply({}, images(1))


def test_whole_numbers_that_are_parameters_are_held():
    """Oracle: the module. Only real numbers can be trained."""
    module = nn.Linear(3, 2)
    module.shift = nn.Parameter(torch.tensor([1, 2]), requires_grad=False)
    module.forward = lambda x: nn.functional.linear(x, module.weight) + module.shift
    network = from_torch(module, torch.zeros(2, 3))
    assert "shift" not in network.params
    assert network.held["shift"].tolist() == [1, 2]
    np.testing.assert_allclose(network.apply(network.params, np.zeros((1, 3))), [[1, 2]])


def test_the_bridge_is_found_by_the_kind_of_module():
    """Oracle: the bridge of PyTorch."""
    module = nn.Linear(3, 2)
    network = bridge(module, torch.zeros(2, 3))
    np.testing.assert_array_equal(network.params["weight"], module.weight.detach().numpy())
    with pytest.raises(ValueError, match="given must be an example of the inputs"):
        bridge(module)
