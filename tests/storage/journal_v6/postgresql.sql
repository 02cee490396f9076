-- A journal of version 6 with a finished run and one that ended for want of approval, dumped by the
-- program of that version under the data key of 32 bytes "k". Never change it.


CREATE TABLE answers (
  answer_id BIGSERIAL NOT NULL,
  "check" TEXT NOT NULL,
  subject BYTEA NOT NULL,
  outcome TEXT NOT NULL,
  answered_at BIGINT NOT NULL,
  call_id BIGINT NOT NULL,
  run_id TEXT NOT NULL,
  cost_micro BIGINT,
  body BYTEA NOT NULL,
  PRIMARY KEY (answer_id)
);

CREATE INDEX answers_by_subject ON answers (subject, "check", answered_at, answer_id, outcome, call_id, run_id, cost_micro);

INSERT INTO answers (answer_id, "check", subject, outcome, answered_at, call_id, run_id, cost_micro, body) VALUES (1, 'karma', '\x00000000000000000000000000000001'::bytea, 'clear', 1772280004000000, 1, 'run-1', 20000000, '\xcd96a0c3370d0f12a72802a43e6b1b214ef1c3a4e24c20d82dcb1b8f4f3f1ca35083'::bytea);

INSERT INTO answers (answer_id, "check", subject, outcome, answered_at, call_id, run_id, cost_micro, body) VALUES (2, 'karma', '\x00000000000000000000000000000002'::bytea, 'clear', 1772280004000000, 2, 'run-1', 20000000, '\xcd96a0c3fe48ffd254375a4f56cc95f799049aa08c55ad75b38491d1a4fd95a51c04'::bytea);

SELECT setval(pg_get_serial_sequence('answers', 'answer_id'), coalesce(max(answer_id), 0) + 1, false) FROM answers;

CREATE TABLE bvn_requests (
  request_id BYTEA NOT NULL,
  customer BYTEA NOT NULL,
  subject BYTEA NOT NULL,
  batch TEXT NOT NULL,
  run_id TEXT NOT NULL,
  consent_reference TEXT,
  consent_ends_at BIGINT NOT NULL,
  state TEXT NOT NULL,
  requested_at BIGINT NOT NULL,
  sealed BYTEA NOT NULL,
  doubt TEXT,
  trouble TEXT,
  attempts INTEGER NOT NULL,
  settled_at BIGINT,
  finish_run_id TEXT,
  finishing TEXT,
  cost_micro BIGINT NOT NULL,
  PRIMARY KEY (request_id)
);

CREATE INDEX bvn_requests_by_batch ON bvn_requests (batch, requested_at);

CREATE INDEX bvn_requests_by_customer ON bvn_requests (customer, requested_at);

CREATE INDEX bvn_requests_by_subject ON bvn_requests (subject);

CREATE TABLE calls (
  call_id BIGSERIAL NOT NULL,
  run_id TEXT NOT NULL,
  "check" TEXT NOT NULL,
  kind TEXT NOT NULL,
  subject BYTEA NOT NULL,
  purpose TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  holder TEXT NOT NULL,
  consent_reference TEXT,
  intent_at BIGINT NOT NULL,
  reserved_micro BIGINT NOT NULL,
  state TEXT NOT NULL,
  sent_at BIGINT,
  settled_at BIGINT,
  trouble TEXT,
  status INTEGER,
  outcome TEXT,
  cost_micro BIGINT,
  balance_micro BIGINT,
  final BOOLEAN NOT NULL,
  PRIMARY KEY (call_id)
);

CREATE INDEX calls_by_run ON calls (run_id, "check");

CREATE INDEX calls_by_subject ON calls (subject, "check");

CREATE INDEX calls_unsettled ON calls (state) WHERE state IN ('intent', 'in_doubt');

INSERT INTO calls (call_id, run_id, "check", kind, subject, purpose, attempt, holder, consent_reference, intent_at, reserved_micro, state, sent_at, settled_at, trouble, status, outcome, cost_micro, balance_micro, final) VALUES (1, 'run-1', 'karma', 'bvn', '\x00000000000000000000000000000001'::bytea, 'portfolio', 1, '21113-b5b92ca22302', NULL, 1772280003000000, 20000000, 'answered', 1772280003000000, 1772280004000000, NULL, 200, 'clear', 20000000, 1000000000, false);

