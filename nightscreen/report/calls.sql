-- The figures of a run's calls: their cost, their duration, and whether the balance agrees.
-- The table `calls` has a row for each call that was sent: instants in microseconds, money in
-- micro-naira, names as an index (`calls.py` has the names). docs/report.md explains the rules of
-- the balance.

-- name: checks
SELECT
    check_number,
    count(*) AS attempts,
    count(*) FILTER (attempt > 1) AS retries,
    sum(cost)::BIGINT AS cost_micro,
    sum(doubt)::BIGINT AS in_doubt_micro,
    quantile_cont(latency_us::DOUBLE, [0.5, 0.95, 0.99]) AS latency_us,
    histogram(trouble) AS troubles
FROM calls
GROUP BY check_number;

-- name: wallet
-- The calls in the order they were sent. `alone`: nothing else was under way meanwhile.
CREATE OR REPLACE TABLE wallet AS
SELECT
    row_number() OVER by_sent AS place,
    sent, settled, settled - sent AS took, cost, doubt, balance,
    coalesce(max(settled) OVER (
        ORDER BY sent, settled, balance DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) <= sent, TRUE)
    AND coalesce(lead(sent) OVER by_sent >= settled, TRUE) AS alone
FROM calls
WINDOW by_sent AS (ORDER BY sent, settled, balance DESC);

-- name: confirmed
-- Without a top-up the balance only falls, so balances show the order of charges, whatever the
-- order of answers. The balance at an end may be from before its own call's charge. Two such
-- balances in a row agree only if both calls cost the same. So an end is confirmed by a chain
-- without a gap in which not all calls cost the same. The nearest calls are looked at first, since
-- a later one may be a gap; each look takes four times as many calls.
WITH near AS (
    SELECT 'opening' AS name, row_number() OVER (ORDER BY place) AS near, *
    FROM wallet WHERE balance IS NOT NULL
    UNION ALL BY NAME
    SELECT 'closing' AS name, row_number() OVER (ORDER BY place DESC) AS near, *
    FROM wallet WHERE balance IS NOT NULL
),
looks AS (
    SELECT
        name, size, near, cost, balance, sent,
        coalesce(lag(balance) OVER by_balance - balance - cost != 0, FALSE)
        OR coalesce(settled < max(sent) OVER (
            PARTITION BY name, size ORDER BY balance DESC, cost DESC, sent
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), FALSE) AS gap
    FROM near
    JOIN (SELECT 2 * 4 ** unnest(range(1, 8)) AS size) ON near <= size
    WINDOW by_balance AS (PARTITION BY name, size ORDER BY balance DESC, cost DESC, sent)
),
reached AS (
    SELECT
        name, size, near, cost,
        CASE WHEN name = 'opening'
            THEN count(*) FILTER (gap) OVER downwards
            ELSE coalesce(count(*) FILTER (gap) OVER (
                PARTITION BY name, size ORDER BY balance, cost, sent DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ), 0)
        END AS gaps,
        CASE WHEN name = 'opening'
            THEN row_number() OVER downwards
            ELSE row_number() OVER (PARTITION BY name, size ORDER BY balance, cost, sent DESC)
        END AS step
    FROM looks
    WINDOW downwards AS (PARTITION BY name, size ORDER BY balance DESC, cost DESC, sent)
)
SELECT
    name,
    max(cost) = 0 OR bool_or(starts AND differs) AS confirmed
FROM (
    SELECT
        name, size, max(cost) AS cost,
        bool_or(near = 1 AND step = 1) AS starts,
        count(DISTINCT cost) FILTER (gaps = 0) > 1 AS differs
    FROM reached
    GROUP BY name, size
)
GROUP BY name;

-- name: ends
-- A call whose answer was lost may be charged until it has taken twice its time so far, but at
-- most `late` longer.
WITH first AS (
    SELECT place AS first_place, alone AS first_alone, balance + cost AS before_first,
        doubt > 0 AS first_doubt
    FROM wallet WHERE balance IS NOT NULL ORDER BY place LIMIT 1
),
last AS (
    SELECT place AS last_place, alone AS last_alone, balance AS after_last, sent AS last_sent
    FROM wallet WHERE balance IS NOT NULL ORDER BY place DESC LIMIT 1
),
sums AS (
    SELECT
        first_alone, first_doubt, before_first, last_alone, after_last,
        coalesce(sum(cost) FILTER (place < first_place), 0)::BIGINT AS cost_before,
        coalesce(sum(doubt) FILTER (place < first_place), 0) AS doubt_before,
        coalesce(sum(cost) FILTER (place > last_place), 0)::BIGINT AS cost_after,
        coalesce(sum(doubt) FILTER (place >= last_place), 0) AS doubt_after,
        coalesce(
            bool_or(settled + least(took, {late}) > last_sent) FILTER (doubt > 0), FALSE
        ) AS late,
        sum(cost)::BIGINT AS cost,
        sum(doubt) FILTER (NOT first_alone OR place >= first_place)::BIGINT AS doubt,
        min(balance) AS lowest,
        max(balance + cost) AS highest
    FROM wallet, first, last
    GROUP BY ALL
)
SELECT
    first_alone AND NOT first_doubt AS opening_alone,
    last_alone AND doubt_after = 0 AS closing_alone,
    CASE WHEN opening_alone THEN before_first + cost_before ELSE highest END AS opening,
    CASE WHEN closing_alone THEN after_last - cost_after ELSE lowest END AS closing,
    opening_alone AND doubt_before = 0 AS opening_exact,
    closing_alone AND NOT late AS closing_exact,
    cost, doubt, lowest
FROM sums;

-- name: lag
-- If all balances are from before their own charge, the difference from one charge to the next is
-- the cost of the call before. That shows wherever the price differs.
SELECT 2 * count(*) FILTER (lost = 0) < count(*) AS lags
FROM (
    SELECT
        lag(balance) OVER by_balance - balance - cost AS lost,
        cost != lag(cost) OVER by_balance AS other
    FROM wallet
    WHERE balance IS NOT NULL AND cost > 0 AND place <= {near}
    WINDOW by_balance AS (ORDER BY balance DESC, cost DESC, sent)
)
WHERE other;

-- name: first_unexplained
-- The first balance that costs and doubts cannot explain, in whatever order calls were charged: the
-- fall is at least the cost of calls settled before this one was sent, and at most the cost of
-- calls sent before it settled.
WITH surely AS (
    SELECT settled, sum(cost) OVER (ORDER BY settled) AS total FROM wallet
),
perhaps AS (
    SELECT sent, sum(cost + doubt) OVER (ORDER BY sent) AS total FROM wallet
)
SELECT min(told.settled) AS since
FROM (FROM wallet WHERE balance IS NOT NULL) AS told
ASOF LEFT JOIN surely ON told.sent >= surely.settled
ASOF LEFT JOIN perhaps ON told.settled >= perhaps.sent
WHERE {opening} - told.balance < coalesce(surely.total, 0) + told.cost
    OR {opening} - told.balance > perhaps.total;
