// RUN: ge-opt %s --verify-diagnostics --allow-unregistered-dialect -p lower-to-tasks
// RUN: ge-opt %s --verify-diagnostics --allow-unregistered-dialect -p bufferize-tasks
// RUN: ge-opt %s --verify-diagnostics --allow-unregistered-dialect -p assign-streams
// RUN: ge-opt %s --verify-diagnostics --allow-unregistered-dialect -p plan-memory

// expected-error@+1 {{@main has several blocks; use graph.if and graph.loop}}
func.func @main() {
  "test.br"() [^bb1] : () -> ()
^bb1:
  func.return
}
