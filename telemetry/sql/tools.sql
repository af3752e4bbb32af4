-- Which tools are slow, and which fail?
SELECT
    attributes['gen_ai.tool.name'] AS tool,
    count(*) AS calls,
    count(*) FILTER (WHERE failed) AS failures,
    median(seconds) AS median_seconds,
    max(seconds) AS longest_seconds
FROM spans
WHERE span_type = 'tool'
GROUP BY ALL
ORDER BY calls DESC, tool;