INSERT INTO calls (call_id, run_id, "check", kind, subject, purpose, attempt, holder, consent_reference, intent_at, reserved_micro, state, sent_at, settled_at, trouble, status, outcome, cost_micro, balance_micro, final) VALUES (2, 'run-1', 'karma', 'bvn', '\x00000000000000000000000000000002'::bytea, 'portfolio', 1, '21113-b5b92ca22302', NULL, 1772280003000000, 20000000, 'answered', 1772280003000000, 1772280004000000, NULL, 200, 'clear', 20000000, 1000000000, false);

SELECT setval(pg_get_serial_sequence('calls', 'call_id'), coalesce(max(call_id), 0) + 1, false) FROM calls;

CREATE TABLE consent_grants (
  grant_id TEXT NOT NULL,
  customer BYTEA NOT NULL,
  state TEXT NOT NULL,
  scopes TEXT NOT NULL,
  asked_scopes TEXT NOT NULL,
  granted_at BIGINT NOT NULL,
  refreshed_at BIGINT,
  ended_at BIGINT,
  reason TEXT,
  generation INTEGER NOT NULL,
  holder TEXT,
  lease TEXT,
  sealed BYTEA NOT NULL,
  tokens BYTEA,
  PRIMARY KEY (grant_id)
);

CREATE INDEX consent_grants_by_customer ON consent_grants (customer, granted_at);

CREATE INDEX consent_grants_by_state ON consent_grants (state, granted_at);

CREATE TABLE consent_states (
  state_hash BYTEA NOT NULL,
  customer BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  used_at BIGINT,
  sealed BYTEA NOT NULL,
  PRIMARY KEY (state_hash)
);

CREATE INDEX consent_states_by_customer ON consent_states (customer);

CREATE INDEX consent_states_by_expiry ON consent_states (expires_at);

CREATE TABLE customer_commits (
  run_id TEXT NOT NULL,
  batch TEXT NOT NULL,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  PRIMARY KEY (run_id)
);

CREATE INDEX customer_commits_by_batch ON customer_commits (batch, first_at);

CREATE TABLE customer_history (
  history_id BIGSERIAL NOT NULL,
  customer BYTEA NOT NULL,
  replaced_at BIGINT NOT NULL,
  replaced_by TEXT NOT NULL,
  run_id TEXT NOT NULL,
  decided_at BIGINT NOT NULL,
  gone_run_id TEXT,
  state BYTEA NOT NULL,
  PRIMARY KEY (history_id)
);

CREATE INDEX customer_history_by_customer ON customer_history (customer, replaced_at);

CREATE INDEX customer_history_by_time ON customer_history (replaced_at);

SELECT setval(pg_get_serial_sequence('customer_history', 'history_id'), coalesce(max(history_id), 0) + 1, false) FROM customer_history;

CREATE TABLE customer_states (
  customer BYTEA NOT NULL,
  batch TEXT NOT NULL,
  run_id TEXT NOT NULL,
  first_at BIGINT NOT NULL,
  decided_at BIGINT NOT NULL,
  gone_run_id TEXT,
  state BYTEA NOT NULL,
  mark BYTEA,
  PRIMARY KEY (customer)
);

CREATE INDEX customer_states_marks ON customer_states (batch, customer, gone_run_id, mark);

CREATE TABLE erasures (
  erasure_id BIGSERIAL NOT NULL,
  kind TEXT NOT NULL,
  begun_at BIGINT NOT NULL,
  finished_at BIGINT,
  answers BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  states BIGINT NOT NULL,
  file_rows BIGINT NOT NULL,
  files BIGINT NOT NULL,
  cost_micro BIGINT NOT NULL,
  sightings BIGINT DEFAULT 0 NOT NULL,
  PRIMARY KEY (erasure_id)
);

SELECT setval(pg_get_serial_sequence('erasures', 'erasure_id'), coalesce(max(erasure_id), 0) + 1, false) FROM erasures;

CREATE TABLE holds (
  hold_id BIGSERIAL NOT NULL,
  run_id TEXT NOT NULL,
  held_at BIGINT NOT NULL,
  released_at BIGINT,
  reason TEXT NOT NULL,
  PRIMARY KEY (hold_id)
);

SELECT setval(pg_get_serial_sequence('holds', 'hold_id'), coalesce(max(hold_id), 0) + 1, false) FROM holds;

CREATE TABLE loan_history (
  history_id BIGSERIAL NOT NULL,
  offer_id BYTEA NOT NULL,
  customer BYTEA NOT NULL,
  run_id TEXT NOT NULL,
  seen_at BIGINT NOT NULL,
  status TEXT,
  before_at BIGINT,
  sealed BYTEA NOT NULL,
  PRIMARY KEY (history_id)
);

