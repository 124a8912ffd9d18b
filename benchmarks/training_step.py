"""Training speed compared with bilm-tf: the `small` architecture, batches of 32 x 20 words.

    python benchmarks/training_step.py "shards/*" --vocab vocab.txt --bilm-python BILM/bin/python

BILM is an environment of Python 3.6 or 3.7 with tensorflow 1.15.5, protobuf 3.19.6, bilm 0.1.post5.
The two run in several interleaved rounds on the same text, with the same settings: vocabulary of
50,000, 2,048 negatives, dropout 0.1, Adagrad. Prints the median of each speed and of the ratios.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH_SIZE, UNROLL_STEPS, VOCABULARY, NEGATIVES = 32, 20, 50_000, 2_048
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
WARM_UP, TIMED = 8, 25


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", help="pattern of the text shards, in quotes")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--bilm-python", help="Python of the environment with bilm-tf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", choices=("ours", "bilm"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print("TOKENS_PER_SECOND", {"ours": ours, "bilm": bilm}[arguments.run](arguments))
        return
    with tempfile.TemporaryDirectory() as folder:
        vocab = Path(folder) / "vocab.txt"
        words = Path(arguments.vocab).read_text(encoding="utf-8").splitlines()[:VOCABULARY]
        vocab.write_text("\n".join(words) + "\n", encoding="utf-8")
        # bilm-tf reads plain text only.
        text = Path(folder) / "text.txt"
        text.write_text(first_sentences(arguments.files, 20_000), encoding="utf-8")
        speeds = {"ours": [], "bilm": []}
        for _ in range(arguments.rounds):
            for name, python in (("ours", sys.executable), ("bilm", arguments.bilm_python)):
                if python:
                    speeds[name].append(measure(python, name, text, vocab))
                    print(f"{name}: {speeds[name][-1]:,.0f} tokens/s", flush=True)
    for name, values in speeds.items():
        if values:
            print(f"{name}: median {statistics.median(values):,.0f} tokens/s")
    ratios = [a / b for a, b in zip(speeds["ours"], speeds["bilm"])]
    if ratios:
        print(f"ratio: median {statistics.median(ratios):.2f}, least {min(ratios):.2f}")


def first_sentences(files, count):
    from itertools import islice

    from keras_elmo.text.reader import find_files, read_sentences

    sentences = (tokens for path in find_files(files) for tokens in read_sentences(path))
    return "\n".join(b" ".join(tokens).decode() for tokens in islice(sentences, count)) + "\n"


def measure(python, name, text, vocab):
    command = [python, __file__, str(text), "--vocab", str(vocab), "--run", name]
    # Set by TensorFlow 2 when imported here, and not for TensorFlow 1.
    environment = {k: v for k, v in os.environ.items() if k != "TF2_BEHAVIOR"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    for line in result.stdout.splitlines():
        if line.startswith("TOKENS_PER_SECOND"):
            return float(line.split()[1])
    raise SystemExit(f"{name} failed:\n{result.stderr[-3000:]}")


def timed(step):
    seconds = []
    for i in range(WARM_UP + TIMED):
        start = time.perf_counter()
        step()
        if i >= WARM_UP:
            seconds.append(time.perf_counter() - start)
    return BATCH_SIZE * UNROLL_STEPS / statistics.median(seconds)


def ours(arguments):
    from keras_elmo import BidirectionalLanguageModel, LanguageModelCorpus, Vocabulary
    from keras_elmo.training.settings import PRESETS

    vocabulary = Vocabulary.from_file(arguments.vocab)
    model = BidirectionalLanguageModel(
        PRESETS["small"],
        len(vocabulary),
        batch_size=BATCH_SIZE,
        unroll_steps=UNROLL_STEPS,
        dropout=0.1,
        num_negative_samples=NEGATIVES,
    )
    model.compile()
    corpus = LanguageModelCorpus(
        arguments.files,
        vocabulary,
        batch_size=BATCH_SIZE,
        unroll_steps=UNROLL_STEPS,
        widest_filter=7,
    )
    batches = corpus.endless()
    return timed(lambda: model.train_on_batch(next(batches)))


def bilm(arguments):
    import tensorflow as tf
    from bilm import training
    from bilm.data import BidirectionalLMDataset

    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    options = {
        "bidirectional": True,
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 16},
            "filters": FILTERS,
            "max_characters_per_token": 50,
            "n_characters": 261,
            "n_highway": 1,
        },
        "dropout": 0.1,
        "lstm": {
            "cell_clip": 3,
            "dim": 1024,
            "n_layers": 2,
            "proj_clip": 3,
            "projection_dim": 128,
            "use_skip_connections": True,
        },
        "all_clip_norm_val": 10.0,
        "n_epochs": 1,
        "n_train_tokens": 1_000_000,
        "batch_size": BATCH_SIZE,
        "n_tokens_vocab": VOCABULARY,
        "unroll_steps": UNROLL_STEPS,
        "n_negative_samples_batch": NEGATIVES,
    }
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
        gradients = training.average_gradients([gradients], BATCH_SIZE, options)
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
        batches = data.iter_batches(BATCH_SIZE, UNROLL_STEPS)

        def step():
            feed = training._get_feed_dict_from_X(next(batches), 0, BATCH_SIZE, model, True, True)
            feed.update(zip(tf.nest.flatten(names["init_states"]), state[0]))
            results = session.run(
                [train, model.total_loss, *tf.nest.flatten(names["final_states"])], feed
            )
            state[0] = results[2:]

        return timed(step)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
