-- Cash flow of a customer: each feature is one view with the name of its column, and its definition above.
-- DuckDB runs this without files, network or spilling. You may change a definition: put the file
-- under HOME as features.sql, or name it with NIGHTSCREEN_FEATURES_FILE. Every statement makes a table
-- or a view; a view named tx_... has customer_id and one more column, and fills that column.
--
-- Given are:
--   customers     customer_id (a number for the customer), as_of: nothing after it is used
--   transactions  in naira, settled, up to as_of: id (in order of time), customer_id, account, moment
--                 and day and month (Lagos), credit, amount (naira, never negative), balance after it,
--                 reference, text and source (as numbers; source is who paid or was
--                 paid), rule and category (data/narrations.toml; category is '' where no rule applies),
--                 own_name (the other party has the customer's own name or account)
--   accounts      customer_id, account, balance, balance_at (time of the balance, Lagos): linked
--                 accounts in naira, if they were pulled
--   thresholds    one row with the numbers of [thresholds] in data/narrations.toml

-- ---------------------------------------------------------------------------------------------
-- What is left out
-- ---------------------------------------------------------------------------------------------

-- A reversal or returned item cancels its item: same account and amount, opposite direction, at most
-- 30 days earlier. An item with the same reference is preferred, then the nearest in time. If two
-- reversals match the same item, the second cancels the next nearest.
CREATE TABLE cancelled AS
WITH candidates AS (
    SELECT back.id AS reversal, item.id AS original,
        row_number() OVER (
            PARTITION BY back.id
            ORDER BY (item.reference = back.reference) DESC NULLS LAST, item.id DESC
        ) AS nearness
    FROM transactions AS back
    JOIN transactions AS item
        ON item.customer_id = back.customer_id AND item.account = back.account
        AND item.amount = back.amount AND item.credit <> back.credit
    WHERE back.category IN ('reversal', 'returned')
        AND item.category NOT IN ('reversal', 'returned')
        AND item.moment BETWEEN back.moment - INTERVAL 30 DAY AND back.moment
), turns AS (
    SELECT reversal, row_number() OVER (PARTITION BY original ORDER BY reversal) AS turn
    FROM candidates WHERE nearness = 1
)
SELECT turns.reversal, candidates.original
FROM turns JOIN candidates ON candidates.reversal = turns.reversal AND candidates.nearness = turns.turn;

-- The same item twice: one reference, account, amount, direction and narration within a day; or, if
-- there is no reference, the same instant and the same balance after it. All but the first are left out.
CREATE TABLE repeated AS
SELECT id FROM (
    SELECT id, row_number() OVER (
        PARTITION BY customer_id, account, credit, amount, text, day,
            coalesce(reference, hash(moment, balance))
        ORDER BY id
    ) AS turn
    FROM transactions
    WHERE id NOT IN (SELECT original FROM cancelled)
) WHERE turn > 1;

-- A transfer between the customer's own accounts: the same amount out of one and into another within
-- two days, if neither side has another category. The nearest in time is preferred; if two payments
-- match the same credit, the second takes the next nearest, and no credit is used twice.
CREATE TABLE own_pairs AS
WITH plain AS (
    SELECT * FROM transactions
    WHERE category = '' AND id NOT IN (SELECT id FROM repeated)
        AND id NOT IN (SELECT original FROM cancelled)
), candidates AS (
    SELECT paid.id AS paid, got.id AS got, abs(epoch(got.moment) - epoch(paid.moment)) AS apart,
        row_number() OVER (PARTITION BY paid.id ORDER BY apart, got.id) AS nearness
    FROM plain AS paid
    JOIN plain AS got ON got.customer_id = paid.customer_id AND got.amount = paid.amount
        AND got.account <> paid.account
    WHERE NOT paid.credit AND got.credit
        AND got.moment BETWEEN paid.moment - INTERVAL 2 DAY AND paid.moment + INTERVAL 2 DAY
), turns AS (
    SELECT paid, row_number() OVER (PARTITION BY got ORDER BY apart, paid) AS turn
    FROM candidates WHERE nearness = 1
)
SELECT candidates.paid, candidates.got
FROM turns JOIN candidates ON candidates.paid = turns.paid AND candidates.nearness = turns.turn
QUALIFY row_number() OVER (PARTITION BY candidates.got ORDER BY apart, candidates.paid) = 1;

-- Items that count: not cancelled, no reversal or repetition, and with another party.
-- Savings count on neither side: they are neither spent nor earned.
CREATE TABLE items AS
SELECT * FROM transactions
WHERE category NOT IN ('reversal', 'returned', 'own', 'savings')
    AND NOT (own_name AND category IN ('', 'cash_deposit'))
    AND id NOT IN (SELECT original FROM cancelled)
    AND id NOT IN (SELECT id FROM repeated)
    AND id NOT IN (SELECT paid FROM own_pairs)
    AND id NOT IN (SELECT got FROM own_pairs);

-- ---------------------------------------------------------------------------------------------
-- Time
-- ---------------------------------------------------------------------------------------------

-- The days that the transactions cover. Figures are as of the last one.
CREATE TABLE spans AS
SELECT customer_id, min(day) AS first_day, max(day) AS last_day
FROM transactions GROUP BY customer_id;

-- Covered months: the last twelve with at least one transaction within the span. The first must have 25
-- days or more in it, the last all but its last week; none is more than a year back.
CREATE TABLE months AS
SELECT customer_id, month
FROM (SELECT DISTINCT customer_id, month FROM transactions) AS seen
JOIN spans USING (customer_id)
JOIN customers USING (customer_id)
WHERE date_diff('day', greatest(first_day, month), month + INTERVAL 1 MONTH) >= 25
    AND least(as_of, last_day + 7) >= (month + INTERVAL 1 MONTH)::DATE - 1
    AND month >= date_trunc('month', last_day) - INTERVAL 12 MONTH
QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY month DESC) <= 12;

