"""A program of one device under MPI: each process runs one device of the mesh. MPI moves bytes
alone; what is computed is the same as in one process, to the bit.

    mpiexec -n 8 ge-run P.mlir --inputs in.npz --outputs out.npz

MPI waits for ever where a rank fails, stops or stays away. So each rank has a thread that answers
others: how long ago this rank got on, that is, computed, or met others that did. A rank that waits
asks those that are missing; when none of these has got on for some time, it ends with an error that
names the collective and who is missing. A rank that fails tells all others the reason. Where one is
killed, `mpiexec` ends all others at once: a rank is a child of the process that `mpiexec` knows,
which says first which rank it was, and ends it where other ranks do not begin."""

import atexit
import importlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from threading import Event, Thread
from typing import Any, NoReturn, TypeAlias
from zlib import crc32

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ge.dialects.graph.constant import ConstantOp, WeightAttr
from ge.dialects.graph.sharding import parts_of
from ge.dialects.graph.stated import input_name
from ge.dialects.npu_task.ops import ConstantOp as TaskConstantOp
from ge.dialects.support.context import having
from ge.dialects.support.diagnostics import listing
from ge.dialects.support.digits import Axes
from ge.dialects.support.distribution import version
from ge.dialects.support.environment import has_ranks, is_first_rank, own_rank
from ge.dialects.support.errors import Ended, GeError
from ge.dialects.support.mesh import Mesh
from ge.dialects.support.streams import be_quiet
from ge.dialects.support.types import Shape
from ge.runtime.data.arrays import Array
from ge.runtime.data.weights import Payload, files_of
from ge.runtime.device.devices import (
    Make,
    SpreadState,
    WeightParts,
    made_on,
    named,
    own_arguments,
    spreads,
)
from ge.runtime.device.function import Driver, Watch, put_into
from ge.runtime.device.rank_processes import away, kill_stopped
from ge.runtime.numbers.collectives import Member

START_S = 60.0  # that a rank may take to begin
AWAY_S = 7.0  # that others wait for one which is seen to have ended, or to be stopped
LOOKING_S = 1.0  # between looks at the processes of ranks that have not begun
ASKING_S = 0.5  # between questions to a rank that is missing
TELLING_S = 5.0  # that a rank waits for the first one, which may fail as it does
PASSING_ON_S = 0.25  # in which `mpiexec` passes on what a rank prints
NAP_S = 0.05  # of the thread that answers
TAGS = 30_000  # MPI promises 32,767
SHARE = 0.01  # of a processor, that a rank takes which computes

BEFORE = "before the run"  # what a rank does that has not met others

INSTALL = "pip install 'ge-npu[mpi]'"


@cache
def mpi() -> Any:
    """The module. Raises GeError where it is not installed."""
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as e:
        text = f"MPI has started this process, and mpi4py is not there: {e}"
        raise GeError(text, hint=INSTALL) from None


def world() -> Any:
    """The ranks of this run."""
    return mpi().COMM_WORLD


@dataclass
class Answering(Thread):
    """Answers other ranks, and hears what they answer and of what they failed."""

    comm: Any
    heard: dict[int, float] = field(default_factory=dict[int, float])  # when a rank last got on
    busy: dict[int, str] = field(default_factory=dict[int, str])  # what it said that it does
    missing: tuple[int, ...] = ()  # for whom this rank waits
    doing: str = BEFORE
    failure: str = ""
    computed: float = 0.0  # processor time of the rest of this process
    parent: int = field(default_factory=os.getppid)
    got_on: float = field(default_factory=time.monotonic)
    ended: Event = field(default_factory=Event)
    patience_s: float = 8.0  # that nobody who is missing gets on

    def __post_init__(self) -> None:
        Thread.__init__(self, name="ge ranks", daemon=True)

    __hash__ = Thread.__hash__

    def run(self) -> None:
        while not self.ended.is_set():
            if os.getppid() != self.parent:  # nobody waits for this process any more
                os._exit(1)
            self.look()
            with suppress(Exception):  # the others may be gone
                while self.comm.iprobe():
                    self.hear(*self.comm.recv())
            self.ended.wait(NAP_S)

    def look(self) -> None:
        """See whether this rank gets on."""
        others = time.process_time() - time.thread_time()
        if others - self.computed > SHARE * NAP_S and not self.missing:
            self.got_on = time.monotonic()
        self.computed = others

    def hear(self, rank: int, what: str, age: float, text: str) -> None:
        if what == "asks":
            self.tell(rank, "answers", self.age(), self.doing)
        elif what == "fails":
            self.failure = self.failure or text
        else:
            self.heard[rank] = max(self.heard.get(rank, 0.0), time.monotonic() - age)
            self.busy[rank] = text

    def age(self) -> float:
        """Seconds since this rank got on: one that waits gets on as those for whom it waits."""
        known = [self.heard[m] for m in self.missing if m in self.heard]
        return time.monotonic() - max(known, default=self.got_on)

    def tell(self, rank: int, what: str, age: float = 0.0, text: str = "") -> None:
        self.comm.isend((self.comm.rank, what, age, text), rank)

    def stop(self) -> None:
        self.ended.set()
        self.join(1.0)


