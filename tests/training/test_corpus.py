"""Batches of a corpus: bilm-tf's packing, the order, the state, the remainder."""

import gzip
import itertools
import json
import lzma
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from helpers import tensorflow_only
from keras_elmo import EvaluationCorpus, LanguageModelCorpus, Vocabulary, language_model_dataset
from keras_elmo.training.batches import prefetched
from keras_elmo.training.files import fingerprints

GOLDEN = Path(__file__).parents[1] / "golden" / "training"
DATA = GOLDEN / "train_tiny_data"
NAMES = ("token_ids", "next_token_id", "token_ids_reverse", "next_token_id_reverse")


@pytest.fixture
def vocabulary():
    return Vocabulary.from_file(DATA / "vocab.txt")


@pytest.fixture
def shards(tmp_path):
    """The training text in five shards of several kinds, one with words that are unknown."""
    lines = (DATA / "train.txt").read_text().splitlines()
    parts = [lines[i::4] for i in range(4)]
    (tmp_path / "0.txt").write_text("\n".join(parts[0]))
    (tmp_path / "1.gz").write_bytes(gzip.compress("\r\n".join(parts[1]).encode() + b"\n\n"))
    (tmp_path / "2.xz").write_bytes(lzma.compress("\n".join(parts[2]).encode()))
    (tmp_path / "3.txt").write_text("")
    (tmp_path / "4.txt").write_text("zebras eat Zoë 's quinces .\n" * 7 + "\n".join(parts[3]))
    return f"{tmp_path}/*"


def make(files, vocabulary, **arguments):
    settings = {
        "batch_size": 4,
        "unroll_steps": 8,
        "max_characters_per_token": 20,
        "seed": 5,
        **arguments,
    }
    return LanguageModelCorpus(files, vocabulary, **settings)


def read_once(files, vocabulary, **arguments):
    settings = {"batch_size": 4, "unroll_steps": 8, "max_characters_per_token": 20, **arguments}
    return EvaluationCorpus(files, vocabulary, **settings)


def take(corpus, n):
    return list(itertools.islice(corpus.endless(), n))


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
            np.testing.assert_array_equal(characters, expected)


@tensorflow_only
def test_dataset_gives_the_same_batches(vocabulary, shards):
    arguments = {"batch_size": 4, "unroll_steps": 8, "max_characters_per_token": 20, "seed": 5}
    dataset = language_model_dataset(shards, vocabulary, **arguments)
    corpus = make(shards, vocabulary)
    for _ in range(2):
        found = [{k: v.numpy() for k, v in batch.items()} for batch in dataset]
        assert_equal(found, list(corpus))
    endless = language_model_dataset(shards, vocabulary, repeat=True, **arguments)
    found = [{k: v.numpy() for k, v in batch.items()} for batch in endless.take(70)]
    assert_equal(found, take(make(shards, vocabulary), 70))


def test_words_without_characters(vocabulary, shards):
    batch = next(iter(make(shards, vocabulary, max_characters_per_token=None)))
    assert set(batch) == set(NAMES)
    assert max(batch[name].max() for name in NAMES) < len(vocabulary)
    forward = next(iter(make(shards, vocabulary, bidirectional=False)))
    assert set(forward) == {"token_ids", "next_token_id", "word_characters", "word_index"}


def test_every_sentence_once_an_epoch_in_another_order(vocabulary, shards):
    def sentences(batches):
        """The text of each row, cut at the beginnings of sentences."""
        rows = np.concatenate([batch["next_token_id"] for batch in batches], axis=1)
        found = []
        for row in rows:
            ends = np.flatnonzero(row == vocabulary.end_id)
            found += [tuple(x) for x in np.split(row, ends + 1)[:-1]]
        return found

    corpus = read_once(shards, vocabulary, remainder="pad")
    in_order = sentences(list(corpus))
    epochs = [sentences(list(make(shards, vocabulary, batch_size=1, seed=s))) for s in (1, 1, 2)]
    assert epochs[0] == epochs[1] != epochs[2]
    # All but what is left for the next epoch.
    for epoch in epochs:
        assert len(in_order) - 2 <= len(epoch) <= len(in_order)
        assert not set(epoch) - set(in_order)