-- tx_as_of: the day of the newest transaction; the figures cover the time up to it.
CREATE VIEW tx_as_of AS SELECT customer_id, last_day FROM spans;

-- tx_months: number of covered months.
CREATE VIEW tx_months AS
SELECT customer_id, count(month) FROM spans LEFT JOIN months USING (customer_id) GROUP BY customer_id;

-- tx_months_missing: months between the first and the last covered one without any transaction.
CREATE VIEW tx_months_missing AS
SELECT customer_id, date_diff('month', min(month), max(month)) + 1 - count(*)
FROM months GROUP BY customer_id;

-- tx_month_names: the covered months, so that every figure can be checked.
CREATE VIEW tx_month_names AS
SELECT customer_id, list(strftime(month, '%Y-%m') ORDER BY month) FROM months GROUP BY customer_id;

-- tx_accounts: the accounts behind the figures, by their last four digits.
CREATE VIEW tx_accounts AS
SELECT customer_id, list(DISTINCT '******' || right(account, 4) ORDER BY '******' || right(account, 4))
FROM transactions WHERE account <> '' GROUP BY customer_id;

-- ---------------------------------------------------------------------------------------------
-- In and out
-- ---------------------------------------------------------------------------------------------

-- Money in and out by covered month. Loans received do not count as inflow.
CREATE TABLE monthly AS
SELECT customer_id, month,
    coalesce(sum(amount) FILTER (credit AND category <> 'loan_received'), 0) AS inflow,
    coalesce(sum(amount) FILTER (NOT credit), 0) AS outflow,
    inflow - outflow AS net
FROM months LEFT JOIN items USING (customer_id, month)
GROUP BY customer_id, month;

-- tx_inflow_monthly: median of the covered months.
CREATE VIEW tx_inflow_monthly AS
SELECT customer_id, median(inflow) FROM monthly GROUP BY customer_id;

-- tx_outflow_monthly: median of the covered months.
CREATE VIEW tx_outflow_monthly AS
SELECT customer_id, median(outflow) FROM monthly GROUP BY customer_id;

-- tx_net_monthly: median of inflow minus outflow.
CREATE VIEW tx_net_monthly AS
SELECT customer_id, median(net) FROM monthly GROUP BY customer_id;

-- tx_inflow_spread: how much the months vary: third quartile minus first, divided by the median.
CREATE VIEW tx_inflow_spread AS
SELECT customer_id,
    (quantile_cont(inflow, 0.75) - quantile_cont(inflow, 0.25)) / nullif(median(inflow), 0)
FROM monthly GROUP BY customer_id;

-- Trend: inflow and net of the last 30, 90 and 180 days, per 30 days each; null if the transactions do
-- not reach back so far.
CREATE TABLE recent AS
SELECT spans.customer_id, span.days,
    30.0::DECIMAL(9, 2) * coalesce(
        sum(amount) FILTER (credit AND category <> 'loan_received'), 0) / span.days AS inflow,
    30.0::DECIMAL(9, 2) * coalesce(
        sum(CASE WHEN credit AND category <> 'loan_received' THEN amount
            WHEN credit THEN 0 ELSE -amount END), 0) / span.days AS net
