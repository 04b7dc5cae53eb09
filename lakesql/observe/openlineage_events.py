"""How a lineage run becomes an event of OpenLineage, built of its client's classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from importlib.metadata import version
from typing import Any, TypeVar, cast

import attr
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    set_producer,
)
from openlineage.client.facet_v2 import (
    catalog_dataset,
    column_lineage_dataset,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    documentation_job,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    sql_job,
    storage_dataset,
    symlinks_dataset,
    test_run,
)

from lakesql import __version__
from lakesql.compile.checks import Check
from lakesql.compile.made_columns import SourceColumn
from lakesql.lineage.lineage_inputs import (
    LineageInput,
    catalog_namespace,
    datasets_of_node,
    inputs_of,
    symlink_of,
    table_dataset,
)
from lakesql.lineage.lineage_jobs import LineageFacts, LineageJob
from lakesql.observe.openlineage_facets import (
    PRODUCER,
    BatchesFacet,
    OffsetRange,
    OffsetsFacet,
)
from lakesql.observe.told_run import LineageOutput, LineageRun
from lakesql.secrets import Secrets
from lakesql.select.lineage_edges import direct_or_not
from lakesql.source.dataset import dataset_at, without_login
from lakesql.stream.stream import Column

Facets = dict[str, Any]
T = TypeVar("T")


def openlineage_event(facts: LineageFacts, told: LineageRun) -> RunEvent:
    """The OpenLineage event for a state of a lineage run."""
    set_producer(PRODUCER)  # what the client gives each facet
    job = facts.jobs.get(told.job)
    inputs = inputs_of(facts, job, told.reads)
    outputs = [_letters(facts, each) for each in told.letters]
    # A table that does not exist yet has no location, which is its dataset's name:
    # another name would be another dataset.
    is_placed = told.output is not None and (
        told.output.location or told.state == "COMPLETE"
    )
    if told.output is not None and is_placed and job is not None:
        outputs.insert(0, _output(facts, job, told, told.output, inputs))
    return RunEvent(
        eventType=RunState[told.state],
        eventTime=datetime.fromtimestamp(told.at_ms / 1000, UTC).isoformat(
            timespec="milliseconds"
        ),
        run=Run(runId=told.id, facets=_run_facets(facts, told, job)),
        job=Job(
            namespace=facts.namespace,
            name=_job_name(facts, told.job),
            facets=_job_facets(facts, told, job),
        ),
        inputs=[*_files(job), *_inputs(facts, inputs, told)],
        outputs=outputs,
        producer=PRODUCER,
    )


def redacted(event: T, secrets: Secrets) -> T:
    """The event, with secrets in its texts redacted in place."""
    return cast("T", _redact(event, secrets)) if secrets else event


def _redact(value: Any, secrets: Secrets) -> Any:
    match value:
        case str() if not isinstance(value, Enum):
            return secrets.redact(value)
        case dict():
            return {key: _redact(item, secrets) for key, item in value.items()}
        case list():
            return [_redact(item, secrets) for item in value]
        case _ if attr.has(type(value)):
            kind: Any = type(value)
            for each in attr.fields(kind):
                object.__setattr__(
                    value, each.name, _redact(getattr(value, each.name), secrets)
                )
    return value


def _job_name(facts: LineageFacts, name: str) -> str:
    """The name of a job: that of the model or seed; for '', the run as a whole, a name
    made of the project's."""
    return name or f"{facts.project}.run"


# --- the run and its job


def _run_facets(
    facts: LineageFacts, told: LineageRun, job: LineageJob | None
) -> Facets:
    facets: Facets = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=__version__,
            name="lakesql",
            openlineageAdapterVersion=version("openlineage-python"),
        )
    }
    if told.parent:
        facets["parent"] = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=told.parent),
            job=parent_run.Job(namespace=facts.namespace, name=_job_name(facts, "")),
        )
    if told.batches is not None:
        facets["lakesql_batches"] = BatchesFacet(
            checkpoint=told.checkpoint,
            firstBatch=told.batches[0],
            lastBatch=told.batches[1],
            commits=told.committed,
            records=told.records,
            deadLetters=sum(each.rows or 0 for each in told.letters),
        )
    if told.error:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=told.error, programmingLanguage="SQL"
        )
    if told.is_checked and job is not None and job.checks:
        facets["test"] = test_run.TestRunFacet(
            tests=[_test(check, told) for check in job.checks]
        )
    return facets


def _job_facets(
    facts: LineageFacts, told: LineageRun, job: LineageJob | None
) -> Facets:
    kind = (
        "RUN" if not told.job else "SEED" if job is not None and job.file else "MODEL"
    )
    facets: Facets = {
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="LAKESQL", jobType=kind
        )
    }
    if job is not None and job.sql:
        facets["sql"] = sql_job.SQLJobFacet(query=job.sql, dialect="spark")
    if job is not None and job.description:
        facets["documentation"] = documentation_job.DocumentationJobFacet(
            description=job.description
        )
    return facets


# --- inputs


def _files(job: LineageJob | None) -> list[InputDataset]:
    """The input dataset of a seed's file; empty for other jobs."""
    if job is None or not job.file:
        return []
    dataset = dataset_at(job.file)
    return [
        InputDataset(
            namespace=dataset.namespace, name=dataset.name, facets=_schema(job.columns)
        )
    ]


