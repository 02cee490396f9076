-- A journal of version 10 with something in every store of that version, dumped by its program under
-- the data key of 32 bytes "k". Never change it.

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

INSERT INTO answers (answer_id, "check", subject, outcome, answered_at, call_id, run_id, cost_micro, body) VALUES (1, 'karma', X'00000000000000000000000000000001', 'clear', 1772280004000000, 1, 'run-1', 20000000, X'cd96a0c3683503c9088f23455b628538a024d09c0f38510d447052535b9b51ce4b5f');

INSERT INTO answers (answer_id, "check", subject, outcome, answered_at, call_id, run_id, cost_micro, body) VALUES (2, 'karma', X'00000000000000000000000000000002', 'clear', 1772280004000000, 2, 'run-1', 20000000, X'cd96a0c3bb4ed860439018d5b4a88a7a1e4ab1e65b0800f962d58ae77bc82a068376');

CREATE TABLE approvals (
  approval_id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  asked_by TEXT NOT NULL,
  asked_at BIGINT NOT NULL,
  reason TEXT NOT NULL,
  quote TEXT NOT NULL,
  ceiling_micro BIGINT NOT NULL,
  cap_micro BIGINT,
  deployment_id TEXT,
  decision TEXT,
  decided_by TEXT,
  decided_at BIGINT,
  max_spend_micro BIGINT,
  note BLOB,
  used_at BIGINT,
  PRIMARY KEY (approval_id)
);

CREATE INDEX approvals_by_run ON approvals (run_id, approval_id);

