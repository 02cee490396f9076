-- Sharing: which customers have the same BVN, account, phone, email or photograph.
--
-- The table `customers` has a row for each row of the batch, with the customer and a keyed
-- pseudonym of each identifier, null if it is absent or malformed. Pseudonyms of different kinds
-- are never equal. Customers are counted, not rows or runs: a customer who appears again, in this
-- batch or in another, is the same one.

-- name: begin_sharing
-- `others`: how many other customers have the identifier; `bvns`: with how many BVNs it was seen.
-- Only identifiers seen more than once are stored: for others the row has the numbers.
CREATE TABLE shared (identifier UUID, others BIGINT, bvns BIGINT);
-- The journal's sightings; `lately` is true for this batch and if written in the last week.
CREATE TABLE seen (
    identifier UUID, customer UUID, bvn UUID, elsewhere BOOLEAN, lately BOOLEAN
);
CREATE TABLE earlier (identifier UUID, customer UUID, bvn UUID);
CREATE MACRO no_bvn() AS '00000000-0000-0000-0000-000000000000'::UUID;

-- name: kind
-- One kind at a time. Only accounts are counted with their BVNs.
CREATE OR REPLACE VIEW identifiers AS
SELECT row, customer, "{kind}" AS identifier, coalesce({bvn}, no_bvn()) AS bvn
FROM customers
WHERE "{kind}" IS NOT NULL;

-- name: identifiers
SELECT DISTINCT identifier FROM identifiers ORDER BY identifier;

-- name: earlier
-- A customer's earlier identifiers in this batch are replaced by the current ones, so that a
-- corrected BVN does not count twice. The customer's identifiers in other batches count too.
INSERT INTO earlier
SELECT identifier, customer, bvn FROM seen WHERE elsewhere
UNION ALL
SELECT identifier, customer, bvn
FROM (FROM seen WHERE NOT elsewhere) ANTI JOIN identifiers USING (identifier, customer);

-- name: count
INSERT INTO shared
WITH uses AS (
    SELECT identifier, customer, bvn FROM identifiers
    UNION ALL
    SELECT identifier, customer, bvn FROM earlier
)
SELECT identifier, count(DISTINCT customer) - 1, count(DISTINCT nullif(bvn, no_bvn()))
FROM uses
WHERE identifier IN (SELECT identifier FROM uses GROUP BY identifier HAVING count(*) > 1)
GROUP BY identifier;

-- name: unwritten
-- Sightings that the journal lacks, or last wrote a week ago, in the order in which they are stored.
SELECT identifier, customer, nullif(bvn, no_bvn()) AS bvn
FROM identifiers ANTI JOIN (FROM seen WHERE lately) USING (identifier, customer, bvn)
ORDER BY identifier, row;

-- name: end_of_kind
TRUNCATE seen;
TRUNCATE earlier;

-- name: signals
-- The signals of each row; null if it lacks the identifier.
SELECT
    CASE WHEN bvn IS NOT NULL THEN coalesce(of_bvn.others, 0) END AS batch_same_bvn,
    CASE WHEN nuban IS NOT NULL THEN coalesce(of_account.others, 0) END AS batch_same_account,
    CASE WHEN phone IS NOT NULL THEN coalesce(of_phone.others, 0) END AS batch_same_phone,
    CASE WHEN image IS NOT NULL THEN coalesce(of_image.others, 0) END AS batch_same_image,
    CASE
        WHEN nuban IS NOT NULL THEN coalesce(of_account.bvns, (bvn IS NOT NULL)::BIGINT)
    END AS batch_account_bvns
FROM customers
LEFT JOIN shared AS of_bvn ON of_bvn.identifier = customers.bvn
LEFT JOIN shared AS of_account ON of_account.identifier = nuban
LEFT JOIN shared AS of_phone ON of_phone.identifier = phone
LEFT JOIN shared AS of_image ON of_image.identifier = image
ORDER BY row;

-- name: placeholders
-- A phone or email that more than {most} customers have is a placeholder and is not looked up.
-- BVNs, accounts and photographs are never placeholders: sharing those is a finding.
SELECT line
FROM customers JOIN shared ON identifier = "{kind}"
WHERE others + 1 > {most}
ORDER BY row;

-- name: forget
-- Drop a column that the plan does not need.
ALTER TABLE customers DROP COLUMN "{column}";