FROM spans CROSS JOIN (VALUES (30), (90), (180)) AS span (days)
LEFT JOIN items ON items.customer_id = spans.customer_id AND day > last_day - span.days
WHERE date_diff('day', first_day, last_day) >= span.days - 5
GROUP BY spans.customer_id, span.days;

-- tx_inflow_30d: inflow of the last 30 days.
CREATE VIEW tx_inflow_30d AS SELECT customer_id, inflow FROM recent WHERE days = 30;

-- tx_inflow_90d: inflow of the last 90 days, per 30 days.
CREATE VIEW tx_inflow_90d AS SELECT customer_id, inflow FROM recent WHERE days = 90;

-- tx_inflow_180d: inflow of the last 180 days, per 30 days.
CREATE VIEW tx_inflow_180d AS SELECT customer_id, inflow FROM recent WHERE days = 180;

-- tx_net_30d: inflow minus outflow of the last 30 days.
CREATE VIEW tx_net_30d AS SELECT customer_id, net FROM recent WHERE days = 30;

-- tx_net_90d: inflow minus outflow of the last 90 days, per 30 days.
CREATE VIEW tx_net_90d AS SELECT customer_id, net FROM recent WHERE days = 90;

-- tx_net_180d: inflow minus outflow of the last 180 days, per 30 days.
CREATE VIEW tx_net_180d AS SELECT customer_id, net FROM recent WHERE days = 180;

-- ---------------------------------------------------------------------------------------------
-- Income
-- ---------------------------------------------------------------------------------------------

-- Credits that may be earned: not loans, winnings, refunds, interest or payouts of savings.
CREATE TABLE earned AS
SELECT * FROM items
WHERE credit AND category IN ('', 'salary', 'cash_deposit');

-- The usual day of a source: a circular mean, in which the 31st is next to the 1st. A source that pays
-- three times a month or more has none.
CREATE TABLE usual_days AS
SELECT customer_id, source,
    (degrees(atan2(avg(sin(radians(day(day) * 360 / 30.4375))),
        avg(cos(radians(day(day) * 360 / 30.4375))))) + 360) % 360 / 360 * 30.4375 AS usual,
    count(*) / count(DISTINCT month) >= 3 AS often
FROM earned GROUP BY customer_id, source;

-- What a source paid, by month of pay. A month of pay begins half a month before the usual day, so that
-- a pay day that is moved by a weekend, or comes early in December, stays in its month.
CREATE TABLE paid AS
SELECT customer_id, source,
    date_trunc('month', day + CASE WHEN often THEN 0 ELSE (15 - usual)::INTEGER END)::DATE AS month,
    sum(amount) AS amount, count(*) AS credits, max(day) AS last_paid,
    bool_or(category = 'salary') AS worded, bool_or(category = 'cash_deposit') AS cash,
    max(usual) AS usual, bool_or(often) AS often
FROM earned JOIN usual_days USING (customer_id, source)
GROUP BY ALL;

-- Sources that pay regularly: in three months (two if the narration says salary), in most months since
-- the first, recently, and enough. A month without any transaction is ignored. It is a salary if the
-- months are within a band around their median; for a source that pays every week, if the single
-- payments are within half of the band. Cash deposits are never a salary.
CREATE TABLE sources AS
WITH middles AS (
    SELECT customer_id, source, median(amount) AS middle, min(month) AS since, max(month) AS until,
        count(*) AS months, max(last_paid) AS last_paid, bool_or(worded) AS worded,
        bool_or(cash) AS cash, max(usual) AS usual, bool_or(often) AS often, median(credits) AS credits
    FROM paid GROUP BY customer_id, source
), steady AS (
    SELECT customer_id, source, avg((abs(amount - middle) <= band * middle)::INTEGER) AS share
    FROM paid JOIN middles USING (customer_id, source) CROSS JOIN thresholds
    WHERE NOT middles.often GROUP BY customer_id, source
    UNION ALL
    SELECT customer_id, source, avg((abs(amount - usual) <= band / 2 * usual)::INTEGER) AS share
    FROM earned JOIN (
        SELECT customer_id, source, median(amount) AS usual
        FROM earned JOIN usual_days USING (customer_id, source) WHERE often
        GROUP BY customer_id, source
    ) USING (customer_id, source) CROSS JOIN thresholds
    GROUP BY customer_id, source
), due AS (
    SELECT customer_id, source, count(DISTINCT seen.month) AS months
    FROM middles JOIN (SELECT DISTINCT customer_id, month FROM transactions) AS seen USING (customer_id)
    WHERE seen.month BETWEEN since AND until
    GROUP BY customer_id, source
)
SELECT middles.*, share,
    (worded OR credits <= 6) AND NOT cash AND share >= regular_share AND middle >= least_salary AS salary