CREATE TABLE bvn_requests (
  request_id BLOB NOT NULL,
  customer BLOB NOT NULL,
  subject BLOB NOT NULL,
  batch TEXT NOT NULL,
  run_id TEXT NOT NULL,
  consent_reference TEXT,
  consent_ends_at BIGINT NOT NULL,
  state TEXT NOT NULL,
  requested_at BIGINT NOT NULL,
  sealed BLOB NOT NULL,
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

INSERT INTO bvn_requests (request_id, customer, subject, batch, run_id, consent_reference, consent_ends_at, state, requested_at, sealed, doubt, trouble, attempts, settled_at, finish_run_id, finishing, cost_micro) VALUES (X'00000000000000000000000000000047', X'b766d8c19f33eeae411225e436bce937', X'6db9f5ccfd170c4077609d3149b69552', 'people', 'run-5', 'CNS-1', 1000000000000000, 'wrong_otp', 201, X'cd96a0c3736de905cbcff1a7b022692e41d72ed8267414416d5c3253a989eb8aac66b6f8eca96db5b97aa9b9faeef109aa9d75ac11c92c9caa10df8d1cb157c4d45460af238c69295b16e99d3d5f50d5604398da1bf1779635e5dd3229110f2484b553603b14eb517e1358bd7042c9fd0c52deb499af6dddbe797be35e00464f3a33d3faf0f8c8140b3d1784cf84d33b9cca6dda4df89f742a654b9b6a4944cb50135f9bd4864cc78f7e7ad12bb7bd25febf8dd84554fa551da8876aa20aecde7427550c1835a67fd275c60c9cd8558c6519b90a64257576021ea355eb4bf289b9a0f275cd8c4c9b971d2a6fe9820a204c85840b936ba75926ad58cad708f6557e02', 'finish', 'timeout', 2, 210, 'run-6', NULL, 5);

INSERT INTO bvn_requests (request_id, customer, subject, batch, run_id, consent_reference, consent_ends_at, state, requested_at, sealed, doubt, trouble, attempts, settled_at, finish_run_id, finishing, cost_micro) VALUES (X'00000000000000000000000000000048', X'58913893b453099dc79c1e99a7216a68', X'48c8366fbaa2c80235540cddde3ab3ef', 'people', 'run-5', 'CNS-1', 1000000000000000, 'awaiting_otp', 202, X'cd96a0c3da167a9df5f63d9af32f5144ce48b8f257a1d3a4225cb3bb9a6294bde105b4bd247b567d6dc7da5d31c320b0ea125dce818ab374de804808859ffd864b3efbc1019dce0aec50487230b4b488473f6690af977d9be3a1d55e4d2f089cf6b7622927f3a35ce97baa1c2cf90a53fdc5017560d60f839ccef7e150bf30a9e2e2c477800b479674fdd92131de26f6f027796db93576279c903dd9b1a3ae2692002933f91f597c585f6542e7542a8979d3149384110885602989850f078866f9a2a267a65bb8a4294c17a3bdd40c7931d552c00dfb40670bbfd83673ed337d114abff20911d1258066f77a80d738c0f41718c626cc4f3f41', NULL, NULL, 0, NULL, NULL, 'run-6', 0);

INSERT INTO bvn_requests (request_id, customer, subject, batch, run_id, consent_reference, consent_ends_at, state, requested_at, sealed, doubt, trouble, attempts, settled_at, finish_run_id, finishing, cost_micro) VALUES (X'00000000000000000000000000000049', X'47e22a6fe137c77926ba2397df720d9d', X'4f20f1fee848d769e22a38548ad4bdae', 'people', 'run-5', 'CNS-1', 1000000000000000, 'requested', 203, X'cd96a0c37b2ec9acf95de9fa80169fa72d6661ef7948525877803ee44086be2ee8a8c4f5381816f1cedc1865e1a78cf6c3d79af8efdfd29c46065e703ffc23f0f3a912aa0c82075ce3e14f40276fb8066a5bb5c1edb1223137aa54274f8c4f7769a35c17fe6fc8bc34c57fb83afe4be573774b36acfd901527ad7df99768f924ce17787e1db5b536ad32c43e5bce1e9916e282c9fc6cf8a461bf5705e7fb618949fb281a24ddbb824fccc8fe82a2bd0130843ee2a3b0de47a1220ecb7462ab5bb927b6e1ff3e664a7ca7cfd97221f8e96457bae0f5b8d60d85ffc83e9d1b9b64d1117804c7b6d31d00730525c347991beff0430cb9d9406cd6', NULL, NULL, 0, NULL, NULL, NULL, 0);

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

INSERT INTO calls (call_id, run_id, "check", kind, subject, purpose, attempt, holder, consent_reference, intent_at, reserved_micro, state, sent_at, settled_at, trouble, status, outcome, cost_micro, balance_micro, final) VALUES (1, 'run-1', 'karma', 'bvn', X'00000000000000000000000000000001', 'portfolio', 1, '23058-1b88858ae1c7', NULL, 1772280003000000, 20000000, 'answered', 1772280003000000, 1772280004000000, NULL, 200, 'clear', 20000000, 1000000000, 0);

INSERT INTO calls (call_id, run_id, "check", kind, subject, purpose, attempt, holder, consent_reference, intent_at, reserved_micro, state, sent_at, settled_at, trouble, status, outcome, cost_micro, balance_micro, final) VALUES (2, 'run-1', 'karma', 'bvn', X'00000000000000000000000000000002', 'portfolio', 1, '23058-1b88858ae1c7', NULL, 1772280003000000, 20000000, 'answered', 1772280003000000, 1772280004000000, NULL, 200, 'clear', 20000000, 1000000000, 0);

CREATE TABLE cash_flows (
  flow_id INTEGER NOT NULL,
  customer BLOB NOT NULL,
  run_id TEXT NOT NULL,
  checked_at BIGINT NOT NULL,
  sealed BLOB NOT NULL,
  PRIMARY KEY (flow_id)
);

CREATE INDEX cash_flows_by_customer ON cash_flows (customer, checked_at);

CREATE UNIQUE INDEX cash_flows_by_run ON cash_flows (run_id, customer);

CREATE TABLE consent_grants (
  grant_id TEXT NOT NULL,
  customer BLOB NOT NULL,
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
  sealed BLOB NOT NULL,
  tokens BLOB,
  PRIMARY KEY (grant_id)
);

CREATE INDEX consent_grants_by_customer ON consent_grants (customer, granted_at);

CREATE INDEX consent_grants_by_state ON consent_grants (state, granted_at);

INSERT INTO consent_grants (grant_id, customer, state, scopes, asked_scopes, granted_at, refreshed_at, ended_at, reason, generation, holder, lease, sealed, tokens) VALUES ('8cf677799843714115df7ef0', X'b766d8c19f33eeae411225e436bce937', 'live', 'transaction:list', 'transaction:list', 1772280010000000, 1772280014000000, NULL, NULL, 2, NULL, NULL, X'cd96a0c315652dbfc811a41dbf9ae1f2675c42da4f915d70d096bb3027975b8f44d53827d40504e2d5fa3b5c41dc2073cce21626cfb43dece396f2f76875c823ca9d103676d851484bec15612b7f33faa69866855f3c79f52be0faacb18add7444acac0031afd120d8ed831ca64d', X'cd96a0c3c4dd9fc6d22c88c33e8f0dc162759f5b2847379cae63c68e14c689d1bf013649fd0e6ce6d5ed149136684dc4f4f62a78786f36941f49658cc07d');

INSERT INTO consent_grants (grant_id, customer, state, scopes, asked_scopes, granted_at, refreshed_at, ended_at, reason, generation, holder, lease, sealed, tokens) VALUES ('af5636d600a16a20c1d4e31d', X'b766d8c19f33eeae411225e436bce937', 'lapsed', 'transaction:list', 'transaction:list transaction:view', 1772280008000000, NULL, 1772280011000000, 'replaced', 1, NULL, NULL, X'cd96a0c3f607f44978f77649e6ed8586dd727e87e081b2283349e1f7399648ef1a60593a1b9bd0b12f0f7700ad261d7ab8b5fafdb486467598d5638a0ba27ab1bc0b2d4d8190962308a70da51efa717b66cda6db87d216d85e47e984c6a420faa9a85ba5c070582536dd603f4c0b', NULL);

INSERT INTO consent_grants (grant_id, customer, state, scopes, asked_scopes, granted_at, refreshed_at, ended_at, reason, generation, holder, lease, sealed, tokens) VALUES ('fbe9e9a83d575bf259c10f3c', X'58913893b453099dc79c1e99a7216a68', 'revoked', 'transaction:list', 'transaction:list', 1772280012000000, NULL, 1772280015000000, 'the customer took it back', 1, NULL, NULL, X'cd96a0c3acd3fafa23574cf539e93586bc16cc1b6f627b62f8cc25e5a6d3afcf6e1ccbd5bef4e3f65943a5f116a31f76a14d04ec6b3591b918c56983e56daf37c95b0ea457df50cb10429a0f21ced879fe1b61ee5f1a51a9318f56aff41391eb9d3c513ea6699f05a35c45', NULL);

CREATE TABLE consent_states (
  state_hash BLOB NOT NULL,
  customer BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  used_at BIGINT,
  sealed BLOB NOT NULL,
  PRIMARY KEY (state_hash)
);

CREATE INDEX consent_states_by_customer ON consent_states (customer);

CREATE INDEX consent_states_by_expiry ON consent_states (expires_at);

INSERT INTO consent_states (state_hash, customer, created_at, expires_at, used_at, sealed) VALUES (X'96340fd788c96e5dd196e6c49b7096cd1376b87e4304378f82ee5839e1fc8528', X'b766d8c19f33eeae411225e436bce937', 1772280017000000, 1772366417000000, 1772280019000000, X'cd96a0c36e993b987eed8d765a4c3eb5c645dfee2ddef0a345b3d4d8ba704d23610b09332b762e66b8a9a4da8248a8f3329f55ecea724a109a1868b59ff31256ea8ddf3c3e119fb623c25743cce934db423e7f26ebde');

INSERT INTO consent_states (state_hash, customer, created_at, expires_at, used_at, sealed) VALUES (X'faf2f7592a55566a55111f4c9b8d499e4e05141e8b1f07be234fc75dd5c2e7b5', X'47e22a6fe137c77926ba2397df720d9d', 1772280016000000, 1772366416000000, NULL, X'cd96a0c306f9693d56d545eb4f781f24c2ad6639b4a2eed97e6412bffb1879c1761704b6afbdcdf5dcb81421889126b55c7b6d48810fc50e23f39a82befe87524ade2a653ca13b3af5b10505d1ea6e45f1a0b4272fec');

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
  mark BLOB,
  PRIMARY KEY (customer)
);

