"""Models of a few layers that have the parts of those whose names they bear.

Scripts replace first layers and heads, so these have the sizes that they have
in torchvision. What counts as pretrained is the same in every process, and
takes nothing from torch's generator.
"""

from enum import Enum
from typing import Any

import torch
from torch import nn

FEATURES, LAST_CHANNEL = 512, 64
PRETRAINED_SEED = 20


def learn_elsewhere(model: nn.Module) -> None:
    """Give a model the weights that it is said to have learnt elsewhere."""
    generator = torch.Generator().manual_seed(PRETRAINED_SEED)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                drawn = torch.randn(weight.shape, generator=generator)
                weight.copy_(drawn / weight[0].numel() ** 0.5)


class ResNet(nn.Module):  # type: ignore[misc]
    """One block where the original has many."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool: nn.Module = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = nn.Sequential(
            nn.Conv2d(64, 32, kernel_size=3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, FEATURES, kernel_size=1, bias=False),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(FEATURES, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        logits: torch.Tensor = self.fc(torch.flatten(self.avgpool(self.layer1(seen)), 1))
        return logits


class ResNet18_Weights(Enum):  # noqa: N801 - torchvision's own name
    """Weights learnt elsewhere."""

    IMAGENET1K_V1 = "IMAGENET1K_V1"


def resnet18(weights: Any = None, pretrained: bool = False, num_classes: int = 1000) -> ResNet:
    """Return a small residual network's stand-in; `pretrained` is the older word for weights."""
    model = ResNet(num_classes)
    if weights or pretrained:
        learn_elsewhere(model)
    return model


resnet50 = resnet18


class MobileNetV2(nn.Module):  # type: ignore[misc]
    """Features with batch norms, and a classifier."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.last_channel = LAST_CHANNEL
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, kernel_size=3, stride=4, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
            nn.Conv2d(16, LAST_CHANNEL, kernel_size=3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(LAST_CHANNEL),
            nn.ReLU6(),
        )
        self.classifier: nn.Module = nn.Sequential(
            nn.Dropout(0.2), nn.Linear(LAST_CHANNEL, num_classes)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = self.features(images).mean(dim=(2, 3))
        logits: torch.Tensor = self.classifier(seen)
        return logits


def mobilenet_v2(weights: Any = None) -> MobileNetV2:
    """Return a small convolutional network's stand-in."""
    model = MobileNetV2()
    if weights:
        learn_elsewhere(model)
    return model


class Encoder(nn.Module):  # type: ignore[misc]
    """The blocks of a vision transformer."""

    def __init__(self, layers: int, heads: int, hidden_dim: int, mlp_dim: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(hidden_dim, heads, mlp_dim, batch_first=True)
                for _ in range(layers)
            )
        )

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        seen: torch.Tensor = self.layers(patches)
        return seen


class VisionTransformer(nn.Module):  # type: ignore[misc]
    """Patches, blocks of attention, and a head."""

    def __init__(
        self,
        *,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        self.encoder = Encoder(num_layers, num_heads, hidden_dim, mlp_dim)
        self.heads = nn.Linear(hidden_dim, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)
        logits: torch.Tensor = self.heads(self.encoder(patches).mean(dim=1))
        return logits


class VGG16_Weights(Enum):  # noqa: N801 - torchmetrics imports it by this name as it starts
    """Weights that no script here asks for."""

    DEFAULT = "DEFAULT"


def vgg16(weights: VGG16_Weights) -> nn.Module:
    """Return what no script here asks for: torchmetrics imports it as it starts."""
    raise NotImplementedError(f"the stand-in has no vgg16 with {weights}")
