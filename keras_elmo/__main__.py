"""`python -m keras_elmo`, the same as `keras-elmo`."""

import sys

from keras_elmo.cli import main

sys.exit(main())
