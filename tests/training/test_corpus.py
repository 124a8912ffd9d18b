"""Batches of a corpus: bilm-tf's packing, the order, the place, what is read once."""

import dataclasses
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from helpers import tensorflow_only
from keras_elmo import (
    CorpusIndex,
    ElmoConfig,
    EvaluationCorpus,
    LanguageModelCorpus,
    Vocabulary,
    language_model_dataset,
)
from keras_elmo.text.characters import WORD_PADDING
from keras_elmo.training import corpus as corpus_module
from keras_elmo.training.batches import prefetched
from training_models import CONFIG, WORDS

GOLDEN = Path(__file__).parents[1] / "golden" / "training"
DATA = GOLDEN / "train_tiny_data"
NAMES = ("token_ids", "next_token_id", "token_ids_reverse", "next_token_id_reverse")
SETTINGS = {"batch_size": 4, "unroll_steps": 8}


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.from_file(DATA / "vocab.txt")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """The training text in three shards, one with words that are unknown."""
    folder = tmp_path_factory.mktemp("shards")
    lines = (DATA / "train.txt").read_text().splitlines()
    parts = [lines[i::3] for i in range(3)]
    parts[2] += ["zebras eat Zoë 's quinces ."] * 7
    for i, part in enumerate(parts):
        (folder / f"{i}.txt").write_text("\n".join(part))
    return f"{folder}/*"


def make(files, vocabulary, config=CONFIG, **arguments):
    return LanguageModelCorpus(files, vocabulary, config, **{**SETTINGS, "seed": 5, **arguments})


def read_once(files, vocabulary, **arguments):
    return EvaluationCorpus(files, vocabulary, CONFIG, **{**SETTINGS, **arguments})


def take(corpus, n, first=0):
    return list(itertools.islice(corpus.batches(first), n))


def assert_equal(batches, others):
    assert len(batches) == len(others)
    for one, other in zip(batches, others):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("distinct_words", [True, False])
def test_batches_of_bilm_tf(vocabulary, distinct_words):
    golden = np.load(GOLDEN / "train_tiny.npz")
    corpus = make(DATA / "train.txt", vocabulary, shuffle=False, distinct_words=distinct_words)
    for step, batch in enumerate(take(corpus, 30)):
        for name in NAMES:
            np.testing.assert_array_equal(batch[name], golden[f"batch/{name}"][step])
            assert batch[name].dtype == np.int32
        for suffix in ("", "_reverse"):
            if distinct_words:
                characters = batch["word_characters"][batch[f"word_index{suffix}"]]
            else:
                characters = batch[f"tokens_characters{suffix}"]
            # bilm-tf trains without the shift by one.
            expected = golden[f"batch/tokens_characters{suffix}"][step] + 1
            width = characters.shape[-1]
            np.testing.assert_array_equal(characters, expected[..., :width])
            assert (expected[..., width:] == WORD_PADDING).all()
            assert (width < 20) == distinct_words


@tensorflow_only
def test_dataset_gives_the_same_batches(vocabulary, shards):
    arguments = {**SETTINGS, "seed": 5}
    corpus = make(shards, vocabulary)

    def found(dataset):
        return [{k: v.numpy() for k, v in batch.items()} for batch in dataset]

    dataset, n = (
        language_model_dataset(shards, vocabulary, CONFIG, **arguments),
        corpus.batches_per_epoch,
    )
    for epoch in range(2):
        assert_equal(found(dataset), take(corpus, n, epoch * n))
    assert len(dataset) == n
    endless = language_model_dataset(shards, vocabulary, CONFIG, repeat=True, **arguments)
    assert_equal(found(endless.take(70)), take(corpus, 70))
    assert_equal(found(corpus.dataset(7, repeat=True).take(3)), take(corpus, 3, 7))


def test_iterating_gives_one_epoch(vocabulary, shards):
    corpus = make(shards, vocabulary)
    assert corpus.batches_per_epoch == corpus.stats.predictions // 32
    for _ in range(2):
        assert_equal(list(corpus), take(corpus, corpus.batches_per_epoch))


def test_words_without_characters(vocabulary, shards):
    batch = next(iter(make(shards, vocabulary, WORDS)))
    assert set(batch) == set(NAMES)
    assert max(batch[name].max() for name in NAMES) < len(vocabulary)
    forward = next(iter(make(shards, vocabulary, dataclasses.replace(CONFIG, bidirectional=False))))
    assert set(forward) == {"token_ids", "next_token_id", "word_characters", "word_index"}


