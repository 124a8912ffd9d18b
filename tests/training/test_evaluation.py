"""Perplexity: every word once, whatever the batch; against NumPy."""

import math
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import (
    BidirectionalLanguageModel,
    CorpusIndex,
    ElmoLayer,
    Vocabulary,
    bilm_tf_perplexity,
    count_words,
    encode_sentences,
    load_language_model,
    perplexity,
    shared_perplexities,
    unigram_perplexity,
)
from keras_elmo.training.checkpoint import save_checkpoint
from keras_elmo.training.evaluation import Scorer
from training_models import BATCH, CONFIG, DATA, WORDS, tiny_model, vocabulary

HELD_OUT = DATA / "heldout.txt"


@pytest.fixture(scope="module")
def model():
    model = tiny_model(num_negative_samples=20)
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(to_numpy(variable.value) + rng.normal(size=variable.shape) * 0.1)
    return model


@pytest.fixture(scope="module")
def scorer(model):
    return Scorer(model, batch_size=5)


def test_the_perplexity_of_word_counts(tmp_path):
    train, held_out = tmp_path / "train.txt", tmp_path / "held_out.txt"
    train.write_text("a a b\nc\n")  # </S> a b c: 2, 2, 1, 1, of which c is unknown
    held_out.write_text("a c\n")
    words = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b"])
    counts = words.counts(count_words(train))
    probabilities = [3 / 10, 2 / 10, 3 / 10]  # a, <UNK>, </S>, each with one more, as has b
    expected = np.prod(probabilities) ** (-1 / 3)
    assert unigram_perplexity(held_out, words, counts) == pytest.approx(expected)


def test_the_perplexities_of_several_models_are_over_the_words_of_all(model):
    words = vocabulary()
    other_words = Vocabulary(words.words[:60])
    other = BidirectionalLanguageModel(CONFIG, 60, **BATCH)
    losses = {}
    for name, (one, known) in {"own": (model, words), "other": (other, other_words)}.items():
        scores = []
        perplexity(one, HELD_OUT, known, on_sentence=scores.append)
        losses[name] = [
            loss
            for score in scores
            for rows in (score.forward, [*score.backward[1:], score.backward[0]])
            for word, loss in zip([*score.tokens, "the"], rows)
            if word in other_words
        ]
    found, share = shared_perplexities([(model, words), (other, other_words)], HELD_OUT, 5)
    expected = [math.exp(np.mean(losses[name])) for name in ("own", "other")]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert 0.3 < share == len(losses["own"]) / 2 / (187 + 12) < 0.95


def test_any_batch_size_gives_the_same(model):
    reports, scores = [], []
    for batch_size in (1, 64):
        found = []
        reports.append(
            perplexity(
                model, HELD_OUT, vocabulary(), batch_size=batch_size, on_sentence=found.append
            )
        )
        scores.append(np.concatenate([s.forward for s in found] + [s.backward for s in found]))
    for report, score in zip(reports, scores):
        np.testing.assert_allclose(score, scores[0], atol=1e-5)
        assert report.perplexity == pytest.approx(reports[0].perplexity, rel=1e-6)
        assert (report.sentences, report.tokens, report.unknown_tokens) == (12, 187, 0)
    assert scores[0].size == 2 * (187 + 12)
    report = reports[0]
    means = scores[0].reshape(2, -1).mean(axis=1, dtype="float64")
    np.testing.assert_allclose([report.forward, report.backward], np.exp(means), rtol=1e-6)
    assert report.perplexity == pytest.approx(math.exp(means.mean()), rel=1e-6)


def test_a_model_that_diverged_has_an_infinite_perplexity(model, scorer):
    before, scores = to_numpy(model.softmax.bias.value), []
    model.softmax.bias.assign(np.where(np.arange(127) == 5, 3000.0, 0.0).astype("float32"))
    report = scorer.perplexity(HELD_OUT, vocabulary(), scores.append)
    assert bilm_tf_perplexity(model, HELD_OUT, vocabulary(), batch_size=2)[0] == math.inf
    model.softmax.bias.assign(before)
    assert report.perplexity == report.forward == scores[0].perplexity == math.inf


def test_scores_are_those_of_the_layer_and_the_softmax(model, scorer, tmp_path):
    """What ElmoLayer's top layer predicts, as a user of the exported files would compute it."""
    words = vocabulary()
    model.export_hdf5(tmp_path)
    sentences = [line.split() for line in HELD_OUT.read_text().splitlines()]
    tokens = model.backbone.token_encoder(encode_sentences(sentences, 20))
    mask = (encode_sentences(sentences, 20) != 0).any(-1)
    tops = to_numpy(model.backbone.bilm(tokens, mask=mask))[:, -1].astype("float64")
    kernel, bias = (to_numpy(v.value) for v in (model.softmax.kernel, model.softmax.bias))
    found = []
    scorer.perplexity(HELD_OUT, words, found.append)
    for sentence, top, score in zip(sentences, tops, found):
        ids = [words.begin_id, *words.ids(sentence), words.end_id]
        assert score.tokens == sentence
        for direction, losses in enumerate((score.forward, score.backward)):
            hidden = top[: len(ids), 8 * direction : 8 * direction + 8] @ kernel.T + bias
            hidden -= np.log(np.exp(hidden).sum(-1, keepdims=True))
            if direction == 0:
                expected = [-hidden[i, ids[i + 1]] for i in range(len(ids) - 1)]
            else:
                expected = [-hidden[i + 1, ids[i]] for i in range(len(ids) - 1)]
            np.testing.assert_allclose(losses, expected, atol=1e-5)
        assert score.perplexity == pytest.approx(
            math.exp((score.forward.mean() + score.backward.mean()) / 2), rel=1e-5
        )
    assert ElmoLayer(tmp_path).config.vocabulary_size == 127
    with pytest.raises(FileNotFoundError, match=r"vocabulary vocabulary\.txt does not exist"):
        load_language_model(tmp_path)
    _, found = load_language_model(tmp_path, DATA / "vocab.txt")
    model.export_hdf5(tmp_path, words)
    assert load_language_model(tmp_path)[1] == words == found


