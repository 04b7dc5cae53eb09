"""The option `maintenance` of models, folders and targets: which of Iceberg's
maintenance procedures run on a table, when each is due, and with which arguments.

Each procedure is a dataclass. Its fields are the conditions under which it is due and
those arguments of Iceberg's that lakesql must understand, with `_` for `-` and with
units in the values. All other arguments pass through to Iceberg (`options`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Literal, get_args

from lakesql.decode import (
    Node,
    collect,
    decode,
    fields_of,
    option,
    read_option_texts,
    read_positive,
)
from lakesql.errors import Problem, ProjectError
from lakesql.project.duration import Duration, parse_duration
from lakesql.project.iceberg_options import (
    SORT_KEYS,
    ZORDER_KEYS,
    IcebergValue,
    read_iceberg_options,
    refuse_former,
)
from lakesql.project.size import Size, parse_size, shortest
from lakesql.project.sort_order import (
    ZORDER,
    SortTerm,
    parse_sort_order,
    read_sort_order,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

SMALL_FILE_SHARE = 0.75
"""A data file smaller than this share of the table's target file size counts as small,
as in Iceberg's `rewrite_data_files`."""

GROUP_FILES = 5
"""The least number of small files in a partition that is worth a rewrite: the default
of Iceberg's `min-input-files`."""

SIZE_RATIO = 4
"""A rewrite includes files that earlier rewrites have written, if they are at most this
many times as large as what was added to the partition since. To write a larger one
again would cost more than it costs readers as a file of its own."""

WHOLE_EVERY = 16
"""Of this many rewrites in a row one includes all small files, whatever `SIZE_RATIO`
excludes. So does a table's first rewrite."""

WHOLE_GROUP_FILES = 2
"""The least number of small files in a partition that is worth a rewrite which includes
all small files."""

DELETION_VECTORS = 3
"""The first format version in which position deletes are one deletion vector for each
data file. They need no compaction, and a rewrite of a data file drops its vector."""

RETRY_AFTER_MS = 600_000
"""How long to wait before a procedure that found nothing to do, or took too long, is
called again."""

AT_END = 0.5
"""The share of a threshold that makes a procedure due at the end of a run, when no
batch waits for it."""

BYTES_PER_MS = 20_000.0
"""The assumed speed of a rewrite, until one has been measured."""

LEAST_EXPIRY_MS = HOUR_MS
"""The least age at which a snapshot may expire: queries that still read a younger one
would fail."""


def _at_least(least_ms: int, least: str, why: str) -> Callable[[Node], Duration]:
    """A function that reads an interval and refuses one shorter than `least_ms`, as
    files would be deleted that are still needed (`unsafe-maintenance`)."""

    def read(node: Node) -> Duration:
        found = parse_duration(node)
        if found.length_ms >= least_ms:
            return found
        what = f"{node.shown} is too short: {least} at least."
        raise ProjectError.of("unsafe-maintenance", what, why=why, place=node.place)

    return read


def _read_interval(node: Node) -> Duration:
    found = parse_duration(node)
    if found.length_ms > 0:
        return found
    raise ProjectError.of(
        "bad-interval", f"{node.shown} is no time at all.", place=node.place
    )


def _read_share(node: Node) -> float:
    if (
        isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and 0 < node.value <= 1
    ):
        return float(node.value)
    raise ProjectError.of(
        "wrong-value",
        f"{node.shown} is not a share, from more than 0 to 1.",
        place=node.place,
    )


def _read_number(node: Node) -> float:
    if (
        isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and node.value > 0
    ):
        return float(node.value)
    raise ProjectError.of(
        "wrong-value", f"{node.shown} is not a positive number.", place=node.place
    )


MOST_COUNTED = 2**31 - 1
"""The greatest value of Iceberg's arguments that count something: they are of type
`int`."""


def _read_int(node: Node) -> int:
    found = read_positive(node)
    if found <= MOST_COUNTED:
        return found
    raise ProjectError.of(
        "wrong-value",
        f"{node.shown} is more than {MOST_COUNTED:,}.",
        place=node.place,
    )


