"""L2: what hits, what is written back, how bandwidths are shared."""

import gc
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge.lowering.pipeline.pass_manager import paused_collector
from ge.runtime.clock.simulation import fair_speeds
from ge.runtime.library.costs.l2 import AddressRange, L2Cache

A, B, C = (AddressRange("arena", 100 * i, 100 * i + 100) for i in range(3))


def test_what_was_touched_last_hits_while_it_fits() -> None:
    cache = L2Cache(200)
    assert [cache.read(p, 100) for p in (A, B, A)] == [100, 100, 0]
    assert cache.read(C, 100) == 100  # in the place of B
    assert [cache.read(p, 100) for p in (A, B)] == [0, 100]
    assert cache.written_back == 0


def test_what_is_evicted_dirty_is_written_back_once() -> None:
    cache = L2Cache(200)
    cache.write(A, 100)
    cache.write(A, 100)
    assert cache.read(A, 100) == 0
    cache.read(B, 100)
    assert cache.written_back == 0
    cache.read(C, 100)
    assert cache.written_back == 100


def test_parts_of_places() -> None:
    cache = L2Cache(200)
    cache.write(A, 100)
    assert cache.read(AddressRange("arena", 50, 150), 100) == 50
    # a few rows of a table are not kept ...
    assert cache.read(AddressRange("arena", 0, 1000), 10) == 9
    assert cache.read(AddressRange("arena", 500, 600), 100) == 100  # ... and this needs no eviction
    assert cache.written_back == 50
    cache.forget(A)
    assert cache.read(A, 100) == 100


@pytest.mark.parametrize(("size", "again"), [(50, 0), (49, 49)])
def test_what_is_read_to_less_than_half_is_not_kept(size: int, again: int) -> None:
    cache = L2Cache(200)
    assert [cache.read(A, size) for _ in range(2)] == [size, again]


def test_a_buffer_written_row_by_row_in_two_parts() -> None:
    cache = L2Cache(100)
    for _ in range(2):
        cache.write(A, 50)
    cache.flush()
    assert cache.written_back == 100


def test_rows_that_are_written_do_not_bring_their_buffer() -> None:
    cache = L2Cache(200)
    cache.write_part(A, 10)
    assert cache.written_back == 10
    assert cache.read(A, 100) == 100
    cache.write_part(A, 10)
    assert cache.read(A, 100) == 0
    cache.flush()
    assert cache.written_back == 20


def test_what_is_larger_than_l2_never_hits() -> None:
    cache = L2Cache(200)
    large = AddressRange("io", 0, 300)
    cache.write(A, 100)
    cache.write(large, 300)
    assert cache.written_back == 400
    assert [cache.read(large, 300), cache.read(large, 300), cache.read(A, 100)] == [300, 300, 100]


def test_a_copy_is_changed_apart() -> None:
    cache = L2Cache(200)
    cache.read(A, 100)
    other = cache.copy()
    other.flush()
    assert [cache.read(A, 100), other.read(A, 100)] == [0, 100]


BLOCKS = st.tuples(st.booleans(), st.integers(0, 15))


@settings(deadline=None)
@given(st.lists(BLOCKS, max_size=40), st.integers(1, 20))
def test_is_an_lru_cache_of_whole_accesses(accesses: list[tuple[bool, int]], size: int) -> None:
    """Against a cache that keeps each byte apart; accesses to the same blocks of addresses, so
    that ranges never overlap in part."""
    cache, bytes_held = L2Cache(size), OrderedDict[int, bool]()
    written = 0
    for is_write, block in accesses:
        length = 1 + (block * 7 + 3) % 6  # of a block always the same
        low = 10 * block
        place, addresses = AddressRange("s", low, low + length), range(low, low + length)
        held = sum(a in bytes_held for a in addresses)
        if length > size:
            written += sum(bytes_held.values()) + (length if is_write else 0)
            bytes_held.clear()
        else:
            dirty = [bytes_held.pop(a, False) or is_write for a in addresses]
            bytes_held.update(zip(addresses, dirty, strict=True))
            while len(bytes_held) > size:
                first = next(iter(bytes_held)) // 10
                for a in [a for a in bytes_held if a // 10 == first]:
                    written += bytes_held.pop(a)
        if is_write:
            cache.write(place, length)
        else:
            assert cache.read(place, length) == length - held
        assert cache.written_back == written


def test_one_bandwidth_is_shared_max_min_fair() -> None:
    assert fair_speeds([(1,), (4,), (8,)], (9,)) == pytest.approx([1, 1, 0.5])
    assert fair_speeds([(1,), (8,), (8,)], (9,)) == pytest.approx([1, 0.5, 0.5])
    assert fair_speeds([(0,), (3,)], (9,)) == [1, 1]
    assert fair_speeds([], (9,)) == []


def test_who_needs_another_bandwidth_goes_on() -> None:
    speeds = fair_speeds([(8, 0), (8, 0), (0, 4)], (8, 8))
    assert speeds == pytest.approx([0.5, 0.5, 1])
    speeds = fair_speeds([(8, 8), (8, 0), (0, 8)], (8, 8))
    assert speeds == pytest.approx([0.5, 0.5, 0.5])


RATES = st.floats(0, 100).map(lambda x: x if x > 1e-3 else 0.0)


@settings(deadline=None)
@given(st.lists(st.tuples(RATES, RATES), max_size=12), st.floats(1, 50), st.floats(1, 50))
def test_shares_are_within_bandwidth_and_none_is_wasted(
    demands: list[tuple[float, float]], hbm: float, l2: float
) -> None:
    speeds = fair_speeds(demands, (hbm, l2))
    assert all(0 < s <= 1 for s in speeds)
    used = [sum(d[r] * s for d, s in zip(demands, speeds, strict=True)) for r in (0, 1)]
    full = [u >= c * (1 - 1e-6) for u, c in zip(used, (hbm, l2), strict=True)]
    assert all(u <= c * (1 + 1e-6) for u, c in zip(used, (hbm, l2), strict=True))
    for demand, speed in zip(demands, speeds, strict=True):
        assert speed == 1 or any(f and d for f, d in zip(full, demand, strict=True))


def held() -> int:
    """How many ranges there are that were made while the collector is paused: new objects stay in
    the youngest generation."""
    return sum(type(o).__name__ == "_Range" for o in gc.get_objects(generation=0))


def test_what_was_held_goes_without_the_collector() -> None:
    with paused_collector():
        before = held()
        cache = L2Cache(1 << 20)
        for low in range(0, 4096, 64):
            cache.write(AddressRange("hbm", low, low + 64), 64)
        assert held() == before + 64
        del cache
        assert held() == before