FROM middles
JOIN steady USING (customer_id, source) LEFT JOIN due USING (customer_id, source)
JOIN spans USING (customer_id) CROSS JOIN thresholds
WHERE middles.months >= CASE WHEN worded THEN 2 ELSE 3 END
    AND middles.months >= regular_share * coalesce(due.months, 1)
    AND last_paid >= last_day - active_days::INTEGER
    AND middle >= least_salary / 2;

-- Other earned credits are an income if they are frequent, like a trader's: six or more in the median
-- month. Occasional gifts are not.
CREATE TABLE trade AS
WITH other AS (
    SELECT customer_id, month, count(amount) AS credits, coalesce(sum(amount), 0) AS amount
    FROM months LEFT JOIN (
        SELECT * FROM earned ANTI JOIN sources USING (customer_id, source)
    ) USING (customer_id, month)
    GROUP BY customer_id, month
)
SELECT customer_id, month, amount FROM other
WHERE customer_id IN (
    SELECT customer_id FROM other CROSS JOIN thresholds
    GROUP BY customer_id HAVING median(credits) >= max(trading_credits)
);

-- Income by covered month: regular sources by month of pay, and trade.
CREATE TABLE income AS
SELECT customer_id, month, coalesce(sum(amount), 0) AS amount
FROM months LEFT JOIN (
    SELECT customer_id, month, amount FROM paid SEMI JOIN sources USING (customer_id, source)
    UNION ALL SELECT customer_id, month, amount FROM trade
) USING (customer_id, month)
GROUP BY customer_id, month;

-- tx_income_monthly: median of the covered months; null if too few are covered.
CREATE VIEW tx_income_monthly AS
SELECT customer_id, median(amount) FROM income CROSS JOIN thresholds
GROUP BY customer_id HAVING count(*) >= max(min_months);

-- tx_income_low: income of a low month: a quarter of the months are lower.
CREATE VIEW tx_income_low AS
SELECT customer_id, quantile_cont(amount, 0.25) FROM income CROSS JOIN thresholds
GROUP BY customer_id HAVING count(*) >= max(min_months);

-- tx_income_sources: number of sources that pay regularly; a trade counts as one.
CREATE VIEW tx_income_sources AS
SELECT customer_id, count(DISTINCT source)
    + (customer_id IN (SELECT customer_id FROM trade))::INTEGER
FROM spans LEFT JOIN sources USING (customer_id) GROUP BY customer_id;

-- tx_salary: whether a salary is paid.
CREATE VIEW tx_salary AS
SELECT customer_id, coalesce(bool_or(salary), false)
FROM spans LEFT JOIN sources USING (customer_id) GROUP BY customer_id;

-- tx_salary_day: usual day of the month of the largest salary; null if it is paid every week.
CREATE VIEW tx_salary_day AS
SELECT customer_id, CASE WHEN arg_max(often, middle) THEN NULL
    ELSE greatest(1, round(arg_max(usual, middle)))::INTEGER END
FROM sources WHERE salary GROUP BY customer_id;

-- tx_salary_monthly: median month of all salaries together.
CREATE VIEW tx_salary_monthly AS
SELECT customer_id, sum(middle) FROM sources WHERE salary GROUP BY customer_id;

-- tx_salary_months: number of months in which the largest salary was paid.
CREATE VIEW tx_salary_months AS
SELECT customer_id, arg_max(months, middle) FROM sources WHERE salary GROUP BY customer_id;

-- tx_salary_last: when a salary was last paid.
CREATE VIEW tx_salary_last AS
SELECT customer_id, max(last_paid) FROM sources WHERE salary GROUP BY customer_id;

-- ---------------------------------------------------------------------------------------------
-- Balances, at the end of the day, all accounts together
-- ---------------------------------------------------------------------------------------------

-- An account's balance at the end of a day holds until the day before its next transaction.
CREATE TABLE closings AS
SELECT customer_id, account, day, arg_max(balance, id) AS balance,
    lead(day, 1, date '9999-12-31') OVER (PARTITION BY customer_id, account ORDER BY day) - 1 AS until
FROM transactions WHERE balance IS NOT NULL GROUP BY customer_id, account, day;

