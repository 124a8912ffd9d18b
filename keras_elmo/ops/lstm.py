"""The recurrence of an LSTM with projection and clips, and its gradient.

Tensors have the batch last: the weights times the state, `R h`, is a product of a large matrix at
the left with a narrow one, which libraries do up to twice as fast as `h R` (they copy what stands
at the right), and the gates are slices of whole rows.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_elmo.ops.custom_gradient import call_with_gradient
from keras_elmo.ops.fusion import fused
from keras_elmo.ops.scan import scan


class LSTMSpec(NamedTuple):
    """The properties of an LSTM except its weights: clips, or `None`, direction and dtypes.

    Products are computed in `compute_dtype`, everything else in `state_dtype`. In `training` the
    gates' inputs are kept for the gradient, which otherwise computes them again.
    """

    cell_clip: float | None = None
    proj_clip: float | None = None
    reverse: bool = False
    compute_dtype: str = "float32"
    state_dtype: str = "float32"
    training: bool = False


def lstm(
    spec: LSTMSpec,
    z: Any,
    valid: Any,
    h: Any,
    c: Any,
    recurrent_kernel: Any,
    projection_kernel: Any,
) -> tuple[Any, Any, Any]:
    """Runs an LSTM of U units, projected to P: outputs `(T, P, B)`, and the state after, h and c.

    The gradient of a kernel is one product over all steps instead of a sum over them.

    Args:
        spec: Static settings of the LSTM.
        z: `W x + b`, floats `(T, 4 * U, B)`, gates i, j, f, o; with the 1 of the forget gate.
        valid: Booleans `(T, 1, B)`, or `None`. Where `False` the output is 0 and the state stays.
        h, c: The output `(P, B)` and the cell `(U, B)` before.
        recurrent_kernel: `(4 * U, P)`.
        projection_kernel: `(P, U)`, or `None`.

    Reference: BILM_TF.md, "LSTM with projection".
    """
    arguments = z, valid, h, c, recurrent_kernel, projection_kernel
    return call_with_gradient(_forward, _backward, spec, *arguments)


def _step(spec, state, inputs, kernels):
    """The new state `(h, c)`, and as outputs that state and in training the gates' inputs."""
    (h, c), (z, valid), (recurrent_kernel, projection_kernel) = state, inputs, kernels
    recurrent = _product(spec, recurrent_kernel, h)
    sums, new_c, new_h = _element_wise(spec, _cell, z, recurrent, c)
    if projection_kernel is not None:
        new_h = _product(spec, projection_kernel, new_h)
        new_h = _clip(ops.cast(new_h, spec.state_dtype), spec.proj_clip)
    new_state = masked(new_h, valid, h), masked(new_c, valid, c)
    return new_state, (*new_state, sums) if spec.training else new_state


def _step_outputs(spec, state, inputs):
    outputs = [(x.shape, spec.state_dtype) for x in state]
    return [*outputs, (inputs[0].shape[1:], spec.compute_dtype)] if spec.training else outputs


def _cell(spec, z, recurrent, c):
    """The gates' inputs, the new cell, and the cell's output, which is not projected yet."""
    sums = ops.cast(z + recurrent, spec.state_dtype)
    i, j, f, o = _gates(sums)
    new_c = _clip(f * c + i * j, spec.cell_clip)
    return ops.cast(sums, spec.compute_dtype), new_c, o * ops.tanh(new_c)


def masked(x: Any, valid: Any, otherwise: Any = None) -> Any:
    """`x` where valid, and `otherwise`, or zeros, elsewhere; `x` where `valid` is `None`."""
    if valid is None:
        return x
    return ops.where(valid, x, ops.zeros_like(x) if otherwise is None else otherwise)


def product_over_time(kernel: Any, inputs: Any, bias: Any = None) -> Any:
    """`kernel @ inputs + bias`, `(T, M, B)`, for all time steps in one product.

    The kernel is `(M, N)`, the inputs are `(T, B, N)`, the bias is `(M,)`, or `None` for none.
    """
    num_steps, batch_size, num_inputs = ops.shape(inputs)
    columns = ops.transpose(ops.reshape(inputs, (-1, num_inputs)))
    # The kernel at the left: the other way round takes twice as long on processors without AVX-512.
    products = ops.matmul(kernel, columns)
    if bias is not None:
        products = products + ops.reshape(bias, (-1, 1))
    products = ops.reshape(products, (kernel.shape[0], num_steps, batch_size))
    return ops.transpose(products, (1, 0, 2))


def _forward(spec, z, valid, h, c, *kernels):
    (last_h, last_c), (all_h, all_c, *sums) = scan(
        _step, spec, (h, c), (z, valid), kernels, _step_outputs, reverse=spec.reverse
    )
    saved = (z if not sums else sums[0], valid, h, c, *kernels, all_h, all_c)
    return (masked(all_h, valid), last_h, last_c), saved


