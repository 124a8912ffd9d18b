"""The tagger of the examples, and what it shares with the other programs."""

import gzip
import json
import lzma

import numpy as np
import pytest

import features
import harness
import ner
from example_programs import ELMO, run_program, trains_a_model, write_glove
from helpers import assert_close, to_numpy
from keras_elmo import ElmoConfig, ElmoLayer

BIO = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-LOC", "O", "B-ORG"]
IOBES = ["B-PER", "E-PER", "O", "S-LOC", "B-LOC", "E-LOC", "O", "S-ORG"]
IOB1 = ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-LOC", "O", "I-ORG"]
ENTITIES = [("PER", 0, 2), ("LOC", 3, 4), ("LOC", 4, 6), ("ORG", 7, 8)]

TRAIN = """
Ann B-PER\nLee I-PER\nwent O\nto O\nParis B-LOC\n. O\n
Paris B-LOC\nis O\nfar O\n. O\n
Bob B-PER\nwent O\nhome O\n. O\n
Home O\n! O\n
Bob B-PER\nis O\nin O\nRome B-LOC\n. O
"""


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "train.bio").write_text(TRAIN)
    write_glove(tmp_path / "glove.txt", ["the", "paris", "ann", "Bob", "is"])
    return lambda *options: ner.parse(
        [
            *[x for part in ("train", "dev", "test") for x in (f"--{part}", "train.bio")],
            *("--glove", "glove.txt", "--elmo", str(ELMO), "--units", "4", "--epochs", "2"),
            *("--character-filters", "4", "--least-steps", "1", "--output", "out", *options),
        ]
    )


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("tags", [BIO, IOBES, IOB1])
def test_schemes_name_the_same_entities(tags):
    assert ner.entities(tags) == ENTITIES
    assert ner.to_bio(ENTITIES, len(tags)) == BIO
    assert ner.to_iobes(ENTITIES, len(tags)) == IOBES


def test_tags_that_no_scheme_allows_are_read_as_conlleval_does():
    assert ner.entities(["O", "I-A", "I-B", "E-B", "I-B"]) == [
        ("A", 1, 2),
        ("B", 2, 4),
        ("B", 4, 5),
    ]
    assert ner.entities(["E-A", "S-A", "O"]) == [("A", 0, 1), ("A", 1, 2)]
    assert ner.entities([]) == []


@pytest.mark.parametrize(
    "name, text",
    [
        ("conll.txt", "-DOCSTART- -X- -X- O\n\n# NN I-NP O\nAnn NNP I-NP I-PER\n"
         "Lee NNP I-NP I-PER\n"),
        ("wnut.conll", "\n#\tO\nAnn\tB-PER\nLee\tI-PER\n\n\n"),
        ("uner.bio", "# O\nAnn B-PER\nLee I-PER\n\n"),
        ("uner.iob2", "# sent_id = 1\n# text = # Ann Lee\n1\t#\tO\t-\t-\n2\tAnn\tB-PER\t-\t-\n"
         "3\tLee\tI-PER\t-\t-\n\n"),
    ],
)  # fmt: skip
def test_files_of_every_kind(tmp_path, name, text):
    expected = [["#", "Ann", "Lee"]], [["O", "B-PER", "I-PER"]]
    (tmp_path / name).write_text(text)
    assert ner.read_sentences(tmp_path / name) == expected
    with lzma.open(tmp_path / f"{name}.xz", "wt") as file:
        file.write(text.replace("\n", "\r\n"))
    assert ner.read_sentences(tmp_path / f"{name}.xz") == expected


def test_words_that_universal_ner_counts_as_no_names(tmp_path):
    lines = "# newpar\n1\tFrom\tB-O\t-\t-\n2\tIraqi\tB-OTH\t-\t-\n3\tAnn\tB-PER\t-\t-\n"
    (tmp_path / "uner.iob2").write_text(lines)
    assert ner.read_sentences(tmp_path / "uner.iob2")[1] == [["O", "O", "B-PER"]]


def test_a_file_without_sentences(tmp_path):
    (tmp_path / "empty.bio").write_text("\n\n")
    with pytest.raises(ValueError, match="empty.bio has no sentences: expected lines"):
        ner.read_sentences(tmp_path / "empty.bio")


@pytest.mark.parametrize("line", ["Ann L-PER", "Ann PER", "Ann", "# B-PER I- O-PER", "Ann\tB-"])
def test_lines_of_other_schemes(tmp_path, line):
    (tmp_path / "some.bio").write_text(f"Ann B-PER\n{line}\n")
    with pytest.raises(ValueError, match="some.bio, line 2: .* is not a token with its tag"):
        ner.read_sentences(tmp_path / "some.bio")


