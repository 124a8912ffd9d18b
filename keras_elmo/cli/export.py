"""The command `keras-elmo export`."""

from keras_elmo.cli.common import A_MODEL, add_overwrite
from keras_elmo.pretrained.language_models import find_model_or_checkpoint
from keras_elmo.pretrained.locate import ModelFiles


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "export",
        parents=[common],
        help="write a model for bilm-tf and AllenNLP, TensorFlow Serving or ONNX",
        description="Writes a model for other programs, reads it back and shows by how much its "
        "outputs differ from this package's.",
    )
    command.add_argument(
        "model",
        metavar="MODEL",
        help=f"{A_MODEL}; or a training run or checkpoint of `train` or of bilm-tf",
    )
    command.add_argument(
        "--format",
        choices=("hdf5", "saved-model", "onnx"),
        default="hdf5",
        help="hdf5: options.json and weights.hdf5, as bilm-tf and AllenNLP read them, with "
        "softmax.hdf5 and vocabulary.txt, or the lexicon, if the model has them; saved-model: for "
        "TensorFlow Serving and tf.saved_model.load, with the signatures of the TF-Hub ELMo "
        "module; onnx: a model that reads character ids (default: %(default)s)",
    )
    command.add_argument(
        "--output",
        required=True,
        metavar="PATH",
        help="the folder to write (NAME/VERSION for TensorFlow Serving), FILE.zip for hdf5, or "
        "FILE.onnx",
    )
    command.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        help="with hdf5: dtype of the stored weights (default: float32)",
    )
    command.add_argument(
        "--vocab",
        metavar="FILE",
        help="with hdf5: the vocabulary of a model with a softmax, if it is not in its folder",
    )
    add_overwrite(command, "an earlier export")
    command.set_defaults(check=_check, run=_export, renamed={"vocabulary": "--vocab"})


def _check(arguments, parser):
    if arguments.format != "hdf5" and (arguments.dtype or arguments.vocab):
        parser.error("--dtype and --vocab need --format hdf5")
    # Before Keras is loaded.
    found = find_model_or_checkpoint(arguments.model)
    # A run that is still training may save a later checkpoint meanwhile.
    arguments.found = found if isinstance(found, ModelFiles) else arguments.model


def _export(arguments):
    from keras_elmo.export.hdf5 import export_hdf5
    from keras_elmo.export.onnx import export_onnx
    from keras_elmo.export.saved_model import export_saved_model

    output, options = arguments.output, {"overwrite": arguments.overwrite}
    if arguments.format == "hdf5":
        options |= {"dtype": arguments.dtype or "float32", "vocabulary": arguments.vocab}
    exports = {"hdf5": export_hdf5, "saved-model": export_saved_model, "onnx": export_onnx}
    differences = exports[arguments.format](arguments.found, output, **options)
    print(f"Wrote {output}. Read back, its largest differences from {arguments.model} are")
    for name, difference in differences.items():
        print(f"  {name:<15}{difference:.1e}")
