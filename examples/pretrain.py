"""Pre-train a biLM on your own text.

    python examples/pretrain.py text.txt --output my_elmo
    python examples/pretrain.py "training-monolingual.tokenized.shuffled/*" \
        --held-out "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-*" --output my_elmo

The text has one tokenized sentence per line, plain, .gz or .xz, or any other format of `keras-elmo
train`, which does the same without a program. This one is meant to be read and changed. Training
can be stopped at any time; the same command resumes it.
"""

import argparse
import logging

import keras

from keras_elmo import ElmoConfig, ElmoLayer, TrainingSettings, train

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("files", help="the text: a path, or a pattern in quotes")
parser.add_argument("--held-out", help="text to evaluate on (default: the end of the text)")
parser.add_argument("--output", required=True, help="folder for checkpoints and the model")
parser.add_argument("--steps", type=int, help="training steps (default: what fits the text)")
parser.add_argument("--lstm-dim", type=int, default=512)
parser.add_argument("--projection-dim", type=int, default=128)
arguments = parser.parse_args()
logging.basicConfig(format="%(message)s", level=logging.INFO)

# 1. The architecture: a character CNN, and LSTMs in both directions. Its input is characters, so no
#    input word is unknown.
config = ElmoConfig(
    filters=((1, 16), (2, 32), (3, 64), (4, 96), (5, 128)),
    num_highway=1,
    lstm_dim=arguments.lstm_dim,
    projection_dim=arguments.projection_dim,
)

# 2. The settings. Those that are left out follow from the size of the text: optimizer, learning
#    rate, dropout, batch size and length, and which words are frequent enough for the vocabulary,
#    which the model learns to predict. They are written to training.json.
settings = TrainingSettings(
    files=arguments.files,
    held_out=arguments.held_out,
    output=arguments.output,
    options=config.to_dict(),
    steps=arguments.steps,
    seed=1,
)


# 3. The training. It ends when the held-out perplexity has stopped falling, and keeps the best
#    weights. Any Keras callback can watch it: an epoch lies between two checkpoints.
class LearningCurve(keras.callbacks.Callback):
    """Collects the held-out perplexities."""

    def __init__(self):
        super().__init__()
        self.values = []

    def on_epoch_end(self, epoch, logs=None):
        self.values.append(round(logs["val_perplexity"], 1))


curve = LearningCurve()
result = train(settings, callbacks=[curve], show_progress=None)
print("Held-out perplexities:", *curve.values)

# 4. The result: each held-out word scored once, and a folder that ElmoLayer, bilm-tf and AllenNLP
#    load.
report = result.report
print(f"Held-out perplexity {report.perplexity:.1f}, {report.unknown_rate:.2%} unknown words")
vectors = ElmoLayer(result.folder)([["The", "first", "words", "."]])
print(f"Vectors of {vectors.shape[-1]} numbers from {result.folder}")
