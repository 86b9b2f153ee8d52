"""The PyTorch contender of `transformer.py`: the same network, written plainly.

Runs in an environment of its own: `pip install torch==2.13.0`.
"""

import argparse
import json
import time

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

TOKENS, CONTEXT, BATCH, WIDTH, HEADS, LAYERS = 64, 64, 64, 128, 4, 4
ROUNDS = 3


class Block(nn.Module):
    """Attention and neurons, each after a layer normalisation."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.combine = nn.Linear(WIDTH, WIDTH, bias=False)
        self.neurons = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, h):
        """Add what both parts say."""
        b, n, _ = h.shape
        mixed = self.mix(self.first(h)).view(b, n, 3, HEADS, WIDTH // HEADS)
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.combine(heads.transpose(1, 2).reshape(b, n, WIDTH))
        return h + self.neurons(self.second(h))


class Network(nn.Module):
    """Tokens and places in, scores of the next token out."""

    def __init__(self):
        super().__init__()
        self.read, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.output = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, tokens):
        """Scores at every place."""
        h = self.read(tokens) + self.places(torch.arange(tokens.shape[1]))[None]
        return self.output(self.norm(self.blocks(h)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, required=True)
    given = parser.parse_args()
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(num_steps: int) -> None:
        for _ in range(num_steps):
            tokens = torch.randint(0, TOKENS, (BATCH, CONTEXT + 1))
            outputs = model(tokens[:, :-1]).reshape(-1, TOKENS)
            loss = nn.functional.cross_entropy(outputs, tokens[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    train(3)
    spent = []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        train(given.steps)
        spent.append((time.perf_counter() - wall, time.process_time() - cpu))
    print(json.dumps([min(one[0] for one in spent), min(one[1] for one in spent)]))


if __name__ == "__main__":
    main()
