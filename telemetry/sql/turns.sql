-- How did each turn go? One row a turn, sub-agents included.
SELECT
    turn_id,
    attributes['gen_ai.agent.name'] AS agent,
    attributes['hermes.turn.exit_reason'] AS exit_reason,
    seconds,
    CAST(attributes['hermes.turn.iterations'] AS INTEGER) AS iterations,
    CAST(attributes['hermes.turn.tool_calls'] AS INTEGER) AS tool_calls,
    CAST(attributes['hermes.turn.retries'] AS INTEGER) AS retries,
    CAST(attributes['hermes.turn.fallbacks'] AS INTEGER) AS fallbacks,
    CAST(attributes['hermes.turn.usage.input_tokens'] AS BIGINT) AS input_tokens,
    CAST(attributes['hermes.turn.usage.output_tokens'] AS BIGINT) AS output_tokens,
    CAST(attributes['hermes.turn.cost_usd'] AS DOUBLE) AS cost_usd
FROM spans
WHERE span_type = 'turn'
ORDER BY start_time;
