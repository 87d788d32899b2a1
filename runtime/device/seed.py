"""What random numbers follow from: an argument that the session gives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i64

from ge.dialects.support.errors import GeError
from ge.runtime.data.arrays import Array
from ge.runtime.device.ports import Port


@dataclass
class RunSeed:
    """`session.seed`: its own number, and that of the next run, from 0 on; who sets `run` gets the
    numbers of that run again. `names`: the arguments that are both."""

    number: int
    run: int = 0
    names: Sequence[str] = ()

    @classmethod
    def of(cls, seed: "int | RunSeed", arguments: Sequence[Port]) -> "RunSeed":
        """The seed of a session with these arguments of @main. Raises GeError for one that is no
        integer of 64 bits, and for arguments of another type."""
        names = [p.name for p in arguments if p.seed]
        for port in arguments:
            if port.seed and (port.element, port.shape) != (i64, (2,)):
                raise GeError(f"'{port}' is marked as the seed, which is int64[2]")
        if isinstance(seed, RunSeed):
            return seed
        if type(seed) is not int or not -(1 << 63) <= seed < 1 << 63:
            raise GeError(f"the seed is an integer of 64 bits, not {seed!r}")
        return cls(seed, 0, names)

    def arguments(self) -> dict[str, Array]:
        """The arguments for the next run, int64 [2] each."""
        value = np.array([self.number, self.run], np.int64)
        self.run += 1
        return dict.fromkeys(self.names, value)
