"""Text to ids and back, in NumPy: no Keras, no TensorFlow."""
