"""The recurrent part of an LSTM with projection and clips, and its gradient."""

import dataclasses

from keras import ops

from keras_elmo.ops.custom_gradient import call_with_gradient
from keras_elmo.ops.scan import scan


@dataclasses.dataclass(frozen=True)
class LSTMRecurrence:
    """What is left of an LSTM when the products with its inputs have been taken.

    Everything lies with the sentences of the batch last: the weights times the state, `R h`, is a
    product of a large matrix at the left with a narrow one, which libraries do up to twice as fast
    as `h R` (they copy what stands at the right), and the gates are slices of whole rows.

    The gradient needs no more than the outputs and cells: it takes the products with all outputs at
    once again, and the gradients of the kernels are one product each, where going back through the
    loop would add them up step by step.

    Args:
        units: Size of the cell.
        projection_dim: Size of the output.
        cell_clip: Bound on the cell's values, or `None`.
        proj_clip: Bound on the projected output, or `None`; there is none without projection.
        reverse: Whether to run from the last step to the first.
        compute_dtype: Dtype of the products.
        state_dtype: Dtype of everything else.

    Reference: BILM_TF.md, "LSTM with projection".
    """

    units: int
    projection_dim: int
    cell_clip: float | None
    proj_clip: float | None
    reverse: bool
    compute_dtype: str
    state_dtype: str

    def __call__(self, z, valid, h, c, recurrent_kernel, projection_kernel):
        """Runs the LSTM.

        Args:
            z: `W x + b`, floats `(T, 4 * units, B)`, time first, gates i, j, f, o; with the 1 of
                the forget gate.
            valid: Booleans `(T, 1, B)`, or `None`. Elsewhere the output is 0 and the state stays.
            h, c: The state before, `(projection_dim, B)` and `(units, B)`.
            recurrent_kernel: `(4 * units, projection_dim)`.
            projection_kernel: `(projection_dim, units)`, or `None`.

        Returns:
            Outputs `(T, projection_dim, B)`, and the state `(h, c)` after.
        """
        return call_with_gradient(self, z, valid, h, c, recurrent_kernel, projection_kernel)

    def forward(self, z, valid, h, c, recurrent_kernel, projection_kernel):
        step = ForwardStep(**dataclasses.asdict(self))
        kernels = tuple(x for x in (recurrent_kernel, projection_kernel) if x is not None)
        inputs = (z,) if valid is None else (z, valid)
        (last_h, last_c), (all_h, all_c) = scan(step, (h, c), inputs, kernels, self.reverse)
        outputs = all_h if valid is None else ops.where(valid, all_h, ops.zeros_like(all_h))
        saved = (z, valid, h, c, recurrent_kernel, projection_kernel, all_h, all_c)
        return (outputs, last_h, last_c), saved

    def backward(self, saved, upstream):
        z, valid, h, c, recurrent_kernel, projection_kernel, all_h, all_c = saved
        d_outputs, d_h, d_c = upstream
        before_h, before_c = self._before(h, all_h), self._before(c, all_c)
        before_h = ops.transpose(ops.cast(before_h, self.compute_dtype), (0, 2, 1))
        gates = ops.cast(z + product_over_time(recurrent_kernel, before_h), self.state_dtype)
        inputs = (ops.cast(d_outputs, self.state_dtype), gates, before_c, all_c, all_h)
        kernels = (ops.transpose(recurrent_kernel),)
        if projection_kernel is not None:
            kernels = (*kernels, ops.transpose(projection_kernel))
        (d_h, d_c), (d_z, d_projected, m) = scan(
            _BackwardStep(**dataclasses.asdict(self)),
            (ops.cast(d_h, self.state_dtype), ops.cast(d_c, self.state_dtype)),
            inputs if valid is None else (*inputs, valid),
            kernels,
            not self.reverse,
        )
        d_z = ops.cast(d_z, self.compute_dtype)
        d_recurrent = self._kernel_gradient(d_z, before_h)
        d_projection = None
        if projection_kernel is not None:
            d_projection = self._kernel_gradient(d_projected, ops.transpose(m, (0, 2, 1)))
        return d_z, None, d_h, d_c, d_recurrent, d_projection

    def _before(self, first, states):
        """The state before each step, from that after each."""
        first = ops.expand_dims(first, 0)
        if self.reverse:
            return ops.concatenate([states[1:], first])
        return ops.concatenate([first, states[:-1]])

    def _kernel_gradient(self, d_outputs, inputs):
        """Of a product over all steps, from outputs `(T, M, B)` and inputs `(T, B, N)`."""
        d_outputs = ops.transpose(ops.cast(d_outputs, self.compute_dtype), (1, 0, 2))
        return ops.matmul(
            ops.reshape(d_outputs, (d_outputs.shape[0], -1)),
            ops.reshape(ops.cast(inputs, self.compute_dtype), (-1, inputs.shape[-1])),
        )