CREATE INDEX customer_states_marks ON customer_states (batch, customer, gone_run_id, mark);

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
  sightings BIGINT DEFAULT 0 NOT NULL,
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

CREATE TABLE loan_history (
  history_id INTEGER NOT NULL,
  offer_id BLOB NOT NULL,
  customer BLOB NOT NULL,
  run_id TEXT NOT NULL,
  seen_at BIGINT NOT NULL,
  status TEXT,
  before_at BIGINT,
  sealed BLOB NOT NULL,
  PRIMARY KEY (history_id)
);

CREATE INDEX loan_history_by_offer ON loan_history (offer_id, history_id);

CREATE INDEX loan_history_by_run ON loan_history (run_id, history_id);

INSERT INTO loan_history (history_id, offer_id, customer, run_id, seen_at, status, before_at, sealed) VALUES (1, X'00000000000000000000000000000029', X'b766d8c19f33eeae411225e436bce937', 'run-3', 110, 'PENDING', NULL, X'cd96a0c3e38a7760116c9e06f3190bd916730a67d84d6d2f8036cb6645fd63e17025c9138546e9c335c569daf70996ae59b305b0995bd2c053263a823acde3bfea9a1bf49c487a975819ba7fea5d6fb9a32533858b13954ac183050b9512b9de02e7af2a55cdd48a825e67507469ee13adc5beffeaeab5158efc2830adec0dfbb57ac57d89b7e61b37ad0a89eaadf4fdeb67abf52c7ab3c1edffcbdc41889f01ed5f5af04f8c5d6a3b8a95be361eb043c87bf2b9a275abd275');

