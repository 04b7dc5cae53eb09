"""A project as a site of static pages: its pages as values, and as HTML. Pure, but for
lakesql's own templates."""
