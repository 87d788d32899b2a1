// RUN: ge-opt %s --mlir-elide-elementsattrs-if-larger=3 | filecheck %s
// RUN: ge-opt %s --mlir-elide-elementsattrs-if-larger=3 --print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: ge-opt %s --mlir-elide-elementsattrs-if-larger=3 --cse --mlir-print-ir-after-all 2>&1 >/dev/null | filecheck %s

// CHECK: arith.constant dense_resource<__elided__> : tensor<4xi32>
// CHECK: arith.constant dense<[1, 2, 3]> : tensor<3xi32>
// CHECK: arith.constant dense<7> : tensor<100xi32>
// GENERIC: "arith.constant"() <{value = dense_resource<__elided__> : tensor<4xi32>}>

%0 = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
%1 = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
%2 = arith.constant dense<7> : tensor<100xi32>
"test.op"(%0, %1, %2) : (tensor<4xi32>, tensor<3xi32>, tensor<100xi32>) -> ()
