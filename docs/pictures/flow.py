"""The way of records from a stream through a batch to a table and its ledger."""

from __future__ import annotations

from docs.pictures.draw import arrow, box, lines, svg, text


def draw_flow() -> str:
    """The topic, the batch, what becomes of its records, and the snapshot that has rows
    and progress in one commit."""
    parts = [
        text(24, 32, "a topic", "head"),
        text(24, 50, "records, by their offsets", "small dim"),
    ]
    for offset in range(10):
        is_bad, is_read = offset == 6, 4 <= offset <= 7
        kind = "red" if is_bad else "blue" if is_read else "plain"
        x = 24 + 34 * offset
        parts += [
            box(x, 62, 30, 30, kind),
            text(x + 15, 82, str(offset), "code", "middle"),
        ]
    parts += [
        text(392, 82, "…"),
        text(24, 116, "read before", "small dim"),
        text(228, 116, "batch 7", "small", "middle"),
        arrow((228, 124), (228, 154)),
        box(130, 158, 196, 58, "blue"),
        lines(
            228,
            182,
            ["parse each record once,", "by the stream's contract"],
            "small",
            "middle",
        ),
        arrow((326, 187), (398, 187)),
        text(362, 178, "4 5 7", "code", "middle"),
        box(402, 158, 190, 58, "blue"),
        lines(
            497,
            182,
            ["the model's SELECT,", "then what its mode does"],
            "small",
            "middle",
        ),
        arrow((497, 216), (497, 258)),
        text(507, 242, "INSERT or MERGE, staged", "small dim"),
        arrow((170, 216), (170, 258)),
        text(180, 242, "6: cannot be used", "small dim"),
        box(60, 262, 220, 62, "red"),
        text(170, 286, "<table>__dead_letter", "code", "middle"),
        text(170, 306, "its bytes, and what is wrong", "small", "middle"),
        box(380, 262, 440, 130, "green"),
        text(396, 284, "snapshot of batch 7: one commit", "head"),
        box(396, 298, 190, 80, "plain"),
        lines(408, 320, ["rows", "inserted, updated,", "deleted"], "small"),
        box(602, 298, 202, 80, "violet"),
        text(614, 320, "ledger entry", "small"),
        text(614, 340, "lakesql.batch: 7", "code"),
        text(614, 358, "lakesql.offsets: … 8", "code"),
        arrow((703, 298), (703, 77), (428, 77)),
        text(716, 140, "the next batch", "small dim"),
        text(716, 157, "begins at 8; batch 7,", "small dim"),
        text(716, 174, "if it comes again,", "small dim"),
        text(716, 191, "is skipped", "small dim"),
        text(60, 356, "readers see all of a batch,", "small dim"),
        text(60, 373, "or nothing of it", "small dim"),
    ]
    return svg(
        880, 412, "From a stream through a batch to a table and its ledger", parts
    )
