"""The helpers of AllenNLP, bilm-tf and elmoformanylangs by their names; see docs/MIGRATION.md."""

import itertools
import json
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.embedding import embedder
from keras_elmo.files import atomic_write
from keras_elmo.hdf5_write import write_arrays
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.layers.inputs import check_ids
from keras_elmo.layers.token_mask import TokenMask, mask_of_tokens
from keras_elmo.layers.weighted_layer_sum import WeightedLayerSum
from keras_elmo.ops.lstm import masked
from keras_elmo.pretrained.locate import ModelSource, find_model_files
from keras_elmo.pretrained.registry import get_model
from keras_elmo.text.characters import BEGIN_SENTENCE, END_SENTENCE, boundary_row, encode_sentences
from keras_elmo.text.tokens import check_batch, checked_tokens
from keras_elmo.text.vocabulary import BEGIN, END, id_table, read_words, rows_of_ids

Tokens = Iterable[Iterable[str]]
"""Sentences, each a list of tokens; the tokens of a string are its characters."""

DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE = get_model("original").files
"""AllenNLP's URLs of the paper's model."""

_BOUNDARY_MARKS = {BEGIN: BEGIN_SENTENCE, END: END_SENTENCE}  # the character for each
_EMPTY_WORD = "\ud800"  # a lone surrogate: it has no UTF-8
_TOKENS_PER_SENTENCE = 32
_OUTPUTS = {"all": "layers", "top": "top", "average": "average"}
_TORCH_NAMES = {"to", "cuda", "cpu", "detach", "train", "eval", "parameters", "state_dict"}
_mixes: weakref.WeakValueDictionary[str, WeightedLayerSum] = weakref.WeakValueDictionary()


class _TorchHint:
    """Names the backend in the error for an attribute of PyTorch."""

    def __getattr__(self, name: str) -> Any:
        if (inherited := getattr(super(), "__getattr__", None)) is not None:
            return inherited(name)
        hint = ""
        if name in _TORCH_NAMES:
            hint = (
                f", which is PyTorch's, because Keras runs on {keras.backend.backend()}: set "
                "KERAS_BACKEND=torch before Python starts"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}.")


class _Ids(_TorchHint, np.ndarray):
    """Character ids on other backends than PyTorch."""


def batch_to_ids(batch: Tokens) -> Any:
    """AllenNLP's character ids, without rows for the boundaries of sentences.

    A token `"<S>"` or `"</S>"` has a boundary's row. In new code use `encode_sentences`.

    Args:
        batch: Sentences: lists of tokens, or strings, whose characters are the tokens.

    Returns:
        int64 `(B, T, 50)`, 0 after a sentence: with `KERAS_BACKEND=torch` a PyTorch tensor on the
        CPU, as in AllenNLP, else a NumPy array.

    Raises:
        ValueError: if a sentence is neither a string nor a list of strings.

    Example:

    >>> batch_to_ids([["First", "sentence", "."], ["Another"]]).shape
    (2, 3, 50)

    Reference: AllenNLP 0.9, `allennlp.modules.elmo.batch_to_ids`.
    """
    ids = _character_ids(batch, 50, _BOUNDARY_MARKS)
    ids[np.arange(len(ids)), ids.any(axis=2).sum(axis=1) - 1] = 0  # the rows of ends of sentences
    ids = np.ascontiguousarray(ids[:, 1:-1])
    if keras.backend.backend() == "torch":
        import torch

        return torch.from_numpy(ids)
    return ids.view(_Ids)


