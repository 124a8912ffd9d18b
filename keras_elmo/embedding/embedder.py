"""Many sentences to word vectors, fast."""

import contextlib
import itertools
import sys

import numpy as np

from keras_elmo.embedding.compiled import CompiledSentences, CompiledWords, padded
from keras_elmo.embedding.file_job import embed_file
from keras_elmo.embedding.word_cache import WordCache, write_token_embeddings
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.ops.quantization import Int8BiLM
from keras_elmo.text.characters import (
    BEGIN_SENTENCE,
    END_SENTENCE,
    boundary_row,
    checked_tokens,
    encode_sentences,
    split_tokens,
    token_bytes,
    trim_characters,
)
from keras_elmo.text.token_ids import BEGIN, END, UNKNOWN, id_table, read_words

_OUTPUTS = ("mix", "layers", "top", "average")
_POOLINGS = (None, "mean", "max")
_BATCHES_TOGETHER = 16
_WORDS_AT_ONCE = 512
_WORDS_TO_COMPARE = 8
_SAME_WORD_TOLERANCE = 1e-3
_OUT_OF_MEMORY = (
    *("resource_exhausted", "resourceexhausted", "out of memory", "outofmemory"),
    *("not enough memory", "can't allocate memory", "failed to allocate"),
)
"""How the backends say that memory did not suffice, in small letters."""


