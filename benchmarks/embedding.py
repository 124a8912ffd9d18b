"""Tokens/s of embedding: keras_elmo and its peers, each in its own environment.

    python benchmarks/embedding.py "heldout/*" --bilm BILM/bin/python \
        --simple-elmo SIMPLE/bin/python --allennlp ALLENNLP/bin/python

The environments: bilm 0.1.post5 with tensorflow 1.15.5 and protobuf 3.19.6 on Python 3.6 or 3.7;
simple-elmo 0.9.2 with tensorflow-cpu and tf-keras of the same version; simple-elmo-pytorch 0.2
(AllenNLP's ELMo) with torch, numpy, h5py. Peers without an environment are skipped.

All read the same random weights in bilm-tf's layout and the same natural text, in sentences of
25 tokens, in several interleaved rounds. Prints tables: medians of tokens/s, of the ratio to the
fastest peer of each round, and of the share of the machine's limit. The limit is measured in the
same rounds: the fastest matrix product and memory read.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
TOKENS = 25
ARCHITECTURES = ("original", "small")
BATCH_SIZES = (1, 32, 128)
OURS = ("ours_cached", "ours_uncached", "ours_bfloat16")
BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
LABELS = {
    "ours_cached": "keras_elmo, words in its cache",
    "ours_uncached": "keras_elmo, no cache",
    "ours_bfloat16": "keras_elmo, bfloat16, words in its cache",
    "ours_natural": "keras_elmo",
    "ours_natural_bfloat16": "keras_elmo, bfloat16",
    "bilm": "bilm-tf 0.1.post5, TensorFlow 1.15",
    "simple_elmo": "simple-elmo 0.9.2, TensorFlow 2",
    "allennlp": "AllenNLP (simple-elmo-pytorch 0.2)",
    "allennlp_cached": "AllenNLP, words in its cache",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", help="pattern of the text shards, in quotes")
    parser.add_argument("--bilm", metavar="PYTHON")
    parser.add_argument("--simple-elmo", metavar="PYTHON")
    parser.add_argument("--allennlp", metavar="PYTHON")
    parser.add_argument("--architectures", nargs="+", default=ARCHITECTURES, choices=ARCHITECTURES)
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=BATCH_SIZES)
    parser.add_argument("--ours", nargs="*", default=OURS, choices=OURS)
    parser.add_argument("--backends", nargs="+", default=["tensorflow"], choices=BACKENDS)
    parser.add_argument(
        "--also", nargs="*", default=(), metavar="'NAME BACKEND'", help="such as 'ours_cached jax'"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="duration of each measurement")
    arguments = parser.parse_args()
    pythons = {
        f"{name} {backend}": sys.executable
        for backend in arguments.backends
        for name in arguments.ours
    }
    pythons.update(dict.fromkeys(arguments.also, sys.executable))
    for name, python in (
        ("bilm", arguments.bilm),
        ("simple_elmo", arguments.simple_elmo),
        ("allennlp", arguments.allennlp),
        ("allennlp_cached", arguments.allennlp),
    ):
        if python:
            pythons[name] = python
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        write_text(arguments.files, text)
        for name in arguments.architectures:
            config = write_model(name, Path(folder) / name)
            result = measure(Path(folder) / name, text, pythons, arguments)
            error = relative_error(Path(folder) / name, text)
            print(table(name, config, result, error), flush=True)


def write_text(files, path, num_sentences=4096):
    """Writes running text in sentences of one length, so that padding costs no program more."""
    from keras_elmo.text.reader import read_sentences

    tokens = itertools.chain.from_iterable(read_sentences(files))
    with open(path, "wb") as file:
        for number in range(num_sentences):
            sentence = list(itertools.islice(tokens, TOKENS))
            if len(sentence) < TOKENS:
                raise SystemExit(f"{files}: {number} sentences of {TOKENS} tokens, too few")
            file.write(b" ".join(sentence) + b"\n")


def write_model(name, folder):
    import keras

    from keras_elmo import ElmoLayer, get_model

    keras.utils.set_random_seed(0)
    config = get_model(name).config
    ElmoLayer(None, config=config).export_hdf5(folder)
    return config


def measure(folder, text, pythons, arguments):
    """Lists of tokens/s by worker and batch size, peaks of memory, and the machine's limits."""
    speeds = {(name, batch): [] for name in pythons for batch in arguments.batch_sizes}
    limits, peaks = [], dict.fromkeys(pythons, 0.0)
    for batch in arguments.batch_sizes:
        # New processes for each batch size: their memory would add up.
        workers = {name: Worker(python, name, folder, text) for name, python in pythons.items()}
        counts = {}
        for name, worker in workers.items():
            seconds, _ = worker.run(batch, batch)
            counts[name] = batch * max(1, round(arguments.seconds / max(seconds, 1e-3)))
        for _ in range(arguments.rounds):
            limits.append(machine_limits())
            for name, worker in workers.items():
                seconds, peak = worker.run(batch, counts[name])
                peaks[name] = max(peaks[name], peak)
                speeds[name, batch].append(TOKENS * counts[name] / seconds)
                print(f"{folder.name} {batch} {name}: {speeds[name, batch][-1]:,.0f}", flush=True)
        for worker in workers.values():
            worker.close()
    return speeds, peaks, limits