def test_trains_on_every_backend(settings):
    settings = settings("--epochs", "1", "--batch-size", "8")
    experiment = ner.Experiment(settings)
    inputs = experiment.prepare("none").trained_on(range(5))
    model = experiment.make_model("none", inputs)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    batches = inputs.batches("train", labels=experiment.labels, characters=True, batch_size=8)
    assert harness.train(model, batches, lambda: 50.0, settings) == (50.0, 1)
    for variable, value in zip(model.trainable_variables, before):
        assert np.isfinite(to_numpy(variable)).all() and (to_numpy(variable) != value).any()


@pytest.mark.slow
@trains_a_model
def test_from_training_to_tagging(settings, tmp_path, monkeypatch):
    summary = ner.run(settings("--features", "glove+elmo", "--epochs", "1"))
    assert len(summary) == 1 and len(summary[0]["input weights"]) == 3
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == summary
    assert (tmp_path / "out" / "results.md").read_text().startswith("| features | seeds | dev |")
    assert (tmp_path / "out" / "runs.csv").read_text().count("\n") == 2
    rows = (tmp_path / "out" / "glove+elmo-1.txt").read_text().splitlines()
    assert [row.rsplit(" ", 1)[0] for row in rows] == [*TRAIN.strip().splitlines(), ""]

    # Once more: the vectors are there.
    monkeypatch.setattr(features, "Embedder", None)
    ner.Experiment(settings("--features", "glove+elmo")).prepare("glove+elmo")

    # In another process, from one file, with the ElmoLayer in it.
    model = tmp_path / "out" / "glove+elmo.keras"
    sentences = ["Ann went to Paris .", "Zzz"]
    printed = run_program("ner.py", "--model", model, "--tag", *sentences)
    tags = ner.keras.models.load_model(model).tag(sentences)
    tags = [ner.to_bio(ner.entities(x), len(x)) for x in tags]
    expected = [
        " ".join(f"{token}/{tag}" for token, tag in zip(sentence.split(), row))
        for sentence, row in zip(sentences, tags)
    ]
    assert printed.splitlines() == expected


def test_runs_are_kept_in_their_folder(settings, tmp_path):
    done = []

    def experiment(features, seed):
        done.append((features, seed))
        score = 40.0 + seed + 10 * len(features)
        result = {"dev": score, "test": score / 2, "input weights": None}
        model = ner.keras.Sequential([ner.keras.Input((1,)), ner.keras.layers.Dense(seed)])
        return result, model

    def run(*options):
        done.clear()
        return harness.run_seeds(experiment, settings("--fraction", "0.4", *options))

    (row,) = run("--features", "glove+elmo")
    assert row["seeds"] == 1 and row["test deviation"] is None
    # With one more seed: the first is not run again, and the best model of the two is kept.
    (row,) = run("--features", "glove+elmo", "--seeds", "2")
    assert done == [("glove+elmo", 2)] and row["seeds"] == 2
    assert row["test deviation"] == pytest.approx(0.35, abs=0.01)
    kept = ner.keras.models.load_model(tmp_path / "out" / "glove+elmo.keras")
    assert kept.output_shape == (None, 2)
    # With other features: all are in the table.
    base, row = run("--features", "glove", "--seeds", "2")
    assert (base["features"], base["seeds"], row["features"]) == ("glove", 2, "glove+elmo")
    assert row["gain over glove"] == pytest.approx(row["test"] - base["test"], abs=0.01)
    assert (tmp_path / "out" / "runs.csv").read_text().count("\n") == 5
    # Other options, and other files of the same names, are other experiments.
    with pytest.raises(ValueError, match="out holds runs with fraction 0.4: choose another"):
        run("--fraction", "0.5")
    (tmp_path / "glove.txt").write_text("ann 1 2 3 4\n")
    with pytest.raises(ValueError, match="holds runs with glove 'sha256"):
        run("--features", "glove")
    run("--features", "none")  # which does not read it
    assert done == [("none", 1)]
    (tmp_path / "train.bio").write_text(TRAIN + "\nHome O\n")
    with pytest.raises(ValueError, match="holds runs with dev 'sha256 .*, test 'sha256"):
        run("--features", "glove")
    assert not done


@pytest.mark.slow
@trains_a_model
def test_learns_its_training_sentences(settings):
    options = ("--epochs", "40", "--patience", "40", "--batch-size", "2", "--units", "16")
    options += ("--character-filters", "32", "--learning-rate", "0.02", "--halve-after", "40")
    (row,) = ner.run(settings("--features", "elmo", *options))
    assert row["test"] > 85
    assert_close(np.sum(row["input weights"]), np.array(1.0))
    assert np.ptp(row["input weights"]) > 0.001


