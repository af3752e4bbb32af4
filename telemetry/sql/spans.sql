-- The spans of files of OTLP JSON lines as a table of DuckDB. Set where they are first:
--     SET VARIABLE traces = 'runs/*.jsonl';
CREATE OR REPLACE TEMP TABLE spans AS
WITH lines AS (
    SELECT unnest(resourceSpans) AS resource
    FROM read_json(getvariable('traces'), format = 'newline_delimited', columns = {resourceSpans: 'JSON[]'},
                   maximum_object_size = 268435456, ignore_errors = true)
),
scopes AS (SELECT unnest(CAST(resource -> '$.scopeSpans' AS JSON[])) AS scope FROM lines),
flat AS (SELECT unnest(CAST(scope -> '$.spans' AS JSON[])) AS span FROM scopes),
named AS (
    SELECT
        span,
        map_from_entries(list_transform(
            coalesce(CAST(span -> '$.attributes' AS JSON[]), []),
            lambda a: struct_pack(
                k := a ->> '$.key',
                v := coalesce(a ->> '$.value.stringValue', a ->> '$.value.intValue', a ->> '$.value.doubleValue',
                              a ->> '$.value.boolValue', CAST(a -> '$.value' AS VARCHAR))
            )
        )) AS attributes
    FROM flat
)
SELECT
    span ->> '$.traceId' AS trace_id,
    span ->> '$.spanId' AS span_id,
    nullif(span ->> '$.parentSpanId', '') AS parent_span_id,
    span ->> '$.name' AS name,
    attributes['hermes.span.type'] AS span_type,
    attributes['hermes.turn.id'] AS turn_id,
    attributes['gen_ai.conversation.id'] AS conversation_id,
    CAST(attributes['hermes.iteration.number'] AS INTEGER) AS iteration,
    make_timestamp_ns(CAST(span ->> '$.startTimeUnixNano' AS BIGINT)) AS start_time,
    (CAST(span ->> '$.endTimeUnixNano' AS BIGINT) - CAST(span ->> '$.startTimeUnixNano' AS BIGINT)) / 1e9 AS seconds,
    coalesce(CAST(span ->> '$.status.code' AS INTEGER), 0) = 2 AS failed,
    attributes['error.type'] AS error_type,
    attributes,
    CAST(span -> '$.events' AS JSON[]) AS events
FROM named;
