-- Who was replaced by whom, and why?
SELECT
    attributes['hermes.fallback.from.provider'] AS from_provider,
    attributes['hermes.fallback.from.model'] AS from_model,
    attributes['hermes.fallback.to.provider'] AS to_provider,
    attributes['hermes.fallback.to.model'] AS to_model,
    attributes['hermes.fallback.reason'] AS reason,
    count(*) AS switches
FROM spans
WHERE span_type = 'fallback'
GROUP BY ALL
ORDER BY switches DESC;
