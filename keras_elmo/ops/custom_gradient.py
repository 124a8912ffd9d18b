"""Functions with a custom gradient, on every backend."""

import functools
import itertools
from collections.abc import Callable, Hashable
from typing import Any

import keras


def call_with_gradient(
    forward: Callable, backward: Callable, spec: Hashable, *args: Any
) -> tuple[Any, ...]:
    """Calls a function of tensors that has a custom gradient.

    `keras.ops.custom_gradient` calls the gradient differently on each backend, and on PyTorch
    allows one output only. A gradient that is to be differentiated again raises NotImplementedError
    there.

    Args:
        forward: `(spec, *args) -> (outputs, saved)`, two tuples of tensors, or `None` in `saved`.
        backward: `(spec, saved, upstream) -> gradients`, one for each of `args`, or `None`.
        spec: Settings of both functions.
        *args: Tensors, or `None`.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        return _jax_function()(forward, backward, spec, *args)
    if backend == "torch":
        return _torch_function().apply(forward, backward, spec, *args)
    return _tensorflow_call(forward, backward, spec, args)


def _tensorflow_call(forward, backward, spec, args):
    import tensorflow as tf

    present = tuple(arg is not None for arg in args)

    @tf.custom_gradient
    def call(*tensors):
        rest = iter(tensors)
        outputs, saved = forward(spec, *(next(rest) if here else None for here in present))

        def gradient(*upstream):
            return list(itertools.compress(backward(spec, saved, upstream), present))

        return outputs, gradient

    if not tf.executing_eagerly():
        # TensorFlow never frees a graph in which a custom gradient was defined, nor what it reads.
        # In a graph of its own that is a few operations and no weight. Each call has a new one,
        # since tf2onnx cannot convert a loop that is used twice.
        call = tf.function(call, autograph=False)
    # A variable would have to be named apart; its value is a tensor like any other.
    return call(*map(tf.convert_to_tensor, itertools.compress(args, present)))


@functools.cache
def _jax_function():
    import jax

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
    def call(forward, backward, spec, *args):
        return forward(spec, *args)[0]

    call.defvjp(
        lambda forward, backward, spec, *args: forward(spec, *args),
        lambda forward, backward, spec, saved, upstream: backward(spec, saved, upstream),
    )
    return call


@functools.cache
def _torch_function():
    import torch

    class Call(torch.autograd.Function):
        @staticmethod
        def forward(ctx, forward, backward, spec, *args):
            outputs, saved = forward(spec, *args)
            ctx.spec, ctx.gradient = spec, backward
            ctx.save_for_backward(*saved)
            return outputs

        @staticmethod
        def backward(ctx, *upstream):
            if torch.is_grad_enabled():  # what was saved is cut off from the graph
                raise NotImplementedError(
                    "On PyTorch the gradient of ELMo cannot be differentiated again: leave out "
                    "create_graph=True, or use the TensorFlow backend."
                )
            return (None, None, None, *ctx.gradient(ctx.spec, ctx.saved_tensors, upstream))

    return Call
