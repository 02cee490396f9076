-- The report's figures from the enriched rows, in customers and in naira at risk.
--
-- `portion` holds some of the rows, one for each customer; `cells` counts customers with the same
-- values, over all portions. In braces: `checks` are status and source of each check, `statuses`
-- the statuses only, `at` the instant at which the age of evidence is measured, in microseconds.

-- name: open
CREATE TEMP MACRO weight(cell, picked) AS struct_pack(
    rows := coalesce(sum(cell.customers) FILTER (picked), 0)::BIGINT,
    exposure := coalesce(sum(cell.naira) FILTER (picked), 0)::DECIMAL(38, 2)::VARCHAR,
    unknown_rows := coalesce(sum(cell.unknown) FILTER (picked), 0)::BIGINT
);

CREATE TEMP MACRO cell_of(exposure) AS struct_pack(
    customers := count(*), naira := sum(exposure), unknown := count(*) - count(exposure)
);

-- The upper end of an age's class in days; 0 is older than all, null is no answer at all.
CREATE TEMP MACRO age_class(days) AS CASE
    WHEN days <= 1 THEN 1 WHEN days <= 7 THEN 7 WHEN days <= 30 THEN 30 WHEN days <= 90 THEN 90
    WHEN days > 90 THEN 0
END;

-- A value that looks like an identifier is never shown.
CREATE TEMP MACRO group_value(text) AS CASE
    WHEN regexp_matches(text, '\d{{8,}}|@') THEN '{others}'
    ELSE coalesce(nullif(trim(text, E' \t\r\n'), ''), '{others}')
END;

-- What is known about a customer's credit history.
CREATE TEMP MACRO basis_of(status) AS CASE
    WHEN status = 'found' THEN 'with_history'
    {bases}
    ELSE 'not_answered'
END;

CREATE TEMP TABLE approved_blind (exposure DECIMAL(38, 2), basis VARCHAR);

CREATE TEMP VIEW portion_cells AS
SELECT
    {checks}, decision, reasons, previous, change,
    age_class(({at} - oldest) / 86400e6) AS age,
    cell_of(exposure) AS cell,
    sum(karma_amount_in_contention) AS claimed
FROM portion
GROUP BY ALL;

CREATE TEMP TABLE cells AS FROM portion_cells;

CREATE TEMP TABLE group_cells (column_name VARCHAR, value VARCHAR, decision VARCHAR, cell STRUCT(
    customers BIGINT, naira DECIMAL(38, 2), unknown BIGINT
));

-- name: take
INSERT INTO cells FROM portion_cells;

INSERT INTO approved_blind
SELECT exposure, basis_of(ecosystem_status) AS basis FROM portion
WHERE decision = 'approve' AND basis != 'with_history' AND exposure > 0
ORDER BY exposure DESC LIMIT {largest};

-- name: take group
INSERT INTO group_cells
SELECT '{group}', group_value({group}), decision, cell_of(exposure) FROM portion GROUP BY ALL;

-- name: judged
-- A customer's cause is the first that applies to any of its checks. `due`: the customer needs an
-- answer and may have it; `waits`: an answer has not come yet.
CREATE TEMP TABLE judged AS
SELECT
    *,
    list_extract(
        list_filter({causes}, lambda cause: list_contains([{statuses}], cause)), 1
    ) AS cause,
    list_has_any([{statuses}], {open}) AS waits,
    list_has_any([{statuses}], {open} || {answered}) AS due,
    cause IS NULL AND due AND NOT list_contains([{statuses}], 'ineligible') AS fresh,
    basis_of(ecosystem_status) AS basis
FROM cells;

-- name: totals
SELECT
    weight(cell, TRUE) AS total,
    weight(cell, cause IS NOT NULL) AS not_screened,
    weight(cell, cause IS NULL AND NOT fresh) AS nothing_to_ask,
    weight(cell, fresh) AS fresh,
    weight(cell, due).rows AS due_rows,
    weight(cell, due AND NOT waits).rows AS answered_rows,
    weight(cell, change = 'new_listing') AS new_listings,
    coalesce(sum(claimed) FILTER (change = 'new_listing'), 0)::DECIMAL(38, 2)::VARCHAR
        AS in_contention,
    weight(cell, change = 'new' AND karma_status = 'listed') AS listed_at_first_sight
FROM judged;

-- name: causes
SELECT cause, weight(cell, TRUE) AS weight FROM judged WHERE cause IS NOT NULL GROUP BY cause;

-- name: ages
SELECT age, weight(cell, TRUE) AS weight FROM judged GROUP BY age;

-- name: decisions
SELECT
    decision,
    weight(cell, TRUE) AS weight,
    weight(cell, previous != decision) AS turned,
    weight(cell, previous IS NULL) AS first
FROM judged GROUP BY decision;

-- name: evidence
SELECT decision, basis, weight(cell, TRUE) AS weight FROM judged GROUP BY ALL ORDER BY decision, basis;

-- name: largest without history
SELECT exposure::VARCHAR AS exposure, basis FROM approved_blind
ORDER BY approved_blind.exposure DESC, basis LIMIT {largest};

-- name: reasons
-- The main reason of a row is its first. Missing evidence leaves a row undecided, and has no code.
SELECT decision, nullif(word, '') AS code, weight(cell, place = 1) AS main, weight(cell, place > 1) AS further
FROM (
    SELECT
        decision, cell,
        unnest(codes) AS word, generate_subscripts(codes, 1) AS place
    FROM (
        SELECT *, CASE
            WHEN decision = 'undecided' OR len(reasons) = 0 THEN [''] || reasons ELSE reasons
        END AS codes
        FROM judged
    )
)
GROUP BY decision, word
ORDER BY decision, struct_extract(main, 'rows') DESC, struct_extract(further, 'rows') DESC, word;

-- name: statuses
SELECT
    {check}_status AS status, weight(cell, TRUE) AS weight,
    weight(cell, {check}_source = 'asked').rows AS asked
FROM judged GROUP BY ALL;

-- name: groups
-- Groups with the largest declined exposure first. A small group might identify a customer, so it
-- is counted among the others.
WITH sizes AS (
    SELECT
        column_name, value, sum(cell.customers) AS size,
        coalesce(sum(cell.naira) FILTER (decision = 'decline'), 0) AS declined
    FROM group_cells GROUP BY ALL
),
named AS (
    SELECT
        column_name, value,
        row_number() OVER (
            PARTITION BY column_name ORDER BY declined DESC, size DESC, value
        ) AS place
    FROM sizes WHERE size >= {fewest} AND value != '{others}'
)
SELECT
    column_name,
    CASE WHEN place <= {most_named} THEN value ELSE '{others}' END AS name,
    weight(cell, TRUE) AS weight,
    {decisions}
FROM group_cells LEFT JOIN named USING (column_name, value)
GROUP BY ALL
ORDER BY column_name, min(CASE WHEN place <= {most_named} THEN place END) NULLS LAST;
