"""What `import ge` reads beside a clone of the sources that is called `ge`: the package itself,
which lies one folder below. Without this file the clone would be an empty package of that name."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

if __name__ == "ge":
    face = Path(__file__).parent / "ge" / "__init__.py"
    spec = spec_from_file_location(__name__, face, submodule_search_locations=[str(face.parent)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[__name__] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