def _inputs(
    facts: LineageFacts, inputs: Sequence[LineageInput], told: LineageRun
) -> list[InputDataset]:
    found = []
    for each in inputs:
        facets = _schema(each.columns)
        if each.table:
            facets |= _of_table(facts, each.table, each.dataset.namespace)
        if each.snapshot:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
                datasetVersion=each.snapshot
            )
        own: Facets = {}
        if each.partitions or each.after:
            own["lakesql_offsets"] = OffsetsFacet(
                partitions=[
                    OffsetRange(it.partition, it.end, it.begin)
                    for it in each.partitions
                ],
                before=each.before or None,
                after=each.after or None,
            )
        if len(inputs) == 1 and told.state != "START" and told.checkpoint:
            own["inputStatistics"] = (
                input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                    rowCount=told.records
                )
            )
        dataset = each.dataset
        found.append(
            InputDataset(
                namespace=dataset.namespace,
                name=dataset.name,
                facets=facets,
                inputFacets=own,
            )
        )
    return found


# --- outputs


def _output(
    facts: LineageFacts,
    job: LineageJob,
    told: LineageRun,
    output: LineageOutput,
    inputs: Sequence[LineageInput],
) -> OutputDataset:
    """The output dataset of the table that a job writes, with its columns and their
    lineage."""
    dataset = table_dataset(facts.catalog, output.table, output.location)
    facets = _schema(job.columns) | _of_table(facts, output.table, dataset.namespace)
    if job.made.columns:
        facets["columnLineage"] = _column_lineage(facts, job, inputs)
    if output.snapshot is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=str(output.snapshot)
        )
    if told.is_checked and job.checks:
        facets["dataQualityAssertions"] = (
            data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
                assertions=[_assertion(check, told) for check in job.checks]
            )
        )
    return OutputDataset(
        namespace=dataset.namespace,
        name=dataset.name,
        facets=facets,
        outputFacets=_statistics(output),
    )


def _letters(facts: LineageFacts, output: LineageOutput) -> OutputDataset:
    """The output dataset of a dead-letter table."""
    dataset = table_dataset(facts.catalog, output.table, output.location)
    facets = _of_table(facts, output.table, dataset.namespace)
    return OutputDataset(
        namespace=dataset.namespace,
        name=dataset.name,
        facets=facets,
        outputFacets=_statistics(output),
    )


def _statistics(output: LineageOutput) -> Facets:
    if output.rows is None:
        return {}
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=output.rows
    )
    return {"outputStatistics": statistics}


def _schema(columns: Iterable[Column]) -> Facets:
    fields = [
        schema_dataset.SchemaDatasetFacetFields(
            name=column.name,
            type=column.type or None,
            description=column.description or None,
            fields=None,
        )
        for column in columns
    ]
    return (
        {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {}
    )


def _of_table(facts: LineageFacts, table: str, namespace: str) -> Facets:
    """The facets of an Iceberg table: the catalog, the storage layer, and, if its
    dataset is named by its location, its name in the catalog as a symlink."""
    catalog, symlink = facts.catalog, symlink_of(facts.catalog, table)
    facets: Facets = {
        "catalog": catalog_dataset.CatalogDatasetFacet(
            framework="iceberg",
            type=catalog.type,
            name=catalog.name,
            metadataUri=catalog_namespace(catalog),
            warehouseUri=without_login(catalog.warehouse) or None,
            source="lakesql",
        ),
        "storage": storage_dataset.StorageDatasetFacet(storageLayer="iceberg"),
    }
    if namespace != symlink.namespace:
        name = symlinks_dataset.Identifier(
            namespace=symlink.namespace, name=symlink.name, type="TABLE"
        )
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[name])
    return facets


def _column_lineage(
    facts: LineageFacts, job: LineageJob, inputs: Sequence[LineageInput]
) -> Any:
    fields = {
        column.name: column_lineage_dataset.Fields(
            inputFields=_input_fields(facts, column.sources, inputs)
        )
        for column in job.made.columns
    }
    rows = _input_fields(facts, job.made.rows, inputs)
    return column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields, dataset=rows)


def _input_fields(
    facts: LineageFacts, sources: Iterable[SourceColumn], inputs: Sequence[LineageInput]
) -> list[Any]:
    """The input columns, each once, with all kinds of transformation by which it is
    used."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for source in sources:
        way = column_lineage_dataset.Transformation(
            type=direct_or_not(source.kind), subtype=source.kind.upper()
        )
        for dataset in datasets_of_node(facts, source.node, inputs):
            found.setdefault(
                (dataset.namespace, dataset.name, source.column), []
            ).append(way)
    return [
        column_lineage_dataset.InputField(
            namespace=namespace, name=name, field=field, transformations=ways
        )
        for (namespace, name, field), ways in found.items()
    ]


# --- expectations


def _test(check: Check, told: LineageRun) -> Any:
    failing = dict(told.violations).get(check.name, 0)
    return test_run.TestExecution(
        name=check.name,
        status="fail" if failing else "pass",
        severity=_severity(check),
        type=_kind(check),
        expected="0",
        actual=str(failing),
        content=check.condition,
        contentType="sql",
    )


def _assertion(check: Check, told: LineageRun) -> Any:
    failing = dict(told.violations).get(check.name, 0)
    return data_quality_assertions_dataset.Assertion(
        assertion=_kind(check),
        success=not failing,
        column=check.column or None,
        severity=_severity(check),
        name=check.name,
        expected="0",
        actual=str(failing),
        content=check.condition,
        contentType="sql",
    )


def _severity(check: Check) -> str:
    """`error` for an expectation that stops the model, `warn` for one whose failing
    rows are written or become dead letters."""
    return "error" if check.on_fail == "stop" else "warn"


def _kind(check: Check) -> str:
    if check.is_written:
        return "custom_sql"
    return "accepted_values" if check.values else "not_null"
