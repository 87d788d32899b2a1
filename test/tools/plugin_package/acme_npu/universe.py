"""What every xDSL tool finds through the entry point; nothing is imported before it is used."""

from typing import Any

from xdsl.universe import Universe


def get_dialect() -> Any:
    from acme_npu.compiler import Acme

    return Acme


def get_pass() -> Any:
    from acme_npu.compiler import AcmeAbsPass

    return AcmeAbsPass


ACME_UNIVERSE = Universe(all_dialects={"acme": get_dialect}, all_passes={"acme-abs": get_pass})
