// What `mlir-opt --mlir-print-debuginfo` prints: aliases behind their uses, metadata, ranges.
// RUN: ge-opt %s --print-debuginfo | filecheck %s
// RUN: ge-opt %s --print-debuginfo | ge-opt --print-debuginfo | filecheck %s

// CHECK:      func.func @f(%arg0: i32 loc("m.mlir":1:14)) -> i32 {
// CHECK-NEXT:   %0 = arith.addi %arg0, %arg0 : i32 loc(fused<"x">["p", "q"])
// CHECK-NEXT:   %1 = arith.muli %0, %0 : i32 loc("f.py":3:4)
// CHECK-NEXT:   %2 = arith.muli %0, %1 : i32 loc(callsite("c" at "f.py":10:8))
// CHECK-NEXT:   func.return %2 : i32 loc("n"("f.py":10:8))
// CHECK-NEXT: } loc("m.mlir":1:1)
// CHECK-NEXT: } loc("m.mlir":0:0)

#loc2 = loc("m.mlir":1:14)
module {
  func.func @f(%arg0: i32 loc("m.mlir":1:14)) -> i32 {
    %0 = arith.addi %arg0, %arg0 : i32 loc(#loc13)
    %1 = arith.muli %0, %0 : i32 loc(#loc9)
    %2 = arith.muli %0, %1 : i32 loc(#loc14)
    return %2 : i32 loc(#loc15)
  } loc(#loc1)
} loc(#loc)
#loc = loc("m.mlir":0:0)
#loc1 = loc("m.mlir":1:1)
#loc3 = loc("p")
#loc4 = loc("q")
#loc9 = loc("f.py":3:4 to 5:6)
#loc10 = loc("c")
#loc11 = loc("f.py":10:8)
#loc12 = loc("f.py":10:8 to :12)
#loc13 = loc(fused<"x">[#loc3, #loc4])
#loc14 = loc(callsite(#loc10 at #loc11))
#loc15 = loc("n"(#loc12))
