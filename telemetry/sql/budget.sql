-- How did the budget of each turn move? From the span events, in their order.
WITH told AS (
    SELECT turn_id, iteration, unnest(events) AS event FROM spans
),
given AS (
    SELECT
        turn_id,
        iteration,
        replace(event ->> '$.name', 'hermes.budget.', '') AS action,
        map_from_entries(list_transform(
            CAST(event -> '$.attributes' AS JSON[]),
            lambda a: struct_pack(k := a ->> '$.key', v := coalesce(a ->> '$.value.intValue', a ->> '$.value.stringValue'))
        )) AS attributes
    FROM told
    WHERE starts_with(event ->> '$.name', 'hermes.budget.')
)
SELECT
    turn_id,
    CAST(attributes['hermes.budget.sequence'] AS INTEGER) AS sequence,
    action,
    iteration,
    CAST(attributes['hermes.budget.delta'] AS INTEGER) AS delta,
    CAST(attributes['hermes.budget.used'] AS INTEGER) AS used,
    CAST(attributes['hermes.budget.remaining'] AS INTEGER) AS remaining,
    CAST(attributes['hermes.budget.limit'] AS INTEGER) AS limit_
FROM given
ORDER BY turn_id, sequence;
