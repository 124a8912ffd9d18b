"""Many sentences to word vectors, fast."""

import functools
import itertools
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np

from keras_elmo.atomic import check_is_no_input
from keras_elmo.config import ElmoConfig
from keras_elmo.embedding.blocks import in_blocks
from keras_elmo.embedding.compiled import CompiledSentences, CompiledWords, SomeWeights, padded
from keras_elmo.embedding.file_job import EmbeddedFile, embed_file
from keras_elmo.embedding.word_cache import Key, WordCache
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.layers.process import check_process
from keras_elmo.pretrained.hdf5 import write_token_embeddings
from keras_elmo.pretrained.locate import ModelSource, locate
from keras_elmo.progress import progress_bar
from keras_elmo.text.characters import delimited_rows, distinct
from keras_elmo.text.tokens import check_batch, token_bytes, tokens_of, without_padding
from keras_elmo.text.vocabulary import (
    BEGIN,
    END,
    UNKNOWN_KEY,
    encode_vocabulary,
    id_table,
    read_words,
    word_places,
)

Sentences = Iterable[str | bytes | Sequence[str | bytes]]  # strings are split at white space

_OUTPUTS = ("mix", "layers", "top", "average")
_POOLINGS = (None, "mean", "max")
_BATCHES_TOGETHER = 16
_WORDS_AT_ONCE = 512
_WORDS_TO_COMPARE = 8
_SAME_WORD_TOLERANCE = 1e-3
_OUT_OF_MEMORY = re.compile(
    r"resource_?exhausted|out ?of ?memory|not enough memory"
    r"|can't allocate memory|failed to allocate",
    re.IGNORECASE,
)


