-- Plan: the lookups of a run. One slot (a check and identity, such as karma by phone) at a time, so
-- that only one of them is in memory.
--
-- The table `customers` has a row for each row of the batch, with
--   * a keyed pseudonym of each identifier, null if the row has none or a malformed one;
--   * for each slot why the row is not asked: 0 it is asked, 1 the identifier is absent, 2 it is
--     malformed, 3 there is no consent at this instant (`eligibility.py`);
--   * `exposure` in kobo, -1 if unknown, and `consent_until`.
-- The journal's tables are described where they are used.

-- name: begin_plan
-- The lookups to make, over all slots, and the rows about which an answer was ever read.
CREATE TABLE needed (slot TINYINT, subject UUID, row INTEGER, exposure BIGINT);
CREATE TABLE screened (row INTEGER);

-- name: placeholder
-- A phone or email that is a placeholder (`sharing.sql`) is treated as absent.
UPDATE customers SET "{slot}" = 1
WHERE "{slot}" = 0
    AND "{subject}" IN (SELECT identifier FROM shared WHERE others + 1 > {most});

-- name: lookups
-- Rows with the same identifier share one lookup. It is made in the name of the first row; if
-- consent is needed ({until}), in the name of the first of those whose consent lasts longest: when
-- that has ended, the consent of every other row has ended too.
CREATE OR REPLACE TABLE lookups AS
SELECT
    "{subject}" AS subject,
    arg_max(row, {until}::HUGEINT * 4294967296 - row) AS owner,
    max(exposure) AS exposure
FROM customers
WHERE "{slot}" = 0
GROUP BY "{subject}";

-- name: subjects
-- In the order of the journal's index.
SELECT subject FROM lookups ORDER BY subject;

-- name: judge
-- `closed`: lookups that may have been charged so often that they are not asked until their calls
-- in doubt are old enough (`freshness.py`).
-- `answers`: the journal's latest answer to each lookup that has one. `limits`: the instant from
-- which answers of each outcome are fresh. An answer to the run's own call, or one that came since
-- the run began, is `current` and counts at any age.
CREATE OR REPLACE TABLE judged AS
SELECT
    lookups.*, answers.* EXCLUDE (subject), limits.is_read, limits.is_listing,
    coalesce("current" OR answered_at >= fresh_from, false) AS is_fresh,
    subject IN (SELECT subject FROM closed) AS is_closed
FROM lookups
LEFT JOIN answers USING (subject)
LEFT JOIN limits ON limits.outcome = answers.outcome AND slot = {number};
DROP TABLE lookups;
DROP TABLE answers;
DROP TABLE closed;

-- name: screened
INSERT INTO screened
SELECT customers.row
FROM customers JOIN judged ON subject = "{subject}"
WHERE "{slot}" = 0 AND is_read;

-- name: counts
-- Lookups with an answer. An answer that could not be read is reused like any other, and counted
-- separately.
SELECT
    count(*) FILTER (is_read AND own_run AND cost_micro <> 0) AS paid,
    count(*) FILTER (is_read AND own_run AND cost_micro = 0) AS free,
    count(*) FILTER (NOT is_read AND is_fresh) AS unreadable,
    count(*) FILTER (is_closed AND NOT is_fresh) AS in_doubt,
    count(*) FILTER (is_reused) AS reused,
    coalesce(sum(cost) FILTER (is_reused), 0)::BIGINT AS saved_by_reuse_micro,
    min(answered_at) FILTER (is_reused) AS oldest_reused_at
FROM (
    SELECT
        *,
        greatest(cost_micro, 0) AS cost,
        is_read AND is_fresh AND NOT own_run AS is_reused
    FROM judged
);

-- name: row_plan
-- What the end of the run needs for each row: why it is not asked, or its pseudonym, and whether
-- the call is made in its name.
SELECT
    "{slot}" AS why,
    CASE WHEN "{slot}" = 0 THEN "{subject}" END AS subject,
    coalesce(owner = row, false) AS own
FROM customers LEFT JOIN judged ON subject = "{subject}" AND "{slot}" = 0
ORDER BY row;

-- name: need
-- A lookup is needed if it has no fresh answer and is not closed.
INSERT INTO needed
SELECT {number}, subject, owner, exposure FROM judged WHERE NOT is_fresh AND NOT is_closed;

-- name: listings
-- Rows that a stored answer already lists: karma may stop there (`lookup_table.py`).
SELECT customers.row
FROM customers JOIN judged ON subject = "{subject}"
WHERE "{slot}" = 0 AND is_fresh AND is_listing;

-- name: reasons
-- The number of rows by their reasons for all slots.
SELECT {slots}, count(*) AS rows FROM customers GROUP BY ALL;

-- name: rank
-- `tier`: customers who were never screened, and applicants, come before those whose evidence is
-- only old (`price.py` ranks by tier, then by exposure).
CREATE TABLE ranked AS
SELECT
    needed.*, first_row,
    (NOT {are_applicants} AND row IN (SELECT row FROM screened))::TINYINT AS tier
FROM needed ASOF JOIN chunks ON row >= first_row;
DROP TABLE needed;
DROP TABLE screened;

-- name: ranking
-- A lookup's number is its index in this order: by chunk, then by slot and pseudonym.
SELECT slot, tier, exposure, row FROM ranked ORDER BY first_row, slot, subject;

-- name: needed_of_chunk
SELECT slot, subject, row
FROM ranked
WHERE row >= {start} AND row < {end}
ORDER BY slot, subject;

-- name: number
CREATE TABLE numbered AS
SELECT slot, subject, row_number() OVER (ORDER BY first_row, slot, subject) - 1 AS number
FROM ranked;

-- name: chain
-- The lookup of one slot that each row waits for.
SELECT customers.row, number
FROM customers JOIN numbered ON subject = "{subject}" AND slot = {number}
WHERE "{slot}" = 0;
