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

OWN_LOOP = """
import json, sys
import keras
index, addresses = json.loads(sys.argv[1])
keras.distribution.initialize(addresses, 2, index)
parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
keras.distribution.set_distribution(parallel)
from keras_elmo import bilm_tf_optimizer
from training_models import tiny_corpus, tiny_model
model = tiny_model(num_negative_samples=40)
model.compile(bilm_tf_optimizer(8, clip_norm=1.0))
corpus = tiny_corpus(batch_size=2, distinct_words=False, shard=(index, 2))
history = model.fit(corpus, epochs=6, steps_per_epoch=4, verbose=0).history
print("RESULT", json.dumps(history["loss"]))
"""

TRAIN = """
import hashlib, json, os, sys, threading
settings = json.loads(sys.argv[1])
devices = settings.get("devices", 1)
if devices > 1:
    count = f" --xla_force_host_platform_device_count={devices}"
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + count
import jax
import keras
import numpy as np
from keras_elmo import BidirectionalLanguageModel, TrainingSettings, train
from training_models import CONFIG, DATA
rows, call = set(), BidirectionalLanguageModel.token_vectors
def spy(self, inputs):
    ids = inputs["token_ids"]
    shape = ids.shape
    jax.debug.inspect_array_sharding(
        ids, callback=lambda one: rows.add(one.shard_shape(shape)[0])
    )
    return call(self, inputs)
BidirectionalLanguageModel.token_vectors = spy
model_of, threads = keras.callbacks.Callback.model.fget, set()
def spy_model(self):  # which copies the state of JAX, unlike what other threads may do
    threads.add(threading.current_thread().name)
    return model_of(self)
keras.callbacks.Callback.model = property(spy_model)
result = train(TrainingSettings(
    files=str(DATA / "train.txt"), vocabulary=DATA / "vocab.txt", held_out=DATA / "heldout.txt",
    options=CONFIG.to_dict(), batch_size=4, unroll_steps=8, dropout=0.0, negatives=0,
    optimizer="adagrad", schedule="constant", patience=0, **{"checkpoint_every": 3, **settings},
))
assert keras.distribution.distribution() is None and threads == {"MainThread"}, threads
weights = [keras.ops.convert_to_numpy(v.value) for v in result.model.trainable_variables]
print("RESULT", json.dumps({
    "rows": sorted(rows - {64}),
    "perplexity": [row["val_perplexity"] for row in result.history],
    "last": result.report.perplexity,
    "weights": hashlib.sha256(b"".join(w.tobytes() for w in weights)).hexdigest(),
}))
"""

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="keras.distribution works on JAX"
)


def start_program(program, arguments):
    environment = {
        **os.environ,
        "KERAS_BACKEND": keras.backend.backend(),
        "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}",
    }
    return subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def result_of(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-3000:]
    found = next(line for line in out.splitlines() if line.startswith("RESULT "))
    return json.loads(found.removeprefix("RESULT "))


def two_hosts():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return ",".join(f"127.0.0.1:{s.getsockname()[1]}" for s in (one, other))


def test_processes_read_their_own_shards_in_a_loop_of_the_user():
    """Words are drawn and units dropped alike."""
    hosts = two_hosts()
    running = [start_program(OWN_LOOP, [i, hosts]) for i in range(2)]
    first, second = map(result_of, running)
    assert first == second and first[-1] < first[0]


def test_train_splits_its_batches(tmp_path):
    def start(output, steps, devices):
        # The bound on the gradient's norm is low, so that clipping happens and must be joint.
        settings = {"steps": steps, "devices": devices, "clip_norm": 1.0}
        return start_program(TRAIN, {"output": str(tmp_path / output), **settings})

    one, two = map(result_of, [start("one", 6, 1), start("two", 6, 2)])
    assert (one["rows"], two["rows"]) == ([4], [2])
    np.testing.assert_allclose(two["perplexity"], one["perplexity"], rtol=1e-5)
    assert two["last"] == pytest.approx(one["last"], rel=1e-5)
    resumed = result_of(start("two", 8, 2))
    assert resumed["perplexity"][: len(two["perplexity"])] == two["perplexity"]


def test_processes_train_together_in_one_folder(tmp_path):
    def train(steps, *outputs):
        hosts = two_hosts()
        return [
            start_program(
                TRAIN,
                {"output": str(tmp_path / output), "steps": steps, "hosts": hosts,
                 "process": f"{i}/2", "checkpoint_every": 1},
            )
            for i, output in enumerate(outputs)
        ]  # fmt: skip

    whole = list(map(result_of, train(3, "whole", "whole")))
    assert whole[0] == whole[1] and whole[0]["rows"] == [2]
    for steps in (2, 3):
        parts = list(map(result_of, train(steps, "parts", "parts")))
    assert parts[0] == parts[1]
    assert parts[0]["weights"] == whole[0]["weights"]
    assert parts[0]["perplexity"][-1] == whole[0]["perplexity"][-1]
    assert not list(tmp_path.rglob(".partial-*"))
    # One folder each, of which only the first has checkpoints, is refused.
    for process in train(4, "parts", "another"):
        _, err = process.communicate(timeout=600)
        assert process.returncode != 0 and "pass the same folder to all of them" in err
