"""A biLM as a Keras model that is trained to predict words."""

import contextlib
import dataclasses
import numbers
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.backbone import Backbone
from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.layers.carried_state import CarriedState
from keras_elmo.layers.configured import Configured
from keras_elmo.ops.gather import gather
from keras_elmo.pretrained.hdf5 import load_weights, read_softmax, variables_and_values, write_model
from keras_elmo.pretrained.locate import locate
from keras_elmo.pretrained.tf1_checkpoint import read_tf1_checkpoint
from keras_elmo.pretrained.weight_table import check_size, weight_table
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.batches import SUFFIXES, prefetched
from keras_elmo.training.checkpoint import TrainingCheckpoint
from keras_elmo.training.corpus import LanguageModelCorpus
from keras_elmo.training.distribution import all_rows, check_same_everywhere, own_rows, share
from keras_elmo.training.epochs import CarriedStates, EpochBegin, EpochEnd, EpochPlan
from keras_elmo.training.evaluation_corpus import EvaluationCorpus
from keras_elmo.training.optimizer import bilm_tf_optimizer
from keras_elmo.training.perplexity_metric import Perplexity
from keras_elmo.training.settings import BFLOAT16_ADAM, LEARNING_RATES, from_options
from keras_elmo.training.word_softmax import WordSoftmax

NO_LEXICON = (
    "A model with a lexicon, as those of ELMoForManyLangs, cannot be trained or evaluated as a "
    "language model here: fine-tune it with ElmoLayer(..., trainable_bilm=True)."
)


def check_no_lexicon(config: ElmoConfig) -> None:
    """Raises ValueError if tokens of a model are looked up in a lexicon."""
    if config.has_lexicon:
        raise ValueError(NO_LEXICON)