INSERT INTO loan_history (history_id, offer_id, customer, run_id, seen_at, status, before_at, sealed) VALUES (2, X'00000000000000000000000000000029', X'b766d8c19f33eeae411225e436bce937', 'run-4', 120, 'SETTLED', 110, X'cd96a0c3af045a6d366ad6f23c4d8a10759413ee33d47956a11cd78d61a305d062c31cad71d01c1d26c4bd33bca17305f957e88c8e4641bc0ed9f0a45529f75707e156ee4f0249a7124637c802e12cba38a8735e0f3eb8f4de4ebb9d2731e4a4590a18d8cc800061a969049460fb688bdcd0e9e26dc4a9398cec53e495a6c0b2ca7102d5e050502c080a5ec222a5a5f521583463f19ac1621ea766bf153c835f8f2fbfd443d73c188d20e376d4f2d42ac847d86834a03a6ecbc39ed29d2b5447136566538b6be9e1922fbdb6849958193e325fde6673cc3590f2d02a8415edde7a0166c0afce76373d39d10fe881698b626c3ef23e809324fe65be3c570ad8e9a5e65e835f2f6563f7891d048a39ad684c47775f14bb82e0aa3503d302a8130e12d5fddbe2eb709a5ad5bb1c7f463b630e7eee0a022da9d3069eb5d4de959c0d39f7e15b80553531975fac30a7e74ec35440e7');

CREATE TABLE loan_offers (
  offer_id BLOB NOT NULL,
  customer BLOB NOT NULL,
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
  loan BLOB,
  status TEXT,
  status_at BIGINT,
  followed_at BIGINT,
  closed_at BIGINT,
  sealed BLOB NOT NULL,
  PRIMARY KEY (offer_id)
);

