"""Many sentences to word vectors, fast."""

import functools
import itertools
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, TypeVar, overload

import keras
import numpy as np

from keras_elmo.arguments import check_integer, check_vectors
from keras_elmo.config import ElmoConfig
from keras_elmo.embedding.file_job import EmbeddedFile, run_file_job
from keras_elmo.embedding.sentence_vectors import SentenceVectors, as_table, padded
from keras_elmo.embedding.vector_spec import VectorSpec
from keras_elmo.embedding.word_vectors import WordVectors
from keras_elmo.files import atomic_write
from keras_elmo.hdf5_write import write_arrays
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.layers.inside import elmo_layer_of
from keras_elmo.layers.process import check_process, unpickled
from keras_elmo.layers.vector_kinds import shape_of_vectors
from keras_elmo.ops.compiled import one_ahead
from keras_elmo.pretrained.hdf5 import TOKEN_EMBEDDINGS_NAME
from keras_elmo.pretrained.locate import ModelSource, is_keras_file
from keras_elmo.pretrained.registry import check_language
from keras_elmo.progress import progress_bar
from keras_elmo.text.characters import distinct
from keras_elmo.text.languages import PROTEINS
from keras_elmo.text.tokenize import (
    Tokenize,
    hint_at_proteins,
    hint_at_raw_text,
    language_of,
    make_tokenizer,
)
from keras_elmo.text.tokens import (
    check_batch,
    checked_tokens,
    in_blocks,
    num_positions,
    padded_length,
    without_padding,
)
from keras_elmo.text.vocabulary import BEGIN, END, read_words

Item = TypeVar("Item")
Sentences = Iterable[str | bytes | Sequence[str | bytes]]  # strings are split at white space

_BATCHES_TOGETHER = 16
_CHUNK_TOKENS = 256  # of longer sentences
_OUT_OF_MEMORY = re.compile(  # what the errors of the backends say
    r"memoryerror|resource_?exhausted|out ?of ?memory|not enough memory"
    r"|can't allocate memory|failed to allocate",
    re.IGNORECASE,
)