def add_sentence_boundaries(ids: Any) -> np.ndarray:
    """Adds rows for the sentence boundaries to the ids of `batch_to_ids`.

    Args:
        ids: Integers `(B, T, C)`.

    Returns:
        int32 array `(B, T + 2, C)`, as from `encode_sentences`.

    Raises:
        ValueError: if the ids already have boundaries, or are not such ids.

    Example:

    >>> ElmoLayer()(add_sentence_boundaries(batch_to_ids([["Hi", "there"]]))).shape
    TensorShape([1, 2, 512])
    """
    ids = ops.convert_to_numpy(ids)
    if ids.ndim != 3:
        raise ValueError(
            f"Expected character ids (B, T, C) of batch_to_ids, got shape {ids.shape}."
        )
    if ids[:, :1].size and (ids[:, :1] == boundary_row(BEGIN_SENTENCE, ids.shape[2])).all():
        raise ValueError(
            "Expected ids without sentence boundaries, of batch_to_ids, got ids that have them: "
            "pass those to an ElmoLayer unchanged."
        )
    ids = ops.convert_to_numpy(_with_boundaries(ids))
    check_ids(ids, ElmoConfig(max_characters_per_token=ids.shape[2]))
    return ids.astype("int32")


@keras.saving.register_keras_serializable("keras_elmo")
class Elmo(_TorchHint, keras.layers.Layer):
    """AllenNLP's module: one or more trained mixes of a biLM's layers, for character ids.

    In new code use `ElmoLayer((options_file, weight_file), num_mixes=..., dropout=...)`. Unlike in
    AllenNLP, every sentence starts from a zero state. A saved model has the weights and no path.

    With `KERAS_BACKEND=torch` the layer is a `torch.nn.Module`: called without `training`, it drops
    unless `eval()` was called, as in AllenNLP. On other backends it then drops nothing.

    Args:
        options_file, weight_file: The model's options.json and weights.hdf5, or AllenNLP's URLs
            of them.
        num_output_representations: Number of mixes, each with its own weights.
        requires_grad: Whether to train the biLM as well.
        do_layer_norm: Whether mixes normalize the layers first, over the batch, sentence boundaries
            included.
        dropout: Fraction of a mix's output to drop in training.
        vocab_to_cache: Must be `None`.
        keep_sentence_boundaries: Whether the output has vectors for the boundaries of sentences.
        scalar_mix_parameters: L + 1 layer weights of each mix, before the softmax, that are not
            trained; `None` for trained ones.
        layer: The `ElmoLayer` of a saved module, with `boundaries=True`. It replaces the two files
            and the arguments that create the layer.
        **kwargs: `name`, `trainable` and `dtype`, as for any Keras layer.

    Call arguments:
        inputs: Character ids of `batch_to_ids`.
        training: Whether to apply the dropout. By default `False`, in `fit` `True`; with
            `KERAS_BACKEND=torch`, outside Keras models, whether the module is in training mode.

    Input shape:
        Integers `(B, T, C)`, with C the model's characters per token, 50.

    Output shape:
        A dict: `elmo_representations`, a list of floats `(B, T, 2 * P)`, zeros after a sentence;
        and `mask`, booleans `(B, T)`. With `keep_sentence_boundaries`, T is 2 larger.

    Attributes:
        layer: The `ElmoLayer` that computes the vectors; `layer.mixes` are the mixes.

    Raises:
        FileNotFoundError: if a file is missing.
        ConnectionError: if a download failed.
        ValueError: if an argument or input is invalid, or the model does not read bilm-tf's
            character ids.

    Example:

    >>> elmo = Elmo("options.json", "weights.hdf5", num_output_representations=2)
    >>> output = elmo(batch_to_ids([["First", "sentence", "."], ["Another"]]))
    >>> [vectors.shape for vectors in output["elmo_representations"]]
    [TensorShape([2, 3, 512]), TensorShape([2, 3, 512])]

    Reference: AllenNLP 0.9, `allennlp.modules.elmo.Elmo`.
    """

    def __init__(
        self,
        options_file: str | os.PathLike | None,
        weight_file: str | os.PathLike | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        *,
        layer: ElmoLayer | None = None,
        **kwargs: Any,
    ):
        super().__init__(autocast=False, **kwargs)
        if vocab_to_cache is not None:
            raise ValueError(
                "vocab_to_cache must be None: an ElmoLayer(..., token_embeddings=...) reads the "
                "ids of words."
            )
        self.num_output_representations = num_output_representations
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.scalar_mix_parameters = None
        if scalar_mix_parameters is not None:
            self.scalar_mix_parameters = [float(x) for x in scalar_mix_parameters]
        if layer is None:
            files: Any = (options_file, weight_file)
            files = find_model_files(files)
            layer = ElmoLayer(
                files,
                num_mixes=num_output_representations,
                layer_norm=do_layer_norm,
                dropout=dropout,
                boundaries=True,
                mix_weights=_shares(self.scalar_mix_parameters, files.config),
                trainable_mix=scalar_mix_parameters is None,
                trainable_bilm=requires_grad,
                dtype=self.dtype_policy,
            )
        if layer.config.has_lexicon or not layer.config.reads_text:
            raise ValueError(
                "Elmo reads bilm-tf's character ids, which this model does not: use an ElmoLayer."
            )
        self.layer = layer
        self.built = True
        self.supports_masking = True

    def __call__(self, inputs, *args, **kwargs):
        shape, width = tuple(getattr(inputs, "shape", ())), self.layer.config.row_width
        if len(shape) != 3 or shape[2] != width:
            raise ValueError(
                f"Elmo expects character ids (B, T, {width}) of batch_to_ids, got "
                f"{type(inputs).__name__} of shape {shape}."
            )
        if isinstance(inputs, keras.KerasTensor) and keras.backend.backend() == "torch":
            self.eval()  # a Keras model passes `training` where it trains
        if _is_known(inputs):
            add_sentence_boundaries(inputs)  # for its checks of the values
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None):
        if training is None and keras.backend.backend() == "torch":
            training = self.training  # the module's, of train() and eval()
        ids = _with_boundaries(inputs)
        vectors = self.layer(ids, training=training)
        vectors = vectors if isinstance(vectors, list) else [vectors]
        mask = TokenMask(boundaries=True)(ids)
        if not self.keep_sentence_boundaries:
            mask = mask_of_tokens(mask)
            vectors = [masked(x[:, 1:-1], mask[..., None]) for x in vectors]
        return {"elmo_representations": vectors, "mask": mask}

    def compute_mask(self, inputs: Any, mask: Any = None) -> dict[str, Any]:
        mask = TokenMask(boundaries=True)(inputs)  # which these ids lack
        if self.keep_sentence_boundaries:
            mask = ops.pad(mask, ((0, 0), (2, 0)), constant_values=True)
        return {"elmo_representations": [mask] * self.num_output_representations, "mask": None}

    def compute_output_shape(self, input_shape: tuple) -> dict[str, Any]:
        batch_size, num_tokens = input_shape[:2]
        if num_tokens is not None and self.keep_sentence_boundaries:
            num_tokens += 2
        shape = (batch_size, num_tokens, self.get_output_dim())
        shapes = [shape] * self.num_output_representations
        return {"elmo_representations": shapes, "mask": shape[:2]}

    def compute_output_spec(self, inputs, training=None):
        shapes = self.compute_output_shape(inputs.shape)
        dtype = self.compute_dtype
        vectors = [keras.KerasTensor(shape, dtype) for shape in shapes["elmo_representations"]]
        return {"elmo_representations": vectors, "mask": keras.KerasTensor(shapes["mask"], "bool")}

    def get_output_dim(self) -> int:
        """Size of a token's vector, 2 * P."""
        return self.layer.config.output_dim

    def get_config(self):
        return {
            **super().get_config(),
            "num_output_representations": self.num_output_representations,
            "keep_sentence_boundaries": self.keep_sentence_boundaries,
            "scalar_mix_parameters": self.scalar_mix_parameters,
            "layer": self.layer.get_config(),
        }

    @classmethod
    def from_config(cls, config):
        # A saved model may be untrusted: it must not name a file to open or download. The config of
        # the layer is checked by ElmoLayer.
        config = {**config, "options_file": None, "weight_file": None}
        return cls(
            **{**config, "layer": ElmoLayer.from_config(config.get("layer", {"model": None}))}
        )


