{% macro other_than(column, value) -%}
    {{ column }} <> {{ value }}
{%- endmacro %}

{% macro mask(column) -%}
    sha2({{ column }}, 256)
{%- endmacro %}
