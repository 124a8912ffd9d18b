"""Held-out perplexity of architectures, recipes or texts, at equal training cost.

    python benchmarks/training_choices.py architectures "text/*.xz" --vocab vocab.txt \
        --held-out books.txt modern.txt --seconds 1200
    python benchmarks/training_choices.py recipes ...
    python benchmarks/training_choices.py texts "books/*.xz" "modern/*.xz" "text/*.xz" ...

Each choice is timed for some steps first. It then gets as many steps as fit into the given CPU
seconds, so a model with slower steps sees less text. As for the bundled model, the optimizer is
Adam with a learning rate that decays to zero at the end. The perplexity uses the full softmax, with
every word of the first held-out sentences scored once. Prints one line of Markdown per choice and
text.
"""

import argparse
import tempfile
import time

import keras

from keras_elmo import CorpusIndex, TrainingSettings, perplexity, train
from keras_elmo.pretrained.weight_table import count_parameters
from keras_elmo.training.settings import PRESETS

RECIPE = {
    "optimizer": "adam",
    "learning_rate": 0.002,
    "schedule": "trapezoid",
    "batch_size": 256,
    "dropout": 0.0,
    "negatives": 4096,
    "compute_dtype": "mixed_bfloat16",
}
BILM_TF = {
    "optimizer": "adagrad",
    "learning_rate": 0.2,
    "schedule": "constant",
    "negatives": 1024,
    "zero_softmax_bias": True,
}
SKIPPED_STEPS, TIMED_STEPS = 5, 15


def sized(lstm_dim, projection_dim):
    """The options of `tiny` with LSTMs of a different size."""
    options = PRESETS["tiny"].to_dict()
    options["lstm"].update(dim=lstm_dim, projection_dim=projection_dim)
    return {"options": options}


LSTM_768 = sized(768, 128)
CHOICES = {
    "architectures": {
        "LSTM 512, projection 128 (`tiny`)": sized(512, 128),
        "LSTM 768, projection 128": LSTM_768,
        "LSTM 768, projection 192": sized(768, 192),
        "LSTM 1,024, projection 128": sized(1024, 128),
        "LSTM 1,024, projection 128, 2,048 filters (`small`)": {"preset": "small"},
    },
    "recipes": {
        "bilm-tf's, 1,024 negatives": {**LSTM_768, **BILM_TF},
        "with a log-frequency bias": {**LSTM_768, **BILM_TF, "zero_softmax_bias": False},
        "and Adam with a decaying rate": {**LSTM_768, "negatives": 1024},
        "and 4,096 negatives": LSTM_768,
        "and all words": {**LSTM_768, "negatives": 0},
    },
    "texts": {"LSTM 768, projection 128": LSTM_768},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=CHOICES)
    parser.add_argument("texts", nargs="+", help="patterns of training shards, in quotes")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--held-out", nargs="+", required=True)
    parser.add_argument("--seconds", type=float, default=600, help="processor time of each choice")
    parser.add_argument("--sentences", type=int, default=500, help="held-out sentences to score")
    arguments = parser.parse_args()
    held_out = [CorpusIndex.build(path).first(arguments.sentences) for path in arguments.held_out]
    columns = ["", "text", "parameters", "s per step", "words seen", *arguments.held_out]
    print_row(columns)
    print_row(["---"] * len(columns))
    for text in arguments.texts:
        for name, choice in CHOICES[arguments.what].items():
            settings = {**RECIPE, **choice, "files": text, "vocabulary": arguments.vocab}
            result, seconds, words = train_for(arguments.seconds, settings)
            scores = (
                perplexity(result.model, index, result.vocabulary).perplexity for index in held_out
            )
            parameters = f"{count_parameters(result.model.config):,}"
            figures = [parameters, f"{seconds:.2f}", f"{words:,}", *(f"{x:,.1f}" for x in scores)]
            print_row([name, text, *figures])


def train_for(seconds, settings):
    """Trains for some CPU seconds. Returns the result, the seconds per step and the words seen."""
    with tempfile.TemporaryDirectory() as folder:
        clock = StepClock()
        steps = SKIPPED_STEPS + TIMED_STEPS
        train(TrainingSettings(**settings, steps=steps, output=f"{folder}/timed"), [clock])
        steps = int(seconds / clock.seconds_per_step())
        if settings["schedule"] == "trapezoid":
            settings = {**settings, "warmup_steps": steps // 10, "cooldown_steps": steps // 5}
        result = train(TrainingSettings(**settings, steps=steps, output=f"{folder}/run"))
    words = steps * result.model.batch_size * result.model.unroll_steps
    return result, clock.seconds_per_step(), words


class StepClock(keras.callbacks.Callback):
    """Records the processor time at the end of each step."""

    def __init__(self):
        super().__init__()
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.process_time())

    def seconds_per_step(self):
        return (self.times[-1] - self.times[SKIPPED_STEPS - 1]) / TIMED_STEPS


def print_row(cells):
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
