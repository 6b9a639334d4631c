//! Conversations in PostgreSQL: the store for many replicas.
//!
//! [`PostgresStore`] keeps conversations in one schema of a database, which it can share with the application. Any number of
//! processes may use it at once.
//!
//! ```no_run
//! use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message};
//! use tower_chat_history_postgres::PostgresStore;
//!
//! # async fn seed() -> Result<(), Box<dyn std::error::Error>> {
//! let store = PostgresStore::connect("postgres://chat@localhost/app").await?;
//! let id = ConversationId::new(["acme", "user-42"])?;
//! let conversation = store.conversation(&id);
//! conversation.import([Message::user("Hey there! I'm Nemo."), Message::assistant("Hello!")]).await?;
//! assert_eq!(conversation.messages().await?[1].text(), "Hello!");
//! # Ok(())
//! # }
//! ```
//!
//! [`PostgresOptions`] has the schema's name, the pool's size, TLS ([`connect_rustls`](PostgresOptions::connect_rustls) with the
//! feature `rustls`, [`connect_with`](PostgresOptions::connect_with) for any other connector) and
//! [`with_pool`](PostgresOptions::with_pool) for a `deadpool_postgres::Pool` that the application has already. Calls need a tokio
//! runtime with I/O and time.
//!
//! # What an acknowledgement means
//!
//! An append that is answered with `Ok` is committed. What that is worth is up to the server's `synchronous_commit`: with `on`,
//! PostgreSQL's default, it survives a crash and a loss of power; with `off` the last ones, some fractions of a second, may be
//! lost. Where a standby takes over, only what it had received is there: `synchronous_standby_names` and `remote_apply` are the
//! server's means against that. The setting may differ by role or database (`alter role chat set synchronous_commit = on`).
//!
//! A call is made in a task of its own. One whose future is dropped is done whole or not at all: what the server was asked goes
//! on, and what was still waiting for a connection is not begun. A future that is kept and not polled keeps no connection.
//!
//! # What a call costs
//!
//! A load, an append (also with a compaction, repeated or refused), a compaction and a page are each one statement and
//! one round trip, once the connection has prepared it. A deletion is two: it looks which life of the conversation it
//! ends. (Where others begin the conversation again and again meanwhile, it becomes a transaction that locks.)
//! Decisions that must be made in one step are made in functions that the migration installs. Appends to one
//! conversation wait for one another, for the length of a statement; conversations do not, but for those of appends
//! that share one (below). Truncating and pruning are transactions of a few statements more.
//!
//! Loads and appends that find all connections in use wait for one together, and it serves up to 16 of them in one statement:
//! the more a pool has to do, the less each costs. Appends of more than 64 KiB go by themselves. What goes wrong with one of
//! them is no matter of the others, which are then repeated alone; so is what a `statement_timeout` ends that was meant for one.
//!
//! A load reads the rows of its window by their key, and about as many sums to find where its limit lets it begin; never the log.
//!
//! # What happens when something fails
//!
//! Lost connections, a server that stops, starts or is no longer the primary, deadlocks and serialization failures are tried
//! again: once at once, and then for [`retry_for`](PostgresOptions::retry_for). What is left of that is
//! [`Unavailable`](tower_chat_history_core::StoreError::Unavailable), and so is a statement that the server ended for a time
//! limit or at somebody's request, which is not tried again here. An append carries a name, so a repetition finds what the
//! first try stored, and reports it as that one would have; the same exchange in another call is a duplicate. A truncation
//! whose commit was not answered is not repeated, since it would be refused, and so told apart from one that was not done.
//!
//! A call that was given up may still reach the server later, when the network or a frozen session held it back. Every
//! call that removes or replaces something names the life of the conversation (its incarnation) that it is for, and
//! does nothing in another one. An append that expects nothing, or no conversation
//! ([`Expect::AnyOrCreate`](tower_chat_history_core::Expect), `Absent`), cannot be told from a new call: if it arrives
//! after a deletion, it begins the conversation again with that one exchange.
//!
//! An append that carries a compaction stores its exchange also where the compaction that is stored cannot be read, or
//! where the database refuses the new one for a reason that is no rule of compactions: the compaction is then reported
//! as [`Kept(None)`](tower_chat_history_core::CompactOutcome::Kept). This holds for each refusal by the server, also
//! for one that may pass and did not pass while the append was tried again: the exchange is then appended once more
//! without the compaction. A lock that holds up the compaction is waited for for two seconds. A server that stops the
//! exchange as well, as one that only reads does, fails the append.
//!
//! Rows that somebody else changed are an error, and never a wrong history. A load or a page compares each record's
//! exchange id and sizes with its row, the sums in the rows with each other, and the conversation's counters with both;
//! what contradicts another is [`Corrupt`](tower_chat_history_core::StoreError::Corrupt). So is, in every call but a
//! deletion, a conversation whose counters contradict each other, or could not go on counting. A compaction whose
//! positions are not those of its record, whose window starts beyond the log, or whose number is none that one can
//! have, is [`CorruptCompaction`](tower_chat_history_core::StoreError::CorruptCompaction).
//!
//! Nobody waits for ever. A conversation's row, or another replica's migration, is waited for for 10 seconds (twice by
//! an append that carries a compaction); a truncation,
//! prune or migration whose client freezes is undone by the server after 5. The network asks after 30 seconds of silence
//! whether the other end is still there (`keepalives_idle`, `keepalives_interval` and `tcp_user_timeout` in the URL). A call
//! that is not done after a minute has failed, and its connection is closed; opening a store likewise.
//!
//! Errors carry the SQLSTATE with its condition's name, and the names of table and constraint, never PostgreSQL's
//! texts, which quote rows ([`PostgresError`]). Errors of the store's own pool name the server's hosts and ports, and
//! the database when it is opened.
//!
//! # The schema
//!
//! Tables `conversation`, `exchange`, `compaction` and `schema_version`, and functions whose names end in a number, in the schema
//! `chat_history` or [another one](PostgresOptions::schema). Opening a store brings them up to date: all replicas may do so at
//! once, and one does. A schema of a newer version of this library is refused ([`OpenError::NewerSchema`]). The database's encoding
//! must be UTF8.
//!
//! While replicas are replaced, older ones go on, and may be started again, beside the schema of a newer version: each version says
//! which is the oldest library that can use it.
//!
//! Where the application's role may not create anything, let another one open the store once, with each new version of
//! this library, name that one in the application ([`PostgresOptions::schema_owner`]; a superuser need not be named),
//! and give the application's role what it needs:
//!
//! ```sql
//! grant usage on schema chat_history to app;
//! grant select, insert, update, delete on all tables in schema chat_history to app;
//! alter default privileges for role owner in schema chat_history
//!     grant select, insert, update, delete on tables to app;
//! ```
//!
//! Functions run with the rights of the caller, and may be called by everybody unless that was revoked.
//!
//! # Whom the store trusts
//!
//! **The owner of the schema is trusted with everything that the application's role may do.** An owner may drop a
//! function of the schema and make another one in its place, which then runs with the rights of whoever calls it. So a
//! schema that is there already is used only if it, the store's tables and the store's functions belong to the current
//! role, to a role that it is a member of, to a superuser, or to the role that [`PostgresOptions::schema_owner`] names.
//! Otherwise opening fails with [`OpenError::Owner`]. The schema `public` belongs to the owner of the database since
//! PostgreSQL 15.
//!
//! A role that may create functions in the schema (`grant create on schema`, or the schema `public` up to PostgreSQL
//! 14, where everybody may) does not get to see or to change anything by it: each argument of a call has the type that
//! the store's function declares, so a function of the same name with other types is not called. It can make calls
//! fail, by a function that PostgreSQL finds as good a match (`42725`, `ambiguous_function`). Do not grant that right
//! to roles that you do not trust.
//!
//! # Settings
//!
//! `search_path` and the planner's settings do not matter: each name carries its schema, and functions set what they need. Nor
//! do `default_transaction_isolation` and `default_transaction_read_only`: where they are not PostgreSQL's own when the store
//! is opened, each call is a transaction of its own that says what it is, in the same round trip. `statement_timeout`,
//! `transaction_timeout` and `idle_session_timeout` hold as the role has them: what the first one ends is `Unavailable` as
//! above, and what the others end is a lost connection. `synchronous_commit` is described above.
//!
//! Bodies are text in the core crate's record format: messages come back byte for byte. Deleted rows are gone for every query, but
//! PostgreSQL keeps their bytes in its files until a vacuum, and longer in its write-ahead log, replicas and backups.
//!
//! # PostgreSQL, and what is like it
//!
//! Written for PostgreSQL 13 and later, and tested with 15. It needs functions in PL/pgSQL, `on conflict`, advisory locks and
//! `gen_random_uuid`. Databases that speak its protocol were not tested.
//!
//! Behind PgBouncer everything works in session mode. In transaction mode prepared statements need version 1.21 with
//! `max_prepared_statements`, or [`prepare(false)`](PostgresOptions::prepare); statement mode has no transactions, which truncating and
//! pruning need. Nothing is set on a session and left there, and no lock is held beyond a transaction. No `options` are sent, which
//! PgBouncer refuses.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod database;
mod error;
mod open;
mod options;
mod read;
mod rows;
mod schema;
mod sql;
mod store;
#[cfg(feature = "rustls")]
mod tls;
mod write;

pub use self::{
    error::{OpenError, PostgresError},
    options::PostgresOptions,
    store::PostgresStore,
};
