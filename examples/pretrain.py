"""Pre-train a biLM on 1B-Word-style shards with `model.fit`.

    python examples/pretrain.py "training-monolingual.tokenized.shuffled/*" \
        --held-out "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-*" --output my_elmo

The text is one tokenized sentence a line, plain, .gz or .xz. Stop it at any moment, start the same
command again: it goes on where it was. `keras-elmo train` does all of this, but for the early
stopping, without a program; this one is to be read, and changed.

What to expect, measured with `keras-elmo train` and the same architecture and optimizer: on 65 M
words of books with a vocabulary of 60,003 words, a held-out perplexity (the full softmax) of 199
after 1,000 of 11,500 steps of 128 x 20 words, which took 12 minutes on two CPU cores.
"""

import argparse
from pathlib import Path

import keras

from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoConfig,
    ElmoLayer,
    LanguageModelCorpus,
    TrainingCheckpoint,
    Vocabulary,
    count_words,
    perplexity,
)

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("files", help="pattern of the training shards, in quotes")
parser.add_argument("--held-out", required=True, help="text to evaluate on")
parser.add_argument("--output", required=True, help="folder for checkpoints and the model")
parser.add_argument("--words", type=int, default=50_000, help="size of the vocabulary")
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--steps", type=int, default=20_000, help="training steps in all")
parser.add_argument("--report", type=int, default=1_000, help="steps between evaluations")
parser.add_argument("--lstm-dim", type=int, default=512)
parser.add_argument("--projection-dim", type=int, default=128)
arguments = parser.parse_args()
output = Path(arguments.output)
output.mkdir(parents=True, exist_ok=True)

# 1. The vocabulary: the most frequent words, which the model learns to predict. What it reads is
#    characters, so that no word is unknown to it.
counts = count_words(arguments.files)
print(f"{counts.report.tokens:,} tokens", *counts.report.oddities(), sep="; ")
vocabulary = Vocabulary.from_counts(counts.counts, size=arguments.words)
vocabulary.write(output / "vocabulary.txt")

# 2. The model. The number of words drawn for the sampled softmax is a compromise of speed and
#    precision; evaluation always compares each word with the whole vocabulary.
config = ElmoConfig(
    filters=((1, 16), (2, 32), (3, 64), (4, 96), (5, 128)),
    num_highway=1,
    lstm_dim=arguments.lstm_dim,
    projection_dim=arguments.projection_dim,
)
batch = {"batch_size": arguments.batch_size, "unroll_steps": 20}
keras.utils.set_random_seed(1)
model = BidirectionalLanguageModel(
    config, len(vocabulary), dropout=0.0, num_negative_samples=4096, **batch
)
# Rare words start as rare ones; a sample would take long to find that out.
model.initialize_bias(vocabulary.counts(counts))

# 3. The optimizer. `model.compile()` alone trains as bilm-tf does. In a short training Adam with a
#    falling learning rate comes further.
warmup = min(200, arguments.steps // 10)
schedule = keras.optimizers.schedules.CosineDecay(
    initial_learning_rate=0.0,
    warmup_target=0.002,
    warmup_steps=warmup,
    decay_steps=arguments.steps - warmup,
)
model.compile(keras.optimizers.Adam(schedule, global_clipnorm=0.5))

# 4. The text, as windows of words that follow each other from batch to batch.
corpus = LanguageModelCorpus(arguments.files, vocabulary, widest_filter=5, seed=1, **batch)
held_out = LanguageModelCorpus(arguments.held_out, vocabulary, remainder="pad", **batch)

# 5. The training. Keras' own callbacks do the rest; monitor the held-out text.
model.fit(
    corpus,
    total_steps=arguments.steps,
    steps_per_epoch=arguments.report,
    validation_data=held_out,
    callbacks=[
        TrainingCheckpoint(output / "checkpoints", every_seconds=600),
        keras.callbacks.EarlyStopping("val_perplexity", mode="min", patience=5),
        keras.callbacks.CSVLogger(str(output / "log.csv"), append=True),
    ],
)

# 6. What came of it: each word scored once, and a folder that ElmoLayer, bilm-tf and AllenNLP load.
report = perplexity(model, arguments.held_out, vocabulary)
print(f"Held-out perplexity {report.perplexity:.1f}, {report.unknown_rate:.2%} unknown words")
model.export_hdf5(output / "model")
vectors = ElmoLayer(output / "model")([["The", "first", "words", "."]])
print(f"Vectors of {vectors.shape[-1]} numbers from {output / 'model'}")
