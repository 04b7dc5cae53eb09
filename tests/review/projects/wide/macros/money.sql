{% macro cents(column) -%}
    CAST(round({{ column }} * 100) AS bigint)
{%- endmacro %}

{% macro amount_columns(column, currency) -%}
    {{ cents(column) }} AS amount_cents,
    {{ currency }} AS currency
{%- endmacro %}
