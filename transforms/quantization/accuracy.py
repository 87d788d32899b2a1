"""Requirements on the outputs of a quantized model, on calibration data: `snr>=25`, `cos>=0.999`,
`snr(y)>=25` for one output, or the score that a function of the user's gives to outputs."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from ge.dialects.support.errors import GeError

if TYPE_CHECKING:
    from ge.runtime.data.accuracy import Arrays
    from ge.transforms.quantization.data import Calibration

Score: TypeAlias = "Callable[[Arrays, Arrays], float]"  # of outputs and labels, by name

# Each metric with the form of its values
METRICS = {"snr": "{:.1f} dB", "cos": "{:.6f}"}
EXAMPLE = "a bound such as snr>=25 or cos>=0.999"  # snr(y)>=25 is that of one output


@dataclass(frozen=True)
class Accuracy:
    """The least value of a metric, of all outputs or of a named one. With `score`: how much less
    its value may be than with the outputs of the float model."""

    metric: str
    least: float
    score: "Score | None" = None
    output: str = ""

    @classmethod
    def parsed(cls, text: str) -> "Accuracy":
        """Return the bound that a text states. Raises ValueError, which says what is expected and
        where."""
        place, output = 0, ""
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
            if what == "snr or cos" and (named := re.compile(r"\(([^)]+)\)\s*").match(text, place)):
                output, place = named[1].strip(), named.end()
        if text[place:] not in ("", "dB"):
            raise ValueError(f"{EXAMPLE} (nothing is expected at character {place + 1})")
        return cls(found[0].lower(), float(found[2]), output=output)

    def __str__(self) -> str:
        named = f"({self.output})" if self.output else ""
        return f"{self.metric}{named} {'>=' if self.score is None else 'loss <='} {self.least:.12g}"

    def told(self, value: float) -> str:
        return METRICS.get(self.metric, "{:g}").format(value)

    def value(self, want: "Arrays", got: "Arrays", labels: "Arrays") -> float:
        """The metric of outputs, `want` those of the float model. Raises GeError where the user's
        function fails."""
        if self.score is not None:
            return self._score(self.score, got, labels)
        from ge.runtime.data.accuracy import worst

        names = self.of(want)
        return worst(self.metric, {name: want[name] for name in names}, got)

    def of(self, outputs: "Iterable[str]") -> list[str]:
        """The outputs that the bound is of. Raises GeError for a name that is none of them."""
        names = list(outputs)
        if self.output and self.output not in names:
            near = get_close_matches(self.output, names, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"outputs are {_listed(names)}"
            raise GeError(f"the model has no output '{self.output}'", hint=hint)
        return [self.output] if self.output else names

    @property
    def decibels(self) -> float:
        """The signal to noise that is asked for; of a cosine that of noise which has nothing in
        common with the signal."""
        if self.metric == "snr":
            return self.least
        return -10 * math.log10(2 * (1 - self.least)) if self.least < 1 else math.inf

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


def _listed(arrays: "Iterable[str]") -> str:
    return ", ".join(f"'{name}'" for name in arrays) or "(none)"


@dataclass(frozen=True)
class Asked:
    """A calibration that a program asks for: samples or a score that no option can state."""

    calibration: "Calibration"


def accuracy_of(text: str) -> Accuracy | None:
    """Return the bound that a text states; None for no text. Raises GeError for a text that is no
    bound."""
    try:
        return Accuracy.parsed(text) if text else None
    except ValueError as e:
        raise GeError(f"accuracy is {e}, not '{text}'") from None
