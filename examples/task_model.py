"""A Keras model that reads GloVe and ELMo, for the task programs to subclass."""

import keras

from attention import joined
from features import SentenceBatches, WordTable, elmo_layers
from keras_elmo import WeightedLayerSum


class TaskModel(keras.Model):
    """Word vectors and ELMo; subclasses add the layers of their task.

    A subclass makes its layers in `__init__`, which ends with `self.build()`, and builds them in
    `build_task`.

    Args:
        words: The words with vectors of their own; empty for no word vectors.
        word_dim: Size of these vectors.
        train_words: Whether they are trained.
        elmo: An `ElmoLayer` with `output="layers"`, or `None`. It is not trained.
        placement: Where ELMo is added: "input", "output" (of the first layer) or "both".
        tokens_only: Whether to use only its lowest layer, which has no context.
        last_layer: Whether to use only its last layer.
        l2: The paper's lambda on the weights of the mixes, or `None`.
        units: Size of the layers of the task.
        dropout: Fraction to drop of the inputs of layers.
    """

    def __init__(
        self,
        words=(),
        word_dim=50,
        train_words=False,
        elmo=None,
        placement="input",
        tokens_only=False,
        last_layer=False,
        l2=None,
        units=100,
        dropout=0.3,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not words and elmo is None:
            raise ValueError("There is nothing to read: no word occurs twice in the training text.")
        if not words and placement == "output":
            raise ValueError(
                "Expected word vectors at the input, got none: with ELMo only at the output, use "
                "word vectors as well, for example with --features glove+elmo."
            )
        self.word_table = WordTable(words)
        self.word_dim = word_dim
        self.train_words = train_words
        self.elmo = elmo
        self.placement = placement
        self.tokens_only = tokens_only
        self.last_layer = last_layer
        self.l2 = l2
        self.units = units
        self.dropout = dropout

        self.word_vectors = None
        if words:
            self.word_vectors = keras.layers.Embedding(
                len(self.word_table), word_dim, trainable=train_words
            )
        self.input_mix = self._mix("output")
        self.output_mix = self._mix("input")
        self.drop = keras.layers.Dropout(dropout)

    def _mix(self, other_place):
        """The mix at one place, unless ELMo is added only at the other one."""
        if self.elmo is None or self.placement == other_place:
            return None
        return WeightedLayerSum(use_top_only=self.last_layer or self.tokens_only, l2=self.l2)

    @classmethod
    def of(cls, features, inputs, settings, **options):
        """The model of a feature set.

        Args:
            features: One of `harness.FEATURES`.
            inputs: Its `Inputs`.
            settings: The options of the command line.
            **options: Further arguments.
        """
        model = cls(
            words=inputs.words.words,
            word_dim=inputs.word_dim,
            train_words=inputs.vectors is None,
            elmo=inputs.elmo,
            tokens_only=features == "elmo-tokens",
            last_layer=settings.last_layer,
            l2=settings.l2,
            units=settings.units,
            **options,
        )
        if inputs.vectors is not None:
            model.word_vectors.set_weights([inputs.vectors])
        return model

    def build(self, input_shape=None):
        if self.built:
            return
        width = self.word_dim if self.word_vectors is not None else 0
        at_output = 0
        if self.word_vectors is not None:
            self.word_vectors.build((None, None))
        if self.elmo is not None:
            config = self.elmo.config
            num_layers = 1 if self.tokens_only else config.num_layers + 1
            for mix in filter(None, (self.input_mix, self.output_mix)):
                mix.build((None, num_layers, None, config.output_dim))
            width += config.output_dim if self.input_mix is not None else 0
            at_output = config.output_dim if self.output_mix is not None else 0
        self.build_task(width, at_output)
        self.built = True

    def read(self, inputs, mask, layer=None, training=None, further=None):
        """The output of the task's first layer for a sentence, with ELMo at its input and output.

        Without a layer: the vectors of the words, further ones, and ELMo's.
        """
        words = None if self.word_vectors is None else self.word_vectors(inputs["words"])
        layers = None if self.elmo is None else elmo_layers(self.elmo, inputs)
        if self.tokens_only:
            layers = layers[:, :1]
        elmo = None if self.input_mix is None else self.input_mix(layers, mask=mask)
        x = self.drop(joined(words, further, elmo), training=training)
        x = x if layer is None else layer(x, mask=mask)
        if self.output_mix is None:
            return x
        return joined(x, self.drop(self.output_mix(layers, mask=mask), training=training))

    def batches_of(self, sentences, kind=SentenceBatches, **options):
        """Batches of any sentences, lists of tokens, of a kind of `SentenceBatches`."""
        return kind(sentences, self.word_table, elmo=self.elmo, **options)

    def predictions(self, batches):
        """Yields the rows of each of `SentenceBatches`, its inputs, and what the model returns."""
        for number, rows in enumerate(batches.batches):
            inputs, _ = batches[number]
            yield rows, inputs, self.predict_on_batch(inputs)

    def get_config(self):
        return {
            **super().get_config(),
            "words": self.word_table.words,
            "word_dim": self.word_dim,
            "train_words": self.train_words,
            "elmo": None if self.elmo is None else keras.layers.serialize(self.elmo),
            "placement": self.placement,
            "tokens_only": self.tokens_only,
            "last_layer": self.last_layer,
            "l2": self.l2,
            "units": self.units,
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(cls, config):
        elmo = config.pop("elmo")
        return cls(elmo=None if elmo is None else keras.layers.deserialize(elmo), **config)
