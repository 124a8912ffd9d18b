"""The command `keras-elmo models`."""

from keras_elmo.cli.common import print_table
from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.download import model_files
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
    command.set_defaults(run=_models, needs_keras=False)


def _models(*_):
    from rich.table import Table

    table = Table()
    table.add_column("model", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("download", justify="right", no_wrap=True)
    table.add_column("description", overflow="fold")
    for name in list_models():
        model = get_model(name)
        download = "none" if model.is_local else _download_size(model)
        table.add_row(name, _parameters(model), download, model.description)
    print_table(table)
    print("Tokenization, license, addresses and layers of one: keras-elmo info MODEL")


def _parameters(model):
    if model.is_local:
        with model_files(model.name) as (options, _):
            return f"{count_parameters(ElmoConfig.from_json(options)):,}"
    return f"{count_parameters(model.config):,}" if model.config else "unknown"


def _download_size(model):
    if model.weights_bytes:
        return f"{model.weights_bytes / 1e6:.0f} MB"
    if model.config:
        return f"{count_parameters(model.config) * _BYTES_PER_PARAMETER / 1e6:.0f} MB"
    return "unknown"
