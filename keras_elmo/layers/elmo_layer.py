"""ELMo as one layer: sentences in, contextual word vectors out."""

import os
import uuid
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.arguments import check_boolean, check_integer, check_number, check_vectors
from keras_elmo.config import ElmoConfig
from keras_elmo.layers.backbone import Backbone
from keras_elmo.layers.bilm_stack import BiLMStack, mask_of_layers
from keras_elmo.layers.configured import float_policy
from keras_elmo.layers.inputs import check_ids, check_strings, read_batch
from keras_elmo.layers.lexicon_encoder import LexiconEncoder
from keras_elmo.layers.process import check_process, unpickled
from keras_elmo.layers.recurrent import CarriedState
from keras_elmo.layers.token_mask import TokenMask, mask_of_tokens
from keras_elmo.layers.unicode_char_encoder import UnicodeCharEncoder
from keras_elmo.layers.vector_kinds import select_vectors, shape_of_vectors
from keras_elmo.layers.weighted_layer_sum import WeightedLayerSum
from keras_elmo.ops.compiled import without_autograph
from keras_elmo.ops.gather import gather
from keras_elmo.ops.lstm import masked
from keras_elmo.pretrained.hdf5 import read_token_embeddings
from keras_elmo.pretrained.locate import ModelSource, find_model_files
from keras_elmo.pretrained.weights import copy_arrays, load_weights, model_folder, write_model
from keras_elmo.text.characters import TokenEncoder, pad_words, trim_characters
from keras_elmo.text.lexicon import Lexicon
from keras_elmo.text.tokens import Sentences, as_batch, is_string_tensor
from keras_elmo.text.vocabulary import read_words

_MAX_COUNT = 10_000  # of mixes, and of sentences with a state
_FIXED = (
    "vectors",
    "num_mixes",
    "use_top_only",
    "layer_norm",
    "l2",
    "dropout",
    "boundaries",
    "stateful",
    "max_batch_size",
)
"""The options that the parts of a layer are made with."""

_layers: weakref.WeakValueDictionary[str, "ElmoLayer"] = weakref.WeakValueDictionary()
"""The layers of this process by the id in their configs, for clones to copy the biLM from."""


