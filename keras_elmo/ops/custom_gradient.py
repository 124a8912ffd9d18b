"""Functions that bring their own gradient, on every backend."""

import functools

import keras


def call_with_gradient(function, *args):
    """Calls a function of tensors that knows its gradient.

    `keras.ops.custom_gradient` calls the gradient differently on each backend, and on PyTorch
    allows one output only.

    Args:
        function: An object, hashable by value, with `forward(*args) -> (outputs, saved)` and
            `backward(saved, upstream) -> gradients`, one for each of the arguments, `None` for what
            is not to be differentiated.
        *args: Tensors, or `None`.

    Returns:
        The outputs, a tuple of tensors.
    """
    backend = keras.backend.backend()
    call = {"tensorflow": _tensorflow_call, "torch": _torch_call}.get(backend, _jax_call)
    return call(function, args)


def _tensorflow_call(function, args):
    import tensorflow as tf

    present = [i for i, arg in enumerate(args) if arg is not None]

    @tf.custom_gradient
    def call(*tensors):
        outputs, saved = function.forward(*_filled(len(args), present, tensors))

        def gradient(*upstream):
            gradients = function.backward(saved, upstream)
            return [gradients[i] for i in present]

        return outputs, gradient

    # A variable would have to be named apart; its value is a tensor like any other.
    return call(*(tf.convert_to_tensor(args[i]) for i in present))


def _jax_call(function, args):
    return _jax_function()(function, *args)


@functools.cache
def _jax_function():
    import jax

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def call(function, *args):
        return function.forward(*args)[0]

    call.defvjp(lambda function, *args: function.forward(*args), lambda f, *rest: f.backward(*rest))
    return call


def _torch_call(function, args):
    return _torch_function().apply(function, *args)


@functools.cache
def _torch_function():
    import torch

    class Call(torch.autograd.Function):
        @staticmethod
        def forward(ctx, function, *args):
            outputs, saved = function.forward(*args)
            ctx.function = function
            ctx.present = [i for i, x in enumerate(saved) if x is not None]
            ctx.num_saved = len(saved)
            ctx.save_for_backward(*(saved[i] for i in ctx.present))
            return outputs

        @staticmethod
        def backward(ctx, *upstream):
            saved = _filled(ctx.num_saved, ctx.present, ctx.saved_tensors)
            return (None, *ctx.function.backward(saved, upstream))

    return Call


def _filled(length, present, tensors):
    """A list with the tensors at the places `present`, and `None` elsewhere."""
    items = [None] * length
    for i, tensor in zip(present, tensors):
        items[i] = tensor
    return items
