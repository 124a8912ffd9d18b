"""ElmoLayer: what goes in, what comes out, what is kept."""

import copy
import inspect
import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from helpers import GOLDEN, ONE_LAYER, TINY, assert_close, compiled, tensorflow_only, to_numpy
from keras_elmo import ElmoConfig, ElmoLayer, Embedder, encode_sentences
from keras_elmo.layers import projected_lstm
from keras_elmo.ops import lstm
from layer_checks import check_layer

SENTENCES = json.loads((GOLDEN / "sentences.json").read_text())["batch"]
IDS = encode_sentences(SENTENCES[:4])
WIDE = {
    "char_cnn": {
        "filters": [[1, 1]],
        "n_highway": 0,
        "embedding": {"dim": 1},
        "activation": "relu",
        "max_characters_per_token": 50,
    },
    "lstm": {"dim": 1, "projection_dim": 60_000, "n_layers": 4},
}


def on_ids(elmo):
    """A Functional model around a layer, from character ids."""
    inputs = keras.Input((None, elmo.config.max_characters_per_token), dtype="int32")
    return keras.Model(inputs, elmo(inputs))


# --- the shared check -------------------------------------------------------------------------


def test_layer():
    check_layer(
        lambda **kwargs: ElmoLayer(None, config=ONE_LAYER, trainable_bilm=True, **kwargs),
        IDS,
        weights=29,
        output_mask=IDS.any(-1)[:, 2:],
    )


# --- invariance -------------------------------------------------------------------------------


def test_a_sentence_has_the_same_vectors_whatever_else_is_in_the_batch():
    elmo = ElmoLayer(TINY, vectors="layers")
    together = to_numpy(elmo(SENTENCES))
    for order in (np.arange(len(SENTENCES))[::-1], [3, 3, 0], [5]):
        for i, vectors in zip(order, to_numpy(elmo([SENTENCES[i] for i in order]))):
            num_tokens = len(SENTENCES[i])
            assert_close(vectors[:, :num_tokens], together[i, :, :num_tokens], 1e-5)


def test_padding_changes_nothing():
    elmo = ElmoLayer(TINY)
    vectors = to_numpy(elmo(np.pad(IDS, ((0, 2), (0, 9), (0, 0)))))
    num_tokens = IDS.shape[1] - 2
    assert_close(vectors[:4, :num_tokens], to_numpy(elmo(IDS)), 1e-5)
    assert not vectors[4:].any() and not vectors[:, num_tokens:].any()


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's own export")
def test_torch_export():
    import torch

    elmo, ids = ElmoLayer(TINY), keras.ops.convert_to_tensor(IDS)
    exported = torch.export.export(elmo, (ids,)).module()
    np.testing.assert_allclose(to_numpy(exported(ids)), to_numpy(elmo(ids)), atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="a layer is a module of PyTorch")
@pytest.mark.parametrize("convert", ["half", "bfloat16", "double"])
def test_a_module_that_converts_weights_is_told_what_to_do(convert):
    elmo = getattr(ElmoLayer(TINY), convert)()
    dtype = {"half": "float16", "double": "float64"}.get(convert, convert)
    with pytest.raises(ValueError, match=f"converted from float32 to {dtype}.* dtype='{dtype}'"):
        elmo(IDS)
    elmo = getattr(ElmoLayer(TINY, dtype=dtype), convert)()
    assert keras.backend.standardize_dtype(elmo(IDS).dtype) == dtype


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="Keras' export of JAX models")
def test_jax_export_of_sentences_of_any_length(tmp_path):
    tf = pytest.importorskip("tensorflow")
    model = on_ids(ElmoLayer(TINY))
    model.export(tmp_path, verbose=False)
    served = tf.saved_model.load(tmp_path)
    found = served.serve(tf.constant(IDS))
    np.testing.assert_allclose(found, model.predict(IDS, verbose=0), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "shape", "largest"),
    [({}, (1, 4, 50), 261), ({"token_embeddings": np.ones((9, 12))}, (1, 4), 9)],
)
def test_ids_that_do_not_exist(options, shape, largest):
    elmo, ids = ElmoLayer(TINY, **options), np.ones(shape, "int32")
    model = keras.Sequential([keras.Input((None, *shape[2:]), dtype="int32"), elmo])
    for bad in (-1, largest + 1):
        ids[0, 1:2] = bad
        for inputs in (ids, ids.tolist()):
            with pytest.raises(ValueError, match=f"expects ids from 0 to {largest}; got .*{bad}"):
                elmo(inputs)
        try:  # a model cannot check values
            vectors = model.predict(ids, verbose=0)
        except Exception as error:  # of the backend
            assert type(error).__name__ in ("InvalidArgumentError", "IndexError"), error
        else:
            assert np.isnan(vectors[0, 0]).all()


