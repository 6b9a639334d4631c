//! Removing erased data from the files of the tables.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::{
    error::SqlState,
    types::{FromSqlOwned, ToSql, Type},
};
use tower_chat_history_core::Scrubbed;

use crate::{
    database::{Database, TRANSACTION_LIMITS},
    error::{Failure, PostgresError},
    sql::{Statement, in_schema},
};

/// The tables that have data of conversations.
const TABLES: [&str; 4] = ["conversation", "exchange", "compaction", "erasure"];

/// The time to wait for transactions that began before the scrub.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two looks at them.
const PAUSE: Duration = Duration::from_millis(100);

/// The places that the store cannot clean.
const LEFT: [&str; 5] = [
    "the write-ahead log and its archive: old segments keep removed rows until they are deleted or overwritten",
    "replicas: their write-ahead log, and all data of those that do not receive the changes",
    "backups and dumps",
    "freed blocks of the file system and of the disk",
    "the server's log, if it contains the parameters of statements",
];

/// Writes each table to new files, and asks for a checkpoint, after which PostgreSQL removes the old files. Nothing
/// limits the time, except for the wait for older transactions and for the lock of a table.
pub(crate) async fn scrub(database: &Database) -> Result<Scrubbed, Failure> {
    let mut done = Vec::new();
    let mut left = Vec::new();

    if !older_transactions_end(database).await? {
        left.push(
            "removed rows that an older transaction can still see: rewriting a table keeps them (end the transactions of \
             this database that have been open since before the erasure, and repeat the scrub)"
                .to_owned(),
        );
    }

    for table in TABLES {
        match rewrite(database, table).await {
            Ok(()) => done.push(format!("CLUSTER of the table {table}")),
            Err(error) if is_refused(&error) => {
                left.push(format!("the table {table}: only its owner can rewrite it (CLUSTER, or VACUUM FULL)"));
            }
            Err(error) => return Err(error.into()),
        }
    }

    match database.lease().await?.batch("checkpoint").await {
        Ok(()) => done.push("CHECKPOINT".to_owned()),
        Err(error) if is_refused(&error) => {
            left.push("CHECKPOINT: only a superuser or a member of pg_checkpoint can request it".to_owned());
        }
        Err(error) => return Err(error.into()),
    }

    left.extend(LEFT.map(str::to_owned));
    Ok(Scrubbed::new(done, left))
}

/// Waits until no transaction is open that may see rows that were removed before this call. Returns `false` if one is
/// still open after some time.
async fn older_transactions_end(database: &Database) -> Result<bool, PostgresError> {
    // A number that is greater than those of all transactions that have ended. Later transactions see none of the rows
    // that they removed.
    let newest = statement("select pg_snapshot_xmax(pg_current_snapshot())::xid::text", &[]);
    // A session keeps rows by its own number, and by the oldest number that it considers open.
    let older = statement(
        "select exists (select from pg_catalog.pg_stat_activity a where a.pid <> pg_backend_pid() \
            and (a.datid is null or a.datname = current_database()) \
            and (age(a.backend_xid) > age($1::xid) or age(a.backend_xmin) > age($1::xid))) \
         or exists (select from pg_catalog.pg_prepared_xacts p \
            where p.database = current_database() and age(p.transaction) > age($1::xid)) \
         or exists (select from pg_catalog.pg_replication_slots s where age(s.xmin) > age($1::xid))",
        &[Type::TEXT],
    );

    let newest: String = value(database, &newest, &[]).await?;
    let end = Instant::now() + PATIENCE;
    while value(database, &older, &[&newest]).await? {
        if Instant::now() >= end {
            return Ok(false);
        }
        sleep(PAUSE).await;
    }
    Ok(true)
}

/// Writes the rows of a table to new files. `cluster` does the same as `vacuum full`, but can limit the wait for its
/// lock, because it can be a part of a transaction.
async fn rewrite(database: &Database, table: &str) -> Result<(), PostgresError> {
    let mut transaction = database.lease().await?;
    let begin = database.defaults.begin();
    transaction.begin(&format!("{begin}; {TRANSACTION_LIMITS}; set local statement_timeout = 0")).await?;

    // The index is not remembered for other programs that cluster the table.
    let cluster = format!("cluster @.{table} using {table}_pkey; alter table @.{table} set without cluster");
    match transaction.batch(&in_schema(&cluster, &database.schema)).await {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

/// Returns the only value of the only row.
async fn value<T: FromSqlOwned>(
    database: &Database,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<T, PostgresError> {
    let rows = database.lease().await?.query(statement, parameters).await?;
    Ok(rows.first().ok_or(PostgresError::Protocol)?.try_get(0)?)
}

fn statement(text: &str, types: &[Type]) -> Statement {
    Statement { text: text.into(), types: types.into() }
}

fn is_refused(error: &PostgresError) -> bool {
    matches!(error, PostgresError::Sql { code, .. } if *code == SqlState::INSUFFICIENT_PRIVILEGE)
}
