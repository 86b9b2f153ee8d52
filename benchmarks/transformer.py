"""A causal transformer on a CPU: training against PyTorch, and decoding with and without its cache.

    python benchmarks/transformer.py --torch PYTHON_THAT_HAS_IT

Training: 4 layers of width 128, 4 heads, context 64, batches of 64 sequences, 64 tokens, Adam,
single precision; the same network written plainly in PyTorch (pre-norm, GELU, scaled dot-product
attention) in a process of its own. Decoding: the next tokens at the end of a context of 512, one
sequence, by `extend` with the cache, and by applying the network to all places again.

Both run on all cores that there are; wall and CPU seconds of the best of three rounds. Compilation
is not counted, and PyTorch is warmed up.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

from theorylab.models import Transformer
from theorylab.training import cross_entropy

HERE = Path(__file__).resolve().parent
TOKENS, CONTEXT, BATCH = 64, 64, 64
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--torch", help="a Python interpreter that can import torch")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--new", type=int, default=32, help="tokens to decode")
    given = parser.parse_args()
    ours = train(given.steps)
    print(f"{'theorylab':12}{_line(ours, given.steps)}", flush=True)
    if given.torch:
        command = [given.torch, str(HERE / "transformer_torch.py"), "--steps", str(given.steps)]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peer = tuple(json.loads(found.splitlines()[-1]))
        print(f"{'PyTorch':12}{_line(peer, given.steps)}", flush=True)
        ratios = [theirs / mine for theirs, mine in zip(peer, ours, strict=True)]
        print(f"faster by     wall {ratios[0]:.2f}, CPU {ratios[1]:.2f}")
    else:
        print("Alone: name an interpreter that has PyTorch with --torch.", file=sys.stderr)
    with_cache, without = decode(given.new)
    print(
        f"{given.new} tokens at context 512: {with_cache:.3f} s with the cache, "
        f"{without:.3f} s without, {without / with_cache:.1f} times"
    )


def _line(spent: tuple[float, ...], num_steps: int) -> str:
    return f"{num_steps / spent[0]:6.2f} steps/s, CPU {spent[1] / num_steps:.3f} s a step"


def train(num_steps: int) -> tuple[float, float]:
    """Wall and CPU seconds of so many steps of Adam."""
    model = Transformer(TOKENS, TOKENS, CONTEXT, width=128, depth=4, num_heads=4)
    params = model.init(jax.random.key(0))
    optimizer = optax.adam(1e-3)
    loss = cross_entropy("mean")

    def risk(params, tokens):
        outputs = model.apply(params, tokens[:, :-1]).reshape(-1, TOKENS)
        return loss(outputs, jax.nn.one_hot(tokens[:, 1:].ravel(), TOKENS))

    def run(params, key):
        def step(state, key):
            params, memory = state
            tokens = jax.random.randint(key, (BATCH, CONTEXT + 1), 0, TOKENS)
            updates, memory = optimizer.update(jax.grad(risk)(params, tokens), memory)
            return (optax.apply_updates(params, updates), memory), None

        keys = jax.random.split(key, num_steps)
        return jax.lax.scan(step, (params, optimizer.init(params)), keys)[0][0]

    compiled = jax.jit(run).lower(params, jax.random.key(1)).compile()
    return _best(lambda: compiled(params, jax.random.key(1)))


def decode(num_new: int) -> tuple[float, float]:
    """Wall seconds for the last tokens of a context of 512, with and without the cache."""
    model = Transformer(TOKENS, TOKENS, 512, width=128, depth=4, num_heads=4)
    params = model.init(jax.random.key(0))
    tokens = jax.random.randint(jax.random.key(1), (1, 512), 0, TOKENS)
    start = 512 - num_new
    _, cache = model.extend(params, model.init_cache(1), tokens[:, :start])

    def remembered(params, cache, first):
        def step(state, _):
            cache, token = state
            outputs, cache = model.extend(params, cache, token[:, None])
            token = outputs[:, -1].argmax(axis=-1)
            return (cache, token), token

        return jax.lax.scan(step, (cache, first), length=num_new)[1]

    def anew(params, tokens):
        def step(tokens, place):
            outputs = model.apply(params, tokens)
            token = jax.lax.dynamic_index_in_dim(outputs, place, 1, False).argmax(axis=-1)
            return jax.lax.dynamic_update_slice(tokens, token[:, None], (0, place + 1)), token

        return jax.lax.scan(step, tokens, start + jnp.arange(num_new))[1]

    first = tokens[:, start]
    fast = jax.jit(remembered).lower(params, cache, first).compile()
    slow = jax.jit(anew).lower(params, tokens).compile()
    same = bool((fast(params, cache, first) == slow(params, tokens)).all())
    if not same:
        raise RuntimeError("both ways must write the same tokens.")
    return _best(lambda: fast(params, cache, first))[0], _best(lambda: slow(params, tokens))[0]


def _best(call) -> tuple[float, float]:
    jax.block_until_ready(call())
    spent = []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(call())
        spent.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(one[0] for one in spent), min(one[1] for one in spent)


if __name__ == "__main__":
    main()
