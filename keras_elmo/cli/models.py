"""The command `keras-elmo models`."""

from keras_elmo.cli.common import print_table
from keras_elmo.pretrained.catalog import MANY_LANGUAGES
from keras_elmo.pretrained.locate import find_model_files
from keras_elmo.pretrained.registry import get_model, list_models
from keras_elmo.pretrained.weight_table import count_parameters

_BYTES_PER_PARAMETER = 4


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "models",
        parents=[common],
        help="list the models known by name",
        description="Lists the models that are known by name.",
    )
    command.add_argument(
        "--language", help="list the models of only one language, such as tr or Turkish"
    )
    command.set_defaults(run=_models, needs_keras=False)


def _models(arguments):
    from rich.columns import Columns
    from rich.table import Table

    is_complete = arguments.language is None
    table = Table()
    table.add_column("model", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("download", justify="right", no_wrap=True)
    table.add_column("description", overflow="fold")
    for name in list_models(arguments.language):
        if not (is_complete and name.startswith("many-languages/")):
            model = get_model(name)
            table.add_row(name, *_sizes(model), model.description)
    print_table(table)
    if is_complete:
        codes = [f"{code} {language}" for code, language in MANY_LANGUAGES.items()]
        print(f"many-languages/CODE is ELMoForManyLangs, for the code of {len(codes)} languages:")
        print_table(Columns(codes, padding=(0, 2), column_first=True))
    print("Tokenization, license, URLs and layers of one: keras-elmo info MODEL")


def _sizes(model):
    """The number of parameters of a model and the size of its download, as text."""
    if model.local_path is not None:
        return f"{count_parameters(find_model_files(model.name).config):,}", "none"
    num_parameters = count_parameters(model.config) if model.config else 0
    num_bytes = model.weights_bytes or num_parameters * _BYTES_PER_PARAMETER
    return (
        f"{num_parameters:,}" if num_parameters else "unknown",
        f"{num_bytes / 1e6:.0f} MB" if num_bytes else "unknown",
    )
