"""The command `keras-elmo vocab`, and what it shares with the other ones on text."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_elmo.cli.numbers import add_number
from keras_elmo.progress import progress_bar

if TYPE_CHECKING:
    from keras_elmo.text.reader import TextReport
    from keras_elmo.text.vocabulary import WordCounts


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "vocab",
        parents=[common],
        help="count the words of a corpus and write a vocabulary file",
        description="Counts the words of text files (one tokenized sentence a line; plain, .gz or "
        ".xz) and writes the most frequent ones, one a line, as bilm-tf reads them.",
    )
    command.add_argument("files", nargs="+", metavar="FILES", help="paths or quoted patterns")
    command.add_argument("--output", required=True, metavar="FILE", help="the vocabulary to write")
    add_number(command, "--min-count", 3, "leave out words that occur less often")
    add_number(command, "--size", None, "most words to take, with the 3 specials")
    command.set_defaults(run=_vocab, needs_keras=False)


def _vocab(arguments, _):
    from keras_elmo.text.vocabulary import Vocabulary

    counts = count_corpus(arguments.files)
    vocabulary = Vocabulary.from_counts(
        counts.counts, min_count=arguments.min_count, size=arguments.size
    )
    vocabulary.write(arguments.output)
    print_corpus(counts.report)
    known = 1 - vocabulary.counts(counts)[vocabulary.unknown_id] / max(counts.report.tokens, 1)
    rarest = counts.counts[vocabulary.words[-1].encode()]
    print(
        f"Wrote {len(vocabulary):,} of {len(counts.counts) + 3:,} words to {arguments.output}: "
        f"{known:.2%} of the tokens, the rarest word occurs {rarest:,} times"
    )


def count_corpus(files: str | Sequence[str]) -> "WordCounts":
    """Counts the words of files, with a progress bar on a terminal."""
    from keras_elmo.text.reader import find_files
    from keras_elmo.text.vocabulary import count_words

    paths = find_files(files)
    with progress_bar("counting", total=sum(map(os.path.getsize, paths))) as bar:
        return count_words(paths, lambda path: bar.advance(os.path.getsize(path)))


def print_corpus(report: "TextReport") -> None:
    """Prints how much text was read, and what was odd about it."""
    sizes = f"{report.files:,} files, {report.sentences:,} sentences, {report.tokens:,} tokens"
    print(f"Corpus: {sizes}")
    for oddity in report.oddities():
        print(f"        {oddity}")
