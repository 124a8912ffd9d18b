"""Products of 8-bit integers, on TensorFlow and PyTorch."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

_LARGEST = 127
_ZERO = 128
"""What stands for 0 where integers have no sign."""

_NO_PRODUCTS = (
    'dtype="int8" (--compute-dtype int8) does not work here: it needs a processor with fast '
    "products of 8-bit integers (AVX-512 VNNI or AMX) and a build of the backend that uses them. "
    "Leave dtype out, or take the other of TensorFlow and PyTorch."
)


class Int8Kernel:
    """A kernel `(M, N)` quantized to 8 bits: multiplies vectors `(B, N)`, quantized too.

    A row w of the kernel and a vector x become integers of at most 127 times their scales,
    `max|w| / 127` and `max|x| / 127`; the integers are multiplied exactly. A vector's product does
    not depend on the rest of the batch.

    Reference: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference".
    """

    def __init__(self, kernel: np.ndarray) -> None:
        scales = np.abs(kernel).max(axis=1) / _LARGEST
        scales[scales == 0] = 1
        self._scales = scales.astype("float32")
        values = np.rint(kernel / self._scales[:, None]).astype("int8")
        make = {"tensorflow": _tensorflow_product, "torch": _torch_product}
        self._product = make[keras.backend.backend()](values)

    def __call__(self, x: Any) -> Any:
        """About `x kernel.T`, float32 `(B, M)`, for float32 `x`."""
        sizes = ops.max(ops.abs(x), axis=-1, keepdims=True)
        # A vector of zeros stays one.
        scales = ops.maximum(sizes, 1e-30) / _LARGEST
        products = self._product(ops.round(x / scales))
        return products * (scales * ops.convert_to_tensor(self._scales))


def check_int8_products() -> None:
    """Raises ValueError if 8-bit integers have no fast products here, or wrong ones."""
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "torch"):
        raise ValueError(
            f'dtype="int8" needs the TensorFlow or the PyTorch backend; with {backend} products of '
            "8-bit integers are slower than those of floats. Use dtype=None."
        )
    # Where sums of two products are kept in 16 bits, the largest integers overflow.
    kernel, x = np.ones((32, 64), "float32"), np.ones((2, 64), "float32")
    x[1] = -1
    try:
        products = ops.convert_to_numpy(Int8Kernel(kernel)(ops.convert_to_tensor(x)))
    except Exception as error:  # whatever a backend raises that lacks the operation
        raise ValueError(_NO_PRODUCTS) from error
    if not np.allclose(products, x @ kernel.T, rtol=1e-5):
        raise ValueError(_NO_PRODUCTS)


def graph_of_constants(function: Callable, *signature: tuple) -> Callable:
    """A function of tensors whose graph holds large constants, for TensorFlow.

    `signature` has the shape and dtype of each tensor. TensorFlow's graph optimizer writes and
    parses constants as text several times, which takes 0.15 s for each megabyte; here it is left
    out. Only for functions that are called eagerly and return one tensor.
    """
    import tensorflow as tf

    specs = [tf.TensorSpec(shape, dtype) for shape, dtype in signature]
    concrete = tf.function(function).get_concrete_function(*specs)
    (output,) = concrete.outputs
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True

    def call(*args):
        (result,) = tf.raw_ops.PartitionedCall(
            args=[*map(tf.convert_to_tensor, args), *concrete.captured_inputs],
            Tout=[output.dtype],
            f=concrete,
            config_proto=config.SerializeToString(),
        )
        return result

    return call


def _tensorflow_product(values):
    """A function: integers `(B, N)` of at most 127, as floats, to floats `x values.T`."""
    import tensorflow as tf

    # The operation takes unsigned numbers at the left: 128 is added to them, and the bias takes it
    # off again.
    surplus = _ZERO * values.sum(axis=1, dtype="int32")
    bias = (-surplus).astype("int32").view(tf.qint32.as_numpy_dtype)
    values = np.ascontiguousarray(values.T).view(tf.qint8.as_numpy_dtype)

    def product(x):
        sums, _, _ = tf.raw_ops.QuantizedMatMulWithBias(
            a=tf.bitcast(tf.cast(x + _ZERO, tf.uint8), tf.quint8),
            # Reordered for the processor only once where both are constants of the graph.
            b=tf.constant(values, tf.qint8),
            bias=tf.constant(bias, tf.qint32),
            min_a=0.0,
            max_a=255.0,
            min_b=-127.0,
            max_b=127.0,
            Toutput=tf.qint32,
            input_quant_mode="SCALED",
        )
        return tf.cast(tf.bitcast(sums, tf.int32), tf.float32)

    return product


def _torch_product(values):
    import torch

    scales = torch.ones(len(values))
    zeros = torch.zeros(len(values), dtype=torch.long)
    packed = torch.ops.onednn.qlinear_prepack(torch.from_numpy(values), None)

    def product(x):
        unsigned = (x + _ZERO).to(torch.uint8), 1.0, _ZERO
        result = None, 1.0, 0, torch.float32, "none", [], ""
        return torch.ops.onednn.qlinear_pointwise(*unsigned, packed, scales, zeros, *result)

    return product
