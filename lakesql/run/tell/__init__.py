"""What people and programs are told about a project and its runs: status, forecasts,
pages, metrics, lineage."""
