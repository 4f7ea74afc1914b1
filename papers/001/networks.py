"""The networks of 001, pinned down by the numbers of parameters that it prints, and gradients of each record."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dither.learn.gradients import LOSSES, Gradients, per_record

Numbers = NDArray[np.float64]


def logistic() -> nn.Module:
    """Table 6.1: 785 parameters, for two classes of 784 pixels."""
    return nn.Linear(784, 1)


def cnn() -> nn.Module:
    """The "2-layer CNN" of Table 5.2, whose 21,840 parameters leave one choice of layers."""
    return nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10),
    )  # fmt: skip


def colour_cnn() -> nn.Module:
    """Table 6.3: pictures of 32 by 32 pixels in three colours; with a padding of 2, 8 by 8 are left after two pools."""
    return nn.Sequential(
        nn.Conv2d(3, 10, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5, padding=2), nn.MaxPool2d(2),
        nn.ReLU(), nn.Flatten(), nn.Linear(1280, 50), nn.ReLU(), nn.Linear(50, 10),
    )  # fmt: skip


def mlp(inputs: int, hidden: int, outputs: int = 10) -> nn.Module:
    """Table 6.2: one hidden layer with tanh."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


class Residual(nn.Module):
    """Two convolutions and one ReLU, added to what came in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, flow: Tensor) -> Tensor:
        return flow + self.second(torch.relu(self.first(flow)))


def resnet(width: int = 8) -> nn.Module:
    """The ResNet of Table 5.3: three residual blocks; their width is not told."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), *(Residual(width) for _ in range(3)), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(4 * width, 10),
    )  # fmt: skip


def size(network: nn.Module) -> int:
    """How many parameters it has."""
    return sum(weight.numel() for weight in network.parameters())


def square(rows: NDArray[np.float32]) -> Tensor:
    """Rows of pixels as pictures with one channel."""
    side = round(rows.shape[1] ** 0.5)
    return torch.from_numpy(rows).reshape(-1, 1, side, side)


def record_gradients(network: nn.Module, inputs: Tensor, labels: Tensor) -> Gradients:
    """The function from records and labels to a row of gradients for each; the records tell shapes only."""
    return per_record(network, LOSSES["cross_entropy"], inputs[:2], labels[:2])


def move(network: nn.Module, step: Numbers) -> None:
    """Add a vector to the parameters."""
    parts = torch.from_numpy(step.astype(np.float32)).split([weight.numel() for weight in network.parameters()])
    with torch.no_grad():
        for weight, part in zip(network.parameters(), parts, strict=True):
            weight += part.view_as(weight)


def accuracy(network: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """The share of right classes."""
    with torch.no_grad():
        return float((network(inputs).argmax(dim=1) == labels).double().mean())
