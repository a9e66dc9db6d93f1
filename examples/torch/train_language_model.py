"""Trains a small transformer to continue a text, letter by letter.

    hvdrun -np 2 python examples/torch/train_language_model.py
    hvdrun -np 4 python examples/torch/train_language_model.py --steps 500 --fp16 --accumulate 2 --checkpoint model.pt
"""

import argparse
import os
import pathlib

import torch
from torch import nn

import rueda.torch as hvd

TEXT = pathlib.Path(__file__).parent / "dance.txt"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, default=TEXT)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8, help="pieces of text per rank and backward pass")
    parser.add_argument("--length", type=int, default=64, help="letters of a piece")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient")
    parser.add_argument("--fp16", action="store_true", help="gradients travel in half precision")
    parser.add_argument("--accumulate", type=int, default=1, help="backward passes per step")
    parser.add_argument("--checkpoint", help="file to continue from and to save to at the end")
    return parser.parse_args()


class LanguageModel(nn.Module):
    """Predicts each next letter from those before it."""

    def __init__(self, letters, length, width, layers):
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, letters)

    def forward(self, letters):
        length = letters.shape[1]
        ahead = torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        return self.head(self.body(self.letter(letters) + self.position[:length], mask=ahead))


def pieces(text, count, length, generator):
    """Pieces at random positions of the text, and the pieces one letter further."""
    starts = torch.randint(0, len(text) - length - 1, (count,), generator=generator)
    rows = torch.stack([text[start : start + length + 1] for start in starts.tolist()])
    return rows[:, :-1], rows[:, 1:]


def resume(path, model, optimizer):
    """Loads the file on rank 0, if there is one, and broadcasts it. Returns the next step."""
    step = 0
    if hvd.rank() == 0 and path and os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    return hvd.broadcast_object(step, root_rank=0)


def train_step(model, optimizer, options, text, generator):
    optimizer.zero_grad()
    for _ in range(options.accumulate):
        before, after = pieces(text, options.batch, options.length, generator)
        loss = nn.functional.cross_entropy(model(before).flatten(0, 1), after.flatten())
        (loss / options.accumulate).backward()
    optimizer.synchronize()
    nn.utils.clip_grad_norm_(model.parameters(), options.clip)
    with optimizer.skip_synchronize():
        optimizer.step()
    return loss.detach()


def main():
    options = parse()
    hvd.init()
    torch.manual_seed(1)
    content = options.text.read_text(encoding="utf-8")
    alphabet = sorted(set(content))
    text = torch.tensor([alphabet.index(letter) for letter in content])
    model = LanguageModel(len(alphabet), options.length, options.width, options.layers)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.AdamW(model.parameters(), lr=3e-3),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16 else hvd.Compression.none,
        backward_passes_per_step=options.accumulate,
    )
    first = resume(options.checkpoint, model, optimizer)
    generator = torch.Generator().manual_seed(1000 * first + hvd.rank())  # every rank reads other pieces
    for step in range(first, options.steps):
        loss = hvd.allreduce(train_step(model, optimizer, options, text, generator), name="loss").item()
        if hvd.rank() == 0 and (step % 20 == 0 or step == options.steps - 1):
            print(f"step {step}: loss {loss:.4f}")
    if options.checkpoint and hvd.rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": options.steps}
        torch.save(state, options.checkpoint + ".new")
        os.replace(options.checkpoint + ".new", options.checkpoint)
    print(f"rank {hvd.rank()}: parameters {sum(p.double().sum().item() for p in model.parameters()):.9f}")


if __name__ == "__main__":
    main()
