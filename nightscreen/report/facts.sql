-- The report's figures from the enriched rows, in customers and in naira at risk.
--
-- `customers` streams a row for each customer and is read once. `cells` counts customers with the
-- same values; and, if `column_name` is not null, those of a branch or an officer with the same
-- decision. In braces: `checks` are status and source of each check, `statuses` the statuses only.

-- name: cells
-- `age` is the upper end, in days, of the class of a row's oldest answer at the instant `{at}`.
CREATE TEMP TABLE cells AS
SELECT
    {checks}, decision, reasons, previous, change, age,
    CASE WHEN GROUPING(branch) = 0 THEN 'branch' WHEN GROUPING(officer) = 0 THEN 'officer' END
        AS column_name,
    coalesce(branch, officer) AS value,
    count(*) AS customers, sum(exposure) AS naira, count(*) - count(exposure) AS unknown,
    sum(karma_amount_in_contention) AS claimed,
    max(exposure, {largest}) FILTER (decision = 'approve' AND exposure > 0) AS largest
FROM (
    SELECT *, CASE
        WHEN oldest IS NULL THEN 'none' WHEN {at} - oldest <= 86400e6 THEN '1'
        WHEN {at} - oldest <= 7 * 86400e6 THEN '7' WHEN {at} - oldest <= 30 * 86400e6 THEN '30'
        WHEN {at} - oldest <= 90 * 86400e6 THEN '90' ELSE 'older'
    END AS age
    FROM customers
)
GROUP BY GROUPING SETS (
    ({checks}, decision, reasons, previous, change, age), (branch, decision), (officer, decision)
);

CREATE TEMP MACRO weight(customers, naira, unknown) AS struct_pack(
    rows := coalesce(sum(customers), 0)::BIGINT,
    exposure := coalesce(sum(naira), 0)::DECIMAL(38, 2)::VARCHAR,
    unknown_rows := coalesce(sum(unknown), 0)::BIGINT
);

-- One word of a figure that a cell counts under; null if it does not.
CREATE TEMP MACRO part(figure, word, applies := TRUE) AS
    CASE WHEN applies THEN struct_pack(figure := figure, word := word) END;

CREATE TEMP MACRO basis_of(status) AS CASE
    WHEN status = 'found' THEN 'with_history' {bases} ELSE 'not_answered'
END;

-- name: weights
-- A customer's cause is the first that applies to any of its checks. `due`: the customer needs an
-- answer and may have it; `waits`: an answer has not come yet. The main reason of a row is its
-- first. Missing evidence leaves a row undecided, and has no code.
SELECT
    part.figure, part.word, weight(customers, naira, unknown) AS weight,
    coalesce(sum(claimed), 0)::DECIMAL(38, 2)::VARCHAR AS claimed
FROM (
    SELECT
        customers, naira, unknown, claimed,
        list_extract(
            list_filter({causes}, lambda cause: list_contains([{statuses}], cause)), 1
        ) AS cause,
        list_has_any([{statuses}], {open}) AS waits,
        list_has_any([{statuses}], {open} || {answered}) AS due,
        cause IS NULL AND due AND NOT list_contains([{statuses}], 'ineligible') AS fresh,
        unnest([
            part('whole', 'total'),
            part('whole', 'not_screened', cause IS NOT NULL),
            part('whole', 'nothing_to_ask', cause IS NULL AND NOT fresh),
            part('whole', 'fresh', fresh),
            part('whole', 'due', due),
            part('whole', 'answered', due AND NOT waits),
            part('whole', 'new_listing', change = 'new_listing'),
            part('whole', 'listed_at_first_sight', change = 'new' AND karma_status = 'listed'),
            part('cause', cause, cause IS NOT NULL),
            part('age', age),
            part('decision', decision),
            part('turned', decision, previous != decision),
            part('first', decision, previous IS NULL),
            part(decision || ' on', basis_of(ecosystem_status)),
            {of_checks}
        ] || coalesce(list_transform(
            CASE WHEN decision = 'undecided' OR len(reasons) = 0 THEN [''] ELSE [] END || reasons,
            lambda code, place:
                part(decision || CASE place WHEN 1 THEN ' for' ELSE ' also for' END, code)
        ), [])) AS part
    FROM cells
    WHERE column_name IS NULL
)
WHERE part IS NOT NULL
GROUP BY ALL
ORDER BY part.figure, part.word;

-- name: largest
SELECT amount::VARCHAR AS exposure, basis
FROM (
    SELECT unnest(largest) AS amount, basis_of(ecosystem_status) AS basis
    FROM cells
    WHERE column_name IS NULL
)
WHERE basis != 'with_history'
ORDER BY amount DESC, basis LIMIT {largest};

-- name: groups
-- Groups with the largest declined exposure first. A small group might identify a customer, so it
-- is counted among the others, as `customers` already has a value that looks like an identifier.
WITH shown AS (
    SELECT * REPLACE (
        coalesce(nullif(trim(value, E' \t\r\n'), ''), '{others}') AS value
    )
    FROM cells WHERE value IS NOT NULL
),
named AS (
    SELECT
        column_name, value,
        row_number() OVER (
            PARTITION BY column_name ORDER BY
                coalesce(sum(naira) FILTER (decision = 'decline'), 0) DESC, sum(customers) DESC,
                value
        ) AS place
    FROM shown
    WHERE value != '{others}'
    GROUP BY column_name, value
    HAVING sum(customers) >= {fewest}
)
SELECT
    column_name, decision, CASE WHEN place <= {most_named} THEN value ELSE '{others}' END AS name,
    weight(customers, naira, unknown) AS weight
FROM shown LEFT JOIN named USING (column_name, value)
GROUP BY ALL
ORDER BY column_name, min(CASE WHEN place <= {most_named} THEN place END) NULLS LAST;