def test_long_and_unknown_and_first_sentences(scorer, tmp_path):
    path = tmp_path / "text.txt"
    long = " ".join(["the", "zebra"] * 50)
    path.write_text(f"{long}\n\nthe end\nthe\n")
    found = []
    report = scorer.perplexity(path, vocabulary(), found.append)
    assert (report.sentences, report.tokens) == (3, 103)
    assert report.unknown_tokens == 51 and report.unknown_rate == pytest.approx(51 / 103)
    assert report.text.blank_lines == 1
    assert [len(score.forward) for score in found] == [101, 3, 2]
    one = scorer.perplexity(CorpusIndex.build(path).first(1), vocabulary())
    assert one.sentences == 1 and one.forward == pytest.approx(np.exp(found[0].forward.mean()))


@pytest.mark.parametrize("bidirectional", [pytest.param(True, marks=pytest.mark.slow), False])
def test_words_and_one_direction(bidirectional):
    options = {**WORDS.to_dict(), "bidirectional": bidirectional}
    model = tiny_model(options, num_negative_samples=None)
    report = perplexity(model, HELD_OUT, vocabulary(), batch_size=3)
    assert (report.backward is not None) == bidirectional
    assert 50 < report.perplexity < 300
    value, steps = bilm_tf_perplexity(model, HELD_OUT, vocabulary(), batch_size=2)
    assert steps == 98 and 50 < value < 300


def test_errors(model, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(ValueError, match="No sentence was found in"):
        perplexity(model, empty, vocabulary())
    with pytest.raises(ValueError, match="is too short for one step of 500 rows"):
        bilm_tf_perplexity(model, HELD_OUT, vocabulary(), batch_size=500)
    with pytest.raises(ValueError, match="has 4 words, the model predicts 127"):
        perplexity(model, HELD_OUT, Vocabulary(["<S>", "</S>", "<UNK>", "a"]))


def test_half_precision_does_not_round_the_state_between_windows(monkeypatch):
    model, seen = tiny_model(dtype="mixed_bfloat16"), []
    bilm = model.backbone.bilm
    run_streams = bilm.run_streams

    def watched(streams, state, *arguments):
        seen.extend(keras.backend.standardize_dtype(part.dtype) for part in state)
        return run_streams(streams, state, *arguments)

    monkeypatch.setattr(bilm, "run_streams", watched)
    perplexity(model, HELD_OUT, vocabulary())
    assert set(seen) == {"float32"}


def test_threads_share_a_model_and_a_scorer(model, scorer):
    expected = scorer.perplexity(HELD_OUT, vocabulary()).perplexity
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(perplexity, model, HELD_OUT, vocabulary()) for _ in range(2)]
        jobs += [pool.submit(scorer.perplexity, HELD_OUT, vocabulary()) for _ in range(8)]
        found = [job.result().perplexity for job in jobs]
    assert found[0] == found[1] == pytest.approx(expected, rel=1e-6)
    assert set(found[2:]) == {expected}


def test_a_checkpoint_of_another_model_is_named(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd")
    save_checkpoint(tmp_path / "step-1.ckpt", model)
    with pytest.raises(ValueError, match=r"step-1\.ckpt is a checkpoint of another Keras model"):
        load_language_model(tmp_path / "step-1.ckpt")


def test_a_checkpoint_that_was_moved_has_the_vocabulary_in_its_folder(tmp_path):
    model = tiny_model()
    model.compile("sgd")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    save_checkpoint(folder / "step-1.ckpt", model, {"step": 1})
    (tmp_path / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\nof\nanother\nmodel\n")
    vocabulary().write(folder / "vocabulary.txt")
    assert load_language_model(folder / "step-1.ckpt")[1] == vocabulary()
    words = vocabulary().words
    Vocabulary([*words[:3], *reversed(words[3:])]).write(folder / "other.txt")
    save_checkpoint(folder / "step-2.ckpt", model, {"corpus": {"vocabulary": vocabulary().digest}})
    (folder / "vocabulary.txt").unlink()
    with pytest.raises(ValueError, match=r"not the one of \S+step-2\.ckpt: pass the one that"):
        load_language_model(folder / "step-2.ckpt", folder / "other.txt")