class Embedder:
    """Sentences in, word vectors out, as fast as the machine allows.

    Each distinct word is read by the character encoder once and then remembered; sentences are
    sorted by length and run in batches of about as many tokens. Vectors do not depend on what else
    is embedded: they are those of `ElmoLayer`, to a few units in the last place.

    Args:
        model: What to embed with: as for `ElmoLayer`, or an `ElmoLayer`, whose mix is then used.
        batch_tokens: Tokens in a batch, boundaries and padding included.
        word_cache: How many words' vectors to remember, or a `WordCache`; 0 for none.
        max_tokens: Longest piece to embed at once. Longer texts are cut into pieces that overlap.
        overlap: Tokens that two pieces share. Each takes the vectors of the half nearer to it, so
            that each word has seen at least `overlap // 2` tokens to either side.
        dtype: Dtype or dtype policy of the computation, such as `"bfloat16"`; or `"int8"`, which
            rounds the LSTMs' products to 8 bits (see `Int8BiLM`). Vectors come out in float32 in
            any case. An `ElmoLayer` has a dtype of its own and allows only `"int8"`.
        vocabulary: For models that read whole words: a path or list of the words, in the order of
            the rows of their table.
        progress: Whether to show a progress bar on the standard error; `None` for when that is a
            terminal.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if an argument is bad, or the word cache is of another model.

    Example:

    >>> embedder = Embedder()
    >>> [vectors.shape for vectors in embedder.embed(["The bank raised its rates .", "Hello"])]
    [(6, 256), (1, 256)]

    Reference: Peters et al. 2018; BILM_TF.md.
    """

    def __init__(
        self,
        model="default",
        *,
        batch_tokens=2048,
        word_cache=30_000,
        max_tokens=1024,
        overlap=128,
        dtype=None,
        vocabulary=None,
        progress=None,
    ):
        _check_arguments(batch_tokens, max_tokens, overlap)
        if not isinstance(model, ElmoLayer):
            self.layer = ElmoLayer(model, dtype=None if dtype == "int8" else dtype)
        elif dtype in (None, "int8"):
            self.layer = model
        else:
            raise ValueError("dtype is set by the ElmoLayer: make the layer with that dtype.")
        self.dtype = "int8" if dtype == "int8" else self.layer.bilm_dtype_policy.name
        self._bilm = Int8BiLM(self.layer.bilm) if dtype == "int8" else self.layer.bilm
        self.config = self.layer.config
        self.batch_tokens = batch_tokens
        self.max_tokens = max_tokens
        self.overlap = overlap
        self.progress = progress
        self.vocabulary = None if vocabulary is None else read_words(vocabulary)
        if not self.config.reads_characters and self.vocabulary is None:
            raise ValueError(
                "This model reads whole words: give the vocabulary, the words in the order of its "
                "table's rows."
            )
        self._ids = None if self.config.reads_characters else id_table(self.vocabulary)
        if isinstance(word_cache, int):
            word_cache = WordCache(word_cache) if word_cache else None
        self.word_cache = word_cache
        self._words = CompiledWords(self.layer)
        self._sentences = {}
        if word_cache:
            word_cache.rename(self._vocabulary_key)
            self._check_cache()

    def embed(self, sentences, output="mix", pooling=None):
        """Embeds sentences.

        Args:
            sentences: Iterable of sentences: lists of tokens, or strings to be split at white
                space. Of any lengths, empty ones too.
            output: `"mix"` for the layer's weighted sum, which is the average unless trained;
                `"layers"` for all layers, `"top"` for the last, `"average"` for their mean.
            pooling: `None` for a vector for each word; `"mean"` or `"max"` over the words for one
                for each sentence. An empty sentence has zeros.

        Returns:
            List of float32 arrays in the order given: for a sentence of T tokens `(T, 2 * P)`, or
            `(L + 1, T, 2 * P)` for `"layers"`; without T where pooled.

        Raises:
            ValueError: if an argument is bad, or what is given is no sentence.
            MemoryError: if even one sentence does not fit.

        Example:

        >>> Embedder().embed([["Hello", "world"]], output="layers")[0].shape
        (3, 2, 256)
        """
        self._check_request(sentences, output, pooling)
        sentences = list(sentences)
        return list(self._arrays(sentences, output, pooling, len(sentences)))

    def stream(self, sentences, output="mix", pooling=None, num_sentences=None):
        """Embeds sentences one after the other, in memory that does not grow with their number.

        Args:
            sentences, output, pooling: As for `embed`.
            num_sentences: Their number, for the progress bar, if it is known.

        Returns:
            Iterator over what `embed` lists.
        """
        self._check_request(sentences, output, pooling)
        return self._arrays(sentences, output, pooling, num_sentences)

    @property
    def block_tokens(self) -> int:
        """Tokens, boundaries included, of the sentences that are sorted together."""
        return _BATCHES_TOGETHER * self.batch_tokens

    def embed_block(self, sentences, output="mix", pooling=None):
        """Embeds sentences that are sorted together, without a progress bar.

        Args:
            sentences, output, pooling: As for `embed`; some `block_tokens` tokens at most.

        Returns:
            As `embed`.
        """
        self._check_request(sentences, output, pooling)
        return self._embed_block(list(map(_tokens, sentences)), output, pooling)

    def _arrays(self, sentences, output, pooling, num_sentences):
        with self._progress(num_sentences) as advance:
            sentences = map(_tokens, sentences)
            while block := self._next_block(sentences):
                arrays = self._embed_block(block, output, pooling)
                yield from arrays
                advance(len(arrays))
                del arrays  # or two blocks would be in memory while the next is made

    def embed_file(
        self,
        source,
        target,
        output="mix",
        pooling=None,
        *,
        field=None,
        max_line_tokens=100_000,
        dtype="float32",
        compression=None,
        resume=False,
        overwrite=False,
    ):
        """Embeds a text file of one tokenized sentence a line, in memory that hardly grows with it.

        The target appears, or is replaced, when it is complete. Until then its vectors are in parts
        in a folder beside it: after a kill, the same call with `resume` continues after the last
        part.

        Args:
            source: The text, UTF-8: a path, whose name may end in .gz or .xz, or an open file of
                bytes. A name in .jsonl (.jsonl.gz, ...) is JSON lines.
            target: The file to write, .h5, .hdf5, .parquet (a folder; needs pyarrow) or .npz: an
                array for each line, named by its number from "0" on. See `open_writer`.
            output, pooling: As for `embed`.
            field: Field of JSON lines that holds the sentence, as a string or a list of tokens;
                `None` for `"text"`. Where given, any text is read as JSON lines.
            max_line_tokens: Tokens in the longest line to embed. A longer one, and one that is not
                the JSON it should be, has an array without tokens, with the reason in the attribute
                (Parquet: column) `error`.
            dtype: `"float32"` or `"float16"`, of the stored vectors.
            compression: `None` or `"gzip"`.
            resume: Whether to continue a target that was begun, or one whose text has grown since.
            overwrite: Whether to replace the target if it exists.

        Returns:
            An `EmbeddedFile`: lines, tokens, seconds, and what could not be read.

        Raises:
            FileExistsError: if the target exists or was begun, and neither `resume` nor `overwrite`
                is set.
            FileNotFoundError: if there is no such file or folder.
            OSError: if the disk is full. What was embedded before is kept for `resume`.
            ValueError: if an argument is bad, the text is damaged, or what is to be resumed was
                made from another text or with other settings.

        Example:

        >>> Embedder().embed_file("text.txt.gz", "vectors.h5", output="layers", resume=True)
        """
        return embed_file(
            self,
            source,
            target,
            output=output,
            pooling=pooling,
            field=field,
            max_line_tokens=max_line_tokens,
            dtype=dtype,
            compression=compression,
            resume=resume,
            overwrite=overwrite,
        )

    def encode_words(self, words):
        """Token vectors of single words, by the character encoder: what the LSTMs read.

        Args:
            words: List of words, `str` or UTF-8 `bytes`.

        Returns:
            float32 `(len(words), P)`.
        """
        keys = list(map(self._key, words))
        distinct = list(dict.fromkeys(keys))
        places = {key: i for i, key in enumerate(distinct)}
        return self._word_vectors(distinct)[[places[key] for key in keys]]

    def remember_words(self, words):
        """Encodes words before they are met, such as those of a vocabulary.

        Args:
            words: List of words, or the path of a file with one a line; `<S>` and `</S>` stand for
                a sentence's boundaries.

        Raises:
            ValueError: if this embedder does not remember so many words.
        """
        words = map(self._vocabulary_key, read_words(words))
        # Each sentence has the boundaries, and a file of the cache an unknown word too.
        keys = list(dict.fromkeys([BEGIN, END, UNKNOWN, *words]))
        room = 0 if self.word_cache is None else self.word_cache.max_words
        if len(keys) > room:
            raise ValueError(
                f"This Embedder remembers {room:,} words, not {len(keys):,}: make it with "
                f"word_cache={2 * len(keys)}."
            )
        for start in range(0, len(keys), 16 * _WORDS_AT_ONCE):
            self.word_cache.fetch(keys[start : start + 16 * _WORDS_AT_ONCE], self._encode)

    def dump_words(self, vocabulary, path):
        """Writes the token vectors of a vocabulary as bilm-tf's `dump_token_embeddings` does.

        Args:
            vocabulary: The words: a path of a file with one a line, or a list. `<S>` and `</S>` are
                a sentence's boundaries.
            path: The hdf5 file to write: `embedding`, float32 `(num_words, P)`.
        """
        keys = list(map(self._vocabulary_key, read_words(vocabulary)))
        write_token_embeddings(path, self._encode(keys))

    def _check_request(self, sentences, output, pooling):
        if isinstance(sentences, (str, bytes)):
            raise ValueError(
                f"Expected a list of sentences, got the single string {sentences[:60]!r}. Put it "
                "into a list: [sentence]."
            )
        if output not in _OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(_OUTPUTS)}; got {output!r}.")
        if pooling not in _POOLINGS:
            raise ValueError(f"pooling must be None, 'mean' or 'max'; got {pooling!r}.")
        if output == "mix" and not self.layer.mixes:
            raise ValueError("The ElmoLayer has no mix: make it with output='mix'.")
        if output == "mix" and self.layer.layer_norm:
            raise ValueError(
                "The ElmoLayer's mix has layer_norm, which depends on the batch. Take "
                "output='layers' and mix them yourself."
            )

    @contextlib.contextmanager
    def _progress(self, total):
        shown = sys.stderr.isatty() if self.progress is None else self.progress
        if not shown:
            yield lambda count: None
            return
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("embedding", total=total)
            yield lambda count: progress.advance(task, count)

    def _next_block(self, sentences):
        """The sentences that are sorted and encoded together."""
        block, num_tokens = [], 0
        for sentence in sentences:
            block.append(sentence)
            num_tokens += len(sentence) + 2
            if num_tokens >= self.block_tokens:
                break
        return block

    def _embed_block(self, block, output, pooling):
        """Arrays of sentences, in their order."""
        table, index = self._word_table(block)
        pieces = [
            (number, index[number][start : start + self.max_tokens])
            for number, sentence in enumerate(block)
            for start in _starts(len(sentence), self.max_tokens, self.overlap)
        ]
        vectors = [None] * len(pieces)
        order = sorted(range(len(pieces)), key=lambda i: len(pieces[i][1]))
        while order:
            taken = self._take_batch(order, pieces)
            for i, array in zip(taken, self._run([pieces[i][1] for i in taken], table, output)):
                vectors[i] = array
        joined = itertools.groupby(zip(pieces, vectors), key=lambda pair: pair[0][0])
        arrays = [_joined([array for _, array in group], self.overlap) for _, group in joined]
        return arrays if pooling is None else [_pooled(array, pooling) for array in arrays]

    def _take_batch(self, order, pieces):
        """Takes the longest pieces that are left, as many as fill a batch."""
        width = len(pieces[order[-1]][1]) + 2
        count = padded(max(1, self.batch_tokens // width), up=False)
        taken = order[-count:]
        del order[-count:]
        return taken

    def _word_table(self, block):
        """Vectors of the block's words, its boundaries first, and each sentence as rows of it."""
        keys = {token: self._key(token) for token in dict.fromkeys(itertools.chain(*block))}
        distinct = dict.fromkeys([UNKNOWN, *keys.values()])
        places = {key: i for i, key in enumerate(distinct, start=2)}
        rows = {token: places[key] for token, key in keys.items()}
        index = [np.array([rows[token] for token in sentence], np.int32) for sentence in block]
        return self._word_vectors([BEGIN, END, *places]), index

    def _key(self, token):
        """What a word is remembered by: UTF-8 with all the bytes that the character encoder reads.

        It reads two less than its width. Three more are kept, for a character cut in two falls
        away with up to three bytes.
        """
        key = token_bytes(token)
        if not self.config.reads_characters or len(key) <= self.config.max_characters_per_token:
            return key
        return token_bytes(key[: self.config.max_characters_per_token + 1])

    def _vocabulary_key(self, word):
        """The key of a line of a vocabulary, or of a word in a cache."""
        return word if word in (BEGIN, END) else self._key(word)

    def _word_vectors(self, keys):
        if self.word_cache is None:
            return self._encode(keys)
        return self.word_cache.fetch(keys, self._encode)

    def _encode(self, keys):
        """Token vectors float32 `(n, P)` of distinct words, by the model."""
        if not self.config.reads_characters:
            return self._look_up(keys)
        width = self.config.max_characters_per_token
        vectors = np.empty((len(keys), self.config.projection_dim), np.float32)
        # Words of like lengths together: their characters are cut to the longest.
        order = sorted(range(len(keys)), key=lambda i: len(keys[i]))
        for start in range(0, len(order), _WORDS_AT_ONCE):
            places = order[start : start + _WORDS_AT_ONCE]
            plain = [b"" if keys[i] in (BEGIN, END) else keys[i] for i in places]
            ids = encode_sentences([plain], width)[0, 1:-1]
            for row, i in enumerate(places):
                if keys[i] in (BEGIN, END):
                    mark = BEGIN_SENTENCE if keys[i] == BEGIN else END_SENTENCE
                    ids[row] = boundary_row(mark, width)
            vectors[places] = self._words.run(trim_characters(ids, self.config.widest_filter))
        return vectors

    def _look_up(self, keys):
        ids = [self._ids.get(key, self._ids[UNKNOWN]) for key in keys]
        return self._words.run(np.array(ids, np.int32))

    def _run(self, batch, table, output):
        """Arrays of the pieces of a batch, given as rows of the table."""
        longest = max(map(len, batch)) + 2
        index = np.zeros((len(batch), longest), np.int32)
        lengths = np.array([len(rows) + 2 for rows in batch], np.int32)
        for row, rows in zip(index, batch):
            row[1 : len(rows) + 1] = rows
            row[len(rows) + 1] = 1
        if output not in self._sentences:
            mix = self.layer.mixes[0] if output == "mix" else None
            self._sentences[output] = CompiledSentences(self._bilm, mix, output)
        try:
            vectors = self._sentences[output].run(table[index], lengths)
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise MemoryError(
                    f"Not enough memory for a piece of {len(batch[0])} tokens: make the Embedder "
                    "with a smaller max_tokens."
                ) from error
            self.batch_tokens = max(1, len(batch) // 2) * longest
            half = len(batch) // 2
            parts = batch[:half], batch[half:]
            return [array for part in parts for array in self._run(part, table, output)]
        # Copies: a view would keep the whole batch in memory.
        return [array[..., : len(rows), :].copy() for array, rows in zip(vectors, batch)]

    def _check_cache(self):
        """Raises ValueError unless the cache's vectors are this model's."""
        keys, known = self.word_cache.latest(_WORDS_TO_COMPARE)
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
                "model's token encoder."
            )


def _starts(num_tokens, max_tokens, overlap):
    """Where the pieces of a sentence begin."""
    if num_tokens <= max_tokens:
        return [0]
    return range(0, num_tokens - overlap, max_tokens - overlap)


def _joined(pieces, overlap):
    """The array of a sentence from those of its pieces."""
    if len(pieces) == 1:
        return pieces[0]
    left, right = overlap // 2, overlap - overlap // 2
    last = len(pieces) - 1
    parts = [
        piece[..., (right if i else 0) : piece.shape[-2] - (left if i < last else 0), :]
        for i, piece in enumerate(pieces)
    ]
    return np.concatenate(parts, axis=-2)


def _pooled(array, pooling):
    if not array.shape[-2]:
        return np.zeros((*array.shape[:-2], array.shape[-1]), np.float32)
    return array.mean(axis=-2) if pooling == "mean" else array.max(axis=-2)


def _tokens(sentence):
    is_text = isinstance(sentence, (str, bytes))
    return split_tokens(sentence) if is_text else checked_tokens(sentence)


def _is_out_of_memory(error):
    """Whether an error of any backend says that memory did not suffice."""
    if isinstance(error, MemoryError):
        return True
    text = f"{type(error).__name__} {error}".lower()
    return any(phrase in text for phrase in _OUT_OF_MEMORY)


def _check_arguments(batch_tokens, max_tokens, overlap):
    for name, value in (("batch_tokens", batch_tokens), ("max_tokens", max_tokens)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    if not isinstance(overlap, int) or not 0 <= overlap < max_tokens:
        raise ValueError(
            f"overlap must be an integer of at least 0 and below max_tokens={max_tokens}, got "
            f"{overlap!r}."
        )
