"""A biLM as a Keras model that is trained to predict words."""

import dataclasses
import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_elmo.arguments import check_boolean, check_integer
from keras_elmo.config import ElmoConfig
from keras_elmo.layers.backbone import Backbone
from keras_elmo.layers.configured import Configured
from keras_elmo.layers.recurrent import CarriedState
from keras_elmo.ops.gather import gather
from keras_elmo.pretrained.language_models import check_no_lexicon
from keras_elmo.pretrained.weight_table import check_size
from keras_elmo.pretrained.weights import model_folder, write_model
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.batches import SUFFIXES
from keras_elmo.training.checkpoint import TrainingCheckpoint
from keras_elmo.training.corpus import LanguageModelCorpus
from keras_elmo.training.evaluation_corpus import EvaluationCorpus
from keras_elmo.training.optimizer import bilm_tf_optimizer
from keras_elmo.training.perplexity_metric import Perplexity
from keras_elmo.training.settings import checked, to_options, with_defaults
from keras_elmo.training.word_softmax import WordSoftmax


@keras.saving.register_keras_serializable("keras_elmo")
class BidirectionalLanguageModel(Configured, keras.Model):
    """Predicts each word from the words before it, and from the words after it.

    It has the layers of `ElmoLayer`, with a softmax over the vocabulary on top, shared by both
    directions. Targets are among the inputs. The loss is the mean negative log-likelihood of a word
    over both directions, in nats.

    Args:
        config: The architecture, an `ElmoConfig`, or a dict of bilm-tf's options.
        vocabulary_size: Words V that can be predicted, boundaries included.
        batch_size: Rows B of a batch, each with an LSTM state that is carried. `None`, here and
            for the arguments below, takes the value in the options, or else the default: 128.
        unroll_steps: Words T of a window (default: 20).
        dropout: Fraction of the units to drop in training, from the input of every LSTM and from
            the top layer (default: 0.1).
        num_negative_samples: Words sampled in each training step, for each direction (default:
            8192). 0, or a number not below the vocabulary's size, is the full softmax,
            which evaluation always uses.
        share_embedding_softmax: Whether the softmax's table is the token encoder's (models that
            read whole words; default: no).
        carry_state: Whether LSTM states are carried from window to window, as in bilm-tf.

    Call arguments:
        inputs: A batch of a `LanguageModelCorpus` or an `EvaluationCorpus`.
        training: Whether to apply the dropout.

    Input shape:
        Dict of int32 `(B, T)` and character ids; see `LanguageModelCorpus`.

    Output shape:
        List of one float tensor `(B, T, P)` for each direction: the top layer.

    Raises:
        ValueError: if an argument is invalid, or a batch is not of this batch size.

    Example:

    >>> model = BidirectionalLanguageModel(config, len(vocabulary), num_negative_samples=1024)
    >>> model.compile()
    >>> corpus = LanguageModelCorpus(
    ...     "shards/*", vocabulary, config, batch_size=128, unroll_steps=20
    ... )
    >>> model.fit(corpus)
    >>> model.export_hdf5("my_elmo")
    >>> elmo = ElmoLayer("my_elmo")

    Reference: Peters et al. 2018, section 3.1; BILM_TF.md, "Language-model training".
    """

    def __init__(
        self,
        config: ElmoConfig | dict[str, Any],
        vocabulary_size: int,
        *,
        batch_size: int | None = None,
        unroll_steps: int | None = None,
        dropout: float | None = None,
        num_negative_samples: int | None = None,
        share_embedding_softmax: bool | None = None,
        carry_state: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        config = ElmoConfig.from_dict(config)
        vocabulary_size = check_integer("vocabulary_size", vocabulary_size, 4)
        if num_negative_samples is not None:
            checked("negatives", num_negative_samples, "num_negative_samples")
        values = with_defaults(
            config.training_options,
            batch_size=batch_size,
            unroll_steps=unroll_steps,
            dropout=dropout,
            negatives=num_negative_samples,
            share_embedding_softmax=share_embedding_softmax,
        )
        check_no_lexicon(config)
        if values["share_embedding_softmax"] and config.reads_characters:
            raise ValueError("share_embedding_softmax=True needs a model that reads whole words.")
        if not config.reads_characters:
            config = config.with_word_input(vocabulary_size)
        check_size("The softmax", vocabulary_size * config.projection_dim)
        self.config = config
        self.vocabulary_size = vocabulary_size
        self.language: str | None = None  # ISO 639 code, if it is known
        self.batch_size = values["batch_size"]
        self.unroll_steps = values["unroll_steps"]
        self.dropout = values["dropout"]
        self.num_negative_samples = values["negatives"]
        self.share_embedding_softmax = values["share_embedding_softmax"]
        self.carry_state = check_boolean("carry_state", carry_state)
        self.backbone = Backbone(config, self.dropout, dtype=self.dtype_policy, name="backbone")
        self.softmax = WordSoftmax(
            vocabulary_size,
            num_negative_samples=self.num_negative_samples if self.is_sampled else None,
            has_kernel=not self.share_embedding_softmax,
            dtype=self.dtype_policy,
            name="softmax",
        )
        self.perplexity = Perplexity(num_directions=config.num_directions, name="perplexity")
        self.build()

    def build(self, input_shape=None):
        if self.built:
            return
        self.backbone.build()
        self.softmax.build((None, self.config.projection_dim))
        # Evaluation has its own state: it must not change the training state.
        self.training_state = CarriedState(self, self.backbone, self.batch_size, "training")
        self.evaluation_state = CarriedState(self, self.backbone, self.batch_size, "evaluation")
        self.built = True

    @property
    def is_sampled(self) -> bool:
        """Whether training compares each word with a sample of the other words, not with all."""
        return 0 < self.num_negative_samples < self.vocabulary_size

    @property
    def softmax_kernel(self) -> keras.Variable:
        """The table `(V, P)` of the softmax: the token encoder's where they share one."""
        if self.share_embedding_softmax:
            return self.backbone.token_encoder.embedding
        return self.softmax.kernel

    def call(self, inputs, training=False):
        streams = self.token_vectors(inputs)
        if not self.carry_state and "begins" not in inputs:
            state = self.backbone.zero_state(ops.shape(streams[0])[0])
            return self.backbone.bilm.run_streams(streams, state, training)[0]
        carried = self.training_state if training else self.evaluation_state
        if streams[0].shape[0] not in (None, self.batch_size):
            raise ValueError(
                f"A batch of {streams[0].shape[0]} rows does not fit the {self.batch_size} states "
                "that this model carries: make model and corpus with the same batch_size."
            )
        tops, state = self.run(inputs, streams, carried.read(), training)
        carried.write(state)
        return tops

    def run(
        self, inputs: dict[str, Any], streams: list[Any], state: tuple[Any, Any], training: bool
    ) -> tuple[list[Any], tuple[Any, Any]]:
        """Runs the LSTMs on the token vectors `streams` of a batch, starting from a state (h, c).

        Returns what `call` does, and the state after the batch.
        """
        if "begins" in inputs:
            begins = ops.reshape(inputs["begins"], (-1, 1, 1, 1))
            state = tuple(ops.where(begins, ops.zeros_like(part), part) for part in state)
        return self.backbone.bilm.run_streams(streams, state, training)

    def token_vectors(self, inputs: dict[str, Any]) -> list[Any]:
        """The token vectors of a batch, a list of floats `(B, T, P)`, one for each direction."""
        suffixes, encoder = SUFFIXES[: self.config.num_directions], self.backbone.token_encoder
        if not self.config.reads_characters:
            return [encoder(inputs[f"token_ids{suffix}"] + 1) for suffix in suffixes]
        if "word_characters" in inputs:
            words = encoder(inputs["word_characters"])
            return [gather(words, inputs[f"word_index{suffix}"]) for suffix in suffixes]
        return [encoder(inputs[f"tokens_characters{suffix}"]) for suffix in suffixes]

    def word_losses(
        self, inputs: dict[str, Any], tops: list[Any], sampled: bool = False
    ) -> list[Any]:
        """The negative log-likelihoods of a batch's targets, in nats, from the outputs of `call`.

        A list of float32 `(B, T)`, one for each direction, by the full or the sampled softmax.
        """
        losses = []
        for suffix, top in zip(SUFFIXES, tops):
            targets = inputs[f"next_token_id{suffix}"]
            contexts = ops.reshape(top, (-1, self.config.projection_dim))
            words = ops.reshape(targets, (-1,))
            loss = self.softmax(contexts, words, sampled=sampled, kernel=self.softmax_kernel)
            losses.append(ops.reshape(loss, ops.shape(targets)))
        return losses

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True, **kwargs
    ):
        losses = self.word_losses(x, y_pred, sampled=training and self.is_sampled)
        weights = x.get("weights")
        if weights is None:
            weights = ops.ones_like(losses[0])
        self.perplexity.update_state(losses, weights)
        total = ops.maximum(ops.sum(weights), 1.0)
        return sum(ops.sum(loss * weights) for loss in losses) / (len(losses) * total)

    def compile(
        self, optimizer: Any = None, jit_compile: bool | str = "auto", **kwargs: Any
    ) -> None:
        """Configures the training; without arguments as bilm-tf's.

        Args:
            optimizer: Any Keras optimizer; `None` for `bilm_tf_optimizer` with the `learning_rate`
                and `all_clip_norm_val` of the options, where they have them.
            jit_compile: Whether to compile with XLA. `"auto"` does on JAX, and on TensorFlow with
                a GPU: on a CPU TensorFlow's own graph is faster.
            **kwargs: Other arguments of `keras.Model.compile`; no loss is needed.

        Raises:
            ValueError: if the weights are float16, or bfloat16 with Adam and its usual beta_2.
        """
        if self.variable_dtype == "float16":
            raise ValueError(
                'Training needs weights of more than half precision: use dtype="mixed_float16", '
                'whose loss is scaled, or "mixed_bfloat16".'
            )
        if optimizer is None:
            options = self.config.training_options
            values = with_defaults(options, learning_rate=None, clip_norm=None)
            rate, clip_norm = values["learning_rate"], values["clip_norm"] or None
            optimizer = bilm_tf_optimizer(self.unroll_steps, rate, clip_norm)
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            if jit_compile == "auto":
                jit_compile = bool(tf.config.list_physical_devices("GPU"))
            self.backbone.token_encoder.uses_pool = not jit_compile
        optimizer = keras.optimizers.get(optimizer)
        if self.variable_dtype == "bfloat16" and getattr(optimizer, "beta_2", 0) > 1 - 2**-9:
            raise ValueError(
                "In bfloat16 Adam's beta_2 is 1, and every step 0: use Adagrad, or "
                "dtype='mixed_bfloat16'."
            )
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **kwargs)
        # In its first step, TensorFlow would trace that step twice.
        self.optimizer.build(self.trainable_variables)

    def compile_from_config(self, config):
        """Compiles a loaded model as the saved one was."""
        # Keras does not call a `compile` that is overridden.
        self.compile(**keras.saving.deserialize_keras_object(config))

    def fit(self, x: Any = None, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Trains on a `LanguageModelCorpus`, or on a dataset of its batches.

        With a corpus an epoch is `corpus.batches_per_epoch` batches of its endless stream, unless
        `steps_per_epoch` says otherwise; the first one starts with the batch of the number
        `initial_epoch * steps_per_epoch`, or after the `step` of a `TrainingCheckpoint` among the
        callbacks.

        Args:
            x: A `LanguageModelCorpus`, or what `keras.Model.fit` takes.
            *args: As for `keras.Model.fit`.
            **kwargs: As for `keras.Model.fit`. `validation_data` may be an
                `EvaluationCorpus`; see `TrainingCheckpoint` for runs that can be stopped.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: if the corpus is too small or does not fit the model.
        """
        arguments = inspect.signature(super().fit).bind(x, *args, **kwargs).arguments
        arguments["validation_data"] = self._for_evaluation(arguments.get("validation_data"))
        if isinstance(x, LanguageModelCorpus):
            x.check_model(self)
            steps = arguments.get("steps_per_epoch") or x.batches_per_epoch
            if steps < 1:
                raise ValueError(
                    f"The corpus is too small for one batch of {x.batch_size} x {x.unroll_steps} "
                    "words: make batch_size or unroll_steps smaller."
                )
            first = arguments.get("initial_epoch", 0) * steps
            for callback in keras.tree.flatten(arguments.get("callbacks")):
                if isinstance(callback, TrainingCheckpoint):
                    first, callback.corpus = callback.step, x.identity()
            arguments |= {"x": x.for_keras(first), "steps_per_epoch": steps, "shuffle": False}
        return super().fit(**arguments)

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The loss and perplexities of a text, or a dataset of batches, by the full softmax.

        Takes an `EvaluationCorpus`, or what `keras.Model.evaluate` takes. The LSTM states of the
        evaluation start from zero.
        """
        self.evaluation_state.reset()
        return super().evaluate(self._for_evaluation(x), *args, **kwargs)

    def _for_evaluation(self, x):
        """An `EvaluationCorpus` as Keras takes it; other data unchanged."""
        if isinstance(x, LanguageModelCorpus):
            raise ValueError(
                "A LanguageModelCorpus is for training: pass an EvaluationCorpus of the text."
            )
        if not isinstance(x, EvaluationCorpus):
            return x
        x.check_model(self)
        return x.for_keras()

    def reset_states(self) -> None:
        """Sets the LSTM state that training carries from window to window to zero."""
        self.training_state.reset()

    def export_hdf5(
        self,
        output: str | os.PathLike,
        vocabulary: Vocabulary | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the files that `ElmoLayer`, bilm-tf and AllenNLP load, the softmax, and a card.

        Args:
            output: The output folder, created if it does not exist. Existing files options.json,
                weights.hdf5 and softmax.hdf5 (`softmax/W` (V, P), `softmax/b` (V,)) are replaced.
            vocabulary: The model's `Vocabulary`, for a vocabulary.txt next to them, which
                `load_language_model` and `keras-elmo evaluate` read.
            details: Rows for the table of the model card, README.md, by name, such as
                `{"Text": "books"}`; `language`, an ISO 639 code, and `license` become metadata of
                the Hugging Face Hub. A README.md that you wrote or edited is kept.

        Raises:
            FileExistsError: if the folder has a vocabulary.txt and `vocabulary` is not given.
            ValueError: if a weight is not finite, or the vocabulary has a different size.
        """
        path = Path(output) / "vocabulary.txt"
        if vocabulary is None and path.exists():
            raise FileExistsError(
                f"{path} may belong to a different model: pass the vocabulary of this one, or "
                "choose a different folder."
            )
        self.check_vocabulary(vocabulary)
        config = with_training_options(self.get_config())
        softmax = self.softmax_kernel, self.softmax.bias
        words = None if vocabulary is None else vocabulary.words
        with model_folder(output) as partial:
            write_model(
                partial,
                self.backbone,
                softmax=softmax,
                vocabulary=words,
                config=config,
                details=details,
            )

    def check_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """Raises ValueError if a vocabulary is given and not of this model's size."""
        if vocabulary is not None and len(vocabulary) != self.vocabulary_size:
            raise ValueError(
                f"The vocabulary has {len(vocabulary):,} words, the model predicts "
                f"{self.vocabulary_size:,}: pass the one that the model was trained with."
            )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict()}


def with_training_options(config: Mapping[str, Any]) -> ElmoConfig:
    """The architecture in a language model's config, with its settings as bilm-tf's options."""
    architecture = ElmoConfig.from_dict(config["config"])
    names = ("batch_size", "unroll_steps", "dropout", "share_embedding_softmax")
    settings = {name: config[name] for name in names}
    settings["negatives"] = config["num_negative_samples"]
    return dataclasses.replace(
        architecture,
        vocabulary_size=config["vocabulary_size"],
        training_options={**architecture.training_options, **to_options(settings)},
    )