@pytest.mark.parametrize("options", [{}, {"token_embeddings": np.ones((9, 12))}])
def test_padding_at_the_left_is_refused(options):
    ids = IDS if not options else np.array([[1, 3, 2], [0, 1, 2]])
    with pytest.raises(ValueError, match=r"only at the right: use keras.utils.pad_sequences\("):
        ElmoLayer(TINY, **options)(np.roll(ids, 1, axis=1))


def test_rows_of_tokens_keep_their_width():
    elmo, rows = ElmoLayer(TINY), [["the", "cat", "", ""], ["sat", "", "", ""]]
    for tokens in (rows, np.array(rows), tuple(map(tuple, rows))):
        outputs = elmo(tokens)
        vectors = to_numpy(outputs)
        assert vectors.shape[:2] == to_numpy(outputs._keras_mask).shape == (2, 4)
        assert not vectors[:, 2:].any()
        assert_close(vectors[:, :2], to_numpy(elmo([["the", "cat"], ["sat"]])))


def test_empty_sentences():
    elmo = ElmoLayer(TINY)
    assert elmo([[], []]).shape == (2, 0, 24)
    vectors = to_numpy(elmo([[], ["a"]]))
    assert not vectors[0].any()
    np.testing.assert_allclose(vectors[1], to_numpy(elmo([["a"]]))[0], atol=1e-5, rtol=0)


# --- outputs ----------------------------------------------------------------------------------


def test_the_bundled_model_loads_by_default():
    elmo = ElmoLayer()
    assert elmo.language == "en" and elmo.vocabulary is None
    assert {path.name for path in elmo.model_paths} > {"options.json", "weights.hdf5"}
    assert elmo(["The cat sat on the mat .", "Hi"]).shape == (2, 7, 512)


def test_several_mixes_in_one_pass():
    elmo, single = ElmoLayer(TINY, num_mixes=3), ElmoLayer(TINY)
    for i, mix in enumerate(elmo.mixes):
        mix.layer_weights.assign([i, 1.0, -i])
    outputs = elmo(IDS)
    assert len(outputs) == 3
    for mix, output in zip(elmo.mixes, outputs):
        single.mixes[0].layer_weights.assign(mix.layer_weights)
        assert_close(to_numpy(output), to_numpy(single(IDS)))
    assert not np.allclose(to_numpy(outputs[0]), to_numpy(outputs[2]), atol=1e-3)
    assert [output.shape for output in on_ids(elmo)(IDS)] == [(4, 24, 24)] * 3


@pytest.mark.parametrize("kind", ["layers", "mix"])
def test_boundaries(kind):
    elmo = ElmoLayer(TINY, vectors=kind, boundaries=True)
    expected = Embedder(elmo, progress=False).embed(SENTENCES[:4], kind, boundaries=True)
    for inputs in (SENTENCES[:4], IDS):
        vectors = elmo(inputs)
        for array, row, sentence in zip(expected, to_numpy(vectors), SENTENCES, strict=False):
            assert_close(row[..., : len(sentence) + 2, :], array, 1e-5)
        mask = IDS.any(-1) if kind == "mix" else np.repeat(IDS.any(-1)[:, None], 3, axis=1)
        np.testing.assert_array_equal(to_numpy(vectors._keras_mask), mask)
        assert not to_numpy(vectors)[~mask].any()
    copy_of_it = on_ids(ElmoLayer.from_config(elmo.get_config()))
    assert_close(copy_of_it.predict(IDS, verbose=0), to_numpy(elmo(IDS)), 1e-5)


