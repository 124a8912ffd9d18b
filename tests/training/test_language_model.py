"""BidirectionalLanguageModel as a Keras model: fit, options, errors."""

import dataclasses
import itertools
import json

import keras
import numpy as np
import pytest

from helpers import tensorflow_only, to_numpy
from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoLayer,
    EvaluationCorpus,
    LanguageModelCorpus,
    TrainingCheckpoint,
    Vocabulary,
    encode_sentences,
    language_model_dataset,
    load_language_model,
    perplexity,
)
from training_models import (
    BATCH,
    CONFIG,
    DATA,
    WORDS,
    held_out,
    tiny_corpus,
    tiny_model,
    vocabulary,
)

NAMES = {"loss", "perplexity", "perplexity_forward", "perplexity_backward"}


@pytest.fixture(scope="module")
def compiled():
    """A model that several tests train further, so that it is compiled once."""
    model = tiny_model(num_negative_samples=50)
    model.compile()
    return model


def test_fit_evaluate_and_callbacks(compiled, tmp_path):
    stop = keras.callbacks.EarlyStopping("val_perplexity", patience=1, mode="min")
    csv = keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))
    before = int(compiled.optimizer.iterations)
    history = compiled.fit(
        tiny_corpus(), epochs=2, verbose=0, validation_data=held_out(), callbacks=[stop, csv]
    ).history
    assert set(history) >= NAMES and {f"val_{name}" for name in NAMES} <= set(history)
    assert (tmp_path / "log.csv").read_text().count("\n") == 1 + len(history["loss"])
    assert history["val_perplexity"][0] < 127
    assert int(compiled.optimizer.iterations) == before + 27 * len(history["loss"])
    variables = compiled.training_state.variables
    state = [to_numpy(v.value) for v in variables]
    assert all(np.abs(part).min(axis=(1, 2, 3)).any() for part in state)
    found = compiled.evaluate(held_out(), verbose=0, return_dict=True)
    assert found["perplexity"] == pytest.approx(history["val_perplexity"][-1], rel=1e-5)
    both = np.sqrt(found["perplexity_forward"] * found["perplexity_backward"])
    assert found["perplexity"] == pytest.approx(both, rel=1e-5)
    assert found["loss"] == pytest.approx(np.log(found["perplexity"]), rel=1e-5)
    assert {type(value) for value in found.values()} == {float}
    for one, variable in zip(state, variables):  # an evaluation leaves the state of the training
        np.testing.assert_array_equal(one, to_numpy(variable.value))
    compiled.reset_states()
    assert not any(to_numpy(v.value).any() for v in variables)


def test_arguments_of_fit_by_position(compiled, tmp_path):
    checkpoint = TrainingCheckpoint(tmp_path)
    arguments = None, None, 1, 0, [checkpoint], 0.0, held_out(), True, None, None, 0, 3
    history = compiled.fit(tiny_corpus(), *arguments).history
    assert checkpoint.step == 3 and checkpoint.corpus == tiny_corpus().identity()
    assert history["val_loss"] == [checkpoint.history[0]["val_loss"]]
    again = TrainingCheckpoint(tmp_path)
    again.restore(compiled, tiny_corpus())
    compiled.fit(tiny_corpus(), None, None, 1, 0, [again], steps_per_epoch=2)
    assert again.step == 5


def test_an_evaluation_starts_from_states_of_zeros(compiled):
    batches = list(itertools.islice(tiny_corpus(shuffle=False).batches(), 3))
    found = []
    for _ in range(2):
        data = ((batch,) for batch in batches)
        found.append(compiled.evaluate(data, steps=3, verbose=0, return_dict=True))
    assert found[0] == found[1]


@tensorflow_only
def test_fit_takes_a_dataset(compiled):
    dataset = language_model_dataset(DATA / "train.txt", vocabulary(), CONFIG, repeat=True, **BATCH)
    before = int(compiled.optimizer.iterations)
    compiled.fit(dataset, steps_per_epoch=3, epochs=2, verbose=0, shuffle=False)
    assert int(compiled.optimizer.iterations) == before + 6


