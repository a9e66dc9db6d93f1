"""Runs examples/torch/train_ddp.py for four epochs. In its first life rank 1 exits before it comes to the group, in its second
one it is killed in the middle of the third epoch, and torchrun starts all ranks again. Then it trains from the beginning,
unharmed, to compare. Usage: torchrun --max-restarts 2 ... resumed.py FOLDER"""

import hashlib
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[4] / "examples" / "torch"))

import train_ddp  # noqa: E402

DIES_IN = 2  # epoch
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
plain = train_ddp.train_epoch
if attempt == 0 and rank == 1:
    sys.exit(3)


def until_killed(loader):
    for number, batch in enumerate(loader):
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch


def train_epoch(model, optimizer, loader):
    epoch = loader.sampler.epoch
    if rank == 0:
        print(f"attempt {attempt}: epoch {epoch}\n", end="")
    dies = attempt == 1 and rank == 1 and epoch == DIES_IN
    return plain(model, optimizer, until_killed(loader) if dies else loader)


def digest(checkpoint):
    model = train_ddp.main(["--epochs", "4", "--images", "640", "--checkpoint", os.path.join(sys.argv[1], checkpoint)])
    return hashlib.sha256(b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())).hexdigest()


train_ddp.train_epoch = train_epoch
resumed = digest("resumed.pt")
train_ddp.train_epoch = plain
print("same parameters\n" if resumed == digest("unharmed.pt") else "other parameters\n", end="")