def test_without_cache_computes_the_same(settings, tmp_path):
    """Within the rounding of float16."""
    settings = settings("--features", "elmo-tokens")
    experiment = ner.Experiment(settings)
    cached = experiment.prepare("elmo-tokens")
    model = experiment.make_model("elmo-tokens", cached)
    settings.no_cache = True
    live = features.prepare("elmo-tokens", settings, experiment.sentences)
    for inputs in (cached, live):
        assert (inputs.layers["train"] is None) == (inputs is live)
    options = {"characters": True, "batch_size": 8}
    logits = [
        to_numpy(model(inputs.batches("train", **options)[0][0])["logits"])
        for inputs in (cached, live)
    ]
    assert_close(logits[0], logits[1], tolerance=2e-3)


@pytest.mark.slow
@trains_a_model
def test_trains_end_to_end_without_cache(settings, tmp_path):
    (row,) = ner.run(settings("--features", "elmo", "--no-cache", "--last-layer"))
    assert row["input weights"][-1] == 1 and not (tmp_path / "elmo_cache").exists()


def test_options_that_are_missing(capsys):
    with pytest.raises(SystemExit):
        ner.parse(["--train", "x"])
    assert "--dev, --test missing" in capsys.readouterr().err


def test_glove_files(tmp_path):
    words = ["the", "of", ". .", "Paris", "zebra", "quagga"]
    vectors = write_glove(tmp_path / "glove.txt", words)
    text = (tmp_path / "glove.txt").read_text()
    with gzip.open(tmp_path / "glove.txt.gz", "wt") as file:
        file.write("6 4\n" + text)
    for name in ("glove.txt", "glove.txt.gz"):
        known, table = features.read_glove(tmp_path / name, [["Zebra", "x"]], num_frequent=3)
        assert known == ["the", "of", ". .", "zebra"]
        assert_close(table[2:], vectors[[0, 1, 2, 4]])
        assert_close(table[0], np.zeros(4))
        assert_close(table[1], vectors[[0, 1, 2, 4]].mean(0))
    for name in ("no_glove", "./no.txt", "json"):
        with pytest.raises(ValueError, match=f"{name} is neither a file nor an installed package"):
            features.read_glove(name, [])


def test_files_that_are_no_glove(tmp_path):
    for text in ("", "one\n", "a 0.1 0.2\nb 0.1\n", "a 0.1 x\n"):
        (tmp_path / "glove.txt").write_text(text)
        with pytest.raises(ValueError, match="glove.txt is not a GloVe text file"):
            features.read_glove(tmp_path / "glove.txt", [])


def test_words_and_their_numbers():
    table = features.WordTable(["the", "Bob"])
    assert table.ids(["the", "The", "Bob", "bob", "x"]).tolist() == [2, 2, 3, 1, 1]
    assert len(table) == 4
    assert features.frequent_words([["a", "b"], ["a"]]) == ["a"]


def test_cached_vectors_are_those_of_the_layer(tmp_path):
    sentences = [["The", "cat"], ["Hello"]]
    cached = features.CachedLayers(sentences, ELMO, tmp_path)
    expected = features.Embedder(ELMO).embed(sentences, output="layers")
    assert len(cached) == 2 and isinstance(cached.tokens, np.memmap)
    for array, other in zip(cached, expected):
        assert_close(array.astype("float32"), other, tolerance=1e-3)
    other = features.CachedLayers([["The", "cat", "Hello"]], ELMO, tmp_path)
    assert other.path != cached.path
    assert sorted(tmp_path.iterdir()) == sorted([cached.path, other.path])


def test_models_with_rows_of_their_own():
    sentences = [["The", "cat"], ["Hello", "unbelievably", "there"]]
    config = ElmoConfig(
        max_characters_per_token=9,
        char_embedding_dim=4,
        filters=((1, 4), (2, 4)),
        num_highway=1,
        lstm_dim=8,
        projection_dim=4,
    )
    elmo = ElmoLayer(None, config=config, output="layers")
    model = ner.Tagger(["O"], character_filters=4, units=4, elmo=elmo)
    (batch, _), *_ = model.batches_of(sentences, characters=True)
    assert batch["elmo"].shape == (2, 10, 9) and batch["characters"].shape == (2, 10, 50)
    found = features.elmo_layers(elmo, batch)
    assert_close(to_numpy(found)[:, :, :3], to_numpy(elmo(sentences)), tolerance=1e-5)
    assert list(map(len, model.tag(sentences))) == [2, 3]


