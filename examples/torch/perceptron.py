"""The model and the data of train_ddp.py and train_fsdp.py: a perceptron, and images of 28x28 pixels of ten kinds."""

import torch
from torch.utils.data import TensorDataset

PIXELS, KINDS = 784, 10


def make_model(hidden):
    """784 pixels in, a score for each kind out; the same on every rank."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(PIXELS, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(hidden, KINDS))


def make_images(count):
    """Random images: one pattern for each kind, under noise. Rows of pixels and their kinds, the same on every rank."""
    generator = torch.Generator().manual_seed(7)
    patterns = torch.randn(KINDS, PIXELS, generator=generator)
    kinds = torch.randint(0, KINDS, (count,), generator=generator)
    return TensorDataset(patterns[kinds] + 3.0 * torch.randn(count, PIXELS, generator=generator), kinds)
