"""Properties that are one of a few strings: a constraint of the definition, in the IR a string."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, VerificationContext, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

ROUNDINGS = ("half_even", "tflite", "power_of_two", "float32")  # see `graph.requantize`


@dataclass(frozen=True)
class ChoiceConstraint(AttrConstraint[StringAttr]):
    """The constraint; `name` is that of the property."""

    name: str
    choices: tuple[str, ...]

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, StringAttr) or attr.data not in self.choices:
            raise VerifyException(f"{self.name} is one of {', '.join(self.choices)}, not {attr}")

    def get_bases(self) -> set[type[Attribute]]:
        return {StringAttr}

    def mapping_type_vars(self, type_var_mapping: object) -> "ChoiceConstraint":
        return self


def choice_def(name: str, choices: Sequence[str], default: str | None = None) -> StringAttr:
    """The property `name`, which is one of the choices."""
    value = None if default is None else StringAttr(default)
    return prop_def(ChoiceConstraint(name, tuple(choices)), default_value=value)


def opt_choice_def(name: str, choices: Sequence[str]) -> StringAttr | None:
    return opt_prop_def(ChoiceConstraint(name, tuple(choices)))
