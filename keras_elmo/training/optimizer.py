"""The optimizer of bilm-tf."""

import keras

from keras_elmo.training.distribution import jointly_clipped


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


def bilm_tf_optimizer(unroll_steps=20, learning_rate=0.2, clip_norm=10.0):
    """The optimizer of bilm-tf: Adagrad, after clipping by the global norm.

    bilm-tf takes the gradient of the loss times `unroll_steps`. Adagrad does not care for a factor
    but against its initial accumulator: dividing that by the factor's square, and the norm's bound
    by the factor, trains alike with the plain loss.

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