@cache
def answering() -> Answering:
    thread = Answering(world().Dup())
    thread.start()
    atexit.register(thread.stop)  # before MPI ends
    return thread


@cache
def data_comm() -> Any:
    answering()
    return world().Dup()


# ---- waiting -----------------------------------------------------------------------------------


def wait_for(requests: Sequence[Any], ranks: Sequence[int], what: str) -> None:
    """Wait for messages from or to some ranks. Raises Ended where one of them fails, or does not
    get on."""
    thread, begin, asked = answering(), time.monotonic(), 0.0
    thread.doing = f"waits in {what}"
    try:
        while not mpi().Request.Testall(requests):
            now = time.monotonic()
            missing = [r for r, q in zip(ranks, requests, strict=True) if not q.Test()]
            missing = list(dict.fromkeys(missing))
            for rank in missing if not thread.missing else ():
                if rank in thread.heard:  # it got on until now, for all that is known
                    thread.heard[rank] = max(thread.heard[rank], begin)
            thread.missing = tuple(missing)
            if thread.failure:
                raise Ended(thread.failure)
            if now - max(begin, asked) > ASKING_S:
                asked = now
                who = listing([f"rank {r}" for r in missing], 4, ", ")
                thread.doing = f"waits in {what} for {who}"
                for rank in missing:
                    thread.tell(rank, "asks")
            late = [r for r in missing if now - thread.heard.get(r, begin) > patience(thread, r)]
            if late:
                raise Ended(stays_away(thread, late, what))
            time.sleep(0 if now - begin < 1e-3 else 1e-3 if now - begin > 0.1 else 1e-4)
        for rank in ranks:
            thread.heard[rank] = time.monotonic()
    finally:
        thread.missing, thread.doing = (), "computes"
        thread.got_on = time.monotonic()


def patience(thread: Answering, rank: int) -> float:
    return thread.patience_s if rank in thread.heard else max(START_S, thread.patience_s)


def stays_away(thread: Answering, late: Sequence[int], what: str) -> str:
    told = [f"rank {r} ({thread.busy.get(r, 'which is silent')})" for r in late]
    names = listing(told, 4, ", ")
    comm = thread.comm
    return f"rank {comm.rank} of {comm.size}: waits in {what} for {names}, which does not get on"


@dataclass
class Links:
    """The other ranks, for this one."""

    numbers: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])

    @contextmanager
    def swap(
        self,
        what: str,
        group: Sequence[int],
        sends: Mapping[int, Array],
        wants: Mapping[int, Shape],
        like: Array,
    ) -> Generator[Mapping[int, Array]]:
        comm, key = data_comm(), tuple(group)
        number = self.numbers[key] = self.numbers.get(key, -1) + 1
        tag = (crc32(what.encode()) + number) % TAGS
        found = {d: np.empty(shape, like.dtype) for d, shape in wants.items()}
        kept = {d: np.ascontiguousarray(a) for d, a in sends.items() if a.size}
        requests = [
            *(comm.Irecv([raw(a), mpi().BYTE], d, tag) for d, a in found.items() if a.size),
            *(comm.Isend([raw(a), mpi().BYTE], d, tag) for d, a in kept.items()),
        ]
        wait_for(requests, [*(d for d, a in found.items() if a.size), *kept], what)
        yield found


