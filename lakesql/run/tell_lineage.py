"""The lineage of a run: what is known of its jobs, the renderer that tells their runs, and what delivers these."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import uuid4

from lakesql.compile.compiled import compiled_files
from lakesql.compile.select import Select
from lakesql.graph.manifest import Manifest
from lakesql.lineage.lineage_jobs import lineage_facts
from lakesql.observe.lineage_runs import LineageRuns
from lakesql.run.send_lineage import open_sender
from lakesql.secrets import find_secrets


@contextmanager
def tell_lineage(manifest: Manifest, selects: Mapping[str, Select], *, continuous: bool) -> Iterator[LineageRuns]:
    """The renderer, for as long as it is open. The target says where lineage goes. Raises what `open_sender` raises."""
    target = manifest.target.lineage
    assert target is not None, "whoever asks knows that there is one"
    facts = lineage_facts(manifest, compiled_files(manifest), selects, target, continuous)
    with open_sender(target, facts, manifest.target.connections, find_secrets(os.environ)) as sender:
        yield LineageRuns(sender, facts.period_ms, lambda: str(uuid4()))
