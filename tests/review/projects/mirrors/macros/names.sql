{% macro tidy(text) -%}
    lower(trim({{ text }}))
{%- endmacro %}