def _shares(parameters, config):
    """The softmax of the parameters of AllenNLP's mix, or `None`."""
    if parameters is None:
        return None
    if len(parameters) != config.num_layers + 1:
        raise ValueError(
            f"scalar_mix_parameters must be the weights of {config.num_layers + 1} layers, got "
            f"{len(parameters)}."
        )
    powers = np.exp(np.array(parameters) - max(parameters))
    return powers / powers.sum()


class ElmoEmbedder:
    """AllenNLP's embedder: every layer's vectors of tokenized sentences.

    In new code use `Embedder(model).embed(sentences, vectors="layers")`. Unlike in AllenNLP, each
    sentence starts from a zero state, and a token `"<S>"` is ordinary text.

    Args:
        options_file, weight_file: The model's options.json and weights.hdf5, or AllenNLP's URLs
            of them. Without both, the paper's model, `"original"`, is downloaded.
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
            raise ValueError("Pass both options_file and weight_file, or neither.")
        model: Any = "original" if options_file is None else (options_file, weight_file)
        self.embedder = embedder.Embedder(model, progress=False)

    def embed_sentence(self, sentence: Iterable[str]) -> np.ndarray:
        """All layers, float32 `(L + 1, T, 2 * P)`, of T tokens, or of a string's T characters."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Tokens) -> list[np.ndarray]:
        """All layers of each sentence of a batch, as of `embed_sentence`."""
        return self.embedder.embed(_token_lists(batch), vectors="layers")

    def batch_to_embeddings(self, batch: Tokens) -> tuple[Any, Any]:
        """All layers of a batch as one tensor, and its mask.

        Args:
            batch: Sentences, as for `batch_to_ids`.

        Returns:
            Tensors of the Keras backend: floats `(B, L + 1, T, 2 * P)`, zeros after a sentence, and
            booleans `(B, T)`.
        """
        lists = _token_lists(batch)
        vectors, mask = self.embedder.embed(lists, vectors="layers", pad_to="longest")
        return ops.convert_to_tensor(vectors), ops.convert_to_tensor(mask)

    def embed_sentences(self, sentences: Tokens, batch_size: int = 64) -> Iterator[np.ndarray]:
        """Yields all layers of each sentence. `batch_size` is not used: batches are of tokens."""
        return self.embedder.stream(_token_lists(sentences), vectors="layers")

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | os.PathLike,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Writes the vectors of a text of one tokenized sentence per line to an hdf5 file.

        In new code use `Embedder.embed_file`, which resumes after a kill and takes empty lines.

        Args:
            input_file: The lines, such as an open text file.
            output_file_path: The file to write or replace: a dataset for each sentence, "0", "1",
                ..., and `sentence_to_index`, their names as JSON.
            output_format: `"all"` layers, the `"top"` one, or their `"average"`.
            batch_size: Not used: batches are of tokens.
            forget_sentences: Whether to leave `sentence_to_index` out.
            use_sentence_keys: Whether datasets are named by their sentences instead.

        Raises:
            ValueError: if the format is unknown, a line is empty, or, with `use_sentence_keys`, a
                line cannot name a dataset: it repeats an earlier one, is "." or contains "/".
        """
        if output_format not in _OUTPUTS:
            raise ValueError(
                f"output_format must be one of {', '.join(_OUTPUTS)}; got {output_format!r}."
            )
        sentences = [line.strip() for line in input_file]
        names = sentences if use_sentence_keys else list(map(str, range(len(sentences))))
        _check_lines(sentences, use_sentence_keys)
        rows = zip(names, self.embedder.stream(map(str.split, sentences), _OUTPUTS[output_format]))
        if not forget_sentences and not use_sentence_keys:
            index = np.array([json.dumps(dict(zip(sentences, names)))], dtype=object)
            rows = itertools.chain(rows, [("sentence_to_index", index)])
        inputs = [getattr(input_file, "name", None)]
        with atomic_write(output_file_path, inputs=inputs) as partial:
            write_arrays(partial, rows)


class Embedder:
    """The class of elmoformanylangs.

    In new code use `keras_elmo.Embedder`. Unlike in elmoformanylangs, each sentence starts from a
    zero state, as there in the first batch of a new Embedder.

    Args:
        model_dir: A model: a folder or zip of ELMoForManyLangs, or anything that `ElmoLayer` takes.
        batch_size: Sentences of 32 tokens that are run together; results do not depend on it.

    Raises:
        FileNotFoundError: if a file is missing.
        ConnectionError: if a download failed.
        ValueError: if a file is damaged or not a model of ELMoForManyLangs.

    Example:

    >>> from keras_elmo.compat import Embedder
    >>> Embedder("many-languages/it").sents2elmo([["Il", "gatto"], ["Ciao"]])[0].shape
    (2, 1024)

    Reference: elmoformanylangs 0.0.4, `elmoformanylangs.Embedder`.
    """

    def __init__(self, model_dir: ModelSource, batch_size: int = 64):
        tokens = batch_size * _TOKENS_PER_SENTENCE
        self.embedder = embedder.Embedder(model_dir, batch_tokens=tokens, progress=False)

    def sents2elmo(self, sents: Tokens, output_layer: int = -1) -> list[np.ndarray]:
        """Vectors of sentences.

        Args:
            sents: The sentences, lists of tokens; the tokens of a string are its characters.
            output_layer: -2 for all layers, -1 for their mean, 0 for the token vectors, 1 to L for
                an LSTM layer.

        Returns:
            A float32 array for each sentence of T tokens: `(L + 1, T, 2 * P)` for -2, else
            `(T, 2 * P)`.

        Raises:
            ValueError: if the layer does not exist.
        """
        num_layers = self.embedder.config.num_layers
        if output_layer not in range(-2, num_layers + 1):
            raise ValueError(f"output_layer must be from -2 to {num_layers}; got {output_layer}.")
        lists = _token_lists(sents)
        kinds: dict[int, str | int] = {-2: "layers", -1: "average"}
        return self.embedder.embed(lists, kinds.get(output_layer, output_layer))


class Batcher:
    """bilm-tf's character ids, with rows for the boundaries of sentences.

    In new code use `encode_sentences(sentences, max_token_length)`. Here a token `"<S>"` or
    `"</S>"` has a boundary's row if the vocabulary lists it.

    Args:
        lm_vocab_file: The vocabulary, one word per line.
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
        self._marks = {mark: row for mark, row in _BOUNDARY_MARKS.items() if mark in words}
        self._max_token_length = max_token_length

    def batch_sentences(self, sentences: Tokens) -> np.ndarray:
        """Character ids, int64 `(B, T + 2, C)`, of lists of tokens, or of strings' characters."""
        return _character_ids(sentences, self._max_token_length, self._marks)


