"""Configs of layers, from the arguments of their constructors."""

import dataclasses
import inspect
from typing import Any

import keras

from keras_elmo.config import ElmoConfig


class Configured:
    """Mixin for layers, metrics and models that keep each argument as an attribute of its name."""

    def __init__(self, **kwargs: Any):
        float_policy(kwargs.get("dtype"))
        super().__init__(**kwargs)

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments; in a user's subclass, of the package's class."""
        owner = next(one for one in type(self).__mro__ if Configured in one.__bases__)
        return {name: getattr(self, name) for name in argument_names(owner)}

    def checked_config(self, **others: Any) -> ElmoConfig:
        """An `ElmoConfig` of the arguments that it knows, which it checks and converts."""
        known = {field.name for field in dataclasses.fields(ElmoConfig)}
        found = {name: value for name, value in self.arguments().items() if name in known}
        config = ElmoConfig(**found, **others)
        for name in found:
            setattr(self, name, getattr(config, name))
        return config

    def get_config(self):
        return {**super().get_config(), **self.arguments()}


def float_policy(
    dtype: str | keras.dtype_policies.DTypePolicy | None,
) -> keras.dtype_policies.DTypePolicy:
    """The dtype policy of a layer, Keras' global one for `None`.

    Raises ValueError unless it computes in floating-point numbers.
    """
    policy = keras.config.dtype_policy() if dtype is None else keras.dtype_policies.get(dtype)
    if "float" not in policy.compute_dtype:
        raise ValueError(
            "dtype is that of the computation, such as 'float32'; layers read strings and ids "
            f"without it: leave out dtype and input_shape; got dtype={policy.name!r}."
        )
    return policy


def argument_names(layer: Any) -> list[str]:
    """The names of a constructor's arguments, without `self` and `**kwargs`."""
    parameters = list(inspect.signature(layer.__init__).parameters.values())[1:]
    return [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