class Embedder:
    """Sentences in, word vectors out, as fast as the machine allows.

    Each distinct word is encoded from its characters once and cached; sentences are sorted by
    length and batched by tokens. Vectors do not depend on what else is embedded: they are those of
    `ElmoLayer`, to a few units in the last place.

    Threads can share an Embedder. Other processes must be spawned, not forked, by
    `multiprocessing.set_start_method("spawn")`; it is pickled with its weights and cached words.

    When its layer is trained or loads other weights, the Embedder goes on with those and an empty
    cache. After you have changed single rows of an array by hand, make a new one.

    Args:
        model: As for `ElmoLayer`; or an `ElmoLayer`, whose mix is then used.
        batch_tokens: Tokens in a batch, boundaries and padding included. Halved when memory is
            exhausted.
        word_cache: How many words' vectors to cache, or a `WordCache`; 0 for none. Models of whole
            words have none: they look vectors up as it is.
        max_tokens: Longest piece to embed at once. Longer texts are split into overlapping pieces.
        overlap: Tokens that two pieces share: each piece provides the half nearer to its middle.
        dtype: Dtype or dtype policy of the computation, such as `"bfloat16"`. An `ElmoLayer` has
            its own.
        vocabulary: For models of whole words: the words in the order of the table's rows, as a list
            or a path, with `<UNK>` if there may be unknown words; `None` for the vocabulary.txt
            beside the model's files.
        progress: Whether to show a progress bar; `None` shows it if standard error is a terminal.

    Attributes:
        layer: The `ElmoLayer`.
        config: Its `ElmoConfig`.

    Raises:
        FileNotFoundError: if a file is missing.
        ConnectionError: if a download failed.
        RuntimeError: if the process was forked from one that has a model.
        ValueError: if an argument is invalid, or the word cache is of another model.

    Example:

    >>> embedder = Embedder()
    >>> [vectors.shape for vectors in embedder.embed(["The bank raised its rates .", "Hello"])]
    [(6, 256), (1, 256)]

    Reference: Peters et al. 2018; BILM_TF.md.
    """

    def __init__(
        self,
        model: ModelSource | ElmoLayer = "default",
        *,
        batch_tokens: int = 2048,
        word_cache: int | WordCache | None = 30_000,
        max_tokens: int = 1024,
        overlap: int = 128,
        dtype: str | None = None,
        vocabulary: str | os.PathLike | Sequence[str] | None = None,
        progress: bool | None = None,
    ):
        _check_arguments(batch_tokens, max_tokens, overlap)
        if not isinstance(model, ElmoLayer):
            self.layer = ElmoLayer(model, dtype=dtype)
        elif dtype is None:
            self.layer = model
        else:
            raise ValueError("dtype is set by the ElmoLayer: make the layer with that dtype.")
        self.dtype = self.layer.bilm_dtype_policy.name
        self.config: ElmoConfig = self.layer.config
        self.batch_tokens, self.max_tokens, self.overlap = batch_tokens, max_tokens, overlap
        self.progress = progress
        if not self.config.reads_text and vocabulary is None:
            vocabulary = _words_beside(model)
            if vocabulary is None:
                raise ValueError(
                    "This model reads whole words: give the vocabulary (--vocabulary), in the "
                    "order of its table, or put it beside the weights as vocabulary.txt."
                )
        self.vocabulary = None if vocabulary is None else read_words(vocabulary)
        self._ids = {} if self.config.reads_text else self._ids_of_words()
        self._words = CompiledWords(self.layer)
        self._compile()
        if isinstance(word_cache, int):
            word_cache = WordCache(word_cache) if word_cache else None
        self.word_cache = word_cache = word_cache if self.config.reads_text else None
        self._checked_cache: WordCache | None = None
        self._lock = threading.Lock()
        self._some_weights = SomeWeights(self.layer)
        self._known_weights = self._some_weights.run()
        if word_cache:
            self._check_cache(word_cache)
            self._checked_cache = word_cache

    def __repr__(self) -> str:
        return f"<Embedder dim={self.dim}, dtype={self.dtype!r}>"

    def __reduce__(self):
        self._cache_of_weights()
        names = ("batch_tokens", "word_cache", "max_tokens", "overlap", "vocabulary", "progress")
        arguments = {name: getattr(self, name) for name in names}
        return functools.partial(type(self), **arguments), (self.layer,)

    @property
    def dim(self) -> int:
        """Size of a word's vector."""
        return self.config.output_dim

    @property
    def block_tokens(self) -> int:
        """Tokens, boundaries included, that are sorted and embedded together."""
        return _BATCHES_TOGETHER * self.batch_tokens

    def embed(
        self, sentences: Sentences, output: str = "mix", pooling: str | None = None
    ) -> list[np.ndarray]:
        """Embeds sentences.

        Args:
            sentences: Lists of tokens, or strings to be split at white space, of any length.
                Arrays, Series of pandas and string tensors are accepted too. `""` at the end of a
                list of tokens is padding.
            output: `"mix"` for the `ElmoLayer`'s weighted sum, in a fresh one the mean of all
                layers; `"average"` for that mean in any case, `"top"` for the last layer,
                `"layers"` for all of them.
            pooling: `None` for a vector per word; `"mean"` or `"max"` over the words for one per
                sentence, zeros for an empty one.

        Returns:
            A float32 array for each sentence of T tokens: `(T, 2 * P)`, or `(L + 1, T, 2 * P)` for
            `"layers"`; without T if pooled. The vectors of padding are zeros.

        Raises:
            ValueError: if an argument is invalid, or an item is not a sentence.
            MemoryError: if even one sentence does not fit.

        Example:

        >>> Embedder().embed([["Hello", "world"]], output="layers")[0].shape
        (3, 2, 256)
        """
        self._check_request(sentences, output, pooling)
        sentences = list(sentences)
        return list(self._arrays(sentences, output, pooling, len(sentences)))

    def stream(
        self,
        sentences: Sentences,
        output: str = "mix",
        pooling: str | None = None,
        num_sentences: int | None = None,
    ) -> Iterator[np.ndarray]:
        """Yields what `embed` lists, in memory that does not grow with the number of sentences.

        Args:
            sentences, output, pooling: As for `embed`.
            num_sentences: Their number, if known, for the progress bar.
        """
        self._check_request(sentences, output, pooling)
        return self._arrays(sentences, output, pooling, num_sentences)

    def embed_block(
        self, sentences: Sentences, output: str = "mix", pooling: str | None = None
    ) -> list[np.ndarray]:
        """As `embed`, of about `block_tokens` tokens at once and without a progress bar."""
        self._check_request(sentences, output, pooling)
        padded_block = list(map(tokens_of, sentences))
        if not padded_block:
            return []
        block = list(map(without_padding, padded_block))
        table, sentence_rows = self._word_table(block)
        step = self.max_tokens - self.overlap
        starts = [range(0, max(len(rows) - self.overlap, 1), step) for rows in sentence_rows]
        pieces = [
            rows[i : i + self.max_tokens]
            for rows, places in zip(sentence_rows, starts)
            for i in places
        ]
        vectors = [None] * len(pieces)
        order = sorted(range(len(pieces)), key=lambda i: len(pieces[i]))
        while order:  # the longest of those that are left, as many as fill a batch
            width = len(pieces[order[-1]]) + 2
            count = padded(max(1, self.batch_tokens // width), up=False)
            batch, order = order[-count:], order[:-count]
            for i, array in zip(batch, self._run([pieces[i] for i in batch], table, output)):
                vectors[i] = array
        ends = np.cumsum(list(map(len, starts)))
        arrays = [
            _joined(vectors[end - len(places) : end], self.overlap)
            for end, places in zip(ends, starts)
        ]
        if pooling is not None:
            return [_pooled(array, pooling) for array in arrays]
        return [_as_long_as(tokens, array) for tokens, array in zip(padded_block, arrays)]

    def _arrays(self, sentences, output, pooling, num_sentences):
        blocks = in_blocks(map(tokens_of, sentences), lambda s: len(s) + 2, self.block_tokens)
        with progress_bar("embedding", num_sentences, unit="sentences", shown=self.progress) as bar:
            for block in blocks:
                yield from self.embed_block(block, output, pooling)
                bar.advance(len(block))

    def _word_table(self, block):
        """Vectors of the block's boundaries and distinct words, and each sentence's rows of it."""
        tokens, index = distinct(itertools.chain.from_iterable(block))
        # Several tokens may have one key: `str` and `bytes`, or long ones that begin alike.
        # A file of the word cache has an unknown word, too; models of whole words have no cache.
        special = [BEGIN, END, UNKNOWN_KEY] if self.config.reads_text else [BEGIN, END]
        keys, rows = distinct([*special, *map(self._key, tokens)])
        ends = np.cumsum(list(map(len, block)))
        return self._word_vectors(keys), np.split(rows[len(special) :][index], ends[:-1])

    def _run(self, batch, table, output):
        """Arrays of the pieces of a batch, given as rows of the table."""
        lengths = np.array([len(rows) for rows in batch], np.int32)
        # The first rows of the table are the boundaries; what pads is masked, whatever it is.
        index = delimited_rows(lengths, np.concatenate(batch), begin=0, end=1)
        try:
            vectors = self._sentences[output].run(table[index], lengths + 2)
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise MemoryError(
                    f"Not enough memory for a piece of {lengths[0]} tokens: make the Embedder "
                    "with a smaller max_tokens."
                ) from error
            half = len(batch) // 2
            self.batch_tokens = half * index.shape[1]
            return self._run(batch[:half], table, output) + self._run(batch[half:], table, output)
        # Copies: a view would keep the whole batch in memory.
        return [array[..., : len(rows), :].copy() for array, rows in zip(vectors, batch)]

    def embed_file(
        self,
        source: str | os.PathLike | BinaryIO,
        target: str | os.PathLike,
        output: str = "mix",
        pooling: str | None = None,
        *,
        field: str | None = None,
        max_line_tokens: int = 100_000,
        dtype: str = "float32",
        compression: str | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> EmbeddedFile:
        """Embeds a text file of one tokenized sentence a line, in memory that hardly grows with it.

        The target appears, or is replaced, when it is complete. Until then its parts are in a
        folder beside it: after a kill, the same call with `resume` continues after the last one.

        Args:
            source: The text, UTF-8: a path, also of a .gz, .xz or .jsonl file, or an open binary
                file.
            target: The file to write: .h5 or .hdf5, with an array for each line, named "0", "1",
                ...; or .parquet, a folder, which needs pyarrow.
            output, pooling: As for `embed`.
            field: Field of JSON lines with the sentence, a string or a list of tokens; `None` for
                `"text"`. If given, any text is read as JSON lines.
            max_line_tokens: A longer line, or one of bad JSON, has an array without tokens (pooled:
                of zeros) and the reason in the attribute (Parquet: column) `error`.
            dtype: `"float32"` or `"float16"`, of the stored vectors.
            compression: `None` or `"gzip"`.
            resume: Whether to continue a target that was begun, or one whose text has grown.
            overwrite: Whether to replace an existing target.

        Returns:
            An `EmbeddedFile`: lines, tokens, seconds, and what could not be read.

        Raises:
            FileExistsError: if the target exists or was begun, without `resume` or `overwrite`, or
                a folder in its place is a link or holds other files.
            FileNotFoundError: if there is no such file or folder.
            OSError: if the disk is full. What was embedded is kept for `resume`.
            ValueError: if an argument is invalid, the text or a part is damaged, or what is to be
                resumed was made from another text or with other settings; if the target is the
                source, or a number is beyond the range of `dtype`.

        Example:

        >>> Embedder().embed_file("text.txt.gz", "vectors.h5", output="layers", resume=True)
        """
        writing = dict(dtype=dtype, compression=compression, resume=resume, overwrite=overwrite)
        self._check_request((), output, pooling)
        return embed_file(self, source, target, output, pooling, field, max_line_tokens, **writing)

    def encode_words(self, words: Sequence[str | bytes]) -> np.ndarray:
        """Token vectors float32 `(len(words), P)` of single words: the input of the LSTMs."""
        keys, index = distinct(map(self._key, words))
        return self._word_vectors(keys)[index]

    def remember_words(self, words: str | os.PathLike | Sequence[str]) -> None:
        """Encodes and caches words in advance, such as those of a vocabulary.

        A model of whole words has nothing to encode.

        Args:
            words: List, or path of a file with one a line; `<S>` and `</S>` are boundaries of
                sentences.

        Raises:
            ValueError: if the cache is too small for that many words.
        """
        if not self.config.reads_text:
            return
        words = map(self._vocabulary_key, read_words(words))
        # Each sentence has the boundaries, and a file of the cache an unknown word too.
        keys, _ = distinct([BEGIN, END, UNKNOWN_KEY, *words])
        room = 0 if self.word_cache is None else self.word_cache.max_words
        if len(keys) > room:
            raise ValueError(
                f"This Embedder remembers {room:,} words, not {len(keys):,}: make it with "
                f"word_cache={2 * len(keys)}."
            )
        for start in range(0, len(keys), 16 * _WORDS_AT_ONCE):
            self._word_vectors(keys[start : start + 16 * _WORDS_AT_ONCE])

    def dump_words(
        self, vocabulary: str | os.PathLike | Sequence[str], path: str | os.PathLike
    ) -> None:
        """Writes the token vectors of a vocabulary as bilm-tf's `dump_token_embeddings` does.

        Args:
            vocabulary: The words, as for `remember_words`.
            path: The hdf5 file to write: `embedding`, float32 `(num_words, P)`.
        """
        words = read_words(vocabulary)
        check_is_no_input(path, [vocabulary])
        vectors = self._encode(list(map(self._vocabulary_key, words)))
        write_token_embeddings(path, vectors, words)

    def _key(self, token):
        """What a word is cached under: UTF-8 with at least the bytes that the encoder reads."""
        key = token_bytes(token)
        return self.layer.char_encoder.rules.key(key) if self.config.reads_text else key

    def _vocabulary_key(self, word):
        return word if word in (BEGIN, END) else self._key(word)

    def _word_vectors(self, keys):
        check_process()  # before a lock that may have been held when the process was forked
        cache = self._cache_of_weights()
        if cache is None or not keys:
            return self._encode(keys)
        with cache.lock:
            if cache is not self._checked_cache:
                self._check_cache(cache)
            vectors = cache.fetch(keys, self._encode)
            # A new cache belongs to the first model that has filled it.
            self._checked_cache = cache
            return vectors

    def _encode(self, keys: Sequence[Key]) -> np.ndarray:
        """Token vectors float32 `(n, P)` of distinct words, by the model."""
        if not self.config.reads_text:
            return self._words.run(np.array(word_places(keys, self._ids), np.int32) + 1)
        rules = self.layer.char_encoder.rules
        vectors = np.empty((len(keys), self.config.projection_dim), np.float32)
        # Words of similar lengths together: their characters are trimmed to the longest.
        order = sorted(range(len(keys)), key=lambda i: len(keys[i]))
        for start in range(0, len(order), _WORDS_AT_ONCE):
            places = order[start : start + _WORDS_AT_ONCE]
            rows = encode_vocabulary([keys[i] for i in places], rules)
            vectors[places] = self._words.run(rules.trimmed(rows, self.config.widest_filter))
        return vectors

    def _check_request(self, sentences, output, pooling):
        check_batch(sentences)
        if output not in _OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(_OUTPUTS)}; got {output!r}.")
        if pooling not in _POOLINGS:
            raise ValueError(f"pooling must be None, 'mean' or 'max'; got {pooling!r}.")
        if output == "mix" and not self.layer.mixes:
            raise ValueError("The ElmoLayer has no mix: make it with output='mix'.")
        if output == "mix" and self.layer.layer_norm:
            raise ValueError(
                "The ElmoLayer's mix has layer_norm, which depends on the batch: take "
                "output='layers' and mix them yourself."
            )

    def _ids_of_words(self):
        words, size = self.vocabulary or [], self.config.vocabulary_size
        ids = id_table(words)
        num_words = max((i for i, word in enumerate(words, start=1) if word), default=0)
        if not num_words <= size <= len(words):  # blank lines at the end may be rows or not
            raise ValueError(
                f"The vocabulary has {num_words:,} words, the model's table {size:,}: give the "
                "words in the order of the table's rows."
            )
        return ids

    def _compile(self):
        self._sentences = {output: CompiledSentences(self.layer, output) for output in _OUTPUTS}

    def _cache_of_weights(self):
        """The word cache: an empty one if the layer's weights have changed since the last call."""
        if self.word_cache is None:
            return None
        with self._lock:
            weights = self._some_weights.run()
            if weights != self._known_weights:
                self._known_weights = weights
                self.word_cache = WordCache(self.word_cache.max_words)
            return self.word_cache

    def _check_cache(self, cache):
        """Raises ValueError unless the vectors in the cache, if any, are this model's."""
        with cache.lock:
            if cache:
                self._check_vectors(*cache.latest(_WORDS_TO_COMPARE))
            rules = self.layer.char_encoder.rules
            cache.adopt(
                f"{type(rules).__name__} {self.config.max_characters_per_token}",
                self._vocabulary_key,
            )

    def _check_vectors(self, keys, known):
        width = self.config.projection_dim
        if known.shape[1] != width:
            raise ValueError(
                f"The word cache is of another model: its vectors have {known.shape[1]} numbers, "
                f"this model's have {width}."
            )
        vectors = self._encode(keys)
        tolerance = _SAME_WORD_TOLERANCE * max(1, np.abs(vectors).max())
        if not np.allclose(known, vectors, rtol=0, atol=tolerance):
            words = ", ".join(key if isinstance(key, str) else key.decode() for key in keys)
            raise ValueError(
                f"The word cache is of another model: its vectors of {words} are not those of this "
                "model's token encoder. Give each model a WordCache of its own."
            )


def _words_beside(model):
    """The words of the vocabulary.txt beside a model's weights, if it exists."""
    if isinstance(model, ElmoLayer):
        return None
    with locate(model) as files:
        return read_words(files.vocabulary) if files.vocabulary else None


def _joined(pieces, overlap):
    """The array of a sentence from those of its pieces."""
    if len(pieces) == 1:
        return pieces[0]
    left, right = overlap // 2, overlap - overlap // 2
    first, *middle, last = pieces
    first, last = first[..., : first.shape[-2] - left, :], last[..., right:, :]
    middle = [piece[..., right : piece.shape[-2] - left, :] for piece in middle]
    return np.concatenate([first, *middle, last], axis=-2)


def _as_long_as(tokens, array):
    """The array of a sentence with zeros for the padding at its end."""
    missing = len(tokens) - array.shape[-2]
    if not missing:
        return array
    return np.pad(array, ((0, 0),) * (array.ndim - 2) + ((0, missing), (0, 0)))


def _pooled(array, pooling):
    if not array.shape[-2]:
        return np.zeros((*array.shape[:-2], array.shape[-1]), np.float32)
    return array.mean(axis=-2) if pooling == "mean" else array.max(axis=-2)


def _is_out_of_memory(error):
    """Whether an error of any backend says that memory is exhausted."""
    text = f"{type(error).__name__} {error}"
    return isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(text) is not None


def _check_arguments(batch_tokens, max_tokens, overlap):
    for name, value in (("batch_tokens", batch_tokens), ("max_tokens", max_tokens)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    if not isinstance(overlap, int) or not 0 <= overlap < max_tokens:
        raise ValueError(
            f"overlap must be an integer from 0 to below max_tokens={max_tokens}, got {overlap!r}."
        )
