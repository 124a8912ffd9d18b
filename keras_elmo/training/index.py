"""A text as ids on disk: made once, and mapped into memory to train."""

import collections
import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import filelock
import numpy as np

from keras_elmo.files import PARTIAL, atomic_write, sync_to_disk
from keras_elmo.progress import progress_bar
from keras_elmo.text.characters import ByteRules
from keras_elmo.text.reader import Files, TextReport, counted, find_files, open_text, valid_utf8
from keras_elmo.text.vocabulary import Vocabulary, WordCounts

BEGIN_ID, END_ID = 0, 1
"""The ids of the boundaries in an index."""

_FORMAT = 1
_BLOCK_BYTES = 1 << 21
_WORDS_ENCODED_TOGETHER = 1 << 16
_FILES = ("ids.bin", "starts.bin", "words.txt", "counts.bin")


class CorpusIndex:
    """The sentences of a text as arrays of ids, from which training and evaluation read.

    Every distinct word of the text has an id, in the order of first occurrence, whatever the
    vocabulary of a model: the same index serves all of them. An index needs 4 bytes on disk for
    each token, and memory only for its distinct words.

    Attributes:
        ids: int32 `(N,)`, the sentences one after another, each with its boundaries (ids 0 and 1).
        starts: int64 `(S + 1,)`, where in `ids` each sentence begins, and N.
        words: The distinct words, UTF-8 `bytes`; the first one has the id 2.
        counts: int64 `(len(words),)`, how often each word occurs.
        report: The `TextReport` of the reading.
        hashes: For each file its name and a hash of its text.

    Example:

    >>> index = CorpusIndex.build("shards/*", "index")
    >>> corpus = LanguageModelCorpus(index, vocabulary, batch_size=128, unroll_steps=20)
    """

    ids: np.ndarray
    starts: np.ndarray

    def __init__(self, folder: str | os.PathLike | None = None):
        self.folder = None if folder is None else Path(folder)
        self.words: list[bytes] = []
        self.counts = np.zeros(0, np.int64)
        self.report = TextReport()
        self.hashes: list[list[str]] = []
        self._build_id = ""

    @classmethod
    def build(
        cls,
        files: Files,
        folder: str | os.PathLike | None = None,
        *,
        max_sentences: int | None = None,
        show_progress: bool | None = False,
    ) -> "CorpusIndex":
        """Indexes a text, or opens the existing index of the same text in a folder.

        Args:
            files: Text with one tokenized sentence per line: a path, a glob pattern or a list of
                these; plain, .gz or .xz.
            folder: Where to keep the index; `None` for a temporary folder, removed with the index.
            max_sentences: Read only this many sentences; `None` for all.
            show_progress: Whether to show a progress bar; `None` if standard error is a terminal.

        Raises:
            FileNotFoundError: if a pattern matches no file.
            ValueError: if the text has no sentences, or a file is damaged.
        """
        paths = find_files(files)
        path = Path(tempfile.mkdtemp() if folder is None else folder)
        path.mkdir(parents=True, exist_ok=True)
        index = cls(path)
        if folder is None:
            weakref.finalize(index, shutil.rmtree, path, ignore_errors=True)
        key = {"format": _FORMAT, "files": _signatures(paths), "max_sentences": max_sentences}
        with filelock.FileLock(path / "lock"):
            if not index._open(paths, key):
                with progress_bar(
                    "reading", total=sum(map(os.path.getsize, paths)), shown=show_progress
                ) as bar:
                    index._build(paths, key, max_sentences, bar)
                index._open(paths, key)
        return index

    @classmethod
    def of_sentences(cls, sentences: Iterable[Iterable[bytes]]) -> "CorpusIndex":
        """An index in memory of sentences, each an iterable of tokens."""
        index = cls()
        block = index_sentences(list(map(list, sentences)))
        content = hashlib.blake2b(b"\n".join(block.words) + b"\n" + block.ids.tobytes())
        index.hashes = [["", content.hexdigest()[:32]]]
        index.words, index.counts, index.ids = block.words, block.counts, block.ids
        index.starts = np.concatenate([[0], np.cumsum(block.lengths, dtype=np.int64)])
        index.report = TextReport(1, len(block.lengths), int(block.counts.sum()))
        return index

    def __len__(self) -> int:
        """The number of sentences."""
        return len(self.starts) - 1

    def sentence(self, number: int) -> list[bytes]:
        """The tokens of a sentence, without boundaries."""
        ids = self.ids[self.starts[number] + 1 : self.starts[number + 1] - 1]
        return [self.words[i - 2] for i in ids]

    @property
    def word_counts(self) -> WordCounts:
        """How often each word occurs."""
        counts = collections.Counter(dict(zip(self.words, self.counts.tolist())))
        return WordCounts(counts, self.report)

    def vocabulary_ids(self, vocabulary: Vocabulary) -> np.ndarray:
        """The id in a vocabulary of each id of the index, int32 `(2 + len(words),)`."""
        boundaries = [vocabulary.begin_id, vocabulary.end_id]
        return np.array([*boundaries, *vocabulary.ids(self.words)], np.int32)

    def characters(self, max_characters_per_token: int) -> np.ndarray:
        """The characters of each id, int16 `(2 + len(words), C)`, kept on disk with the index."""
        rules = ByteRules(max_characters_per_token)
        parts = range(0, len(self.words), _WORDS_ENCODED_TOGETHER)
        parts = (self.words[start : start + _WORDS_ENCODED_TOGETHER] for start in parts)
        blocks = itertools.chain([rules.special_rows()[1:]], map(rules.encode_words, parts))
        blocks = (block.astype(np.int16) for block in blocks)
        if self.folder is None:
            return np.concatenate(list(blocks))
        path = self._path(f"characters-{rules.width}.npy")
        with filelock.FileLock(self.folder / "lock"):
            if not path.exists():
                description = {
                    "descr": np.lib.format.dtype_to_descr(np.dtype(np.int16)),
                    "fortran_order": False,
                    "shape": (len(self.words) + 2, rules.width),
                }
                with atomic_write(path) as partial, open(partial, "wb") as file:
                    np.lib.format.write_array_header_1_0(file, description)
                    for block in blocks:
                        file.write(block.tobytes())
        return np.load(path, mmap_mode="r")

    def _path(self, name):
        # Each build has its own names: an index that is open keeps its files.
        return self.folder / f"{self._build_id}-{name}"

    def _open(self, paths, key):
        """Opens the index if it is whole and of this text."""
        try:
            state = json.loads((self.folder / "index.json").read_text(encoding="utf-8"))
            self._build_id, self.hashes = str(state["build"]), state["hashes"]
            if state["key"] != key and not self._has_text_of(paths, key, state):
                return False
            self.report = TextReport(**state["report"])
            self.counts = np.fromfile(self._path("counts.bin"), np.int64)
            self.words = self._path("words.txt").read_bytes().split(b"\n")[:-1]
            self.starts = _mapped(self._path("starts.bin"), np.int64)
            self.ids = _mapped(self._path("ids.bin"), np.int32)
        except (OSError, ValueError, KeyError, TypeError):
            return False  # there is none, or it was not finished
        sizes = [len(x) for x in (self.ids, self.starts, self.words, self.counts)]
        if sizes != state["sizes"]:
            return False
        if state["key"] != key:  # so that the text is not read each time
            self._write_state({**state, "key": key})
        return True

    def _write_state(self, state):
        with atomic_write(self.folder / "index.json") as partial:
            Path(partial).write_text(json.dumps(state), encoding="utf-8")

    def _has_text_of(self, paths, key, state):
        """Whether files whose time has changed hold the text of the index all the same."""

        def without_times(key):
            return {**key, "files": [one[:2] for one in key["files"]]}

        if without_times(key) != without_times(state["key"]):
            return False
        # A part of the text, which is read again in an instant, has no hash of its files.
        return key["max_sentences"] is None and self.hashes == list(map(_hash, paths))

    def _build(self, paths, key, max_sentences, bar):
        self._build_id = uuid.uuid4().hex[:8]
        self.report, self.hashes = report, hashes = TextReport(files=len(paths)), []
        places: dict[bytes, int] = collections.defaultdict(lambda: len(places) + 2)
        counts, end = np.zeros(1 << 16, np.int64), 0
        with (
            open(self._path("ids.bin"), "wb") as ids_file,
            open(self._path("starts.bin"), "wb") as starts_file,
        ):
            starts_file.write(np.int64(0).tobytes())
            for path in paths:
                before, digest = report.sentences, hashlib.blake2b(digest_size=16)
                for lines in _blocks(path, max_sentences and max_sentences - before, bar):
                    digest.update(b"".join(lines))
                    block = index_lines(lines)
                    table = [BEGIN_ID, END_ID, *map(places.__getitem__, block.words)]
                    table = np.array(table, np.int32)
                    ids_file.write(table[block.ids].tobytes())
                    starts = end + np.cumsum(block.lengths)
                    starts_file.write(starts.tobytes())
                    end = int(starts[-1]) if len(starts) else end
                    if len(places) > len(counts):
                        counts = np.pad(counts, (0, len(places)))
                    counts[table[2:] - 2] += block.counts
                    report.sentences += len(starts)
                    report.blank_lines += block.blank_lines
                    report.invalid_lines += block.invalid_lines
                hashes.append([os.path.basename(path), digest.hexdigest()])
                if report.sentences == before:
                    report.empty_files.append(os.path.basename(path))
                if report.sentences == max_sentences:
                    break
        if not report.sentences:
            raise_no_sentence(paths)
        report.tokens = end - 2 * report.sentences
        self._path("words.txt").write_bytes(b"".join(word + b"\n" for word in places))
        counts[: len(places)].tofile(self._path("counts.bin"))
        for name in _FILES:
            sync_to_disk(self._path(name))
        sizes = [end, report.sentences + 1, len(places), len(places)]
        self._write_state(
            {
                "key": key,
                "build": self._build_id,
                "hashes": hashes,
                "report": vars(report),
                "sizes": sizes,
            }
        )
        self._remove_others()

    def _remove_others(self):
        """Removes the files of earlier builds, and what killed processes left."""
        names = "|".join(map(re.escape, _FILES))
        ours = re.compile(rf"([0-9a-f]{{8}})-({names}|characters-\d+\.npy)")
        for path in self.folder.iterdir():
            found = ours.fullmatch(path.name)
            if path.name.startswith(PARTIAL) or (found and found[1] != self._build_id):
                with contextlib.suppress(OSError):  # Windows keeps files that are mapped
                    path.unlink()


