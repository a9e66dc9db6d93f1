"""A residual network of 18 layers for 32x32 images, which train_resnet18.py and synthetic_benchmark.py use."""

import torch
from torch import nn


class Block(nn.Module):
    """Two 3x3 convolutions and the way round them (He, Zhang, Ren, Sun, 2015)."""

    def __init__(self, channels_in, channels, stride, norm):
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.first_norm = norm(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = norm(channels)
        self.around = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.around = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), norm(channels))

    def forward(self, images):
        inner = torch.relu(self.first_norm(self.first(images)))
        return torch.relu(self.second_norm(self.second(inner)) + self.around(images))


class ResNet18(nn.Module):
    """width: channels of the first stage, 64 in the paper. norm: the class of the normalisation layers."""

    def __init__(self, classes=10, width=64, norm=nn.BatchNorm2d):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), norm(width), nn.ReLU())
        stages, channels = [], width
        for stage in range(4):
            wider = width * 2**stage
            stages += [Block(channels, wider, 1 if stage == 0 else 2, norm), Block(wider, wider, 1, norm)]
            channels = wider
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, classes)

    def forward(self, images):
        return self.head(self.stages(self.stem(images)).mean((2, 3)))
