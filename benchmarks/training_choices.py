"""Held-out perplexity of architectures, or of recipes, at equal training cost.

    python benchmarks/training_choices.py architectures "train/*.xz" --vocab vocab.txt \
        --held-out heldout.txt --seconds 600
    python benchmarks/training_choices.py recipes ...

Each choice is timed for some steps first. It then gets as many steps as fit into the given CPU
seconds, and its learning rate falls to zero over them (except for bilm-tf's recipe, whose rate is
constant). So a model with slower steps sees less text. The perplexity is that of the full softmax,
with every word of the first held-out sentences scored once. Prints one line of Markdown per choice.
"""

import argparse
import dataclasses
import itertools
import time

import keras

from keras_elmo import (
    BidirectionalLanguageModel,
    LanguageModelCorpus,
    Vocabulary,
    bilm_tf_optimizer,
    count_words,
    perplexity,
)
from keras_elmo.pretrained.weight_table import count_parameters
from keras_elmo.training.settings import PRESETS

BATCH = {"batch_size": 128, "unroll_steps": 20}
TIMED_STEPS = 15
TINY = PRESETS["tiny"]


@dataclasses.dataclass
class Choice:
    """A model and how it is trained: what the bundled model's recipe has, if not said otherwise."""

    name: str
    config: object = TINY
    negatives: int | None = 4096
    adam: bool = True
    bias_by_frequency: bool = True


CHOICES = {
    "architectures": [
        Choice(
            "LSTM 256, projection 64", dataclasses.replace(TINY, lstm_dim=256, projection_dim=64)
        ),
        Choice("LSTM 512, projection 128 (`tiny`)"),
        Choice("LSTM 512, projection 256", dataclasses.replace(TINY, projection_dim=256)),
        Choice("LSTM 1,024, projection 128, 2,048 filters (`small`)", PRESETS["small"]),
    ],
    "recipes": [
        Choice("bilm-tf's, 1,024 negatives", negatives=1024, adam=False, bias_by_frequency=False),
        Choice("with the bias by log frequency", negatives=1024, adam=False),
        Choice("and Adam with a falling rate", negatives=1024),
        Choice("and 4,096 negatives"),
        Choice("and all words", negatives=None),
    ],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=CHOICES)
    parser.add_argument("files", help="pattern of the training shards, in quotes")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--seconds", type=float, default=600, help="processor time of each")
    parser.add_argument("--sentences", type=int, default=500, help="held-out sentences to score")
    arguments = parser.parse_args()
    vocabulary = Vocabulary.from_file(arguments.vocab)
    counts = vocabulary.counts(count_words(arguments.files))
    print("| | parameters | s a step | words seen | perplexity |\n| --- | --- | --- | --- | --- |")
    for choice in CHOICES[arguments.what]:
        model, seconds, steps = train(
            choice, arguments.files, vocabulary, counts, arguments.seconds
        )
        report = perplexity(
            model, arguments.held_out, vocabulary, max_sentences=arguments.sentences
        )
        words = steps * BATCH["batch_size"] * BATCH["unroll_steps"]
        print(
            f"| {choice.name} | {count_parameters(choice.config):,} | {seconds:.2f} "
            f"| {words:,} | {report.perplexity:,.1f} |",
            flush=True,
        )


def train(choice, files, vocabulary, counts, seconds):
    """The trained model, the seconds that a step takes, and the number of steps."""
    keras.utils.set_random_seed(1)
    step = seconds_a_step(*made(choice, files, vocabulary, counts, 1000))
    steps = int(seconds / step)
    model, corpus = made(choice, files, vocabulary, counts, steps)
    model.fit(corpus, steps_per_epoch=steps, epochs=1, verbose=0)
    return model, step, steps


def made(choice, files, vocabulary, counts, steps):
    """A fresh model, compiled for so many steps, and its text."""
    config, warmup = choice.config, min(200, steps // 10)
    model = BidirectionalLanguageModel(
        config, len(vocabulary), dropout=0.0, num_negative_samples=choice.negatives, **BATCH
    )
    if choice.bias_by_frequency:
        model.initialize_bias(counts)
    if choice.adam:
        rate = keras.optimizers.schedules.CosineDecay(
            0.0, steps - warmup, warmup_target=0.002, warmup_steps=warmup
        )
        model.compile(keras.optimizers.Adam(rate, global_clipnorm=0.5))
    else:
        model.compile(bilm_tf_optimizer())
    corpus = LanguageModelCorpus(
        files, vocabulary, widest_filter=config.widest_filter, seed=1, **BATCH
    )
    return model, corpus


def seconds_a_step(model, corpus):
    batches = itertools.islice(iter(corpus), TIMED_STEPS + 5)
    for number, batch in enumerate(batches):
        if number == 5:
            start = time.process_time()
        model.train_on_batch(batch)
    return (time.process_time() - start) / TIMED_STEPS


if __name__ == "__main__":
    main()
