"""Models for programs without keras_elmo: each export is read back and verified."""