class TokenBatcher:
    """bilm-tf's ids of whole words, with the boundaries of sentences.

    In new code use `encode_token_ids(sentences, vocabulary)`. Here a token `"<S>"` or `"</S>"` has
    a boundary's id.

    Args:
        lm_vocab_file: The vocabulary, one word per line, with `<S>` and `</S>`, and with `<UNK>` if
            there may be unknown words.

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if it lacks `<S>` or `</S>`, or, in `batch_sentences`, `<UNK>`.

    Example:

    >>> TokenBatcher("vocabulary.txt").batch_sentences([["First", "sentence", "."], ["Hi"]]).shape
    (2, 5)

    Reference: bilm-tf, `bilm.TokenBatcher`.
    """

    def __init__(self, lm_vocab_file: str | os.PathLike):
        ids = id_table(read_words(lm_vocab_file))
        self._ids = ids | {mark.encode(): ids[mark] for mark in (BEGIN, END)}

    def batch_sentences(self, sentences: Tokens) -> np.ndarray:
        """Token ids, int64 `(B, T + 2)`, of lists of tokens, or of strings' characters."""
        return rows_of_ids(_token_lists(sentences), self._ids).astype(np.int64)


class BidirectionalLanguageModel:
    """bilm-tf's biLM: a call computes the vectors of every layer.

    In new code use `ElmoLayer((options_file, weight_file), vectors="layers")`; the class of this
    name in `keras_elmo` is the language model in training. As in bilm-tf, the LSTM state is carried
    from call to call, row by row: `.layer.reset_states()` sets it to zero. bilm-tf has a state for
    each placeholder: make an object for each input, such as context and question.

    Args:
        options_file, weight_file: The model's options.json and weights.hdf5, or AllenNLP's URLs
            of them.
        use_character_inputs: Whether ids are of characters, else of whole words.
        embedding_weight_file: For whole words, the file of `dump_token_embeddings`.
        max_batch_size: Maximum number of sentences in a batch.

    Attributes:
        layer: The `ElmoLayer`, with `boundaries`.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if whole words have no `embedding_weight_file`, or the files do not fit.

    Example:

    >>> from keras_elmo.compat import BidirectionalLanguageModel
    >>> bilm = BidirectionalLanguageModel("options.json", "weights.hdf5")
    >>> ids = Batcher("vocabulary.txt", 50).batch_sentences([["First", "sentence", "."], ["Hi"]])
    >>> ops = bilm(ids)
    >>> ops["lm_embeddings"].shape, ops["token_embeddings"].shape
    (TensorShape([2, 3, 3, 512]), TensorShape([2, 5, 256]))

    Reference: bilm-tf, `bilm.BidirectionalLanguageModel`.
    """

    def __init__(
        self,
        options_file: str | os.PathLike,
        weight_file: str | os.PathLike,
        use_character_inputs: bool = True,
        embedding_weight_file: str | os.PathLike | None = None,
        max_batch_size: int = 128,
    ):
        if not use_character_inputs and embedding_weight_file is None:
            raise ValueError("Without use_character_inputs, pass an embedding_weight_file.")
        self.layer = ElmoLayer(
            (options_file, weight_file),
            vectors="layers",
            boundaries=True,
            stateful=True,
            max_batch_size=max_batch_size,
            token_embeddings=None if use_character_inputs else embedding_weight_file,
        )

    def __call__(self, ids: Any) -> dict[str, Any]:
        """Computes the vectors of a batch.

        Args:
            ids: Integers `(B, T + 2, C)` of a `Batcher`, or `(B, T + 2)` of a `TokenBatcher`; also
                a `keras.Input` of dtype int32.

        Returns:
            A dict: `lm_embeddings`, floats `(B, L + 1, T, 2 * P)`; `lengths`, int32 `(B,)`, without
            boundaries; `token_embeddings`, floats `(B, T + 2, P)`, with boundaries; and `mask`,
            booleans `(B, T)`. Vectors after the end of a sentence are 0.

        Raises:
            ValueError: if the ids have another shape, or more than `max_batch_size` rows.
        """
        layers = self.layer(ids)
        mask = TokenMask()(ops.cast(ids, "int32"))
        return {
            "lm_embeddings": masked(layers[:, :, 1:-1], mask[:, None, :, None]),
            "lengths": ops.sum(ops.cast(mask, "int32"), axis=1),
            # The lowest layer is the token vector, once for each direction.
            "token_embeddings": layers[:, 0, :, : self.layer.config.projection_dim],
            "mask": mask,
        }


