"""Passes that decide from data: samples, or a table of earlier decisions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ge.dialects.support.effort import TimeIsUp, effort_at_hand
from ge.dialects.support.functions import main_function
from ge.transforms.quantization.data import Calibration, calibrating, calibration_at_hand
from ge.transforms.quantization.sources import Files, samples_of
from ge.transforms.quantization.table import read_table


@dataclass(frozen=True)
class CalibratedPass(ModulePass, ABC):
    """A pass over @main that decides from data."""

    is_first: ClassVar[bool] = False  # without what it decides, others cannot

    data: str = ""

    @abstractmethod
    def run(self, main: FuncOp, calibration: Calibration) -> None: ...

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (main := main_function(op)) is None:
            return
        calibration = calibration_at_hand()
        if self.data.endswith(".toml"):
            calibration = Calibration(read_table(self.data))
        elif self.data:
            calibration = Calibration(samples=samples_of(Files([self.data]), main))
        with calibrating(calibration):
            self.run_within(main, calibration)

    def run_within(self, main: FuncOp, calibration: Calibration) -> None:
        """Decide what the table does not have yet, if there is time; else what it has holds."""
        table, known = calibration.table, effort_at_hand()
        if calibration.samples is not None and not table.has_all(self.name):
            undone = len(known.undone)
            known.tell(self.name, 0, 0)
            try:
                if not self.is_first:
                    known.check()
                self.run(main, calibration)
            except TimeIsUp:
                known.undone.append(self.name)
            else:
                if len(known.undone) == undone:
                    table.passes.append(self.name)
                return
        with calibrating(replace(calibration, samples=None)) as decided:
            self.run(main, decided)