def test_forward_language_model_alone():
    config = ElmoConfig(
        filters=((1, 4), (2, 8)), lstm_dim=8, projection_dim=4, num_highway=0, bidirectional=False
    )
    elmo = ElmoLayer(None, config=config, vectors="layers")
    vectors = to_numpy(elmo([["a", "b", "c"]]))
    assert vectors.shape == (1, 3, 3, 4)
    # What comes later does not reach a forward model.
    np.testing.assert_allclose(vectors[:, :, :1], to_numpy(elmo([["a", "z"]]))[:, :, :1], atol=1e-6)


def test_every_part_is_built_at_once():
    # Keras on JAX runs a model with an unbuilt part once more, uncompiled, before each prediction.
    assert all(layer.built for layer in ElmoLayer(TINY)._flatten_layers())


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX is slow without its compiler")
def test_jax_compiles_a_model_as_a_whole():
    assert compiled(on_ids(ElmoLayer(TINY)), "sgd", "mse").jit_compile


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="there it takes strings")
def test_a_sequential_model_that_begins_with_the_layer_takes_ids():
    model = keras.Sequential([ElmoLayer(TINY), keras.layers.GlobalAveragePooling1D()])
    expected = to_numpy(ElmoLayer(TINY)(IDS)).sum(1) / [[10], [1], [24], [1]]
    np.testing.assert_allclose(model.predict(IDS, verbose=0), expected, atol=1e-5)


# --- two models, state, freezing --------------------------------------------------------------


def test_state_is_carried_in_predict_and_only_the_first_rows_change():
    elmo = ElmoLayer(TINY, stateful=True, max_batch_size=6)
    model = on_ids(elmo)
    first = model.predict_on_batch(IDS)
    hidden = to_numpy(elmo.state.read()[0])
    assert hidden[:4].any(axis=(1, 2, 3)).all()
    assert not hidden[4:].any()
    second = model.predict_on_batch(IDS)
    assert not np.allclose(first, second, atol=1e-3)
    elmo.reset_states()
    np.testing.assert_allclose(model.predict_on_batch(IDS), first, atol=1e-6)


def test_a_biLM_that_carries_state_can_be_trained():
    options = {"stateful": True, "trainable_bilm": True, "max_batch_size": 4}
    elmo = ElmoLayer(None, config=ONE_LAYER, **options)
    model = compiled(on_ids(elmo), "sgd", "mse")
    before = to_numpy(elmo.bilm.trainable_variables[0])
    target = np.zeros(model.compute_output_shape(IDS.shape), "float32")
    for _ in range(2):
        assert np.isfinite(model.train_on_batch(IDS, target))
    assert not np.array_equal(to_numpy(elmo.bilm.trainable_variables[0]), before)


def test_state_has_room_for_max_batch_size_sentences():
    elmo = ElmoLayer(TINY, stateful=True, max_batch_size=2)
    with pytest.raises(ValueError, match="batch of 4 sentences is more than max_batch_size=2"):
        elmo(IDS)
    with pytest.raises(ValueError, match="carries no state"):
        ElmoLayer(TINY).reset_states()


@pytest.mark.parametrize(
    ("trainable_mix", "trainable_bilm", "weights", "trainable"),
    [
        (True, False, 2, True),
        (True, True, 37, False),
        (False, True, 35, True),
        (False, False, 0, True),
    ],
)
def test_freezing(tmp_path, trainable_mix, trainable_bilm, weights, trainable):
    elmo = ElmoLayer(
        TINY,
        trainable_mix=not trainable_mix,
        trainable_bilm=not trainable_bilm,
        trainable=trainable,
    )
    elmo.trainable_mix, elmo.trainable_bilm = trainable_mix, trainable_bilm
    model = on_ids(elmo)
    model.save(tmp_path / "model.keras")
    for one in (model, keras.models.load_model(tmp_path / "model.keras")):
        assert len(one.trainable_weights) == (weights if trainable else 0)
        one.trainable = False
        assert one.trainable_weights == []
        one.trainable = True
        assert len(one.trainable_weights) == weights


