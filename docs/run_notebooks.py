"""Runs notebooks, each in an empty folder, and stores their outputs in them.

    python docs/run_notebooks.py examples/notebooks/*.ipynb

Needs `pip install -e ".[notebooks]"`. What libraries write to stderr is not stored.
"""

import sys
import tempfile

import nbclient
import nbformat


def main(paths):
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            resources = {"metadata": {"path": folder}}
            client = nbclient.NotebookClient(
                notebook,
                timeout=1800,
                record_timing=False,
                coalesce_streams=True,
                resources=resources,
            )
            client.execute()
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [x for x in cell.outputs if x.get("name") != "stderr"]
        nbformat.write(notebook, path)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
