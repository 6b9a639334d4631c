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
    task::yield_now,
    time::{Instant, timeout, timeout_at},
};
use tokio_postgres::{Row, types::ToSql};

use super::{Call, Database, LIMIT, Lease, Limits, quiet::Quiet};
use crate::{
    PostgresError,
    error::Failure,
    sql::{Sql, Statements},
};

/// How many calls go together at most. A server works at them one after the other.
const MOST: usize = 16;

/// What a call asks.
pub(crate) trait Question: Send + Sync + Sized + 'static {
    /// Whether it changes nothing, and its answer is one before the others have theirs.
    const READS: bool;

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

/// The callers that wait for a connection.
#[derive(Debug)]
pub(crate) struct Line<Q>(Mutex<Waiting<Q>>);

/// For every [`MOST`] callers there is an errand at least: who joins a line makes sure of that, and an errand that ends.
#[derive(Debug)]
struct Waiting<Q> {
    callers: Vec<Caller<Q>>,
    errands: usize,
}

#[derive(Debug)]
struct Caller<Q> {
    question: Arc<Q>,
    /// Dropped without an answer, it says that the question is to be asked alone, as one is repeated after a failure.
    answer: oneshot::Sender<Vec<Row>>,
}

/// Asks a question: alone if a connection is free, and else with the others that wait for one.
pub(crate) async fn ask<Q: Question>(
    database: &Arc<Database>,
    question: Q,
    limits: Limits,
) -> Result<Vec<Row>, Failure> {
    let question = Arc::new(question);
    if database.is_busy()
        && question.is_small()
        && let Some(rows) = ask_together(database, &question, limits.deadline).await?
    {
        return Ok(rows);
    }
    let alone = |call: Call| async move {
        let parameters = question.parameters();
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
        call.query(&Q::statements(&call.sql).alone, &parameters).await
    };
    Call::make_within(limits, database, alone).await
}

/// Asks a question with the others that wait. There is no answer if it is to be asked alone.
async fn ask_together<Q: Question>(
    database: &Arc<Database>,
    question: &Arc<Q>,
    deadline: Instant,
) -> Result<Option<Vec<Row>>, PostgresError> {
    let runtime = Handle::try_current().map_err(|_| PostgresError::NoRuntime)?;
    let (answer, mut rows) = oneshot::channel();
    if let Some(errand) = Errand::join(database, Caller { question: Arc::clone(question), answer }) {
        runtime.spawn(fetch_and_serve(errand));
    }
    let wait = database.pool.timeouts().wait.unwrap_or(LIMIT).min(LIMIT);
    let answered = match timeout(wait, &mut rows).await {
        Ok(answered) => answered,
        // As long as a call waits for a connection. It is another caller's runtime that fetches one, and need not get to it.
        Err(_) if Q::line(database).leave(question) => {
            return if database.is_busy() { Err(PostgresError::PoolTimeout) } else { Ok(None) };
        }
        // It has been asked.
        Err(_) => timeout_at(deadline, rows).await.map_err(|_| PostgresError::NoAnswer)?,
    };
    Ok(answered.ok())
}

/// Waits for a connection, and asks for those who wait by then.
async fn fetch_and_serve<Q: Question>(errand: Errand<Q>) {
    let database = Arc::clone(&errand.database);
    let lease = loop {
        match database.lease().await {
            Ok(lease) => break Some(lease),
            // The eldest leave about now. (A pool may be one that does not wait at all.)
            Err(PostgresError::PoolTimeout) if errand.is_wanted() => yield_now().await,
            Err(_) => break None,
        }
    };
    let callers = errand.take();
    if let Some(mut lease) = lease
        && !callers.is_empty()
    {
        // None is to fail for another one: when this does, each who has no answer goes alone. An append finds what it has stored,
        // if nobody knows whether it was.
        let _ = timeout(LIMIT, ask_for_all(&database, &mut lease, callers)).await;
    }
}

async fn ask_for_all<Q: Question>(
    database: &Database,
    lease: &mut Lease,
    mut callers: Vec<Caller<Q>>,
) -> Result<(), PostgresError> {
    // They lock their conversations in the same order everywhere, so that no two wait for each other.
    callers.sort_by(|one, other| one.question.key().cmp(other.question.key()));
    let questions: Vec<Arc<Q>> = callers.iter().map(|caller| Arc::clone(&caller.question)).collect();
    let elements: Vec<Vec<Parameter<'_>>> = questions.iter().map(|question| question.parameters()).collect();
    let statement = &Q::statements(&database.sql).together;
    let arrays: Vec<Vec<Quiet<'_>>> =
        (0..statement.types.len()).map(|at| elements.iter().map(|of_one| Quiet(&*of_one[at])).collect()).collect();
    let parameters: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| array as _).collect();
    // What a transaction reads is worth nothing before it is known that it was begun: a standby refuses to.
    let mut answers = Answers::new(callers, Q::READS && !database.defaults.differ());
    database.query_each(lease, statement, &parameters, |row| answers.add(row)).await?;
    answers.finish()
}

