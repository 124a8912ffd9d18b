"""Training on two devices is training on one with the joint batch."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

HERE = Path(__file__).parents[1]

PROGRAM = """
import contextlib, json, os, sys
num_devices, negatives, dropout, clip, process = json.loads(sys.argv[1])
backend = os.environ["KERAS_BACKEND"]
if backend == "jax" and process is None:
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={num_devices}"
import keras
scope = contextlib.nullcontext()
index, count = 0, 1
if process is not None:
    index, count, addresses = process
    keras.distribution.initialize(addresses, count, index)
if backend == "tensorflow":
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    one = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [one] * num_devices)
    if num_devices > 1:
        scope = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(num_devices)]).scope()
elif num_devices * count > 1:
    parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
    keras.distribution.set_distribution(parallel)
from keras_elmo import bilm_tf_optimizer
from training_models import tiny_corpus, tiny_model
with scope:
    model = tiny_model(num_negative_samples=negatives, dropout=dropout)
    model.compile(bilm_tf_optimizer(8, clip_norm=clip))
corpus = tiny_corpus(
    batch_size=4 // count, distinct_words=False, widest_filter=None, shard=(index, count)
)
losses = []
class Losses(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        losses.append(float(logs["loss"]))
model.fit(corpus, epochs=6, steps_per_epoch=4, verbose=0, callbacks=[Losses()])
print("LOSSES", json.dumps(losses))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() == "torch", reason="several devices: TensorFlow and JAX"
    ),
]


def start(num_devices, negatives=None, dropout=0.0, clip=1.0, process=None):
    environment = {
        **os.environ,
        "KERAS_BACKEND": keras.backend.backend(),
        "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}",
    }
    arguments = json.dumps([num_devices, negatives, dropout, clip, process])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def losses_of(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    return json.loads(next(line[7:] for line in out.splitlines() if line.startswith("LOSSES ")))


def test_two_devices_are_one():
    # The bound on the gradient's norm is low, so that clipping happens and must be joint.
    one, two = start(1), start(2)
    expected = losses_of(one)
    np.testing.assert_allclose(losses_of(two), expected, rtol=1e-5)
    assert expected[-1] < expected[0]


def test_two_devices_sample_and_drop():
    losses = losses_of(start(2, negatives=40, dropout=0.1))
    assert losses[-1] < losses[0]


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="keras.distribution works on JAX")
def test_two_processes_read_their_own_shards():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        addresses = ",".join(f"127.0.0.1:{s.getsockname()[1]}" for s in (one, other))
    running = [start(1, process=(i, 2, addresses)) for i in range(2)]
    first, second = map(losses_of, running)
    assert first == second and first[-1] < first[0]
