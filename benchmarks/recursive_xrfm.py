"""The contender of `recursive.py`: the machine of the package xrfm, on saved data.

Runs in an environment of its own: `pip install torch==2.13.0 xrfm==0.4.5`.
"""

import json
import sys
import time

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from xrfm import RFM  # pyright: ignore[reportMissingImports]


def main(path: str, solver: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    with np.load(path) as data:
        arrays = {name: torch.as_tensor(data[name]) for name in data.files}
        settings = {name: float(data[name]) for name in ("bandwidth", "ridge", "iterations")}
    model = RFM(
        kernel="laplace",
        iters=int(settings["iterations"]),
        bandwidth=settings["bandwidth"],
        bandwidth_mode="adaptive",
        device="cpu",
        verbose=False,
        tuning_metric="mse",
    )
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(
        (arrays["x"], arrays["y"]),
        (arrays["x_validation"], arrays["y_validation"]),
        reg=settings["ridge"],
        solver=solver,
        early_stop_rfm=False,
        verbose=False,
    )
    outputs = model.predict(arrays["x_test"])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = float(((outputs - arrays["y_test"]) ** 2).mean())
    print(json.dumps({"wall": wall, "cpu": cpu, "error": error, "best": model.best_iter}))


if __name__ == "__main__":
    main(*sys.argv[1:])
