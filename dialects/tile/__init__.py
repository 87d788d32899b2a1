"""The `tile` dialect. `kernel.py` shows a kernel and where its ops stand; here is why it is so.

What it is for. A launch is one op at the levels above, and what the core does in it a formula: a
wrong plan cannot give a wrong number, and nothing waits for anything. A `tile.kernel` says it by
instruction. One text is run on bytes and timed (`runtime/tiles`), and proved (`runtime/check`).

Why so:

- **Two programs, as the chip has two cores.** On split targets there is no way from L0C to UB or
  from UB to L1 but through device memory. Moves that do not exist are no ops: data pass by
  `tile.push` and `tile.pop`. These are two ops, since one alone would keep a core waiting until the
  other one has come to the same place.
- **Vector cores beside one cube core share the rows of each tile.** `tile.vector split 2` is one
  text for both; each has its own memory, pipes and flags, and pops and pushes its half of a tile,
  which is a whole one for the cube. So softmax and norms have their rows on one core, nothing is
  exchanged between the two, and the cube's program does not say how many they are. Rejected: a
  program for each (the same text twice), a tile in turn to each (each would need statistics of its
  own for the same rows of attention, merged at the end, and twice the memory), columns (sums of
  rows would cross).
- **Pipes are not in the text.** An op's pipe follows from what it moves between which memories; an
  `Instruction` says it, and what it reads and writes, in one place (`instruction.py`), which the
  engine, its costs, the passes and the checker all take it from. What is wrong there is wrong
  everywhere, and no proof notices.
- **The order is the program's.** A kernel without flags means what its instructions do one after
  the other. `tile-flags` keeps that meaning on pipes that run side by side, so that authors do not
  write flags; those who do keep theirs, and `ge-check` proves either.
- **A ring is one value**, and its slot an index mod the copies: the index of a loop says how far a
  stage is ahead. A stage that runs ahead is an `scf.if` in a loop (`j < n`, `j >= ahead`), which
  `tile-split-loops` cuts: no op for pipelines is needed, and the parts stay readable.
- **Always two dimensions, always static.** The core's instructions have rows and columns. Boxes of
  memrefs have any rank, and `sizes` says which dimensions the two are. Ends are of boxes alone:
  loads pad there and stores leave out, so that no other instruction has a mask.
- **Windows of convolutions are boxes, or are unfolded.** A box may begin before its memref, where a
  load pads, has steps, and its columns may be several dimensions (lines of an image); `rows` of a
  load says which rows of the tile it becomes. So a window of kernel element k is a box, moved by k,
  that becomes every K-th row of the right operand (channels and kernel elements by pixels): what a
  transfer that brings rows into the cube's order does anyway, with a distance between the rows it
  writes. Weights stay as they are, since the sums run over channels and kernel elements in their
  order. It costs K loads of the same bytes from L2. A box with steps along its columns costs 32
  bytes an element; a move within UB takes such columns of a tile at the rate of a gather.
  `tile.unfold` makes windows between L1 and L0, as the hardware does, of pixels that came once. It
  asks for channels side by side in L1: tensors that have pixels side by side are transposed by
  vector cores first, and pass a fifo; a kernel with both kinds of cores starts later. The hardware
  has blocks of 32 bytes of channels innermost, and its sums go in that order; here, as everywhere,
  elements of a tile lie row by row, and the sums go in the order of weights as they lie in memory.
- **Cores meet at barriers alone, and what they pass each other is in a workspace.** `tile.barrier`
  is of all cores and all their pipes (SyncAll): no flag between two cores has a name or a number,
  and what a proof has to compare are phases. A workspace is memrefs of the kernel behind those that
  it is given, and not an op: boxes, races and bounds are found as in others. A launch does not name
  it; the plan has one for each stream (`workspace.py`). Rejected: a workspace that a launch is
  given as a buffer of the arena (the plan is made before tile programs are written, and a kernel's
  arguments would follow from how it is written), sums added by `tile.store ... add` in the order of
  cores (a flag for each two cores, and the result's type would be that of the sums).
- **`tile.map` has graph ops in it**, whose kernels and costs there are, and rows and columns
  broadcast as at the levels above.
- **Layout rules are of types**: multiples of 16 outside of UB, rows of 32 bytes in UB. What does
  not fit is refused where it is written, not where it runs.

What was rejected:

- Memrefs in memory spaces (`memref<128x64xf16, l1>`) with subviews instead of tiles: offsets and
  strides in each type, fractal layouts in none, and no type for a ring.
- Destinations as results (`%t = tile.load %box`): buffers are then chosen by a pass, and what is
  multi-buffered cannot be read from the text. It is what authors ask to choose.
- Flags as values (tokens as in `async`): loops would carry them, one for each slot of each ring,
  while the hardware has eight for each pair of pipes, which a pass has to count anyway.
- Flags on `tile.alloc` that the engine would follow by itself: then none could be missing, and the
  emulated core could not show it.
- A type for the number of a flag, or flags by name: they are numbers in the hardware, computed from
  the slot.

What is not there:

- Gathers by indices in a tile: the scalar unit reads one number at a time (`tile.read`), and says
  in which range it is, since nothing else is known of it before the kernel runs.
- Arguments of unknown shape, and scalar arguments.
- Bias and scales of FIX beyond a cast and `relu`; the bias table of the cube.
- Buffers that share bytes: `tile-plan` keeps each for the whole program. Offsets by hand may
  overlap; then `tile-flags` does not know, and the checker tells.
- Flags between memrefs' boxes: what a program both stores and loads counts as one buffer, so loads
  and stores of a kernel in place wait for each other. Order between some cores, and not all, by
  device memory.
"""

from xdsl.ir import Dialect

from ge.dialects.support.modules import attributes_of, ops_of
from ge.dialects.tile import buffers, compute, kernel, reading, transfers, types, unfold

FAMILIES = (types, kernel, buffers, reading, transfers, unfold, compute)

Tile = Dialect("tile", ops_of(*FAMILIES), attributes_of(*FAMILIES))