class ForwardStep(LSTMRecurrence):
    """One time step: `((h, c), (z,) or (z, valid), kernels) -> (new state, outputs)`."""

    gates_axis = 0

    def output_shapes(self, carry):
        return [x.shape for x in carry]

    def product(self, kernel, x):
        return ops.matmul(kernel, ops.cast(x, self.compute_dtype))

    def __call__(self, state, inputs, kernels):
        (h, c), (z, *valid) = state, inputs
        recurrent_kernel, *projection_kernel = kernels
        z = z + self.product(recurrent_kernel, h)
        i, j, f, o = _gates(ops.cast(z, self.state_dtype), self.gates_axis)
        new_c = _clip(f * c + i * j, self.cell_clip)
        new_h = o * ops.tanh(new_c)
        if projection_kernel:
            new_h = self.product(projection_kernel[0], new_h)
            new_h = _clip(ops.cast(new_h, self.state_dtype), self.proj_clip)
        if valid:
            new_h, new_c = ops.where(valid[0], new_h, h), ops.where(valid[0], new_c, c)
        return (new_h, new_c), (new_h, new_c)


class _BackwardStep(LSTMRecurrence):
    """One time step of the gradient."""

    def output_shapes(self, carry):
        batch_size = carry[0].shape[1]
        dims = 4 * self.units, self.projection_dim, self.units
        return [(dim, batch_size) for dim in dims]

    def __call__(self, carry, inputs, kernels):
        (d_h, d_c), (d_output, z, before_c, c, h, *valid) = carry, inputs
        recurrent_kernel, *projection_kernel = kernels
        i, j, f, o = _gates(z, axis=0)
        tanh_c = ops.tanh(c)
        d_projected = d_m = d_h + d_output
        if projection_kernel:
            d_projected = _inside(h, self.proj_clip, d_projected)
            d_m = self._product(projection_kernel[0], d_projected)
        d_cell = _inside(c, self.cell_clip, d_c + d_m * (o * (1 - tanh_c * tanh_c)))
        d_gates = (
            d_cell * (j * i * (1 - i)),
            d_cell * (i * (1 - j * j)),
            d_cell * (before_c * f * (1 - f)),
            d_m * (tanh_c * o * (1 - o)),
        )
        d_z = ops.concatenate(d_gates, axis=0)
        if valid:
            # Where nothing was read the state's gradient goes through, and nothing else does.
            d_z = ops.where(valid[0], d_z, ops.zeros_like(d_z))
            d_projected = ops.where(valid[0], d_projected, ops.zeros_like(d_projected))
        before_d_h, before_d_c = self._product(recurrent_kernel, d_z), d_cell * f
        if valid:
            before_d_h = ops.where(valid[0], before_d_h, d_h)
            before_d_c = ops.where(valid[0], before_d_c, d_c)
        return (before_d_h, before_d_c), (d_z, d_projected, o * tanh_c)

    def _product(self, kernel, x):
        product = ops.matmul(kernel, ops.cast(x, self.compute_dtype))
        return ops.cast(product, self.state_dtype)


def product_over_time(kernel, inputs, bias=0.0):
    """`kernel @ inputs + bias` for all time steps in one product.

    Args:
        kernel: `(M, N)`.
        inputs: `(T, B, N)`.
        bias: `(M,)`.

    Returns:
        `(T, M, B)`.
    """
    num_steps, batch_size, num_inputs = ops.shape(inputs)
    # With so many columns nothing is gained by a kernel at the left; this way the bias is fused.
    rows = ops.matmul(ops.reshape(inputs, (-1, num_inputs)), ops.transpose(kernel)) + bias
    return ops.transpose(ops.reshape(rows, (num_steps, batch_size, kernel.shape[0])), (0, 2, 1))


def _gates(z, axis):
    # One sigmoid of all is faster than three of parts.
    i, _, f, o = ops.split(ops.sigmoid(z), 4, axis=axis)
    return i, ops.tanh(ops.split(z, 4, axis=axis)[1]), f, o


def _clip(x, bound):
    return x if bound is None else ops.clip(x, -bound, bound)


def _inside(x, bound, gradient):
    """The gradient where clipping left `x`, its result, as it was; else 0."""
    if bound is None:
        return gradient
    return ops.where(ops.abs(x) < bound, gradient, ops.zeros_like(gradient))
