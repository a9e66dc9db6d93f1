"""Trains softmax regression on synthetic digits with NumPy, each rank on its part of the data.

    hvdrun -np 4 python examples/numpy/train_digits.py
"""

import numpy as np

import rueda.numpy as hvd

STEPS, BATCH, RATE = 200, 32, 0.05


def digits(count, seed):
    """Pictures of 8 x 8 with noise around one pattern for each digit."""
    patterns = np.random.RandomState(0).rand(10, 64).astype("float32")
    numbers = np.random.RandomState(seed)
    labels = numbers.randint(0, 10, count)
    return patterns[labels] + 0.3 * numbers.randn(count, 64).astype("float32"), labels


def gradients(model, pictures, labels):
    """The loss, and its gradients in the order of the model's arrays."""
    scores = pictures @ model["weights"] + model["bias"]
    likely = np.exp(scores - scores.max(1, keepdims=True))
    likely /= likely.sum(1, keepdims=True)
    loss = -np.log(likely[np.arange(len(labels)), labels]).mean()
    likely[np.arange(len(labels)), labels] -= 1
    return loss, [pictures.T @ likely / len(labels), likely.mean(0)]


hvd.init()
pictures, labels = digits(2048, seed=1)
mine = np.arange(hvd.rank(), len(pictures), hvd.size())
order = np.random.RandomState(hvd.rank())
model = {"weights": 0.01 * order.randn(64, 10).astype("float32"), "bias": np.zeros(10, "float32")}
hvd.broadcast_parameters(model, root_rank=0)
for step in range(STEPS):
    batch = order.choice(mine, BATCH)
    loss, found = gradients(model, pictures[batch], labels[batch])
    for array, gradient in zip(model.values(), hvd.grouped_allreduce(found, compression=hvd.Compression.fp16, name="gradients")):
        array -= RATE * hvd.size() * gradient
    if step % 50 == 49:
        mean = hvd.allreduce(loss, name="loss")
        if hvd.rank() == 0:
            print(f"step {step + 1}: loss {float(mean):.3f}", flush=True)
test_pictures, test_labels = digits(512, seed=2)
right = np.mean(np.argmax(test_pictures @ model["weights"] + model["bias"], 1) == test_labels)
if hvd.rank() == 0:
    print(f"{hvd.size()} ranks, accuracy {right:.2f}")
