"""The command `keras-elmo explore`."""

from keras_elmo.cli.common import EMBEDDER_HELP, add_number
from keras_elmo.pretrained.locate import find_model_files, is_keras_file


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "explore",
        parents=[common],
        help="look at a model in the browser",
        description="Serves a page, only to this machine, that shows characters and filters, "
        "similarities between words, the uses of a word, and, for a model with a softmax (the "
        "bundled one, or the folder of a training run), how unlikely the language model finds each "
        "word. Ctrl-C ends it.",
    )
    command.add_argument("--model", default="default", help=EMBEDDER_HELP)
    add_number(command, "--port", 8501, "port of the page, http://127.0.0.1:PORT")
    command.add_argument("--no-browser", action="store_true", help="do not open the page")
    command.set_defaults(run=_explore, needs_keras=False)


def _explore(arguments):
    from keras_elmo.explore import serve

    if not is_keras_file(arguments.model):
        find_model_files(arguments.model)  # a wrong name is an error here, not on the page
    print(f"Serving {arguments.model} at http://127.0.0.1:{arguments.port} (Ctrl-C ends it)")
    serve(arguments.model, port=arguments.port, open_browser=not arguments.no_browser)
