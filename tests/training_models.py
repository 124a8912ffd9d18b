"""A tiny language model and corpus that the tests of the training share."""

from pathlib import Path

import keras

from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoConfig,
    EvaluationCorpus,
    LanguageModelCorpus,
    Vocabulary,
)

DATA = Path(__file__).parent / "golden" / "training" / "train_tiny_data"
CONFIG = ElmoConfig(
    filters=((1, 4), (2, 8)),
    char_embedding_dim=4,
    max_characters_per_token=20,
    num_highway=1,
    lstm_dim=16,
    projection_dim=8,
)
WORDS = ElmoConfig(filters=None, lstm_dim=16, projection_dim=8, vocabulary_size=127)
BATCH = {"batch_size": 4, "unroll_steps": 8}


def vocabulary():
    return Vocabulary.from_file(DATA / "vocab.txt")


def tiny_model(config=CONFIG, seed=0, **arguments):
    keras.utils.set_random_seed(seed)
    return BidirectionalLanguageModel(config, 127, **{**BATCH, **arguments})


def tiny_corpus(name="train.txt", **arguments):
    settings = {**BATCH, "max_characters_per_token": 20, "widest_filter": 2, "seed": 3}
    return LanguageModelCorpus(DATA / name, vocabulary(), **{**settings, **arguments})


def held_out():
    settings = {**BATCH, "max_characters_per_token": 20, "widest_filter": 2}
    return EvaluationCorpus(DATA / "heldout.txt", vocabulary(), **settings)
