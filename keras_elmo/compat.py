"""The helpers of AllenNLP, bilm-tf and elmoformanylangs by their names; see docs/MIGRATION.md."""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_elmo.atomic import atomic_write
from keras_elmo.embedding import embedder
from keras_elmo.layers.weighted_layer_sum import WeightedLayerSum
from keras_elmo.pretrained.download import ModelSource
from keras_elmo.text.characters import (
    BEGIN_SENTENCE,
    END_SENTENCE,
    boundary_row,
    checked_tokens,
    encode_sentences,
)
from keras_elmo.text.vocabulary import BOUNDARY_MARKS, id_table, read_words, rows_of_ids

_TOKENS_OF_A_SENTENCE = 32
_OUTPUTS = {"all": "layers", "top": "top", "average": "average"}


def batch_to_ids(batch: Iterable[Iterable[str]]) -> np.ndarray:
    """AllenNLP's character ids, without rows for the boundaries of sentences.

    A token `"<S>"` or `"</S>"` has a boundary's row. In new code use `encode_sentences`.

    Args:
        batch: List of sentences, each a list of tokens.

    Returns:
        int64 array `(B, T, 50)`, 0 after a sentence: `torch.from_numpy` makes AllenNLP's tensor.

    Raises:
        ValueError: if a sentence is no list of strings.

    Example:

    >>> batch_to_ids([["First", "sentence", "."], ["Another"]]).shape
    (2, 3, 50)

    Reference: AllenNLP 0.9, `allennlp.modules.elmo.batch_to_ids`.
    """
    ids = _character_ids(batch, 50, BOUNDARY_MARKS)
    ids[np.arange(len(ids)), ids.any(axis=2).sum(axis=1) - 1] = 0  # the rows of ends of sentences
    return ids[:, 1:-1]


def add_sentence_boundaries(ids: np.ndarray) -> np.ndarray:
    """Makes the rows of `encode_sentences`, int32 `(B, T + 2, C)`, from those of `batch_to_ids`.

    Raises ValueError if they have been added before.

    Example:

    >>> ElmoLayer()(add_sentence_boundaries(batch_to_ids([["Hi", "there"]]))).shape
    TensorShape([1, 2, 256])
    """
    ids = np.asarray(ids, np.int32)
    width = ids.shape[2]
    if len(ids) and (ids[:, :1] == boundary_row(BEGIN_SENTENCE, width)).all():
        raise ValueError("The ids have rows for the boundaries of sentences already.")
    lengths = ids.any(axis=2).sum(axis=1)
    rows = np.pad(ids, ((0, 0), (1, 1), (0, 0)))
    rows[:, 0] = boundary_row(BEGIN_SENTENCE, width)
    rows[np.arange(len(rows)), lengths + 1] = boundary_row(END_SENTENCE, width)
    return rows


