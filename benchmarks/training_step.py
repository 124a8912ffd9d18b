"""Training speed side by side with bilm-tf, and with an earlier version of this package.

    python benchmarks/training_step.py "shards/*" --vocab vocab.txt --bilm-python BILM/bin/python
    python benchmarks/training_step.py ... --preset tiny --compute-dtype mixed_bfloat16

BILM is an environment of Python 3.6 or 3.7 with tensorflow 1.15.5, protobuf 3.19.6, bilm 0.1.post5.
All run in turn, several times, on the same text with the same settings: 20 steps to a window, a
vocabulary of 50,000, 2,048 negatives, dropout 0.1, Adagrad. bilm-tf always runs in float32. Prints
the median speed of each, and of its ratio to bilm-tf's in the same round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

UNROLL_STEPS, VOCABULARY, NEGATIVES = 20, 50_000, 2_048
WARM_UP, TIMED = 8, 25


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", help="pattern of the text shards, in quotes")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--compute-dtype", default="float32")
    parser.add_argument("--bilm-python", help="Python of the environment with bilm-tf")
    parser.add_argument("--before", help="checkout of the version to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", choices=("ours", "bilm"), help=argparse.SUPPRESS)
    parser.add_argument("--options", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print("TOKENS_PER_SECOND", {"ours": ours, "bilm": bilm}[arguments.run](arguments))
        return
    repository = str(Path(__file__).parents[1])
    runs = {"ours": ("ours", sys.executable, repository)}
    if arguments.before:
        runs["before"] = ("ours", sys.executable, arguments.before)
    if arguments.bilm_python:
        runs["bilm-tf"] = ("bilm", arguments.bilm_python, repository)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(Path(folder), arguments)
        speeds = {name: [] for name in runs}
        for _ in range(arguments.rounds):
            for name, run in runs.items():
                speeds[name].append(measure(*run, prepared))
                print(f"{name}: {speeds[name][-1]:,.0f} tokens/s", flush=True)
    for name, values in speeds.items():
        print(f"{name}: median {statistics.median(values):,.0f} tokens/s", end="")
        ratios = [a / b for a, b in zip(values, speeds.get("bilm-tf", []))]
        print(f", {statistics.median(ratios):.2f} x bilm-tf" if ratios else "")


def prepare(folder, arguments):
    """Writes text, vocabulary and options to a folder; returns the arguments of a run."""
    from keras_elmo.training.settings import PRESETS

    words = Path(arguments.vocab).read_text(encoding="utf-8").splitlines()[:VOCABULARY]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    # bilm-tf reads plain text only.
    text = first_sentences(arguments.files, 20_000)
    (folder / "text.txt").write_text(text, encoding="utf-8")
    (folder / "options.json").write_text(json.dumps(PRESETS[arguments.preset].to_dict()))
    files = str(folder / "text.txt"), "--vocab", str(folder / "vocab.txt")
    settings = "--batch-size", str(arguments.batch_size), "--compute-dtype", arguments.compute_dtype
    return [*files, "--options", str(folder / "options.json"), *settings]


def first_sentences(files, count):
    from itertools import islice

    from keras_elmo.text.reader import read_sentences

    sentences = islice(read_sentences(files), count)
    return "\n".join(b" ".join(tokens).decode() for tokens in sentences) + "\n"


def measure(kind, python, repository, prepared):
    # An earlier version runs its own copy of this program, which calls its own interface.
    program = Path(repository) / "benchmarks" / Path(__file__).name
    command = [python, program, *prepared, "--run", kind]
    # TF2_BEHAVIOR, which TensorFlow 2 sets when it is imported, would change TensorFlow 1.
    environment = {k: v for k, v in os.environ.items() if k not in ("TF2_BEHAVIOR", "PYTHONPATH")}
    if kind == "ours":
        environment["PYTHONPATH"] = repository
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    for line in result.stdout.splitlines():
        if line.startswith("TOKENS_PER_SECOND"):
            return float(line.split()[1])
    raise SystemExit(f"{kind} failed:\n{result.stderr[-3000:]}")


def timed(step, batch_size):
    seconds = []
    for i in range(WARM_UP + TIMED):
        start = time.perf_counter()
        step()
        if i >= WARM_UP:
            seconds.append(time.perf_counter() - start)
    return batch_size * UNROLL_STEPS / statistics.median(seconds)


def ours(arguments):
    from keras_elmo import ElmoConfig, Vocabulary

    config = ElmoConfig.from_json(arguments.options)
    vocabulary = Vocabulary.from_file(arguments.vocab)
    model, batches = model_and_batches(arguments, config, vocabulary, arguments.batch_size)
    return timed(lambda: model.train_on_batch(next(batches)), arguments.batch_size)


def model_and_batches(
    arguments, config, vocabulary, batch_size, num_negative_samples=NEGATIVES, seed=None
):
    """A compiled language model, and an endless iterator over batches of text files."""
    from keras_elmo import BidirectionalLanguageModel, LanguageModelCorpus

    size = {"batch_size": batch_size, "unroll_steps": UNROLL_STEPS}
    model = BidirectionalLanguageModel(
        config,
        len(vocabulary),
        dropout=0.1,
        num_negative_samples=num_negative_samples,
        dtype=arguments.compute_dtype,
        **size,
    )
    model.compile()
    corpus = LanguageModelCorpus(arguments.files, vocabulary, config, seed=seed, **size)
    return model, corpus.batches()


def bilm(arguments):
    import tensorflow as tf
    from bilm import training
    from bilm.data import BidirectionalLMDataset

    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    batch_size = arguments.batch_size
    with open(arguments.options) as file:
        options = json.load(file)
    options["char_cnn"]["n_characters"] = 261
    options.update(
        bidirectional=True,
        dropout=0.1,
        all_clip_norm_val=10.0,
        n_epochs=1,
        n_train_tokens=1_000_000,
        batch_size=batch_size,
        n_tokens_vocab=VOCABULARY,
        unroll_steps=UNROLL_STEPS,
        n_negative_samples_batch=NEGATIVES,
    )
    vocabulary = training.load_vocab(arguments.vocab, 50)
    data = BidirectionalLMDataset(arguments.files, vocabulary, test=False, shuffle_on_load=True)
    with tf.device("/cpu:0"):
        optimizer = tf.train.AdagradOptimizer(0.2, initial_accumulator_value=1.0)
        step_number = tf.get_variable("global_step", [], initializer=tf.zeros_initializer())
        with tf.variable_scope("lm"):
            model = training.LanguageModel(options, True)
        gradients = optimizer.compute_gradients(
            model.total_loss * UNROLL_STEPS,
            aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE,
        )
        gradients = training.average_gradients([gradients], batch_size, options)
        gradients, _ = training.clip_grads(gradients, options, False, step_number)
        train = optimizer.apply_gradients(gradients)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        names = {
            "init_states": model.init_lstm_state,
            "final_states": model.final_lstm_state,
        }
        zeros = [session.run(tf.zeros_like(x)) for x in tf.nest.flatten(names["init_states"])]
        state = [zeros]
        batches = data.iter_batches(batch_size, UNROLL_STEPS)

        def step():
            feed = training._get_feed_dict_from_X(next(batches), 0, batch_size, model, True, True)
            feed.update(zip(tf.nest.flatten(names["init_states"]), state[0]))
            results = session.run(
                [train, model.total_loss, *tf.nest.flatten(names["final_states"])], feed
            )
            state[0] = results[2:]

        return timed(step, batch_size)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