def sentences_of(batches, vocabulary, suffix=""):
    """The text of the rows, cut at the ends of sentences."""
    rows = np.concatenate([batch[f"next_token_id{suffix}"] for batch in batches], axis=1)
    end = vocabulary.end_id if not suffix else vocabulary.begin_id
    found = []
    for row in rows:
        found += [tuple(x) for x in np.split(row, np.flatnonzero(row == end) + 1)[:-1]]
    return found


@pytest.mark.parametrize("shuffled_together", [7, 1 << 22])
def test_every_sentence_once_a_pass_in_another_order(
    vocabulary, shards, shuffled_together, monkeypatch
):
    monkeypatch.setattr(corpus_module, "_SHUFFLE_BUFFER", shuffled_together)
    settings = {"batch_size": 1, "unroll_steps": 5}
    in_order = make(shards, vocabulary, shuffle=False, **settings)
    passes = in_order.stats.predictions // 5
    expected = sentences_of(take(in_order, passes), vocabulary)
    assert len(expected) >= len(in_order.index) - 1
    orders = []
    for seed in (1, 1, 2):
        batches = take(make(shards, vocabulary, seed=seed, **settings), 2 * passes + 2)
        found = sentences_of(batches, vocabulary)
        one, two = (found[i * len(in_order.index) :][: len(in_order.index)] for i in range(2))
        assert sorted(one) == sorted(two) and one != two and set(expected) <= set(one)
        backward = sentences_of(batches, vocabulary, "_reverse")
        assert [x[-2::-1] for x in found] == [x[:-1] for x in backward]
        orders.append(one)
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("first", [0, 1, 37, 80])
@pytest.mark.parametrize("shuffle", [True, False])
def test_reading_continues_from_any_batch(vocabulary, shards, first, shuffle):
    corpus = make(shards, vocabulary, shuffle=shuffle)
    assert_equal(take(corpus, 9, first), take(corpus, first + 9)[first:])


def test_a_batch_may_take_the_whole_text_several_times(vocabulary, tmp_path):
    (tmp_path / "text").write_text("the cat sat\n")
    corpus = make(tmp_path / "text", vocabulary)
    (batch,) = take(corpus, 1)
    ids = [vocabulary.begin_id, *vocabulary.ids(["the", "cat", "sat"])]
    np.testing.assert_array_equal(batch["token_ids"], [ids * 2] * 4)
    assert corpus.batches_per_epoch == 0 and list(corpus) == []


def test_trimmed_characters_change_no_vector(vocabulary, shards):
    import keras

    from keras_elmo import CharCNNEmbedding

    config = ElmoConfig(filters=((1, 4), (5, 6)), num_highway=1, projection_dim=8)
    encoder = CharCNNEmbedding(filters=config.filters, num_highway=1, projection_dim=8)
    encoder.build((None, None, 50))
    distinct, each = (
        next(iter(make(shards, vocabulary, config, distinct_words=x))) for x in (True, False)
    )
    words, characters = distinct["word_characters"], each["tokens_characters"]
    assert words.shape[1] < characters.shape[-1] == 50
    found = keras.ops.convert_to_numpy(encoder(words))[distinct["word_index"]]
    expected = keras.ops.convert_to_numpy(encoder(characters))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_one_index_serves_several_corpora_and_vocabularies(vocabulary, shards):
    index = CorpusIndex.build(shards)
    fewer = Vocabulary(vocabulary.words[:60])
    one, other = (take(make(index, words), 3) for words in (vocabulary, fewer))
    for batch, smaller in zip(one, other):
        ids = batch["token_ids"]
        np.testing.assert_array_equal(smaller["token_ids"], np.where(ids < 60, ids, 2))
        np.testing.assert_array_equal(smaller["word_characters"], batch["word_characters"])


def test_identity_tells_streams_apart(vocabulary, shards, tmp_path):
    own = make(shards, vocabulary).identity()
    assert make(shards, vocabulary).identity() == own
    (tmp_path / "other").write_text("another text\n")
    others = [
        make(shards, vocabulary, seed=6),
        make(shards, vocabulary, shuffle=False),
        make(shards, vocabulary, batch_size=2),
        make(shards, Vocabulary([*vocabulary.words[:-1], "another"])),
        make(tmp_path / "other", vocabulary),
        make(shards, vocabulary, shard=(0, 2)),
    ]
    for other in others:
        assert other.identity() != own
    assert make(shards, vocabulary, shard=(1, 2)).identity() == others[-1].identity()


