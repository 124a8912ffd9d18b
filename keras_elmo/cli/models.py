"""The command `keras-elmo models`."""

from keras_elmo.cli.common import BYTES_PER_PARAMETER, print_table
from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.download import model_files
from keras_elmo.pretrained.registry import get_model, list_models
from keras_elmo.pretrained.weight_table import count_parameters


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
        table.add_row(name, *_sizes(model), model.description)
    print_table(table)
    print("Tokenization, license, addresses and layers of one: keras-elmo info MODEL")


def _sizes(model):
    """The number of parameters of a model and the size of its download, as text."""
    config, num_bytes = model.config, model.weights_bytes
    if model.local_folder is not None:
        with model_files(model.name) as (options, _):
            config = ElmoConfig.from_json(options)
    num_parameters = count_parameters(config) if config else None
    if num_bytes is None and config:
        num_bytes = num_parameters * BYTES_PER_PARAMETER
    download = f"{num_bytes / 1e6:.0f} MB" if num_bytes else "unknown"
    return (
        f"{num_parameters:,}" if config else "unknown",
        "none" if model.local_folder is not None else download,
    )
