"""Masks in models as users write them: padding changes no output, before and after saving."""

import pickle

import keras
import numpy as np
import pytest
from keras import layers

from helpers import TINY, compiled, to_numpy
from keras_elmo import (
    ElmoLayer,
    Lexicon,
    UnicodeCharEncoder,
    WeightedLayerSum,
    encode_sentences,
)
from keras_elmo.config import ElmoConfig

SENTENCES = [["Hello", "world", "!"], ["Hi"]]
NUMBERS = np.array([[3, 4, 5], [6, 0, 0]])
IS_TENSORFLOW = keras.backend.backend() == "tensorflow"


def tiny_layer(**arguments):
    return ElmoLayer(TINY, **arguments)


def lexicon_layer(**arguments):
    words = ["<oov>", "<bos>", "<eos>", "<pad>", "Hello", "world", "Hi"]
    config = ElmoConfig(
        filters=None,
        vocabulary_size=len(words),
        word_dim=3,
        lstm_dim=8,
        projection_dim=4,
        max_characters_per_token=50,
    )
    return ElmoLayer(None, config=config, lexicon=Lexicon(words), **arguments)


def words_layer(**arguments):
    table = np.random.default_rng(0).normal(size=(9, 12))
    return ElmoLayer(TINY, token_embeddings=table, **arguments)


def pad(ids, num_positions):
    return np.pad(ids, ((0, 0), (0, num_positions)) + ((0, 0),) * (ids.ndim - 2))


def strings(rows):
    import tensorflow as tf

    return tf.constant(rows)


def character_ids():
    ids = encode_sentences(SENTENCES)
    return tiny_layer, keras.Input((None, 50), dtype="int32"), ids, pad(ids, 4)


def lexicon_ids():
    ids = lexicon_layer().lexicon.encode_sentences(SENTENCES)
    return lexicon_layer, keras.Input((None, 1), dtype="int32"), ids, pad(ids, 4)


def token_ids():
    ids = np.array([[1, 4, 5, 6, 2], [1, 7, 2, 0, 0]], "int32")
    return words_layer, keras.Input((None,), dtype="int32"), ids, pad(ids, 4)


def tokens():
    rows = [["Hello", "world", "!"], ["Hi", "", ""]]
    longer = [row + 4 * [""] for row in rows]
    return tiny_layer, keras.Input((None,), dtype="string"), strings(rows), strings(longer)


def sentences():
    rows = ["Hello world !", "Hi"]
    longer = [*rows, "this one has as many as 7"]
    return tiny_layer, keras.Input((), dtype="string"), strings(rows), strings(longer)


KINDS = [
    character_ids,
    pytest.param(lexicon_ids, marks=pytest.mark.slow),
    pytest.param(token_ids, marks=pytest.mark.slow),
]
if IS_TENSORFLOW:  # elsewhere a model takes no strings
    KINDS += [tokens, pytest.param(sentences, marks=pytest.mark.slow)]


def average(x):
    return layers.GlobalAveragePooling1D()(x)


def lstm(x, **options):
    return layers.LSTM(3, **options)(x)


def both(e, g):
    return layers.Concatenate()([e, g])


def heads(e, g):
    """What users put behind ELMo `e` and an embedding `g`, each `(B, D)` in the end."""
    one_way = both(e, g)
    dropped = both(layers.Dropout(0.5)(e), layers.Dropout(0.5)(g))
    return {
        "average": average(one_way),
        "other order": average(layers.Concatenate()([g, e])),
        "no mask in the other": average(both(e, layers.Rescaling(2.0)(g))),
        "Add": average(layers.Add()([layers.Dense(8)(e), g])),
        "Dropout": average(dropped),
        "LSTM": lstm(one_way),
        "Bidirectional": layers.Bidirectional(layers.LSTM(3))(one_way),
        "LSTM of a sequence": lstm(lstm(dropped, return_sequences=True)),
        "MultiHeadAttention": average(layers.MultiHeadAttention(2, 4)(one_way, one_way)),
        "one input": lstm(e),
    }


def heads_of_layers(hidden_states, g):
    """What users put behind all layers."""
    merged = layers.Concatenate()([hidden_states, layers.Dropout(0.1)(hidden_states)])
    each = layers.TimeDistributed(layers.Bidirectional(layers.LSTM(3)))(hidden_states)
    return {
        "WeightedLayerSum": average(both(WeightedLayerSum()(hidden_states), g)),
        "Concatenate of layers": lstm(both(WeightedLayerSum()(merged), g)),
        "LSTM of each layer": keras.ops.reshape(each, (-1, 18)),
    }