@pytest.mark.parametrize("count", [2, 7])
def test_workers_share_the_text(vocabulary, shards, count):
    settings = {"batch_size": 1, "unroll_steps": 3}
    index = CorpusIndex.build(shards)
    found = []
    for i in range(count):
        corpus = make(index, vocabulary, shard=(i, count), shuffle=False, **settings)
        numbers = range(i, len(index), count)
        length = sum(int(index.starts[n + 1] - index.starts[n]) - 1 for n in numbers)
        part = sentences_of(take(corpus, -(-length // 3)), vocabulary)[: len(numbers)]
        assert len(part) == len(numbers)
        found += part
    whole = make(index, vocabulary, shuffle=False, **settings)
    everything = sentences_of(take(whole, whole.stats.predictions // 3 + 1), vocabulary)
    assert sorted(found) == sorted(everything[: len(index)])


@pytest.mark.parametrize("batch_size, unroll_steps", [(1, 1), (4, 8), (64, 3), (500, 40)])
def test_evaluation_predicts_each_word_once(vocabulary, shards, batch_size, unroll_steps):
    corpus = read_once(shards, vocabulary, batch_size=batch_size, unroll_steps=unroll_steps)
    rows: dict = {}
    for numbers, batch in corpus.with_sentence_ids():
        assert batch["weights"].shape == (batch_size, unroll_steps)
        for row, number in enumerate(numbers):
            count = int(batch["weights"][row].sum())
            if count:
                # A row begins exactly with a sentence.
                assert batch["begins"][row] == (number not in rows)
                rows.setdefault(number, []).append([batch[name][row, :count] for name in NAMES])
    assert sorted(rows) == list(range(len(corpus.index)))
    for number, parts in rows.items():
        ids = vocabulary.ids(corpus.index.sentence(number))
        ids = [vocabulary.begin_id, *ids, vocabulary.end_id]
        expected = ids[:-1], ids[1:], ids[:0:-1], ids[-2::-1]
        for found, one in zip(map(np.concatenate, zip(*parts)), expected):
            assert found.tolist() == one
    assert corpus.num_batches == len(list(corpus))


def test_evaluation_as_bilm_tf_drops_what_it_drops(vocabulary):
    corpus = read_once(DATA / "train.txt", vocabulary, carry_state=True)
    batches = list(corpus)
    packed = take(make(DATA / "train.txt", vocabulary, unroll_steps=1, shuffle=False), 219)
    for name in NAMES:
        found = np.concatenate([batch[name] for batch in batches], axis=1)
        weights = np.concatenate([batch["weights"] for batch in batches], axis=1)
        steps = int(weights[0].sum())
        assert (weights[:, :steps] == 1).all() and not weights[:, steps:].any()
        expected = np.concatenate([batch[name] for batch in packed], axis=1)
        np.testing.assert_array_equal(found[:, :steps], expected[:, :steps])
    begins = np.array([batch["begins"] for batch in batches])
    assert begins[0].all() and not begins[1:].any()
    assert corpus.num_batches == len(batches)
    # A row has run out, and no sentence is left.
    assert 819 + 60 - 4 * steps > 0


def test_prefetched_passes_batches_errors_and_the_end_on():
    assert list(prefetched(iter(range(100)))) == list(range(100))

    def broken():
        yield 1
        raise OSError("the disk is gone")

    found = prefetched(broken())
    assert next(found) == 1
    with pytest.raises(OSError, match="disk is gone"):
        next(found)


def test_bad_arguments_are_named(vocabulary, shards, tmp_path):
    with pytest.raises(FileNotFoundError, match="No text file matches"):
        make(f"{tmp_path}/nothing*", vocabulary)
    for arguments, message in (
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"seed": -1}, "seed must be an integer of at least 0; got -1"),
        ({"seed": 1.5}, "seed must be an integer of at least 0; got 1.5"),
        ({"unroll_steps": 2.5}, "unroll_steps must be an integer of at least 1"),
        ({"shard": (2, 2)}, r"shard must be \(index, count\)"),
        ({"shard": (2, 1000)}, "A text of 67 sentences cannot be split into 1000 shards"),
    ):
        with pytest.raises(ValueError, match=message):
            make(shards, vocabulary, **arguments)


def test_threads_share_a_corpus(vocabulary, shards):
    corpus = make(shards, vocabulary)
    expected = take(corpus, 40)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: take(corpus, 40), range(4)):
            assert_equal(found, expected)
