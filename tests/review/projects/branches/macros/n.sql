{% macro is_known(column) %}{{ column }} IN ({{ names() }}){% endmacro %}
{% macro names() %}'x', 'y', 'z'{% endmacro %}
{% macro unless(is_not) %}{% if not is_not %}{{ caller() }}{% endif %}{% endmacro %}
