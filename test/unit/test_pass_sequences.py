"""Names of passes that are several passes in a row: the default pipeline lists the parts."""

import pytest

from ge.lowering.pipeline.options import Options
from ge.lowering.pipeline.stages import pipeline
from ge.lowering.plugins.universe import GE_UNIVERSE
from ge.transforms.fusion.fuse_region import FuseRegionPass
from ge.transforms.rewriting.passes import PassSequence

SEQUENCES = {
    name: cls
    for name, load in GE_UNIVERSE.all_passes.items()
    if issubclass(cls := load(), PassSequence)
}


def names(options: Options) -> set[str]:
    return {p.name for p in pipeline(options)}


def test_what_is_a_sequence():
    assert set(SEQUENCES) == {"find-attention", "fuse-region", "plan-memory"}


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_default_pipeline_lists_the_parts(name: str):
    parts = {p.name for p in SEQUENCES[name]().parts()}
    assert len(parts) > 1
    assert name not in names(Options())
    assert parts <= names(Options())


@pytest.mark.parametrize("name", ["find-attention", "fuse-region"])
def test_a_sequence_is_left_out_with_all_its_parts(name: str):
    parts = {p.name for p in SEQUENCES[name]().parts()}
    assert names(Options(fusion_disable=(name,))) == names(Options()) - parts


def test_a_part_is_left_out():
    options = Options(fusion="aggressive")
    without = Options(fusion="aggressive", fusion_disable=("relieve-peak",))
    assert names(options) - names(without) == {"relieve-peak"}
    assert {"fuse-vector-ops", "recompute-in-users"} <= names(without)


def test_rules_to_leave_out_go_to_the_parts_that_have_them():
    disabled = FuseRegionPass(disable=("recompute", "fuse-users"), recompute=True).parts()
    assert [getattr(p, "disable") for p in disabled] == [("fuse-users",), ("recompute",), ()]
    with pytest.raises(ValueError, match="there is no rule 'fuse-useers'"):
        FuseRegionPass(disable=("fuse-useers",))
