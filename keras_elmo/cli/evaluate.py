"""The command `keras-elmo evaluate`, and how it and other commands load a language model."""

import contextlib
import json
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from keras_elmo.atomic import atomic_write
from keras_elmo.cli import numbers
from keras_elmo.config import ElmoConfig
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.checkpoint import (
    latest_checkpoint,
    load_checkpoint,
    read_checkpoint_state,
)
from keras_elmo.training.evaluation import bilm_tf_perplexity, perplexity
from keras_elmo.training.language_model import BidirectionalLanguageModel


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "evaluate",
        parents=[common],
        help="the perplexity of a text",
        description="Scores every word of text files once, forward and backward, by the full "
        "softmax.",
    )
    command.add_argument(
        "model",
        metavar="MODEL",
        help="a folder with options.json, weights.hdf5, softmax.hdf5 and vocabulary.txt (as "
        "`train` and `export` write it), or a checkpoint",
    )
    command.add_argument("files", nargs="+", metavar="FILES", help="paths or quoted patterns")
    command.add_argument("--vocab", metavar="FILE", help="the vocabulary, if not in the folder")
    command.add_argument("--batch-size", type=numbers.positive, metavar="N", help="default: 64")
    command.add_argument(
        "--per-sentence",
        metavar="FILE",
        help="write a JSON line for each sentence, with the score of each word in nats",
    )
    command.add_argument(
        "--bilm-tf",
        action="store_true",
        help="the figure of bilm-tf's own test: state carried from sentence to sentence, the tail "
        "dropped, batch 256",
    )
    command.set_defaults(run=_evaluate)


def _evaluate(arguments, parser):
    if arguments.bilm_tf and arguments.per_sentence:
        parser.error("--bilm-tf gives one figure for the whole text: leave out --per-sentence")
    model, vocabulary = load_language_model(arguments.model, arguments.vocab)
    if arguments.bilm_tf:
        batch_size = arguments.batch_size or 256
        value, steps = bilm_tf_perplexity(model, arguments.files, vocabulary, batch_size=batch_size)
        print(f"bilm-tf's perplexity: {value:.4f} (mean of {steps:,} steps of {batch_size} rows)")
        return
    if arguments.per_sentence is None:
        print_perplexity(model, arguments.files, vocabulary, arguments.batch_size)
        return
    with (
        atomic_write(arguments.per_sentence) as partial,
        open(partial, "w", encoding="utf-8") as file,
    ):

        def write(score):
            row = {
                "perplexity": round(score.perplexity, 4),
                "tokens": score.tokens,
                "forward": [round(float(x), 5) for x in score.forward],
            }
            if score.backward is not None:
                row["backward"] = [round(float(x), 5) for x in score.backward]
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

        print_perplexity(model, arguments.files, vocabulary, arguments.batch_size, write)
    print(f"Wrote the scores of each sentence to {arguments.per_sentence}")


def print_perplexity(model, files, vocabulary, batch_size=None, on_sentence=None):
    """Scores files, as `perplexity` does, and prints its report."""
    with _counting_sentences() as advance:

        def scored(score):
            advance()
            if on_sentence is not None:
                on_sentence(score)

        report = perplexity(
            model, files, vocabulary, batch_size=batch_size or 64, on_sentence=scored
        )
    directions = f"forward {report.forward:.2f}"
    if report.backward is not None:
        directions += f", backward {report.backward:.2f}"
    print(f"Perplexity: {report.perplexity:.2f} ({directions})")
    print(
        f"Text: {report.sentences:,} sentences, {report.tokens:,} tokens, "
        f"{report.unknown_rate:.2%} of them not in the vocabulary"
    )
    for oddity in report.text.oddities():
        print(f"      {oddity}")


@contextlib.contextmanager
def _counting_sentences():
    """Shows on a terminal how many sentences were scored; yields what counts one more."""
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} sentences"), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stderr.isatty(), console=Console(stderr=True)) as progress:
        task = progress.add_task("scoring", total=None)
        yield lambda: progress.advance(task)


def load_language_model(path, vocabulary_path):
    """A language model and its vocabulary, from a folder or a checkpoint."""
    path = Path(path)
    if path.is_dir() and (path / "options.json").exists():
        vocabulary = Vocabulary.from_file(vocabulary_path or path / "vocabulary.txt")
        config = ElmoConfig.from_json(path / "options.json")
        tied = bool(config.training_options.get("share_embedding_softmax"))
        model = plain_model(config, len(vocabulary), tied)
        if not model.load_hdf5(path):
            raise FileNotFoundError(
                f"There is no softmax.hdf5 in {path}: a perplexity needs the softmax. Evaluate the "
                "checkpoint, or export it with `keras-elmo export`."
            )
        return model, vocabulary
    checkpoint = checkpoint_at(path)
    folder = path if path.is_dir() else path.resolve().parent.parent
    vocabulary = Vocabulary.from_file(vocabulary_path or folder / "vocabulary.txt")
    return _model_of_checkpoint(checkpoint), vocabulary


def checkpoint_at(path):
    """A checkpoint's path from its own or its training's folder."""
    found = path if path.is_file() else latest_checkpoint(path / "checkpoints")
    if found is None:
        raise FileNotFoundError(
            f"{path} is neither a checkpoint, nor a training's folder, nor one with options.json."
        )
    return found


def _model_of_checkpoint(path):
    state = read_checkpoint_state(path)
    model = BidirectionalLanguageModel.from_config(state["model"])
    model.compile("sgd")
    load_checkpoint(path, model, optimizer=False)
    return model


def plain_model(config, vocabulary_size, tied=False):
    """A language model to be loaded, not trained."""
    return BidirectionalLanguageModel(
        config, vocabulary_size, carry_state=False, share_embedding_softmax=tied
    )


def export_checkpoint(checkpoint, folder):
    """Writes the files of a language model in training, its softmax and vocabulary too."""
    model, vocabulary = load_language_model(checkpoint, None)
    model.export_hdf5(folder)
    vocabulary.write(os.path.join(folder, "vocabulary.txt"))
