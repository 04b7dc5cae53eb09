"""The site of a project, static pages: as values, and as HTML. Pure, except for reading
lakesql's own templates."""
