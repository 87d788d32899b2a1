"""The clock says which part of what devices send each other is not hidden behind other work, and
why; and what faster links would change."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.clock.clock import simulate
from ge.runtime.clock.timeline import COMM, Timeline
from ge.runtime.profile.limits import collectives_of, kernels_of
from ge.runtime.profile.tables import summary_table, time_report
from ge.runtime.profile.trace import chrome_trace
from ge.runtime.profile.what_if import changed, what_if

# What %1 brings is needed at the end; %2 does not need it, and takes longer.
TEXT = """graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<512x512xf32>, %w: tensor<512xSIZExf32>)
    -> (tensor<512x512xf32>, tensor<512xSIZExf32>) {
  %0 = graph.relu %x : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = graph.all_reduce sum %0 over <"tp"=4> algorithm ring
    : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %2 = graph.matmul %x, %w : (tensor<512x512xf32>, tensor<512xSIZExf32>) -> tensor<512xSIZExf32>
  %3 = graph.exp %1 : (tensor<512x512xf32>) -> tensor<512x512xf32>
  func.return %3, %2 : tensor<512x512xf32>, tensor<512xSIZExf32>
}"""


def timed(size: int) -> tuple[ModuleOp, Timeline]:
    text = TEXT.replace("SIZE", str(size))
    module = parse_module(context(), SourceText("test.mlir", text))
    lower(module, Options(share_io=True, tiles=False, fusion="off", mesh="tp=4"))
    return module, simulate(module, Target.load())


def test_a_collective_is_hidden_or_exposed() -> None:
    _, little = timed(16)
    _, much = timed(32768)
    (exposed, acknowledged), (hidden, _) = collectives_of(little), collectives_of(much)
    assert exposed.us == pytest.approx(hidden.us) == little.busy_us[COMM] - 1.0  # of the latency
    assert hidden.exposed_us < 0.2 * hidden.us < 0.8 * exposed.us < exposed.exposed_us
    assert list(exposed.causes) == ["exp_0 needs what it brings"]
    assert list(acknowledged.causes) == ["exp_0 waits until its memory is free"]
    both = exposed.exposed_us + acknowledged.exposed_us
    assert little.gaps_us["vector"]["communication"] == pytest.approx(both)


def test_reports_and_summaries_name_it() -> None:
    _, timeline = timed(16)
    report = time_report(timeline)["communication"]
    row = report["collectives"][0]
    assert (row["op"], row["algorithm"], row["runs"]) == ("all_reduce", "ring", 1)
    causes = [us for row in report["collectives"] for us in row["causes"].values()]
    assert report["exposed_us"] == pytest.approx(sum(causes))
    text = summary_table(timeline)
    assert f"communication: {report['us']:,.1f} us, exposed {report['exposed_us']:,.1f} us" in text
    assert "us by ring, exposed" in text
    rows = chrome_trace(timeline)["traceEvents"]
    assert any(e["name"] == "thread_name" and e["args"]["name"] == COMM for e in rows)
    (bound,) = [k.ranked[0][0] for k in kernels_of(timeline) if k.name == "@all_reduce_0"]
    assert bound == "links"


def test_faster_links() -> None:
    module, timeline = timed(16)
    target = timeline.target
    changes = ["links=2x", "cluster.server.link_gbs=56", "cluster.start_us=0.01", "links=0.5x"]
    times = what_if(module, target, timeline.latency_us, changes)
    twice, same, started, half = (w.latency_us for w in times)
    assert twice == same < timeline.latency_us < half
    assert started == pytest.approx(timeline.latency_us - 9.99, abs=0.1)
    anew = changed(target, "links=2x", anew=True)
    assert anew.cluster == changed(target, "links=2x").cluster != target.cluster