CREATE INDEX loan_offers_by_customer ON loan_offers (customer, product_id, number);

CREATE INDEX loan_offers_by_state ON loan_offers (state, closed_at);

INSERT INTO loan_offers (offer_id, customer, batch, product_id, number, run_id, source_run_id, decision, state, renewed, started_at, offered_at, loan, status, status_at, followed_at, closed_at, sealed) VALUES (X'00000000000000000000000000000029', X'b766d8c19f33eeae411225e436bce937', 'people', 'LP1', 1, 'run-2', 'run-1', 'approve', 'offered', 0, 101, 105, X'0000000000000000000000000000003d', 'SETTLED', 120, 120, 120, X'cd96a0c3233cf0fcbe09b80e03b3192ecc3c8ad239724c773c34ca2bc19938eceeb62537bc4be2bc6cb6c033e59a5c8c269a2ae586199349146765306f08668f4d9bce8e9b00619c06a8ecb83dd79cdb2265e94438493993df4d476a6939589b6e8fbf9161d0f76e4097436648de2094e1ea24aa20ddedbd882cdba658ec01821bec445f017464ef83cbb52d807e6721b8ca5dded1ad357518510b1901a224fc3463066bc98a473bdeb3c0420ec8a0186dd9ea041add01ec879ac146a64d069cfdd373cc03c5371f6122cbe27081f4ac9f72f1819abdefd1554ee1b271032cffca46e49d8185a3f787e5ef752160b77ee223346f7dc4db012559987287a59de84ba6396042615d4eefcc04d1fa5739f1e9d4b352b6446acb2b7cca9b2cf54e6de7cb03fcefdde91adbd1fd97799482e837a198c2af965f2ee36b64a49b1fc693dcb7b8f228fb63524a2bdedeaca0a2142714b17908ae3103132aeee29d7c9f');

INSERT INTO loan_offers (offer_id, customer, batch, product_id, number, run_id, source_run_id, decision, state, renewed, started_at, offered_at, loan, status, status_at, followed_at, closed_at, sealed) VALUES (X'0000000000000000000000000000002a', X'58913893b453099dc79c1e99a7216a68', 'people', 'LP1', 1, 'run-2', 'run-1', 'approve', 'in_doubt', 0, 102, NULL, NULL, NULL, NULL, NULL, NULL, X'cd96a0c31149e1641cf26389d0ab89548393a14d3edd28c8e4cf86a9be312c1e90cda0aef541ed7b79caec47cfecd8f3f13120d364bb1df94da5e22f70d51c907eea86af8adf050940434bef30c8e705d335c64c41c071df850853a67d6b9db150bdc129622a9b2a62eccc7f0f56d72dd42411e187720242d6eed1501e9774c2123ef656a91c94581a585427bcd29f7e7acd5f143d0f2a883fb69d3f90ba23b06b519a2c3615a272bee81c5058b6');

INSERT INTO loan_offers (offer_id, customer, batch, product_id, number, run_id, source_run_id, decision, state, renewed, started_at, offered_at, loan, status, status_at, followed_at, closed_at, sealed) VALUES (X'0000000000000000000000000000002b', X'47e22a6fe137c77926ba2397df720d9d', 'people', 'LP1', 1, 'run-2', 'run-1', 'approve', 'starting', 0, 103, NULL, NULL, NULL, NULL, NULL, NULL, X'cd96a0c3cf0773a8c604f883b512bfc45674608a79b8bdc9472ac599fb27b685904577b3da2bc333f66e9ed5f2ca656e0f4a3387fdc44d56f717d43f014ac19424fe9cbc536824a2788316782a51baab2a3c5f8cbcc8bef342467b78f1b030c250bd9b04d97095a1a904c357add22068f2679b0bf420a3e1279306c27bd68a507125bc60af6415932b5fa95cb11df7f17bc1ea2209c4b94821806dbc399cb3a5b496938aec6f897d704aa2d77163');

CREATE TABLE meta (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (name)
);