def test_a_part_of_the_bilm_is_trained():
    elmo = ElmoLayer(None, config=ONE_LAYER)
    elmo.bilm.backward_lstms[0].trainable = True
    model = compiled(on_ids(elmo), keras.optimizers.SGD(1.0), "mse")
    before = [to_numpy(variable.value).copy() for variable in elmo.backbone.variables]
    model.fit(IDS, np.ones(model.compute_output_shape(IDS.shape), "float32"), verbose=0)
    changed = [
        variable.path.split("/")[-2]
        for old, variable in zip(before, elmo.backbone.variables)
        if not np.array_equal(old, to_numpy(variable.value))
    ]
    assert changed == ["backward_0"] * 4


@pytest.mark.parametrize("trainable_mix", [True, False])
def test_mixes_of_given_weights(tmp_path, trainable_mix):
    expected = to_numpy(ElmoLayer(TINY, vectors="layers")(IDS))[:, 1]
    options = {"mix_weights": [0, 1, 0], "gamma": 2, "trainable_mix": trainable_mix}
    elmo = ElmoLayer(TINY, num_mixes=2, trainable_bilm=not trainable_mix, **options)
    for vectors in elmo(IDS):
        assert_close(to_numpy(vectors), 2 * expected)
    model = compiled(on_ids(elmo), keras.optimizers.Adam(0.1), "mse", run_eagerly=True)
    model.fit(IDS, [expected] * 2, epochs=2, verbose=0)
    gammas = elmo.gamma
    assert [gamma != 2 for gamma in gammas] == [trainable_mix] * 2
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras").layers[-1]
    cloned = keras.models.clone_model(model).layers[-1]
    for one in (elmo, loaded, cloned, pickle.loads(pickle.dumps(elmo))):
        config = one.get_config()
        assert (config["mix_weights"], config["gamma"]) == ((0, 1, 0), 2)
        assert one.trainable_mix == trainable_mix
        assert len(one.trainable_weights) == (4 if trainable_mix else 35)
        assert np.array(one.mix_weights).tolist() == [[0, 1, 0]] * 2
        assert one.gamma == ([2, 2] if one is cloned else gammas)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "bfloat16"])
def test_the_learned_mix_can_be_read_and_passed_on(dtype):
    elmo = ElmoLayer(TINY, dtype=dtype)
    assert_close(elmo.mix_weights, np.full(3, 1 / 3), 5e-3)
    elmo.mixes[0].layer_weights.assign([0.0, 2.0, -1.0])
    elmo.mixes[0].gamma.assign([1.5])
    assert_close(elmo.mix_weights, np.exp([0, 2, -1]) / np.exp([0, 2, -1]).sum(), 5e-3)
    assert elmo.gamma == 1.5
    other = ElmoLayer(TINY, dtype=dtype, mix_weights=elmo.mix_weights, gamma=elmo.gamma)
    assert_close(to_numpy(other(IDS)), to_numpy(elmo(IDS)), 5e-6 if dtype == "float32" else 0.05)
    layers = ElmoLayer(TINY, vectors="layers")
    assert layers.mix_weights == [] and layers.gamma == []
    assert ElmoLayer(TINY, use_top_only=True).mix_weights.tolist() == [0, 0, 1]


def test_a_preset_is_the_model_of_the_constructor():
    class Subclass(ElmoLayer):
        """A user's."""

    layer = Subclass.from_preset(TINY, vectors="layers")
    assert type(layer) is Subclass
    assert_close(to_numpy(layer(IDS)), to_numpy(ElmoLayer(TINY, vectors="layers")(IDS)))


def test_training_a_frozen_bilm_changes_only_the_mix(monkeypatch):
    # Its gradient is not even traced.
    monkeypatch.setattr(lstm, "_backward", lambda *_: pytest.fail("the LSTMs had a gradient"))
    elmo = ElmoLayer(TINY)
    before = [to_numpy(weight).copy() for weight in elmo.weights]
    model = compiled(on_ids(elmo), keras.optimizers.SGD(1.0), "mse")
    model.fit(IDS, np.ones(model.compute_output_shape(IDS.shape)), verbose=0)
    changed = [not np.array_equal(old, to_numpy(new)) for old, new in zip(before, elmo.weights)]
    assert [weight.name for weight, c in zip(elmo.weights, changed) if c] == [
        "layer_weights",
        "gamma",
    ]


