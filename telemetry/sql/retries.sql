-- Why was asked again, how often, and how long was waited?
SELECT
    attributes['hermes.retry.reason'] AS reason,
    attributes['hermes.retry.source'] AS source,
    count(*) AS retries,
    sum(CAST(attributes['hermes.retry.waited'] AS DOUBLE)) AS seconds_waited
FROM spans
WHERE span_type = 'retry'
GROUP BY ALL
ORDER BY retries DESC, reason;
