"""The PyTorch contenders of `curvature.py`: PyHessian, curvlinops and hessian-eigenthings.

Runs in an environment of its own:
`pip install --pre torch==2.13.0 pyhessian curvlinops-for-pytorch hessian-eigenthings`.
"""

import argparse
import json
import os
import time
import warnings
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

K = 10


class Network(torch.nn.Module):
    """Two strided convolutions and two dense layers, with given weights."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        super().__init__()
        kernels = {name: arrays[name] for name in sorted(arrays) if name[0] in "wb"}
        for name, array in kernels.items():
            moved = array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T
            value = torch.from_numpy(np.ascontiguousarray(moved))
            setattr(self, name, torch.nn.Parameter(value))

    def forward(self, x):
        """Outputs (n, 10) of images (n, 1, 28, 28)."""
        for i in (0, 1):
            weight, bias = getattr(self, f"w{i}"), getattr(self, f"b{i}")
            x = torch.tanh(functional.conv2d(x, weight, bias, stride=2))
        x = x.permute(0, 2, 3, 1).flatten(1)
        x = torch.tanh(functional.linear(x, self.w2, self.b2))
        return functional.linear(x, self.w3, self.b3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", choices=CONTENDERS, required=True)
    parser.add_argument("--tolerance", type=float, required=True)
    for name in ("--steps", "--probes", "--density-steps", "--core"):
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
    product = hessian_of(model, x, y)
    product(torch.ones(sum(p.numel() for p in model.parameters())))  # wakes the kernels
    top, density = CONTENDERS[given.only](model, x, y, given)
    began = time.process_time()
    values, vectors = top()
    eigen_seconds = time.process_time() - began
    began = time.process_time()
    density()
    density_seconds = time.process_time() - began
    residuals = [
        float(torch.linalg.norm(product(v) - value * v))
        for value, v in zip(values, vectors, strict=True)
    ]
    found = {
        "values": sorted(map(float, values), reverse=True),
        "residual": max(residuals),
        "top": eigen_seconds,
        "density": density_seconds,
        "compiling": 0.0,
    }
    print(json.dumps(found))


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


def pyhessian(model, x, y, given) -> tuple[Any, Any]:
    """Power iteration with deflation; it has no other method, and no residuals."""
    from pyhessian import hessian  # pyright: ignore[reportMissingImports]

    def eig(matrix, eigenvectors):  # left PyTorch in 1.13; without it `density` stops
        values, vectors = torch.linalg.eigh(matrix)
        return torch.stack([values, 0 * values], dim=1), vectors

    torch.eig = eig
    operator = hessian(model, torch.nn.CrossEntropyLoss(), data=(x, y), cuda=False)

    def top():
        values, vectors = operator.eigenvalues(maxIter=given.steps // 2, tol=1e-4, top_n=K)
        return values, [torch.cat([part.flatten() for part in v]).detach() for v in vectors]

    return top, lambda: operator.density(iter=given.density_steps, n_v=given.probes)


def curvlinops(model, x, y, given) -> tuple[Any, Any]:
    """SciPy's `eigsh` on its Hessian, and its own spectral density."""
    from curvlinops import (  # pyright: ignore[reportMissingImports]
        HessianLinearOperator,
        lanczos_approximate_spectrum,
    )
    from scipy.sparse.linalg import eigsh

    operator = HessianLinearOperator(
        model,
        torch.nn.CrossEntropyLoss(),
        list(model.parameters()),
        [(x, y)],
        check_deterministic=False,
    )

    def top():
        values, vectors = eigsh(operator.to_scipy(), K, which="LA", tol=given.tolerance)
        return values, list(torch.from_numpy(vectors.T.copy()))

    def density():
        return lanczos_approximate_spectrum(
            operator, ncv=given.density_steps, num_repeats=given.probes, boundaries=(-5.0, 50.0)
        )

    given.tolerance = 10**-2.5
    return top, density


def eigenthings(model, x, y, given) -> tuple[Any, Any]:
    """Lanczos with re-orthogonalisation, of as many steps as ours."""
    from hessian_eigenthings import (  # pyright: ignore[reportMissingImports]
        HessianOperator,
        lanczos,
        spectral_density,
        supervised_loss,
    )

    operator = HessianOperator(model, [(x, y)], supervised_loss(functional.cross_entropy))

    def top():
        found = lanczos(
            operator, k=K, max_iter=given.steps, reorthogonalize=True, which="LA", seed=0
        )
        return found.eigenvalues, list(found.eigenvectors)

    def density():
        return spectral_density(
            operator, num_runs=given.probes, lanczos_steps=given.density_steps, seed=0
        )

    return top, density


CONTENDERS = {
    "PyHessian": pyhessian,
    "curvlinops": curvlinops,
    "hessian-eigenthings": eigenthings,
}

if __name__ == "__main__":
    main()
