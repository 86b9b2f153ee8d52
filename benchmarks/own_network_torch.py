"""The PyTorch contenders of `own_network_peers.py`, on its convolutional networks.

Hessian eigenvalues by curvlinops (with SciPy's `eigsh`), hessian-eigenthings and PyHessian; tangent
kernel and average gradient outer product by `torch.func`. Runs in an environment of its own:
`pip install --pre torch==2.13.0 pyhessian curvlinops-for-pytorch hessian-eigenthings`.
"""

import argparse
import json
import os
import resource
import time
import warnings
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

BLOCK = 20  # inputs whose Jacobians are computed at once
ROUNDS = 3  # the best of so many calls counts


class Network(torch.nn.Module):
    """Three convolutions, pooling and two dense layers, with given weights."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        for name in sorted(name for name in arrays if name[0] in "wb"):
            array = arrays[name]
            moved = array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T
            value = torch.from_numpy(np.ascontiguousarray(moved))
            setattr(self, name, torch.nn.Parameter(value))

    def forward(self, x):
        """Outputs (n, k) of images (n, 3, 32, 32)."""
        x = functional.relu(functional.conv2d(x, self.w0, self.b0, padding=1))
        x = functional.pad(x, (0, 1, 0, 1))  # as Flax pads even sides
        x = functional.relu(functional.conv2d(x, self.w1, self.b1, stride=2))
        x = functional.relu(functional.conv2d(x, self.w2, self.b2, padding=1))
        x = functional.avg_pool2d(x, 4).permute(0, 2, 3, 1).flatten(1)
        x = functional.relu(functional.linear(x, self.w3, self.b3))
        return functional.linear(x, self.w4, self.b4)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", choices=CONTENDERS, required=True)
    parser.add_argument("--task", choices=("eigenvalues", "kernel", "agop"), required=True)
    parser.add_argument("--tolerance", type=float, required=True)
    for name in ("--top", "--steps", "--core"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args()
    os.sched_setaffinity(0, {given.core})
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with np.load(given.data) as stored:
        arrays = dict(stored)
    model = Network(arrays)
    x = torch.from_numpy(arrays["x"]).permute(0, 3, 1, 2).contiguous()
    y = torch.from_numpy(arrays["y"].argmax(axis=1))
    model(x[:1])  # wakes the kernels
    if given.task == "eigenvalues":
        found = eigenvalues(CONTENDERS[given.only], model, x, y, given)
    else:
        compute = {"kernel": kernel, "agop": agop}[given.task]
        compute(model, x[:2])  # wakes the kernels
        times, matrix = [], x
        for _ in range(ROUNDS):
            began = time.process_time()
            matrix = compute(model, x)
            times.append(time.process_time() - began)
        found = {
            "seconds": min(times),
            "numbers": [float(torch.trace(matrix)), float(matrix.double().norm())],
        }
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps(found | {"compiling": 0.0}))


def eigenvalues(contender, model, x, y, given) -> dict[str, Any]:
    """Time a contender; then measure the residual of all that it found, relative to λ₁."""
    product = hessian_of(model, x, y)
    product(torch.ones(sum(p.numel() for p in model.parameters())))
    search = contender(model, x, y, given)
    began = time.process_time()
    values, vectors = search()
    seconds = time.process_time() - began
    pairs = list(zip(map(float, values), vectors, strict=True))
    residual = max(float(torch.linalg.norm(product(v) - value * v)) for value, v in pairs)
    numbers = sorted((value for value, _ in pairs), reverse=True)
    return {"seconds": seconds, "numbers": numbers, "residual": residual / numbers[0]}


def hessian_of(model, x, y):
    """Give v ─► Hv by autograd on flat vectors, to check what a contender found."""
    params = list(model.parameters())
    loss = functional.cross_entropy(model(x), y)
    gradient = torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss, params, create_graph=True)]
    )

    def product(v):
        found = torch.autograd.grad(gradient, params, grad_outputs=v, retain_graph=True)
        return torch.cat([h.flatten() for h in found])

    return product


def curvlinops(model, x, y, given):
    """SciPy's `eigsh` on its Hessian."""
    from curvlinops import HessianLinearOperator  # pyright: ignore[reportMissingImports]
    from scipy.sparse.linalg import eigsh

    loss = torch.nn.CrossEntropyLoss()
    params = list(model.parameters())
    operator = HessianLinearOperator(model, loss, params, [(x, y)], check_deterministic=False)

    def search():
        operated = operator.to_scipy()
        values, vectors = eigsh(operated, given.top, which="LA", tol=given.tolerance)
        return values, list(torch.from_numpy(vectors.T.copy()))

    return search


def eigenthings(model, x, y, given):
    """Lanczos with re-orthogonalisation, of as many steps as ours."""
    from hessian_eigenthings import (  # pyright: ignore[reportMissingImports]
        HessianOperator,
        lanczos,
        supervised_loss,
    )

    operator = HessianOperator(model, [(x, y)], supervised_loss(functional.cross_entropy))
    options = {"max_iter": given.steps, "reorthogonalize": True, "which": "LA", "seed": 0}

    def search():
        found = lanczos(operator, k=given.top, **options)
        return found.eigenvalues, list(found.eigenvectors)

    return search


def pyhessian(model, x, y, given):
    """Power iteration with deflation; it has no other method."""
    from pyhessian import hessian  # pyright: ignore[reportMissingImports]

    operator = hessian(model, torch.nn.CrossEntropyLoss(), data=(x, y), cuda=False)

    def search():
        values, vectors = operator.eigenvalues(given.steps // 2, given.tolerance, given.top)
        return values, [torch.cat([part.flatten() for part in v]).detach() for v in vectors]

    return search


def kernel(model, x):
    """The tangent kernel (n, n), averaged over outputs, by the Jacobians of blocks of inputs."""
    params = {name: p.detach() for name, p in model.named_parameters()}

    def one(params, image):
        return torch.func.functional_call(model, params, image[None])[0]

    jacobians = torch.func.vmap(torch.func.jacrev(one), (None, 0))
    parts = []
    for block in x.split(BLOCK):
        found = jacobians(params, block)
        parts.append([part.flatten(1) for part in found.values()])
    total = torch.zeros(len(x), len(x))
    for rows in zip(*parts, strict=True):  # of one array of parameters
        whole = torch.cat(rows)
        total += whole @ whole.T
    return total / len(model(x[:1])[0])


def agop(model, x):
    """The mean over inputs of JᵀJ (d, d), J the Jacobian of all outputs in the input."""
    jacobians = torch.func.vmap(torch.func.jacrev(lambda image: model(image[None])[0]))
    total = torch.zeros(x[0].numel(), x[0].numel())
    with torch.no_grad():
        for block in x.split(BLOCK):
            rows = jacobians(block).flatten(2).flatten(0, 1)
            total += rows.T @ rows
    return total / len(x)


CONTENDERS = {
    "PyHessian": pyhessian,
    "curvlinops": curvlinops,
    "hessian-eigenthings": eigenthings,
    "torch.func": None,
}

if __name__ == "__main__":
    main()
