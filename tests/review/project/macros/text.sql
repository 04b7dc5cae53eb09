{# Text in, text out: a macro's arguments are pieces of SQL, and so is what it gives. #}
{% macro clean(text) -%}
    lower(trim({{ text }}))
{%- endmacro %}

{% macro page_of(url) -%}
    regexp_extract({{ url }}, '^https?://[^/]+(/[^?#]*)', 1)
{%- endmacro %}