def test_unknown_words_keep_their_characters(vocabulary, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Zebras ate <S> .\n")
    corpus = read_once(path, vocabulary, batch_size=1, unroll_steps=5, remainder="pad")
    (batch,) = list(corpus)
    assert batch["token_ids"][0, 1] == vocabulary.unknown_id == batch["token_ids"][0, 3]
    rows = batch["word_characters"][batch["word_index"][0]]
    assert bytes(rows[1, 1:7].astype(np.uint8) - 1) == b"Zebras"
    # A boundary spelled out is a word like any other.
    assert bytes(rows[3, 1:4].astype(np.uint8) - 1) == b"<S>"


def test_trimmed_characters_change_no_vector(vocabulary, shards):
    import keras

    from keras_elmo import CharCNNEmbedding

    encoder = CharCNNEmbedding(filters=((1, 4), (5, 6)), num_highway=1, projection_dim=8)
    encoder.build((None, None, 50))
    batch, full = (
        next(iter(make(shards, vocabulary, max_characters_per_token=50, widest_filter=widest)))
        for widest in (5, None)
    )
    assert batch["word_characters"].shape[1] < full["word_characters"].shape[1] == 50
    vectors = [keras.ops.convert_to_numpy(encoder(b["word_characters"])) for b in (batch, full)]
    np.testing.assert_allclose(*vectors, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 20, 37, 80])
@pytest.mark.parametrize("shuffle", [True, False])
def test_state_goes_on_from_any_batch(vocabulary, shards, n, shuffle):
    reference = take(make(shards, vocabulary, shuffle=shuffle), n + 60)
    corpus = make(shards, vocabulary, shuffle=shuffle)
    take(corpus, n + 9)  # read ahead
    state = json.loads(json.dumps(corpus.state(n)))
    other = make(shards, vocabulary, shuffle=shuffle, seed=99)
    other.restore(state)
    assert_equal(take(other, 60), reference[n:])
    assert other.state(n + 5)["target"] == n + 5
    corpus.go_to(n)
    assert_equal(take(corpus, 60), reference[n:])


def test_state_after_a_batch_that_takes_the_whole_text(vocabulary, tmp_path):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran\n" * 4)
    corpus = make(tmp_path / "text", vocabulary)
    reference = take(corpus, 8)
    for n in range(8):
        other = make(tmp_path / "text", vocabulary)
        other.restore(corpus.state(n))
        assert_equal(take(other, 8 - n), reference[n:])


def test_states_that_do_not_fit_are_refused(vocabulary, shards):
    corpus = make(shards, vocabulary)
    take(corpus, 3)
    with pytest.raises(ValueError, match="state after batch 7 is not known: 3 batches"):
        corpus.state(7)
    state = corpus.state(2)
    with pytest.raises(ValueError, match="batch_size was 4, now 2"):
        make(shards, vocabulary, batch_size=2).restore(state)
    with pytest.raises(ValueError, match="the vocabulary has other words"):
        make(shards, Vocabulary([*vocabulary.words[:-1], "another"])).restore(state)
    del state["corpus"]["words"]  # as of an earlier version
    make(shards, Vocabulary([*vocabulary.words[:-1], "another"])).restore(state)


def test_files_are_known_by_their_content(vocabulary, shards, tmp_path):
    corpus = make(shards, vocabulary)
    take(corpus, 3)
    state = json.loads(json.dumps(corpus.state(2)))
    path = tmp_path / "0.txt"
    text = path.read_bytes()
    os.utime(path, ns=(0, 0))  # copied elsewhere, say
    make(shards, vocabulary).restore(state)
    # Of another folder, with the same name, size and time.
    twin = tmp_path / "twin" / "0.txt"
    twin.parent.mkdir()
    twin.write_bytes(b"X" + text[1:])
    os.utime(twin, ns=(0, 0))
    known = fingerprints([path, twin])
    assert known[0][:3] == known[1][:3] and known[0][3] != known[1][3]
    assert fingerprints([path, twin], known) == known
    path.write_bytes(text[:-1] + b"?")
    with pytest.raises(ValueError, match=r"these files have changed: 0\.txt"):
        make(shards, vocabulary).restore(state)
    # Earlier versions recorded no more than the size.
    state["corpus"]["files"] = [entry[:2] for entry in state["corpus"]["files"]]
    make(shards, vocabulary).restore(state)
    path.write_bytes(text + b"?")
    with pytest.raises(ValueError, match=r"these files have changed: 0\.txt"):
        make(shards, vocabulary).restore(state)
    with pytest.raises(ValueError, match=r"these files have changed: 0\.txt, 1\.gz"):
        make(path, vocabulary).restore(state)


def test_a_worker_resumes_from_the_state_of_another(vocabulary, shards):
    """The first of several processes writes the checkpoints of all."""
    first, second = (make(shards, vocabulary, shard=(i, 2)) for i in range(2))
    take(first, 20)
    expected = take(second, 30)
    resumed = make(shards, vocabulary, shard=(1, 2), seed=9)
    resumed.restore(json.loads(json.dumps(first.state(15))))
    assert_equal(take(resumed, 15), expected[15:])
    with pytest.raises(ValueError, match="shard was"):
        make(shards, vocabulary).restore(first.state(15))