@keras.saving.register_keras_serializable("keras_elmo")
class BidirectionalLanguageModel(Configured, keras.Model):
    """Predicts each word from the words before it, and from those behind it.

    The layers are those of `ElmoLayer`, with a softmax over the vocabulary on top, shared by both
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
        num_negative_samples: Words drawn for the sampled softmax in training, for each direction;
            `"auto"` takes the number in the options, or else 8192. `None`, or a number not below
            the vocabulary's size, is the full softmax, which evaluation always uses.
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
        ValueError: if an argument is bad, or a batch is not of this batch size.

    Example:

    >>> model = BidirectionalLanguageModel(config, len(vocabulary), num_negative_samples=1024)
    >>> model.compile()
    >>> model.fit(LanguageModelCorpus("shards/*", vocabulary, batch_size=128, unroll_steps=20))
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
        num_negative_samples: int | str | None = "auto",
        share_embedding_softmax: bool | None = None,
        carry_state: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        config = config if isinstance(config, ElmoConfig) else ElmoConfig.from_dict(config)
        if vocabulary_size < 4:
            raise ValueError(f"vocabulary_size must be at least 4, got {vocabulary_size}.")
        if num_negative_samples == "auto":
            num_negative_samples = from_options(config, negatives=None)["negatives"] or None
        elif num_negative_samples is not None:
            if not isinstance(num_negative_samples, numbers.Integral) or num_negative_samples < 1:
                raise ValueError(
                    "num_negative_samples must be 'auto', a positive integer or None, got "
                    f"{num_negative_samples!r}."
                )
            num_negative_samples = int(num_negative_samples)
        values = from_options(
            config,
            batch_size=batch_size,
            unroll_steps=unroll_steps,
            dropout=dropout,
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
        self.batch_size = values["batch_size"]
        self.unroll_steps = values["unroll_steps"]
        self.dropout = values["dropout"]
        self.num_negative_samples = num_negative_samples
        self.share_embedding_softmax = values["share_embedding_softmax"]
        self.carry_state = carry_state
        self.backbone = Backbone(config, self.dropout, dtype=self.dtype_policy, name="backbone")
        self.softmax = WordSoftmax(
            vocabulary_size,
            num_negative_samples=num_negative_samples if self.is_sampled else None,
            has_kernel=not self.share_embedding_softmax,
            dtype=self.dtype_policy,
            name="softmax",
        )
        self.perplexity = Perplexity(num_directions=config.num_directions, name="perplexity")
        self.build()

    def build(self, input_shape=None):
        if self.built:
            return
        config = self.config
        self.backbone.build()
        self.softmax.build((None, config.projection_dim))
        # Evaluation has a state of its own: it must not disturb that of training.
        self.training_state = self._add_state("training") if self.carry_state else None
        self.evaluation_state = self._add_state("evaluation") if self.carry_state else None
        self.built = True

    def _add_state(self, name):
        options = {"aggregation": "only_first_replica"}
        return CarriedState(self, self.backbone, self.batch_size, name, **options)

    @property
    def token_encoder(self) -> keras.layers.Layer:
        """The layer from ids to token vectors; see `Backbone`."""
        return self.backbone.token_encoder

    @property
    def bilm(self) -> BiLMStack:
        """The LSTMs over token vectors."""
        return self.backbone.bilm

    @property
    def is_sampled(self) -> bool:
        """Whether training compares each word with a sample of the others, not with all."""
        n = self.num_negative_samples
        return n is not None and n < self.vocabulary_size

    @property
    def softmax_kernel(self) -> keras.Variable:
        """The table `(V, P)` of the softmax: the token encoder's where they share one."""
        if self.share_embedding_softmax:
            return self.token_encoder.embedding
        return self.softmax.kernel

    def call(self, inputs, training=False):
        streams = self.token_vectors(inputs)
        carried = self.training_state if training else self.evaluation_state
        if carried is None:
            state = self.zero_state(ops.shape(streams[0])[0])
            return self.bilm.read_streams(streams, state, training)[0]
        state = tuple(map(own_rows, carried.read()))
        if streams[0].shape[0] not in (None, state[0].shape[0]):
            raise ValueError(
                f"A batch of {streams[0].shape[0]} rows does not fit the {self.batch_size} states "
                "that this model carries: make model and corpus with the same batch_size."
            )
        tops, state = self.bilm.read_streams(streams, state, training)
        carried.write(tuple(map(all_rows, state)))
        return tops

    def token_vectors(self, inputs: dict[str, Any]) -> list[Any]:
        """The token vectors of a batch, a list of floats `(B, T, P)`, one for each direction."""
        suffixes = SUFFIXES[: self.config.num_directions]
        if not self.config.reads_characters:
            return [self.token_encoder(inputs[f"token_ids{suffix}"] + 1) for suffix in suffixes]
        if "word_characters" in inputs:
            words = self.token_encoder(inputs["word_characters"])
            return [gather(words, inputs[f"word_index{suffix}"]) for suffix in suffixes]
        return [self.token_encoder(inputs[f"tokens_characters{suffix}"]) for suffix in suffixes]

    def zero_state(self, batch_size: int) -> tuple[Any, Any]:
        """The state (h, c) of LSTMs that have read nothing: zeros `(batch_size, D, L, ...)`."""
        shapes = ((batch_size, *shape) for shape in self.bilm.state_shapes)
        return tuple(ops.zeros(shape, self.bilm.state_dtype) for shape in shapes)

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
        return share(sum(ops.sum(loss * weights) for loss in losses) / (len(losses) * total))

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
            values = from_options(self.config, learning_rate=None, clip_norm=None)
            rate = values["learning_rate"] or LEARNING_RATES["adagrad"]
            optimizer = bilm_tf_optimizer(self.unroll_steps, rate, values["clip_norm"] or None)
        if jit_compile == "auto" and keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            jit_compile = bool(tf.config.list_physical_devices("GPU"))
        optimizer = keras.optimizers.get(optimizer)
        if self.variable_dtype == "bfloat16" and getattr(optimizer, "beta_2", 0) > 1 - 2**-9:
            raise ValueError(BFLOAT16_ADAM)
        super().compile(optimizer=optimizer, jit_compile=jit_compile, **kwargs)

    def compile_from_config(self, config):
        """Compiles a loaded model as the saved one was."""
        # Keras does not call a `compile` that is overridden.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Any = None,
        total_steps: int | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains on a `LanguageModelCorpus`, or on a dataset of its batches.

        With a corpus an epoch is `corpus.batches_per_epoch` batches of its endless stream, unless
        `steps_per_epoch` says otherwise. The carried LSTM state starts from zero in each epoch.

        Args:
            x: A `LanguageModelCorpus`, or what `keras.Model.fit` takes.
            callbacks: List of Keras callbacks. With a `TrainingCheckpoint` among them a training
                run that was stopped is resumed, with the history of one that never was.
            total_steps: With a corpus: train so many steps in place of `epochs`.
            epochs, verbose, **kwargs: As for `keras.Model.fit`. `validation_data` may be an
                `EvaluationCorpus`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: if the corpus is too small, is an `EvaluationCorpus` or does not fit the
                model, or arguments contradict each other.
        """
        callbacks = self._with_states(callbacks)
        kwargs["validation_data"] = self._evaluation_data(kwargs.get("validation_data"))
        kwargs.update(epochs=epochs, verbose=verbose)
        if isinstance(x, LanguageModelCorpus):
            if y is not None or batch_size is not None:
                raise ValueError(
                    "A LanguageModelCorpus has its own targets and batch size: leave out y and "
                    "batch_size."
                )
            return self._fit_corpus(x, callbacks, total_steps, **kwargs)
        if isinstance(x, EvaluationCorpus):
            raise ValueError("Training needs a LanguageModelCorpus, got an EvaluationCorpus.")
        if total_steps is not None:
            raise ValueError("total_steps needs a LanguageModelCorpus; give epochs.")
        if any(isinstance(one, TrainingCheckpoint) for one in callbacks):
            raise ValueError(
                "A TrainingCheckpoint needs a LanguageModelCorpus; with other data use "
                "keras.callbacks.BackupAndRestore."
            )
        return super().fit(x, y, batch_size=batch_size, callbacks=callbacks, **kwargs)

    def _fit_corpus(
        self, corpus, callbacks, num_steps, epochs, steps_per_epoch=None, initial_epoch=0, **kwargs
    ):
        self._check_corpus(corpus)
        steps = steps_per_epoch or corpus.batches_per_epoch
        if steps < 1:
            raise ValueError(
                f"The corpus is too small for one batch of {corpus.batch_size} x "
                f"{corpus.unroll_steps} words: make batch_size or unroll_steps smaller."
            )
        checkpoints = [one for one in callbacks if isinstance(one, TrainingCheckpoint)]
        if len(checkpoints) > 1:
            raise ValueError(f"Give one TrainingCheckpoint at most, got {len(checkpoints)}.")
        if checkpoints and initial_epoch:
            raise ValueError("A TrainingCheckpoint knows the epoch: leave out initial_epoch.")
        first_step, earlier = initial_epoch * steps, []
        for checkpoint in checkpoints:
            first_step, earlier = checkpoint.resume(self, corpus), list(checkpoint.history)
        check_same_everywhere(
            steps,
            f"This process has {steps:,} steps in an epoch, another one has not: give all of them "
            "the same steps_per_epoch.",
        )
        plan = EpochPlan(steps, num_steps or epochs * steps, first_step)
        plan.check_steps_per_execution(self.steps_per_execution)
        begin = EpochBegin(plan)
        for checkpoint in checkpoints:
            checkpoint.follow(begin)
        first_batch = corpus.num_batches - plan.first_step
        hold = checkpoints[0].signals_held_back() if checkpoints else contextlib.nullcontext()
        with hold, _training_data(corpus, lambda: first_batch + begin.step) as data:
            history = super().fit(
                data,
                callbacks=[begin, *callbacks, EpochEnd(begin)],
                epochs=plan.end_epoch,
                initial_epoch=plan.initial_epoch,
                steps_per_epoch=steps,
                shuffle=False,
                **kwargs,
            )
        _prepend(history, earlier)
        return history

    def evaluate(
        self, x: Any = None, *args: Any, callbacks: Any = None, **kwargs: Any
    ) -> float | list[float] | dict[str, float]:
        """The loss and perplexities of a text, or a dataset of batches, by the full softmax.

        Takes an `EvaluationCorpus`, or what `keras.Model.evaluate` takes. The LSTM state is carried
        from batch to batch; for scores that do not depend on the batch size see `perplexity`.

        Raises:
            ValueError: if `x` is a `LanguageModelCorpus`, whose stream does not end.
        """
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks = self._with_states(callbacks)
        return super().evaluate(self._evaluation_data(x), *args, callbacks=callbacks, **kwargs)

    def _with_states(self, callbacks):
        states = CarriedStates(self.batch_size * self.unroll_steps)
        return [states, *keras.tree.flatten(callbacks or [])]

    def _evaluation_data(self, x):
        """An `EvaluationCorpus` as Keras takes it; other data unchanged."""
        if isinstance(x, LanguageModelCorpus):
            raise ValueError(
                "A LanguageModelCorpus is an endless stream for training: evaluate on an "
                "EvaluationCorpus of the same text."
            )
        if not isinstance(x, EvaluationCorpus):
            return x
        self._check_corpus(x)
        if keras.backend.backend() != "tensorflow":
            return _EvaluationBatches(x)
        import tensorflow as tf

        return x.dataset().apply(tf.data.experimental.assert_cardinality(x.num_batches))

    def _check_corpus(self, corpus):
        """Raises ValueError if a corpus does not fit this model."""
        own = {
            "vocabulary size": self.vocabulary_size,
            "bidirectional": self.config.bidirectional,
            "max_characters_per_token": self.config.row_width or None,
        }
        # Several processes that train together have a part of the rows each.
        if self.carry_state and corpus.batch_size * corpus.shard[1] != self.batch_size:
            own["batch_size"] = self.batch_size
        if isinstance(corpus, LanguageModelCorpus):
            own["unroll_steps"] = self.unroll_steps
        found = {**vars(corpus), "vocabulary size": len(corpus.vocabulary)}
        different = [
            f"{name} is {found[name]} in the corpus, {value} in the model"
            for name, value in own.items()
            if found[name] != value
        ]
        if different:
            raise ValueError(
                f"The corpus does not fit the model: {'; '.join(different)}. Make both with the "
                "same vocabulary and arguments; a model that reads whole words needs a corpus with "
                "max_characters_per_token=None."
            )

    def reset_states(self) -> None:
        """Sets the LSTM state that training carries from window to window to zero."""
        if self.training_state is not None:
            self.training_state.reset()

    def reset_evaluation_states(self) -> None:
        """Sets the LSTM state that evaluation carries from window to window to zero."""
        if self.evaluation_state is not None:
            self.evaluation_state.reset()

    def export_hdf5(self, folder: str | os.PathLike, vocabulary: Vocabulary | None = None) -> None:
        """Writes the files that `ElmoLayer`, bilm-tf and AllenNLP load, and the softmax.

        Args:
            folder: Where to write; made if it does not exist. Files options.json, weights.hdf5 and
                softmax.hdf5 (`softmax/W` (V, P) and `softmax/b` (V,)) are replaced.
            vocabulary: The model's `Vocabulary`, for a vocabulary.txt beside them, which
                `load_language_model` and `keras-elmo evaluate` read.

        Raises:
            FileExistsError: if a vocabulary.txt is there already and none is given.
            ValueError: if a weight is not finite, or the vocabulary is of another size.
        """
        path = Path(folder) / "vocabulary.txt"
        if vocabulary is None and path.exists():
            raise FileExistsError(
                f"{path} may be that of another model: give the vocabulary of this one, or choose "
                "another folder."
            )
        self.check_vocabulary(vocabulary)
        options = {
            **self.config.training_options,
            "batch_size": self.batch_size,
            "unroll_steps": self.unroll_steps,
            "dropout": self.dropout,
            "sample_softmax": self.is_sampled,
            "n_negative_samples_batch": self.num_negative_samples,
            "share_embedding_softmax": self.share_embedding_softmax,
        }
        config = dataclasses.replace(
            self.config, vocabulary_size=self.vocabulary_size, training_options=options
        )
        softmax = self.softmax_kernel, self.softmax.bias
        write_model(folder, self.backbone, softmax=softmax, vocabulary=vocabulary, config=config)

    def load_hdf5(self, model: Any) -> bool:
        """Loads the weights of a model, and the softmax.hdf5 beside them, if any.

        Args:
            model: The folder of `export_hdf5`, or whatever else `ElmoLayer` takes.

        Returns:
            Whether the softmax was loaded too; otherwise it is unchanged.

        Raises:
            FileNotFoundError: if a file is missing.
            ConnectionError: if a download failed.
            ValueError: if the files are of another architecture or vocabulary size.
        """
        with locate(model) as files:
            softmax = read_softmax(files.softmax) if files.softmax else None
            if softmax and len(softmax[1]) != self.vocabulary_size:
                raise ValueError(
                    f"{files.softmax} belongs to a vocabulary of {len(softmax[1]):,} words, this "
                    f"model predicts {self.vocabulary_size:,}. Load it into a model of that size, "
                    "and take over the words in both with `start_from`."
                )
            load_weights(self.backbone, files.weights)
        if softmax is None:
            return False
        for variable, value in zip((self.softmax_kernel, self.softmax.bias), softmax):
            variable.assign(value)
        return True

    def load_tf1_checkpoint(self, path: str | os.PathLike) -> int:
        """Loads a training checkpoint of bilm-tf: weights, softmax and, when compiled, Adagrad.

        Args:
            path: Its prefix such as `"run/model.ckpt-30"`, or its folder.

        Returns:
            The steps it was trained for.

        Raises:
            FileNotFoundError: if there is no such checkpoint.
            ImportError: if TensorFlow is not installed.
            ValueError: if it is of another architecture or vocabulary size.
        """
        values, slots, steps = read_tf1_checkpoint(self.config, path)
        if len(values["softmax/b"]) != self.vocabulary_size:
            raise ValueError(
                f"The checkpoint predicts {len(values['softmax/b']):,} words, this model "
                f"{self.vocabulary_size:,}."
            )
        for variable, value in self._by_variable(values):
            variable.assign(value)
        optimizer = self.optimizer if self.compiled else None
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales losses
        if slots and isinstance(optimizer, keras.optimizers.Adagrad):
            if not optimizer.built:
                optimizer.build(self.trainable_variables)
            # bilm-tf's gradients are larger by the factor unroll_steps: see bilm_tf_optimizer.
            scale = self.unroll_steps**2
            variables = self.trainable_variables
            accumulators = dict(zip(map(id, variables), optimizer.variables[-len(variables) :]))
            for variable, value in self._by_variable(slots):
                accumulators[id(variable)].assign(value / scale)
            optimizer.iterations.assign(steps)
        return steps

    def _by_variable(self, arrays):
        """Pairs of a variable and its part of arrays that are named as in `weight_table`."""
        for entry in weight_table(self.config):
            yield from variables_and_values(self.backbone, entry, arrays[entry.name])
        if not self.share_embedding_softmax:
            yield self.softmax.kernel, arrays["softmax/W"]
        yield self.softmax.bias, arrays["softmax/b"]

    def check_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """Raises ValueError if a vocabulary is given and not of this model's size."""
        if vocabulary is not None and len(vocabulary) != self.vocabulary_size:
            raise ValueError(
                f"The vocabulary has {len(vocabulary):,} words, the model predicts "
                f"{self.vocabulary_size:,}: give the one that the model was trained with."
            )

    def start_from(
        self,
        other: "BidirectionalLanguageModel",
        vocabulary: Vocabulary | None = None,
        other_vocabulary: Vocabulary | None = None,
    ) -> int:
        """Takes over the weights of another language model, to fine-tune it.

        Args:
            other: A `BidirectionalLanguageModel` of the same architecture.
            vocabulary, other_vocabulary: The `Vocabulary` of each. Where they differ, rows of the
                softmax (and of an embedding of whole words) are taken over for the words in both.

        Returns:
            How many words of this model were in the other's vocabulary.

        Raises:
            ValueError: if the architectures differ, a vocabulary is not of its model's size, or the
                sizes differ and no vocabularies are given.
        """
        own, found = (
            dataclasses.replace(m.config, vocabulary_size=None, training_options={})
            for m in (self, other)
        )
        if own != found:
            raise ValueError(f"The other model has another architecture: {found}, here {own}.")
        for words, model in ((vocabulary, self), (other_vocabulary, other)):
            model.check_vocabulary(words)
        rows: Sequence[int] = range(self.vocabulary_size)
        other_rows = rows
        if vocabulary and other_vocabulary and vocabulary != other_vocabulary:
            places = {word: i for i, word in enumerate(other_vocabulary.words)}
            rows = [i for i, word in enumerate(vocabulary.words) if word in places]
            other_rows = [places[vocabulary.words[i]] for i in rows]
        elif self.vocabulary_size != other.vocabulary_size:
            raise ValueError(
                f"The other model predicts {other.vocabulary_size:,} words, this one "
                f"{self.vocabulary_size:,}: give both vocabularies."
            )
        self.bilm.set_weights(other.bilm.get_weights())
        if self.config.reads_characters:
            self.token_encoder.set_weights(other.token_encoder.get_weights())
        tables = [(self.softmax.bias, other.softmax.bias)]
        if not self.share_embedding_softmax:
            tables.append((self.softmax.kernel, other.softmax_kernel))
        if not self.config.reads_characters:
            tables.append((self.token_encoder.embedding, other.token_encoder.embedding))
        for variable, source in tables:
            values = np.array(ops.convert_to_numpy(variable.value))
            values[rows] = ops.convert_to_numpy(source.value)[other_rows]
            variable.assign(values)
        return len(rows)

    def initialize_bias(self, counts: np.ndarray) -> None:
        """Sets the softmax's bias to the log frequency of each word, from `Vocabulary.counts`.

        A sampled softmax hardly ever draws rare words, and takes long to learn that they are rare.
        """
        counts = np.asarray(counts, "float64") + 1
        self.softmax.bias.assign(np.log(counts / counts.sum()).astype("float32"))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict()}


