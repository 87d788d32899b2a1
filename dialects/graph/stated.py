"""Attributes that the dialect states of functions, arguments, results, modules and ops, by name."""

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.irdl import BaseAttr, RangeOf

from ge.dialects.graph.ports import (
    DIM_RANGES,
    DIM_RELATIONS,
    DIMS,
    HASH,
    NAME,
    PADDING,
    PAYLOAD,
    RANGE,
    SEED,
    SEQUENCE,
)
from ge.dialects.graph.recoded import CODES, DIVIDED
from ge.dialects.graph.state import BLOCK, LENGTH, STATE, STEP
from ge.dialects.support.constraints import F64, Named
from ge.dialects.support.discardable import (
    ARGUMENT,
    FLAG,
    FUNCTION,
    MODULE,
    NUMBER,
    OP,
    RESULT,
    TABLE,
    TEXT,
    TEXTS,
    Stated,
)

BOUNDS = Named(ArrayAttr.constr(RangeOf(F64).of_length(2)), "the least and the largest number, f64")
TABLES = Named(ArrayAttr.constr(BaseAttr(DictionaryAttr)), "a list of dictionaries")

STATED = {
    NAME: Stated(TEXT, (ARGUMENT, RESULT)),
    DIMS: Stated(TEXTS, (ARGUMENT, RESULT)),
    SEQUENCE: Stated(TEXT, (ARGUMENT, RESULT)),
    SEED: Stated(FLAG, (ARGUMENT,)),
    STATE: Stated(TEXT, (ARGUMENT,)),
    LENGTH: Stated(TEXT, (ARGUMENT,)),
    STEP: Stated(NUMBER, (ARGUMENT,)),
    BLOCK: Stated(NUMBER, (ARGUMENT,)),
    RANGE: Stated(BOUNDS, (ARGUMENT, OP)),
    DIM_RANGES: Stated(TABLE, (FUNCTION,)),
    DIM_RELATIONS: Stated(TABLE, (FUNCTION,)),
    PADDING: Stated(TABLE, (FUNCTION,)),
    CODES: Stated(TABLE, (FUNCTION,)),
    DIVIDED: Stated(TABLES, (FUNCTION,)),
    PAYLOAD: Stated(TEXT, (MODULE,)),
    HASH: Stated(TEXT, (MODULE,)),
}
