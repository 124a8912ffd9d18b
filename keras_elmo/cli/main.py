"""The command line: `keras-elmo`."""

import argparse
import sys
import traceback
from collections.abc import Sequence

from keras_elmo.cli import (
    dump_words,
    embed,
    evaluate,
    explore,
    export,
    info,
    models,
    train,
    vocab,
)
from keras_elmo.cli.common import log_to_console, to_cli_names
from keras_elmo.cli.streams import lasting_streams
from keras_elmo.startup import import_keras
from keras_elmo.version import __version__

_COMMANDS = (embed, explore, dump_words, info, models, vocab, train, evaluate, export)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `keras-elmo` with the given arguments; by default, with `sys.argv[1:]`.

    Returns the exit code: 0, or 1 after an error, reported in one line, a failed download in a few.
    Wrong usage exits with 2. A command ends its work also if its standard output is full, which is
    an error, or nobody reads it, which is none.
    """
    with lasting_streams() as output:
        code = _run(argv)
        output.flush()
        if output.error is None or isinstance(output.error, BrokenPipeError):
            return code
        return _fail(f"Standard output cannot be written to: {output.error.strerror}")


def _run(argv):
    parser = _parser()
    arguments = parser.parse_args(argv)
    debug = getattr(arguments, "debug", False)
    if "tokenize" in arguments and arguments.language is not None:
        arguments.tokenize = arguments.language
    options = {name: "--" + name.replace("_", "-") for name in vars(arguments)}
    arguments.names = options | arguments.renamed
    try:
        arguments.check(arguments, parser)
        if arguments.needs_keras:
            import_keras(show_messages=debug)
        with log_to_console(arguments.names, complete=arguments.prints_log):
            arguments.run(arguments)
        return 0
    except KeyboardInterrupt:
        print("keras-elmo: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if debug:
            traceback.print_exc()
        # Only a failed download is reported in several lines, with the URLs in lines of their own.
        lines = str(error).splitlines() if isinstance(error, ConnectionError) else [str(error)]
        message = "\n".join(" ".join(line.split()) for line in lines)
        message = to_cli_names(message, arguments.names)
        nothing = "Not enough memory" if isinstance(error, MemoryError) else type(error).__name__
        return _fail(message or nothing)


def _fail(message):
    print(f"keras-elmo: error: {message}", file=sys.stderr)
    return 1


def _parser():
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the traceback of an error, and the start-up messages of the backend",
    )
    parser = argparse.ArgumentParser(
        prog="keras-elmo",
        description="ELMo: word vectors that depend on the whole sentence.",
        epilog='Begin with: keras-elmo embed "They play cards ." "He wrote a play ."',
        parents=[common],
    )
    parser.add_argument("--version", action="version", version=f"keras-elmo {__version__}")
    parser.set_defaults(
        needs_keras=True, prints_log=False, check=lambda arguments, parser: None, renamed={}
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_command(commands, common)
    return parser