@keras.saving.register_keras_serializable("keras_elmo")
class ElmoLayer(keras.layers.Layer):
    """ELMo: computes a vector for every word that depends on its whole sentence.

    A `CharCNNEmbedding` encodes the characters, a `BiLMStack` reads them, and one or more
    `WeightedLayerSum` mix its layers. Sentence boundaries are added before and removed after. The
    vectors of a sentence depend on the rest of the batch only if `stateful` or `layer_norm`.

    In a model, strings need the TensorFlow backend. A `Sequential` model that begins with this
    layer takes strings there; for character ids begin it with
    `keras.Input((None, 50), dtype="int32")`.

    Threads can share a layer that is not `stateful`; on JAX not during `fit` and `predict`. Forked
    processes cannot use ELMo layers; spawn workers instead.

    A saved model contains the weights; a config contains neither weights nor paths, but the words
    and the language. While the layer exists, `keras.models.clone_model` and `from_config` copy the
    current weights of its biLM.

    Args:
        model: The model to load: a name in `list_models()`; a folder or archive (zip, tar.gz) of a
            model in the format of bilm-tf, this package or ELMoForManyLangs; a pair
            `(options, weights)` of paths; `"hf://user/repo"` or `"hf://user/repo@revision"` on the
            Hugging Face Hub; or `None` for random weights.
        config: With `model=None`, the architecture: an `ElmoConfig` or a dict of bilm-tf's options.
        vectors: `"mix"` for the learned weighted sum of the layers; `"layers"` for all of them,
            `"concat"` for all of them, concatenated; `"average"` for their mean, `"sum"` for
            their sum, `"top"` for the last one; or the number of a layer, 0 for the token vectors.
        num_mixes: With `vectors="mix"`, the number of mixes, each with its own weights; a list
            where more than one.
        use_top_only: Whether a mix is only the top layer, times gamma.
        layer_norm: Whether mixes normalize the layers first, over the batch.
        l2: Weight of the penalty on the mixes' raw layer weights, or `None`.
        dropout: Fraction of a mix's output to drop in training.
        boundaries: Whether to keep the vectors of the sentence boundaries before and after the
            tokens, as `Embedder.embed` does. `layer_norm` then includes them, as in AllenNLP.
        mix_weights: The share of each layer in the mixes, from the token vectors to the top layer:
            `L + 1` numbers of at least 0 with the sum 1, such as `(0, 1, 0)`; `None` for equal
            ones. They are the weights after the softmax, from which training starts; one of 0
            stays 0.
        gamma: The factor of the mixes, from which training starts.
        trainable_mix: Whether to train the mixes' layer weights and gamma; can be set later.
        trainable_bilm: Whether to train the biLM as well; can be set later. `trainable = True`
            leaves frozen mixes and a frozen biLM frozen.
        stateful: Whether the LSTM state is carried from batch to batch, as bilm-tf does.
        max_batch_size: With `stateful`, the maximum number of sentences in a batch.
        token_embeddings: Stored token vectors to use instead of the character encoder: a file of
            bilm-tf's `dump_token_embeddings`, or an array `(num_words, P)`. The inputs are then
            token ids of `encode_token_ids`.
        lexicon: With a `config` that has one, the `Lexicon`.
        dtype: Dtype or dtype policy of the computation; Keras' global one where `None`.

    Call arguments:
        inputs: Sentences, tokens or ids. When the layer is called directly, also lists, generators,
            and arrays or Series of strings, of NumPy, pandas, Polars or pyarrow; `fit` and
            `predict` need `tf.constant(...)`, a ragged tensor or a tf.data dataset.
        words: For internal use: rows of ids of distinct words; the inputs are then indices into
            these rows.
        training: Whether to apply the mixes' dropout.

    Input shape:
        Strings `(B,)`, sentences to be split at white space; strings `(B, T)`, tokens with `""` as
        padding at the right, also as lists; or int32 character ids `(B, T + 2, C)` of
        `encode_sentences`, for a model with a lexicon of `lexicon.encode_sentences`. Models that
        read whole words take int32 token ids `(B, T + 2)`. In a model and for tensors, the vectors
        of invalid ids are NaN, unless the backend raises an error.

    Attributes:
        config: The `ElmoConfig`.
        lexicon: The `Lexicon` of a model of ELMoForManyLangs, else `None`.
        mix_weights: The current share of each layer in the mix, after training the learned one.
        gamma: The current factor of the mix, likewise.
        bilm_dtype_policy: The Keras dtype policy of the computation. (`compute_dtype` is
            `"string"`, the dtype of the inputs that Keras makes in a `Sequential` model.)
        vocabulary: For a model that reads whole words, the words in the order of its table, if
            vocabulary.txt was next to its weights, else `None`.
        language: ISO 639 code of the language of a known model, else `None`.
        model_paths: The files that it was loaded from, which outputs do not replace.

    Output shape:
        Floats `(B, T, 2 * P)`, a list of them where `num_mixes > 1`; for `vectors="layers"`
        `(B, L + 1, T, 2 * P)`, for `"concat"` `(B, T, (L + 1) * 2 * P)`. With `boundaries`, T is 2
        larger. Masked positions are exactly 0. The next layer receives the mask `(B, T)`, for
        `"layers"` `(B, L + 1, T)`.

    Raises:
        AttributeError: if an option other than `trainable_mix` and `trainable_bilm` is set later.
        FileNotFoundError: if a file is missing.
        ConnectionError: if a download failed.
        RuntimeError: if the process was forked from one that has a layer.
        ValueError: if an argument or input is invalid, an option of the mix is passed with other
            `vectors` than `"mix"`, or the weights do not match the config.

    Warns:
        UserWarning: if strings `(B, T)` look like sentences, since each is read as one token.

    Example:

    >>> elmo = ElmoLayer()
    >>> elmo(["The cat sat on the mat .", "Hello"]).shape
    TensorShape([2, 7, 512])

    In a model, on the TensorFlow backend:

    >>> model = keras.Sequential(
    ...     [ElmoLayer(dropout=0.5), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2)]
    ... )
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> model.fit(tf.constant(["A joy .", "A bore ."]), tf.constant([1, 0]))

    Reference: Peters et al. 2018, "Deep contextualized word representations"; BILM_TF.md.
    """

    def __init__(
        self,
        model: ModelSource | None = "default",
        *,
        config: ElmoConfig | dict | None = None,
        vectors: str | int = "mix",
        num_mixes: int = 1,
        use_top_only: bool = False,
        layer_norm: bool = False,
        l2: float | None = None,
        dropout: float = 0.0,
        boundaries: bool = False,
        mix_weights: Sequence[float] | None = None,
        gamma: float = 1.0,
        trainable_mix: bool = True,
        trainable_bilm: bool = False,
        stateful: bool = False,
        max_batch_size: int = 128,
        token_embeddings: str | os.PathLike | np.ndarray | None = None,
        lexicon: Lexicon | dict | None = None,
        dtype: str | keras.dtype_policies.DTypePolicy | None = None,
        **kwargs: Any,
    ):
        check_process()
        policy = float_policy(dtype)
        # A Sequential model takes its input's dtype from here; the parts have their own.
        input_dtype = "string" if keras.backend.backend() == "tensorflow" else "int32"
        super().__init__(dtype=input_dtype, autocast=False, **kwargs)
        _check_arguments(model, config, lexicon)
        self.bilm_dtype_policy = policy
        self.model_paths: tuple[Path, ...] = ()
        self.language: str | None = None
        self.vocabulary: list[str] | None = None
        self.vectors = check_vectors(vectors)
        self.num_mixes = check_integer("num_mixes", num_mixes, 1, _MAX_COUNT)
        self.use_top_only = use_top_only
        self.layer_norm = check_boolean("layer_norm", layer_norm)
        self.l2 = l2
        self.dropout = dropout
        self.boundaries = check_boolean("boundaries", boundaries)
        self._initial_mix_weights = mix_weights
        if mix_weights is not None:
            self._initial_mix_weights = tuple(check_number("mix_weights", x) for x in mix_weights)
        self._initial_gamma = check_number("gamma", gamma)
        if self.vectors != "mix":
            self._check_no_mix()
        self.stateful = check_boolean("stateful", stateful)
        self.max_batch_size = check_integer("max_batch_size", max_batch_size, 1, _MAX_COUNT)
        self.supports_masking = True
        # XLA has no strings. On other backends a model never gets any.
        self.supports_jit = keras.backend.backend() != "tensorflow"
        if model is None:
            config = ElmoConfig.from_dict(config or {})
            if not isinstance(lexicon, Lexicon | None):
                lexicon = Lexicon.from_dict(lexicon)
            self._set_up(config, lexicon, token_embeddings)
        else:
            files = find_model_files(model)
            self.model_paths, self.language = files.paths, files.language
            reads_words = not files.config.reads_text and token_embeddings is None
            if reads_words and files.vocabulary is not None:
                self.vocabulary = read_words(files.vocabulary)
            self._set_up(files.config, files.lexicon, token_embeddings)
            load_weights(self.backbone, files.weights, token_embeddings is not None)
        self._trainable_mix = check_boolean("trainable_mix", trainable_mix)
        self.trainable_bilm = trainable_bilm
        self._instance_id = uuid.uuid4().hex
        _layers[self._instance_id] = self

    def _check_no_mix(self):
        """Raises ValueError if a setting of the mix is given."""
        settings = {
            "num_mixes": self.num_mixes != 1,
            "use_top_only": self.use_top_only,
            "layer_norm": self.layer_norm,
            "l2": self.l2,
            "dropout": self.dropout,
            "mix_weights": self._initial_mix_weights,
            "gamma": self._initial_gamma != 1,
        }
        if given := [name for name, value in settings.items() if value]:
            raise ValueError(
                f"{', '.join(given)} would have no effect with vectors={self.vectors!r}, which has "
                "no mix: leave them out, or pass vectors='mix'."
            )

    def __setattr__(self, name, value):
        if name in _FIXED and getattr(self, "built", False):
            raise AttributeError(
                f"{name} of an ElmoLayer cannot change: make a new layer with it, or use another "
                "name in a subclass."
            )
        super().__setattr__(name, value)

    @classmethod
    def from_preset(cls, preset: ModelSource, **arguments: Any) -> "ElmoLayer":
        """Loads a model as Keras Hub does: the same as `ElmoLayer(preset, ...)`.

        Args:
            preset: The constructor's `model`.
            **arguments: Its other arguments.

        Example:

        >>> elmo = ElmoLayer.from_preset("default", dropout=0.5)
        """
        return cls(preset, **arguments)

    def _set_up(self, config, lexicon, token_embeddings):
        """Makes and builds the parts, whose shapes follow from the config."""
        if token_embeddings is not None:
            token_embeddings = _stored_vectors(token_embeddings, config.projection_dim)
            config, lexicon = config.with_word_input(len(token_embeddings)), None
        self.config, self.lexicon = config, lexicon
        self.vectors = check_vectors(self.vectors, config.num_layers)
        self.char_encoder = _char_encoder(config, lexicon)
        self.backbone = Backbone(config, dtype=self.bilm_dtype_policy, name="backbone")
        self.mixes = [
            WeightedLayerSum(
                use_top_only=self.use_top_only,
                layer_norm=self.layer_norm,
                l2=self.l2,
                dropout=self.dropout,
                dtype=self.bilm_dtype_policy,
                name=f"mix_{i}",
            )
            for i in range(self.num_mixes if self.vectors == "mix" else 0)
        ]
        self.build()
        if token_embeddings is not None:
            self.token_encoder.embedding.assign(token_embeddings)

    def build(self, input_shape=None):
        if self.built:
            return
        config = self.config
        if self.char_encoder is not None:
            self.char_encoder.build(None)
        self.backbone.build()
        for mix in self.mixes:
            mix.build((None, config.num_layers + 1, None, config.output_dim))
            if self._initial_mix_weights is not None:
                mix.set_normalized_weights(self._initial_mix_weights)
            mix.gamma.assign([self._initial_gamma])
        self.state = None
        if self.stateful:
            self.state = CarriedState(self, self.backbone, self.max_batch_size)

    @property
    def text_encoder(self) -> TokenEncoder | None:
        """What encodes text as the ids of the model; `None` for a model of whole words.

        >>> elmo.text_encoder.encode_sentences([["Hello", "world"]]).shape
        (1, 4, 50)
        """
        return None if self.char_encoder is None else self.char_encoder.rules

    @property
    def token_encoder(self) -> keras.layers.Layer:
        """The layer from ids to token vectors; see `Backbone`."""
        return self.backbone.token_encoder

    @property
    def bilm(self) -> BiLMStack:
        """The LSTMs over token vectors."""
        return self.backbone.bilm

    @property
    def mix_weights(self) -> np.ndarray | list[np.ndarray]:
        """The current share of each layer in the mix, after training the learned one.

        A float32 array `(L + 1,)` with the sum 1, from the token vectors to the top layer, as the
        argument; a list of them unless there is exactly one mix.
        """
        return _single([mix.normalized_weights for mix in self.mixes])

    @property
    def gamma(self) -> float | list[float]:
        """The current factor of the mix, after training the learned one; a list as above."""
        return _single([float(ops.convert_to_numpy(mix.gamma)[0]) for mix in self.mixes])

    @property
    def dim(self) -> int:
        """The size of a vector, the last axis of the output."""
        return shape_of_vectors(self.vectors, self.config, None)[-1]

    @property
    def trainable_mix(self) -> bool:
        """Whether the mixes are trained. Kept when a model is saved."""
        return self._trainable_mix

    @trainable_mix.setter
    def trainable_mix(self, value: bool) -> None:
        self._trainable_mix = check_boolean("trainable_mix", value)
        type(self).trainable.fset(self, self.trainable)

    @property
    def trainable_bilm(self) -> bool:
        """Whether the biLM, token encoder included, is trained. Kept when a model is saved."""
        return self._trainable_bilm

    @trainable_bilm.setter
    def trainable_bilm(self, value: bool) -> None:
        self._trainable_bilm = check_boolean("trainable_bilm", value)
        # An assignment of the same value would not arrive on TensorFlow.
        type(self).trainable.fset(self, self.trainable)

    @keras.layers.Layer.trainable.setter
    def trainable(self, value):
        keras.layers.Layer.trainable.fset(self, value)
        # Keras sets all parts alike: unfreezing a model must not unfreeze parts that stay frozen.
        self.backbone.trainable = self._trainable_bilm and self.trainable
        for mix in self.mixes:
            mix.trainable = self._trainable_mix and self.trainable

    @without_autograph
    def __call__(self, inputs, *args, **kwargs):
        inputs, words = self._ids(inputs)
        if words is not None:
            kwargs["words"] = words
        return super().__call__(inputs, *args, **kwargs)

    def _ids(self, inputs):
        """The inputs as `call` takes them: ids and `None`, or indices and rows of distinct words.

        The strings of a model that is being made stay: what they will hold is encoded in it. Raises
        ValueError if the layer cannot read the inputs.
        """
        check_process()
        self._check_dtype_of_weights()
        if self.config.reads_text:
            inputs = read_batch(inputs)
            if isinstance(inputs, Sentences):
                return self._ids_of_sentences(inputs)
            if is_string_tensor(inputs) and len(inputs.shape) < 3:
                return self._ids_of_string_tensor(inputs)
        else:
            inputs = as_batch(inputs)
        check_ids(inputs, self.config)
        return inputs, None

    def _check_dtype_of_weights(self):
        """Raises ValueError if a PyTorch module that contains the layer converted its weights."""
        if keras.backend.backend() != "torch":
            return
        expected = self.bilm_dtype_policy.variable_dtype
        found = str(next(self.bilm.parameters()).dtype).removeprefix("torch.")
        if found != expected:
            raise ValueError(
                f"The weights of this ElmoLayer were converted from {expected} to {found}, as by "
                "half() or to(dtype) of a PyTorch module, which does not change what a Keras layer "
                f"computes: make it with ElmoLayer(..., dtype={found!r})."
            )

    def _ids_of_sentences(self, sentences):
        words, index = self.text_encoder.encode_batch(sentences)
        # Few different shapes, for backends that compile.
        words = trim_characters(words, self.config.widest_filter, self.text_encoder.padding)
        words = pad_words(words, index.size)
        return ops.convert_to_tensor(index), ops.convert_to_tensor(words)

    def _ids_of_string_tensor(self, strings):
        check_strings(strings, "ElmoLayer")
        if isinstance(strings, keras.KerasTensor):
            return strings, None
        words, index = self.char_encoder.encode_distinct(strings, self.config.widest_filter)
        return index, words

    def call(self, inputs, words=None, training=None):
        layers, mask = self._hidden_states(inputs, words, training)
        if self.vectors != "mix":
            return select_vectors(layers, self.vectors)
        mixed = [mix(layers, mask=mask, training=training) for mix in self.mixes]
        return _single(mixed)

    def hidden_states(self, inputs: Any, training: bool | None = None) -> tuple[Any, Any]:
        """The inputs of the mixes: vectors `(B, L + 1, T, 2 * P)` and their mask `(B, T)`.

        Args:
            inputs: As for a call of the layer.
            training: Whether the biLM will be trained: that makes its gradient faster.
        """
        inputs, words = self._ids(inputs)
        return self._hidden_states(inputs, words, training)

    def _hidden_states(self, inputs, words, training):
        training = bool(training) and self.bilm.trainable  # a frozen biLM has no gradient
        mask = TokenMask(boundaries=True)(inputs)
        if words is None:
            tokens = self.token_encoder(inputs)
        else:  # each word is encoded once
            tokens = gather(self.token_encoder(words), inputs)
        layers = self._run_bilm(tokens, mask, training)
        if not any(variable.trainable for variable in self.backbone.variables):
            layers = ops.stop_gradient(layers)  # TensorFlow would trace a gradient nobody uses
        if self.boundaries:
            return layers, mask
        layers, mask = layers[:, :, 1:-1], mask_of_tokens(mask)
        return masked(layers, mask[:, None, :, None]), mask

    def _run_bilm(self, tokens, mask, training):
        if not self.stateful:
            return self.bilm(tokens, mask=mask, training=training)
        batch_size = ops.shape(tokens)[0]
        if isinstance(batch_size, int) and batch_size > self.max_batch_size:
            raise ValueError(
                f"A batch of {batch_size} sentences is more than max_batch_size="
                f"{self.max_batch_size}, the rows of the state that is kept."
            )
        layers, state = self.bilm(
            tokens,
            mask=mask,
            initial_state=tuple(part[:batch_size] for part in self.state.read()),
            return_state=True,
            training=training,
        )
        self.state.write(state)
        return layers

    def reset_states(self) -> None:
        """Sets the state that a stateful layer carries from batch to batch to zero.

        Raises:
            ValueError: if the layer is not stateful.
        """
        if not self.stateful:
            raise ValueError("This ElmoLayer carries no state; make it with stateful=True.")
        self.state.reset()

    def export_hdf5(self, output: str | os.PathLike, dtype: str = "float32") -> None:
        """Writes the biLM as options.json and weights.hdf5, which bilm-tf and AllenNLP read.

        The mixes belong to the layer and are not part of these files. A lexicon is written next to
        them, as word.dic and char.dic (only this package reads such a model), and the words of a
        model that reads whole words as vocabulary.txt. A model card, README.md, makes the folder
        ready for the Hugging Face Hub; one that you wrote or edited is kept.
        `keras_elmo.export_hdf5` also writes the softmax of a model in files.

        Args:
            output: The output folder, created if it does not exist. Existing files with these names
                are replaced, once all are written.
            dtype: `"float32"` or `"float16"`, of the stored weights.

        Example:

        >>> elmo.export_hdf5("my_elmo")
        >>> ElmoLayer("my_elmo")
        """
        with model_folder(output) as partial:
            write_model(
                partial,
                self.backbone,
                lexicon=self.lexicon,
                vocabulary=self.vocabulary,
                dtype=dtype,
                details={"language": self.language},
            )

    def compute_mask(self, inputs, mask=None):
        mask = TokenMask(self.boundaries)(inputs)
        if self.vectors == "layers":
            return mask_of_layers(mask, self.config.num_layers + 1)
        return [mask] * self.num_mixes if len(self.mixes) > 1 else mask

    def compute_output_shape(self, input_shape):
        config = self.config
        num_tokens = input_shape[1] if len(input_shape) > 1 else None
        is_string = config.reads_text and len(input_shape) < 3
        if num_tokens is not None:
            num_tokens += 2 * (self.boundaries - (not is_string))  # ids have them already
        shape = (input_shape[0], *shape_of_vectors(self.vectors, config, num_tokens))
        return [shape] * self.num_mixes if len(self.mixes) > 1 else shape

    def compute_output_spec(self, inputs, words=None, training=None):
        shapes = self.compute_output_shape(inputs.shape)
        dtype = self.bilm_dtype_policy.compute_dtype
        if isinstance(shapes, list):
            return [keras.KerasTensor(shape, dtype) for shape in shapes]
        return keras.KerasTensor(shapes, dtype)

    def get_config(self):
        return {
            **super().get_config(),
            # The weights travel with the model: a reloaded one needs the architecture, no files.
            "model": None,
            "config": self.config.to_dict(),
            "lexicon": None if self.lexicon is None else self.lexicon.to_dict(),
            "vocabulary": None if self.vocabulary is None else "\n".join(self.vocabulary),
            "language": self.language,
            "weights_of": self._instance_id,
            "vectors": self.vectors,
            "num_mixes": self.num_mixes,
            "use_top_only": self.use_top_only,
            "layer_norm": self.layer_norm,
            "l2": self.l2,
            "dropout": self.dropout,
            "boundaries": self.boundaries,
            "mix_weights": self._initial_mix_weights,
            "gamma": self._initial_gamma,
            "trainable_mix": self.trainable_mix,
            "trainable_bilm": self.trainable_bilm,
            "stateful": self.stateful,
            "max_batch_size": self.max_batch_size,
            "dtype": keras.dtype_policies.serialize(self.bilm_dtype_policy),
        }

    def __reduce__(self):
        return unpickled, (type(self), *super().__reduce__())

    @classmethod
    def from_config(cls, config):
        # A saved model may be untrusted: it must not name a file to open or download.
        for name in ("model", "token_embeddings"):
            if config.get(name) is not None:
                raise ValueError(
                    f"The config of an ElmoLayer has {name}={config[name]!r}, but a config must "
                    "not name anything to load. Do not load models that you do not trust."
                )
        config = dict(config)
        source = _layers.get(str(config.pop("weights_of", None)))
        words, language = config.pop("vocabulary", None), config.pop("language", None)
        # Not by Keras' own: the message of an error would have the config in it, a lexicon too.
        layer = cls(**config)
        layer.vocabulary, layer.language = None if words is None else words.split("\n"), language
        if source is not None and source.config == layer.config:
            copy_arrays(source.backbone, layer.backbone)
            layer.model_paths = source.model_paths
        return layer


