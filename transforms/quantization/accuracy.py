"""Requirements on the outputs of a quantized model, on calibration data: `snr>=25`, `cos>=0.999`,
or the score that a function of the user's gives to outputs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ge.dialects.support.errors import GeError

if TYPE_CHECKING:
    from ge.transforms.quantization.noise import Arrays

Score: TypeAlias = "Callable[[Arrays, Arrays], float]"  # of outputs and labels, by name

# Each metric with the form of its values
METRICS = {"snr": "{:.1f} dB", "cos": "{:.6f}"}
EXAMPLE = "a bound such as snr>=25 or cos>=0.999"


@dataclass(frozen=True)
class Accuracy:
    """The least value of a metric. With `score`: how much less its value may be than with the
    outputs of the float model."""

    metric: str
    least: float
    score: "Score | None" = None

    @classmethod
    def parsed(cls, text: str) -> "Accuracy":
        """Return the bound that a text states. Raises ValueError, which says what is expected and
        where."""
        place = 0
        found: list[str] = []
        number = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
        for pattern, what in (
            ("|".join(METRICS), "snr or cos"),
            (">=", ">="),
            (number, "a number"),
        ):
            match = re.compile(rf"\s*({pattern})\s*", re.I).match(text, place)
            if match is None:
                raise ValueError(f"{EXAMPLE} ({what} is expected at character {place + 1})")
            found.append(match[1])
            place = match.end()
        if text[place:] not in ("", "dB"):
            raise ValueError(f"{EXAMPLE} (nothing is expected at character {place + 1})")
        return cls(found[0].lower(), float(found[2]))

    def __str__(self) -> str:
        return f"{self.metric} {'>=' if self.score is None else 'loss <='} {self.least:.12g}"

    def told(self, value: float) -> str:
        return METRICS.get(self.metric, "{:g}").format(value)

    def value(self, want: "Arrays", got: "Arrays", labels: "Arrays") -> float:
        """The metric of outputs, `want` those of the float model. Raises GeError where the user's
        function fails."""
        if self.score is not None:
            return self._score(self.score, got, labels)
        from ge.transforms.quantization.noise import worst

        return worst(self.metric, want, got)

    def bound(self, want: "Arrays", labels: "Arrays") -> float:
        return self.least if self.score is None else self.value(want, want, labels) - self.least

    def _score(self, score: "Score", outputs: "Arrays", labels: "Arrays") -> float:
        names = f"outputs {_listed(outputs)} and labels {_listed(labels)}"
        try:
            value = float(score(outputs, labels))
        except Exception as e:
            what = f"'{self.metric}' failed: {type(e).__name__}: {e}"
            raise GeError(what, hint=f"it is called with {names}, each a dict of arrays") from e
        if value != value:
            raise GeError(f"'{self.metric}' gave nan", hint=f"it was called with {names}")
        return value


def _listed(arrays: "Arrays") -> str:
    return ", ".join(f"'{name}'" for name in arrays) or "(none)"


def accuracy_of(text: str) -> Accuracy | None:
    """Return the bound that a text states; None for no text. Raises GeError for a text that is no
    bound."""
    try:
        return Accuracy.parsed(text) if text else None
    except ValueError as e:
        raise GeError(f"accuracy is {e}, not '{text}'") from None
