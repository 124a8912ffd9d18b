"""Where 8-bit integers can be multiplied fast, and what is said elsewhere."""

from pathlib import Path

import keras
import pytest

from keras_elmo.ops import quantization

CPU = Path("/proc/cpuinfo")


@pytest.mark.skipif(
    keras.backend.backend() == "jax" or not CPU.exists() or "avx512_vnni" not in CPU.read_text(),
    reason="known of TensorFlow and PyTorch on Linux, on processors with AVX-512 VNNI",
)
def test_processors_with_vnni_have_it():
    quantization.check_int8_products()


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX is refused before")
@pytest.mark.parametrize("products", [lambda x: 0 / 0, lambda x: 0 * x[:, :1]])
def test_others_are_told_what_is_needed(products, monkeypatch):
    monkeypatch.setattr(quantization.Int8Kernel, "__call__", lambda self, x: products(x))
    with pytest.raises(ValueError, match="needs a processor with .*AVX-512 VNNI or AMX"):
        quantization.check_int8_products()
