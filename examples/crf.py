"""A linear-chain conditional random field as a Keras layer, on every backend.

For other programs to import, as `ner.py` does:

    crf = CRF(tag_names)
    model = keras.Model(inputs, crf(logits))  # a dict of "scores" and the best "tags"
    model.compile(loss={"scores": crf.loss})  # labels are -1 at padding

A sequence of tags `y` of a sentence with logits `x` has the score

    start[y_1] + sum_t x[t, y_t] + sum_t transitions[y_t, y_t+1] + end[y_T]

and the probability `exp(score)` divided by the sum of `exp(score)` over all sequences. The sum and
the best sequence are each computed in one pass over the sentence, which keeps for every tag the
score of all prefixes that end in it (`logsumexp`), or of the best such prefix (`max`).
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_elmo_examples")
class CRF(keras.layers.Layer):
    """Finds the best sequence of tags; its loss makes a given one likely.

    Scores are computed in float32 whatever the dtype policy.

    Args:
        tag_names: The names of the K tags.

    Call arguments:
        inputs: The logits of each tag at each token.
        mask: Booleans `(B, T)`, the valid tokens of a sentence first; all are valid where `None`.

    Input shape:
        Floats `(B, T, K)`.

    Output shape:
        A dict: "scores", float32 `(B, T, K)`, the logits for `loss`, and "tags", int32 `(B, T)`,
        the best sequence by Viterbi's algorithm, 0 where masked.

    Example:

    >>> crf = CRF(["O", "B", "I"])
    >>> logits = np.random.normal(size=(2, 5, 3))
    >>> tags = crf(logits)["tags"]
    >>> crf.loss(tags, logits).shape
    (2,)

    Reference: Lafferty et al. 2001; Collobert et al. 2011, section 3.4.2.
    """

    def __init__(self, tag_names, **kwargs):
        super().__init__(**kwargs)
        self.tag_names = list(tag_names)
        self.num_tags = len(self.tag_names)
        self.supports_masking = True
        self.autocast = False

    def build(self, input_shape):
        self.transitions = self._weight("transitions", (self.num_tags, self.num_tags))
        self.start = self._weight("start", (self.num_tags,))
        self.end = self._weight("end", (self.num_tags,))

    def _weight(self, name, shape):
        initializer = keras.initializers.RandomNormal(stddev=0.1)
        return self.add_weight(
            shape=shape, initializer=initializer, dtype="float32", autocast=False, name=name
        )

    def call(self, inputs, mask=None):
        logits, mask = ops.cast(inputs, "float32"), _boolean_mask(inputs, mask)
        scores = self._prefix_scores(logits, mask, best=True)
        last = _argmax(scores[-1] + ops.expand_dims(self.end, 1))
        transitions = ops.convert_to_tensor(self.transitions)

        def step(tag, inputs):
            scores, has_next = inputs[:-1], inputs[-1:] > 0
            into = ops.take(transitions, tag[0], axis=1)  # (K, B): from each tag to the next one
            tag = ops.where(has_next, _argmax(scores + into), tag)
            return tag, tag

        _, tags = ops.scan(step, last, _with_row(scores, _has_next(mask)), reverse=True)
        tags = ops.transpose(tags[:, 0])
        # A new tensor: with the mask of the old one, Keras would multiply the loss by it.
        return {"scores": logits + 0.0, "tags": ops.where(mask, tags, ops.zeros_like(tags))}

    def loss(self, tags, scores):
        """The negative `log_likelihood`, `(B,)`, of tags that are -1 at padding."""
        tags = ops.cast(tags, "int32")
        if len(scores.shape) == 2:  # of a single tag: Keras has dropped its axis
            scores = ops.expand_dims(scores, -1)
        return -self.log_likelihood(scores, tags, tags >= 0)

    def log_likelihood(self, logits, tags, mask=None):
        """The logarithm of the probability of given tags: at most 0, and 0 for an empty sentence.

        Args:
            logits: Floats `(B, T, K)`.
            tags: Integers `(B, T)`, 0 to K - 1; of any value where masked.
            mask: Booleans `(B, T)`, or `None`.

        Returns:
            float32 `(B,)`.
        """
        if not self.built:
            self.build(logits.shape)
        logits, mask = ops.cast(logits, "float32"), _boolean_mask(logits, mask)
        scores = self._prefix_scores(logits, mask, best=False)
        log_sum = ops.logsumexp(scores[-1] + ops.expand_dims(self.end, 1), axis=0)
        log_probability = self._score(logits, tags, mask) - log_sum
        return ops.where(ops.any(mask, axis=1), log_probability, 0.0)

    def _prefix_scores(self, logits, mask, best):
        """Scores `(T, K, B)` of the best prefix that ends in each tag, or of all together.

        Masked steps repeat the scores of the previous step.
        """
        logits = ops.transpose(logits, (1, 2, 0))
        first = logits[0] + ops.expand_dims(self.start, 1)
        transitions = ops.expand_dims(ops.convert_to_tensor(self.transitions), 2)
        reduce = ops.max if best else ops.logsumexp

        def step(scores, inputs):
            logits, has_previous = inputs[:-1], inputs[-1:] > 0
            pairs = ops.expand_dims(scores, 1) + transitions  # from, to, sentence
            scores = ops.where(has_previous, reduce(pairs, axis=0) + logits, scores)
            return scores, scores

        _, scores = ops.scan(step, first, _with_row(logits, _has_previous(mask)))
        return scores

    def _score(self, logits, tags, mask):
        """The score `(B,)` of given tags."""
        tags = ops.where(mask, ops.cast(tags, "int32"), 0)
        valid = ops.cast(mask, "float32")
        chosen = ops.take_along_axis(logits, ops.expand_dims(tags, 2), axis=2)[:, :, 0]
        steps = ops.take(
            ops.reshape(self.transitions, (-1,)), tags[:, :-1] * self.num_tags + tags[:, 1:]
        )
        num_tokens = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
        last = ops.take_along_axis(tags, ops.maximum(num_tokens - 1, 0), axis=1)[:, 0]
        ends = ops.take(self.start, tags[:, 0]) + ops.take(self.end, last)
        return ends + ops.sum(chosen * valid, axis=1) + ops.sum(steps * valid[:, 1:], axis=1)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_spec(self, inputs, mask=None):
        scores = keras.KerasTensor(inputs.shape, "float32")
        return {"scores": scores, "tags": keras.KerasTensor(inputs.shape[:-1], "int32")}

    def get_config(self):
        return {**super().get_config(), "tag_names": self.tag_names}


def _boolean_mask(logits, mask):
    if mask is None:
        return ops.ones_like(logits[:, :, 0], dtype="bool")
    return ops.cast(mask, "bool")


def _has_previous(mask):
    """Whether each token has a valid token before it, time first: `(T, 1, B)`."""
    mask = ops.expand_dims(ops.transpose(mask), 1)
    return ops.concatenate([ops.zeros_like(mask[:1]), mask[1:]])


def _has_next(mask):
    mask = ops.expand_dims(ops.transpose(mask), 1)
    return ops.concatenate([mask[1:], ops.zeros_like(mask[:1])])


def _with_row(scores, mask):
    """`(T, K + 1, B)`: `ops.scan` on TensorFlow takes one tensor where T is not known."""
    return ops.concatenate([scores, ops.cast(mask, scores.dtype)], axis=1)


def _argmax(scores):
    return ops.cast(ops.argmax(scores, axis=0, keepdims=True), "int32")
