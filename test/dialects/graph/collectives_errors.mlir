// RUN: ge-opt %s --split-input-file --verify-diagnostics

func.func @main(%x: tensor<8x8xf32>) {
  // expected-error @below {{axis 'tp' stands without its number of devices}}
  %0 = graph.all_reduce sum %x over <"tp"> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<8x8xf32>) {
  // expected-error @below {{axis 'tp' stands without its number of devices}}
  %0 = graph.all_to_all %x shape [64, 8] has <@mesh, [{"tp"}, {}]> to <@mesh, [{}, {"tp"}]> : (tensor<8x8xf32>) -> tensor<64x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<8x8xf32>) {
  // expected-error @below {{dimension 0 of tensor<8x8xf32> does not divide over 3 devices}}
  %0 = graph.reduce_scatter sum %x dim 0 over <"tp"=3> : (tensor<8x8xf32>) -> tensor<2x8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<8x8xf32>) {
  // expected-error @below {{algorithm is one of mesh, halving_doubling, nhr, ring, pairwise, two_level, not 'rng'; did you mean 'ring'?}}
  %0 = graph.all_reduce sum %x over <"tp"=8> algorithm rng : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<8x8xf32>) {
  // expected-error @below {{all_reduce has no algorithm 'pairwise': it has mesh, halving_doubling, nhr, ring, two_level}}
  %0 = graph.all_reduce sum %x over <"tp"=8> algorithm pairwise : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<8x8xf32>) {
  // expected-error @below {{'halving_doubling' is of a power of two devices, not of 6}}
  %0 = graph.all_reduce sum %x over <"tp"=6> algorithm halving_doubling : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}
