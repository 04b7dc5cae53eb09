{{ config(mode='append') }}
{% set least = 1 %}
{% set limits = {'prod': 10, 'test': 20} %}
SELECT id, a, n
FROM {{ stream('e') }}
WHERE n <> {{ limits[target.name] | default(30) }}
{% if target.name == 'prod' %}
  AND n > {{ least }} AND n < {{ var('most', 5) }} AND {{ is_known('a') }}
{% endif %}
{% for word in ['x', 'y'] if word != target.name %} AND a <> '{{ word }}'{% endfor %}
{% call unless(target.name != 'prod') %}AND n > 7{% endcall %}