def _read_count(node: Node) -> int:
    if node.value == 0 and type(node.value) is int:
        return 0
    return _read_int(node)


def _read_text(node: Node) -> str:
    if isinstance(node.value, str) and node.value.strip():
        return node.value
    raise ProjectError.of(
        "wrong-type", f"{node.shown} is not a text.", place=node.place
    )


RECENT = "recent"
"""The word for `where` that means: partitions written to since the last rewrite."""


def _read_where(node: Node) -> str:
    found = _read_text(node)
    if found == RECENT or found.strip().lower() != RECENT:
        return found
    raise ProjectError.of(
        "wrong-value",
        f"{node.shown} is no condition.",
        fix=f"Write '{RECENT}'.",
        place=node.place,
    )


def _read_condition(node: Node) -> str:
    found = _read_text(node)
    if found.strip().lower() != RECENT:
        return found
    raise ProjectError.of(
        "wrong-value", f"'{RECENT}' is for rewrite_data_files alone.", place=node.place
    )


_TRIGGER = (
    "How often the procedure is due by time alone ('1 hour'), whatever its thresholds; if left out, only by its "
    "thresholds."
)
_TARGET_SIZE = "Size of the files that are written ('256 MB'); the table's `write.target-file-size-bytes` if left out."


_OPTIONS = (
    "Other options of Iceberg's procedure, by Iceberg's names, which are listed below."
)


def _options_reader(procedure: str) -> Callable[[Node], Mapping[str, IcebergValue]]:
    """A function that reads the key `options` of a procedure: arguments of Iceberg's by
    Iceberg's own names."""

    def read(node: Node) -> Mapping[str, IcebergValue]:
        typed = {key: name for name, key in iceberg_names(procedure).items()}
        typed |= {name: name for name in ARGUMENTS[procedure]}
        return read_iceberg_options(procedure, node, typed)

    return read


