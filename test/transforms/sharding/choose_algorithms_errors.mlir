// RUN: ge-opt %s --verify-diagnostics -p 'choose-algorithms{collective="all_reduce=halving_doubling"}'
// RUN: not ge-opt %s -p 'choose-algorithms{collective="all_reduce=rings"}' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not ge-opt %s -p 'choose-algorithms{collective="all_reduces=ring"}' 2>&1 | filecheck %s --check-prefix=KIND
// RUN: not ge-opt %s -p 'choose-algorithms{target=910_merged}' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not ge-compile %s --mesh tp=2048 2>&1 | filecheck %s --check-prefix=MORE

// NAME: all_reduce has no algorithm 'rings'; did you mean 'ring'?
// KIND: collective is KIND=ALGORITHM, not 'all_reduces=ring'; did you mean 'all_reduce'?
// NONE: 910_merged: error: the target states no cluster: a mesh of 6 devices needs one
// MORE: 910b2: error: a mesh of 2048 devices, and the target's cluster has 1024; take a smaller mesh
graph.mesh @mesh ["tp"=6]
func.func @main(%x: tensor<6x8xf32>) {
  // expected-warning @+2 {{all_reduce over 6 devices cannot be halving_doubling: it is mesh; it can be mesh, nhr and ring}}
  // expected-remark @below {{choose-algorithms applied: mesh: 12.0 us (nhr 16.0, ring 20.0)}}
  %0 = graph.all_reduce sum %x over <"tp"=6> : (tensor<6x8xf32>) -> tensor<6x8xf32>
  func.return
}