CREATE INDEX loan_history_by_offer ON loan_history (offer_id, history_id);

CREATE INDEX loan_history_by_run ON loan_history (run_id, history_id);

SELECT setval(pg_get_serial_sequence('loan_history', 'history_id'), coalesce(max(history_id), 0) + 1, false) FROM loan_history;

CREATE TABLE loan_offers (
  offer_id BYTEA NOT NULL,
  customer BYTEA NOT NULL,
  batch TEXT NOT NULL,
  product_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  source_run_id TEXT NOT NULL,
  decision TEXT NOT NULL,
  state TEXT NOT NULL,
  renewed BOOLEAN NOT NULL,
  started_at BIGINT NOT NULL,
  offered_at BIGINT,
  loan BYTEA,
  status TEXT,
  status_at BIGINT,
  followed_at BIGINT,
  closed_at BIGINT,
  sealed BYTEA NOT NULL,
  PRIMARY KEY (offer_id)
);

CREATE INDEX loan_offers_by_customer ON loan_offers (customer, product_id, number);

CREATE INDEX loan_offers_by_state ON loan_offers (state, closed_at);

CREATE TABLE meta (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (name)
);

INSERT INTO meta (name, value) VALUES ('schema_version', '6');

INSERT INTO meta (name, value) VALUES ('journal_id', '2bc511ad2f7a8770');

INSERT INTO meta (name, value) VALUES ('seal_key', 'bc2a2e0eeec4b7091c9a2cdaa8d5dc2b0aab9179a6a7a8dad3911b5057bc5f7e');

INSERT INTO meta (name, value) VALUES ('pseudonym_key', 'zZagw1YWZJbM3E4y3mLFwUY+7vF6JwFCbNFFL7RGIyh3RDH7T+MKb981NsLEihf4pDxWnNn6iuxt9XI9aCDFPw==');

CREATE TABLE policies (
  policy TEXT NOT NULL,
  text TEXT NOT NULL,
  kept_at BIGINT NOT NULL,
  PRIMARY KEY (policy)
);

CREATE TABLE prices (
  "check" TEXT NOT NULL,
  latest_micro BIGINT NOT NULL,
  highest_micro BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  PRIMARY KEY ("check")
);

INSERT INTO prices ("check", latest_micro, highest_micro, seen_at) VALUES ('karma', 20000000, 20000000, 1772280004000000);

CREATE TABLE releases (
  run_id TEXT NOT NULL,
  released_at BIGINT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (run_id)
);

CREATE TABLE reviews (
  review_id BIGSERIAL NOT NULL,
  customer BYTEA NOT NULL,
  batch TEXT NOT NULL,
  run_id TEXT NOT NULL,
  listed TEXT NOT NULL,
  decision TEXT NOT NULL,
  reviewed_at BIGINT NOT NULL,
  until BIGINT NOT NULL,
  imported_at BIGINT NOT NULL,
  evidence BYTEA NOT NULL,
  sealed BYTEA NOT NULL,
  PRIMARY KEY (review_id)
);

CREATE INDEX reviews_by_batch ON reviews (batch, until);

CREATE INDEX reviews_by_customer ON reviews (customer, reviewed_at);

INSERT INTO reviews (review_id, customer, batch, run_id, listed, decision, reviewed_at, until, imported_at, evidence, sealed) VALUES (1, '\x00000000000000000000000000000000'::bytea, 'people', 'run-1', 'review', 'approve', 1, 2, 1772280008000000, '\x00000000000000000000000000000000'::bytea, '\xcd96a0c388b61ec1ae3fd51454e20fcd0ab7f1efbe989a49f7b6a2ab5c368a18815349e70ab3ee2dfa7a98d6937ef38bd66ee50378b5'::bytea);

SELECT setval(pg_get_serial_sequence('reviews', 'review_id'), coalesce(max(review_id), 0) + 1, false) FROM reviews;

CREATE TABLE runs (
  run_id TEXT NOT NULL,
  flow TEXT NOT NULL,
  batch TEXT NOT NULL,
  purpose TEXT NOT NULL,
  state TEXT NOT NULL,
  stop_reason TEXT,
  holder TEXT,
  started_at BIGINT NOT NULL,
  finished_at BIGINT,
  input_digest TEXT NOT NULL,
  folder TEXT NOT NULL,
  cap_micro BIGINT,
  parameters TEXT NOT NULL,
  report TEXT,
  PRIMARY KEY (run_id)
);

