"""The colours of MLIR text, for pygments: a lexer that is installed under the name `mlir`."""

from collections.abc import Sequence
from typing import ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

NAME = r"[A-Za-z_][\w$]*"


class MlirLexer(RegexLexer):
    """Colours ops, values, symbols, attributes, types, strings and numbers."""

    name = "MLIR"
    aliases: ClassVar[Sequence[str]] = ["mlir"]
    filenames: ClassVar[Sequence[str]] = ["*.mlir"]
    mimetypes: ClassVar[Sequence[str]] = []
    url = "https://mlir.llvm.org"
    tokens: ClassVar[dict[str, list[tuple[str, object]]]] = {
        "root": [
            (r"\s+", Text.Whitespace),
            (r"//.*", Comment.Single),
            (r'"(\\.|[^"\\])*"', String),
            (r"%[\w$.-]+(#\d+)?", Name.Variable),
            (r"\^[\w$.-]+", Name.Label),
            (r'@([\w$.-]+|"[^"]*")', Name.Function),
            (rf"[#!]{NAME}(\.[\w$.]+)?", Name.Decorator),
            (r"(tensor|memref|vector|tuple|complex)(?=<)", Keyword.Type),
            (r"([su]?i[1-9]\d*|b?f\d+(E\d+M\d+\w*)?|tf32|index|none)\b", Keyword.Type),
            (r"(\d+|\?)(?=x)", Number.Integer),
            (r"x(?=[\d?a-z!])", Punctuation),
            (rf"{NAME}(\.[A-Za-z_][\w$.]*)+(?=\s*=(?!=))", Name.Attribute),
            (rf"{NAME}(\.[A-Za-z_][\w$.]*)+", Name.Builtin),
            (rf"{NAME}(?=\s*=(?!=))", Name.Attribute),
            (r"(true|false|unit|loc|dense|array|affine_map|dense_resource)\b", Keyword.Constant),
            (NAME, Keyword),
            (r"-?\d+\.\d*([eE][+-]?\d+)?", Number.Float),
            (r"-?(0x[0-9A-Fa-f]+|\d+)", Number.Integer),
            (r"->|[=:+*-]", Operator),
            (r"[(){}\[\]<>,.?]", Punctuation),
            (r".", Text),
        ]
    }
