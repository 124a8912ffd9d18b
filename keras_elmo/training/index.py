"""A text as ids on disk: created once, and mapped into memory to train."""

import collections
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path

import filelock
import numpy as np

from keras_elmo.files import atomic_folder, atomic_write, is_damage, remove_partials
from keras_elmo.text.characters import ByteRules
from keras_elmo.text.reader import Files, TextStats, find_files, pluralize, read_blocks
from keras_elmo.text.tokenize import Tokenize, tokenizer_name
from keras_elmo.text.vocabulary import Vocabulary, WordCounts

BEGIN_ID, END_ID = 0, 1
"""The ids of the boundaries in an index."""

_FORMAT = 3
_WORD_END = b"\xff"  # in no UTF-8, while a list of tokens may contain any white space
_WORDS_ENCODED_TOGETHER = 1 << 16
_new_hash = functools.partial(hashlib.blake2b, digest_size=16)
_BUILD = re.compile(r"index-[0-9a-f]{16}")


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
        stats: The `TextStats` of the text.
        text_hash: A hash of the text.

    Example:

    >>> index = CorpusIndex.build("shards/*", "index")
    >>> corpus = LanguageModelCorpus(index, vocabulary, config, batch_size=128, unroll_steps=20)
    """

    ids: np.ndarray
    starts: np.ndarray
    words: list[bytes]
    counts: np.ndarray
    stats: TextStats
    text_hash: str
    _folder: Path | None = None  # of this build
    _whole: "CorpusIndex | None" = None  # of which this is a part

    @classmethod
    def build(
        cls,
        files: Files,
        folder: str | os.PathLike | None = None,
        *,
        tokenize: Tokenize = None,
        field: str | None = None,
        show_progress: bool | None = False,
    ) -> "CorpusIndex":
        """Indexes a text, or opens the existing index of the same text in a folder.

        Args:
            files: Text with one tokenized sentence per line, or another format of
                `Embedder.embed_file`: a path, a glob pattern or a list of these; plain, .gz or .xz.
                It is the same text if the names, sizes and modification times of the files are the
                same.
            folder: Where to keep the index, which replaces one of a different text; `None` for a
                temporary folder, removed with the index.
            tokenize: For raw text, of which a line holds any number of sentences: `True`, or the
                code of a language such as `"de"`, to split it by `keras_elmo.tokenize`; or a
                function that does so, recognized by its module, name and code: rename it when
                the data that it uses change.
            field: The field of JSON with the text, by default `"text"`; with it, every file is read
                as JSON.
            show_progress: Whether to show a progress bar; `None` if standard error is a terminal.

        Raises:
            FileNotFoundError: if a pattern matches no file.
            ImportError: if the packages for `tokenize` are not installed.
            ValueError: if the text has no sentences, a file is damaged or no text, or a line of it
                cannot be read.
        """
        index, paths = cls(), find_files(files)
        root = Path(tempfile.mkdtemp() if folder is None else folder).resolve()
        root.mkdir(parents=True, exist_ok=True)
        if folder is None:
            weakref.finalize(index, shutil.rmtree, root, ignore_errors=True)
        stats = map(os.stat, paths)
        names = map(os.path.basename, paths)
        text = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in zip(names, stats)]
        options = {"tokenize": tokenize, "field": field, "show_progress": show_progress}
        key = repr((_FORMAT, text, tokenizer_name(tokenize), field)).encode()
        # Each text has its own folder in it, since an index that is open keeps its files.
        index._folder = root / f"index-{hashlib.blake2b(key, digest_size=8).hexdigest()}"
        with filelock.FileLock(root / "lock"):
            remove_partials(root)
            remove_partials(index._folder)
            if not index._folder.exists():
                with atomic_folder(index._folder) as partial:
                    _write_index(Path(partial), paths, **options)
                for other in root.iterdir():
                    if _BUILD.fullmatch(other.name) and other != index._folder:
                        shutil.rmtree(other, ignore_errors=True)  # Windows keeps mapped files
            try:
                index._open()
            except (OSError, LookupError, TypeError, ValueError) as error:
                if not (is_damage(error) or isinstance(error, FileNotFoundError)):
                    raise
                raise ValueError(
                    f"The index {index._folder} is damaged ({error}): delete it to rebuild it."
                ) from None
        return index

    @classmethod
    def from_sentences(cls, sentences: Iterable[Iterable[bytes]]) -> "CorpusIndex":
        """An index in memory of sentences, each an iterable of tokens."""
        table = _WordTable()
        ids, lengths = table.index(list(map(list, sentences)))
        return cls._in_memory(ids, np.concatenate([[0], np.cumsum(lengths)]), list(table.ids))

    @classmethod
    def _in_memory(cls, ids, starts, words, whole=None):
        index = cls()
        index._whole = whole
        index.ids, index.starts, index.words = ids, starts, words
        index.counts = np.bincount(ids, minlength=2 + len(words))[2:]
        index.text_hash = _text_hash(_new_hash(ids), words)
        index.stats = TextStats(1, len(starts) - 1, int(index.counts.sum()))
        return index

    def first(self, number: int) -> "CorpusIndex":
        """The index of the first sentences, at most this many, which shares the ids of this one."""
        starts = self.starts[: number + 1]
        ids = self.ids[: starts[-1]]
        # Ids are in the order of first occurrence.
        words = self.words[: max(0, ids.max(initial=0) - 1)]
        return self._in_memory(ids, starts, words, self)

    def last(self, number: int) -> "CorpusIndex":
        """The index of the last sentences, at most this many, which shares the ids of this one.

        Its `words` are all words of this index.
        """
        starts = self.starts[-number - 1 :]
        return self._in_memory(self.ids[starts[0] :], starts - starts[0], self.words, self)

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
        return WordCounts(counts, self.stats)

    def vocabulary_ids(self, vocabulary: Vocabulary) -> np.ndarray:
        """The id in a vocabulary of each id of the index, int32 `(2 + len(words),)`."""
        boundaries = [vocabulary.begin_id, vocabulary.end_id]
        return np.array([*boundaries, *vocabulary.ids(self.words)], np.int32)

    def characters(self, max_characters_per_token: int) -> np.ndarray:
        """The characters of each id, int16 `(2 + len(words), C)`, kept on disk with the index."""
        if self._whole is not None:
            return self._whole.characters(max_characters_per_token)[: 2 + len(self.words)]
        rules = ByteRules(max_characters_per_token)
        parts = range(0, len(self.words), _WORDS_ENCODED_TOGETHER)
        parts = (self.words[start : start + _WORDS_ENCODED_TOGETHER] for start in parts)
        blocks = itertools.chain([rules.special_rows()[1:]], map(rules.encode_words, parts))
        blocks = (block.astype(np.int16) for block in blocks)
        if self._folder is None:
            return np.concatenate(list(blocks))
        if not self._folder.exists():
            raise FileNotFoundError(
                f"{self._folder} was removed, because {self._folder.parent} was used for the "
                "index of a different text: use a separate folder for each text."
            )
        path = self._folder / f"characters-{rules.width}.bin"
        with filelock.FileLock(self._folder.parent / "lock"):
            if not path.exists():
                with atomic_write(path) as partial, open(partial, "wb") as file:
                    file.writelines(block.tobytes() for block in blocks)
        return np.memmap(path, np.int16, mode="r").reshape(-1, rules.width)

    def _open(self):
        state = json.loads((self._folder / "text.json").read_text(encoding="utf-8"))
        self.text_hash, self.stats = state["hash"], TextStats(**state["stats"])
        self.words = (self._folder / "words.bin").read_bytes().split(_WORD_END)[:-1]
        self.counts = np.fromfile(self._folder / "counts.bin", np.int64)
        self.starts = np.memmap(self._folder / "starts.bin", np.int64, mode="r")
        self.ids = np.memmap(self._folder / "ids.bin", np.int32, mode="r")
        if self.starts[-1] != len(self.ids) or len(self.words) != len(self.counts):
            raise ValueError("its files do not belong together")


def as_index(files: Files | CorpusIndex) -> CorpusIndex:
    """The index of a text, which may be one already."""
    return files if isinstance(files, CorpusIndex) else CorpusIndex.build(files)


def _text_hash(digest, words):
    """The hash of a text, which white space does not change, from the hash of its ids."""
    digest.update(_WORD_END.join(words))
    return digest.hexdigest()


def _write_index(folder, paths, **options):
    stats, digest, table, end = TextStats(), _new_hash(), _WordTable(), 0
    with open(folder / "ids.bin", "wb") as ids_file, open(folder / "starts.bin", "wb") as starts:
        starts.write(np.int64(0).tobytes())
        for sentences in read_blocks(paths, stats, **options):
            ids, lengths = table.index(sentences)
            digest.update(ids)
            ids_file.write(ids)
            starts.write((end + np.cumsum(lengths)).tobytes())
            end += len(ids)
    if not stats.sentences:
        others = f" or in {pluralize(len(paths) - 1, 'other file')}" if len(paths) > 1 else ""
        raise ValueError(f"No sentence was found in {paths[0]}{others}.")
    (folder / "words.bin").write_bytes(b"".join(word + _WORD_END for word in table.ids))
    table.counts().tofile(folder / "counts.bin")
    state = {"hash": _text_hash(digest, table.ids), "stats": vars(stats)}
    (folder / "text.json").write_text(json.dumps(state), encoding="utf-8")


class _WordTable:
    """Gives each distinct word an id, and counts it."""

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = collections.defaultdict(itertools.count(2).__next__)
        self._counts = np.zeros(1 << 16, np.int64)

    def index(self, sentences):
        """The ids of sentences, int32 with boundaries, and their lengths."""
        numbers = np.fromiter(map(len, sentences), np.int64, len(sentences))
        tokens = itertools.chain.from_iterable(sentences)
        found = np.fromiter(map(self.ids.__getitem__, tokens), np.int32, numbers.sum())
        if len(self.ids) > len(self._counts):
            self._counts = np.pad(self._counts, (0, len(self.ids)))
        np.add.at(self._counts, found - 2, 1)
        lengths = numbers + 2
        ids = np.full(len(found) + 2 * len(lengths), -1, np.int32)
        ends = np.cumsum(lengths)
        ids[ends - lengths], ids[ends - 1] = BEGIN_ID, END_ID
        ids[ids < 0] = found
        return ids, lengths

    def counts(self):
        return self._counts[: len(self.ids)]