class Embedder:
    """Sentences in, word vectors out, as fast as the hardware allows.

    Each distinct word is encoded once and cached; sentences are sorted by length and batched by
    tokens. The vectors do not depend on the other sentences: they equal `ElmoLayer`'s to about
    1e-6 of their norm, for sentences of any length.

    Threads can share an Embedder, and it can be pickled for processes that are spawned, not forked.
    It has its own copy of the weights: training an `ElmoLayer` later does not change it.

    Args:
        model: As for `ElmoLayer`; or an `ElmoLayer`, a Keras model with one, or the `.keras` file
            of such a model. The mix of the layer is then used.
        batch_tokens: Tokens in a batch, including boundaries and padding. Halved if memory runs
            out.
        word_cache: Number of words to cache vectors for, the most recently used; 0 for none.
            Models that read whole words do not use it.
        compute_dtype: Dtype or dtype policy of the computation, such as `"bfloat16"`; `None` for
            that of a given `ElmoLayer`, or Keras' global one.
        vocabulary: For models that read whole words: a list or a path, in the order of the table's
            rows; `None` for the vocabulary.txt next to the model's files.
        progress: Whether to show a progress bar; `None` shows it if standard error is a terminal.

    Attributes:
        layer: The `ElmoLayer`; do not change its weights.
        config: Its `ElmoConfig`.
        compute_dtype: The name of its dtype policy.

    Raises:
        FileNotFoundError: if a file is missing.
        ConnectionError: if a download failed.
        RuntimeError: if the process was forked from one that has a model.
        ValueError: if an argument is invalid.

    Example:

    >>> embedder = Embedder()
    >>> [vectors.shape for vectors in embedder.embed(["The bank raised its rates .", "Hello"])]
    [(6, 512), (1, 512)]

    Reference: Peters et al. 2018; BILM_TF.md.
    """

    def __init__(
        self,
        model: ModelSource | ElmoLayer | keras.Model = "default",
        *,
        batch_tokens: int = 2048,
        word_cache: int = 30_000,
        compute_dtype: str | None = None,
        vocabulary: str | os.PathLike | Sequence[str] | None = None,
        progress: bool | None = None,
    ):
        self.batch_tokens = check_integer("batch_tokens", batch_tokens, 1)
        self.word_cache = check_integer("word_cache", word_cache, 0)
        self.progress = progress
        layer = elmo_layer_of(model)
        if isinstance(layer, ElmoLayer):
            self.layer = _copy(layer, compute_dtype)
        else:
            self.layer = ElmoLayer(layer, dtype=compute_dtype)
        self.sources: list[Any] = [*self.layer.model_paths, vocabulary]
        if is_keras_file(model):
            self.sources.append(model)
        self.compute_dtype: str = self.layer.bilm_dtype_policy.name
        self.config: ElmoConfig = self.layer.config
        if not self.config.reads_text and vocabulary is None:
            vocabulary = self.layer.vocabulary
            if vocabulary is None:
                raise ValueError(
                    "This model reads whole words: pass vocabulary=..., the words in the order of "
                    "its table, or put them next to the weights as vocabulary.txt."
                )
        self.vocabulary = None if vocabulary is None else read_words(vocabulary)
        self._words = WordVectors(self.layer, self.vocabulary, word_cache)
        self._sentences = SentenceVectors(self.layer)
        self._has_hinted = False

    def __repr__(self) -> str:
        return f"<Embedder dim={self.dim}, compute_dtype={self.compute_dtype!r}>"

    def __reduce__(self):
        names = ("batch_tokens", "word_cache", "vocabulary", "progress")
        arguments = {name: getattr(self, name) for name in names}
        make = functools.partial(type(self), **arguments)
        return unpickled, (type(self), make, (self.layer,)), {"sources": self.sources}

    @property
    def dim(self) -> int:
        """Size of a word's vector."""
        return self.config.output_dim

    @property
    def _chunk(self):
        return min(_CHUNK_TOKENS, self.batch_tokens)

    @overload
    def embed(
        self,
        sentences: Sentences,
        vectors: str | int = ...,
        pooling: str | None = ...,
        *,
        tokenize: Tokenize = ...,
        boundaries: bool = ...,
        pad_to: None = ...,
        dtype: str = ...,
    ) -> list[np.ndarray]: ...

    @overload
    def embed(
        self,
        sentences: Sentences,
        vectors: str | int = ...,
        *,
        tokenize: Tokenize = ...,
        boundaries: bool = ...,
        pad_to: int | str,
        truncate: bool = ...,
        dtype: str = ...,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def embed(
        self,
        sentences: Sentences,
        vectors: str | int = "mix",
        pooling: str | None = None,
        *,
        tokenize: Tokenize = None,
        boundaries: bool = False,
        pad_to: int | str | None = None,
        truncate: bool = False,
        dtype: str = "float32",
    ) -> list[np.ndarray] | tuple[np.ndarray, np.ndarray]:
        """Embeds sentences, or raw texts.

        Args:
            sentences: Lists of tokens, or strings to be split at white space, of any length.
                Arrays, pandas Series, string tensors and spaCy's `Doc` are also accepted. `""` at
                the end of a list of tokens is padding.
            vectors: `"mix"` for the `ElmoLayer`'s weighted sum, in a new one the mean of all
                layers; `"average"` for the mean of all layers, `"sum"` for their sum, `"top"` for
                the last layer; a number for that layer, 0 for the token vectors; `"layers"` for
                all of them, `"concat"` for all of them, concatenated.
            pooling: `None` for a vector per word; `"mean"` or `"max"` over the words for one per
                sentence, zeros for an empty one.
            tokenize: For strings of raw text: `True`, or the code of a language such as `"de"`,
                to split them into sentences and tokens by `keras_elmo.tokenize`; or a function
                that does so. Each sentence is embedded separately.
            boundaries: Whether to keep the vectors of the boundaries `<S>` and `</S>` before and
                after each sentence, which then count as tokens. Padding follows after `</S>`.
            pad_to: For one array of all sentences, padded with zeros: its T, or `"longest"` for
                that of the longest sentence. Padding of the input does not count.
            truncate: With a number as `pad_to`, whether to return only that many vectors of a
                longer sentence, which is read to its end nevertheless.
            dtype: `"float32"` or `"float16"`, of the arrays. Numbers beyond float16's 65,504 become
                infinite.

        Returns:
            An array for each sentence or text of T tokens: `(T, 2 * P)`; for `"layers"`
            `(L + 1, T, 2 * P)`, for `"concat"` `(T, (L + 1) * 2 * P)`; without T if pooled. The
            vectors of padding are zeros.

            With `pad_to`, a pair: one such array `(B, T, 2 * P)` or `(B, L + 1, T, 2 * P)`, and its
            mask, booleans `(B, T)`, `True` for tokens.

        Raises:
            ImportError: if the packages for `tokenize` are not installed.
            ValueError: if an argument is invalid, an item is not a sentence, or a sentence has more
                than `pad_to` tokens, without `truncate`.
            MemoryError: if even one sentence does not fit.

        Example:

        >>> Embedder().embed([["Hello", "world"]], vectors="layers")[0].shape
        (3, 2, 512)
        >>> vectors, mask = Embedder().embed(["Hello world", "Hi"], pad_to="longest")
        >>> vectors.shape, mask.tolist()
        ((2, 2, 512), [[True, True], [True, False]])
        """
        check_batch(sentences)
        spec = self._spec(vectors, pooling, boundaries, dtype)
        read = self._reader(tokenize)
        if pad_to is None:
            padded_length([], None, truncate)  # truncate needs pad_to
            return list(self._stream(sentences, spec, read))
        if pooling is not None:
            raise ValueError(
                "pad_to and pooling cannot be combined: np.stack makes one array of pooled vectors."
            )
        return self._embed_padded(sentences, spec, read, pad_to, truncate)

    def _embed_padded(self, sentences, spec, read, pad_to, truncate):
        if pad_to == "longest":
            pad_to = None
        else:
            pad_to = check_integer("pad_to, unless it is 'longest',", pad_to, 1)
        texts = [[without_padding(tokens) for tokens in read(text)] for text in sentences]
        lengths = [num_positions(text, spec.boundaries) for text in texts]
        num_tokens = padded_length(lengths, pad_to, truncate)
        shape = shape_of_vectors(spec.vectors, self.config, num_tokens)
        vectors = np.zeros((len(texts), *shape), spec.dtype)
        arrays = self._arrays(texts, lambda text: text, spec, len(texts))
        for array, row, length in zip(arrays, vectors, lengths):
            row[..., :length, :] = array[..., :num_tokens, :]
        return vectors, np.arange(num_tokens) < np.reshape(lengths, (-1, 1))

    def stream(
        self,
        sentences: Sentences,
        vectors: str | int = "mix",
        pooling: str | None = None,
        num_sentences: int | None = None,
        *,
        tokenize: Tokenize = None,
        boundaries: bool = False,
        dtype: str = "float32",
    ) -> Iterator[np.ndarray]:
        """Yields what `embed` lists, in memory that does not grow with the number of sentences.

        Args:
            sentences, vectors, pooling, tokenize, boundaries, dtype: As for `embed`.
            num_sentences: Their number for the progress bar, if they have no length.
        """
        check_batch(sentences)
        spec = self._spec(vectors, pooling, boundaries, dtype)
        return self._stream(sentences, spec, self._reader(tokenize), num_sentences)

    def _reader(self, tokenize):
        """The function from a text to its sentences. Warns if the text is in another language."""
        read = make_tokenizer(tokenize)
        check_language(self.layer.language, language_of(tokenize))
        return read

    def _stream(self, sentences, spec, read, num_sentences=None):
        total = num_sentences or operator.length_hint(sentences) or None
        return self._arrays(sentences, read, spec, total)

    def _arrays(self, items, sentences_of, spec, total):
        with progress_bar("embedding", total, unit="sentences", shown=self.progress) as bar:
            for block in self.pairs(items, sentences_of, spec):
                for _, array in block:
                    yield array
                bar.update(len(block))

    def pairs(
        self,
        items: Iterable[Item],
        sentences_of: Callable[[Item], list[list[Any]]],
        spec: VectorSpec,
    ) -> Iterator[list[tuple[Item, np.ndarray]]]:
        """Yields pairs of an item and the array of its text, in a list for each block.

        A block is embedded together. Where blocks end depends only on the items.

        Args:
            items: Anything that has a text.
            sentences_of: Returns the sentences of an item, lists of tokens.
            spec: What to return.
        """
        texts = ((item, sentences_of(item)) for item in items)
        limit = _BATCHES_TOGETHER * self.batch_tokens
        for block in in_blocks(texts, lambda pair: num_positions(pair[1]), limit):
            arrays = self._embed_block([text or [[]] for _, text in block], spec)
            yield [(item, array) for (item, _), array in zip(block, arrays)]

    def _embed_block(self, texts, spec):
        """An array for each text, a list of at least one sentence."""
        sentences = list(itertools.chain.from_iterable(texts))
        arrays = self._embed_rows(list(map(without_padding, sentences)), spec)
        if spec.pooling is None:
            lengths = [num_positions([sentence], spec.boundaries) for sentence in sentences]
            arrays = map(_padded, arrays, lengths)
        arrays = iter(arrays)
        found = [_joined([next(arrays) for _ in text]) for text in texts]
        return found if spec.pooling is None else [_pooled(array, spec) for array in found]

    def _embed_rows(self, block, spec):
        """An array for each sentence of a block, a list of tokens."""
        if self.config.reads_text and not self._has_hinted:
            reads_proteins = self.layer.language == PROTEINS
            self._has_hinted = (hint_at_proteins if reads_proteins else hint_at_raw_text)(block)
        vectors, rows = self._word_table(block)
        table = as_table(vectors)

        def start(batch):
            return self._sentences.start(table, batch, self._chunk, spec)

        arrays = [None] * len(block)
        batches = self._batches(list(map(len, block)))
        started = ((batch, self._start([rows[i] for i in batch], start)) for batch in batches)
        for batch, found in one_ahead(started):
            for i, array in zip(batch, found):
                arrays[i] = array
        return arrays

    def _batches(self, lengths):
        """The indices of sentences with these numbers of tokens, by batch, the longest first."""
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        while order:  # the longest of those that are left, as many as fill a batch
            longest = lengths[order[-1]] + 2
            count = padded(max(1, self.batch_tokens // min(longest, self._chunk)), up=False)
            batch = order[-count:]
            if longest > self._chunk:  # not with much shorter ones, which would be padded
                batch = [i for i in batch if 2 * (lengths[i] + 2) > longest]
            order = order[: -len(batch)]
            yield batch

    def _start(self, batch, start):
        """Starts a batch of rows of the table: a function that waits for its arrays."""
        try:
            wait = start(batch)
        except Exception as error:
            arrays = self._halved(batch, start, error)
            return lambda: arrays

        def arrays_of_batch():
            try:
                return wait()
            except Exception as error:
                return self._halved(batch, start, error)

        return arrays_of_batch

    def _halved(self, batch, start, error):
        """The arrays of a batch in two parts, if the error is that memory ran out."""
        if not _OUT_OF_MEMORY.search(f"{type(error).__name__} {error}"):
            raise error
        if len(batch) == 1:
            message = "Not enough memory: make the Embedder with a smaller batch_tokens."
            raise MemoryError(message) from error
        half = len(batch) // 2
        self.batch_tokens = half * min(max(map(len, batch)) + 2, self._chunk)
        return [x for part in (batch[:half], batch[half:]) for x in self._start(part, start)()]

    def _word_table(self, block):
        """Vectors of the block's boundaries and distinct words, and each sentence's rows of it."""
        tokens, index = distinct(itertools.chain.from_iterable(block))
        # Several tokens may have one key: `str` and `bytes`, or long ones that begin alike.
        keys, rows = distinct([BEGIN, END, *self._words.keys(tokens)])
        ends = np.cumsum(list(map(len, block)))
        return self._words.vectors(keys), np.split(rows[2:][index], ends[:-1])

    def embed_file(
        self,
        source: str | os.PathLike | BinaryIO,
        output: str | os.PathLike,
        vectors: str | int = "mix",
        pooling: str | None = None,
        *,
        tokenize: Tokenize = None,
        boundaries: bool = False,
        field: str | None = None,
        keep_fields: Sequence[str] | None = None,
        format: str | None = None,
        max_line_tokens: int = 100_000,
        dtype: str = "float32",
        compression: str | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> EmbeddedFile:
        """Embeds a file of tokenized sentences or of proteins, in nearly constant memory.

        The output appears, or is replaced, when it is complete. After a kill, the same call with
        `resume` continues it.

        Args:
            source: The text, UTF-8: a path, also of a .gz or .xz file, or an open binary file. The
                ending of its name determines the format: JSON (.jsonl, .ndjson, .json), CoNLL-U
                (.conllu, .conll), FASTA (.fasta, .fa, .faa), else one sentence per line.
            output: The file to write: .h5, .hdf5 or .npz, with an array for each line, named "0",
                "1", ..., or after the identifier of an entry; or .parquet, a folder, which needs
                pyarrow. With `tokenize` each also tells the tokens and sentences of the rows.
            vectors, pooling, tokenize, boundaries: As for `embed`; a raw text is a line.
            field: Field of JSON with the sentence, a string or a list of tokens; `None` for
                `"text"`. If given, any text is read as JSON.
            keep_fields: Further fields of JSON to write, such as `["id", "label"]`: columns of
                Parquet, attributes in hdf5. Strings unchanged, other values as their JSON.
            format: `"text"`, `"json"`, `"conllu"` or `"fasta"`, whatever the name of the text.
            max_line_tokens: A longer line, one of invalid JSON, or an entry with characters other
                than letters has the array of an empty one, and the reason in the attribute
                (Parquet: column) `error`.
            dtype: `"float32"` or `"float16"`, of the stored vectors.
            compression: `None` or `"gzip"`.
            resume: Whether to continue an output that was started; a complete one is left
                unchanged. A function `tokenize` must then have a name.
            overwrite: Whether to replace an existing output.

        Returns:
            An `EmbeddedFile`: lines, tokens, seconds, and the lines that could not be read.

        Raises:
            FileExistsError: if the output exists or was started, without `resume` or `overwrite`,
                or a folder in its place is a link or holds other files.
            FileNotFoundError: if a file or folder does not exist.
            OSError: if the disk is full. The lines embedded so far are kept for `resume`.
            ValueError: if an argument is invalid, a file is damaged, the output to resume belongs
                to a different text or different settings, the output is an input, two entries have
                the same identifier, or a number is beyond the range of `dtype`.

        Example:

        >>> Embedder().embed_file("text.txt.gz", "vectors.h5", vectors="layers", resume=True)
        """
        spec = self._spec(vectors, pooling, boundaries, dtype)
        reading = dict(
            field=field,
            keep_fields=keep_fields,
            max_line_tokens=max_line_tokens,
            tokenize=tokenize,
            format=format,
        )
        writing = dict(compression=compression, resume=resume, overwrite=overwrite)
        return run_file_job(self, source, output, spec, reading, **writing)

    def encode_words(self, words: Sequence[str | bytes]) -> np.ndarray:
        """Token vectors float32 `(len(words), P)` of single words: the input of the LSTMs."""
        check_process()
        check_batch(words)
        keys, index = distinct(self._words.keys(checked_tokens(words)))
        return self._words.vectors(keys)[index]

    def dump_words(
        self,
        vocabulary: str | os.PathLike | Sequence[str],
        output: str | os.PathLike,
        *,
        overwrite: bool = False,
    ) -> int:
        """Writes the token vectors of a vocabulary as bilm-tf's `dump_token_embeddings` does.

        Args:
            vocabulary: The words, a list or the path of a file with one per line; `<S>` and `</S>`
                are boundaries of sentences.
            output: The hdf5 file to write: `embedding`, float32 `(num_words, P)`.
            overwrite: Whether to replace an existing file.

        Returns:
            The number of words.

        Raises:
            FileExistsError: if the file exists, without `overwrite`.
            ValueError: if the file is the vocabulary's or the model's.
        """
        check_process()
        with atomic_write(output, overwrite, [vocabulary, *self.sources]) as partial:
            words = read_words(vocabulary)
            pairs = zip(words, self._words.keys(words))
            keys = [word if word in (BEGIN, END) else key for word, key in pairs]
            write_arrays(partial, [(TOKEN_EMBEDDINGS_NAME, self._words.encode(keys))])
        return len(words)

    def _spec(self, vectors, pooling, boundaries, dtype):
        """The checked arguments of a request."""
        check_process()
        vectors = check_vectors(vectors, self.config.num_layers)
        if vectors == "mix" and not self.layer.mixes:
            raise ValueError(
                f"This ElmoLayer has vectors={self.layer.vectors!r} and no mix: pass "
                "vectors='average', 'top' or 'layers'."
            )
        if vectors == "mix" and self.layer.layer_norm:
            raise ValueError(
                "The ElmoLayer's mix has layer_norm, which depends on the batch: take "
                "vectors='layers' and mix them yourself."
            )
        return VectorSpec(vectors, pooling, boundaries, dtype)


def _copy(layer, dtype):
    """A layer with the same weights, which computes in a dtype, by default in its own."""
    config = layer.get_config()
    config["dtype"] = dtype or config["dtype"]
    copy = type(layer).from_config(config)  # which copies the weights of the biLM
    for mix, own in zip(copy.mixes, layer.mixes):
        mix.set_weights(own.get_weights())
    return copy


def _joined(arrays):
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-2)


def _padded(array, num_tokens):
    """The array of a sentence with zeros for the padding at its end."""
    missing = num_tokens - array.shape[-2]
    padding = [(0, 0)] * (array.ndim - 2) + [(0, missing), (0, 0)]
    return np.pad(array, padding) if missing else array


def _pooled(array, spec):
    if not array.shape[-2]:
        return np.zeros((*array.shape[:-2], array.shape[-1]), spec.dtype)
    pooled = array.mean(axis=-2) if spec.pooling == "mean" else array.max(axis=-2)
    return pooled.astype(spec.dtype, copy=False)
