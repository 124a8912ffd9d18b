"""Measures the speed (tokens/s) and memory of the data pipeline without a model.

    python benchmarks/data_pipeline.py "shards/*" --vocab vocab.txt

Batches of 128 x 20 words with the characters of their distinct words, as a tf.data dataset and as
NumPy arrays. Each token is counted once, though it is in both the forward and the backward stream.
"""

import argparse
import itertools
import os
import resource
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--batches", type=int, default=4_000)
    parser.add_argument("--numpy", action="store_true", help="without TensorFlow")
    arguments = parser.parse_args()
    from keras_elmo import ElmoConfig, LanguageModelCorpus, Vocabulary

    corpus = LanguageModelCorpus(
        arguments.files,
        Vocabulary.from_file(arguments.vocab),
        ElmoConfig(),
        batch_size=128,
        unroll_steps=20,
        seed=0,
    )
    batches = iter(corpus.batches() if arguments.numpy else corpus.dataset(repeat=True))
    next(batches)
    part, started = max(1, arguments.batches // 4), time.perf_counter()
    for i in range(4):
        for _ in itertools.islice(batches, part):
            pass
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        speed = (i + 1) * part * 128 * 20 / seconds
        print(f"{(i + 1) * part:,} batches: {speed:,.0f} tokens/s, peak memory {peak:,.0f} MB")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