def _prepend(history, rows):
    """Puts the epochs before a resume into the history of Keras."""
    history.epoch[:0] = [row["epoch"] for row in rows]
    for name in {name: None for row in rows for name in row if name not in ("epoch", "step")}:
        earlier = [row[name] for row in rows if name in row]
        history.history[name] = earlier + history.history.get(name, [])


@contextlib.contextmanager
def _training_data(corpus, position):
    """The endless stream as Keras takes it, from the batch that `position()` returns."""

    def source():
        # Keras may take a look at a batch before it begins.
        corpus.go_to(position())
        return corpus.endless()

    uses_tensorflow = keras.backend.backend() == "tensorflow"
    batches = corpus.dataset(source) if uses_tensorflow else prefetched(source())
    try:
        yield batches if uses_tensorflow else ((batch,) for batch in batches)
    finally:
        if not uses_tensorflow:
            batches.close()
        # What was read ahead and not used comes again.
        corpus.go_to(position())


class _EvaluationBatches(keras.utils.PyDataset):
    """The batches of an `EvaluationCorpus`, prefetched, where there is no tf.data."""

    def __init__(self, corpus):
        super().__init__()
        self._corpus = corpus
        self._batches = None

    @property
    def num_batches(self):
        return self._corpus.num_batches

    def on_epoch_end(self):
        self._batches = None

    def __getitem__(self, index):
        # Keras asks for one after the other.
        if self._batches is None:
            self._batches = prefetched(self._corpus)
        return (next(self._batches),)
