"""Seeds: small tables that are kept in the project as CSV files, and the contracts on
their columns."""
