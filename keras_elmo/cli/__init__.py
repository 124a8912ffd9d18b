"""The command line: `keras-elmo`."""

from keras_elmo.cli.main import main

__all__ = ["main"]
