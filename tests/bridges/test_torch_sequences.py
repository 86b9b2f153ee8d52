"""Networks for sequences, as PyTorch has them: transformers and recurrent ones."""

import math

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; .ci/run has an environment with it")
nn = torch.nn
functional = torch.nn.functional


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def tokens(number=2, length=6, vocabulary=11):
    return torch.randint(0, vocabulary, (number, length))


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_transformer_encoder(agrees, norm_first):
    """Oracle: PyTorch."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    agrees(module, torch.randn(2, 5, 8), second=True)


def test_frozen_encoders_take_the_same_way(agrees):
    """Oracle: PyTorch, whose fast path for modules without gradients is one operation."""
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).requires_grad_(False)
    agrees(module, torch.randn(2, 5, 8), gradients=False)


class Translator(nn.Module):
    """An encoder and a decoder, with a mask of what is padding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8, padding_idx=0)
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, source, target, padding):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        found = self.transformer(
            self.embedding(source),
            self.embedding(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.head(found)


def test_an_encoder_and_a_decoder(agrees):
    """Oracle: PyTorch. Three inputs by name, not in the order of the arguments."""
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[0, 4:] = True
    example = {"target": tokens(2, 4), "source": tokens(), "padding": padding}
    agrees(Translator(), example)


class GPT(nn.Module):
    """A causal decoder with tied embeddings."""

    def __init__(self, width=8, vocabulary=11):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(6, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU("tanh"), nn.Linear(32, width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", torch.tril(torch.ones(6, 6, dtype=torch.bool)))

    def forward(self, ids):
        n, t = ids.shape
        x = self.tokens(ids) + self.positions(torch.arange(t, device=ids.device))
        parts = self.qkv(self.norm1(x)).split(x.shape[-1], dim=2)
        q, k, v = (part.view(n, t, 2, -1).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.shape[-1])
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        mixed = (functional.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(n, t, -1)
        x = x + self.out(mixed)
        return self.head(x + self.mlp(self.norm2(x)))


def test_a_causal_decoder_with_tied_embeddings(agrees):
    """Oracle: PyTorch. The tied array is one parameter, and gets both gradients."""
    network = agrees(GPT(), tokens())
    assert "tokens.weight" in network.params
    assert "head.weight" not in network.params
    assert "mask" in network.held


class Llama(nn.Module):
    """Root-mean-square normalisation, rotary embeddings, shared keys and values, SwiGLU."""

    def __init__(self, width=16, heads=4, shared=2, vocabulary=11):
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * shared * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 24, bias=False) for _ in range(2))
        self.down, self.head = nn.Linear(24, width, bias=False), nn.Linear(width, vocabulary)
        rates = 10000 ** -(torch.arange(0, self.size, 2).float() / self.size)
        self.register_buffer("rates", rates, persistent=False)

    @torch.no_grad()
    def angles(self, t):
        angles = torch.outer(torch.arange(t).float(), self.rates)
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()

    def rotated(self, x, cos, sin):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(self, ids):
        n, t = ids.shape
        cos, sin = self.angles(t)
        x = self.tokens(ids)
        h = self.norm1(x)
        q = self.q(h).view(n, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(h).view(n, t, self.shared, -1).transpose(1, 2).chunk(2, -1)
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(n, t, -1))
        h = self.norm2(x)
        return self.head(x + self.down(functional.silu(self.gate(h)) * self.up(h)))


def test_llama(agrees):
    """Oracle: PyTorch. Buffers that are no part of the state dict are held too."""
    network = agrees(Llama(), tokens())
    assert "rates" in network.held


class Masked(nn.Module):
    """Attention with a mask of the user's own; one query sees nothing."""

    def __init__(self, real):
        super().__init__()
        self.qkv, self.real = nn.Linear(8, 24), real

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, -1)
        mask = mask[:, None, :].expand(-1, x.shape[1], -1)
        if self.real:
            mask = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, float("-inf"))
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)


@pytest.mark.parametrize("real", [False, True])
def test_attention_with_a_mask(agrees, real):
    """Oracle: PyTorch; an input all of whose keys are masked gives 0 and no NaN."""
    mask = torch.tensor([[True, True, False], [False, False, False]])
    agrees(Masked(real), (torch.randn(2, 3, 8), mask), second=True)


class Recurrent(nn.Module):
    """Recurrent layers beside each other, and the outputs of the last step."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        return torch.cat([layer(x)[0][:, -1] for layer in self.layers], 1)


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
def test_recurrent_layers(agrees):
    """Oracle: PyTorch."""
    layers = [
        nn.LSTM(4, 5, batch_first=True),
        nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True, dropout=0.3),
        nn.LSTM(4, 5, batch_first=True, bias=False, proj_size=3),
        nn.GRU(4, 5, 2, batch_first=True),
        nn.GRU(4, 5, batch_first=True, bidirectional=True, bias=False),
        nn.RNN(4, 5, batch_first=True),
        nn.RNN(4, 5, batch_first=True, nonlinearity="relu"),
    ]
    agrees(Recurrent(layers), torch.randn(2, 6, 4))


class Unrolled(nn.Module):
    """Cells of recurrent networks, called step by step."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.RNNCell(4, 5), nn.GRUCell(5, 5), nn.LSTMCell(5, 5)])

    def forward(self, x):
        n = x.shape[0]
        first, second, third = (x.new_zeros(n, 5) for _ in range(3))
        memory = torch.zeros_like(third)
        for t in range(x.shape[1]):
            first = self.cells[0](x[:, t], first)
            second = self.cells[1](first, second)
            third, memory = self.cells[2](second, (third, memory))
        return third


def test_cells_unrolled_in_time(agrees):
    """Oracle: PyTorch."""
    agrees(Unrolled(), torch.randn(2, 4, 4), second=True)


class Bag(nn.Module):
    """The mean of the embeddings of those tokens that a mask keeps."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4, max_norm=None)

    def forward(self, batch):
        rows = self.embedding(batch["ids"])
        mask = batch["mask"].unsqueeze(-1).float()
        return (rows * mask).sum(1) / mask.sum(1).clamp(min=1)


def test_one_argument_that_is_a_dictionary(agrees):
    """Oracle: PyTorch. A tuple of one argument, which is a tree itself."""
    batch = {"mask": torch.tensor([[1, 1, 0], [1, 0, 0]]) > 0, "ids": tokens(2, 3)}
    agrees(Bag(), (batch,))
