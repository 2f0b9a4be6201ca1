"""Reports in Markdown become pages that hold all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from placer.base import InputError
from placer.show.html import Image, PageTable, Text, report_page
from placer.show.html.page import Listing

REPORT = """# Evaluation

- Command: `x <y> **z**`
- *Seeds*: [0, 1]

Who wins ([how](how.md)),
in *one* line of **two**, 2 * 3 * 4:

| method | RE |
| --- | --- |
| **flow** | 0.05 |
| `a\\|b` | 10* |

## Farther

![Rank within each graph](rank.png)
Words.

Nothing follows:
"""


def test_all_that_a_report_has_is_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text(REPORT, encoding="utf-8")
    (tmp_path / "rank.png").write_bytes(b"png")
    page = report_page(tmp_path / "report.md", "Evaluation", "python -m x", {"seed": 0})
    first, second = page.sections
    assert (first.heading, second.heading) == ("Summary", "Farther")
    assert list(first.blocks) == [
        Listing(["Command: x <y> **z**", "Seeds: [0, 1]"]),
        PageTable(
            "Who wins (how), in one line of two, 2 * 3 * 4", ["method", "RE"], [["flow", "0.05"], ["a|b", "10*"]]
        ),
    ]
    assert list(second.blocks) == [
        Image(b"png", "image/png", "Rank within each graph"),
        Text("Words."),
        Text("Nothing follows:"),
    ]
    assert "x &lt;y&gt;" in page.to_html()


def test_a_report_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"report\.md"):
        report_page(tmp_path / "report.md", "Evaluation", "python -m x", {})
