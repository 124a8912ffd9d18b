"""The command `keras-elmo info`."""

from keras_elmo.cli.common import MODEL_HELP, print_table
from keras_elmo.pretrained.catalog import LEXICON_ARCHITECTURE
from keras_elmo.pretrained.download import download_folder
from keras_elmo.pretrained.locate import find_model_files
from keras_elmo.pretrained.model_card import describe
from keras_elmo.pretrained.registry import known_model
from keras_elmo.pretrained.weight_table import weight_table


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "info",
        parents=[common],
        help="show a model's architecture, size and layers",
        description="Shows a model's architecture, parameters, memory and the shapes of its "
        "layers. Downloads nothing, except from the Hugging Face Hub (hf://).",
    )
    command.add_argument("model", nargs="?", default="default", help=MODEL_HELP)
    command.set_defaults(run=_info, needs_keras=False)


def _info(arguments):
    model, details = arguments.model, [("model", arguments.model)]
    known = known_model(model)
    if known is not None:
        names = ("description", "language", "tokenization", "license")
        details += [(name, value) for name in names if (value := getattr(known, name))]
    if known is None or known.local_path is not None or download_folder(known).is_dir():
        files = find_model_files(model)
        config = files.config
        if files.place.is_file():
            details.append(("archive", _with_size(files.place)))
        else:
            details.append(("options file", files.options))
            details.append(("weights file", _with_size(files.weights)))
    else:
        config = known.config
        names = ("options file", "weights file") if len(known.files) == 2 else ("archive",)
        details += zip(names, known.files)
        if known.archive:
            details.append(("archive", known.archive))
        if config is None:
            hint = f"known from its files: load it once with ElmoLayer({known.name!r})"
            details += LEXICON_ARCHITECTURE if known.has_lexicon else [("architecture", hint)]
    for name, value in [*details, *(describe(config) if config else ())]:
        print(f"{name + ':':<16}{value}")
    if config:
        _show_layers(config)


def _with_size(path):
    return f"{path} ({path.stat().st_size / 1e6:.1f} MB)"


def _show_layers(config):
    from rich.table import Table

    sizes = {"token_encoder": 0, "bilm": 0}
    for entry in weight_table(config):
        sizes[entry.variables[0].split(".")[0]] += entry.size
    dim, depth = config.projection_dim, config.num_layers + 1
    table = Table()
    for column in ("layer", "input", "output"):
        table.add_column(column, overflow="fold")
    table.add_column("parameters", justify="right")
    ids, encoder = "(B, T+2)", "WordEmbedding"
    if config.reads_text:
        ids = f"(B, T+2, {config.row_width})"
        encoder = "LexiconEmbedding" if config.word_dim else "CharCNNEmbedding"
        strings = "LexiconEncoder" if config.has_lexicon else "UnicodeCharEncoder"
        table.add_row(strings, "strings (B,) or (B, T)", ids, "0")
    tokens, layers = f"(B, T+2, {dim})", f"(B, {depth}, T+2, {config.output_dim})"
    table.add_row(encoder, ids, tokens, f"{sizes['token_encoder']:,}")
    table.add_row("BiLMStack", tokens, layers, f"{sizes['bilm']:,}")
    mix = layers.replace("T+2", "T"), f"(B, T, {config.output_dim})"
    table.add_row("WeightedLayerSum", *mix, str(depth + 1))
    print_table(table)
    print("B sentences of T tokens; the two more are a sentence's boundaries.")
