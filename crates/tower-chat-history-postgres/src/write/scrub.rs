//! Removing erased data from the files of the tables.

use tokio_postgres::error::SqlState;
use tower_chat_history_core::Scrubbed;

use crate::{
    database::{Database, TRANSACTION_LIMITS},
    error::{Failure, PostgresError},
    sql::in_schema,
};

/// The tables that have data of conversations, and a column of each. The column gets the same type and value again, in an
/// expression, so that PostgreSQL writes the rows of the table to new files.
///
/// `vacuum full` and `cluster` write new files too. But they also copy deleted rows, as long as a transaction that began
/// earlier is open anywhere in the database.
const REWRITES: [(&str, &str); 5] = [
    ("conversation", "updated_before"),
    ("exchange", "messages_before"),
    ("compaction", "rounds_start"),
    ("attachment", "range_end"),
    ("erasure", "epoch"),
];

/// The places that the store cannot clean.
const LEFT: [&str; 5] = [
    "the write-ahead log and its archive: old segments keep removed rows until they are deleted or overwritten",
    "replicas: their own write-ahead log, and those that do not receive the changes",
    "backups and dumps",
    "freed blocks of the file system and of the disk",
    "the server's logs, if it logs the parameters of statements",
];

/// Writes each table to new files and asks for a checkpoint, after which PostgreSQL removes the old files. There is no time
/// limit for a table, except for the wait for its lock.
pub(crate) async fn scrub(database: &Database) -> Result<Scrubbed, Failure> {
    let (mut done, mut left) = (Vec::new(), Vec::new());
    for (table, column) in REWRITES {
        match rewrite(database, table, column).await {
            Ok(()) => done.push(format!("rewrote the table {table}")),
            Err(error) if is_refused(&error) => {
                left.push(format!("the files of the table {table}: only its owner can rewrite them"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    match checkpoint(database).await {
        Ok(()) => done.push("CHECKPOINT".to_owned()),
        Err(error) if is_refused(&error) => {
            left.push("CHECKPOINT: only a superuser or a member of pg_checkpoint can request it".to_owned());
        }
        Err(error) => return Err(error.into()),
    }
    left.extend(LEFT.map(str::to_owned));
    Ok(Scrubbed::new(done, left))
}

async fn rewrite(database: &Database, table: &str, column: &str) -> Result<(), PostgresError> {
    let mut transaction = database.lease().await?;
    let begin = database.defaults.begin();
    transaction.begin(&format!("{begin}; {TRANSACTION_LIMITS}; set local statement_timeout = 0")).await?;
    let rewrite = format!("alter table @.{table} alter column {column} type bigint using {column} + 0");
    match transaction.batch(&in_schema(&rewrite, &database.schema)).await {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

async fn checkpoint(database: &Database) -> Result<(), PostgresError> {
    database.lease().await?.batch("checkpoint").await
}

fn is_refused(error: &PostgresError) -> bool {
    matches!(error, PostgresError::Sql { code, .. } if *code == SqlState::INSUFFICIENT_PRIVILEGE)
}
