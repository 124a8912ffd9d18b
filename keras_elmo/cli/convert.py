"""The command `keras-elmo convert`."""

from keras_elmo.cli.common import A_MODEL, add_overwrite, print_differences


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "convert",
        parents=[common],
        help="write a model of any readable format as options.json and weights.hdf5",
        description="Writes a model as options.json and weights.hdf5, for a model of "
        "ELMoForManyLangs also word.dic and char.dic, reads it back and shows by how much its "
        "outputs differ.",
    )
    command.add_argument("model", metavar="MODEL", help=A_MODEL)
    command.add_argument(
        "--output", required=True, metavar="PATH", help="the folder to write, or FILE.zip"
    )
    command.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        default="float32",
        help="dtype of the weights (default: %(default)s)",
    )
    add_overwrite(command, "an earlier export")
    command.set_defaults(run=_convert)


def _convert(arguments):
    from keras_elmo.export.convert import convert

    options = {"dtype": arguments.dtype, "overwrite": arguments.overwrite}
    differences = convert(arguments.model, arguments.output, **options)
    print_differences(arguments.output, "the original", differences)
