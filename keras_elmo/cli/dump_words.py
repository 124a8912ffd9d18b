"""The command `keras-elmo dump-words`."""

from keras_elmo.cli.common import EMBEDDER_HELP, add_overwrite
from keras_elmo.files import check_output


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "dump-words",
        parents=[common],
        help="write the token vectors of a vocabulary",
        description="Writes the vectors that the character encoder computes for the words of a "
        "vocabulary, as bilm-tf's dump_token_embeddings does: for "
        "ElmoLayer(token_embeddings=...).",
    )
    command.add_argument("vocabulary", metavar="VOCABULARY", help="text file of one word per line")
    command.add_argument("--output", required=True, metavar="FILE.h5")
    add_overwrite(command, "FILE.h5 if it exists")
    command.add_argument("--model", default="default", help=EMBEDDER_HELP)
    command.set_defaults(run=_dump_words, check=_check)


def _check(arguments, parser):
    check_output(arguments.output, [arguments.vocabulary], arguments.overwrite)


def _dump_words(arguments):
    from keras_elmo.embedding.embedder import Embedder

    embedder = Embedder(arguments.model)
    num_words = embedder.dump_words(
        arguments.vocabulary, arguments.output, overwrite=arguments.overwrite
    )
    print(f"Wrote the token vectors of {num_words:,} words to {arguments.output}")