def test_a_frozen_bilm_keeps_nothing_for_a_gradient(monkeypatch):
    seen, run = [], projected_lstm.lstm

    def watched(spec, *arguments):
        seen.append(spec.training)
        return run(spec, *arguments)

    monkeypatch.setattr(projected_lstm, "lstm", watched)
    layer = ElmoLayer(TINY)
    for trainable in (False, True):
        layer.trainable_bilm = trainable
        seen.clear()
        layer(IDS, training=True)
        assert seen == 4 * [trainable]


@pytest.mark.parametrize("copied", ["loaded", "cloned"])
def test_lora_on_parts_of_the_bilm(tmp_path, copied):
    elmo = ElmoLayer(TINY, trainable_bilm=True)
    model = on_ids(elmo)
    layer = elmo.token_encoder.convolutions[0]
    layer.enable_lora(2)
    layer.lora_kernel_b.assign(np.ones(layer.lora_kernel_b.shape))
    model.save(tmp_path / "model.keras")
    copy_of_it = (
        keras.models.load_model(tmp_path / "model.keras")
        if copied == "loaded"
        else keras.models.clone_model(model)
    )
    assert_close(to_numpy(copy_of_it(IDS)), to_numpy(model(IDS)))
    assert np.abs(to_numpy(model(IDS)) - to_numpy(ElmoLayer(TINY)(IDS))).max() > 0.01


def test_keras_quantization_leaves_the_files_alone(tmp_path):
    layer = ElmoLayer(TINY)
    inputs = keras.Input(IDS.shape[1:], dtype="int32")
    model = keras.Model(inputs, keras.layers.Dense(2)(layer(inputs)))
    with pytest.warns(UserWarning, match="quantize"):
        model.quantize("int8")
    assert "int8" in {keras.backend.standardize_dtype(v.dtype) for v in model.variables}
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert_close(to_numpy(again(IDS)), to_numpy(model(IDS)))
    layer.export_hdf5(tmp_path)
    assert_close(to_numpy(ElmoLayer(tmp_path)(IDS)), to_numpy(layer(IDS)))


# --- precision --------------------------------------------------------------------------------


float64 = pytest.param(
    "float64",
    marks=pytest.mark.skipif(
        keras.backend.backend() == "jax", reason="JAX has no float64 unless jax_enable_x64 is set"
    ),
)


@pytest.mark.parametrize("policy", ["mixed_float16", float64])
def test_precision_is_that_of_the_policy(policy):
    exact = to_numpy(ElmoLayer(TINY)(IDS))
    elmo = ElmoLayer(TINY, dtype=policy)
    vectors = elmo(IDS)
    assert keras.backend.standardize_dtype(vectors.dtype) == policy.removeprefix("mixed_")
    bound = 1e-5 if policy == "float64" else 5e-3
    assert np.abs(to_numpy(vectors) - exact).max() <= bound * np.abs(exact).max()
    assert on_ids(elmo).output.dtype == policy.removeprefix("mixed_")


def test_the_global_policy_is_the_default():
    keras.config.set_dtype_policy("mixed_bfloat16")
    elmo = ElmoLayer(TINY)
    assert elmo.get_config()["dtype"]["config"]["name"] == "mixed_bfloat16"
    assert keras.backend.standardize_dtype(elmo(IDS).dtype) == "bfloat16"
    assert {weight.dtype for weight in elmo.weights} == {"float32"}


# --- shapes and configs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, shape, expected",
    [
        ({}, (4, 9, 50), (4, 7, 24)),
        ({}, (None, None, 50), (None, None, 24)),
        ({}, (4,), (4, None, 24)),
        ({}, (4, 7), (4, 7, 24)),
        ({"vectors": "layers"}, (4, 9, 50), (4, 3, 7, 24)),
        ({"num_mixes": 2}, (4, 9, 50), [(4, 7, 24)] * 2),
        ({"boundaries": True}, (4, 9, 50), (4, 9, 24)),
        ({"boundaries": True}, (4, 7), (4, 9, 24)),
        ({"boundaries": True, "vectors": "layers"}, (4,), (4, 3, None, 24)),
    ],
)
def test_output_shape(arguments, shape, expected):
    assert ElmoLayer(TINY, **arguments).compute_output_shape(shape) == expected


