-- The journal's first version, frozen: what an older program made. Never change it.

CREATE TABLE answers (
  answer_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  "check" TEXT NOT NULL,
  subject BLOB NOT NULL,
  outcome TEXT NOT NULL,
  answered_at BIGINT NOT NULL,
  call_id BIGINT NOT NULL,
  run_id TEXT NOT NULL,
  cost_micro BIGINT,
  body BLOB NOT NULL
);

CREATE INDEX answers_by_subject ON answers (subject, "check", answered_at, answer_id, outcome, call_id, run_id, cost_micro);

CREATE TABLE calls (
  call_id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  "check" TEXT NOT NULL,
  kind TEXT NOT NULL,
  subject BLOB NOT NULL,
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

CREATE TABLE meta (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (name)
);

CREATE TABLE prices (
  "check" TEXT NOT NULL,
  latest_micro BIGINT NOT NULL,
  highest_micro BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  PRIMARY KEY ("check")
);

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

CREATE TABLE seal_keys (
  fingerprint TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  retired_at BIGINT,
  PRIMARY KEY (fingerprint)
);

CREATE TABLE spend (
  scope TEXT NOT NULL,
  spent_micro BIGINT NOT NULL,
  reserved_micro BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  PRIMARY KEY (scope)
);

CREATE TABLE tallies (
  run_id TEXT NOT NULL,
  "check" TEXT NOT NULL,
  kind TEXT NOT NULL,
  outcome TEXT NOT NULL,
  answers BIGINT NOT NULL,
  cost_micro BIGINT NOT NULL,
  PRIMARY KEY (run_id, "check", kind, outcome)
);

CREATE TABLE customer_commits (
  run_id TEXT NOT NULL, 
  batch TEXT NOT NULL, 
  first_at BIGINT NOT NULL, 
  last_at BIGINT NOT NULL, 
  PRIMARY KEY (run_id)
);

CREATE INDEX customer_commits_by_batch ON customer_commits (batch, first_at);

CREATE TABLE customer_history (
  history_id INTEGER NOT NULL, 
  customer BLOB NOT NULL, 
  replaced_at BIGINT NOT NULL, 
  replaced_by TEXT NOT NULL, 
  run_id TEXT NOT NULL, 
  decided_at BIGINT NOT NULL, 
  gone_run_id TEXT, 
  state BLOB NOT NULL, 
  PRIMARY KEY (history_id)
);

CREATE INDEX customer_history_by_customer ON customer_history (customer, replaced_at);

CREATE INDEX customer_history_by_time ON customer_history (replaced_at);

CREATE TABLE customer_states (
  customer BLOB NOT NULL, 
  batch TEXT NOT NULL, 
  run_id TEXT NOT NULL, 
  first_at BIGINT NOT NULL, 
  decided_at BIGINT NOT NULL, 
  gone_run_id TEXT, 
  state BLOB NOT NULL, 
  PRIMARY KEY (customer)
);

CREATE INDEX customer_states_by_batch ON customer_states (batch, customer);

CREATE TABLE policies (
  policy TEXT NOT NULL, 
  text TEXT NOT NULL, 
  kept_at BIGINT NOT NULL, 
  PRIMARY KEY (policy)
);

CREATE TABLE releases (
  run_id TEXT NOT NULL, 
  released_at BIGINT NOT NULL, 
  reason TEXT NOT NULL, 
  PRIMARY KEY (run_id)
);

CREATE TABLE reviews (
  review_id INTEGER NOT NULL, 
  customer BLOB NOT NULL, 
  batch TEXT NOT NULL, 
  run_id TEXT NOT NULL, 
  listed TEXT NOT NULL, 
  decision TEXT NOT NULL, 
  reviewed_at BIGINT NOT NULL, 
  until BIGINT NOT NULL, 
  imported_at BIGINT NOT NULL, 
  evidence BLOB NOT NULL, 
  sealed BLOB NOT NULL, 
  PRIMARY KEY (review_id)
);

CREATE INDEX reviews_by_batch ON reviews (batch, until);

CREATE INDEX reviews_by_customer ON reviews (customer, reviewed_at);

CREATE TABLE erasures (
  erasure_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  begun_at BIGINT NOT NULL,
  finished_at BIGINT,
  answers BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  states BIGINT NOT NULL,
  file_rows BIGINT NOT NULL,
  files BIGINT NOT NULL,
  cost_micro BIGINT NOT NULL,
  PRIMARY KEY (erasure_id)
);

CREATE TABLE holds (
  hold_id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  held_at BIGINT NOT NULL,
  released_at BIGINT,
  reason TEXT NOT NULL,
  PRIMARY KEY (hold_id)
);
