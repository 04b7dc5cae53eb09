"""Seeds: small tables that are kept in the project as files of CSV, and the contracts
on their columns."""