def dump_token_embeddings(
    vocab_file: str | os.PathLike,
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    outfile: str | os.PathLike,
) -> None:
    """Writes the token vectors of a vocabulary, for an `embedding_weight_file`.

    In new code use `Embedder.dump_words`.

    Args:
        vocab_file: The vocabulary, one word per line; `<S>` and `</S>` are boundaries of sentences.
        options_file, weight_file: The model's options.json and weights.hdf5.
        outfile: The hdf5 file to write or replace: `embedding`, float32 `(num_words, P)`.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if the files do not fit.

    Example:

    >>> dump_token_embeddings("vocabulary.txt", "options.json", "weights.hdf5", "vectors.hdf5")

    Reference: bilm-tf, `bilm.dump_token_embeddings`.
    """
    model = embedder.Embedder((options_file, weight_file), progress=False)
    model.dump_words(vocab_file, outfile, overwrite=True)


def dump_bilm_embeddings(
    vocab_file: str | os.PathLike,
    dataset_file: str | os.PathLike,
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    outfile: str | os.PathLike,
) -> None:
    """Writes the vectors of every layer of a text of one tokenized sentence per line.

    In new code use `Embedder.embed_file`, which is much faster. Here, as in bilm-tf, lines are run
    one by one, and the LSTM state is carried from line to line.

    Args:
        vocab_file: The vocabulary, as for a `Batcher`.
        dataset_file: The text, UTF-8, with tokens between white space.
        options_file, weight_file: The model's options.json and weights.hdf5.
        outfile: The hdf5 file to write or replace: datasets "0", "1", ..., one for each line,
            float32 `(L + 1, T, 2 * P)`.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if the files do not fit.

    Example:

    >>> dump_bilm_embeddings(
    ...     "vocabulary.txt", "heldout.txt", "options.json", "weights.hdf5", "vectors.hdf5"
    ... )

    Reference: bilm-tf, `bilm.dump_bilm_embeddings`.
    """
    model, inputs = (options_file, weight_file), [vocab_file, dataset_file]
    with (
        atomic_write(outfile, inputs=[*inputs, *model]) as partial,
        open(dataset_file, encoding="utf-8") as lines,
    ):
        layer = ElmoLayer(model, vectors="layers", stateful=True, max_batch_size=1)
        batcher = Batcher(vocab_file, layer.config.max_characters_per_token)
        vectors = (layer(batcher.batch_sentences([line.split()]))[0] for line in lines)
        arrays = (ops.convert_to_numpy(ops.cast(x, "float32")) for x in vectors)
        write_arrays(partial, ((str(number), array) for number, array in enumerate(arrays)))


