//! The connection that a call has for itself.

use std::pin::pin;

use deadpool_postgres::Object;
use futures_util::{TryStreamExt as _, future::join3};
use tokio_postgres::{Row, Statement as Prepared, types::ToSql};
use tower_chat_history_core::StoreError;

use super::redacted::Redacted;
use crate::{
    error::{Failure, PostgresError},
    sql::Statement,
};

/// A connection of the pool. It goes back when this is dropped, or is closed if it is of no more use.
pub(crate) struct Lease {
    object: Option<Object>,
    prepare: bool,
    /// Whether an answer is waited for.
    waiting: bool,
    in_transaction: bool,
}

impl Lease {
    pub(super) fn new(object: Object, prepare: bool) -> Self {
        Self { object: Some(object), prepare, waiting: false, in_transaction: false }
    }

    /// Runs a statement: one round trip, once the connection has prepared it.
    pub(crate) async fn query(
        &mut self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        let mut rows = Vec::new();
        self.query_each(statement, parameters, |row| rows.push(row)).await?;
        Ok(rows)
    }

    /// The same, with each row as soon as it comes: before anything is committed.
    pub(super) async fn query_each(
        &mut self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
        each: impl FnMut(Row),
    ) -> Result<(), PostgresError> {
        let prepare = self.prepare;
        self.run(async |client| {
            let prepared = prepared(client, prepare, statement).await?;
            send(client, prepared.as_ref(), statement, parameters, each).await
        })
        .await
    }

    /// Runs a statement in a transaction of its own, still in one round trip.
    pub(super) async fn query_each_within(
        &mut self,
        begin: &str,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
        each: impl FnMut(Row),
    ) -> Result<(), PostgresError> {
        let prepare = self.prepare;
        self.in_transaction = true;
        let done = self
            .run(async |client| {
                // Before the transaction: all that follows is sent at once, in this order.
                let prepared = prepared(client, prepare, statement).await?;
                let (begin, end) = (client.batch_execute(begin), client.batch_execute("commit"));
                // If the statement fails, "commit" undoes.
                let asked = send(client, prepared.as_ref(), statement, parameters, each);
                let (begun, asked, ended) = join3(begin, asked, end).await;
                begun.map_err(PostgresError::at_begin)?;
                asked?;
                Ok(ended?)
            })
            .await;
        self.in_transaction = false;
        done
    }

    /// Runs statements without parameters.
    pub(crate) async fn batch(&mut self, statements: &str) -> Result<(), PostgresError> {
        self.run(async |client| Ok(client.batch_execute(statements).await?)).await
    }

    /// Begins a transaction by these statements. Until it has ended, the connection is closed if this is dropped: that is what
    /// rolls back for sure.
    pub(crate) async fn begin(&mut self, statements: &str) -> Result<(), PostgresError> {
        self.in_transaction = true;
        self.run(async |client| client.batch_execute(statements).await.map_err(PostgresError::at_begin)).await
    }

    /// Commits what was begun if that was done, or undoes it. Unless a commit that fails surely undid it, nobody knows whether it
    /// was done: the failure that is reported then is not repeated by the store.
    pub(crate) async fn end<T>(self, done: Result<T, Failure>) -> Result<T, Failure> {
        match done {
            Ok(done) => match self.commit().await {
                Ok(()) => Ok(done),
                Err(error) if error.is_undone() => Err(error.into()),
                Err(error) => Err(StoreError::from(Failure::from(error)).into()),
            },
            Err(failure) => {
                self.rollback().await;
                Err(failure)
            }
        }
    }

    /// Commits what was begun.
    pub(crate) async fn commit(mut self) -> Result<(), PostgresError> {
        self.batch("commit").await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Undoes what was begun. Where that fails, the connection is closed, which undoes it as well.
    pub(crate) async fn rollback(mut self) {
        if self.batch("rollback").await.is_ok() {
            self.in_transaction = false;
        }
    }

    async fn run<T>(
        &mut self,
        exchange: impl AsyncFnOnce(&Object) -> Result<T, PostgresError>,
    ) -> Result<T, PostgresError> {
        let object = self.object.as_ref().ok_or(PostgresError::Connection { server: None, source: None })?;
        self.waiting = true;
        let answer = exchange(object).await;
        self.waiting = false;
        if let Err(error) = &answer {
            if error.is_stale_statement() {
                object.statement_cache.clear();
            }
            if error.ends_connection() {
                self.close();
            }
        }
        answer
    }

    fn close(&mut self) {
        drop(self.object.take().map(Object::take));
    }
}

/// The statement as the connection knows it, if statements are prepared.
async fn prepared(
    client: &Object,
    prepare: bool,
    statement: &Statement,
) -> Result<Option<Prepared>, tokio_postgres::Error> {
    if !prepare {
        return Ok(None);
    }
    client.prepare_typed_cached(&statement.text, &statement.types).await.map(Some)
}

async fn send(
    client: &Object,
    prepared: Option<&Prepared>,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
    mut each: impl FnMut(Row),
) -> Result<(), PostgresError> {
    let parameters = parameters.iter().map(|value| Redacted(*value));
    let rows = match prepared {
        Some(prepared) => client.query_raw(prepared, parameters).await?,
        None => client.query_typed_raw(&statement.text, parameters.zip(statement.types.iter().cloned())).await?,
    };
    let mut rows = pin!(rows);
    while let Some(row) = rows.try_next().await? {
        each(row);
    }
    Ok(())
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A call ends before its answer when it takes too long, or its runtime ends. The next one must not wait for that answer.
        if self.in_transaction || self.waiting {
            self.close();
        }
    }
}
