// Functions that are called are put in the place of the calls, and what nobody uses goes.
// RUN: ge-opt %s --inline --mlir-print-debuginfo | filecheck %s --check-prefix=INLINE
// RUN: ge-opt %s --inline=max-iterations=0 | filecheck %s --check-prefix=NEVER
// RUN: ge-opt %s --symbol-dce | filecheck %s --check-prefix=DCE
// RUN: ge-opt %s --strip-debuginfo --mlir-print-debuginfo | filecheck %s --check-prefix=STRIP
// RUN: ge-opt %s -p 'func.func(strip-debuginfo)' --mlir-print-debuginfo | filecheck %s --check-prefix=STRIP

// INLINE-NOT:   @twice
// INLINE-NOT:   @unused
// INLINE-LABEL: func.func @main(
// INLINE:         %[[A:.*]] = arith.addi %x, %x : i32 loc(callsite(callsite("in twice" at "in four") at "in main"))
// INLINE:         %[[B:.*]] = arith.addi %[[A]], %[[A]] : i32 loc
// INLINE:         func.call @recursive(%[[B]])
// INLINE:         func.call @declared(
// INLINE:       func.func private @recursive(
// INLINE:       func.func @public_and_unused(

// NEVER-LABEL: func.func @main(
// NEVER:         func.call @four(

// DCE:          func.func private @twice(
// DCE:          func.func private @four(
// DCE-NOT:      @unused
// DCE-NOT:      @used_by_unused
// DCE:          func.func @main(
// DCE:          func.func private @declared(
// DCE:          func.func @public_and_unused(

// STRIP-LABEL: func.func private @twice(
// STRIP:         arith.addi %a, %a : i32 loc(unknown)

func.func private @twice(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32 loc("in twice")
  func.return %0 : i32
}
func.func private @four(%a: i32) -> i32 {
  %0 = func.call @twice(%a) : (i32) -> i32 loc("in four")
  %1 = func.call @twice(%0) : (i32) -> i32
  func.return %1 : i32
}
func.func private @unused() -> () {
  func.call @used_by_unused() : () -> ()
  func.return
}
func.func private @used_by_unused() -> () {
  func.return
}
func.func @main(%x: i32) -> i32 {
  %0 = func.call @four(%x) : (i32) -> i32 loc("in main")
  %1 = func.call @recursive(%0) : (i32) -> i32
  %2 = func.call @declared(%1) : (i32) -> i32
  func.return %2 : i32
}
func.func private @recursive(%a: i32) -> i32 {
  %0 = func.call @recursive(%a) : (i32) -> i32
  func.return %0 : i32
}
func.func private @declared(i32) -> i32
func.func @public_and_unused() -> () {
  func.return
}
