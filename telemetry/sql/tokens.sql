-- Which model used how many tokens? Counted on chat spans, where each token stands once.
SELECT
    attributes['gen_ai.provider.name'] AS provider,
    attributes['gen_ai.request.model'] AS model,
    count(*) AS calls,
    sum(CAST(attributes['gen_ai.usage.input_tokens'] AS BIGINT)) AS input_tokens,
    sum(CAST(attributes['gen_ai.usage.output_tokens'] AS BIGINT)) AS output_tokens,
    sum(CAST(attributes['gen_ai.usage.cache_read.input_tokens'] AS BIGINT)) AS cache_read_tokens
FROM spans
WHERE span_type = 'chat'
GROUP BY ALL
ORDER BY input_tokens DESC NULLS LAST;