def test_a_layer_made_from_a_config_needs_no_files():
    elmo = ElmoLayer(TINY, num_mixes=2, l2=0.5, dropout=0.25, stateful=True, max_batch_size=7)
    config = elmo.get_config()
    again = ElmoLayer.from_config(json.loads(json.dumps(config)))
    assert again.get_config() == {**config, "weights_of": again.get_config()["weights_of"]}
    assert config["model"] is None and again.config == elmo.config


# --- models of any kind, copied, saved and loaded ---------------------------------------------


@keras.saving.register_keras_serializable("test_elmo_layer")
class Tagger(keras.Model):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.elmo = ElmoLayer(TINY)
        self.dense = keras.layers.Dense(3)

    def call(self, inputs):
        return self.dense(self.elmo(inputs))


def assert_same(one, other, inputs=IDS):
    assert_close(to_numpy(one(inputs)), to_numpy(other(inputs)))


@pytest.mark.parametrize(
    "kind", ["ids", "sentences", pytest.param("tokens", marks=pytest.mark.slow)]
)
def test_a_subclassed_model_comes_back_whole(tmp_path, kind):
    inputs = IDS
    if kind != "ids":
        if keras.backend.backend() != "tensorflow":
            pytest.skip("strings in a model need TensorFlow")
        import tensorflow as tf

        tokens = tf.ragged.constant(SENTENCES[:4]).to_tensor()
        inputs = tokens if kind == "tokens" else tf.strings.reduce_join(tokens, 1, separator=" ")
    model = Tagger()
    expected = model.predict(inputs, verbose=0)
    model.save(tmp_path / "model.keras")
    for again in (keras.models.load_model(tmp_path / "model.keras"), copy.deepcopy(model)):
        np.testing.assert_allclose(to_numpy(again(inputs)), expected, atol=1e-6)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(duplicate):
    elmo = ElmoLayer(TINY, num_mixes=1)
    elmo.mixes[0].gamma.assign([2.0])
    assert_same(duplicate(elmo), elmo)
    assert_same(duplicate(on_ids(elmo)), elmo)


def saved_and_loaded(model, path):
    model.save(path)
    return keras.models.load_model(path)


@pytest.mark.parametrize(
    "duplicate",
    [
        saved_and_loaded,
        lambda model, path: keras.models.clone_model(model),
        lambda model, path: pickle.loads(pickle.dumps(model)),
        lambda model, path: copy.deepcopy(model),
    ],
    ids=["saved", "cloned", "pickled", "copied"],
)
def test_copies_know_their_words_and_language(tmp_path, duplicate):
    config = ElmoConfig(None, vocabulary_size=4, lstm_dim=8, projection_dim=4)
    elmo = ElmoLayer(None, config=config)
    elmo.vocabulary, elmo.language = ["<S>", "</S>", "<UNK>", "chat"], "fr"
    model = keras.Sequential([keras.Input((None,), dtype="int32"), elmo])
    (layer,) = duplicate(model, tmp_path / "model.keras").layers
    assert (layer.vocabulary, layer.language) == (elmo.vocabulary, "fr")
    for found, vectors in zip(
        *(Embedder(x, progress=False).embed(["chat"]) for x in (layer, elmo))
    ):
        np.testing.assert_array_equal(found, vectors)


