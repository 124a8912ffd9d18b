"""Epochs of one `fit`: where a resumed training begins, shorter first and last epochs, states."""

import dataclasses
import time

import keras


@dataclasses.dataclass(frozen=True)
class EpochPlan:
    """A training of `total_steps`, `first_step` of them done before, in epochs of equal length.

    Only the last epoch may be shorter, and the first one of a run that was stopped within it.
    """

    steps_per_epoch: int
    total_steps: int
    first_step: int = 0

    @property
    def initial_epoch(self) -> int:
        return self.first_step // self.steps_per_epoch

    @property
    def end_epoch(self) -> int:
        """Keras' `epochs`."""
        if self.first_step >= self.total_steps:
            return self.initial_epoch
        return -(-self.total_steps // self.steps_per_epoch)

    @property
    def begins_within_epoch(self) -> bool:
        """Whether the training was stopped within an epoch, which now goes on."""
        return self.first_step % self.steps_per_epoch > 0

    def check_steps_per_execution(self, steps: int) -> None:
        """Raises ValueError unless all epochs are multiples of `steps`."""
        counts = self.steps_per_epoch, self.total_steps, self.first_step
        if any(count % steps for count in counts):
            raise ValueError(
                f"steps_per_epoch={counts[0]}, total_steps={counts[1]} and the {counts[2]} steps "
                f"done before must be multiples of steps_per_execution={steps}."
            )

    def begin(self, epoch: int) -> int:
        """Steps done when an epoch begins or is resumed."""
        return max(epoch * self.steps_per_epoch, self.first_step)

    def end(self, epoch: int) -> int:
        """Steps done when an epoch ends."""
        return min((epoch + 1) * self.steps_per_epoch, self.total_steps)


class EpochBegin(keras.callbacks.Callback):
    """Counts the steps of a training from its first start, before all other callbacks."""

    def __init__(self, plan: EpochPlan):
        super().__init__()
        self.plan = plan
        self.step = plan.first_step
        self.cuts_epoch = False

    def on_epoch_begin(self, epoch, logs=None):
        self._begin = self.plan.begin(epoch)

    def on_train_batch_end(self, batch, logs=None):
        # The number of the last batch: there may have been several at once.
        self.step = self._begin + batch + 1

    def on_test_begin(self, logs=None):
        self._withdraw_request()

    def on_epoch_end(self, epoch, logs=None):
        self._withdraw_request()

    def _withdraw_request(self):
        if self.cuts_epoch:
            self.model.stop_training = self.cuts_epoch = False


class EpochEnd(keras.callbacks.Callback):
    """Ends an epoch that is shorter than Keras' `steps_per_epoch`, after all other callbacks.

    Keras leaves the loop over batches when a callback asks it to stop, and asks again when the
    epoch has ended. In between `EpochBegin` withdraws the request, so that the training goes on.
    """

    def __init__(self, begin: EpochBegin):
        super().__init__()
        self._training = begin

    def on_epoch_begin(self, epoch, logs=None):
        plan = self._training.plan
        is_short = plan.end(epoch) - plan.begin(epoch) < plan.steps_per_epoch
        self._end = plan.end(epoch) if is_short else None

    def on_train_batch_end(self, batch, logs=None):
        if self._training.step == self._end and not self.model.stop_training:
            self.model.stop_training = self._training.cuts_epoch = True


class CarriedStates(keras.callbacks.Callback):
    """Starts every epoch and every evaluation from zero states, and adds the speed to the logs."""

    def __init__(self, tokens_per_step: int):
        super().__init__()
        self._tokens_per_step = tokens_per_step

    def on_test_begin(self, logs=None):
        self.model.reset_evaluation_states()

    def on_epoch_begin(self, epoch, logs=None):
        self.model.reset_states()
        self._started, self._speed = time.monotonic(), 0.0

    def on_train_batch_end(self, batch, logs=None):
        tokens = self._tokens_per_step * (batch + 1)
        self._speed = tokens / (time.monotonic() - self._started)
        logs["tokens_per_second"] = self._speed

    def on_epoch_end(self, epoch, logs=None):
        logs["tokens_per_second"] = self._speed