def _iceberg(doc: str, default: Any, read: Callable[[Node], Any] | None = None) -> Any:
    """A field for an option that Iceberg has too. With default None it is not passed
    on, so that Iceberg's own default holds."""
    return option(doc, default=default, read=read)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDataFiles:
    """`rewrite_data_files`: small files become large ones, and rows that were deleted
    leave the files."""

    trigger: Duration | None = option(_TRIGGER, default=None, read=_read_interval)
    small_files: int = option(
        "A rewrite is due at this many small data files in a partition: those below three quarters of the target "
        "file size. The default is 16 in modes that change rows, as each change reads small files too.",
        default=32,
        read=_read_int,
    )
    delete_ratio: float = option(
        "A rewrite is due when this share of the rows in data files is deleted.",
        default=0.1,
        read=_read_share,
    )
    delete_files: int = option(
        "A rewrite is due at this many delete files, not counting those that the last rewrite left.",
        default=64,
        read=_read_int,
    )
    max_bytes: Size = option(
        "Maximum size of the files that one run rewrites.",
        default=Size("10 GB", 10 * 1024**3),
        read=parse_size,
    )
    strategy: Literal["binpack", "sort"] | None = option(
        "`binpack` only combines files; `sort` also sorts their rows by the table's sort order or `sort_order`. If "
        "left out, `sort` for a table with a sort order, else `binpack`.",
        default=None,
    )
    sort_order: str = option(
        "Sort order of strategy `sort`: columns with ASC, DESC and NULLS FIRST or LAST, or `zorder(a, b)`. Refused "
        "with another strategy.",
        default="",
        read=read_sort_order,
    )
    where: str = option(
        "Condition on partitions; files of other partitions are not rewritten. `recent`: the partitions that were "
        "written to since the last rewrite.",
        default="",
        read=_read_where,
    )
    target_file_size: Size | None = option(_TARGET_SIZE, default=None, read=parse_size)
    min_file_size: Size | None = _iceberg(
        "Data files smaller than this are rewritten.", None, parse_size
    )
    min_input_files: int | None = _iceberg(
        "A group of at least this many files is rewritten.",
        None,
        _read_int,
    )
    rewrite_all: bool | None = _iceberg("Whether every data file is rewritten.", None)
    delete_file_threshold: int = _iceberg(
        "A data file with at least this many delete files is rewritten.", 5, _read_int
    )
    delete_ratio_threshold: float = _iceberg(
        "A data file with at least this share of deleted rows is rewritten.",
        0.05,
        _read_share,
    )
    max_files_to_rewrite: int | None = _iceberg(
        "Maximum number of files that one run rewrites.", None, _read_int
    )
    output_spec_id: int | None = _iceberg(
        "Id of the partition spec by which files are written.", None, _read_count
    )
    options: Mapping[str, IcebergValue] = option(
        _OPTIONS,
        factory=dict,
        read=_options_reader("rewrite_data_files"),
        is_hashed=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePositionDeleteFiles:
    """`rewrite_position_delete_files`: small delete files become large ones, and
    dangling deletes go."""

    trigger: Duration | None = option(_TRIGGER, default=None, read=_read_interval)
    delete_files: int = option(
        "A rewrite is due at this many delete files. It also follows each rewrite of data files that had delete "
        "files.",
        default=64,
        read=_read_int,
    )
    where: str = option(
        "Condition on partitions; delete files of other partitions are not rewritten.",
        default="",
        read=_read_condition,
    )
    rewrite_all: bool = _iceberg(
        "Whether every delete file is rewritten; only then are all dangling deletes removed.",
        True,
    )
    options: Mapping[str, IcebergValue] = option(
        _OPTIONS,
        factory=dict,
        read=_options_reader("rewrite_position_delete_files"),
        is_hashed=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifests:
    """`rewrite_manifests`: many manifests become few, whose entries are ordered by
    partition."""

    trigger: Duration | None = option(_TRIGGER, default=None, read=_read_interval)
    manifests: int = option(
        "A rewrite is due at this many manifests.",
        default=100,
        read=_read_int,
    )
    spec_id: int | None = _iceberg(
        "Id of the partition spec whose manifests are rewritten; the current one if left out.",
        None,
        _read_count,
    )
    sort_by: tuple[str, ...] = option(
        "Partition fields by which manifest entries are sorted.", default=()
    )
    options: Mapping[str, IcebergValue] = option(
        _OPTIONS,
        factory=dict,
        read=_options_reader("rewrite_manifests"),
        is_hashed=False,
    )


EXPIRY_AGE = Duration("5 days", 5 * DAY_MS)
MOST_SNAPSHOTS = 7_200
"""The default of `max_snapshots`: a commit a minute makes as many in five days."""

_READERS = "A query that reads a snapshot fails once its files are deleted."
_WRITERS = "Files of commits that are under way look like orphans."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots:
    """`expire_snapshots`: old versions of the table, and the files that they alone
    need, are deleted."""

    trigger: Duration | None = option(
        "How often the procedure is due by time alone.",
        default=Duration("1 hour", HOUR_MS),
        read=_read_interval,
    )
    snapshots: int = option(
        "The procedure is due before its time at this many snapshots that can expire.",
        default=1_000,
        read=_read_int,
    )
    older_than: Duration = option(
        "Snapshots older than this expire; less than 1 hour is refused.",
        default=EXPIRY_AGE,
        read=_at_least(LEAST_EXPIRY_MS, "1 hour", _READERS),
    )
    retain_last: int = option(
        "Number of newest snapshots that never expire, however old they are.",
        default=20,
        read=_read_int,
    )
    max_snapshots: int | None = option(
        "Maximum number of snapshots that are kept. Beyond it the oldest expire, even if younger than `older_than`, "
        "but never those of the last hour and of `retain_last`. If left out, 7200 if `older_than` has its default, "
        "else unlimited.",
        default=None,
        read=_read_int,
    )
    options: Mapping[str, IcebergValue] = option(
        _OPTIONS,
        factory=dict,
        read=_options_reader("expire_snapshots"),
        is_hashed=False,
    )

    @property
    def most(self) -> int | None:
        """How many snapshots stay at most; None if only their age decides."""
        most = self.max_snapshots
        if most is None and self.older_than == EXPIRY_AGE:
            most = MOST_SNAPSHOTS
        return None if most is None else max(most, self.retain_last)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphanFiles:
    """`remove_orphan_files`: files in the table's folder that this target's runs have
    written and no snapshot of the table references are deleted."""

    trigger: Duration | None = option(
        "How often the procedure is due.",
        default=Duration("1 day", DAY_MS),
        read=_read_interval,
    )
    older_than: Duration = option(
        "Unreferenced files older than this are deleted; less than 24 hours is refused.",
        default=Duration("3 days", 3 * DAY_MS),
        read=_at_least(DAY_MS, "24 hours", _WRITERS),
    )
    dry_run: bool | None = _iceberg(
        "Whether files are only listed, and none is deleted.", None
    )
    equal_schemes: Mapping[str, str] = option(
        "URI schemes that mean the same storage, such as `s3a` and `s3`.",
        factory=dict,
        read=read_option_texts,
    )
    equal_authorities: Mapping[str, str] = option(
        "Authorities of URIs (hosts, buckets) that mean the same storage.",
        factory=dict,
        read=read_option_texts,
    )
    prefix_mismatch_mode: Literal["ERROR", "IGNORE", "DELETE"] | None = _iceberg(
        "What happens to a file whose scheme or authority differs from that in the metadata: `ERROR` fails, `IGNORE` "
        "keeps it, `DELETE` deletes it.",
        None,
    )
    prefix_listing: bool = _iceberg(
        "Whether files are listed by the catalog's FileIO, not by Hadoop's file system.",
        True,
    )
    options: Mapping[str, IcebergValue] = option(
        _OPTIONS,
        factory=dict,
        read=_options_reader("remove_orphan_files"),
        is_hashed=False,
    )


Procedure = (
    RewriteDataFiles
    | RewritePositionDeleteFiles
    | RewriteManifests
    | ExpireSnapshots
    | RemoveOrphanFiles
)


def spec_of(options: Procedure) -> int | None:
    """The id of the partition spec that is configured for a procedure (to write by, or
    whose manifests to rewrite); None if none is."""
    match options:
        case RewriteDataFiles(output_spec_id=spec) | RewriteManifests(spec_id=spec):
            return spec
        case _:
            return None


def fields_of_manifests(options: Procedure) -> tuple[str, ...]:
    """The partition fields by which a procedure orders the entries of manifests; empty
    if it is another procedure or none are configured."""
    return options.sort_by if isinstance(options, RewriteManifests) else ()


PROCEDURES: Mapping[str, type[Procedure]] = {
    "rewrite_data_files": RewriteDataFiles,
    "rewrite_position_delete_files": RewritePositionDeleteFiles,
    "rewrite_manifests": RewriteManifests,
    "expire_snapshots": ExpireSnapshots,
    "remove_orphan_files": RemoveOrphanFiles,
}
"""Iceberg's procedures by their names, in the order in which they run."""


DUE_OPTIONS = frozenset(
    {
        "trigger",
        "small_files",
        "delete_ratio",
        "delete_files",
        "max_bytes",
        "manifests",
        "snapshots",
        "max_snapshots",
    }
)
"""The options that are lakesql's own and no arguments of Iceberg's: when a procedure is
due, how much one call rewrites, and how many snapshots it leaves."""

ARGUMENTS: Mapping[str, frozenset[str]] = {
    "rewrite_data_files": frozenset({"strategy", "sort_order", "where"}),
    "rewrite_position_delete_files": frozenset({"where"}),
    "rewrite_manifests": frozenset({"spec_id", "sort_by"}),
    "expire_snapshots": frozenset({"older_than", "retain_last"}),
    "remove_orphan_files": frozenset(
        {
            "older_than",
            "dry_run",
            "equal_schemes",
            "equal_authorities",
            "prefix_mismatch_mode",
            "prefix_listing",
        }
    ),
}
"""The typed options that are passed to Iceberg as named arguments of the CALL. The
procedures with a map argument `options` get the remaining ones in it."""

REFUSED_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "rewrite_data_files": {
        "branch": "The rows of a model are on the table's main branch."
    },
    "expire_snapshots": {
        "snapshot_ids": "A named snapshot would go although the ledger or a stream needs it."
    },
    "remove_orphan_files": {
        "location": "Files below another location may be those of another table.",
        "file_list_view": "Files of a list may be those of another table, or of a commit that is under way.",
    },
}
"""Arguments of Iceberg's that lakesql refuses, with the reason, by procedure."""


def name_of(options: Procedure) -> str:
    """The name of the procedure that takes these options."""
    return next(name for name, kind in PROCEDURES.items() if kind is type(options))


def has_map(procedure: str) -> bool:
    """Whether Iceberg's procedure has a map argument `options`."""
    return procedure.startswith("rewrite_") and procedure != "rewrite_manifests"


@cache
def iceberg_names(procedure: str) -> Mapping[str, str]:
    """The keys of Iceberg's map `options` by the names of lakesql's typed options, such
    as `min-file-size-bytes` by `min_file_size`.

    Empty for a procedure that has no such map.
    """
    if not has_map(procedure):
        return {}
    others = DUE_OPTIONS | ARGUMENTS[procedure] | {"options"}
    return {
        field.name: field.name.replace("_", "-")
        + ("-bytes" if Size in get_args(field.kind) else "")
        for field in fields_of(PROCEDURES[procedure])
        if field.name not in others
    }


def group_files(options: RewriteDataFiles, is_whole: bool = False) -> int:
    """The least number of small files in a partition that is worth a rewrite;
    `is_whole`: for a rewrite that includes all small files."""
    return options.min_input_files or (WHOLE_GROUP_FILES if is_whole else GROUP_FILES)


def spared_bytes(
    options: RewriteDataFiles,
    target_bytes: float,
    since_whole: int,
    *,
    files: float,
    partition_bytes: float,
    most_bytes: float,
) -> float | None:
    """The size in bytes from which on a rewrite leaves a small file as it is; None if
    it includes all small files.

    So each row is rewritten a few times, not with each rewrite: the files that are left
    grow by a factor, like the levels of a log-structured merge tree. Files of commits
    since the last rewrite are always included.

    `target_bytes` is the table's target file size. `since_whole` is the number of
    rewrites since the last one that included all small files, that one counted. `files`
    small files of `partition_bytes` in all were added to a partition since the last
    rewrite; the largest commit added `most_bytes`.
    """
    target = (
        options.target_file_size.size_bytes
        if options.target_file_size
        else target_bytes
    )
    found = max(SIZE_RATIO * partition_bytes, most_bytes + 1)
    is_said = options.min_file_size is not None or options.rewrite_all is True
    is_few = files < group_files(options)  # without the older ones it would do nothing
    if (
        is_said
        or is_few
        or since_whole >= WHOLE_EVERY
        or found >= SMALL_FILE_SHARE * target
    ):
        return None
    return found


DEFAULTS: Mapping[str, Procedure] = {name: kind() for name, kind in PROCEDURES.items()}
"""The options of each procedure where none are configured, by its name."""


def _reader(name: str) -> Callable[[Node], Any]:
    """A function that reads the options of a procedure: a mapping, `true` for the
    defaults, or `false`, for which it returns None."""

    def read(node: Node) -> Any:
        if node.value is False:
            return None
        if node.value is True:
            return PROCEDURES[name]()
        kept, problems = refuse_former(name, node)
        found = collect(problems, lambda: decode(kept, PROCEDURES[name], what=name))
        if problems:
            raise ProjectError(problems)
        return found

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """How a table is maintained. A procedure that is None (`false` in a file) is not
    run."""

    max_time_ratio: float = option(
        "Maximum share of the last hour that maintenance between batches takes.",
        default=0.1,
        read=_read_share,
    )
    max_time: Duration = option(
        "Maximum time of a procedure; a longer one is cancelled, and what it has not committed by then is discarded. "
        "`lakesql maintain --now` has no such limit.",
        default=Duration("10 minutes", 600_000),
        read=_read_interval,
    )
    rewrite_data_files: RewriteDataFiles | None = option(
        "Options of the rewrite of small data files and of those with deleted rows.",
        factory=RewriteDataFiles,
        read=_reader("rewrite_data_files"),
    )
    rewrite_position_delete_files: RewritePositionDeleteFiles | None = option(
        "Options of the rewrite of position delete files.",
        factory=RewritePositionDeleteFiles,
        read=_reader("rewrite_position_delete_files"),
    )
    rewrite_manifests: RewriteManifests | None = option(
        "Options of the rewrite of manifests.",
        factory=RewriteManifests,
        read=_reader("rewrite_manifests"),
    )
    expire_snapshots: ExpireSnapshots | None = option(
        "Options of the expiry of old snapshots.",
        factory=ExpireSnapshots,
        read=_reader("expire_snapshots"),
    )
    remove_orphan_files: RemoveOrphanFiles | None = option(
        "Options of the deletion of files that no snapshot references.",
        factory=RemoveOrphanFiles,
        read=_reader("remove_orphan_files"),
    )

    @property
    def procedures(self) -> Mapping[str, Procedure]:
        """The options of the procedures that are run, by name, in the order in which
        they run."""
        found = {name: getattr(self, name) for name in PROCEDURES}
        return {name: options for name, options in found.items() if options is not None}


def read_maintenance(node: Node) -> Maintenance:
    """The value of the option `maintenance`: a mapping of options by procedure, `true`
    for the defaults, or `false` for a table that another engine maintains.

    Raises `ProjectError`: `unknown-option`, `unsafe-maintenance`, and what decoding
    finds.
    """
    if node.value is True:
        return Maintenance()
    found = decode(spread(node), Maintenance, what="maintenance")
    if found.rewrite_data_files is not None:
        given = spread(node).get("rewrite_data_files")
        check_options(found.rewrite_data_files, given or node)
    return found


CHANGED_SMALL_FILES = 16
"""The default of `small_files` for modes that change rows: each MERGE reads the small
files too, and most of them soon have delete files."""


def changing_maintenance(maintenance: Maintenance) -> Maintenance:
    """The maintenance with the default of `small_files` for a table whose rows are
    changed. For a `maintenance` that does not set `small_files` itself."""
    rewrite = maintenance.rewrite_data_files
    if rewrite is None:
        return maintenance
    return replace(
        maintenance,
        rewrite_data_files=replace(rewrite, small_files=CHANGED_SMALL_FILES),
    )


def read_changing_maintenance(node: Node) -> Maintenance:
    """Like `read_maintenance`, for a table whose rows are changed: `small_files` has
    another default."""
    found, said = read_maintenance(node), spread(node).get("rewrite_data_files")
    if (
        said is not None
        and isinstance(said.value, Mapping)
        and "small_files" in said.value
    ):
        return found
    return changing_maintenance(found)


def check_options(options: RewriteDataFiles, node: Node) -> None:
    """Raise `ProjectError` (`wrong-value`) for options that Iceberg does not accept
    together."""
    problems: list[Problem] = []
    if options.strategy == "binpack" and options.sort_order:
        what = "'sort_order' goes with strategy 'sort' only."
        problems.append(
            Problem("wrong-value", what, place=node.key_place("sort_order"))
        )
    said = node.get("options") if isinstance(node.value, Mapping) else None
    given = said or node
    for key in options.options:
        needed = ""
        # Without a `strategy` the table's sort order decides whether rows are sorted.
        if key in SORT_KEYS and options.strategy == "binpack":
            needed = "strategy 'sort'"
        if key in ZORDER_KEYS and not is_zorder(options):
            needed = "sort_order 'zorder(…)'"
        if needed:
            problems.append(
                Problem(
                    "wrong-value",
                    f"'{key}' goes with {needed} only.",
                    place=given.key_place(key),
                )
            )
    if problems:
        raise ProjectError(problems)


def find_disordered(
    options: RewriteDataFiles | RewritePositionDeleteFiles, target_bytes: float
) -> Iterator[str]:
    """The contradictions between configured file sizes, as clauses of a message:
    Iceberg requires a minimum below the target and a maximum above it.

    `target_bytes` is the table's target file size, used if the options set none.
    """
    target = _said_bytes(options, "target-file-size-bytes") or target_bytes
    least = _said_bytes(options, "min-file-size-bytes")
    most = _said_bytes(options, "max-file-size-bytes")
    shown = shortest(round(target))
    if least is not None and least >= target:
        yield f"the least size of a file, {shortest(least)}, is not less than the target, {shown}"
    if most is not None and most <= target:
        yield f"the largest size of a file, {shortest(most)}, is not more than the target, {shown}"


def _said_bytes(
    options: RewriteDataFiles | RewritePositionDeleteFiles, key: str
) -> int | None:
    """The size configured under one of Iceberg's keys, in the typed option or under
    `options`; None if neither has it."""
    typed = {
        "target-file-size-bytes": "target_file_size",
        "min-file-size-bytes": "min_file_size",
    }
    said = getattr(options, typed.get(key, ""), None)
    if isinstance(said, Size):
        return said.size_bytes
    found = options.options.get(key)
    return found if isinstance(found, int) else None


def blunt_options(options: RemoveOrphanFiles) -> tuple[str, ...]:
    """The names of the given options that may delete files which belong to others: two
    schemes or hosts count as one storage, or files with another one are deleted."""
    names = [
        name
        for name in ("equal_schemes", "equal_authorities")
        if getattr(options, name)
    ]
    return (
        *names,
        *(
            ("prefix_mismatch_mode",)
            if options.prefix_mismatch_mode == "DELETE"
            else ()
        ),
    )


def asks_for_order(options: RewriteDataFiles) -> bool:
    """Whether the options require sorting: by `strategy`, or by an option that only a
    sort has."""
    return options.strategy == "sort" or any(
        key in options.options for key in SORT_KEYS
    )


def spread(node: Node) -> Node:
    """The value of `maintenance` as a mapping: `false` becomes `false` for each
    procedure, and `true` an empty mapping."""
    match node.value:
        case False:
            return Node(
                dict.fromkeys(PROCEDURES, node),
                node.place,
                dict.fromkeys(PROCEDURES, node.place),
            )
        case True:
            return Node({}, node.place)
        case _:
            return node


def merge_maintenance(outer: Node, inner: Node) -> Node:
    """`maintenance` of a model or folder (`inner`) merged over that of its parent
    folder or target (`outer`): key by key, and within each procedure key by key."""
    if not isinstance(inner.value, Mapping):
        return inner
    under = spread(outer)
    if not isinstance(under.value, Mapping):
        return inner
    entries = dict(under.value)
    for key, node in inner.value.items():
        below = entries.get(key)
        if (
            below is not None
            and isinstance(below.value, Mapping)
            and isinstance(node.value, Mapping)
        ):
            node = _merge_options(below, node)
        entries[key] = node
    return Node(entries, inner.place, {**under.keys, **inner.keys})


def _merge_options(below: Node, above: Node) -> Node:
    """The options `above` merged over `below`, both of one procedure: key by key, and
    within `options` key by key."""
    merged = Node(
        {**below.entries(), **above.entries()},
        above.place,
        {**below.keys, **above.keys},
    )
    inner, outer = above.get("options"), below.get("options")
    if inner is None or outer is None:
        return merged
    if not isinstance(inner.value, Mapping) or not isinstance(outer.value, Mapping):
        return merged
    options = Node(
        {**outer.value, **inner.value}, inner.place, {**outer.keys, **inner.keys}
    )
    return Node({**merged.entries(), "options": options}, merged.place, merged.keys)


def is_zorder(options: RewriteDataFiles) -> bool:
    """Whether `sort_order` has a z-order."""
    return any(term.transform == ZORDER for term in sort_terms(options))


def sort_terms(options: RewriteDataFiles) -> tuple[SortTerm, ...]:
    """The terms of `sort_order`; empty if it is not set."""
    return parse_sort_order(options.sort_order) if options.sort_order else ()


def option_names(kind: type[Procedure]) -> tuple[str, ...]:
    """The names of a procedure's options."""
    return tuple(field.name for field in fields(kind))
