//! A connection that a call has for itself.

use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::TryStreamExt as _;
use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::{Row, types::ToSql};
use tower_chat_history_core::StoreError;

use super::quiet::Quiet;
use crate::{PostgresError, error::Failure, sql::Statement};

/// How long the answer to a call that was left is waited for, before the connection is taken for one that hangs.
const HANGING: Duration = Duration::from_secs(1);

/// A connection of the pool. It goes back when this is dropped, or is closed if it is of no more use.
pub(crate) struct Lease {
    object: Option<Object>,
    prepare: bool,
    /// Whether an answer is waited for.
    waiting: bool,
    in_transaction: bool,
}

impl Lease {
    pub(crate) fn new(object: Object, prepare: bool) -> Self {
        Self { object: Some(object), prepare, waiting: false, in_transaction: false }
    }

    /// Runs a statement: one round trip, once the connection has prepared it.
    pub(crate) async fn query(
        &mut self,
        statement: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        let prepare = self.prepare;
        self.ask(async |client| {
            if prepare {
                let prepared = client.prepare_typed_cached(&statement.text, &statement.types).await?;
                client.query_raw(&prepared, parameters.iter().map(|value| Quiet(*value))).await?.try_collect().await
            } else {
                let typed: Vec<_> = parameters.iter().copied().zip(statement.types.iter().cloned()).collect();
                client.query_typed(&statement.text, &typed).await
            }
        })
        .await
    }

    /// Runs statements without parameters.
    pub(crate) async fn batch(&mut self, statements: &str) -> Result<(), PostgresError> {
        self.ask(async |client| client.batch_execute(statements).await).await
    }

    pub(super) async fn begin(&mut self) -> Result<(), PostgresError> {
        // If this is dropped meanwhile, nobody knows whether the transaction was begun.
        self.in_transaction = true;
        self.batch("begin isolation level read committed").await
    }

    /// Commits what was begun if that was done, or undoes it.
    pub(crate) async fn end<T>(self, done: Result<T, Failure>) -> Result<T, Failure> {
        match done {
            Ok(done) => self.commit().await.map(|()| done),
            Err(failure) => {
                self.rollback().await;
                Err(failure)
            }
        }
    }

    /// Commits what was begun. Where the answer does not come, nobody knows whether it was done: the failure that is reported
    /// then is not repeated by the store.
    pub(crate) async fn commit(mut self) -> Result<(), Failure> {
        match self.batch("commit").await {
            Ok(()) => {
                self.in_transaction = false;
                Ok(())
            }
            Err(error) if error.ends_connection() => Err(StoreError::unavailable(error).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Undoes what was begun. Where that fails, the connection is closed, which undoes it as well.
    pub(crate) async fn rollback(mut self) {
        if self.batch("rollback").await.is_ok() {
            self.in_transaction = false;
        }
    }

    async fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, PostgresError> {
        let object = self.object.as_ref().ok_or(PostgresError::Connection { source: None })?;
        self.waiting = true;
        let answer = question(object).await.map_err(PostgresError::from);
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

    /// The caller left before the answer came: the next one must not wait for it. So the connection stays out of the pool until
    /// the server has answered, and is closed if it does not.
    fn settle(&mut self) {
        let Some(object) = self.object.take() else { return };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                // Answers come in order: this one is behind the other.
                if !matches!(timeout(HANGING, object.simple_query("")).await, Ok(Ok(_))) {
                    drop(Object::take(object));
                }
            })),
            Err(_) => drop(Object::take(object)),
        }
    }

    fn close(&mut self) {
        drop(self.object.take().map(Object::take));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.in_transaction {
            // Closing it is what rolls back for sure.
            self.close();
        } else if self.waiting {
            self.settle();
        }
    }
}
