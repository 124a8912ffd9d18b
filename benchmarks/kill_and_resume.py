"""Kills a training run at random moments and checks that the result is the same as without kills.

    python benchmarks/kill_and_resume.py --kills 20

Trains a tiny model on generated text with `keras-elmo train`, once undisturbed and once killed
(kill -9) repeatedly and restarted with the same command. Checkpoints and evaluations on
held-out text are frequent, so that many kills hit them. The text is random, so that the held-out
perplexity soon stops falling, which ends the training. Every array of the last checkpoint, the
model and the log must be the same, bit for bit; no partial file may be left.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

OPTIONS = {
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 4},
        "filters": [[1, 8], [2, 8], [3, 16]],
        "max_characters_per_token": 20,
        "n_highway": 1,
    },
    "lstm": {
        "cell_clip": 3,
        "dim": 32,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 16,
        "use_skip_connections": True,
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--patience", type=int, default=40)
    parser.add_argument(
        "--longest", type=float, default=25, help="seconds to the latest kill after a start"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    length = arguments.steps, arguments.patience
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_corpus(folder, chance)
        finish(run(folder, "undisturbed", *length), folder / "undisturbed.log")
        kills = misses = 0
        while kills < arguments.kills:
            process = run(folder, "killed", *length)
            try:
                # While importing, compiling, counting, training, saving or evaluating.
                finish(process, folder / "killed.log", chance.uniform(2, arguments.longest))
                misses += 1
                if misses > 3:
                    raise SystemExit(f"The training ended after {kills} kills: pass more --steps.")
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                print(f"kill {kills}: {last(folder / 'killed')}", flush=True)
        finish(run(folder, "killed", *length), folder / "killed.log")
        compare(folder)


def write_corpus(folder, chance):
    words = ["".join(chance.choices("abcdefghij", k=chance.randint(1, 8))) for _ in range(300)]
    for name in ("shard-0", "shard-1", "shard-2", "heldout"):
        lines = (" ".join(chance.choices(words, k=chance.randint(1, 20))) for _ in range(400))
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    # A third of the words is not in the vocabulary: the characters of all words must be restored.
    lines = ["<S>", "</S>", "<UNK>", *dict.fromkeys(words[:200])]
    (folder / "vocab.txt").write_text("\n".join(lines))
    (folder / "options.json").write_text(json.dumps(OPTIONS))


def run(folder, name, steps, patience):
    command = f"""-m keras_elmo train {folder}/shard-*.txt --output {folder}/{name}
        --options {folder}/options.json --vocab {folder}/vocab.txt
        --held-out {folder}/heldout.txt --evaluate-sentences 200
        --batch-size 8 --unroll-steps 5 --negatives 50 --steps {steps}
        --checkpoint-every {steps // 100} --patience {patience}"""
    # keras-elmo expands the pattern.
    with open(folder / f"{name}.log", "ab") as log:
        return subprocess.Popen([sys.executable, *command.split()], stdout=log, stderr=log)


def finish(process, log, seconds=None):
    """Waits for a training, at most some seconds, and stops here if it failed."""
    if code := process.wait(seconds):
        raise SystemExit(f"The training ended with exit code {code}:\n{end_of(log)}")


def end_of(log):
    return log.read_text(errors="replace")[-2000:]


def last(folder):
    return max(
        (path.name for path in folder.glob("checkpoints/step-*.ckpt")), default="nothing yet"
    )


def compare(folder):
    names = last(folder / "undisturbed"), last(folder / "killed")
    if names[0] != names[1]:
        log = end_of(folder / "killed.log")
        raise SystemExit(f"Ended at {names[1]}, not at {names[0]}:\n{log}")
    expected, found = (
        np.load(folder / run / "checkpoints" / name)
        for run, name in zip(("undisturbed", "killed"), names)
    )
    paths = [name for name in expected if name != "state.json"]
    different = [name for name in paths if not np.array_equal(expected[name], found[name])]
    if different:
        raise SystemExit(f"{len(different)} of {len(paths)} arrays differ: {different[:10]}")
    if log_of(folder / "undisturbed") != log_of(folder / "killed"):
        raise SystemExit("The logs differ.")
    if model_of(folder / "undisturbed") != model_of(folder / "killed"):
        raise SystemExit("The models differ.")
    if partial := list((folder / "killed").rglob(".partial-*")):
        raise SystemExit(f"Partial files are left: {partial}")
    print(f"{names[0]}: all {len(paths)} arrays are equal, bit for bit, and so are model and log")


def model_of(folder):
    """The bytes of the weights that the run exported."""
    names = "weights.hdf5", "softmax.hdf5"
    return [(folder / "model" / name).read_bytes() for name in names]


def log_of(folder):
    """The rows of a log, without the column that depends on the clock."""
    with open(folder / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: row[name] for name in row if name != "tokens_per_second"} for row in rows]


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
