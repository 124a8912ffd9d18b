"""The command `keras-elmo train`."""

import contextlib
import dataclasses
import logging
import sys

from keras_elmo.cli import numbers
from keras_elmo.cli.evaluate import print_report
from keras_elmo.training.presets import PRESETS
from keras_elmo.training.settings import LEARNING_RATES, SCHEDULES, TrainingSettings


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "train",
        parents=[common],
        help="train a language model, or resume a training",
        description="Trains a biLM on text files (one tokenized sentence a line; plain, .gz or "
        ".xz). The same command started again resumes a training that was stopped.",
    )
    command.add_argument("files", nargs="+", metavar="FILES", help="paths or quoted patterns")
    command.add_argument("--output", required=True, metavar="FOLDER", help="everything goes here")
    command.add_argument(
        "--vocab",
        dest="vocabulary",
        metavar="FILE",
        help="the vocabulary (default: made of the 50,000 most frequent words)",
    )
    architecture = command.add_mutually_exclusive_group()
    architecture.add_argument(
        "--preset",
        choices=sorted(PRESETS),
        help="architecture (default: %(default)s)",
    )
    architecture.add_argument(
        "--options", metavar="FILE", help="architecture and settings from bilm-tf's options.json"
    )
    command.add_argument(
        "--start-from",
        metavar="MODEL",
        help="begin with the weights of a published model's name, a training's folder or "
        "checkpoint, a folder with options.json and weights.hdf5, or a TensorFlow 1 checkpoint of "
        "bilm-tf; the architecture is then that model's",
    )
    command.add_argument(
        "--start-vocab",
        dest="start_vocabulary",
        metavar="FILE",
        help="the vocabulary of that model, if it is not in its folder",
    )
    command.add_argument(
        "--devices",
        type=numbers.positive,
        metavar="N",
        help="split each batch over so many devices (TensorFlow, JAX; default: %(default)s)",
    )
    command.add_argument(
        "--process",
        metavar="I/N",
        help="with JAX: this is the I-th (from 0) of N processes that train together",
    )
    command.add_argument(
        "--hosts",
        metavar="HOST:PORT,...",
        help="with --process: the address of each process, the same list for all",
    )
    command.add_argument("--held-out", nargs="+", metavar="FILES", help="text to evaluate on")
    command.add_argument("--epochs", type=numbers.positive_float, metavar="N", help="default: 1")
    command.add_argument("--steps", type=numbers.positive, metavar="N", help="instead of --epochs")
    command.add_argument("--batch-size", type=numbers.positive, metavar="N", help="default: 128")
    command.add_argument("--unroll-steps", type=numbers.positive, metavar="N", help="default: 20")
    command.add_argument("--dropout", type=numbers.fraction, metavar="P", help="default: 0.1")
    command.add_argument(
        "--negatives",
        type=numbers.count,
        metavar="N",
        help="words drawn for the sampled softmax; 0 for the full softmax (default: 8192)",
    )
    command.add_argument(
        "--optimizer",
        choices=sorted(LEARNING_RATES),
        help="adagrad is bilm-tf's (default: %(default)s)",
    )
    command.add_argument(
        "--learning-rate",
        type=numbers.positive_float,
        metavar="X",
        help="default: 0.2 for adagrad, 0.001 for adam",
    )
    command.add_argument(
        "--schedule",
        choices=SCHEDULES,
        help="cosine falls to zero all the way to the end; trapezoid holds the learning rate and "
        "falls in the last --cooldown-steps, which can be chosen when the training is resumed "
        "(default: %(default)s)",
    )
    command.add_argument(
        "--warmup-steps",
        type=numbers.count,
        metavar="N",
        help="with cosine or trapezoid: steps over which the learning rate rises (default: "
        "%(default)s)",
    )
    command.add_argument(
        "--cooldown-steps",
        type=numbers.count,
        metavar="N",
        help="with trapezoid: steps at the end over which the learning rate falls to zero "
        "(default: %(default)s)",
    )
    command.add_argument(
        "--clip-norm",
        type=numbers.not_negative_float,
        metavar="X",
        help="bound on the global norm of the gradient of loss times unroll steps; 0 for none "
        "(default: 10)",
    )
    command.add_argument(
        "--uniform-bias",
        action="store_true",
        help="start the softmax with all words alike, as bilm-tf does, not by their frequency",
    )
    command.add_argument("--seed", type=int, metavar="N", help="default: %(default)s")
    command.add_argument(
        "--evaluate-every",
        type=numbers.positive,
        metavar="STEPS",
        help="report, and evaluate on the held-out text (default: %(default)s)",
    )
    command.add_argument(
        "--evaluate-sentences",
        type=numbers.positive,
        metavar="N",
        help="sentences of the held-out text to evaluate on then; the end takes all "
        "(default: %(default)s)",
    )
    command.add_argument(
        "--checkpoint-seconds",
        type=numbers.positive,
        metavar="N",
        help="time between checkpoints (default: %(default)s)",
    )
    command.add_argument(
        "--keep",
        type=numbers.positive,
        metavar="N",
        help="checkpoints to keep (default: %(default)s)",
    )
    command.add_argument(
        "--dtype", metavar="POLICY", help="a Keras dtype policy such as mixed_bfloat16"
    )
    command.add_argument(
        "--tensorboard", action="store_true", help="log for TensorBoard too (needs TensorFlow)"
    )
    fields = dataclasses.fields(TrainingSettings)
    defaults = {one.name: one.default for one in fields if one.default is not dataclasses.MISSING}
    command.set_defaults(check=_check, run=_train, **defaults)


def _check(arguments, parser):
    names = [field.name for field in dataclasses.fields(TrainingSettings)]
    try:
        arguments.settings = TrainingSettings(**{name: getattr(arguments, name) for name in names})
    except ValueError as error:
        parser.error(str(error))


def _train(arguments, _):
    from keras_elmo.training.run import train

    with _printed_log():
        result = train(arguments.settings, show_progress=None)
    if result.report is not None:
        print_report(result.report)
    folder = str(result.folder)
    print(f"Wrote the model to {folder}: ElmoLayer({folder!r})")


@contextlib.contextmanager
def _printed_log():
    """Prints what the library logs."""
    log, handler = logging.getLogger("keras_elmo"), logging.StreamHandler(sys.stdout)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