class Worker:
    def __init__(self, python, name, folder, text):
        environment = {k: v for k, v in os.environ.items() if k != "TF2_BEHAVIOR"}
        function, _, environment["KERAS_BACKEND"] = name.partition(" ")
        command = [python, str(HERE / "embedding_worker.py"), function, str(folder), str(text)]
        self.name = name
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=environment,
        )  # fmt: skip

    def run(self, batch_size, count):
        self.process.stdin.write(f"{batch_size} {count}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.log.seek(0)
            raise SystemExit(f"{self.name} failed:\n{self.log.read()[-3000:]}")
        return tuple(map(float, answer.split()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def machine_limits():
    """FLOP/s of the best float32 matrix product, and bytes/s of reading memory."""
    import numpy as np

    a = np.ones((3072, 3072), "float32")
    matrix, vector = np.ones((2**14, 2**13), "float32"), np.ones(2**13, "float32")

    def best(run, work):
        run()
        times = []
        for _ in range(4):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return work / min(times)

    return best(lambda: a @ a, 2 * 3072**3), best(lambda: matrix @ vector, matrix.nbytes)


def relative_error(folder, text, num_sentences=64):
    """Relative error, by norm, of the mean of the layers in bfloat16, compared with float32."""
    import numpy as np

    from keras_elmo import Embedder

    with open(text, encoding="utf-8") as file:
        sentences = [line.split() for line in itertools.islice(file, num_sentences)]
    exact, other = (
        np.concatenate(Embedder(folder, dtype=dtype, progress=False).embed(sentences, "average"))
        for dtype in (None, "bfloat16")
    )
    return np.linalg.norm(other - exact) / np.linalg.norm(exact)


def costs(config):
    """FLOP of a token in the LSTMs, and bytes of the weights of one time step at batch 1."""
    units, dim = config.lstm_dim, config.projection_dim
    cells = config.num_directions * config.num_layers
    flop = 2 * cells * (2 * dim * 4 * units + units * dim)
    return flop, 4 * cells * (dim * 4 * units + units * dim)


def table(name, config, result, error):
    speeds, peaks, limits = result
    flops, reads = (statistics.median(one) for one in zip(*limits))
    flop, weights = costs(config)
    batches = sorted({batch for _, batch in speeds})
    names = list(dict.fromkeys(worker for worker, _ in speeds))
    peers = [worker for worker in names if not worker.startswith("ours")]
    lines = [
        f"### {name}",
        "",
        f"Limits in this run: {flops / 1e9:,.0f} GFLOP/s and {reads / 1e9:,.0f} GB/s, so at most "
        f"{flops / flop:,.0f} tokens/s where all words are cached, and {reads / weights:,.0f} at "
        "batch 1, where the weights of each time step are read from memory.",
        "",
        "| tokens/s | " + " | ".join(f"batch {batch}" for batch in batches) + " | peak memory |",
        "| --- |" + " --- |" * (len(batches) + 1),
    ]
    for worker in names:
        cells = []
        for batch in batches:
            values = speeds[worker, batch]
            cell = f"{statistics.median(values):,.0f}"
            if worker.startswith("ours") and peers:
                ratios = [
                    mine / max(speeds[peer, batch][i] for peer in peers)
                    for i, mine in enumerate(values)
                ]
                cell += f" ({statistics.median(ratios):.2f} x)"
            limit = reads / weights if batch == 1 else flops / flop
            cells.append(f"{cell}, {statistics.median(values) / limit:.0%}")
        function, _, backend = worker.partition(" ")
        label = LABELS[function] + (f", {BACKENDS[backend]}" if backend else "")
        lines.append(f"| {label} | {' | '.join(cells)} | {peaks[worker]:,.0f} MB |")
    return "\n".join(
        [
            *lines,
            "",
            "(x: times the fastest peer of the same round; %: of the limit in float32.) Error of "
            f"the mean of the layers, by its norm: {error:.1e} with bfloat16.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