def _single(values):
    return values[0] if len(values) == 1 else values


def _char_encoder(config, lexicon):
    """The layer from strings to the ids of `config`; `None` for a model of whole words."""
    if not config.has_lexicon:
        if lexicon is not None:
            raise ValueError("ElmoLayer got a lexicon, but its config reads none: leave it out.")
        reads_text, width = config.reads_text, config.max_characters_per_token
        return UnicodeCharEncoder(width) if reads_text else None
    if lexicon is None:
        raise ValueError("The config needs a lexicon: pass lexicon=, a keras_elmo.Lexicon.")
    num_words = config.vocabulary_size if config.word_dim else None
    expected = (num_words, config.num_characters, config.max_characters_per_token)
    sizes = [None if x is None else len(x) for x in (lexicon.words, lexicon.characters)]
    if (found := (*sizes, lexicon.max_characters_per_token)) != expected:
        raise ValueError(
            f"The lexicon belongs to a different model: the options have (words, characters, "
            f"characters per token) {expected}, it has {found}."
        )
    return LexiconEncoder(lexicon)


def _stored_vectors(token_embeddings, projection_dim):
    if isinstance(token_embeddings, (str, os.PathLike)):
        return read_token_embeddings(token_embeddings, projection_dim)
    token_embeddings = np.asarray(token_embeddings, "float32")
    if token_embeddings.ndim != 2 or token_embeddings.shape[1] != projection_dim:
        raise ValueError(
            f"token_embeddings must be a path or an array (num_words, {projection_dim}); got shape "
            f"{token_embeddings.shape}."
        )
    return token_embeddings


def _check_arguments(model, config, lexicon):
    if model is None and config is None:
        raise ValueError("ElmoLayer(model=None) needs a config: the architecture of fresh weights.")
    for name, value in (("config", config), ("lexicon", lexicon)):
        if model is not None and value is not None:
            raise ValueError(
                f"ElmoLayer got both model={model!r}, which brings its own, and a {name}: leave it "
                "out, or pass model=None for fresh weights."
            )