@pytest.mark.parametrize(
    "arguments",
    [
        {"config": WORDS, "share_embedding_softmax": True, "num_negative_samples": 40},
        pytest.param(
            {"config": json.loads(json.dumps({**CONFIG.to_dict(), "bidirectional": False}))},
            marks=pytest.mark.slow,
        ),
        pytest.param({"carry_state": False, "num_negative_samples": 0}, marks=pytest.mark.slow),
        pytest.param(
            {"dtype": "mixed_bfloat16", "num_negative_samples": 40}, marks=pytest.mark.slow
        ),
        pytest.param({"distinct_words": False}, marks=pytest.mark.slow),
    ],
    ids=["tied", "forward", "not-carried", "bfloat16", "each-place"],
)
def test_options_train(arguments):
    distinct = arguments.pop("distinct_words", True)
    model = tiny_model(**arguments)
    model.compile()
    corpus = tiny_corpus(config=model.config, distinct_words=distinct)
    losses = model.fit(corpus, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    num_tables = sum(tuple(v.shape) == (127, 8) for v in model.trainable_variables)
    assert num_tables == 1 + (not model.config.reads_characters) - model.share_embedding_softmax


def test_a_config_opens_no_file(tmp_path):
    path = tmp_path / "options.json"
    CONFIG.to_json(path)
    config = {**tiny_model().get_config(), "config": str(path)}
    with pytest.raises(ValueError, match="Expected the options as a dict"):
        BidirectionalLanguageModel.from_config(config)


def test_full_softmax_where_the_sample_would_be_everything():
    assert not tiny_model(num_negative_samples=127).is_sampled
    assert tiny_model(num_negative_samples=126).is_sampled


def test_a_saved_model_goes_on(tmp_path):
    model = tiny_model(dropout=0.0)
    model.compile(run_eagerly=True)
    model.fit(tiny_corpus(), steps_per_epoch=1, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for one in (model, again):
        one.fit(tiny_corpus(seed=4), steps_per_epoch=1, verbose=0)
    assert len(model.optimizer.variables) == len(again.optimizer.variables)
    variables = [*model.trainable_variables, *model.optimizer.variables]
    for one, two in zip(variables, [*again.trainable_variables, *again.optimizer.variables]):
        np.testing.assert_allclose(to_numpy(one.value), to_numpy(two.value), atol=1e-6)


def test_exported_weights_in_a_frozen_layer(tmp_path):
    model = tiny_model()
    model.export_hdf5(tmp_path / "model")
    options = json.loads((tmp_path / "model" / "options.json").read_text())
    assert options["n_tokens_vocab"] == 127 and options["unroll_steps"] == 8
    elmo = ElmoLayer(tmp_path / "model", vectors="layers")
    ids = encode_sentences([["The", "lamp", "fell"]], 20)
    tokens = model.backbone.token_encoder(ids)
    np.testing.assert_allclose(
        to_numpy(elmo(ids)), to_numpy(model.backbone.bilm(tokens))[:, :, 1:-1], atol=1e-6
    )
    other, _ = load_language_model(tmp_path / "model", DATA / "vocab.txt")
    for one, two in zip(model.trainable_variables, other.trainable_variables):
        np.testing.assert_array_equal(to_numpy(one.value), to_numpy(two.value))
    (tmp_path / "model" / "softmax.hdf5").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no softmax\.hdf5"):
        load_language_model(tmp_path / "model", DATA / "vocab.txt")


def test_a_vocabulary_that_may_be_of_another_model_is_not_left_there(tmp_path):
    words = vocabulary()
    tiny_model().export_hdf5(tmp_path, words)
    with pytest.raises(FileExistsError, match="may belong to a different model"):
        tiny_model(seed=1).export_hdf5(tmp_path)
    with pytest.raises(ValueError, match="vocabulary has 126 words, the model predicts 127"):
        tiny_model(seed=1).export_hdf5(tmp_path, Vocabulary(words.words[:-1]))
    assert load_language_model(tmp_path)[1] == words


def test_config_round_trip():
    model = tiny_model(num_negative_samples=30, dropout=0.2)
    other = BidirectionalLanguageModel.from_config(json.loads(json.dumps(model.get_config())))
    assert other.get_config() == {**model.get_config(), "name": other.name}
    assert [v.shape for v in other.weights] == [v.shape for v in model.weights]


def test_bad_arguments_and_batches_are_explained():
    with pytest.raises(ValueError, match="needs a model that reads whole words"):
        tiny_model(share_embedding_softmax=True)
    with pytest.raises(ValueError, match="vocabulary_size must be an integer of at least 4"):
        BidirectionalLanguageModel(CONFIG, 3)
    for name, value in [
        ("num_negative_samples", -1),
        ("num_negative_samples", "many"),
        ("share_embedding_softmax", "no"),
        ("batch_size", 0),
        ("unroll_steps", 2.5),
        ("dropout", 1.0),
    ]:
        with pytest.raises(ValueError, match=f"{name} must be "):
            tiny_model(**{name: value})
    assert json.dumps(tiny_model(num_negative_samples=np.int64(9)).get_config())
    model = tiny_model()
    model.compile(run_eagerly=True)
    with pytest.raises(ValueError, match="2 rows does not fit the 4 states"):
        model.train_on_batch(next(iter(tiny_corpus(batch_size=2))))
    model = tiny_model(unroll_steps=500)
    model.compile()
    with pytest.raises(ValueError, match="too small for one batch of 4 x 500"):
        model.fit(tiny_corpus(unroll_steps=500), verbose=0)
    with pytest.raises(ValueError, match="is for training: pass an EvaluationCorpus of the text"):
        model.evaluate(tiny_corpus())


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"vocabulary": Vocabulary(["<S>", "</S>", "<UNK>", "a"])},
            "vocabulary size is 4 in .* 127",
        ),
        ({"unroll_steps": 9}, "unroll_steps is 9 in the corpus, 8 in the model"),
        (
            {"config": dataclasses.replace(CONFIG, filters=((1, 4),))},
            "widest_filter is 1 in the corpus, 2 in the model",
        ),
        ({"batch_size": 2}, "batch_size is 2 in the corpus, 4 in the model"),
        (
            {"config": dataclasses.replace(CONFIG, bidirectional=False)},
            "bidirectional is False in the corpus, True",
        ),
        ({"config": WORDS}, "reads_characters is False in the corpus, True"),
        (
            {"config": dataclasses.replace(CONFIG, max_characters_per_token=30).to_dict()},
            "max_characters_per_token is 30 in the corpus, 20",
        ),
    ],
)
def test_a_corpus_for_another_model_is_refused(compiled, changes, message):
    arguments = {**BATCH, "config": CONFIG, "vocabulary": vocabulary(), **changes}
    with pytest.raises(ValueError, match=message):
        compiled.fit(LanguageModelCorpus(DATA / "train.txt", **arguments), verbose=0)
    other = EvaluationCorpus(DATA / "train.txt", **arguments)
    if "unroll_steps" not in changes:  # which changes nothing in an evaluation
        with pytest.raises(ValueError, match=message):
            compiled.evaluate(other, verbose=0)