def weight_layers(
    name: str,
    bilm_ops: dict[str, Any],
    l2_coef: float | None = None,
    use_top_only: bool = False,
    do_layer_norm: bool = False,
    reuse: WeightedLayerSum | bool | None = False,
) -> dict[str, Any]:
    """bilm-tf's mix of a biLM's layers.

    In new code use `ElmoLayer`, which mixes by itself, or `WeightedLayerSum`.

    Args:
        name: A name for the layer that is made.
        bilm_ops: The dict of a `BidirectionalLanguageModel`, or one with `lm_embeddings`, floats
            `(B, L + 1, T, 2 * P)`, and, unless Keras knows their mask, `mask`, booleans `(B, T)`.
        l2_coef, use_top_only, do_layer_norm: `l2`, `use_top_only` and `layer_norm` of the
            `WeightedLayerSum`; with `use_top_only` nothing is normalized.
        reuse: Whether to share the weights of the last layer of this name that is still in use; or
            the `layer` of an earlier result, to share its weights.

    Returns:
        A dict: `weighted_op`, floats `(B, T, 2 * P)`; `regularization_op`, the penalty, which `fit`
        adds to the loss by itself; `layer`, the `WeightedLayerSum`.

    Raises:
        ValueError: if the layer to share does not exist or has other settings.

    Example:

    >>> ops = {"lm_embeddings": ElmoLayer(vectors="layers")(["The cat sat ."])}
    >>> weight_layers("input", ops, l2_coef=0.001)["weighted_op"].shape
    TensorShape([1, 4, 512])

    Reference: bilm-tf, `bilm.weight_layers`.
    """
    if reuse is True and (reuse := _mixes.get(name)) is None:
        raise ValueError(
            f"No layer {name!r} is in use: call weight_layers without reuse first, and keep the "
            "'layer' of its result."
        )
    # bilm-tf normalizes the layers of a mix, never only the top layer.
    layer_norm = do_layer_norm and not use_top_only
    settings: dict[str, Any] = {
        "use_top_only": use_top_only,
        "layer_norm": layer_norm,
        "l2": l2_coef,
    }
    layer = reuse or WeightedLayerSum(name=name, **settings)
    if l2_coef is None:
        del settings["l2"]
    if any(getattr(layer, key) != value for key, value in settings.items()):
        raise ValueError(
            "reuse shares a layer with its settings: pass the l2_coef, use_top_only and "
            "do_layer_norm with which it was made."
        )
    _mixes[name] = layer
    mixed = layer(bilm_ops["lm_embeddings"], mask=bilm_ops.get("mask"))
    return {"weighted_op": mixed, "regularization_op": sum(layer.losses), "layer": layer}


