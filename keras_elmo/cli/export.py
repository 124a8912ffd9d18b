"""The command `keras-elmo export`."""

from keras_elmo.cli.common import A_MODEL, add_overwrite, print_differences
from keras_elmo.pretrained.language_models import find_language_model


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "export",
        parents=[common],
        help="write a model for bilm-tf and AllenNLP, TensorFlow Serving or ONNX",
        description="Writes a model for other programs, reads it back and shows by how much its "
        "outputs differ from this package's. A checkpoint of `train` is written as options.json, "
        "weights.hdf5 and softmax.hdf5.",
    )
    command.add_argument(
        "checkpoint",
        nargs="?",
        metavar="CHECKPOINT",
        help="a checkpoint or the folder of a training run, also bilm-tf's own",
    )
    command.add_argument(
        "--vocab", metavar="FILE", help="the vocabulary of CHECKPOINT, if it is not in the folder"
    )
    command.add_argument("--model", help=A_MODEL)
    command.add_argument(
        "--format",
        choices=("hdf5", "saved-model", "onnx"),
        default="hdf5",
        help="hdf5: options.json and weights.hdf5, as bilm-tf and AllenNLP read them; saved-model: "
        "for TensorFlow Serving and tf.saved_model.load, with the signatures of the TF-Hub ELMo "
        "module; onnx: a model that reads character ids (default: %(default)s)",
    )
    command.add_argument(
        "--output",
        required=True,
        metavar="PATH",
        help="the folder to write (NAME/VERSION for TensorFlow Serving), or FILE.onnx",
    )
    add_overwrite(command, "an earlier export")
    command.set_defaults(check=_check, run=_export)


def _check(arguments, parser):
    if (arguments.checkpoint is None) == (arguments.model is None):
        parser.error("pass either a CHECKPOINT or --model")
    if arguments.checkpoint is None:
        if arguments.vocab is not None:
            parser.error("--vocab is the vocabulary of a CHECKPOINT: leave it out")
        return
    if arguments.format != "hdf5":
        parser.error(
            "a CHECKPOINT can only be exported as hdf5: export it first, then pass the resulting "
            "folder as --model"
        )
    arguments.checkpoint = find_language_model(arguments.checkpoint, needs_softmax=True)


def _export(arguments):
    output = arguments.output
    if arguments.checkpoint is not None:
        from keras_elmo.training.loading import export_language_model

        export_language_model(arguments.checkpoint, output, arguments.vocab, arguments.overwrite)
        print(f"Wrote the model to {output}: ElmoLayer({output!r})")
        return
    from keras_elmo.export.convert import convert
    from keras_elmo.export.onnx import export_onnx
    from keras_elmo.export.saved_model import export_saved_model
    from keras_elmo.layers.elmo_layer import ElmoLayer

    exports = {"hdf5": convert, "saved-model": export_saved_model, "onnx": export_onnx}
    layer = ElmoLayer(arguments.model)
    differences = exports[arguments.format](layer, output, overwrite=arguments.overwrite)
    print_differences(output, "the Keras layer", differences)
