{% macro only(where) %}
{%- if where == 'prod' %} AND a <> 'test'
{%- endif -%}
{% endmacro %}
