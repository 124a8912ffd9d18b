"""The command line: `keras-elmo`."""

import argparse
import os
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
from keras_elmo.startup import import_keras
from keras_elmo.version import __version__

_COMMANDS = (embed, explore, dump_words, info, models, vocab, train, evaluate, export)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `keras-elmo` with the given arguments; by default, with `sys.argv[1:]`.

    Returns the exit code: 0, or 1 after an error, reported in one line. Wrong usage exits with 2.
    """
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # words may have characters that the terminal lacks
            stream.reconfigure(errors="backslashreplace")
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
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        print("keras-elmo: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        is_of_stream = isinstance(error, OSError) and error.errno and error.filename is None
        if is_of_stream and not _can_print():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
            if isinstance(error, BrokenPipeError):  # nobody reads, as with `| head`
                return 0
        if debug:
            traceback.print_exc()
        message = to_cli_names(" ".join(str(error).split()), arguments.names)
        message = message or type(error).__name__
        print(f"keras-elmo: error: {message}", file=sys.stderr)
        return 1


def _replace_closed_streams():
    """Opens the null device in place of closed streams, as by `>&-`.

    Otherwise the next file that is opened would have their number, and what others print.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def _can_print():
    try:
        print(flush=True)
    except OSError:
        return False
    return True


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
