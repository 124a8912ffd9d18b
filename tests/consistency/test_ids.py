"""Which ids and integers are valid: one rule in every layer and class that takes them."""

import functools

import keras
import numpy as np
import pytest

from helpers import TINY, to_numpy
from keras_elmo import (
    BiLMStack,
    CharCNNEmbedding,
    ElmoConfig,
    ElmoLayer,
    Embedder,
    Lexicon,
    LexiconEmbedding,
    ProjectedLSTM,
    TrainingSettings,
    UnicodeCharEncoder,
    WordEmbedding,
    encode_sentences,
)
from keras_elmo.compat import BidirectionalLanguageModel, Elmo, batch_to_ids

FILES = TINY / "options.json", TINY / "weights.hdf5"
TOKENS = [["a", "b"], ["c"]]
IDS = encode_sentences(TOKENS)
WORD_IDS = np.array([[1, 3, 4, 2], [1, 3, 2, 0]], "int32")
FILTERS = ((1, 4), (3, 4))

# A layer, its ids, and the largest id.
READERS = {
    "ElmoLayer": lambda: (ElmoLayer(TINY), IDS, 261),
    "ElmoLayer of words": lambda: (
        ElmoLayer(TINY, token_embeddings=np.ones((300, 12))),
        WORD_IDS,
        300,
    ),
    "compat.Elmo": lambda: (Elmo(*FILES, 1), keras.ops.convert_to_numpy(batch_to_ids(TOKENS)), 261),
    "compat.BidirectionalLanguageModel": lambda: (BidirectionalLanguageModel(*FILES), IDS, 261),
    "CharCNNEmbedding": lambda: (CharCNNEmbedding(FILTERS, projection_dim=4), IDS, 261),
    "WordEmbedding": lambda: (WordEmbedding(300, 4), WORD_IDS, 300),
    "LexiconEmbedding": lambda: (
        LexiconEmbedding(300, 4, 261, filters=FILTERS, projection_dim=4),
        np.concatenate([WORD_IDS[..., None], IDS], axis=-1),
        300,
    ),
}
PARTS = ("CharCNNEmbedding", "WordEmbedding", "LexiconEmbedding")  # which see only tensors


@pytest.fixture(params=READERS, scope="module")
def reader(request):
    return request.param, *READERS[request.param]()


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint16"])
def test_dtypes_that_hold_every_id(reader, dtype):
    _, layer, ids, _ = reader
    layer(ids.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bool", "uint8", "int8"])
def test_dtypes_that_do_not(reader, dtype):
    _, layer, ids, max_id = reader
    cause = "Ids are integers, but these are of dtype "
    if dtype in ("uint8", "int8"):
        cause = f"Ids go up to {max_id}, which {dtype} cannot hold: use int32"
    for inputs in (ids.astype(dtype), keras.ops.convert_to_tensor(ids.astype(dtype))):
        with pytest.raises(ValueError, match=cause):
            layer(inputs)


@pytest.mark.parametrize("distance", [-1, 1])
def test_ids_that_do_not_exist(reader, distance):
    name, layer, ids, max_id = reader
    ids = ids.copy()
    ids[0, :1] = -1 if distance < 0 else max_id + 1
    if name not in PARTS:
        with pytest.raises(ValueError, match=f"ids from 0 to {max_id}; got "):
            layer(ids)
        return
    try:
        vectors = to_numpy(layer(ids))
    except Exception as error:  # of the backend
        assert type(error).__name__ in ("InvalidArgumentError", "IndexError"), error
    else:
        assert np.isnan(vectors[0, 0]).all()


# --- integers ---------------------------------------------------------------------------------

LAYER = functools.partial(ElmoLayer, TINY)
EMBEDDER = functools.cache(lambda: Embedder(TINY, progress=False))
INTEGERS = {
    "ElmoConfig": lambda n: ElmoConfig(lstm_dim=n),
    "BiLMStack": lambda n: BiLMStack(lstm_dim=n, projection_dim=2),
    "ProjectedLSTM": lambda n: ProjectedLSTM(n, 2),
    "CharCNNEmbedding": lambda n: CharCNNEmbedding(((1, 2),), projection_dim=n),
    "WordEmbedding": lambda n: WordEmbedding(n, 2),
    "LexiconEmbedding": lambda n: LexiconEmbedding(n, 2),
    "num_mixes": lambda n: LAYER(num_mixes=n),
    "max_batch_size": lambda n: LAYER(max_batch_size=n),
    "UnicodeCharEncoder": UnicodeCharEncoder,
    "encode_sentences": lambda n: encode_sentences(TOKENS, n),
    "Lexicon": lambda n: Lexicon(["<oov>", "<bos>", "<eos>", "<pad>"], max_characters_per_token=n),
    "batch_tokens": lambda n: Embedder(TINY, batch_tokens=n),
    "pad_to": lambda n: EMBEDDER().embed(["a"], pad_to=n),
    "TrainingSettings": lambda n: TrainingSettings(files="a.txt", output="run", steps=n),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    for valid in (8, np.int64(8)):
        INTEGERS[name](valid)
    for wrong in (0, -1, 2.5, "8", True):
        with pytest.raises(ValueError, match=f"must be an integer .*; got {wrong!r}"):
            INTEGERS[name](wrong)
