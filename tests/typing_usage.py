"""How users call the public API, for mypy: run by `mypy`, never executed."""

import numpy as np

import keras_elmo
from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoConfig,
    ElmoLayer,
    Embedder,
    EvaluationCorpus,
    LanguageModelCorpus,
    TrainingSettings,
    Vocabulary,
)

version: str = keras_elmo.__version__
models: list[str] = keras_elmo.list_models(language="tr")

config: ElmoConfig = ElmoConfig(lstm_dim=512, projection_dim=128)
width: int = config.output_dim
options: dict = config.to_dict()
elmo: ElmoLayer = ElmoLayer(None, config=config, vectors="layers", trainable_bilm=True)
elmo.export_hdf5("my_elmo")

ids: np.ndarray = keras_elmo.encode_sentences([["Hello", "world"], [b"Hi"]])
token_ids: np.ndarray = keras_elmo.encode_token_ids([["a"]], ["<S>", "</S>", "<UNK>", "a"])

embedder = Embedder(("options.json", "weights.hdf5"), word_cache=1000)
arrays: list[np.ndarray] = embedder.embed(["Hello world", ["Hi"]], vectors="top", pooling="mean")
padded: tuple[np.ndarray, np.ndarray] = embedder.embed(["Hello world"], pad_to=3)
lines: int = embedder.embed_file("text.txt", "vectors.h5", resume=True).lines

vocabulary: Vocabulary = Vocabulary.from_file("vocab.txt")
corpus = LanguageModelCorpus(
    ["shards/*"], vocabulary, config, batch_size=128, unroll_steps=20, seed=0
)
held_out = EvaluationCorpus("heldout.txt", vocabulary, config, batch_size=128, unroll_steps=20)
model = BidirectionalLanguageModel(config, len(vocabulary), num_negative_samples=1024)
model.fit(corpus, validation_data=held_out)
perplexity: float = keras_elmo.perplexity(model, "heldout.txt", vocabulary).perplexity

result = keras_elmo.train(TrainingSettings(files="shards/*", output="run", steps=1000))
trained: BidirectionalLanguageModel = result.model

differences: dict[str, float] = keras_elmo.export_saved_model(elmo, "serving/elmo/1")
