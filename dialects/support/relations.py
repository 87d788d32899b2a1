"""Dimensions that follow from others: `mask` is `past + 1`, as a user says it (`--dim mask=past+1`)
or as the ops of a graph want it (`relate_dims.py`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ge.dialects.support.dims import symbols
from ge.dialects.support.errors import GeError
from ge.dialects.support.polynomial import Polynomial


@dataclass
class Relations:
    """Sizes of dimensions by name; no name that has one stands in the size of another."""

    sizes: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "Relations":
        """Raises GeError where a dimension leads back to itself."""
        relations = cls()
        for name, text in texts.items():
            size = relations.substituted(Polynomial.named(text))
            if size is None or name in symbols(str(size)):
                what = f"--dim {name}={text}: the size of '{name}' follows from itself"
                raise GeError(what, hint="state dimensions by those that are left open")
            relations.add(name, size)
        return relations

    def add(self, name: str, size: Polynomial) -> None:
        """A dimension that no other one here follows to be, and the size that it has."""
        new = {name: size}
        for other, known in self.sizes.items():
            self.sizes[other] = Polynomial.named(str(known), new) or known
        self.sizes |= new

    def substituted(self, size: Polynomial | None) -> Polynomial | None:
        return None if size is None else Polynomial.named(str(size), self.sizes)

    def named(self, name: str) -> str:
        """The name that a dimension has where sizes that follow stand in the place of names."""
        known = (name, *symbols(name))
        if name and any(n in self.sizes for n in known):
            size = Polynomial.named(name, self.sizes)
            return name if size is None else str(size)
        return name

    @property
    def texts(self) -> dict[str, str]:
        return {name: str(size) for name, size in self.sizes.items()}

    def source(self, text: str) -> str | None:
        """A dimension that has this size."""
        return next((name for name, size in self.texts.items() if size == text), None)
