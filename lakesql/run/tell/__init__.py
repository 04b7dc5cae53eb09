"""What is told of a project and its runs, to people and programs: status, forecasts,
pages, metrics, lineage."""
