"""Trains a small network on synthetic digits with Keras, each rank on its part of the data. Keras 2, or Keras 3 on TensorFlow
or PyTorch.

    hvdrun -np 4 python examples/keras/train_digits.py
    KERAS_BACKEND=torch hvdrun -np 4 python examples/keras/train_digits.py
"""

import keras
import numpy as np

import rueda.keras as hvd


def digits(count, seed):
    """Pictures of 8 x 8 with noise around one pattern for each digit."""
    patterns = np.random.RandomState(0).rand(10, 64).astype("float32")
    numbers = np.random.RandomState(seed)
    labels = numbers.randint(0, 10, count)
    return patterns[labels] + 0.3 * numbers.randn(count, 64).astype("float32"), labels


hvd.init()
pictures, labels = digits(2048, seed=1)
mine = slice(hvd.rank(), None, hvd.size())
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax")])
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9))
model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
             hvd.callbacks.LearningRateWarmupCallback(0.05 * hvd.size(), warmup_epochs=1)]  # fmt: skip
model.fit(pictures[mine], labels[mine], batch_size=32, epochs=3, verbose=0, callbacks=callbacks)
right = model.evaluate(*digits(512, seed=2), verbose=0)[1]
if hvd.rank() == 0:
    print(f"{hvd.size()} ranks, accuracy {right:.2f}")
