//! Calls that find no connection free wait together, and the next free one serves them all, in one statement.
//!
//! Under load, most of what a call costs both sides is not its look-up: it is sending, waking up, parsing, committing and
//! answering, which they then share. Who finds a connection free does not wait for anybody.

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, timeout_at},
};
use tokio_postgres::{Row, types::ToSql};

use super::{Call, Database, LIMIT, Lease, quiet::Quiet};
use crate::{
    PostgresError,
    error::Failure,
    sql::{Sql, Statements},
};

/// How many calls go together at most. A server works at them one after the other.
const MOST: usize = 16;

/// What a call asks.
pub(crate) trait Question: Send + Sync + Sized + 'static {
    /// The conversation that it is about.
    fn key(&self) -> &str;
    /// Whether it holds nobody up who goes with it.
    fn is_small(&self) -> bool;
    /// What it is in a statement that asks it alone, and the elements that it has in the arrays of one that asks several.
    fn parameters(&self) -> Vec<Parameter<'_>>;
    fn statements(sql: &Sql) -> &Statements;
    fn line(database: &Database) -> &Line<Self>;
}

/// A parameter of a statement.
pub(crate) type Parameter<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The questions that wait for a connection, and for how many connections they do.
#[derive(Debug)]
pub(crate) struct Line<Q>(Mutex<Waiting<Q>>);

#[derive(Debug)]
struct Waiting<Q> {
    callers: Vec<Caller<Q>>,
    connections: usize,
}

#[derive(Debug)]
struct Caller<Q> {
    question: Arc<Q>,
    /// Dropped without an answer, it says that the question is to be asked alone, as one is repeated after a failure.
    answer: oneshot::Sender<Result<Vec<Row>, PostgresError>>,
}

/// Asks a question: alone if a connection is free, and else with the others that wait for one.
pub(crate) async fn ask<Q: Question>(database: &Arc<Database>, question: Q) -> Result<Vec<Row>, Failure> {
    let question = Arc::new(question);
    let deadline = Instant::now() + LIMIT;
    if database.is_busy() && question.is_small() {
        let runtime = Handle::try_current().map_err(|_| PostgresError::NoRuntime)?;
        let (answer, rows) = oneshot::channel();
        if let Some(place) = Place::join(database, Caller { question: Arc::clone(&question), answer }) {
            runtime.spawn(serve(place));
        }
        if let Ok(answer) = rows.await {
            return Ok(answer?);
        }
    }
    let alone = |call: Call| async move {
        let parameters = question.parameters();
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
        call.query(&Q::statements(&call.sql).alone, &parameters).await
    };
    Call::make_until(deadline, database, alone).await
}

/// Waits for a connection, and asks for those who wait by then.
async fn serve<Q: Question>(place: Place<Q>) {
    let database = Arc::clone(&place.database);
    let deadline = Instant::now() + LIMIT;
    let lease = timeout_at(deadline, database.lease()).await;
    let mut callers = place.take();
    // They lock their conversations in the same order everywhere, so that no two wait for each other.
    callers.sort_by(|one, other| one.question.key().cmp(other.question.key()));
    let answer = match lease {
        Ok(Ok(mut lease)) => timeout_at(deadline, ask_together(&database, &mut lease, &callers)).await,
        Ok(Err(error)) => Ok(Err(error)),
        Err(elapsed) => Err(elapsed),
    };
    match answer {
        Ok(Ok(rows)) => hand_out(callers, rows),
        // Alone, each would only wait as long once more.
        Ok(Err(PostgresError::PoolTimeout)) => fail(callers, || PostgresError::PoolTimeout),
        Err(_) => fail(callers, || PostgresError::NoAnswer),
        // None is to fail for another one: each goes alone. An append finds what it has stored, if nobody knows whether it was.
        Ok(Err(_)) => drop(callers),
    }
}

async fn ask_together<Q: Question>(
    database: &Database,
    lease: &mut Lease,
    callers: &[Caller<Q>],
) -> Result<Vec<Row>, PostgresError> {
    if callers.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<Vec<Parameter<'_>>> = callers.iter().map(|caller| caller.question.parameters()).collect();
    let statement = &Q::statements(&database.sql).together;
    let columns: Vec<Vec<Quiet<'_>>> =
        (0..statement.types.len()).map(|at| rows.iter().map(|row| Quiet(&*row[at])).collect()).collect();
    let parameters: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|column| column as _).collect();
    database.query_once(lease, statement, &parameters).await
}

/// Gives each its rows.
fn hand_out<Q>(callers: Vec<Caller<Q>>, rows: Vec<Row>) {
    let mut answers: Vec<Vec<Row>> = callers.iter().map(|_| Vec::new()).collect();
    for row in rows {
        let whose = row.try_get::<_, i64>(row.len() - 1).ok().and_then(|number| usize::try_from(number - 1).ok());
        if let Some(answer) = whose.and_then(|whose| answers.get_mut(whose)) {
            answer.push(row);
        }
    }
    for (caller, rows) in callers.into_iter().zip(answers) {
        // Who has left meanwhile needs no answer.
        let _ = caller.answer.send(Ok(rows));
    }
}

fn fail<Q>(callers: Vec<Caller<Q>>, error: impl Fn() -> PostgresError) {
    for caller in callers {
        let _ = caller.answer.send(Err(error()));
    }
}

impl<Q> Line<Q> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q> Default for Line<Q> {
    fn default() -> Self {
        Self(Mutex::new(Waiting { callers: Vec::new(), connections: 0 }))
    }
}

/// The right to a connection, which is waited for on behalf of some who stand in a line.
struct Place<Q: Question> {
    database: Arc<Database>,
    of: PhantomData<Q>,
}

impl<Q: Question> Place<Q> {
    /// Adds a caller to the line. If another connection is to be waited for, that is what is returned.
    fn join(database: &Arc<Database>, caller: Caller<Q>) -> Option<Self> {
        let mut waiting = Q::line(database).waiting();
        waiting.callers.push(caller);
        if waiting.callers.len() <= waiting.connections * MOST {
            return None;
        }
        waiting.connections += 1;
        Some(Self { database: Arc::clone(database), of: PhantomData })
    }

    /// Those who are served now: the eldest, if they are still there.
    fn take(self) -> Vec<Caller<Q>> {
        let mut waiting = Q::line(&self.database).waiting();
        let most = MOST.min(waiting.callers.len());
        let mut taken: Vec<_> = waiting.callers.drain(..most).collect();
        drop(waiting);
        taken.retain(|caller| !caller.answer.is_closed());
        taken
    }
}

/// Also where a runtime ends before the connection has come, or before it was asked for.
impl<Q: Question> Drop for Place<Q> {
    fn drop(&mut self) {
        let mut waiting = Q::line(&self.database).waiting();
        waiting.connections -= 1;
        // Nobody stays for whom no connection is waited for: they go alone.
        let most = waiting.callers.len().min(waiting.connections * MOST);
        let left = waiting.callers.split_off(most);
        drop(waiting);
        drop(left);
    }
}
