"""The command `keras-elmo embed`."""

import io
import itertools
import os
import re
import sys

from keras_elmo.cli.common import MODEL_HELP, add_number, print_table
from keras_elmo.text.reader import counted

_MAX_SHOWN = 20
_MAX_SHOWN_WORDS = 1000


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "embed",
        parents=[common],
        help="turn sentences into word vectors",
        description="Turns tokenized sentences into word vectors: shows the first numbers of each "
        "word's vector and the words of the input with the nearest ones, or writes all vectors to "
        "a file. Tokens are separated by white space, also from punctuation. After a kill, the "
        "same command with --resume continues the file.",
    )
    add = command.add_argument
    add(
        "sentences",
        nargs="*",
        metavar="SENTENCE",
        help="a sentence in quotes; with --output also a text file",
    )
    add(
        "--input",
        metavar="FILE",
        help="read sentences from a UTF-8 text file, one per line, plain, .gz, .xz or .jsonl; '-' "
        "is the standard input, which is also read if no sentence is passed",
    )
    add("--field", help="the field of JSON lines that holds the sentence (default: text)")
    add("--model", default="default", help=MODEL_HELP)
    add(
        "--vocabulary",
        metavar="FILE",
        help="the words of a model that reads whole words, in the order of its table",
    )
    add(
        "--vectors",
        choices=("mix", "layers", "top"),
        default="mix",
        help="the mean of all layers, as a new ElmoLayer returns it; every layer, as "
        "bilm-tf stores them; or the top layer (default: %(default)s)",
    )
    add("--pooling", choices=("mean", "max"), help="one vector per sentence; needs --output")
    add(
        "--compute-dtype",
        choices=("float32", "bfloat16"),
        help="dtype of the computation; bfloat16 needs half the memory, and is faster on "
        "processors with bfloat16 instructions (default: float32)",
    )
    add_number(command, "--batch-tokens", 2048, "tokens in a batch")
    add_number(command, "--neighbors", 3, "nearest words to show for each word")
    group = command.add_argument_group("writing vectors to a file")
    add = group.add_argument
    add(
        "--output",
        metavar="FILE",
        help="write all vectors instead of showing some: FILE.h5, with a dataset for each line "
        "named 0, 1, ... as bilm-tf does; or FILE.parquet, a folder",
    )
    dtype_help = "dtype of the stored vectors (default: float32)"
    add("--dtype", choices=("float32", "float16"), help=dtype_help)
    add("--compression", choices=("gzip",), help="compress the stored vectors")
    add_number(
        group,
        "--max-line-tokens",
        100_000,
        "longest line to embed; longer ones are reported and get no vectors",
    )
    exclusive = group.add_mutually_exclusive_group()
    exclusive.add_argument(
        "--resume",
        action="store_true",
        help="continue FILE after a kill; --ray always does",
    )
    exclusive.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    group = command.add_argument_group("on a Ray cluster")
    group.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="embed text shards (--input 'shards/*') on the cluster at ADDRESS, or on this machine "
        "without one, to a folder of Parquet files, --output",
    )
    add_number(
        group, "--actors", None, "processes, each with a model (default: one for every two cores)"
    )
    command.set_defaults(run=_embed, check=_check, renamed={"output": "--vectors"})


def _check(arguments, parser):
    sentences, is_on_ray = arguments.sentences, arguments.ray is not None
    files = list(filter(os.path.isfile, sentences))
    if sentences and arguments.input:
        parser.error("pass sentences or --input, not both")
    arguments.source = None if arguments.input == "-" else arguments.input
    if arguments.output is None:
        for option in ("pooling", "ray", "dtype", "compression", "resume", "overwrite"):
            if getattr(arguments, option) not in (None, False):
                parser.error(f"--{option} needs --output")
        if arguments.vectors == "layers":
            parser.error("--vectors layers needs --output: a table shows one vector for each word")
        if files == sentences and len(files) == 1:
            parser.error(f"{files[0]} is a file: read it with --input {files[0]}")
    elif len(sentences) > 1 and files:
        parser.error(
            f"{files[0]} is a file: pass one file with --input {files[0]}, or many with "
            "--ray, a pattern in quotes and a folder: --input 'shards/*' --output FOLDER"
        )
    elif files:
        (arguments.source,) = files
    elif len(sentences) == 1 and re.fullmatch(r"\S+\.\w+", sentences[0]):
        parser.error(f"the file {sentences[0]} does not exist. For a sentence, use --input -")
    if arguments.actors and not is_on_ray:
        parser.error("--actors needs --ray")
    if is_on_ray and arguments.source is None:
        parser.error("--ray needs text files: --input 'shards/*'")
    if is_on_ray and arguments.overwrite:
        parser.error("--ray does not overwrite: remove the folder, or choose another --output")
    if not is_on_ray:
        is_piped = sys.stdin is not None and (arguments.input == "-" or not sys.stdin.isatty())
        if not sentences and arguments.source is None and not is_piped:
            parser.error("no sentence: pass one in quotes, --input FILE, or pipe text in")


def _embed(arguments):
    if arguments.ray is not None:
        _embed_on_ray(arguments)
    elif arguments.output is not None:
        _embed_to_file(arguments)
    else:
        _embed_to_terminal(arguments)


