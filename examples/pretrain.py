"""Pre-train a biLM on 1B-Word-style shards.

    python examples/pretrain.py "training-monolingual.tokenized.shuffled/*" \
        --held-out "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-*" --output my_elmo

The text has one tokenized sentence per line, plain, .gz or .xz. Training can be stopped at any
time; the same command resumes it. It ends early when the held-out perplexity has not improved for
five evaluations, and keeps the best weights since the command was started; the same command then
continues it. `keras-elmo train` does the same without a program, except for the early
stopping; this program is meant to be read and changed.

What to expect, measured with `keras-elmo train` and the same architecture and optimizer: on 65 M
words of books with a vocabulary of 60,003 words, a held-out perplexity (full softmax) of 199
after 1,000 of 11,500 steps of 128 x 20 words, which took 12 minutes on two CPU cores.
"""

import argparse
import logging
from pathlib import Path

import keras

from keras_elmo import (
    ElmoConfig,
    ElmoLayer,
    TrainingSettings,
    Vocabulary,
    count_words,
    train,
)

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("files", help="pattern of the training shards, in quotes")
parser.add_argument("--held-out", required=True, help="text to evaluate on")
parser.add_argument("--output", required=True, help="folder for checkpoints and the model")
parser.add_argument("--words", type=int, default=50_000, help="size of the vocabulary")
parser.add_argument("--batch-size", type=int, help="rows of a batch (default: what fits the text)")
parser.add_argument("--steps", type=int, help="training steps in all (default: 10 epochs at most)")
parser.add_argument("--lstm-dim", type=int, default=512)
parser.add_argument("--projection-dim", type=int, default=128)
arguments = parser.parse_args()
output = Path(arguments.output)
output.mkdir(parents=True, exist_ok=True)
logging.basicConfig(format="%(message)s", level=logging.INFO)

# 1. The vocabulary: the most frequent words, which the model learns to predict. Its input is
#    characters, so no input word is unknown.
counts = count_words(arguments.files)
print(f"{counts.stats.tokens:,} tokens", *counts.stats.warnings(), sep="; ")
vocabulary = Vocabulary.from_counts(counts.counts, size=arguments.words)
path = output / "vocabulary.txt"
if path.exists() and Vocabulary.from_file(path) != vocabulary:
    parser.error(f"{output} was created with a different text or --words: choose another --output")
vocabulary.write(path)

# 2. The plan, which depends only on the size of the text. A step predicts batch_size x 20 words.
#    Little text gets smaller batches, for at least 100 steps an epoch, and is not read more than
#    ten times, since more would overfit.
UNROLL_STEPS, words = 20, counts.stats.predictions
batch_size = arguments.batch_size or min(128, max(1, words // (100 * UNROLL_STEPS)))
epoch = words // (batch_size * UNROLL_STEPS)
steps = arguments.steps or max(1, min(20_000, 10 * epoch))
print(f"{steps:,} steps of {batch_size} x {UNROLL_STEPS} words, {steps / max(epoch, 1):.1f} epochs")

# 3. The model.
config = ElmoConfig(
    filters=((1, 16), (2, 32), (3, 64), (4, 96), (5, 128)),
    num_highway=1,
    lstm_dim=arguments.lstm_dim,
    projection_dim=arguments.projection_dim,
)

# 4. The settings. The defaults are bilm-tf's; in a short training Adam with a decaying learning
#    rate reaches a lower perplexity. The number of words sampled for the softmax trades speed for
#    precision; evaluation always uses the full softmax.
settings = TrainingSettings(
    files=arguments.files,
    held_out=arguments.held_out,
    output=output,
    vocabulary=path,
    options=config.to_dict(),
    batch_size=batch_size,
    unroll_steps=UNROLL_STEPS,
    steps=steps,
    checkpoint_every=max(1, steps // 20),
    dropout=0.0,
    negatives=4096,
    optimizer="adam",
    learning_rate=0.002,
    schedule="cosine",
    warmup_steps=min(200, steps // 10),
    seed=1,
)

# 5. The training. Any Keras callback can watch it: an epoch lies between two checkpoints.
stop = keras.callbacks.EarlyStopping(
    "val_perplexity", mode="min", patience=5, restore_best_weights=True
)
result = train(settings, callbacks=[stop], show_progress=None)

# 6. The result: each held-out word scored once, and a folder that ElmoLayer, bilm-tf and AllenNLP
#    load.
report = result.report
print(f"Held-out perplexity {report.perplexity:.1f}, {report.unknown_rate:.2%} unknown words")
vectors = ElmoLayer(result.folder)([["The", "first", "words", "."]])
print(f"Vectors of {vectors.shape[-1]} numbers from {result.folder}")
