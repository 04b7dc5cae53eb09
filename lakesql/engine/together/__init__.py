"""Groups of models whose tables change together: rounds of batches that end with
transactions, and one commit of all."""
