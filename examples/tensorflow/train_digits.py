"""Trains a small network on synthetic digits with TensorFlow, each rank on its part of the data.

    hvdrun -np 4 python examples/tensorflow/train_digits.py
"""

import numpy as np
import tensorflow as tf

import rueda.tensorflow as hvd

STEPS, BATCH = 60, 32


def digits(count, seed):
    """Pictures of 8 x 8 with noise around one pattern for each digit."""
    patterns = np.random.RandomState(0).rand(10, 64).astype("float32")
    numbers = np.random.RandomState(seed)
    labels = numbers.randint(0, 10, count)
    return patterns[labels] + 0.3 * numbers.randn(count, 64).astype("float32"), labels


hvd.init()
pictures, labels = digits(2048, seed=1)
data = tf.data.Dataset.from_tensor_slices((pictures, labels)).shard(hvd.size(), hvd.rank()).shuffle(512).repeat().batch(BATCH)
model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
optimizer = tf.keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def training_step(x, y, first):
    """One step. Behind the first one, when the optimizer has its variables, all ranks take those of rank 0."""
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    tape = hvd.DistributedGradientTape(tape, compression=hvd.Compression.fp16)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    if first:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables, root_rank=0)
    return loss


for step, (x, y) in enumerate(data.take(STEPS)):
    loss = training_step(x, y, step == 0)
    if step % 20 == 19:
        mean = hvd.allreduce(loss)
        if hvd.rank() == 0:
            print(f"step {step + 1}: loss {float(mean):.3f}", flush=True)
test_pictures, test_labels = digits(512, seed=2)
right = float(np.mean(np.argmax(model(test_pictures), 1) == test_labels))
if hvd.rank() == 0:
    print(f"{hvd.size()} ranks, accuracy {right:.2f}")
