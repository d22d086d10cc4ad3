"""The rows of an answer, which each surface shows in its own way."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class AnswerTable(BaseModel):
    """Hold the rows of an answer; every row has a cell for each word of the head."""

    model_config = ConfigDict(extra="forbid")

    head: list[str] = Field(min_length=1, max_length=12)
    rows: list[list[str]] = Field(max_length=200)

    @model_validator(mode="after")
    def _rows_are_whole(self) -> Self:
        if any(len(row) != len(self.head) for row in self.rows):
            raise ValueError(f"every row needs {len(self.head)} cells, one for each word of the head")
        return self

    def text(self, width: int | None = None) -> str:
        """Return the rows as lines whose columns stand below each other, with inert cells.

        With a ``width`` none is longer: cells are broken, or each row becomes a list of its fields.
        """
        from tools.text_table import table

        return table(self.head, self.rows, width)
