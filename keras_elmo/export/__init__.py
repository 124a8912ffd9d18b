"""Models for programs without keras_elmo."""
