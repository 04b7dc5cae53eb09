"""A project whose names and texts try to be markup, and whose files have errors."""

from __future__ import annotations

from pathlib import Path

from lakesql.cli.init import write_project

SCRIPT = "</title></script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>\"'`&amp;"

LONG_COLUMN = "c" * 200

ODD_COLUMN = '<b>"it\'s"</b>'

MODEL = f"""
{{{{ config(mode='append', tags=['<i>web']) }}}}
-- {SCRIPT.replace("'", "’")}
SELECT order_id, status AS {LONG_COLUMN}, status AS `{ODD_COLUMN}` FROM {{{{ stream('orders') }}}}
"""


def write_hostile(folder: Path) -> Path:
    """The shop with a model whose columns and descriptions are hostile, and one whose
    name is very long."""
    write_project(folder, "shop")
    text = SCRIPT.replace("'", "''")
    (folder / "models/hostile.sql").write_text(MODEL)
    (folder / f"models/{'m' * 120}.sql").write_text(MODEL)
    properties = (
        f"models:\n  - name: hostile\n    description: '{text}'\n    columns:\n"
        f"      - {{name: order_id, description: '{text}'}}\n"
    )
    (folder / "models/hostile.yml").write_text(properties)
    return folder


def write_broken(folder: Path) -> Path:
    """The shop with errors: a SELECT of a column that is not there, an option that does
    not exist, a stream's type."""
    write_project(folder, "shop")
    (folder / "models/misspelt.sql").write_text(
        "{{ config(mode='append') }}\nSELECT order_idd FROM {{ stream('orders') }}\n"
    )
    (folder / "models/option.sql").write_text(
        "{{ config(mode='append', triger='1 minute') }}\nSELECT 1 AS one FROM {{ stream('orders') }}\n"
    )
    (folder / "models/of_option.sql").write_text(
        "{{ config(mode='view') }}\nSELECT one FROM {{ ref('option') }}\n"
    )
    (folder / "streams/odd.yml").write_text(
        "streams:\n  - name: odd\n    columns: {a: nmber}\n"
    )
    return folder
