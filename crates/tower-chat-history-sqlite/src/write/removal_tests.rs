//! The cost of removals, in instructions of SQLite's virtual machine.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use rusqlite::Connection;
use tower_chat_history_core::{
    Append, ConversationId, Derived, Exchange, ExchangeId, Expect, Message, PruneTo, Revision, Seq,
};

use super::{AppendExchange, DeleteConversation, PruneLog, TruncateLog};
use crate::{job::Request, stats::Counters};

fn run<Q: Request>(connection: &Connection, request: &Q) -> Q::Answer {
    match request.run(connection, &Counters::default()) {
        Ok(answer) => answer,
        Err(failure) => panic!("{failure:?}"),
    }
}

/// Stores a conversation with this many exchanges.
fn store(connection: &Connection, id: &ConversationId, exchanges: u64) -> Revision {
    let mut revision = None;
    for number in 0..exchanges {
        let exchange = Exchange::new(ExchangeId::new(number.to_string()).unwrap(), [Message::user("x")]);
        let append = Append::new(Expect::AnyOrCreate, exchange);
        revision = Some(run(connection, &AppendExchange::new(id.clone(), append).unwrap()).revision);
    }
    revision.unwrap()
}

/// Removes most of three conversations with this many exchanges, in three ways. Returns the number of instructions.
fn instructions(exchanges: u64) -> u64 {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(include_str!("../connection/schema-1.sql")).unwrap();
    let ids = ["truncated", "erased", "deleted"].map(|id| ConversationId::new([id]).unwrap());
    let [truncated, erased, _] = ids.each_ref().map(|id| store(&connection, id, exchanges));
    let counted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&counted);
    let count = move || {
        counter.fetch_add(1, Relaxed);
        false
    };
    connection.progress_handler(1, Some(count)).unwrap();
    let [first, second, third] = ids;
    run(&connection, &TruncateLog { id: first, expect: truncated, from: Seq::new(1), keep: None });
    let incarnation = erased.incarnation();
    run(&connection, &PruneLog { id: second, incarnation, keep: PruneTo::LastTurns(1), derived: Derived::Erase });
    run(&connection, &DeleteConversation { id: third });
    let counted = counted.load(Relaxed);
    let left: i64 = connection.query_row("SELECT count(*) FROM exchange", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 2);
    counted
}

#[test]
fn the_cost_of_a_removal_is_linear() {
    const FEW: u64 = 200;
    let few = instructions(FEW);
    let many = instructions(8 * FEW);
    assert!(few > 3 * FEW, "{few} instructions for three removals of {FEW} exchanges");
    // Eight times as many would take 64 times as many instructions if the cost were quadratic.
    assert!(many < few * 9, "{few} {many}");
}
