"""The command `keras-elmo embed`."""

import argparse
import io
import itertools
import os
import re
import sys

from keras_elmo.arguments import check_vectors
from keras_elmo.cli.common import (
    EMBEDDER_HELP,
    add_field,
    add_number,
    add_tokenize,
    print_table,
    to_cli_names,
)
from keras_elmo.embedding.writers import check_vectors_output
from keras_elmo.pretrained.registry import check_language
from keras_elmo.text.formats import FORMATS
from keras_elmo.text.reader import (
    READING_OPTIONS,
    check_text,
    pluralize,
    read_records,
    text_language,
    unit_of,
)

_MANY_FILES = (
    "many with --ray, a pattern in quotes and a folder: --input 'shards/*' --output FOLDER"
)
_MAX_SHOWN = 20
_JOINERS = "\u200c\u200d"  # parts of words, for example in Persian and Hindi
_PROCESSOR = "/proc/cpuinfo"
_SLOW_SECONDS = 180  # of which bfloat16 saves a minute or more
_WRITING = ("compression", "resume", "overwrite")


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "embed",
        parents=[common],
        help="turn sentences into word vectors",
        description="Turns tokenized sentences into word vectors: shows the first numbers of each "
        "word's vector and the words of the input with the nearest ones, or writes all vectors to "
        "a file. Without --tokenize, tokens are separated by white space, also from punctuation. "
        "After a kill, the same command with --resume continues the file.",
    )
    add = command.add_argument
    add("sentences", nargs="*", metavar="SENTENCE", help="a sentence in quotes, or a text file")
    add(
        "--input",
        metavar="FILE",
        help="read sentences from a UTF-8 text file, one per line, or from JSON (.jsonl, .json), "
        "CoNLL-U (.conllu) or FASTA (.fasta), also .gz or .xz; '-' is the standard input, which is "
        "also read if no sentence is passed",
    )
    add_tokenize(command)
    add_field(command)
    format_help = "the format of the text, whatever the name of its file"
    add("--format", choices=tuple(FORMATS), help=format_help)
    add("--model", default="default", help=EMBEDDER_HELP)
    add(
        "--vocabulary",
        metavar="FILE",
        help="the words of a model that reads whole words, in the order of its table",
    )
    add(
        "--vectors",
        type=_vectors,
        default="mix",
        metavar="KIND",
        help="mix, the mean of all layers, as a new ElmoLayer returns it; layers, every layer, as "
        "bilm-tf stores them; concat, every layer, concatenated; top, the top layer; average; "
        "sum, the sum of all layers, as SeqVec takes it; or the number of a layer, 0 for the token "
        "vectors (default: %(default)s)",
    )
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
        "named 0, 1, ... as bilm-tf does, or for each protein; FILE.npz, with such arrays; or "
        "FILE.parquet, a folder",
    )
    add(
        "--keep-fields",
        type=lambda names: [name.strip() for name in names.split(",")],
        metavar="NAMES",
        help="further fields of JSON to write, separated by commas, such as id,label: columns of "
        "Parquet, attributes in hdf5",
    )
    add("--pooling", choices=("mean", "max"), help="one vector per sentence")
    add("--boundaries", action="store_true", help="keep the vectors of sentences' <S> and </S>")
    dtype_help = "dtype of the stored vectors (default: float32)"
    add("--dtype", choices=("float32", "float16"), help=dtype_help)
    add("--compression", choices=("gzip",), help="compress the stored vectors")
    longest = "maximum tokens per line; longer ones are reported and get no vectors"
    add_number(group, "--max-line-tokens", 100_000, longest)
    existing = group.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue FILE after a kill")
    existing.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    existing.add_argument(
        "--ray",
        nargs="?",
        const=True,
        metavar="ADDRESS",
        help="embed text shards (--input 'shards/*') on the Ray cluster at ADDRESS, or on this "
        "machine without one, to a folder of Parquet files, --output; always resumes",
    )
    actors_help = "with --ray: processes, each with a model (default: one for every two cores)"
    add_number(group, "--actors", None, actors_help)
    command.set_defaults(run=_embed, check=_check)


