"""A text file to a file of vectors, in constant memory; a killed job can be resumed."""

import dataclasses
import hashlib
import itertools
import json
import os
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from keras_elmo.embedding.vector_spec import VectorSpec
from keras_elmo.embedding.writers import VectorWriter, open_writer
from keras_elmo.pretrained.registry import check_language
from keras_elmo.progress import progress_bar
from keras_elmo.text.reader import Record, pluralize, read_records, text_language, unit_of
from keras_elmo.text.tokenize import tokenizer_name
from keras_elmo.text.tokens import token_bytes, without_padding
from keras_elmo.text.vocabulary import BEGIN, END

MAX_REASONS = 20  # the most unreadable lines that a report lists


@dataclasses.dataclass
class EmbeddedFile:
    """The report of `Embedder.embed_file`."""

    lines: int = 0  # in the file of vectors, including earlier runs
    was_complete: bool = False  # an earlier run had completed the file, which was left unchanged
    tokens: int = 0  # embedded by this run
    seconds: float = 0.0  # of this run, excluding loading the model
    failed: int = 0  # lines of this run that could not be read, embedded as empty ones
    invalid_lines: int = 0  # of this run, with bytes that are not UTF-8, which are dropped
    unit: str = "line"  # what messages call a line: a line, record, sentence or entry
    reasons: list[tuple] = dataclasses.field(default_factory=list)
    """For the first lines that could not be read, the line's number from 0, or the identifier of an
    entry of a FASTA file, and the reason."""

    def add(self, record: Record) -> None:
        """Counts the next line."""
        if record.error is not None:
            self.failed += 1
            place = self.lines if record.name is None else record.name
            self._add_reasons([(place, record.error)])
        self.lines += 1
        self.tokens += len(record.tokens)
        self.invalid_lines += not record.is_utf8

    def check_any_read(self, source: object) -> None:
        """Raises ValueError if no line of the source could be read."""
        if 0 < self.failed == self.lines:
            raise ValueError(
                f"{source}: none of {pluralize(self.lines, self.unit)} could be read. The first "
                f"one: {self.reasons[0][-1]}."
            )

    def merge(self, name: str, report: "EmbeddedFile") -> None:
        """Adds the counts of the file `name`, and its reasons with the name before each."""
        for count in ("lines", "tokens", "failed", "invalid_lines"):
            setattr(self, count, getattr(self, count) + getattr(report, count))
        self._add_reasons((name, *reason) for reason in report.reasons)

    def _add_reasons(self, reasons):
        self.reasons += itertools.islice(reasons, max(0, MAX_REASONS - len(self.reasons)))


def run_file_job(
    embedder: Any,
    source: str | os.PathLike[str] | BinaryIO,
    output: str | os.PathLike[str],
    spec: VectorSpec,
    reading: dict[str, Any],
    **writer_options,
) -> EmbeddedFile:
    """`Embedder.embed_file` for an `embedder`.

    `reading` is passed to `read_records`, `writer_options` to `open_writer`.
    """
    is_path = isinstance(source, (str, os.PathLike))
    path: Any = source if is_path else getattr(source, "name", None)
    name = "The text" if path is None else path
    num_bytes = os.path.getsize(path) if is_path else None
    settings = {
        "model": fingerprint(embedder),
        **dataclasses.asdict(spec),
        **reading,
        "tokenize": tokenizer_name(reading["tokenize"]),
    }
    with (
        open_writer(output, settings, [path, *embedder.sources], **writer_options) as writer,
        progress_bar("embedding", num_bytes, unit="bytes", shown=embedder.progress) as bar,
    ):
        writer.unit = unit_of(source, **reading)
        check_language(embedder.layer.language, text_language(source, **reading))
        records = read_records(source, num_known=writer.num_lines, **reading)
        records = _with_own_names(records, name)
        _skip(records, writer, name)
        report = EmbeddedFile(writer.num_lines, writer.is_finished, unit=writer.unit)
        start = time.monotonic()
        for block in embedder.pairs(records, lambda record: record.sentences, spec):
            writer.write([(_of_rows(record, spec), array) for record, array in block])
            for record, _ in block:
                report.add(record)
            rate = report.tokens / max(time.monotonic() - start, 1e-9)
            lines = pluralize(report.lines, report.unit)
            bar.set_postfix_str(f"{lines}, {rate:,.0f} tokens/s", refresh=False)
            bar.update(record.position - bar.n)
        try:
            report.check_any_read(name)
        except ValueError:
            writer.discard()
            raise
        writer.finish()
    report.seconds = time.monotonic() - start
    return report


def fingerprint(embedder: Any) -> str:
    """A short hash of all that the vectors of an `Embedder` depend on."""
    layer = embedder.layer
    config = embedder.config
    words = None if config.reads_text else embedder.vocabulary
    options = dataclasses.replace(config, training_options={}).to_dict()
    options.pop("n_tokens_vocab", None)  # the softmax's size, or the size of the words hashed below
    settings = {
        "compute_dtype": embedder.compute_dtype,
        "config": options,
        "mix": [layer.use_top_only, layer.layer_norm],
        "vocabulary": [token_bytes(word).decode() for word in words or ()],
        "lexicon": None if layer.lexicon is None else layer.lexicon.to_dict(),
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    # Without the state of a stateful layer, which is not used here.
    parts = [layer.token_encoder, layer.bilm, *layer.mixes]
    weights = [weight for part in parts for weight in part.get_weights()]
    for weight in weights:
        digest.update(weight.tobytes())
    return digest.hexdigest()[:32]


def _of_rows(record: Record, spec: VectorSpec) -> Record:
    """The record with the tokens of its vectors: boundaries are tokens as well."""
    if not spec.boundaries:
        return record
    sentences = []
    for sentence in record.sentences or [[]]:
        words = without_padding(sentence)
        sentences.append([BEGIN, *words, END, *sentence[len(words) :]])
    return record._replace(sentences=sentences)


def _with_own_names(records: Iterator[Record], source) -> Iterator[Record]:
    """The records, after checking that no two have the same name."""
    taken = {"", "."}  # which no dataset of an hdf5 file can be named
    for number, record in enumerate(records, start=1):
        if record.name in taken:
            raise ValueError(
                f"Expected each entry of {source} to have its own identifier, got {record.name!r} "
                f"for entry {number:,}, which is missing or belongs to an earlier entry. Rename it."
            )
        if record.name is not None:
            taken.add(record.name)
        yield record


def _skip(records: Iterator[Record], writer: VectorWriter, source):
    """Reads the lines that were embedded before, and checks that they are the same."""
    digest, known = None, pluralize(writer.num_lines, writer.unit)
    for record in itertools.islice(records, writer.num_lines):
        digest = record.digest
    if digest != writer.digest:
        raise ValueError(
            f"{source} does not begin with the {known} that {writer.name} holds: resume "
            "with the same text, or write to a different name."
        )
    if writer.is_finished and next(records, None) is not None:
        raise ValueError(
            f"{source} has more than the {known} of {writer.name}, which is complete: replace it "
            "with overwrite=True, or write the new part to a different name."
        )
