"""The available methods: one line each.

A method lives in a module of this package and keeps to the contract of `ndflow.methods.base`. To
add one, write the module and its test, and add a line here; commands, studies, evaluations and
reports find it by its name and never ask which one it is. (Nothing is imported before a method is
used, so that ``ndflow --help`` does not wait for numpy.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

__all__ = ["METHODS", "MethodName"]

METHODS = {  # name: module
    "ndflow": "ndflow",
    "affine": "affine",
    "zscore": "zscore",
    "nyul": "nyul",
    "quantile": "quantile",
    "hellier": "hellier",
}

if TYPE_CHECKING:
    MethodName = str
else:
    MethodName = Literal[tuple(METHODS)]
