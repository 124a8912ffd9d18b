"""The command `keras-elmo vocab`."""

from keras_elmo.cli.common import add_field, add_number, add_overwrite, add_tokenize
from keras_elmo.files import check_output
from keras_elmo.text.reader import find_files, pluralize
from keras_elmo.text.vocabulary import VOCABULARY_LIMITS, Vocabulary, count_words


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "vocab",
        parents=[common],
        help="count the words of a corpus and write a vocabulary file",
        description="Counts the words in text files (one tokenized sentence per line, or JSON, "
        "CoNLL-U or FASTA; plain, .gz or .xz) and writes the most frequent ones in bilm-tf's "
        "format, one per line.",
    )
    command.add_argument("files", nargs="+", metavar="FILES", help="paths or quoted patterns")
    add_tokenize(command)
    add_field(command)
    command.add_argument("--output", required=True, metavar="FILE", help="the vocabulary to write")
    add_overwrite(command, "FILE if it exists")
    add_number(
        command,
        "--min-count",
        VOCABULARY_LIMITS["min_count"],
        "leave out words that occur less often",
    )
    size = "maximum number of words, including the 3 special ones"
    add_number(command, "--size", VOCABULARY_LIMITS["size"], size)
    command.set_defaults(run=_vocab, needs_keras=False)


def _vocab(arguments):
    check_output(arguments.output, find_files(arguments.files), arguments.overwrite)
    tokenize, field = arguments.tokenize, arguments.field
    words = count_words(arguments.files, tokenize=tokenize, field=field, show_progress=None)
    vocabulary = Vocabulary.from_counts(
        words.counts, min_count=arguments.min_count, size=arguments.size
    )
    vocabulary.write(arguments.output, arguments.overwrite)
    known = vocabulary.known_share(vocabulary.counts(words))
    rarest = words.counts[vocabulary.words[-1].encode()]
    print(*words.stats.lines(), sep="\n")
    print(
        f"Wrote {len(vocabulary):,} of {pluralize(len(words.counts) + 3, 'word')} to "
        f"{arguments.output}: {known:.2%} of the tokens, the rarest word occurs "
        f"{pluralize(rarest, 'time')}"
    )
