// The lines that a text is split at, and what is printed between its parts.
// RUN: ge-opt %s --split-input-file='//===//' | filecheck %s
// RUN: ge-opt --split-input-file='//===//' %s --output-split-marker='// *****' | filecheck %s --check-prefix=STARS
// RUN: ge-opt %s --split-input-file='//===//' --output-split-marker= | filecheck %s --check-prefix=EMPTY
// RUN: ge-opt %s --split-input-file= | filecheck %s --check-prefix=WHOLE
// RUN: ge-opt --split-input-file %s | filecheck %s --check-prefix=DEFAULT

// CHECK: func.func private @a(
// CHECK: // -----{{$}}
// CHECK: func.func private @b(
// STARS: // *****{{$}}
// EMPTY: }
// EMPTY-EMPTY:
// EMPTY: builtin.module
// WHOLE-COUNT-1: builtin.module
// WHOLE-NOT: builtin.module
// DEFAULT-COUNT-2: builtin.module

func.func private @a() -> ()
//===// and what else there is in this line
func.func private @b() -> ()
// -----
func.func private @c() -> ()