INSERT INTO meta (name, value) VALUES ('journal_id', '105e08df60da9bba');

INSERT INTO meta (name, value) VALUES ('link_keys', 'zZagw1/BjCcMmNOvO9whnV3J83mGsFTRjzJE2ZNrXUor+Nss8p9kOm27VPB2REwvLb6ZAwzwFDkEdfqjRHKta9aR4tUiexyIjtkVQUcGzFBCR3v+XFxwKdo3ea/mKw3gBfQn');

INSERT INTO meta (name, value) VALUES ('pseudonym_key', 'zZagw045vI/8XMTJHg0+A3Qik6UhQX4S+nDgmliKiVXYHlTTrNc/zBfZ7XbthksSb3r2y9HIyVz9Pb+VNvpsBQ==');

INSERT INTO meta (name, value) VALUES ('schema_version', '10');

INSERT INTO meta (name, value) VALUES ('seal_key', 'bc2a2e0eeec4b7091c9a2cdaa8d5dc2b0aab9179a6a7a8dad3911b5057bc5f7e');

CREATE TABLE policies (
  policy TEXT NOT NULL,
  text TEXT NOT NULL,
  kept_at BIGINT NOT NULL,
  PRIMARY KEY (policy)
);

CREATE TABLE policy_approvals (
  approval_id INTEGER NOT NULL,
  policy TEXT NOT NULL,
  version TEXT NOT NULL,
  written_by TEXT NOT NULL,
  approved_by TEXT NOT NULL,
  approved_at BIGINT NOT NULL,
  in_force_from BIGINT NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (approval_id)
);

CREATE INDEX policy_approvals_by_policy ON policy_approvals (policy, in_force_from);

CREATE TABLE prices (
  "check" TEXT NOT NULL,
  latest_micro BIGINT NOT NULL,
  highest_micro BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  PRIMARY KEY ("check")
);

INSERT INTO prices ("check", latest_micro, highest_micro, seen_at) VALUES ('karma', 20000000, 20000000, 1772280004000000);

CREATE TABLE records (
  record_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  "key" TEXT NOT NULL,
  customer BLOB NOT NULL,
  batch TEXT NOT NULL,
  run_id TEXT NOT NULL,
  state TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  sealed BLOB NOT NULL,
  PRIMARY KEY (record_id)
);

CREATE INDEX records_by_batch ON records (kind, batch, state);

CREATE INDEX records_by_customer ON records (customer, kind);

CREATE UNIQUE INDEX records_by_key ON records (kind, "key");

INSERT INTO records (record_id, kind, "key", customer, batch, run_id, state, created_at, updated_at, sealed) VALUES (1, 'contest', 'K1', X'3225f2649ae69223f9b3b69c166dd197', 'people', 'run-1', 'open', 1000, 1000, X'cd96a0c32801914995eb64eb62e50f85c6641eed25e46b1e4ca624880ff7aa55bf7051fa821cdc853d2d86891058dd0c85338fe3cda326cd376b62c0c43250e217a131a12b9e36f05cdfbf2d53fe0b30974d75e1d029d28258fe938f83ac3e6a81edf5c32f767891f10d85c962f3c93db6633cff4cb849c230951d1a30bcb196c96bb71fa6a3ab7f803aecca81f469e5b9b033ca3189cf2a5f49c361708b1065d4a8c863f534bb9c11d4ec89c40d575c89a0eb406c69100b87a7e4f7c9b1e162b1b5ecb4d83ba8a603c9716f1fe1ff807beee6b62aa6ca86358a709be655e9dbcfae600d96362f709983f47b130c3a6af4941fd39bb6ea0892bd6e9e1ab18c0b799dee87a83af8bf9e22713a35f61e41bddfcb6aba52be7d7bd9999de46ddfde67a838bc171480f82b34c77666fdf7b3d12fa3aa566a6b64a8e97893ab03abc2aea73d882a426556319d68a29df98f20eeed74b4166cf3be395dff4b9666437aaec6f90bcae7a85fd79d7256');

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

