"""Tables that are made of others: which snapshots of these they are made of, and the
commit that makes them right."""