def raw(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


# ---- running -----------------------------------------------------------------------------------


# A part of a weight or an input: what it is, what this rank has of it, and the axes that cut it
Part: TypeAlias = tuple[str, Array | None, Axes]


class Rank:
    """The function of the device that this process is."""

    def __init__(
        self, module: ModuleOp, func: FuncOp, mesh: Mesh, payload: Payload, make: Make
    ) -> None:
        self.mesh, self.rank, self.peers = mesh, world().rank, Links()
        if mesh.count != world().size:
            there = "is one rank" if world().size == 1 else f"are {world().size} ranks"
            text = f"the program is for {mesh.count} devices, and there {there}"
            raise GeError(text, hint=f"start it with mpiexec -n {mesh.count}")
        self.arguments, self.results = spreads(func, mesh)
        self.names = [input_name(func, i) for i in range(len(func.args))]
        with telling_others(self.rank, mesh.count):
            self.agree(module, payload)
            self.function = made_on(mesh, self.rank, make)
        self.states = SpreadState.all_of({self.rank: self.function}, mesh)
        self.here = (self.rank,)

    def agree(self, module: ModuleOp, payload: Payload) -> None:
        """Raises GeError where ranks have other programs, weights or versions (rule D1)."""
        files = [(path.name, path.stat().st_size) for path in files_of(payload)]
        facts = {
            "program": str(module),
            "file of weights": str(files),
            "version of ge or numpy": f"{version()} {np.__version__}",
        }
        own = np.concatenate([
            np.frombuffer(sha256(text.encode()).digest(), np.uint8) for text in facts.values()
        ])  # fmt: skip
        everybody = range(self.mesh.count)
        others = dict.fromkeys((d for d in everybody if d != self.rank), own)
        wants = dict.fromkeys(others, own.shape)
        with self.peers.swap("the start of the program", everybody, others, wants, own) as found:
            for what, mine in zip(facts, own.reshape(len(facts), -1), strict=True):
                at = list(facts).index(what)
                apart = [
                    d for d, a in found.items() if (a.reshape(len(facts), -1)[at] != mine).any()
                ]
                if apart:
                    raise differs(self.rank, what, apart)
        self.agree_on_weights(module, payload)

    def agree_on_weights(self, module: ModuleOp, payload: Payload) -> None:
        """Raises GeError where a part of a weight that several ranks have is not the same."""
        parts, axes = WeightParts(payload, module, self.mesh, self.rank), shared(module, self.mesh)
        own = [(f"part of the weight '{k}'", parts.get(k), cut) for k, cut in axes.items()]
        self.agree_on_parts("the weights of the program", own)

    def agree_on_inputs(self, arrays: Sequence[Array]) -> None:
        """Raises GeError where a part of an input that several ranks have is not the same."""
        cuts = [tuple(spread.sharding.axes) for spread in self.arguments]
        parts = [
            (f"part of the input '{name}'", array, own)
            for name, array, own in zip(self.names, arrays, cuts, strict=True)
            if self.mesh.parts(own) < self.mesh.count
        ]
        self.agree_on_parts("the inputs", parts)

    def agree_on_parts(self, what: str, parts: Sequence[Part]) -> None:
        """Raises GeError where a part that several ranks have is not the same."""
        if not parts:
            return
        arrays = (array for _, array, _ in parts)
        sums = [0 if a is None else crc32(raw(np.ascontiguousarray(a)).data) for a in arrays]
        mine, everybody = np.array(sums, np.uint32), range(self.mesh.count)
        others = dict.fromkeys((d for d in everybody if d != self.rank), mine)
        wants = dict.fromkeys(others, mine.shape)
        with self.peers.swap(what, everybody, others, wants, mine) as found:
            for i, (name, _, own) in enumerate(parts):
                place = self.mesh.index(own, self.rank)
                same = [d for d in found if self.mesh.index(own, d) == place]
                if apart := [d for d in same if found[d][i] != mine[i]]:
                    raise differs(self.rank, name, apart)

    def run(
        self,
        arguments: Sequence[Array],
        outputs: Sequence[Array | None] | None = None,
        driver: Driver | None = None,
        watch: Watch | None = None,
    ) -> list[Array]:
        """The whole results of whole arguments, on all ranks. Raises GeError that names the rank
        for what fails on one."""
        member = Member(self.mesh, self.rank, self.peers)
        with telling_others(self.rank, self.mesh.count):
            own = own_arguments(self.arguments, arguments, member, self.function)
            self.agree_on_inputs(own)
            with having(member):
                parts = self.function.run(own, None, driver, watch)
            results = [self.gathered(i, part) for i, part in enumerate(parts)]
        return put_into(outputs, results)

    def gathered(self, number: int, part: Array) -> Array:
        """A whole result, of parts of which each comes from the first device that has it."""
        spread = self.results[number]
        if spread.is_everywhere:
            return part
        everybody, owners = range(self.mesh.count), spread.owners(self.mesh)
        sends = {d: part for d in everybody if d != self.rank and self.rank in owners}
        wants = {d: part.shape for d in owners if d != self.rank}
        with self.peers.swap(f"result {number}", everybody, sends, wants, part) as found:
            parts = [found.get(d, part) for d in everybody]
            return spread.joined(parts, self.mesh)


def shared(module: ModuleOp, mesh: Mesh) -> dict[str, Axes]:
    """The weights of which several devices have the same part, and the axes that cut them."""
    cut, found = parts_of(module), dict[str, Axes]()
    for op in module.walk():
        if isinstance(op, ConstantOp | TaskConstantOp) and isinstance(op.value, WeightAttr):
            key = op.value.data
            axes = tuple(cut[key][1].resolved(mesh).axes) if key in cut else ()
            if mesh.parts(axes) < mesh.count:
                found[key] = axes
    return found


def differs(rank: int, what: str, others: Sequence[int]) -> GeError:
    whose = f"rank{'s' * (len(others) > 1)} {', '.join(map(str, others))}"
    text = f"rank {rank} has another {what} than {whose} [D1]"
    return GeError(text, hint="all ranks run the same command on the same files")


@contextmanager
def telling_others(rank: int, count: int) -> Generator[None]:
    """Tell all other ranks of what fails here."""
    try:
        yield
    except Ended:
        raise
    except Exception as e:
        error = named(e, rank, count, "rank")
        for other in range(count):
            if other != rank:
                answering().tell(other, "fails", 0.0, error.message)
        raise error from e


def together(run: Callable[[], int]) -> int:
    """Run a command, from its arguments on: what it prints and writes is that of rank 0. Where it
    fails on one, it ends on all, with the reason."""
    begun = go_on_in_a_child()
    try:
        comm, thread = world(), answering()
    except GeError:
        if not is_first_rank() and first_ends():  # it has told the same
            sys.exit(1)
        raise
    data_comm()  # all ranks meet in it, as in the two before
    begun()
    thread.heard = dict.fromkeys(range(comm.size), time.monotonic())
    if comm.rank:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        be_quiet()
    try:
        return run()
    except Exception as e:
        is_own = isinstance(e, GeError) and not e.message.startswith("rank ")
        if comm.rank:
            if is_own:
                let_the_first_tell(thread)
            time.sleep(2 * PASSING_ON_S + 0.02 * comm.rank)
        atexit.register(end_all, comm)  # when the error is told
        if comm.rank and is_own:
            raise named(e, comm.rank, comm.size, "rank") from e
        raise


def end_all(comm: Any) -> None:
    """End all ranks: not before `mpiexec` has passed on what this one has told."""
    time.sleep(PASSING_ON_S)
    comm.Abort(1)


def first_ends() -> bool:
    """Wait some seconds for rank 0 to end; return whether it is seen to have."""
    end = time.monotonic() + TELLING_S
    while 0 not in away():
        if time.monotonic() > end:
            return False
        time.sleep(2 * NAP_S)
    return True


def let_the_first_tell(thread: Answering) -> None:
    """Wait for the end, which comes from rank 0 where that fails in the same way; return when it is
    seen to have begun the run, or after some time."""
    end = time.monotonic() + TELLING_S
    while thread.busy.get(0, BEFORE) == BEFORE and time.monotonic() < end:
        thread.tell(0, "asks")
        time.sleep(2 * NAP_S)


def go_on_in_a_child() -> Callable[[], None]:
    """Go on in a child of this process, which waits, and ends as the child does. Where that is
    killed, it says of which rank. Returns what the child calls when all ranks have begun; where
    some do not, the parent ends it: MPI would wait for ever."""
    if not hasattr(os, "fork"):
        return lambda: None
    begun, own = os.pipe()
    if not (child := os.fork()):
        os.close(begun)
        return lambda: os.close(own)
    os.close(own)

    def pass_on(number: int, _: object) -> None:
        os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    if reason := others_stay_away(begun):
        os.kill(child, signal.SIGKILL)
        kill_stopped()
        end_with(1, f"waits for {reason}")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        end_with(128 - status, f"was ended by {signal.Signals(-status).name}")
    os._exit(status)


def others_stay_away(begun: int) -> str:
    """Wait until all ranks have begun, which closes a pipe; return for whom in vain, and why."""
    start = well = time.monotonic()
    while not select.select([begun], [], [], LOOKING_S)[0]:
        now, gone = time.monotonic(), away()
        well = well if gone else now
        if now - well > AWAY_S:
            texts = [f"rank {n}, which {what}" for n, what in sorted(gone.items())[:4]]
            return f"{', '.join(texts)}, and has not begun"
        if now - start > START_S:
            return f"other ranks, which have not begun after {START_S:.0f} s"
    return ""


def end_with(status: int, what: str) -> NoReturn:
    """End this process at once, which says what has happened to its rank."""
    os.write(2, f"ge-run: error: rank {own_rank()} {what}\n".encode())
    os._exit(status)


def require_devices(mesh: Mesh | None, patience_s: float) -> None:
    """Raises GeError where several ranks are to run a program of one device. `patience_s`: how long
    they wait for others that do not get on."""
    if not has_ranks():
        return
    answering().patience_s = patience_s
    if mesh is None and world().size > 1:
        text = f"the program is for one device, and there are {world().size} ranks"
        raise GeError(text, hint="compile it with --mesh, or start it once")