INSERT INTO reviews (review_id, customer, batch, run_id, listed, decision, reviewed_at, until, imported_at, evidence, sealed) VALUES (1, X'3225f2649ae69223f9b3b69c166dd197', 'people', 'run-1', 'review', 'decline', 20, 1000000000020, 1772280006000000, X'65766964656e6365', X'cd96a0c3f690553928843355a6d5775e21a85a9b2ef7deaecad49076e79932da3755e262752e07d15116938436ad8273a90b');

INSERT INTO reviews (review_id, customer, batch, run_id, listed, decision, reviewed_at, until, imported_at, evidence, sealed) VALUES (2, X'bec30f0648f0f3ca2dc363c671d66a82', 'people', 'run-1', 'review', 'approve', 30, 1000000000030, 1772280006000000, X'65766964656e6365', X'cd96a0c356cd5cdf30d2928d508411f6f2abb183fca05281af016a7f18689c5db0e441ebebe593b3d2fcbaa47e20673232c6');

INSERT INTO reviews (review_id, customer, batch, run_id, listed, decision, reviewed_at, until, imported_at, evidence, sealed) VALUES (3, X'3225f2649ae69223f9b3b69c166dd197', 'people', 'run-1', 'review', 'approve', 10, 1000000000010, 1772280007000000, X'65766964656e6365', X'cd96a0c3c4e309a05348c736e128c69cf5b5e51401a9abafaeafa031cbca2d1cad84ea99334e0e30d08fea9156');

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

INSERT INTO runs (run_id, flow, batch, purpose, state, stop_reason, holder, started_at, finished_at, input_digest, folder, cap_micro, parameters, report) VALUES ('run-1', 'screen_batch', 'people', 'portfolio', 'completed', NULL, '23058-1b88858ae1c7', 1772280002000000, 1772280005000000, 'd', '/out/run-1', NULL, '{}', '{}');

CREATE TABLE seal_keys (
  fingerprint TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  retired_at BIGINT,
  PRIMARY KEY (fingerprint)
);

INSERT INTO seal_keys (fingerprint, created_at, retired_at) VALUES ('bc2a2e0eeec4b7091c9a2cdaa8d5dc2b0aab9179a6a7a8dad3911b5057bc5f7e', 1772280001000000, NULL);

CREATE TABLE sightings (
  kind TEXT NOT NULL,
  identifier BLOB NOT NULL,
  customer BLOB NOT NULL,
  batch TEXT NOT NULL,
  bvn BLOB,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  PRIMARY KEY (kind, identifier, customer, batch)
)
 WITHOUT ROWID;

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
  customer BLOB NOT NULL,
  grant_id TEXT NOT NULL,
  outcome TEXT NOT NULL,
  standing INTEGER NOT NULL,
  answered_at BIGINT,
  settled_at BIGINT,
  summary TEXT NOT NULL,
  kind TEXT DEFAULT 'transaction' NOT NULL,
  PRIMARY KEY (run_id, customer)
);

CREATE INDEX transaction_pulls_by_customer ON transaction_pulls (customer, answered_at);

CREATE TABLE transaction_records (
  record_id INTEGER NOT NULL,
  customer BLOB NOT NULL,
  record_key BLOB NOT NULL,
  content BLOB NOT NULL,
  problem TEXT,
  occurred_at BIGINT,
  first_seen_at BIGINT NOT NULL,
  run_id TEXT NOT NULL,
  told_as TEXT NOT NULL,
  changed TEXT,
  ended_at BIGINT,
  ended_as TEXT,
  ended_by TEXT,
  sealed BLOB NOT NULL,
  kind TEXT DEFAULT 'transaction' NOT NULL,
  PRIMARY KEY (record_id)
);

CREATE INDEX transaction_records_by_customer ON transaction_records (customer, ended_at);

CREATE INDEX transaction_records_by_end ON transaction_records (ended_by, record_id);

CREATE INDEX transaction_records_by_run ON transaction_records (run_id, record_id);
