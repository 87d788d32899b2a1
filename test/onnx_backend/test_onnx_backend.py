"""ONNX's backend tests through the whole pipeline, down to the program. What is not supported is
listed in `unsupported.py`; a listed test that passes is an error, so that the list gets shorter."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from suite import KINDS, cases, run
from unsupported import UNSUPPORTED

PATTERNS = [(re.compile(p), why) for why, patterns in UNSUPPORTED.items() for p in patterns]


def reason(name: str) -> str | None:
    return next((why for pattern, why in PATTERNS if pattern.fullmatch(name)), None)


@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind: str):
    """All tests of a kind: those not listed pass, those listed fail."""
    wrong: list[str] = []
    passed = total = 0
    for name, case in cases(kind):
        total += 1
        why = reason(name)
        try:
            run(case)
            passed += 1
            if why is not None:
                wrong.append(f"{name} passes but is listed: {why}")
        except Exception as e:
            if why is None:
                wrong.append(f"{name}: {type(e).__name__}: {str(e).strip()[:200]}")
    print(f"{kind}: {passed} of {total} pass")
    assert not wrong, "\n".join(wrong)