def _backward(spec, saved, upstream):
    z, valid, h, c, recurrent_kernel, projection_kernel, all_h, all_c = saved
    d_outputs, d_h, d_c = (ops.cast(x, spec.state_dtype) for x in upstream)
    before_h, before_c = _states_before(spec, h, all_h), _states_before(spec, c, all_c)
    before_h = ops.transpose(ops.cast(before_h, spec.compute_dtype), (0, 2, 1))
    sums = z if spec.training else z + product_over_time(recurrent_kernel, before_h)
    (d_h, d_c), (d_z, d_projected, m) = scan(
        _backward_step,
        spec,
        (d_h, d_c),
        (d_outputs, sums, before_c, all_c, all_h, valid),
        tuple(k if k is None else ops.transpose(k) for k in (recurrent_kernel, projection_kernel)),
        _backward_outputs,
        reverse=not spec.reverse,
    )
    d_recurrent = _kernel_gradient(d_z, before_h)
    d_projection = None
    if projection_kernel is not None:
        d_projection = _kernel_gradient(d_projected, ops.transpose(m, (0, 2, 1)))
    return d_z, None, d_h, d_c, d_recurrent, d_projection


def _backward_step(spec, carry, inputs, kernels):
    """One step back: `(d_h, d_c)`, and `(d_z, d_projected, m)`; the kernels are transposed."""
    (d_h, d_c), (d_output, sums, before_c, c, h, valid) = carry, inputs
    recurrent_kernel, projection_kernel = kernels
    d_projected = d_m = d_h + d_output
    if projection_kernel is not None:
        d_projected = _clip_gradient(d_projected, h, spec.proj_clip)
        d_m = _product(spec, projection_kernel, d_projected)
    d_z, before_d_c, m = _element_wise(spec, _cell_gradient, d_m, d_c, sums, before_c, c)
    # Where the mask is False the state's gradient passes through, and nothing else does.
    d_z = masked(d_z, valid)
    d_projected = ops.cast(masked(d_projected, valid), spec.compute_dtype)
    before_d_h = ops.cast(_product(spec, recurrent_kernel, d_z), spec.state_dtype)
    before = masked(before_d_h, valid, d_h), masked(before_d_c, valid, d_c)
    return before, (d_z, d_projected, m)


def _backward_outputs(spec, carry, inputs):
    _, sums, *_ = inputs
    return [(shape, spec.compute_dtype) for shape in (sums.shape[1:], *(x.shape for x in carry))]


def _cell_gradient(spec, d_m, d_c, sums, before_c, c):
    """The gradients of the gates' inputs and of the cell before, and the cell's output `m`."""
    d_m, sums = (ops.cast(x, spec.state_dtype) for x in (d_m, sums))
    i, j, f, o = _gates(sums)
    tanh_c = ops.tanh(c)
    d_cell = _clip_gradient(d_c + d_m * (o * (1 - tanh_c * tanh_c)), c, spec.cell_clip)
    d_sums = (
        d_cell * (j * i * (1 - i)),
        d_cell * (i * (1 - j * j)),
        d_cell * (before_c * f * (1 - f)),
        d_m * (tanh_c * o * (1 - o)),
    )
    d_sums = ops.cast(ops.concatenate(d_sums, axis=0), spec.compute_dtype)
    return d_sums, d_cell * f, ops.cast(o * tanh_c, spec.compute_dtype)


def _states_before(spec, first, states):
    """The state before each step, from that after each."""
    if spec.reverse:
        return ops.concatenate([states[1:], first[None]])
    return ops.concatenate([first[None], states[:-1]])


def _kernel_gradient(d_outputs, inputs):
    """The gradient of a kernel over all steps, from outputs `(T, M, B)` and inputs `(T, B, N)`."""
    d_outputs = ops.transpose(d_outputs, (1, 0, 2))
    return ops.matmul(
        ops.reshape(d_outputs, (d_outputs.shape[0], -1)),
        ops.reshape(inputs, (-1, inputs.shape[-1])),
    )


def _element_wise(spec, function, *args):
    # Only in training: shapes vary where text is embedded, and each would be compiled.
    return fused(function, spec, *args) if spec.training else function(spec, *args)


def _product(spec, kernel, x):
    return ops.matmul(kernel, ops.cast(x, spec.compute_dtype))


def _gates(z):
    # One sigmoid of all is faster than three of parts.
    i, _, f, o = ops.split(ops.sigmoid(z), 4, axis=0)
    return i, ops.tanh(ops.split(z, 4, axis=0)[1]), f, o


def _clip(x, bound):
    return x if bound is None else ops.clip(x, -bound, bound)


def _clip_gradient(gradient, clipped, bound):
    """The gradient where clipping changed nothing, else 0; `clipped` is its result."""
    return gradient if bound is None else masked(gradient, ops.abs(clipped) < bound)
