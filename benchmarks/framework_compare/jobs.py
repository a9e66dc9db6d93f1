"""A job whose rank 0 prints its times as a line of JSON, the times of its steps, and the shapes that are reduced."""

import json
import subprocess
import time


def resnet50_shapes():
    """The shapes of ResNet-50's 161 parameters, first layer first (He, Zhang, Ren, Sun, 2015)."""
    shapes = [(64, 3, 7, 7), (64,), (64,)]
    channels = 64
    for width, blocks in [(64, 3), (128, 4), (256, 6), (512, 3)]:
        for block in range(blocks):
            for shape in [(width, channels, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]:
                shapes += [shape, shape[:1], shape[:1]]
            if block == 0:
                shapes += [(4 * width, channels, 1, 1), (4 * width,), (4 * width,)]
            channels = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


def bert_base_shapes():
    """The shapes of BERT-base's 199 parameters, 109,482,240 numbers, first layer first (Devlin, Chang, Lee, Toutanova, 2018)."""
    width, inner = 768, 3072
    normalisation = [(width,), (width,)]
    projection = [(width, width), (width,)]
    layer = projection * 4 + normalisation + [(inner, width), (inner,), (width, inner), (width,)] + normalisation
    embeddings = [(30522, width), (512, width), (2, width), *normalisation]
    return [*embeddings, *layer * 12, *projection]


def seconds_per_step(step, least, barrier, slowest):
    """How long a step takes on the slowest rank, over at least `least` seconds. slowest: the largest of the ranks' numbers."""
    steps, spent = 1, 0.0
    while spent < least:
        barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        spent = slowest(time.perf_counter() - begin)
        if spent < least:
            steps = max(2 * steps, int(1.2 * steps * least / spent))
    return spent / steps


def printed_by(command, program):
    """What the job prints behind the program's name. Ends this program if the job fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = [line.split(program + " ", 1)[1] for line in done.stdout.splitlines() if program + " {" in line]
    if done.returncode != 0 or len(lines) != 1:
        raise SystemExit(f"{program}: {' '.join(command)} ended with code {done.returncode}")
    return json.loads(lines[0])