class Block(NamedTuple):
    """A part of a text, whose ids hold within it."""

    ids: np.ndarray  # int32, boundaries included
    lengths: np.ndarray  # int64, of the sentences, boundaries included
    words: list[bytes]
    counts: np.ndarray  # int64, of the words
    blank_lines: int = 0
    invalid_lines: int = 0


def index_lines(lines: list[bytes]) -> Block:
    """Turns lines of text into ids."""
    invalid = 0
    try:
        b"".join(lines).decode()
    except UnicodeDecodeError:
        valid = list(map(valid_utf8, lines))
        invalid = sum(one is not line for one, line in zip(valid, lines))
        lines = valid
    block = index_sentences([tokens for line in lines if (tokens := line.split())])
    blank = len(lines) - len(block.lengths)
    return block._replace(blank_lines=blank, invalid_lines=invalid)


def index_sentences(sentences: list[list[bytes]]) -> Block:
    """Turns sentences, lists of tokens, into ids."""
    places: collections.defaultdict[bytes, int] = collections.defaultdict()
    places.default_factory = places.__len__  # the next id
    numbers = list(map(len, sentences))
    tokens = itertools.chain.from_iterable(sentences)
    found = np.fromiter(map(places.__getitem__, tokens), np.int32, sum(numbers))
    lengths = np.array(numbers, np.int64) + 2
    ids = np.full(len(found) + 2 * len(lengths), -1, np.int32)
    ends = np.cumsum(lengths)
    ids[ends - lengths], ids[ends - 1] = BEGIN_ID, END_ID
    ids[ids < 0] = found + 2
    return Block(ids, lengths, list(places), np.bincount(found, minlength=len(places)))


