-- Where did the time of each turn go? Waits and requests are below chats, so chats and tools are what adds up.
SELECT
    turn_id,
    sum(seconds) FILTER (WHERE span_type = 'turn') AS turn_seconds,
    sum(seconds) FILTER (WHERE span_type = 'chat') AS model_seconds,
    sum(seconds) FILTER (WHERE span_type = 'tool') AS tool_seconds,
    sum(seconds) FILTER (WHERE span_type = 'retry') AS waiting_seconds
FROM spans
GROUP BY turn_id
ORDER BY turn_seconds DESC;