-- Each of the last 90 days, from the first day with a known balance.
CREATE TABLE days AS
SELECT customer_id, day + number::INTEGER AS day, sum(balance) AS balance
FROM (
    SELECT customer_id, greatest(day, last_day - 89) AS day, balance,
        unnest(range(least(until, last_day) - greatest(day, last_day - 89) + 1)) AS number
    FROM closings JOIN spans USING (customer_id)
)
GROUP BY ALL;

-- tx_balance_current: balance of the linked accounts, or after an account's newest transaction if that is
-- newer; if accounts were not pulled, after the newest transactions.
CREATE VIEW tx_balance_current AS
WITH last_items AS (
    SELECT customer_id, account, max(moment) AS moment, arg_max(balance, id) AS balance
    FROM transactions WHERE balance IS NOT NULL GROUP BY customer_id, account
), linked AS (
    SELECT customer_id, sum(CASE
        WHEN accounts.balance IS NULL OR moment > balance_at THEN last_items.balance
        ELSE accounts.balance
    END) AS balance
    FROM accounts LEFT JOIN last_items USING (customer_id, account) GROUP BY customer_id
), newest AS (
    SELECT customer_id, arg_max(balance, day) AS balance FROM days GROUP BY customer_id
)
SELECT customer_id, coalesce(linked.balance, newest.balance)
FROM newest FULL JOIN linked USING (customer_id);

-- tx_balance_median: balance of the median day.
CREATE VIEW tx_balance_median AS SELECT customer_id, median(balance) FROM days GROUP BY customer_id;

-- tx_balance_min: balance of the lowest day.
CREATE VIEW tx_balance_min AS SELECT customer_id, min(balance) FROM days GROUP BY customer_id;

-- tx_days_below_1000: days that ended below 1,000 naira, including those below zero.
CREATE VIEW tx_days_below_1000 AS
SELECT customer_id, count(*) FILTER (balance < low_balance)
FROM days CROSS JOIN thresholds GROUP BY customer_id;

-- tx_days_below_zero: days that ended below zero.
CREATE VIEW tx_days_below_zero AS
SELECT customer_id, count(*) FILTER (balance < 0) FROM days GROUP BY customer_id;

-- tx_balance_month_end: median balance of the last day of each covered month.
CREATE VIEW tx_balance_month_end AS
SELECT customer_id, median(balance) FROM (
    SELECT customer_id, month, sum(balance) AS balance
    FROM months JOIN closings USING (customer_id)
    WHERE (month + INTERVAL 1 MONTH)::DATE - 1 BETWEEN day AND until
    GROUP BY customer_id, month
) GROUP BY customer_id;

-- ---------------------------------------------------------------------------------------------
-- Loans
-- ---------------------------------------------------------------------------------------------

CREATE TABLE repayments AS SELECT * FROM items WHERE NOT credit AND category = 'loan_repayment';

-- tx_repayments_monthly: monthly repayments to lenders in the last three covered months.
CREATE VIEW tx_repayments_monthly AS
WITH latest AS (
    SELECT * FROM months
    QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY month DESC) <= 3
)
SELECT customer_id, coalesce(sum(amount), 0) / count(DISTINCT month)
FROM latest LEFT JOIN repayments USING (customer_id, month) GROUP BY customer_id;

-- tx_repayments: number of repayments in the last 180 days.
CREATE VIEW tx_repayments AS
SELECT customer_id, count(*) FILTER (day > last_day - 180)
FROM spans LEFT JOIN repayments USING (customer_id) GROUP BY customer_id;

-- tx_repayments_share: monthly repayments divided by monthly income; null without an income.
CREATE VIEW tx_repayments_share AS
SELECT customer_id, repaid.monthly / nullif(earning.monthly, 0)
FROM (SELECT * FROM tx_repayments_monthly) AS repaid (customer_id, monthly)
JOIN (SELECT * FROM tx_income_monthly) AS earning (customer_id, monthly) USING (customer_id);

-- tx_lenders: number of lenders that were repaid in the last 180 days.
CREATE VIEW tx_lenders AS
SELECT customer_id, count(DISTINCT source) FILTER (day > last_day - 180)
FROM spans LEFT JOIN repayments USING (customer_id) GROUP BY customer_id;

-- tx_loans_received: number of loans paid out to the customer in the last 180 days.
CREATE VIEW tx_loans_received AS
SELECT customer_id, count(*) FILTER (credit AND category = 'loan_received' AND day > last_day - 180)
FROM spans LEFT JOIN items USING (customer_id) GROUP BY customer_id;