def test_options_of_bilm_tf_are_read():
    options = {
        **WORDS.to_dict(),
        "batch_size": 4,
        "unroll_steps": 6,
        "dropout": 0.3,
        "n_negative_samples_batch": 50,
        "share_embedding_softmax": True,
        "all_clip_norm_val": 3.0,
        "learning_rate": 0.1,
    }
    model = BidirectionalLanguageModel(options, 127)
    assert (model.batch_size, model.unroll_steps, model.dropout) == (4, 6, 0.3)
    assert model.num_negative_samples == 50 and model.share_embedding_softmax
    assert model.softmax_kernel is model.backbone.token_encoder.embedding
    model.compile()
    assert model.optimizer.global_clipnorm == pytest.approx(3.0 / 6)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.1)
    model = BidirectionalLanguageModel({**options, "sample_softmax": False}, 127, batch_size=8)
    assert model.num_negative_samples == 0 and model.batch_size == 8
    model = BidirectionalLanguageModel(CONFIG, 127)
    assert (model.batch_size, model.unroll_steps, model.dropout) == (128, 20, 0.1)
    assert model.num_negative_samples == 8192 and not model.share_embedding_softmax
    with pytest.raises(ValueError, match="n_negative_samples_batch in the options must be an int"):
        BidirectionalLanguageModel({**options, "n_negative_samples_batch": -5}, 127)
    with pytest.raises(ValueError, match="sample_softmax in the options must be True or False"):
        BidirectionalLanguageModel({**options, "sample_softmax": "no"}, 127)


@pytest.mark.slow
def test_float16_is_trained_with_a_scaled_loss_or_refused():
    with pytest.raises(ValueError, match='use dtype="mixed_float16", whose loss is scaled'):
        tiny_model(dtype="float16").compile()
    losses = []
    for dtype in ("float32", "mixed_float16"):
        model = tiny_model(dropout=0.0, num_negative_samples=0, dtype=dtype)
        model.compile()
        history = model.fit(tiny_corpus(), steps_per_epoch=5, epochs=4, verbose=0)
        losses.append(history.history["loss"])
    assert type(model.optimizer).__name__ == "LossScaleOptimizer"
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)
    assert losses[1][-1] < losses[1][0]


def test_adam_is_refused_where_its_steps_would_be_zero():
    with pytest.raises(ValueError, match="Adam's beta_2 is 1, and every step 0"):
        tiny_model(dtype="bfloat16").compile("adam")
    tiny_model(dtype="mixed_bfloat16").compile("adam")
    tiny_model(dtype="bfloat16").compile(keras.optimizers.Adam(beta_2=0.98))
    tiny_model(dtype="bfloat16").compile()


def test_evaluation_is_the_perplexity(compiled, monkeypatch):
    """By the metric of Keras, and by the scorer; the model's own state does not matter."""
    report = perplexity(compiled, DATA / "heldout.txt", vocabulary(), batch_size=7)
    for _ in range(2):
        found = compiled.evaluate(held_out(), verbose=0, return_dict=True)
        assert found["perplexity"] == pytest.approx(report.perplexity, rel=1e-5)
        assert found["perplexity_backward"] == pytest.approx(report.backward, rel=1e-5)
    batches = list(itertools.islice(held_out(), 3))
    expected = [to_numpy(compiled(batch)[0]) for batch in batches]
    monkeypatch.setattr(compiled, "carry_state", False)  # only training depends on it
    for batch, tops in zip(batches, expected):
        np.testing.assert_array_equal(to_numpy(compiled(batch)[0]), tops)