def raise_no_sentence(paths: Sequence[str]) -> NoReturn:
    """Raises the error for files without a sentence."""
    others = f" and {counted(len(paths) - 1, 'other file')}" if len(paths) > 1 else ""
    raise ValueError(f"{paths[0]}{others} contain no sentence.")


def _blocks(path, max_sentences, bar):
    """The lines of a file, in lists of about two megabytes."""
    with open_text(path) as (raw, lines):
        if max_sentences is not None:
            lines = itertools.islice(filter(bytes.split, lines), max_sentences)
        position = 0
        while block := list(_megabytes(lines)):
            yield block
            if raw.seekable():
                bar.update(raw.tell() - position)
                position = raw.tell()


def _megabytes(lines):
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size >= _BLOCK_BYTES:
            return


def _signatures(paths):
    """The name, size and time of the last change of each file."""
    stats = map(os.stat, paths)
    names = map(os.path.basename, paths)
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in zip(names, stats)]


def _hash(path):
    """A hash of the text of a file, as `CorpusIndex.hashes` has it."""
    digest = hashlib.blake2b(digest_size=16)
    with open_text(path) as (_, lines):
        for line in lines:
            digest.update(line)
    return [os.path.basename(path), digest.hexdigest()]


def _mapped(path, dtype):
    return np.memmap(path, dtype, mode="r")
