"""The command line: `keras-elmo`."""

import argparse
import os
import sys
import traceback
from pathlib import Path

from rich.table import Table

from keras_elmo.cli import embed, evaluate, export, train, vocab
from keras_elmo.cli.embed import console
from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.download import model_files
from keras_elmo.pretrained.registry import get_model, list_models
from keras_elmo.pretrained.weight_table import count_parameters, weight_table
from keras_elmo.version import __version__

_BYTES_PER_PARAMETER = 4


def main(argv=None):
    """Runs `keras-elmo` with the given arguments, or those of the process.

    Returns:
        The exit code: 0, or 1 after an error that was reported in one line. Wrong usage leaves with
        `SystemExit(2)`.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments, parser)
        return 0
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing may be written to it any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("keras-elmo: interrupted", file=sys.stderr)
        return 1
    except Exception as error:
        if getattr(arguments, "debug", False):
            traceback.print_exc()
        print(f"keras-elmo: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1


def _parser():
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the whole traceback of an error",
    )
    parser = argparse.ArgumentParser(
        prog="keras-elmo",
        description="ELMo: word vectors that depend on the whole sentence.",
        epilog='Begin with: keras-elmo embed "The bank raised its rates ." "We sat on the bank ."',
        parents=[common],
    )
    parser.add_argument("--version", action="version", version=f"keras-elmo {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    embed.add_commands(commands, common, _MODEL_HELP)
    _add_info(commands, common)
    _add_models(commands, common)
    vocab.add_command(commands, common)
    train.add_command(commands, common)
    evaluate.add_command(commands, common)
    export.add_command(commands, common, _A_MODEL)
    return parser


def _add_info(commands, common):
    command = commands.add_parser(
        "info",
        parents=[common],
        help="show a model's architecture, size and layers",
        description="Shows a model's architecture, parameters, memory and the shapes of its "
        "layers. Downloads nothing.",
    )
    command.add_argument("model", nargs="?", default="default", help=_MODEL_HELP)
    command.set_defaults(run=_info)


def _add_models(commands, common):
    command = commands.add_parser(
        "models",
        parents=[common],
        help="list the models known by name",
        description="Lists the models that are known by name.",
    )
    command.set_defaults(run=_models)


_A_MODEL = (
    "a name from `keras-elmo models`, or a folder or zip file with options.json and weights.hdf5"
)
_MODEL_HELP = f"{_A_MODEL} (default: %(default)s)"


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
    table = Table()
    for column in ("layer", "input", "output"):
        table.add_column(column, overflow="fold")
    table.add_column("parameters", justify="right")
    for layer, source, target, size in rows:
        table.add_row(layer, source, target, f"{size:,}")
    console().print(table)
    print("B sentences of T tokens; the two more are a sentence's boundaries.")


def _models(*_):
    table = Table()
    table.add_column("model", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("download", justify="right", no_wrap=True)
    table.add_column("description", overflow="fold")
    for name in list_models():
        model = get_model(name)
        download = "none" if model.is_local else _download_size(model)
        table.add_row(name, _parameters(model), download, model.description)
    console().print(table)
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
