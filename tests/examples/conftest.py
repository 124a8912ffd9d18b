"""The tests of the examples are skipped where the packages that these need are missing."""

from importlib.util import find_spec

import pytest

PACKAGES = ("matplotlib", "pyarrow", "scorch", "seqeval")


class SkippedModule(pytest.Module):
    def collect(self):
        pytest.skip("the examples need more packages: pip install 'keras-elmo[examples]'")


def pytest_pycollect_makemodule(module_path, parent):
    if not all(map(find_spec, PACKAGES)):
        return SkippedModule.from_parent(parent, path=module_path)
    return None