def outputs_of(model, inputs, padding=0):
    """The outputs for the two sentences."""
    numbers = np.pad(NUMBERS, ((0, len(inputs) - 2), (0, padding)))
    # Not compiled, which would take most of the time.
    outputs = model(list(map(keras.ops.convert_to_tensor, (inputs, numbers))))
    return {name: to_numpy(x)[:2] for name, x in outputs.items()}


def check(model, inputs, longer, tmp_path):
    """Padding changes nothing, also when the model was saved, cloned or pickled."""
    expected = outputs_of(model, inputs)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    models = model, again, clone, pickle.loads(pickle.dumps(model))
    all_outputs = [outputs_of(one, longer, padding=4) for one in models]
    for name, output in expected.items():
        assert np.abs(output).max() > 1e-3, name
        for found in all_outputs:
            np.testing.assert_allclose(found[name], output, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_functional_models(kind, tmp_path):
    make, symbolic, inputs, longer = kind()
    numbers = keras.Input((None,), dtype="int32")
    embedded = layers.Embedding(9, 8, mask_zero=True)(numbers)
    outputs = heads(make()(symbolic), embedded)
    if kind is not character_ids:  # all kinds have masks of one kind
        outputs = {name: outputs[name] for name in ("average", "LSTM", "MultiHeadAttention")}
    first, second = make(num_mixes=2)(symbolic)
    outputs |= {"first mix": lstm(both(first, embedded)), "second": average(both(second, embedded))}
    outputs |= heads_of_layers(make(vectors="layers")(symbolic), embedded)
    check(keras.Model([symbolic, numbers], outputs), inputs, longer, tmp_path)


@pytest.mark.parametrize("with_strings", [False, True] if IS_TENSORFLOW else [False])
def test_the_parts_of_elmo(with_strings, tmp_path):
    elmo = ElmoLayer(TINY)
    _, symbolic, inputs, longer = tokens() if with_strings else character_ids()
    numbers = keras.Input((None,), dtype="int32")
    x = UnicodeCharEncoder()(symbolic) if with_strings else symbolic
    x = elmo.bilm(elmo.token_encoder(x))
    y = layers.Rescaling(2.0)(elmo.mixes[0](x))  # without a mask
    outputs = {
        "merged": lstm(both(WeightedLayerSum()(x), y)),
        "number": average(layers.Embedding(9, 8, mask_zero=True)(numbers)),
    }
    check(keras.Model([symbolic, numbers], outputs), inputs, longer, tmp_path)


@keras.saving.register_keras_serializable("test_masks")
class Tagger(keras.Model):
    """A subclassed model, whose masks come with the data."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.elmo = ElmoLayer(TINY)
        self.embedding = layers.Embedding(9, 8, mask_zero=True)
        self.merge = layers.Concatenate()
        self.lstm = layers.LSTM(3)

    def call(self, inputs):
        characters, numbers = inputs
        return {"x": self.lstm(self.merge([self.elmo(characters), self.embedding(numbers)]))}


def test_a_subclassed_model(tmp_path):
    _, _, inputs, longer = character_ids()
    model = Tagger()
    expected = outputs_of(model, inputs)["x"]
    model.save(tmp_path / "model.keras")
    for one in (model, keras.models.load_model(tmp_path / "model.keras")):
        found = outputs_of(one, longer, padding=4)["x"]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_fit_reads_no_padding():
    _, symbolic, inputs, longer = character_ids()
    numbers = keras.Input((None,), dtype="int32")
    losses = []
    for ids, places in ((inputs, NUMBERS), (longer, pad(NUMBERS, 4))):
        keras.utils.set_random_seed(1)
        embedded = layers.Embedding(9, 8, mask_zero=True)(numbers)
        model = keras.Model([symbolic, numbers], lstm(both(ElmoLayer(TINY)(symbolic), embedded)))
        compiled(model, "sgd", "mse", run_eagerly=True)
        history = model.fit([ids, places], np.ones((2, 3)), epochs=2, verbose=0)
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_layers_of_full_precision_get_the_mask_of_half_precision(policy):
    _, symbolic, inputs, longer = character_ids()
    model = keras.Model(symbolic, average(ElmoLayer(TINY, dtype=policy)(symbolic)))
    expected, found = (to_numpy(model(keras.ops.convert_to_tensor(x))) for x in (inputs, longer))
    np.testing.assert_allclose(found, expected, atol=1e-5)