def _check_lines(sentences, are_names):
    """Raises ValueError for a line that is empty, or that cannot be the name of a dataset."""
    first: dict[str, int] = {}
    for number, sentence in enumerate(sentences, 1):
        problem = None
        if not sentence:
            problem = "is empty: remove it"
        elif are_names and (sentence == "." or "/" in sentence or "\0" in sentence):
            problem = "cannot be the name of a dataset, since it is '.' or contains '/' or NUL"
        elif are_names and sentence in first:
            problem = f"repeats line {first[sentence]}, which names a dataset already"
        if problem is not None:
            hint = " Leave out use_sentence_keys to name datasets by numbers." * (sentence != "")
            raise ValueError(f"Line {number} of the input, {sentence!r:.60}, {problem}.{hint}")
        first[sentence] = number


def _character_ids(sentences, width, marks):
    """The ids of `encode_sentences`, int64; tokens among the marks have the rows of boundaries."""
    sentences = list(_token_lists(sentences))
    ids = encode_sentences(sentences, width).astype(np.int64)
    for row, sentence in zip(ids, sentences):
        for position, token in enumerate(sentence, start=1):
            if token in marks:
                row[position] = boundary_row(marks[token], width)
    return ids


def _is_known(ids):
    """Whether the values can be checked: ids in an array, or in a PyTorch tensor on the CPU."""
    if keras.backend.backend() == "torch" and type(ids).__name__ == "Tensor":
        return ids.device.type == "cpu"
    return isinstance(ids, np.ndarray)


def _with_boundaries(ids):
    """Ids `(B, T, C)`, an array or tensor, with rows of boundaries: a tensor `(B, T + 2, C)`."""
    ids = ops.convert_to_tensor(ids)
    rows = (boundary_row(mark, ids.shape[2]) for mark in (BEGIN_SENTENCE, END_SENTENCE))
    begin, end = (ops.cast(row, ids.dtype) for row in rows)
    lengths = ops.sum(ops.cast(ops.any(ids, axis=2), "int32"), axis=1)
    ids = ops.pad(ids, ((0, 0), (1, 1), (0, 0)))
    positions = ops.arange(ops.shape(ids)[1])[None, :, None]
    ids = ops.where(positions == 0, begin, ids)
    return ops.where(positions == lengths[:, None, None] + 1, end, ids)


def _token_lists(sentences):
    """Yields the tokens of each sentence, as the originals read them.

    The originals read a string as its characters and `""` as a word; this library treats trailing
    `""` as padding.
    """
    check_batch(sentences)
    for sentence in sentences:
        tokens = list(sentence) if isinstance(sentence, str) else sentence
        yield [token or _EMPTY_WORD for token in checked_tokens(tokens)]