def test_clones_have_the_bilm_and_a_config_alone_has_not():
    elmo = ElmoLayer(TINY)
    # Also one that was trained: what counts are the weights that it has now.
    elmo.bilm.set_weights([2 * weight for weight in elmo.bilm.get_weights()])
    inputs = keras.Input((None, 50), dtype="int32")
    nested = keras.Model(inputs, on_ids(elmo)(inputs))
    for model in (on_ids(elmo), nested, keras.Sequential([inputs, on_ids(elmo)])):
        assert_same(keras.models.clone_model(model), elmo)
        assert_same(type(model).from_config(model.get_config()), elmo)
    loaded = pickle.loads(pickle.dumps(elmo))
    assert_same(keras.models.clone_model(on_ids(loaded)), elmo)
    config = json.loads(json.dumps(elmo.get_config()))
    assert_same(ElmoLayer.from_config({**config, "name": "another"}), elmo)
    for changes in (
        {"weights_of": "of a different process"},
        {"config": {**config["config"], "bidirectional": False}},
    ):
        fresh = ElmoLayer.from_config({**config, **changes})
        assert not np.allclose(fresh.get_weights()[0], elmo.get_weights()[0])
    words = ElmoLayer(TINY, token_embeddings=np.ones((9, 12)))
    model = keras.Sequential([keras.Input((None,), dtype="int32"), words])
    clone = keras.models.clone_model(model).layers[0]
    for one, other in zip(clone.get_weights(), words.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "https://example.org/elmo"},
        {"model": ["options.json", "weights.hdf5"]},
        {"token_embeddings": "words.hdf5"},
        {"config": "pipe"},
        {"config": None},
        {"num_mixes": 10**9},
        {"config": ElmoConfig(lstm_dim=2**16, projection_dim=2**16).to_dict()},
    ],
)
def test_a_saved_model_opens_and_fetches_nothing(tmp_path, monkeypatch, changes):
    config = json.loads(json.dumps(on_ids(ElmoLayer(TINY)).get_config()))
    config["layers"][1]["config"].update(changes)
    monkeypatch.chdir(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo("pipe")  # who opens it waits for ever
    opened = "keras_elmo.layers.elmo_layer."
    for name in ("find_model_files", "read_token_embeddings", "ElmoConfig.from_json"):
        monkeypatch.setattr(opened + name, lambda *_: pytest.fail("looked at a file"))
    refused = "Do not load models|from 1 to 10,000|options as a dict|needs a config|137,.* numbers"
    with pytest.raises((ValueError, TypeError), match=refused):
        keras.Model.from_config(config)


def test_threads_share_a_layer():
    elmo = ElmoLayer(TINY)
    expected = [to_numpy(elmo([sentence])) for sentence in SENTENCES]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda sentence: to_numpy(elmo([sentence])), SENTENCES * 2))
    for one, other in zip(found, expected * 2):
        np.testing.assert_allclose(one, other, atol=1e-6)


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inputs, message",
    [
        (
            np.zeros((2, 5, 40), "int32"),
            r"^A token of this model has 50 ids, but here it has 40: pass 50 as max_characters_per_"
            r".* ids \(B, T \+ 2, 50\).*int32 and shape \(2, 5, 40\)",
        ),
        (np.zeros((2, 5, 50)), "^Ids are integers, but these are of dtype float64. ElmoLayer exp"),
        (np.zeros((2, 5, 50), "uint8"), "^Ids go up to 261, which uint8 cannot hold: use int32"),
        (
            np.zeros((2, 50), "int32"),
            "^A batch of ids has 3 axes, but this has 2: pass a s",
        ),
        (np.zeros((2, 1, 50), "int32"), "^A sentence has at least its two boundaries"),
        (keras.Input((None, 50)), "pass dtype='int32' for ids to keras.Input"),
        (keras.Input(()), "pass dtype='string' for strings or"),
        ([1, 2], r"of dtype int64 and shape \(2,\)"),
        (object(), "Expected a batch of sentences, such as a list of strings; got <object"),
        ("one sentence", "single string 'one sentence'"),
        ({"a": 1}, "got a dict"),
    ],
)
def test_bad_inputs_are_named(inputs, message):
    with pytest.raises(ValueError, match=message):
        ElmoLayer(TINY)(inputs)


@tensorflow_only
def test_words_of_a_lookup_are_explained():
    ids = keras.Input((None,), dtype="int64")
    words = keras.layers.StringLookup(vocabulary=["a", "b"], invert=True)(ids)
    with pytest.raises(ValueError, match="after StringLookup.* use Lambda"):
        ElmoLayer(TINY)(words)


