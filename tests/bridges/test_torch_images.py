"""Networks for images, volumes and signals, as PyTorch has them: outputs and gradients agree."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; .ci/run has an environment with it")
nn = torch.nn
functional = torch.nn.functional


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def alive(module):
    """Running statistics as after some training, so that they matter."""
    for each in module.modules():
        if isinstance(each, nn.modules.batchnorm._BatchNorm):
            each.running_mean.normal_(0, 0.3)
            each.running_var.uniform_(0.5, 2.0)
    return module


def images(channels=3, size=8, number=2):
    return torch.randn(number, channels, size, size)


ACTIVATIONS = [
    nn.ReLU(),
    nn.LeakyReLU(0.1),
    nn.ELU(),
    nn.SELU(),
    nn.CELU(0.7),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.SiLU(),
    nn.Mish(),
    nn.Softplus(2),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.Hardtanh(),
    nn.ReLU6(),
    nn.Hardswish(),
    nn.LogSigmoid(),
    nn.Softsign(),
    nn.Tanhshrink(),
    nn.Softshrink(),
    nn.Hardshrink(),
    nn.Threshold(0.1, -1.0),
    nn.PReLU(12),
    nn.GLU(),
    nn.Softmin(dim=-1),
    nn.Softmax(dim=-1),
    nn.LogSoftmax(dim=-1),
    nn.RReLU(),
]


class Beside(nn.Module):
    """A layer, then many functions of its outputs, side by side: one reading for all."""

    def __init__(self, layer, parts):
        super().__init__()
        self.layer, self.parts = layer, nn.ModuleList(parts)

    def forward(self, x):
        x = self.layer(x)
        return torch.cat([part(x).flatten(1) for part in self.parts], 1)


def test_an_mlp_with_every_activation(agrees):
    """Oracle: PyTorch, far from 0 too, where parts of an activation overflow."""
    module = nn.Sequential(Beside(nn.Linear(5, 12), ACTIVATIONS), nn.Dropout(0.5))
    x = [[0.3, -1.0, 2.0, 0.1, 0.0], [30.0, -40.0, 50.0, 60.0, -170.0]]
    agrees(module, torch.tensor(x), second=True)


def test_lenet(agrees):
    """Oracle: PyTorch."""
    module = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 8, 5),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 10),
    )
    agrees(module, images(1, 12))


class BasicBlock(nn.Module):
    """Two convolutions with batch normalisation and a residual path."""

    def __init__(self, inputs, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """Convolutions of 1, 3 and 1, the middle one narrow and in groups."""

    def __init__(self, inputs, width, groups=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, 1, 1, groups=groups, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.shortcut = nn.Conv2d(inputs, 4 * width, 1)

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """The layout of ResNet-18, narrow."""

    def __init__(self, width=4):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        widths, blocks = [width, width, 2 * width, 4 * width, 8 * width], []
        for stage in range(4):
            blocks += [
                BasicBlock(widths[stage], widths[stage + 1], 1 if stage == 0 else 2),
                BasicBlock(widths[stage + 1], widths[stage + 1]),
            ]
        self.layers = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.avgpool(self.layers(self.stem(x))), 1))


def test_resnet_18(agrees):
    """Oracle: PyTorch."""
    network = agrees(alive(ResNet()), images(3, 32))
    assert "layers.2.downsample.0.weight" in network.params
    assert "stem.1.running_mean" in network.held


def test_a_bottleneck_in_groups(agrees):
    """Oracle: PyTorch."""
    agrees(alive(nn.Sequential(Bottleneck(8, 4, groups=2), Bottleneck(16, 4))), images(8))


class MobileNet(nn.Module):
    """Depthwise-separable blocks with squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.deep = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6()
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1)
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.deep(self.stem(x))
        x = x * functional.hardsigmoid(self.squeeze(x))
        return self.head(x.mean([2, 3]))


def test_mobilenet(agrees):
    """Oracle: PyTorch."""
    agrees(alive(MobileNet()), images())


class UNet(nn.Module):
    """Down, and up again by a transposed convolution and by interpolation, with skips."""

    def __init__(self, mode):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 8, 3, padding=1)
        self.third = nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.up = nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1)
        self.resize = nn.Upsample(
            scale_factor=2, mode=mode, align_corners=None if mode == "nearest" else False
        )
        self.last = nn.Conv2d(12, 1, 1)

    def forward(self, x):
        first = functional.relu(self.first(x))
        second = functional.relu(self.second(functional.max_pool2d(first, 2)))
        third = functional.relu(self.third(functional.max_pool2d(second, 2)))
        up = self.up(torch.relu(self.resize(third) + second))
        wide = functional.interpolate(third[:, :4], size=(8, 8))
        return self.last(torch.cat([up, first, wide], 1))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_unet(agrees, mode):
    """Oracle: PyTorch."""
    agrees(UNet(mode), images(1))