@pytest.mark.parametrize("count", [2, 7])
def test_workers_share_the_text(vocabulary, shards, count):
    def words(shard):
        corpus = read_once(shards, vocabulary, remainder="pad", shard=shard)
        return sum(int(batch["weights"].sum()) for batch in corpus)

    parts = [words((i, count)) for i in range(count)]
    assert sum(parts) == words((0, 1)) and min(parts) > 0


def test_pad_scores_each_word_once_and_drop_what_bilm_tf_drops(vocabulary):
    padded = list(read_once(DATA / "train.txt", vocabulary, remainder="pad"))
    dropped = list(read_once(DATA / "train.txt", vocabulary, remainder="drop"))
    assert sum(batch["weights"].sum() for batch in padded) == 819 + 60
    assert len(dropped) == 27 and "weights" not in dropped[0]
    corpus = read_once(DATA / "train.txt", vocabulary, remainder="pad")
    assert_equal(list(corpus), padded)
    assert_equal(list(corpus), padded)
    assert corpus.num_batches == len(padded)
    assert make(DATA / "train.txt", vocabulary).batches_per_epoch == (819 + 60) // 32


def test_odd_files_are_read_and_reported(vocabulary, tmp_path):
    (tmp_path / "a").write_bytes(b"the\r\n\r\n  \nthe e\xffnd\nlast")
    (tmp_path / "b").write_bytes(b"")
    corpus = read_once(f"{tmp_path}/*", vocabulary, batch_size=1, unroll_steps=7, remainder="pad")
    (batch,) = list(corpus)
    words = [vocabulary.words[i] for i in batch["token_ids"][0]]
    assert words == ["<S>", "the", "<S>", "the", "<UNK>", "<S>", "last"]
    rows = batch["word_characters"][batch["word_index"][0]]
    assert bytes(rows[4, 1:4].astype(np.uint8) - 1) == b"end"
    report = corpus.report
    assert (report.sentences, report.tokens, report.blank_lines) == (3, 4, 2)
    assert report.invalid_lines == 1 and report.empty_files == ["b"]


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
        ({"batch_size": 0}, "batch_size must be a positive integer"),
        ({"unroll_steps": 2.5}, "unroll_steps must be a positive integer"),
        ({"shard": (2, 2)}, r"shard must be \(index, count\)"),
    ):
        with pytest.raises(ValueError, match=message):
            make(shards, vocabulary, **arguments)
    with pytest.raises(ValueError, match="remainder must be 'pad' or 'drop', got 'keep'"):
        read_once(shards, vocabulary, remainder="keep")
    empty = tmp_path / "empty"
    empty.write_text("\n\n")
    for corpus in (make(empty, vocabulary), read_once(empty, vocabulary)):
        with pytest.raises(ValueError, match="There is no sentence in .*empty"):
            next(iter(corpus))


def test_a_row_goes_on_behind_the_end_of_a_shard(tmp_path):
    """The unknown words that a window holds get new ids there; nothing else changes."""
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
    lines = ["zebra a b c a b\n", "c c c quince b b b zebra a\n"]
    for i, line in enumerate(lines):
        (tmp_path / f"{i}.txt").write_text(line)
    (tmp_path / "all").write_text("".join(lines))
    settings = {"batch_size": 1, "unroll_steps": 10, "shuffle": False}
    apart, together = (make(tmp_path / name, vocabulary, **settings) for name in ("*.txt", "all"))
    assert_equal(take(apart, 7), take(together, 7))
    del settings["shuffle"]
    apart, together = (
        read_once(tmp_path / name, vocabulary, **settings) for name in ("*.txt", "all")
    )
    assert_equal(list(apart), list(together))


def test_iterators_in_several_threads_share_the_text(vocabulary, shards):
    """Each batch goes to one of them, whole."""
    settings = {"batch_size": 3, "unroll_steps": 5, "seed": 1, "max_characters_per_token": 20}
    corpora = [LanguageModelCorpus(shards, vocabulary, **settings) for _ in range(2)]

    def numbers(batches):
        return [tuple(np.concatenate([one[name] for name in NAMES]).flat) for one in batches]

    expected = numbers(itertools.islice(corpora[0].endless(), 200))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            parts = pool.map(
                lambda _: numbers(itertools.islice(corpora[1].endless(), 50)), range(4)
            )
            found = [one for part in parts for one in part]
    finally:
        sys.setswitchinterval(interval)
    assert sorted(found) == sorted(expected)
