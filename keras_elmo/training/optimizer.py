"""The optimizers of a training, and the schedules of their learning rate."""

import keras

from keras_elmo.training.distribution import jointly_clipped

SLOTS = {"adagrad": 1, "adam": 2}
"""Numbers that an optimizer keeps for each weight."""


@keras.saving.register_keras_serializable("keras_elmo")
class ClippedAdagrad(keras.optimizers.Adagrad):
    """Adagrad as TensorFlow 1 computes it, clipping the gradient of all replicas as a whole.

    Keras clips the part of each replica by itself; here it finds nothing left to clip. On
    TensorFlow each variable is updated in one pass over its numbers instead of many.
    """

    def apply(self, grads, trainable_variables=None):
        return super().apply(jointly_clipped(grads, self.global_clipnorm), trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        if keras.backend.backend() != "tensorflow":
            super().update_step(gradient, variable, learning_rate)
            return
        import tensorflow as tf

        accumulator = self._accumulators[self._get_variable_index(variable)].value
        tf.raw_ops.ResourceApplyAdagradV2(
            var=variable.handle,
            accum=accumulator.handle,
            lr=tf.cast(learning_rate, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=tf.cast(gradient, variable.dtype),
        )


def bilm_tf_optimizer(
    unroll_steps: int = 20,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 0.2,
    clip_norm: float | None = 10.0,
) -> keras.optimizers.Adagrad:
    """The optimizer of bilm-tf: Adagrad, after clipping by the global norm.

    bilm-tf takes the gradient of the loss times `unroll_steps`. Adagrad's step changes with such a
    factor only through its initial accumulator: dividing that by the factor's square, and the bound
    on the norm by the factor, gives the same steps with the plain loss.

    Args:
        unroll_steps: Words of a window.
        learning_rate: A float, or a Keras schedule.
        clip_norm: Bound on the global norm of bilm-tf's scaled gradient, or `None`.

    Returns:
        A `keras.optimizers.Adagrad`.

    Example:

    >>> model.compile(bilm_tf_optimizer(model.unroll_steps, learning_rate=0.1))

    Reference: BILM_TF.md, "Language-model training"; Duchi et al. 2011.
    """
    return ClippedAdagrad(
        learning_rate=learning_rate,
        initial_accumulator_value=1.0 / unroll_steps**2,
        epsilon=0.0,
        global_clipnorm=None if clip_norm is None else clip_norm / unroll_steps,
    )


def make_optimizer(
    name: str,
    *,
    learning_rate: float,
    schedule: str,
    warmup_steps: int,
    num_steps: int,
    clip_norm: float | None,
    unroll_steps: int,
) -> keras.optimizers.Optimizer:
    """An optimizer by its name, with its schedule.

    Args:
        name: `"adagrad"` or `"adam"`.
        learning_rate: The highest learning rate.
        schedule: `"constant"` or `"cosine"`.
        warmup_steps: With `"cosine"`: steps over which the rate rises from zero.
        num_steps: Steps of the whole training.
        clip_norm: As for `bilm_tf_optimizer`.
        unroll_steps: Words of a window.
    """
    rate = learning_rate
    if schedule == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warmup_steps else learning_rate,
            decay_steps=max(1, num_steps - warmup_steps),
            warmup_target=learning_rate if warmup_steps else None,
            warmup_steps=warmup_steps,
        )
    if name == "adagrad":
        return bilm_tf_optimizer(unroll_steps, rate, clip_norm)
    clip_norm = None if clip_norm is None else clip_norm / unroll_steps
    return keras.optimizers.Adam(rate, global_clipnorm=clip_norm)