def test_signals(agrees):
    """Oracle: PyTorch. One dimension, circular and reflected padding, a transposed convolution."""
    module = nn.Sequential(
        nn.Conv1d(2, 4, 5, stride=2, padding=2, padding_mode="circular"),
        nn.GroupNorm(2, 4),
        nn.ELU(),
        nn.ConvTranspose1d(4, 6, 4, stride=2, padding=1, groups=2),
        nn.MaxPool1d(3, 2),
        nn.ReflectionPad1d(2),
        nn.AvgPool1d(2),
        nn.Conv1d(6, 3, 3, padding="same", dilation=2),
        nn.AdaptiveMaxPool1d(2),
        nn.Flatten(),
    )
    agrees(module, torch.randn(2, 2, 16))


def test_volumes(agrees):
    """Oracle: PyTorch. Three dimensions."""
    module = nn.Sequential(
        nn.Conv3d(1, 3, 3, padding=1),
        nn.BatchNorm3d(3),
        nn.ReLU(),
        nn.MaxPool3d(2),
        nn.ConvTranspose3d(3, 2, 2, stride=2),
        nn.AvgPool3d(2, padding=1, count_include_pad=False),
        nn.AdaptiveAvgPool3d(2),
        nn.Flatten(),
    )
    agrees(alive(module), torch.randn(2, 1, 4, 4, 6))


class NormNet(nn.Module):
    """Group, instance, layer and root-mean-square normalisation."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.norms = nn.ModuleList(
            [nn.GroupNorm(3, 6), nn.InstanceNorm2d(6), nn.InstanceNorm2d(6, affine=True)]
        )
        self.layer, self.rms = nn.LayerNorm([6, 6]), nn.RMSNorm(6)
        self.local = nn.LocalResponseNorm(2)

    def forward(self, x):
        x = self.conv(x)
        for norm in self.norms:
            x = torch.tanh(norm(x)) + x
        return self.rms(self.layer(self.local(x)))


def test_normalisations(agrees):
    """Oracle: PyTorch."""
    agrees(NormNet(), images())


class DenseNet(nn.Module):
    """Every layer reads all earlier ones."""

    def __init__(self):
        super().__init__()
        sizes = [4, 6, 8]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(size), nn.ReLU(), nn.Conv2d(size, 2, 3, padding=1))
            for size in sizes
        )
        self.stem, self.head = nn.Conv2d(3, 4, 3), nn.Linear(10, 4)

    def forward(self, x):
        found = [self.stem(x)]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return self.head(functional.adaptive_avg_pool2d(torch.cat(found, 1), 1).flatten(1))


def test_densenet(agrees):
    """Oracle: PyTorch."""
    agrees(alive(DenseNet()), images())


class Mixer(nn.Module):
    """Patches by einsum, mixed along positions and along channels."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Parameter(torch.randn(6, 3, 4, 4) / 7)
        self.tokens = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
        self.channels = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6))
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // 4, 4, w // 4, 4)
        x = torch.einsum("ncapbq,dcpq->nabd", x, self.patch).flatten(1, 2)
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norm(x))
        return x.mean(1)


def test_mixer(agrees):
    """Oracle: PyTorch."""
    agrees(Mixer(), images())


class ViT(nn.Module):
    """Patches, a class token, positions, attention by `nn.MultiheadAttention`."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 5, 8) / 3)
        self.norm1, self.norm2, self.norm = (nn.LayerNorm(8, eps=1e-6) for _ in range(3))
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return self.head(self.norm(x)[:, 0])


def test_vit(agrees):
    """Oracle: PyTorch."""
    agrees(ViT(), images())


def test_what_moves_and_pools(agrees):
    """Oracle: PyTorch. Windows that overlap, that reach over the edge, parts of unequal size."""
    pools = [
        nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.MaxPool2d((2, 3), dilation=2),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True),
        nn.AvgPool2d(2, 2, count_include_pad=False),
        nn.AvgPool2d(3, 2, 1, divisor_override=5),
        nn.AdaptiveAvgPool2d((3, 2)),
        nn.AdaptiveMaxPool2d((3, None)),
        nn.PixelShuffle(2),
        nn.ChannelShuffle(2),
        nn.ZeroPad2d((1, -1, 2, 0)),
        nn.ReplicationPad2d(2),
        nn.Upsample(size=(5, 11), mode="bilinear", align_corners=True),
        nn.Upsample(size=(5, 11), mode="nearest"),
        nn.Upsample(scale_factor=1.5, mode="bilinear"),
        nn.Upsample(scale_factor=1.5, mode="bicubic"),
        nn.Unfold(3, padding=1),
    ]
    agrees(Beside(nn.Conv2d(3, 4, 1), pools), images(3, 7), second=True)