def _embed_to_file(arguments):
    report = _embedder(arguments).embed_file(
        _source(arguments),
        arguments.output,
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        **_file_options(arguments),
    )
    _print_oddities(report)
    if not report.lines:
        _print_no_words(0)
    rate = report.tokens / max(report.seconds, 1e-9)
    done = f"{counted(report.tokens, 'token')} at {rate:,.0f} a second"
    if arguments.resume:
        done = "it was complete" if report.was_complete else f"in this run {done}"
    print(
        f"Wrote the vectors of {counted(report.lines, 'sentence')} to {arguments.output} ({done})"
    )


def _embed_to_terminal(arguments):
    import numpy as np

    from keras_elmo.text.reader import read_records

    records = read_records(_source(arguments), arguments.field, arguments.max_line_tokens)
    shown = _first_sentences(records)
    _print_reasons((i, record.error) for i, record in enumerate(shown) if record.error)
    sentences = [record.tokens for record in shown]
    if not any(sentences):
        _print_no_words(len(shown))
        return
    vectors = _embedder(arguments).embed(sentences, output=arguments.vectors)
    _show_vectors(sentences, np.concatenate(vectors), arguments.neighbors)
    if next(records, None) is not None:
        first = counted(len(shown), "sentence")
        print(f"Only the first {first} are shown. Write all with --output FILE.h5")


def _first_sentences(records):
    """The records that are shown: a table of all words of a book would be useless."""
    shown, num_words = [], 0
    for record in itertools.islice(records, _MAX_SHOWN):
        shown.append(record)
        num_words += len(record.tokens)
        if num_words >= _MAX_SHOWN_WORDS:
            break
    return shown


def _print_no_words(num_lines):
    """Prints that the first lines of the input have no words: not an error, a pipe may be empty."""
    lines = counted(num_lines, "line")
    what = f"no words in the first {lines}" if num_lines else "the input is empty"
    print(f"keras-elmo: {what}", file=sys.stderr)


def _print_oddities(report):
    _print_reasons(report.reasons)
    if report.failed > len(report.reasons):
        print(f"keras-elmo: ... {report.failed:,} such lines in all", file=sys.stderr)
    if report.invalid_lines:
        lines = counted(report.invalid_lines, "line")
        print(f"keras-elmo: {lines} with invalid UTF-8 (those bytes dropped)", file=sys.stderr)


def _print_reasons(reasons):
    """Prints why lines could not be read: the shard if there are several, the line, the reason."""
    for *shard, line, reason in reasons:
        place = ", ".join([*shard, f"line {line + 1:,}"])
        print(f"keras-elmo: {place}: {reason}", file=sys.stderr)


def _embed_on_ray(arguments):
    from keras_elmo.embedding.distributed import embed_shards

    report = embed_shards(
        arguments.source,
        arguments.output,
        model=arguments.model,
        address=arguments.ray or None,
        num_actors=arguments.actors,
        embedder=_embedder_options(arguments),
        **_file_options(arguments),
    )
    _print_oddities(report)
    print(
        f"Wrote the vectors of {counted(report.lines, 'sentence')} in "
        f"{counted(report.shards, 'shard')} to {arguments.output} "
        f"({report.skipped:,} already there)"
    )


def _source(arguments):
    """The text file, or an open text: the sentences given, one a line, or the standard input."""
    if arguments.source is not None:
        return arguments.source
    if not arguments.sentences:
        return sys.stdin.buffer
    lines = (b" ".join(os.fsencode(text).split()) + b"\n" for text in arguments.sentences)
    return io.BytesIO(b"".join(lines))


def _embedder(arguments):
    from keras_elmo.embedding.embedder import Embedder

    return Embedder(arguments.model, **_embedder_options(arguments))


def _embedder_options(arguments):
    return {
        "batch_tokens": arguments.batch_tokens,
        "dtype": arguments.compute_dtype,
        "vocabulary": arguments.vocabulary,
    }


def _file_options(arguments):
    names = ("pooling", "field", "max_line_tokens", "compression")
    options = {name: getattr(arguments, name) for name in names}
    return {"output": arguments.vectors, "dtype": arguments.dtype or "float32", **options}


def _show_vectors(sentences, vectors, num_neighbors):
    from rich.table import Table

    from keras_elmo.analysis import nearest

    words = [(i, _text(token)) for i, tokens in enumerate(sentences, 1) for token in tokens]
    table = Table()
    for column in ("", "word", f"vector of {vectors.shape[-1]} numbers", "nearest words"):
        table.add_column(column, overflow="fold")
    last_sentence = None
    for (sentence, word), vector, near in zip(words, vectors, nearest(vectors, num_neighbors)):
        is_first, last_sentence = sentence != last_sentence, sentence
        if is_first:
            table.add_section()
        values = " ".join(f"{value:6.3f}" for value in vector[:3])
        shown = []
        for j, cosine in near:
            other, neighbor = words[j]
            mark = "" if other == sentence else f" ({other})"
            shown.append(f"{neighbor}{mark} {cosine:.2f}")
        table.add_row(str(sentence) if is_first else "", word, f"{values} ...", ", ".join(shown))
    print_table(table)
    print("Nearest by cosine, among the words above; (n) is another sentence.")


def _text(token):
    """A token as it can be shown: control characters would move the cursor."""
    text = token.decode("utf-8", "replace") if isinstance(token, bytes) else token
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
