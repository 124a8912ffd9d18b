"""A Keras model that reads GloVe and ELMo, for the task programs to subclass."""

import inspect

import keras
import numpy as np

from attention import concatenate
from features import SentenceBatches, WordTable
from keras_elmo import WeightedLayerSum
from reading import Data, sentences_of


class TaskModel(keras.Model):
    """Word vectors and ELMo; subclasses add the layers of their task.

    A subclass makes its layers in `__init__`, which ends with `self.build()`. Each argument is an
    attribute of the same name.

    Args:
        words: The words that have vectors; empty for no word vectors.
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

    batches = SentenceBatches
    """The kind of batches that the model reads."""

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
        if not words and (elmo is None or placement == "output"):
            raise ValueError(
                "The model needs word vectors or ELMo at its input. Without GloVe, a training text "
                "needs words that occur at least twice; with ELMo only at the output, use "
                "--features glove+elmo."
            )
        self.words = list(words)
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
        vectors = inputs.vectors
        model = cls(
            words=inputs.words.words,
            word_dim=50 if vectors is None else vectors.shape[1],
            train_words=vectors is None,
            elmo=inputs.elmo,
            tokens_only=features == "elmo-tokens",
            last_layer=settings.last_layer,
            l2=settings.l2,
            units=settings.units,
            **options,
        )
        if vectors is not None:
            model.word_vectors.set_weights([vectors])
        return model

    def build(self, input_shape=None):
        """Builds the layers by reading a word."""
        if not self.built:
            self.built = True
            example = self.example(np.ones((1, 8), "int32"))
            self.call(keras.tree.map_structure(keras.ops.convert_to_tensor, example))

    def example(self, words):
        """Inputs of the model, by the numbers of words `(B, T)`."""
        inputs = {"words": words}
        if self.elmo is not None:
            config = self.elmo.config
            shape = (len(words), config.num_layers + 1, words.shape[1], config.output_dim)
            inputs["layers"] = np.zeros(shape, "float32")
        return inputs

    def read(self, inputs, mask, layer=None, training=None, extra=None):
        """The output of the task's first layer for a sentence, with ELMo at its input and output.

        Without a layer: the vectors of the words, extra ones, and ELMo's.
        """
        words = None if self.word_vectors is None else self.word_vectors(inputs["words"])
        layers = None
        if self.elmo is not None:
            layers = inputs["layers"] if "layers" in inputs else self.elmo(inputs["elmo"])
        if self.tokens_only:
            layers = layers[:, :1]
        elmo = None if self.input_mix is None else self.input_mix(layers, mask=mask)
        x = self.drop(concatenate(words, extra, elmo), training=training)
        x = x if layer is None else layer(x, mask=mask)
        if self.output_mix is None:
            return x
        return concatenate(x, self.drop(self.output_mix(layers, mask=mask), training=training))

    def batches_of(self, data, **options):
        """Batches of `Data`, or of sentences: strings to be split, or lists of tokens."""
        data = data if isinstance(data, Data) else Data(sentences_of(data))
        return self.batches(data, self.word_table, elmo=self.elmo, **options)

    def predict_items(self, batches):
        """The predictions for the items of batches, in the order of the items."""
        found = [None] * len(batches.data.items)
        for number, rows in enumerate(batches.batches):
            inputs, _ = batches[number]
            outputs = self.predict_on_batch(inputs)
            for row, item in zip(rows, self.decode(outputs, inputs, batches.sizes[rows])):
                found[row] = item
        return found

    def decode(self, outputs, inputs, sizes):
        """The predictions for the items of a batch, given its outputs and numbers of tokens."""
        return outputs.argmax(-1).tolist()

    def get_config(self):
        signatures = [inspect.signature(cls.__init__) for cls in (TaskModel, type(self))]
        names = dict.fromkeys(name for signature in signatures for name in signature.parameters)
        own = {x: getattr(self, x) for x in names if x not in ("self", "kwargs", "options")}
        elmo = None if self.elmo is None else keras.layers.serialize(self.elmo)
        return {**super().get_config(), **own, "elmo": elmo}

    @classmethod
    def from_config(cls, config):
        elmo = config.pop("elmo")
        return cls(elmo=None if elmo is None else keras.layers.deserialize(elmo), **config)
