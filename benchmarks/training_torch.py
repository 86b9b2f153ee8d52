"""The PyTorch contender of `training.py`: a plain loop over networks, epochs and batches.

Runs in an environment of its own: `pip install torch==2.13.0 numpy`.
"""

import argparse
import json
import math
import resource
import time

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

WIDTH, LEARNING_RATE = 256, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True)
    for name in ("--networks", "--steps", "--batch", "--threads"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    arrays = np.load(given.data)
    x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"].argmax(axis=1))

    wall, cpu = time.perf_counter(), _cpu()
    networks = [train(seed, x, y, given.steps, given.batch) for seed in range(given.networks)]
    wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    losses, accuracies = np.array([evaluate(network, x, y) for network in networks]).T
    measured = {
        "wall": wall,
        "cpu": cpu,
        "compiling": 0.0,
        "loss": losses.mean(),
        "error": losses.std() / math.sqrt(len(losses)),
        "accuracy": accuracies.mean(),
    }
    print(json.dumps(measured))


def train(seed: int, x, y, num_steps: int, batch_size: int):
    """The whole life of one network."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 10)
    )
    for layer in (model[0], model[2]):
        torch.nn.init.normal_(layer.weight, std=math.sqrt(2 / layer.in_features))
        torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss_of = torch.nn.CrossEntropyLoss()
    num_epochs = -(-num_steps * batch_size // len(x))
    stream = torch.cat([torch.randperm(len(x)) for _ in range(num_epochs)])
    for first in range(0, num_steps * batch_size, batch_size):
        chosen = stream[first : first + batch_size]
        optimizer.zero_grad()
        loss_of(model(x[chosen]), y[chosen]).backward()
        optimizer.step()
    return model


@torch.no_grad()
def evaluate(model, x, y) -> tuple[float, float]:
    """The loss and the accuracy on all samples."""
    outputs = model(x)
    accuracy = (outputs.argmax(dim=1) == y).float().mean()
    return torch.nn.functional.cross_entropy(outputs, y).item(), accuracy.item()


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