-- tx_loans_received_naira: their sum.
CREATE VIEW tx_loans_received_naira AS
SELECT customer_id, coalesce(sum(amount) FILTER (
    credit AND category = 'loan_received' AND day > last_day - 180), 0)
FROM spans LEFT JOIN items USING (customer_id) GROUP BY customer_id;

-- tx_returned: items returned in the last 180 days, for insufficient funds or by a bank.
CREATE VIEW tx_returned AS
SELECT customer_id, count(*) FILTER (category = 'returned' AND day > last_day - 180)
FROM transactions JOIN spans USING (customer_id) GROUP BY customer_id;

-- tx_reversed: reversals in the last 180 days.
CREATE VIEW tx_reversed AS
SELECT customer_id, count(*) FILTER (category = 'reversal' AND day > last_day - 180)
FROM transactions JOIN spans USING (customer_id) GROUP BY customer_id;

-- ---------------------------------------------------------------------------------------------
-- Spending
-- ---------------------------------------------------------------------------------------------

-- Monthly spending of the covered months by category. Rent that is paid once a year is spread.
CREATE TABLE spending AS
SELECT customer_id, category, sum(amount) / any_value(number) AS monthly, sum(amount) AS whole
FROM months JOIN items USING (customer_id, month)
JOIN (SELECT customer_id, count(*) AS number FROM months GROUP BY customer_id) USING (customer_id)
WHERE NOT credit GROUP BY customer_id, category;

-- tx_betting_share: betting as a share of all spending in the covered months, from 0 to 1.
CREATE VIEW tx_betting_share AS
SELECT customer_id, coalesce(sum(whole) FILTER (category = 'betting'), 0) / nullif(sum(whole), 0)
FROM spending GROUP BY customer_id;

-- tx_cash_share: cash from machines and agents as a share of all spending, from 0 to 1.
CREATE VIEW tx_cash_share AS
SELECT customer_id, coalesce(sum(whole) FILTER (category = 'cash'), 0) / nullif(sum(whole), 0)
FROM spending GROUP BY customer_id;

-- tx_rent_monthly: monthly rent.
CREATE VIEW tx_rent_monthly AS
SELECT customer_id, coalesce(sum(monthly) FILTER (category = 'rent'), 0)
FROM spending GROUP BY customer_id;

-- tx_airtime_monthly: monthly airtime and data.
CREATE VIEW tx_airtime_monthly AS
SELECT customer_id, coalesce(sum(monthly) FILTER (category = 'airtime'), 0)
FROM spending GROUP BY customer_id;

-- tx_utilities_monthly: monthly power, water and television.
CREATE VIEW tx_utilities_monthly AS
SELECT customer_id, coalesce(sum(monthly) FILTER (category = 'utilities'), 0)
FROM spending GROUP BY customer_id;

-- tx_contributions_monthly: monthly payments to ajo, esusu and cooperatives: saving, and an obligation.
CREATE VIEW tx_contributions_monthly AS
SELECT customer_id, coalesce(sum(monthly) FILTER (category = 'contribution'), 0)
FROM spending GROUP BY customer_id;

-- ---------------------------------------------------------------------------------------------
-- Disposable income and instalments
-- ---------------------------------------------------------------------------------------------

-- tx_disposable_monthly: monthly income minus obligations: repayments, rent, utilities, airtime and
-- contributions.
CREATE VIEW tx_disposable_monthly AS
SELECT customer_id, income.monthly - repaid.monthly - coalesce(owed.monthly, 0)
FROM (SELECT * FROM tx_income_monthly) AS income (customer_id, monthly)
JOIN (SELECT * FROM tx_repayments_monthly) AS repaid (customer_id, monthly) USING (customer_id)
LEFT JOIN (
    SELECT customer_id, sum(monthly) AS monthly FROM spending
    WHERE category IN ('rent', 'airtime', 'utilities', 'contribution') GROUP BY customer_id
) AS owed USING (customer_id);

-- tx_instalment_most: the largest affordable monthly instalment: together with current repayments it
-- stays within max_debt_share of the income of a low month.
CREATE VIEW tx_instalment_most AS
SELECT customer_id, greatest(0, max_debt_share * low.monthly - repaid.monthly)
FROM (SELECT * FROM tx_income_low) AS low (customer_id, monthly)
JOIN (SELECT * FROM tx_repayments_monthly) AS repaid (customer_id, monthly) USING (customer_id)
CROSS JOIN thresholds;