class ElmoEmbedder:
    """AllenNLP's embedder: every layer's vectors of tokenized sentences.

    In new code use `Embedder(model).embed(sentences, output="layers")`. Unlike in AllenNLP, each
    sentence starts from a zero state (to carry it, make an `ElmoLayer(..., output="layers",
    stateful=True)`), and a token `"<S>"` is ordinary text.

    Args:
        options_file, weight_file: The model's options.json and weights.hdf5. Without both, the
            paper's model, `"original"`, is downloaded.
        cuda_device: Not used: the Keras backend chooses the device.

    Raises:
        FileNotFoundError: if a file is missing.
        ConnectionError: if a download failed.
        ValueError: if one file is given without the other, or they do not fit.

    Example:

    >>> elmo = ElmoEmbedder("options.json", "weights.hdf5")
    >>> elmo.embed_sentence(["I", "ate", "an", "apple"]).shape
    (3, 4, 1024)

    Reference: AllenNLP 0.9, `allennlp.commands.elmo.ElmoEmbedder`.
    """

    def __init__(
        self,
        options_file: str | os.PathLike | None = None,
        weight_file: str | os.PathLike | None = None,
        cuda_device: int = -1,
    ):
        if (options_file is None) != (weight_file is None):
            raise ValueError("Give both options_file and weight_file, or neither.")
        model: Any = "original" if options_file is None else (options_file, weight_file)
        self.embedder = embedder.Embedder(model, progress=False)

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        """All layers of a list of T tokens, float32 `(L + 1, T, 2 * P)`."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Iterable[Sequence[str]]) -> list[np.ndarray]:
        """All layers of each sentence of a batch, as of `embed_sentence`."""
        return self.embedder.embed(batch, output="layers")

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = 64
    ) -> Iterator[np.ndarray]:
        """Yields all layers of each sentence; `batch_size` sentences are read and run at once.

        Raises ValueError if `batch_size` is not positive.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        sentences = iter(sentences)
        while batch := list(itertools.islice(sentences, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | os.PathLike,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Writes the vectors of a text of one tokenized sentence a line to an hdf5 file.

        In new code use `Embedder.embed_file`, which resumes after a kill and takes empty lines.

        Args:
            input_file: The lines, such as an open text file.
            output_file_path: The file to write or replace: a dataset for each sentence, "0", "1",
                ..., and `sentence_to_index`, their names as JSON.
            output_format: `"all"` layers, the `"top"` one, or their `"average"`.
            batch_size: Not used: the `Embedder` batches by tokens.
            forget_sentences: Whether to leave `sentence_to_index` out.
            use_sentence_keys: Whether datasets are named by their sentences instead.

        Raises:
            ValueError: if the format is unknown, a line is empty, or two datasets had one name.
        """
        import h5py

        if output_format not in _OUTPUTS:
            raise ValueError(
                f"output_format must be one of {', '.join(_OUTPUTS)}; got {output_format!r}."
            )
        sentences = [line.strip() for line in input_file]
        names = sentences if use_sentence_keys else list(map(str, range(len(sentences))))
        if "" in sentences or len(set(names)) < len(names):
            raise ValueError("Remove lines that are empty, or that repeat the name of a dataset.")
        vectors = self.embedder.stream(map(str.split, sentences), _OUTPUTS[output_format])
        with atomic_write(output_file_path) as partial, h5py.File(partial, "w") as file:
            for name, array in zip(names, vectors):
                file[name] = array
            if not forget_sentences and not use_sentence_keys:
                file["sentence_to_index"] = [json.dumps(dict(zip(sentences, names)))]


class Embedder:
    """The class of elmoformanylangs.

    In new code use `keras_elmo.Embedder`. Here each sentence begins with a zero state;
    elmoformanylangs carries the state from batch to batch, in random order, and gives these vectors
    only in the first batch of a fresh Embedder. `ElmoLayer(model_dir, stateful=True)` carries it.

    Args:
        model_dir: A model: a folder or zip of ELMoForManyLangs, or anything that `ElmoLayer` takes.
        batch_size: Sentences of 32 tokens that are run together; results do not depend on it.

    Raises:
        FileNotFoundError: if a file is missing.
        ConnectionError: if a download failed.
        ValueError: if a file is damaged or of another kind.

    Example:

    >>> from keras_elmo.compat import Embedder
    >>> Embedder("many-languages/it").sents2elmo([["Il", "gatto"], ["Ciao"]])[0].shape
    (2, 1024)

    Reference: elmoformanylangs 0.0.4, `elmoformanylangs.Embedder`.
    """

    def __init__(self, model_dir: ModelSource, batch_size: int = 64):
        tokens = batch_size * _TOKENS_OF_A_SENTENCE
        self.embedder = embedder.Embedder(model_dir, batch_tokens=tokens, progress=False)

    def sents2elmo(
        self, sents: Iterable[Sequence[str]], output_layer: int = -1
    ) -> list[np.ndarray]:
        """Vectors of sentences, lists of tokens.

        Args:
            sents: The sentences.
            output_layer: -2 for all layers, -1 for their mean, 0 for the token vectors, 1 to L for
                an LSTM layer. Other negative numbers index the layers from the end.

        Returns:
            A float32 array for each sentence of T tokens: `(L + 1, T, 2 * P)` for -2, else
            `(T, 2 * P)`.

        Raises:
            ValueError: if there is no such layer.
        """
        most = self.embedder.config.num_layers
        if output_layer not in (-2, *range(-most - 1, most + 1)):
            raise ValueError(
                f"output_layer must be -2, -1 or from 0 to {most}; got {output_layer}."
            )
        if output_layer == -1:
            return self.embedder.embed(sents, output="average")
        layers = self.embedder.embed(sents, output="layers")
        return layers if output_layer == -2 else [array[output_layer] for array in layers]


class Batcher:
    """bilm-tf's character ids, with rows for the boundaries of sentences.

    In new code use `encode_sentences(sentences, max_token_length)`. Here a token `"<S>"` or
    `"</S>"` has a boundary's row if the vocabulary lists it. (If not, bilm-tf encodes the
    vocabulary's last word as `</S>`; this class does not.)

    Args:
        lm_vocab_file: The vocabulary, one word a line.
        max_token_length: Characters of a token, its begin and end marks included.

    Raises:
        FileNotFoundError: if the file is missing.

    Example:

    >>> Batcher("vocabulary.txt", 50).batch_sentences([["First", "sentence", "."], ["Hi"]]).shape
    (2, 5, 50)

    Reference: bilm-tf, `bilm.Batcher`.
    """

    def __init__(self, lm_vocab_file: str | os.PathLike, max_token_length: int):
        words = set(read_words(lm_vocab_file))
        self._marks = {mark: row for mark, row in BOUNDARY_MARKS.items() if mark in words}
        self._max_token_length = max_token_length

    def batch_sentences(self, sentences: Iterable[Iterable[str]]) -> np.ndarray:
        """Character ids, int64 `(B, T + 2, C)`, of a list of lists of tokens."""
        return _character_ids(sentences, self._max_token_length, self._marks)


class TokenBatcher:
    """bilm-tf's ids of whole words, with those of the boundaries of sentences.

    In new code use `encode_token_ids(sentences, vocabulary)`. Here a token `"<S>"` or `"</S>"` has
    a boundary's id.

    Args:
        lm_vocab_file: The vocabulary, one word a line, with `<S>` and `</S>`, and with `<UNK>` if
            there may be unknown words. (Without it, bilm-tf encodes an unknown word as padding;
            this class raises a ValueError.)

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if it lacks `<S>` or `</S>`.

    Example:

    >>> TokenBatcher("vocabulary.txt").batch_sentences([["First", "sentence", "."], ["Hi"]]).shape
    (2, 5)

    Reference: bilm-tf, `bilm.TokenBatcher`.
    """

    def __init__(self, lm_vocab_file: str | os.PathLike):
        ids = id_table(read_words(lm_vocab_file))
        self._ids = ids | {mark.encode(): ids[mark] for mark in BOUNDARY_MARKS}

    def batch_sentences(self, sentences: Iterable[Iterable[str]]) -> np.ndarray:
        """Token ids, int64 `(B, T + 2)`, of a list of lists of tokens."""
        return rows_of_ids(sentences, self._ids).astype(np.int64)


def weight_layers(
    name: str,
    bilm_ops: dict[str, Any],
    l2_coef: float | None = None,
    use_top_only: bool = False,
    do_layer_norm: bool = False,
    reuse: WeightedLayerSum | None = None,
) -> dict[str, Any]:
    """bilm-tf's mix of a biLM's layers.

    In new code use `ElmoLayer`, which mixes by itself, or `WeightedLayerSum`.

    Args:
        name: A name for the layer that is made.
        bilm_ops: A dict with `lm_embeddings`, floats `(B, L + 1, T, 2 * P)`, of an
            `ElmoLayer(..., output="layers")`; if they are of something else, also with `mask`,
            booleans `(B, T)`.
        l2_coef, use_top_only, do_layer_norm: `l2`, `use_top_only` and `layer_norm` of the
            `WeightedLayerSum`; the top layer alone is never normalized.
        reuse: To share weights, the `layer` of an earlier result.

    Returns:
        A dict: `weighted_op`, floats `(B, T, 2 * P)`; `regularization_op`, the penalty, which `fit`
        adds to the loss by itself; `layer`, the `WeightedLayerSum`.

    Raises:
        ValueError: if `reuse` is not such a layer or has other settings, or the embeddings have
            another shape.

    Example:

    >>> ops = {"lm_embeddings": ElmoLayer(output="layers")(["The cat sat ."])}
    >>> weight_layers("input", ops, l2_coef=0.001)["weighted_op"].shape
    TensorShape([1, 4, 256])

    Reference: bilm-tf, `bilm.weight_layers`.
    """
    if reuse is not None and not isinstance(reuse, WeightedLayerSum):
        raise ValueError(f"reuse must be the 'layer' of an earlier result; got {reuse!r}.")
    # bilm-tf normalizes the layers of a mix, never the top layer alone.
    layer_norm = do_layer_norm and not use_top_only
    settings = (use_top_only, layer_norm, reuse.l2 if reuse and l2_coef is None else l2_coef)
    if reuse is not None and settings != (reuse.use_top_only, reuse.layer_norm, reuse.l2):
        raise ValueError(
            "reuse shares a layer with its settings: give the l2_coef, use_top_only and "
            "do_layer_norm with which it was made."
        )
    layer = reuse or WeightedLayerSum(
        use_top_only=use_top_only, layer_norm=layer_norm, l2=l2_coef, name=name
    )
    mixed = layer(bilm_ops["lm_embeddings"], mask=bilm_ops.get("mask"))
    return {"weighted_op": mixed, "regularization_op": sum(layer.losses), "layer": layer}


def _character_ids(sentences, width, marks):
    """The ids of `encode_sentences`, int64; tokens among the marks have the rows of boundaries."""
    sentences = list(map(checked_tokens, sentences))
    ids = encode_sentences(sentences, width).astype(np.int64)
    for row, sentence in zip(ids, sentences):
        for position, token in enumerate(sentence, start=1):
            if token in marks:
                row[position] = boundary_row(marks[token], width)
    return ids
