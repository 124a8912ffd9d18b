"""The command `keras-elmo evaluate`."""

import contextlib
import json
import math

from keras_elmo.cli.common import add_field, add_number, add_overwrite, add_tokenize
from keras_elmo.files import atomic_write, check_output
from keras_elmo.pretrained.language_models import find_language_model
from keras_elmo.pretrained.locate import ModelFiles
from keras_elmo.progress import progress_bar
from keras_elmo.text.reader import find_files, pluralize


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
        "`train` and `export` write it), a checkpoint, also bilm-tf's own, or default, the bundled "
        "model",
    )
    command.add_argument("files", nargs="+", metavar="FILES", help="paths or quoted patterns")
    add_tokenize(command)
    add_field(command)
    command.add_argument(
        "--vocab", metavar="FILE", help="the vocabulary file, if it is not in the folder"
    )
    size = "sentences in a batch (default: 64); fewer are faster if some are very long"
    add_number(command, "--batch-size", None, size)
    command.add_argument(
        "--per-sentence",
        metavar="FILE",
        help="write a JSON line for each sentence, with the score of each word in nats, and "
        "of the sentence's end (the last forward score) and beginning (the first backward score)",
    )
    add_overwrite(command, "the file of --per-sentence if it exists")
    command.add_argument(
        "--bilm-tf",
        action="store_true",
        help="compute the perplexity as bilm-tf's own test does: the state is carried from "
        "sentence to sentence, the last, incomplete window is dropped, and the batch size is 256 "
        "(unlike in bilm-tf, blank lines are skipped, and only ASCII white space separates tokens)",
    )
    command.add_argument(
        "--compare-with",
        metavar="MODEL",
        help="another model, such as default: prints the perplexities of both over the words that "
        "are in both vocabularies",
    )
    command.set_defaults(check=_check, run=_evaluate, renamed={"vocabulary": "--vocab"})


def _check(arguments, parser):
    for option in ("per_sentence", "compare_with"):
        if arguments.bilm_tf and getattr(arguments, option):
            option = option.replace("_", "-")
            parser.error(f"--bilm-tf gives one figure for the whole text: leave out --{option}")
    found = find_language_model(arguments.model, needs_softmax=True)
    if arguments.compare_with:
        arguments.other = find_language_model(arguments.compare_with, needs_softmax=True)
    files = find_files(arguments.files)
    paths = [found]
    if isinstance(found, ModelFiles):  # else a run, which may save a later checkpoint meanwhile
        arguments.model, paths = found, found.paths
    if arguments.per_sentence:
        sources = [*files, arguments.vocab, *paths]
        check_output(arguments.per_sentence, sources, arguments.overwrite)


def _evaluate(arguments):
    from keras_elmo.training.evaluation import (
        bilm_tf_perplexity,
        perplexity,
        shared_perplexities,
    )
    from keras_elmo.training.index import CorpusIndex
    from keras_elmo.training.loading import load_language_model, saved_model
    from keras_elmo.training.settings import recorded_tokenizer

    saved = saved_model(arguments.model, needs_softmax=True)
    tokenize = arguments.tokenize
    if tokenize is None:
        tokenize = recorded_tokenizer(saved.record)
    text = CorpusIndex.build(arguments.files, tokenize=tokenize, field=arguments.field)
    model, vocabulary = load_language_model(saved, arguments.vocab)
    if arguments.bilm_tf:
        batch_size = arguments.batch_size or 256
        value, steps = bilm_tf_perplexity(model, text, vocabulary, batch_size=batch_size)
        size = f"{pluralize(steps, 'step')} of {pluralize(batch_size, 'row')}"
        print(f"bilm-tf's perplexity: {value:.4f} (mean of {size})")
        return
    path, file = arguments.per_sentence, None
    with contextlib.ExitStack() as stack:
        if path is not None:
            partial = stack.enter_context(atomic_write(path, arguments.overwrite))
            file = stack.enter_context(open(partial, "w", encoding="utf-8"))
        bar = stack.enter_context(progress_bar("scoring", unit="sentences"))

        def scored(score):
            bar.update()
            if file is not None:
                file.write(json.dumps(_row(score), ensure_ascii=False) + "\n")

        size = arguments.batch_size or 64
        report = perplexity(model, text, vocabulary, batch_size=size, on_sentence=scored)
    print_report(report)
    if arguments.compare_with:
        models = [(model, vocabulary), load_language_model(arguments.other)]
        (own, other), share = shared_perplexities(models, text, size)
        print(
            f"Perplexity over the {share:.1%} of the words and sentence ends that both know: "
            f"{own:.2f}, of {arguments.compare_with} {other:.2f}"
        )
    if path is not None:
        print(f"Wrote the scores of each sentence to {path}")


def _row(score):
    losses = {"forward": score.forward, "backward": score.backward}
    return {
        "perplexity": _number(score.perplexity, 4),
        "tokens": score.tokens,
        **{
            name: [_number(float(loss), 5) for loss in values]
            for name, values in losses.items()
            if values is not None
        },
    }


def _number(x, digits):
    """A number of JSON, which has neither infinity nor NaN."""
    return round(x, digits) if math.isfinite(x) else None


def print_report(report):
    """Prints a `PerplexityReport`."""
    directions = f"forward {report.forward:.2f}"
    if report.backward is not None:
        directions += f", backward {report.backward:.2f}"
    print(f"Perplexity: {report.perplexity:.2f} ({directions})")
    print(
        f"Text: {pluralize(report.sentences, 'sentence')}, {pluralize(report.tokens, 'token')}, "
        f"{report.unknown_rate:.2%} of them not in the vocabulary"
    )
    for warning in report.text.warnings():
        print(f"      {warning}")
