"""Stands for threadpoolctl on a machine that lacks it and has no network: BLAS threads stay as the
environment says (suite.py asks for one), and nothing is known of the libraries."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


class ThreadpoolController:
    """Limits nothing."""

    def limit(self, *, limits: int, user_api: str) -> AbstractContextManager[Any]:
        return nullcontext()

    def info(self) -> list[dict[str, Any]]:
        return []
