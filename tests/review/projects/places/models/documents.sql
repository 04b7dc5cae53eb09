{{ config(mode='append') }}
SELECT id, to_json(struct(e.* EXCEPT (note))) AS document FROM {{ stream('events') }} AS e
