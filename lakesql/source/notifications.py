"""Where events tell of the files that arrive: a topic, to which object storage writes what becomes of its objects."""

from __future__ import annotations

from dataclasses import dataclass

from lakesql.decode import option, read_filled


@dataclass(frozen=True, slots=True)
class Notifications:
    """A topic with the events of a bucket."""

    connection: str = option("The connection of type `kafka` whose topic has the events.", read=read_filled)
    topic: str = option("The topic.", read=read_filled)
