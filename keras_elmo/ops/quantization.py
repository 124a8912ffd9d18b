"""A biLM that multiplies 8-bit integers: for embedding only, on TensorFlow and PyTorch."""

import dataclasses

import keras
import numpy as np
from keras import ops

from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.ops.lstm import ForwardStep
from keras_elmo.ops.scan import scan

_LARGEST = 127
_ZERO = 128
"""What stands for 0 where integers have no sign."""


class Int8BiLM(BiLMStack):
    """A `BiLMStack` whose kernels, and what they are multiplied with, are rounded to 8 bits.

    Each row of a kernel, and each vector at each step, has a scale of its own, so that vectors do
    not depend on the batch. Gates, cells, biases, residuals and clips stay in float32. Processors
    multiply such integers several times as fast as floats, and read a quarter of the bytes.

    Args:
        bilm: A built `BiLMStack`, whose weights of now are rounded.

    Raises:
        ValueError: if the backend or the processor has no fast products of 8-bit integers.

    Reference: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference".
    """

    def __init__(self, bilm):
        _check_products()
        super().__init__(**bilm.get_config())
        self.forward_lstms = [_Int8LSTM(lstm) for lstm in bilm.forward_lstms]
        self.backward_lstms = [_Int8LSTM(lstm) for lstm in bilm.backward_lstms]
        self.built = True


class _Int8LSTM:
    """What a `ProjectedLSTM` computes, with the sentences of a batch first."""

    def __init__(self, lstm):
        self.reverse = lstm.reverse
        self._recurrence = dataclasses.replace(
            lstm.recurrence(), compute_dtype="float32", state_dtype="float32"
        )
        kernels = (lstm.kernel, lstm.recurrent_kernel, lstm.projection_kernel)
        kernels = [Int8Kernel(_to_numpy(kernel)) for kernel in kernels if kernel is not None]
        self._kernel, *self._kernels = kernels
        self._bias = _to_numpy(lstm.running_bias())

    def __call__(self, inputs, mask=None, initial_state=None, return_state=True):
        del return_state  # always
        batch_size, num_steps, dim = ops.shape(inputs)
        rows = ops.reshape(ops.transpose(ops.cast(inputs, "float32"), (1, 0, 2)), (-1, dim))
        z = self._kernel(rows) + ops.convert_to_tensor(self._bias)
        z = ops.reshape(z, (num_steps, batch_size, len(self._bias)))
        if initial_state is None:
            dims = self._recurrence.projection_dim, self._recurrence.units
            initial_state = [ops.zeros((batch_size, dim), "float32") for dim in dims]
        steps = (z,)
        if mask is not None:
            valid = ops.expand_dims(ops.transpose(ops.cast(mask, "bool")), 2)
            steps = (z, valid)
        step = _Int8Step(**dataclasses.asdict(self._recurrence))
        state, (outputs, _) = scan(step, initial_state, steps, self._kernels, self.reverse)
        if mask is not None:
            outputs = ops.where(valid, outputs, ops.zeros_like(outputs))
        return ops.transpose(outputs, (1, 0, 2)), state


class _Int8Step(ForwardStep):
    """A time step with tensors `(B, N)`, as the products of integers want them."""

    gates_axis = 1

    def product(self, kernel, x):
        return kernel(x)


class Int8Kernel:
    """A kernel `(M, N)` rounded to 8 bits: floats `(B, N)` to `(B, M)`, rounded on the way.

    A row w of the kernel and a vector x become integers of at most 127 times their scales,
    `max|w| / 127` and `max|x| / 127`; the integers are multiplied exactly.

    Args:
        kernel: NumPy floats `(M, N)`.

    Call arguments:
        x: float32 `(B, N)`.
    """

    def __init__(self, kernel):
        scales = np.abs(kernel).max(axis=1) / _LARGEST
        scales[scales == 0] = 1
        self._scales = scales.astype("float32")
        values = np.rint(kernel / self._scales[:, None]).astype("int8")
        make = {"tensorflow": _tensorflow_product, "torch": _torch_product}
        self._product = make[keras.backend.backend()](values)

    def __call__(self, x):
        sizes = ops.max(ops.abs(x), axis=-1, keepdims=True)
        # A vector of zeros is left as it is.
        scales = ops.maximum(sizes, 1e-30) / _LARGEST
        products = self._product(ops.round(x / scales))
        return products * (scales * ops.convert_to_tensor(self._scales))


def _tensorflow_product(values):
    """A function: integers `(B, N)` of at most 127, as floats, to floats `x values.T`."""
    import tensorflow as tf

    # The operation takes unsigned numbers at the left: 128 is added to them, and taken off again.
    surplus = (_ZERO * values.sum(axis=1, dtype="int32")).astype("int32")
    values = np.ascontiguousarray(values.T).view(tf.qint8.as_numpy_dtype)

    def product(x):
        sums, _, _ = tf.raw_ops.QuantizedMatMulWithBias(
            a=tf.bitcast(tf.cast(x + _ZERO, tf.uint8), tf.quint8),
            # Laid out for the processor only once where it is a constant of the innermost graph.
            b=tf.constant(values, tf.qint8),
            bias=tf.zeros(len(surplus)),
            min_a=0.0,
            max_a=255.0,
            min_b=-127.0,
            max_b=127.0,
            Toutput=tf.qint32,
            input_quant_mode="SCALED",
        )
        return tf.cast(tf.bitcast(sums, tf.int32) - surplus, tf.float32)

    return product


def _torch_product(values):
    """A function: integers `(B, N)` of at most 127, as floats, to floats `x values.T`."""
    import torch

    scales = torch.ones(len(values))
    zeros = torch.zeros(len(values), dtype=torch.long)
    packed = torch.ops.onednn.qlinear_prepack(torch.from_numpy(values), None)

    def product(x):
        return torch.ops.onednn.qlinear_pointwise(
            (x + _ZERO).to(torch.uint8),
            1.0,
            _ZERO,
            packed,
            scales,
            zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )

    return product


def _check_products():
    """Raises ValueError where integers cannot be multiplied, or come out wrong."""
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "torch"):
        raise ValueError(
            f'dtype="int8" needs the TensorFlow or the PyTorch backend; with {backend} products of '
            "8-bit integers are slower than those of floats. Leave the dtype away."
        )
    # Where sums of two products are kept in 16 bits, the largest integers overflow.
    kernel, x = np.full((32, 64), 1.0, "float32"), np.full((2, 64), 1.0, "float32")
    x[1] = -1
    try:
        products = _to_numpy(Int8Kernel(kernel)(ops.convert_to_tensor(x)))
    except Exception as error:
        raise ValueError(
            'dtype="int8" does not work with this processor or this build of the backend: '
            f"{str(error).splitlines()[0]} Leave the dtype away."
        ) from error
    if not np.allclose(products, x @ kernel.T, rtol=1e-5):
        raise ValueError(
            'dtype="int8" gives wrong products on this processor. Leave the dtype away.'
        )


def _to_numpy(tensor):
    return np.array(ops.convert_to_numpy(tensor), dtype="float32")