CREATE INDEX runs_by_batch ON runs (batch, started_at);

INSERT INTO runs (run_id, flow, batch, purpose, state, stop_reason, holder, started_at, finished_at, input_digest, folder, cap_micro, parameters, report) VALUES ('run-1', 'screen_batch', 'people', 'portfolio', 'completed', NULL, '21113-b5b92ca22302', 1772280002000000, 1772280005000000, 'd', '/out/run-1', NULL, '{"input": "people.csv"}', '{"state": "completed", "cost": {"total": "40.00"}}');

INSERT INTO runs (run_id, flow, batch, purpose, state, stop_reason, holder, started_at, finished_at, input_digest, folder, cap_micro, parameters, report) VALUES ('run-2', 'screen_batch', 'people', 'portfolio', 'stopped', 'approval', '21113-b5b92ca22302', 1772280006000000, 1772280007000000, 'd', '/out/run-2', NULL, '{"input": "people.csv"}', '{"state": "stopped", "cost": {"total": "40.00"}}');

CREATE TABLE seal_keys (
  fingerprint TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  retired_at BIGINT,
  PRIMARY KEY (fingerprint)
);

INSERT INTO seal_keys (fingerprint, created_at, retired_at) VALUES ('bc2a2e0eeec4b7091c9a2cdaa8d5dc2b0aab9179a6a7a8dad3911b5057bc5f7e', 1772280001000000, NULL);

CREATE TABLE sightings (
  kind TEXT NOT NULL,
  identifier BYTEA NOT NULL,
  customer BYTEA NOT NULL,
  batch TEXT NOT NULL,
  bvn BYTEA,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  PRIMARY KEY (kind, identifier, customer, batch)
);

CREATE TABLE spend (
  scope TEXT NOT NULL,
  spent_micro BIGINT NOT NULL,
  reserved_micro BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  PRIMARY KEY (scope)
);

INSERT INTO spend (scope, spent_micro, reserved_micro, calls) VALUES ('day:2026-02-28', 40000000, 0, 2);

INSERT INTO spend (scope, spent_micro, reserved_micro, calls) VALUES ('day:2026-02-28:karma', 40000000, 0, 2);

INSERT INTO spend (scope, spent_micro, reserved_micro, calls) VALUES ('month:2026-02', 40000000, 0, 2);

INSERT INTO spend (scope, spent_micro, reserved_micro, calls) VALUES ('run:run-1', 40000000, 0, 2);

CREATE TABLE tallies (
  run_id TEXT NOT NULL,
  "check" TEXT NOT NULL,
  kind TEXT NOT NULL,
  outcome TEXT NOT NULL,
  answers BIGINT NOT NULL,
  cost_micro BIGINT NOT NULL,
  PRIMARY KEY (run_id, "check", kind, outcome)
);

INSERT INTO tallies (run_id, "check", kind, outcome, answers, cost_micro) VALUES ('run-1', 'karma', 'bvn', 'clear', 2, 40000000);

CREATE TABLE transaction_pulls (
  run_id TEXT NOT NULL,
  customer BYTEA NOT NULL,
  grant_id TEXT NOT NULL,
  outcome TEXT NOT NULL,
  standing INTEGER NOT NULL,
  answered_at BIGINT,
  settled_at BIGINT,
  summary TEXT NOT NULL,
  PRIMARY KEY (run_id, customer)
);

CREATE INDEX transaction_pulls_by_customer ON transaction_pulls (customer, answered_at);

CREATE TABLE transaction_records (
  record_id BIGSERIAL NOT NULL,
  customer BYTEA NOT NULL,
  record_key BYTEA NOT NULL,
  content BYTEA NOT NULL,
  problem TEXT,
  occurred_at BIGINT,
  first_seen_at BIGINT NOT NULL,
  run_id TEXT NOT NULL,
  told_as TEXT NOT NULL,
  changed TEXT,
  ended_at BIGINT,
  ended_as TEXT,
  ended_by TEXT,
  sealed BYTEA NOT NULL,
  PRIMARY KEY (record_id)
);

CREATE INDEX transaction_records_by_customer ON transaction_records (customer, ended_at);

CREATE INDEX transaction_records_by_end ON transaction_records (ended_by, record_id);

CREATE INDEX transaction_records_by_run ON transaction_records (run_id, record_id);

SELECT setval(pg_get_serial_sequence('transaction_records', 'record_id'), coalesce(max(record_id), 0) + 1, false) FROM transaction_records;
