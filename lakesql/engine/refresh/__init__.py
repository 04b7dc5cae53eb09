"""Refreshes of tables that are made of other tables: what changed in their inputs, and
the commit that brings the table up to date."""
