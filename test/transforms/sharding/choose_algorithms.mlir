// RUN: ge-opt %s -p choose-algorithms | filecheck %s
// RUN: ge-opt %s -p 'choose-algorithms{collective="all_reduce=ring","all_to_all=pairwise"}' | filecheck %s --check-prefix=FORCED
// RUN: ge-opt %s -p 'choose-algorithms{target=910_93}' | filecheck %s --check-prefix=A3

// 8 devices of a server have a link to each other one: the last axes lie in a server, the first ones
// between servers, where devices have one port each. Of a die of an A3 that is so in a server, too.
graph.mesh @mesh ["dp"=4, "tp"=8]
func.func @main(%x: tensor<1024x1024xf32>, %y: tensor<8x8xf32>) {
  // CHECK: graph.all_reduce sum %{{.*}} over <"tp"=8> algorithm mesh : (tensor<1024x1024xf32>)
  // FORCED: graph.all_reduce sum %{{.*}} over <"tp"=8> algorithm ring
  // A3: graph.all_reduce sum %{{.*}} over <"tp"=8> algorithm two_level
  %0 = graph.all_reduce sum %x over <"tp"=8> : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  // CHECK: graph.all_reduce sum %{{.*}} over <"dp"=4> algorithm halving_doubling
  // FORCED: graph.all_reduce sum %{{.*}} over <"dp"=4> algorithm ring
  %1 = graph.all_reduce sum %x over <"dp"=4> : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  // CHECK: graph.all_reduce sum %{{.*}} over <"dp"=4, "tp"=8> algorithm two_level
  // FORCED: graph.all_reduce sum %{{.*}} over <"dp"=4, "tp"=8> algorithm ring
  %2 = graph.all_reduce sum %x over <"dp"=4, "tp"=8> : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  // A choice in the text stays.
  // CHECK: graph.all_gather %{{.*}} dim 0 over <"tp"=8> algorithm nhr
  %3 = graph.all_gather %y dim 0 over <"tp"=8> algorithm nhr : (tensor<8x8xf32>) -> tensor<64x8xf32>
  // CHECK: graph.all_to_all {{.*}} algorithm mesh
  // FORCED: graph.all_to_all {{.*}} algorithm pairwise
  %4 = graph.all_to_all %y shape [64, 8] has <@mesh, [{"tp":(1)8}, {}]> to <@mesh, [{}, {"tp":(1)8}]> : (tensor<8x8xf32>) -> tensor<64x1xf32>
  func.return
}
