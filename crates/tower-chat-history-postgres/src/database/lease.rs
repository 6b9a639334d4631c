//! A connection leased from the pool.

use std::{error::Error, fmt, pin::pin};

use bytes::BytesMut;
use deadpool_postgres::Object;
use futures_util::{TryStreamExt as _, future::join3};
use tokio_postgres::{
    Row, Statement as PreparedStatement,
    types::{Format, IsNull, ToSql, Type},
};

use crate::{error::PostgresError, sql::Statement};

/// A leased connection. Dropping it returns it to the pool, or closes it if it can no longer be used.
pub(crate) struct Lease {
    object: Option<Object>,
    prepare: bool,
    /// `true` while a response is pending.
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

    /// Runs a statement and passes on each row as it arrives, before the commit.
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

    /// Runs a statement in its own transaction, still in one round trip.
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
                // Preparing comes before the transaction: everything after it is sent at once, in this order.
                let prepared = prepared(client, prepare, statement).await?;

                let begin = client.batch_execute(begin);
                let query = send(client, prepared.as_ref(), statement, parameters, each);
                // If the statement fails, "commit" rolls back.
                let end = client.batch_execute("commit");

                let (begun, queried, ended) = join3(begin, query, end).await;
                begun.map_err(PostgresError::at_begin)?;
                queried?;
                Ok(ended?)
            })
            .await;
        self.in_transaction = false;
        done
    }

    /// Runs statements that have no parameters.
    pub(crate) async fn batch(&mut self, statements: &str) -> Result<(), PostgresError> {
        self.run(async |client| Ok(client.batch_execute(statements).await?)).await
    }

    /// Begins a transaction with these statements. Dropping the lease before the transaction has ended closes the
    /// connection, which always rolls back.
    pub(crate) async fn begin(&mut self, statements: &str) -> Result<(), PostgresError> {
        self.in_transaction = true;
        self.run(async |client| client.batch_execute(statements).await.map_err(PostgresError::at_begin)).await
    }

    /// Commits the transaction.
    pub(crate) async fn commit(mut self) -> Result<(), PostgresError> {
        self.batch("commit").await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Rolls the transaction back. If that fails, the connection is closed, which rolls back as well.
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

impl Drop for Lease {
    fn drop(&mut self) {
        // A call that times out, or whose runtime ends, stops before the response. The next call must not wait for it.
        if self.in_transaction || self.waiting {
            self.close();
        }
    }
}

/// Prepares a statement on the connection, or takes it from the connection's cache. Returns `None` if statements are
/// not prepared.
async fn prepared(
    client: &Object,
    prepare: bool,
    statement: &Statement,
) -> Result<Option<PreparedStatement>, tokio_postgres::Error> {
    if !prepare {
        return Ok(None);
    }
    client.prepare_typed_cached(&statement.text, &statement.types).await.map(Some)
}

async fn send(
    client: &Object,
    prepared: Option<&PreparedStatement>,
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

/// A parameter that hides its value. The driver logs the parameters of prepared statements, which contain message text.
pub(super) struct Redacted<'a>(pub(super) &'a (dyn ToSql + Sync));

impl ToSql for Redacted<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql_checked(ty, out)
    }

    fn accepts(_: &Type) -> bool {
        // The value itself is checked when it is written.
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql_checked(ty, out)
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.0.encode_format(ty)
    }
}

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}
