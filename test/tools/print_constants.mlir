// Bytes are for numbers of a byte and more; what stands for all elements stays one.
// RUN: ge-opt %s --mlir-print-elementsattrs-with-hex-if-larger=0 | filecheck %s
// RUN: ge-opt %s --mlir-print-elementsattrs-with-hex-if-larger=0 | ge-opt | filecheck %s --check-prefix=AGAIN
// RUN: ge-opt %s --mlir-elide-resource-strings-if-larger=40 | filecheck %s --check-prefix=ELIDED

// CHECK:      dense<[true, false, true]> : tensor<3xi1>
// CHECK-NEXT: dense<1.000000e+00> : tensor<3xf32>
// CHECK-NEXT: dense<"0x010000000000000002000000000000000300000000000000"> : tensor<3xindex>
// CHECK-NEXT: dense<"0x010203"> : tensor<3xi4>
// CHECK-NEXT: dense<"0x803F00404040"> : tensor<3xbf16>
// CHECK-NEXT: dense_resource<blob> : tensor<4xi32>
// CHECK:      {-#
// CHECK-NEXT:   dialect_resources: {
// CHECK-NEXT:     builtin: {
// CHECK-NEXT:       blob: "0x0400000001000000020000000300000004000000"
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: #-}

// Bytes that mlir-opt writes for bits hold eight each.
// RUN: ge-opt %S/Inputs/bits.mlir | filecheck %s --check-prefix=BITS
// RUN: not ge-opt %S/Inputs/bits_missing.mlir 2>&1 | filecheck %s --check-prefix=MISSING
// BITS:      dense<[true, false, true, true, false, false, false, true, true, true]> : tensor<10xi1>
// BITS-NEXT: dense<[true, false, true]> : tensor<3xi1>
// MISSING:   bits_missing.mlir:1:{{[0-9]+}}: error: Shape mismatch in dense literal

// AGAIN:      dense<[true, false, true]> : tensor<3xi1>
// AGAIN-NEXT: dense<1.000000e+00> : tensor<3xf32>
// AGAIN-NEXT: dense<[1, 2, 3]> : tensor<3xindex>
// AGAIN-NEXT: dense<[1, 2, 3]> : tensor<3xi4>
// AGAIN-NEXT: dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xbf16>

// Bits are listed, for xDSL and LLVM differ in what their bytes are.
// RUN: ge-opt %S/Inputs/many.mlir | filecheck %s --check-prefix=MANY
// RUN: ge-opt %S/Inputs/many.mlir --mlir-print-elementsattrs-with-hex-if-larger=-1 | filecheck %s --check-prefix=LISTED
// RUN: ge-opt %S/Inputs/many.mlir --mlir-print-elementsattrs-with-hex-if-larger=120 | filecheck %s --check-prefix=LISTED
// RUN: ge-opt %S/Inputs/many.mlir --mlir-print-elementsattrs-with-hex-if-larger=119 | filecheck %s --check-prefix=MANY
// MANY:        dense<[true, false, {{.*}}]> : tensor<120xi1>
// MANY-NEXT:   dense<"0x0001{{.*}}"> : tensor<120xi8>
// LISTED:      dense<[true, false, {{.*}}]> : tensor<120xi1>
// LISTED-NEXT: dense<[0, 1, {{.*}}, 119]> : tensor<120xi8>

// ELIDED:     dense_resource<blob> : tensor<4xi32>
// ELIDED-NOT: {-#

%0 = arith.constant dense<[true, false, true]> : tensor<3xi1>
%1 = arith.constant dense<1.0> : tensor<3xf32>
%2 = arith.constant dense<[1, 2, 3]> : tensor<3xindex>
%3 = arith.constant dense<[1, 2, 3]> : tensor<3xi4>
%4 = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xbf16>
%5 = arith.constant dense_resource<blob> : tensor<4xi32>

{-#
  dialect_resources: { builtin: { blob: "0x0400000001000000020000000300000004000000" } }
#-}
