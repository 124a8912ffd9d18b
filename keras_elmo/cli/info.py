"""The command `keras-elmo info`."""

from pathlib import Path

from keras_elmo.cli.common import MODEL_HELP, print_table
from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.download import model_files
from keras_elmo.pretrained.registry import get_model, list_models
from keras_elmo.pretrained.weight_table import count_parameters, weight_table

_BYTES_PER_PARAMETER = 4


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "info",
        parents=[common],
        help="show a model's architecture, size and layers",
        description="Shows a model's architecture, parameters, memory and the shapes of its "
        "layers. Downloads nothing.",
    )
    command.add_argument("model", nargs="?", default="default", help=MODEL_HELP)
    command.set_defaults(run=_info, needs_keras=False)


def _info(arguments, _):
    config, facts = _model_facts(arguments.model)
    for name, value in facts + _architecture(config):
        print(f"{name + ':':<16}{value}")
    _show_layers(config)


def _model_facts(model):
    """The config of a model and what is known of its files, without a download."""
    known = get_model(model) if model in list_models() else None
    if known is not None and not known.is_local:
        if known.config is None:
            raise ValueError(
                f"The architecture of {model!r} is known only from its files, which are at "
                f"{known.locations[0]}. Load it once with ElmoLayer({model!r})."
            )
        names = {"options file": known.options_file, "weights file": known.weights_file}
        addresses = [(kind, f"{known.locations[0]}/{name}") for kind, name in names.items()]
        return known.config, [*_known_facts(known), *addresses]
    with model_files(model) as (options, weights):
        config = ElmoConfig.from_json(options)
        files = [("options file", options), ("weights file", _file_size(weights))]
    return config, [*(_known_facts(known) if known else [("model", model)]), *files]


def _known_facts(known):
    return [
        ("model", known.name),
        ("description", known.description),
        ("tokenization", known.tokenization),
        ("license", known.license),
    ]


def _file_size(path):
    return f"{path} ({Path(path).stat().st_size / 1e6:.1f} MB)"


def _architecture(config):
    parameters = count_parameters(config)
    rows = []
    if config.reads_characters:
        filters = ", ".join(f"{number} of width {width}" for width, number in config.filters)
        rows += [
            (
                "characters",
                f"{config.char_embedding_dim} numbers each, at most "
                f"{config.max_characters_per_token} a token",
            ),
            ("convolutions", f"{filters}; {config.activation}"),
            ("highway layers", config.num_highway),
        ]
    else:
        rows.append(("words", f"{config.vocabulary_size:,} in the vocabulary"))
    directions = "forward and backward" if config.bidirectional else "forward"
    clips = f"cell {_number(config.cell_clip)}, projection {_number(config.proj_clip)}"
    return [
        *rows,
        (
            "LSTM",
            f"{config.num_layers} layers of {config.lstm_dim} units, projected to "
            f"{config.projection_dim}, {directions}",
        ),
        ("clips", clips),
        (
            "skip",
            "layers after the first add their input" if config.use_skip_connections else "none",
        ),
        ("parameters", f"{parameters:,}"),
        ("memory", f"{parameters * _BYTES_PER_PARAMETER / 1e6:.1f} MB in float32"),
        ("word vector", f"{config.output_dim} numbers, in each of {config.num_layers + 1} layers"),
    ]


def _number(clip):
    return "none" if clip is None else f"{clip:g}"


def _show_layers(config):
    sizes = {"token_encoder": 0, "bilm": 0}
    for entry in weight_table(config):
        sizes[entry.variables[0].split(".")[0]] += entry.size
    width, dim = config.max_characters_per_token, config.projection_dim
    depth = config.num_layers + 1
    ids = f"(B, T+2, {width})" if config.reads_characters else "(B, T+2)"
    encoder = "CharCNNEmbedding" if config.reads_characters else "WordEmbedding"
    layers = f"(B, {depth}, T+2, {config.output_dim})"
    rows = [
        (encoder, ids, f"(B, T+2, {dim})", sizes["token_encoder"]),
        ("BiLMStack", f"(B, T+2, {dim})", layers, sizes["bilm"]),
        ("WeightedLayerSum", layers.replace("T+2", "T"), f"(B, T, {config.output_dim})", depth + 1),
    ]
    if config.reads_characters:
        rows.insert(0, ("UnicodeCharEncoder", "strings (B,) or (B, T)", ids, 0))
    from rich.table import Table

    table = Table()
    for column in ("layer", "input", "output"):
        table.add_column(column, overflow="fold")
    table.add_column("parameters", justify="right")
    for layer, source, target, size in rows:
        table.add_row(layer, source, target, f"{size:,}")
    print_table(table)
    print("B sentences of T tokens; the two more are a sentence's boundaries.")