def _vectors(text):
    try:
        return check_vectors(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(error) from error


def _check(arguments, parser):
    names = ("pooling", "boundaries", "dtype", "keep_fields", *_WRITING)
    needs = dict.fromkeys(names, "output")
    for name, needed in {**needs, "ray": "output", "actors": "ray"}.items():
        if getattr(arguments, name) and not getattr(arguments, needed):
            option = "--" + name.replace("_", "-")
            parser.error(f"{option} needs --{needed}")
    if arguments.vectors == "layers" and not arguments.output:
        parser.error("--vectors layers needs --output: a table shows one vector for each word")
    arguments.source = _source(arguments, parser)
    if arguments.ray and not isinstance(arguments.source, str):
        parser.error("--ray needs text files: --input 'shards/*'")
    if arguments.ray:
        return
    if arguments.output:
        writing = {name: getattr(arguments, name) for name in _WRITING}
        check_vectors_output(arguments.output, [arguments.source], **writing)
    if isinstance(arguments.source, str):
        check_text(arguments.source, **{name: getattr(arguments, name) for name in READING_OPTIONS})


def _source(arguments, parser):
    """The text: a file, or an open one with the given sentences or the standard input."""
    sentences, source = arguments.sentences, arguments.input
    files = list(filter(os.path.isfile, sentences))
    if sentences and source:
        parser.error("pass sentences or --input, not both; --input takes one file")
    if len(sentences) > 1 and files:
        parser.error(
            f"{files[0]} is a file: pass one file with --input {files[0]}, or {_MANY_FILES}"
        )
    is_one = arguments.ray or not source or os.path.isfile(source)
    if not is_one and (os.path.isdir(source) or re.search(r"[*?\[]", source)):
        parser.error(f"--input {source} is not a file: pass one file, or {_MANY_FILES}")
    if files or source not in (None, "-"):
        return source or files[0]
    if len(sentences) == 1 and _is_file_name(sentences[0]):
        parser.error(f"the file {sentences[0]} does not exist. For a sentence, use --input -")
    if sentences:
        return io.BytesIO(b"".join(b" ".join(os.fsencode(x).split()) + b"\n" for x in sentences))
    if sys.stdin is None or (source is None and sys.stdin.isatty()):
        parser.error("no sentence: pass one in quotes, --input FILE, or pipe text in")
    return sys.stdin.buffer


def _is_file_name(text):
    """Whether a sentence seems to be the name of a missing file, unlike "U.S" and "3.14"."""
    endings = (".txt", ".gz", ".xz", *(x for format in FORMATS.values() for x in format.endings))
    return text.lower().endswith(endings) or re.fullmatch(r"\S*/\S+\.\w+", text) is not None


def _embed(arguments):
    options = {
        "batch_tokens": arguments.batch_tokens,
        "compute_dtype": arguments.compute_dtype,
        "vocabulary": arguments.vocabulary,
    }
    if arguments.ray:
        _embed_on_ray(arguments, options)
        return
    from keras_elmo.embedding.embedder import Embedder

    embedder = Embedder(arguments.model, **options)
    if arguments.output:
        _embed_to_file(arguments, embedder)
    else:
        _embed_to_terminal(arguments, embedder)


def _embed_to_file(arguments, embedder):
    writing = {name: getattr(arguments, name) for name in ("resume", "overwrite")}
    report = embedder.embed_file(
        arguments.source, arguments.output, **writing, **_file_options(arguments)
    )
    _print_problems(report, arguments.names)
    is_slow = report.seconds >= _SLOW_SECONDS and embedder.compute_dtype == "float32"
    if is_slow and _computes_in_bfloat16():
        print(
            "keras-elmo: this processor has bfloat16 instructions: --compute-dtype bfloat16 would "
            "have been faster, in half the memory, with errors of about 0.5 %",
            file=sys.stderr,
        )
    rate = report.tokens / max(report.seconds, 1e-9)
    done = f"{pluralize(report.tokens, 'token')} at {rate:,.0f} a second"
    if arguments.resume:
        done = "it was complete" if report.was_complete else f"in this run {done}"
    lines = pluralize(report.lines, report.unit)
    print(f"Wrote the vectors of {lines} to {arguments.output} ({done})")


def _embed_on_ray(arguments, options):
    from keras_elmo.embedding.distributed import embed_shards

    report = embed_shards(
        arguments.source,
        arguments.output,
        model=arguments.model,
        address=None if arguments.ray is True else arguments.ray,
        num_actors=arguments.actors,
        embedder=options,
        **_file_options(arguments),
    )
    _print_problems(report, arguments.names)
    print(
        f"Wrote the vectors of {pluralize(report.lines, report.unit)} in "
        f"{pluralize(report.shards, 'shard')} to {arguments.output} "
        f"({report.skipped:,} already there)"
    )


def _computes_in_bfloat16():
    """Whether TensorFlow computes on a processor with instructions for bfloat16."""
    import keras

    if keras.backend.backend() != "tensorflow" or keras.distribution.list_devices("gpu"):
        return False
    try:
        with open(_PROCESSOR, encoding="utf-8") as file:
            return re.search(r"\b(amx|avx512)_bf16\b", file.read()) is not None
    except OSError:  # not on Linux
        return False


def _file_options(arguments):
    names = (*READING_OPTIONS, "pooling", "boundaries", "compression")
    options = {name: getattr(arguments, name) for name in names}
    return {"vectors": arguments.vectors, "dtype": arguments.dtype or "float32", **options}


def _print_problems(report, names):
    """Prints why lines could not be read: the shard if there are several, the line, the reason."""
    for *shard, line, reason in report.reasons:
        number = f"{line + 1:,}" if isinstance(line, int) else line
        place = ", ".join([*shard, f"{report.unit} {number}"])
        print(f"keras-elmo: {place}: {to_cli_names(reason, names)}", file=sys.stderr)
    if report.failed > len(report.reasons):
        print(f"keras-elmo: ... {report.failed:,} in all", file=sys.stderr)
    if report.invalid_lines:
        lines = pluralize(report.invalid_lines, report.unit)
        print(f"keras-elmo: {lines} with invalid UTF-8 (those bytes dropped)", file=sys.stderr)


def _embed_to_terminal(arguments, embedder):
    import numpy as np

    from keras_elmo.analysis import tokens
    from keras_elmo.embedding.file_job import EmbeddedFile

    reading = {name: getattr(arguments, name) for name in READING_OPTIONS}
    check_language(embedder.layer.language, text_language(arguments.source, **reading))
    records = read_records(arguments.source, **reading)
    shown = list(itertools.islice(records, _MAX_SHOWN))
    report = EmbeddedFile(unit=unit_of(arguments.source, **reading))
    for record in shown:
        report.add(record)
    is_all = next(records, None) is None
    if is_all:
        report.check_any_read(arguments.source if isinstance(arguments.source, str) else "The text")
    _print_problems(report, arguments.names)
    sentences = [tokens(sentence) for record in shown for sentence in record.sentences]
    if not any(sentences):
        # Not an error: a pipe may be empty.
        print(f"keras-elmo: no words in {pluralize(len(shown), report.unit)}", file=sys.stderr)
        return
    vectors = embedder.embed(sentences, arguments.vectors)
    _show_vectors(sentences, np.concatenate(vectors), arguments.neighbors)
    if not is_all:
        lines = pluralize(_MAX_SHOWN, report.unit)
        print(f"Only the first {lines} are shown. Write all with --output FILE.h5")


def _show_vectors(sentences, vectors, num_neighbors):
    from rich.table import Table

    from keras_elmo.analysis import nearest

    words = [(i, _printable(word)) for i, words in enumerate(sentences, 1) for word in words]
    table = Table(show_edge=False, pad_edge=False)
    for column in ("", "word", f"{vectors.shape[-1]:,} numbers", "nearest words"):
        table.add_column(column, overflow="fold")
    last_sentence = None
    for (sentence, word), vector, near in zip(words, vectors, nearest(vectors, num_neighbors)):
        is_first, last_sentence = sentence != last_sentence, sentence
        if is_first:
            table.add_section()
        values = " ".join(f"{value:6.3f}" for value in vector[:2])
        shown = []
        for (other, neighbor), cosine in ((words[j], cosine) for j, cosine in near):
            shown.append(f"{neighbor}{'' if other == sentence else f' ({other})'} {cosine:.2f}")
        table.add_row(str(sentence) if is_first else "", word, f"{values} ...", ", ".join(shown))
    print_table(table)
    print("Nearest by cosine, among the words above; (n) is another sentence.")


def _printable(word):
    """A word as it can be shown: control characters would move the cursor."""
    return "".join(c if c.isprintable() or c in _JOINERS else "\ufffd" for c in word)
