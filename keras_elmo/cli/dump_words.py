"""The command `keras-elmo dump-words`."""

from keras_elmo.cli.common import MODEL_HELP, add_overwrite, check_output, files_of_model


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "dump-words",
        parents=[common],
        help="write the token vectors of a vocabulary",
        description="Writes the token vectors of a vocabulary, what the character encoder makes of "
        "each word, as bilm-tf's dump_token_embeddings does: for WordCache.from_files.",
    )
    command.add_argument("vocabulary", metavar="VOCABULARY", help="text file of one word a line")
    command.add_argument("--output", required=True, metavar="FILE.h5")
    add_overwrite(command, "FILE.h5 if it exists")
    command.add_argument("--model", default="default", help=MODEL_HELP)
    command.set_defaults(check=_check, run=_dump_words)


def _check(arguments, parser):
    sources = [arguments.vocabulary, *files_of_model(arguments.model)]
    check_output(arguments.output, sources, arguments.overwrite)


def _dump_words(arguments):
    from keras_elmo.embedding.embedder import Embedder
    from keras_elmo.text.vocabulary import read_words

    words = read_words(arguments.vocabulary)
    Embedder(arguments.model, word_cache=0).dump_words(words, arguments.output)
    print(f"Wrote the token vectors of {len(words):,} words to {arguments.output}")