/// The answers in the rows of a statement: they come one caller's after the other's, and say at last whose they are.
struct Answers<Q> {
    callers: std::vec::IntoIter<Caller<Q>>,
    /// Whose rows are coming, counted from one.
    number: i64,
    rows: Vec<Row>,
    /// Whether an answer that is whole is given before the others have come.
    at_once: bool,
    held: Vec<(Caller<Q>, Vec<Row>)>,
    misplaced: bool,
}

impl<Q> Answers<Q> {
    fn new(callers: Vec<Caller<Q>>, at_once: bool) -> Self {
        let callers = callers.into_iter();
        Self { callers, number: 1, rows: Vec::new(), at_once, held: Vec::new(), misplaced: false }
    }

    fn add(&mut self, row: Row) {
        let number: i64 = row.try_get(row.len() - 1).unwrap_or_default();
        self.misplaced |= number < self.number;
        while !self.misplaced && self.number < number {
            self.misplaced = !self.next();
        }
        self.rows.push(row);
    }

    /// Ends one caller's answer: whether there was one more caller.
    fn next(&mut self) -> bool {
        self.number += 1;
        let rows = std::mem::take(&mut self.rows);
        let Some(caller) = self.callers.next() else { return false };
        if self.at_once {
            caller.answer(rows);
        } else {
            self.held.push((caller, rows));
        }
        true
    }

    /// Gives everybody their answer who does not have it: what was asked is done.
    fn finish(mut self) -> Result<(), PostgresError> {
        if self.misplaced {
            return Err(PostgresError::Protocol);
        }
        while self.next() {}
        for (caller, rows) in self.held {
            caller.answer(rows);
        }
        Ok(())
    }
}

impl<Q> Caller<Q> {
    fn answer(self, rows: Vec<Row>) {
        // Who has left meanwhile needs none.
        let _ = self.answer.send(rows);
    }
}

impl<Q> Line<Q> {
    fn waiting(&self) -> MutexGuard<'_, Waiting<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a caller out of the line: whether it still stood there.
    fn leave(&self, question: &Arc<Q>) -> bool {
        let mut waiting = self.waiting();
        let place = waiting.callers.iter().position(|caller| Arc::ptr_eq(&caller.question, question));
        let left = place.map(|place| waiting.callers.remove(place));
        drop(waiting);
        left.is_some()
    }
}

impl<Q> Default for Line<Q> {
    fn default() -> Self {
        Self(Mutex::new(Waiting { callers: Vec::new(), errands: 0 }))
    }
}

/// Fetching a connection for those who stand in a line.
struct Errand<Q: Question> {
    database: Arc<Database>,
    ended: bool,
    of: PhantomData<Q>,
}

impl<Q: Question> Errand<Q> {
    /// Adds a caller to the line. If nobody fetches a connection for it yet, that is to be done.
    fn join(database: &Arc<Database>, caller: Caller<Q>) -> Option<Self> {
        let mut waiting = Q::line(database).waiting();
        waiting.callers.push(caller);
        if waiting.callers.len() <= waiting.errands * MOST {
            return None;
        }
        waiting.errands += 1;
        Some(Self { database: Arc::clone(database), ended: false, of: PhantomData })
    }

    fn is_wanted(&self) -> bool {
        !Q::line(&self.database).waiting().callers.is_empty()
    }

    /// Those whom the connection serves: the eldest who are still there.
    fn take(mut self) -> Vec<Caller<Q>> {
        let mut waiting = Q::line(&self.database).waiting();
        waiting.errands -= 1;
        self.ended = true;
        let (mut here, left): (Vec<_>, Vec<_>) =
            waiting.callers.drain(..).partition(|caller| !caller.answer.is_closed());
        waiting.callers = here.split_off(MOST.min(here.len()));
        drop(waiting);
        drop(left);
        here
    }
}

/// Where an errand comes to nothing, as when its runtime ends, nobody stays for whom there is no other one: they go alone.
impl<Q: Question> Drop for Errand<Q> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut waiting = Q::line(&self.database).waiting();
        waiting.errands -= 1;
        let most = waiting.callers.len().min(waiting.errands * MOST);
        let alone = waiting.callers.split_off(most);
        drop(waiting);
        drop(alone);
    }
}
