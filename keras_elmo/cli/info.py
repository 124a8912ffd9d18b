"""The command `keras-elmo info`."""

from pathlib import Path

from keras_elmo.cli.common import BYTES_PER_PARAMETER, MODEL_HELP, print_table
from keras_elmo.pretrained.locate import find_downloaded, locate
from keras_elmo.pretrained.registry import get_model, list_models
from keras_elmo.pretrained.weight_table import count_parameters, weight_table


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


def _info(arguments):
    config, facts = _model_facts(arguments.model)
    for name, value in [*facts, *(_architecture(config) if config else ())]:
        print(f"{name + ':':<16}{value}")
    if config:
        _show_layers(config)


def _model_facts(model):
    """The config of a model, if it is known without a download, and what else is known of it."""
    facts = [("model", model)]
    if model in list_models():
        known = get_model(model)
        for name in ("description", "language", "tokenization", "license"):
            if value := getattr(known, name):
                facts.append((name, value))
        if known.local_path is None:
            return _facts_of_published(known, facts)
    with locate(model) as files:
        archive = known.local_path if model in list_models() else Path(model).expanduser()
        if archive.is_file():
            facts.append(("archive", _with_size(archive)))
        else:
            facts += [("options file", files.options), ("weights file", _with_size(files.weights))]
        return files.config, facts


def _with_size(path):
    return f"{path} ({path.stat().st_size / 1e6:.1f} MB)"


def _facts_of_published(known, facts):
    address = known.locations[0]
    if known.is_archive:
        facts.append(("archive", address))
    else:
        facts.append(("options file", f"{address}/{known.options_file}"))
        facts.append(("weights file", f"{address}/{known.weights_file}"))
    config = known.config
    if config is None and (files := find_downloaded(known)):
        config = files.config
    if config is None:
        hint = f"known from its files: load it once with ElmoLayer({known.name!r})"
        facts += known.architecture or [("architecture", hint)]
    return config, facts


def _architecture(config):
    parameters = count_parameters(config)
    if config.has_lexicon and config.word_dim:
        yield "words", f"{config.vocabulary_size:,} in the lexicon, {config.word_dim} numbers each"
    if config.reads_characters:
        filters = ", ".join(f"{number} of width {width}" for width, number in config.filters)
        dim, width = config.char_embedding_dim, config.max_characters_per_token
        table = f"{config.num_characters:,} in the lexicon, " if config.has_lexicon else ""
        yield "characters", f"{table}{dim} numbers each, at most {width} a token"
        yield "convolutions", f"{filters}; {config.activation}"
        yield "highway layers", config.num_highway
    elif not config.has_lexicon:
        yield "words", f"{config.vocabulary_size:,} in the vocabulary"
    lstm = f"{config.num_layers} layers of {config.lstm_dim} units"
    directions = "forward and backward" if config.bidirectional else "forward"
    yield "LSTM", f"{lstm}, projected to {config.projection_dim}, {directions}"
    clips = zip(("cell", "projection"), (config.cell_clip, config.proj_clip))
    yield "clips", ", ".join(f"{x} {'none' if clip is None else f'{clip:g}'}" for x, clip in clips)
    skip = config.use_skip_connections
    yield "skip", "layers after the first add their input" if skip else "none"
    yield "parameters", f"{parameters:,}"
    yield "memory", f"{parameters * BYTES_PER_PARAMETER / 1e6:.1f} MB in float32"
    yield "word vector", f"{config.output_dim} numbers, in each of {config.num_layers + 1} layers"


def _show_layers(config):
    from rich.table import Table

    sizes = {"token_encoder": 0, "bilm": 0}
    for entry in weight_table(config):
        sizes[entry.variables[0].split(".")[0]] += entry.size
    dim, depth = config.projection_dim, config.num_layers + 1
    ids, encoder, rows = "(B, T+2)", "WordEmbedding", []
    if config.reads_text:
        ids = f"(B, T+2, {config.row_width})"
        encoder = "LexiconEmbedding" if config.word_dim else "CharCNNEmbedding"
        strings = "LexiconEncoder" if config.has_lexicon else "UnicodeCharEncoder"
        rows.append((strings, "strings (B,) or (B, T)", ids, 0))
    layers = f"(B, {depth}, T+2, {config.output_dim})"
    mix = layers.replace("T+2", "T"), f"(B, T, {config.output_dim})"
    rows += [
        (encoder, ids, f"(B, T+2, {dim})", sizes["token_encoder"]),
        ("BiLMStack", f"(B, T+2, {dim})", layers, sizes["bilm"]),
        ("WeightedLayerSum", *mix, depth + 1),
    ]
    table = Table()
    for column in ("layer", "input", "output"):
        table.add_column(column, overflow="fold")
    table.add_column("parameters", justify="right")
    for layer, source, target, size in rows:
        table.add_row(layer, source, target, f"{size:,}")
    print_table(table)
    print("B sentences of T tokens; the two more are a sentence's boundaries.")
