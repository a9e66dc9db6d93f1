"""What is measured: by group, works with the tensors of a step. A work's line of a plan is what the programs in ranks/ read."""

import dataclasses
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "framework_compare"))
from jobs import bert_base_shapes, resnet50_shapes

GROUPS = ["small", "middle", "large", "sets", "codecs", "idle", "training"]
SIZES = {"small": [8, 64, 512, 4 << 10, 16 << 10], "middle": [64 << 10, 256 << 10, 1 << 20, 4 << 20], "large": [16 << 20, 64 << 20, 256 << 20]}
QUICK_SIZES = {"small": [8, 4 << 10], "middle": [64 << 10, 1 << 20], "large": [16 << 20]}


@dataclasses.dataclass(frozen=True)
class Work:
    """One line of the report: `counts` are the elements of each tensor of f32."""

    name: str
    counts: tuple
    packed: bool = False
    cold: bool = False
    codec: str = "none"


def elements(shapes):
    return tuple(math.prod(shape) for shape in shapes)


def sweep(sizes):
    return [Work(f"{size}B{'-cold' if cold else ''}", (size // 4,), cold=cold) for size in sizes for cold in (False, True)]


def sets(quick):
    """Libraries without fusion leave it to their callers, so that each set is measured packed into one tensor, too."""
    known = {"resnet50": elements(resnet50_shapes()), "bert-base": elements(bert_base_shapes()), "1000x256B": (64,) * 1000}
    if quick:
        del known["bert-base"]
    return [Work(name + ("-packed" if packed else ""), counts, packed=packed) for name, counts in known.items() for packed in (False, True)]


def codecs(quick):
    size = (4 if quick else 64) << 20
    resnet50 = elements(resnet50_shapes())
    return [Work(f"{name}-{codec}", counts, codec=codec) for name, counts in ((f"{size}B", (size // 4,)), ("resnet50", resnet50))
            for codec in ("none", "fp16", "bf16")]  # fmt: skip


def works_of(group, quick):
    """Of a group that the programs time; "idle" and "training" have ways of their own."""
    if group in SIZES:
        return sweep((QUICK_SIZES if quick else SIZES)[group])
    return sets(quick) if group == "sets" else codecs(quick)


def counts_text(counts):
    """64,64,64,8 as 64*3,8."""
    runs = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return ",".join(f"{count}*{times}" if times > 1 else str(count) for count, times in runs)


def plan_line(work, seconds, shared=False):
    """What ranks/plan.cc reads."""
    return " ".join([work.name, "packed" if work.packed else "each", "cold" if work.cold else "hot",
                     "shared" if shared else "private", work.codec, f"{seconds:g}", counts_text(work.counts)])  # fmt: skip