def test_bad_inputs_of_word_models_are_named():
    elmo = ElmoLayer(TINY, token_embeddings=TINY / "token_embeddings.hdf5")
    for wrong in (["a sentence"], np.zeros((2, 5, 50), "int32")):
        with pytest.raises(ValueError, match=r"expects integer token ids \(B, T \+ 2\), from"):
            elmo(wrong)
    with pytest.raises(ValueError, match="^This model cannot read strings: "):
        elmo([["a"]])
    with pytest.raises(ValueError, match=r"array \(num_words, 12\); got shape \(5, 3\)"):
        ElmoLayer(TINY, token_embeddings=np.zeros((5, 3)))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"model": None}, "needs a config"),
        ({"model": "default", "config": {}}, "and a config: leave it out, or pass model=None"),
        ({"vectors": "first"}, "vectors must be 'mix', .* got 'first'"),
        (
            {"vectors": "top", "dropout": 0.5, "mix_weights": np.ones(3) / 3},
            "^dropout, mix_weights would have no effect with vectors='top', which has no mix",
        ),
        ({"input_shape": [], "dtype": "string"}, "leave out dtype and input_shape"),
        ({"dtype": "int32"}, "dtype is that of the computation, such as 'float32'"),
        ({"num_mixes": 0}, "num_mixes must be an integer from 1 to 10,000; got 0"),
        ({"num_mixes": 10**9}, "num_mixes must be an integer from 1 to 10,000; got 1000000000"),
        ({"max_batch_size": 2.5}, "max_batch_size must be an integer from 1 to 10,000; got 2.5"),
        ({"model": None, "config": "options.json"}, "options as a dict, got 'options.json'"),
        ({"mix_weights": (1, 0)}, r"must be 3 numbers of at least 0 .* got \(1\.0, 0\.0\)"),
        ({"mix_weights": (1, 0, 0), "use_top_only": True}, "no layers to mix: leave out mix_w"),
        ({"l2": -1}, "l2 must be a number of at least 0"),
        ({"dropout": 1.0}, "dropout must be a number of at least 0 and below 1"),
        ({"model": None, "config": {"lstm": {}}}, r"no field lstm\.dim"),
        (
            {"model": None, "config": WIDE, "stateful": True, "max_batch_size": 10_000},
            "A state of 10,000 rows would have 4,800,080,000 numbers",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ElmoLayer(**arguments)


def test_what_a_layer_was_made_with_cannot_change():
    elmo = ElmoLayer(TINY)
    config = elmo.get_config()
    can_change = {"trainable_mix", "trainable_bilm"}
    for name in inspect.signature(ElmoLayer).parameters.keys() & vars(elmo).keys() - can_change:
        if name not in ("config", "lexicon"):  # which describe the weights
            with pytest.raises(AttributeError, match=f"{name} of an ElmoLayer cannot change: make"):
                setattr(elmo, name, 1)
    assert elmo.get_config() == config


def test_tensors_of_strings_on_every_backend():
    tf = pytest.importorskip("tensorflow")
    elmo = ElmoLayer(TINY)
    expected = to_numpy(elmo(["a b", "c"]))
    tokens = tf.ragged.constant([["a", "b"], ["c"]])
    for strings in (tf.constant(["a b", "c"]), tokens, tokens.to_tensor()):
        assert_close(to_numpy(elmo(strings)), expected)


@tensorflow_only
def test_strings_encode_each_distinct_word_once(monkeypatch):
    import tensorflow as tf

    elmo = ElmoLayer(None, config=ONE_LAYER, trainable_bilm=True)
    sentences = [["the", "cat", "saw", "the", "cat"], ["extraordinarily", "the"]]
    tokens = tf.ragged.constant(sentences).to_tensor()
    seen = []
    encoder = elmo.token_encoder
    call = encoder.call

    def watched(ids):
        tf.numpy_function(lambda shape: seen.append(tuple(shape)), [tf.shape(ids)], [])
        return call(ids)

    monkeypatch.setattr(encoder, "call", watched)
    outputs, gradients = [], []
    for run, inputs in ((tf.function(elmo), tokens), (elmo, encode_sentences(sentences))):
        with tf.GradientTape() as tape:
            outputs.append(run(inputs))
            loss = tf.reduce_sum(outputs[-1] ** 2)
        gradients.append(tape.gradient(loss, encoder.char_embedding.value))
    # Four words, the padding and the boundaries; the longest has 17 characters with its marks, and
    # the widest filter sees all padding behind it.
    widest = elmo.config.widest_filter
    assert seen == [(7, 17 + widest), (2, 7, 50)]
    # Python strings go the same way, in few different shapes.
    assert_close(to_numpy(elmo(sentences)), to_numpy(outputs[0]))
    assert seen[2:] == [(16, -(-(17 + widest) // 8) * 8)]
    assert_close(to_numpy(outputs[0]), to_numpy(outputs[1]))
    one, other = (tf.convert_to_tensor(g).numpy() for g in gradients)
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
