{{ config(mode='append') }}
SELECT id, a, n
FROM {{ stream('e') }}
WHERE id > 0
{% if is_full_refresh %}
  AND n < 10 -- history
{% elif target.name == 'prod' %}
  AND n < 20
{% endif %}
{{ only(target.name) }}
{{ "AND a = 'x'" if var('region') == 'us' }}