def test_models_of_word_numbers_are_refused(tmp_path):
    config = ElmoConfig(filters=None, vocabulary_size=5, lstm_dim=8, projection_dim=4)
    ElmoLayer(None, config=config).export_hdf5(tmp_path / "words")
    with pytest.raises(ValueError, match="reads the numbers of whole words, not text"):
        features.load_elmo(str(tmp_path / "words"))


def test_one_program_at_a_time_writes_into_a_folder(settings, tmp_path):
    settings = settings("--features", "none")

    def once(features, seed):
        with pytest.raises(BlockingIOError, match="Another program is running in out"):
            harness.run_seeds(once, settings)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harness.run_seeds(once, settings)
    # Nothing has been trained yet, so the options may still change.
    settings.epochs = 7
    model = harness.keras.Sequential([harness.keras.Input((1,)), harness.keras.layers.Dense(1)])
    harness.run_seeds(lambda *run: ({"dev": 1.0, "test": 2.0}, model), settings)
    settings.epochs = 8
    with pytest.raises(ValueError, match="out holds runs with epochs 7: choose another --output"):
        harness.run_seeds(once, settings)


def test_batches_have_every_sentence_once():
    sentences = [["w"] * n for n in (3, 9, 1, 12, 2)]
    labels = [np.full(len(x), i) for i, x in enumerate(sentences)]
    batches = features.SentenceBatches(
        sentences, features.WordTable(["w"]), labels, characters=True, batch_size=2
    )
    for epoch in (batches, batches.shuffled()):
        seen = []
        for inputs, tags in epoch:
            assert inputs["words"].shape == tags.shape and tags.shape[1] % 8 == 0
            assert inputs["characters"].shape == (len(tags), tags.shape[1] + 2, 50)
            np.testing.assert_array_equal(inputs["words"] == 0, tags == -1)
            seen += tags[:, 0].tolist()
        assert sorted(seen) == [0, 1, 2, 3, 4]


def test_tables(tmp_path):
    runs = [
        {"features": "elmo", "seed": seed, "dev": 1.0, "test": score}
        for seed, score in enumerate((70.0, 71.0, 90.0), start=1)
    ]
    (row,) = harness.summarize(runs, num_seeds=2)
    assert (row["test"], row["test deviation"]) == (70.5, 0.71)
    other = {"features": "glove", "seeds": 4, "test": 69.0, "test deviation": 1.0}
    gained, base = harness.with_gains([row, other])
    assert gained["gain over glove"] == 1.5 and base["gain over glove"] is None
    assert gained["its standard error"] == round((0.71**2 / 2 + 1 / 4) ** 0.5, 2)
    assert harness.with_gains([row]) == [row] and harness.with_gains([other]) == [other]
    harness.write_table(tmp_path / "table", [row, {"features": "b", "paper": 2}])
    assert (tmp_path / "table.md").read_text().splitlines()[2:] == [
        "| elmo | 2 | 1.00 ± 0.00 | 70.50 ± 0.71 |  |",
        "| b |  |  |  | 2 |",
    ]
    assert (tmp_path / "table.csv").read_text().splitlines()[1] == "elmo,2,1.0,0.0,70.5,0.71,,,"
    assert json.loads((tmp_path / "table.json").read_text())[0] == row
    assert harness.fraction_of(10, 0.3, seed=1) != harness.fraction_of(10, 0.3, seed=2)
    assert len(harness.fraction_of(10, 0.3, seed=1)) == 3


class Scripted(harness.keras.Model):
    """A model of one weight, which grows by the learning rate in every step."""

    def __init__(self):
        super().__init__()
        self.weight = self.add_weight(shape=(), initializer="zeros")

    def call(self, inputs):
        return inputs["words"] * 0 - self.weight


def test_training_ends_with_the_best_epoch(settings):
    scores = [0.0, 0.0, 0.0, 4.0, 5.0, 4.0, 4.0, 6.0, 1.0, 1.0, 1.0]
    sentences = [["w"]] * 3
    labels = [np.float32(0)] * 3
    batches = features.SentenceBatches(sentences, features.WordTable(["w"]), labels, batch_size=2)
    model, seen = Scripted(), []

    def score():
        seen.append(float(to_numpy(model.weight)))
        return scores[len(seen) - 1]

    options = ("--epochs", "20", "--patience", "3", "--least-steps", "5", "--learning-rate", "0.5")
    best, epoch = harness.train(model, batches, score, settings(*options), loss=lambda y, x: x)
    # Adam moves by the rate where the gradient stays the same; 6 steps are 3 times the 2 batches.
    assert (best, epoch, len(seen)) == (6.0, 8, 11)
    moves = np.diff([0.0, *seen]) / 6
    assert_close(moves, np.array([0.5] * 7 + [0.25] * 3 + [0.125]), tolerance=1e-3)
    assert float(to_numpy(model.weight)) == seen[7]
