//! Reading a log from its end through the conversation handle.

use tower_chat_history_core::{
    Exchange, ExchangeId, HistoryStoreExt, Incarnation, Message, PageBack, PruneTo, Recorded, Revision, Seq, StoreError,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::READ_BACK;

async fn page(chat: &Chat, from: Option<Revision>, n: usize) -> Result<PageBack, StoreError> {
    chat.store.conversation(&chat.id).read_back(from, n).await
}

/// Reads all pages of this size from a revision on, as one log.
async fn pages(chat: &Chat, mut from: Option<Revision>, n: usize) -> Vec<Recorded> {
    let mut log = Vec::new();
    loop {
        let mut page = page(chat, from, n).await.must("the log can be read", &CLAUSE);
        assert!(page.exchanges.len() <= n, "{} exchanges, for at most {n}", page.exchanges.len());
        page.exchanges.append(&mut log);
        log = page.exchanges;
        from = page.earlier;
        if from.is_none() {
            return log;
        }
    }
}

/// The last exchanges are returned in the log's order: as many as requested, or as many as there are.
pub async fn the_last_exchanges_come_in_order(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(5).await;
    for n in [0, 1, 2, 5, 6, usize::MAX] {
        let last = chat.store.conversation(&chat.id).last(n).await.must("the log can be read", &CLAUSE);
        assert_eq!(last, log[5 - n.min(5)..], "the last {n}");
    }
}

/// The length of a log comes from its revision, and is 0 for an absent one.
pub async fn a_log_is_counted_without_reading_it(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::NEXT;
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.conversation(&chat.id);
    for len in 0..4 {
        assert_eq!(conversation.len().await.must("the log can be read", &CLAUSE), len);
        assert_eq!(conversation.is_empty().await.must("the log can be read", &CLAUSE), len == 0);
        let revision = conversation.revision().await.must("the log can be read", &CLAUSE);
        assert_eq!(revision.map_or(0, |revision| revision.next().get()), len);
        chat.add(turn_of("next")).await;
    }
}

/// The newest turn is returned whole, without any exchange of the turn before it.
pub async fn the_newest_turn_is_returned_alone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let conversation = chat.store.conversation(&chat.id);
    assert_eq!(conversation.newest_turn().await.must("absent is empty", &CLAUSE), []);
    chat.add_turns(2).await;
    let call = chat.add(call_of("what is it?")).await;
    assert_eq!(conversation.newest_turn().await.must("the log can be read", &CLAUSE), std::slice::from_ref(&call));
    let result = chat.add(result_for(call.seq)).await;
    assert_eq!(conversation.newest_turn().await.must("the log can be read", &CLAUSE), [call, result]);
}

/// The pages from the end to the beginning contain every exchange exactly once.
pub async fn pages_back_make_the_whole_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(5).await;
    log.push(chat.add(call_of("what is it?")).await);
    log.push(chat.add(result_for(Seq::new(5))).await);
    for n in [1, 2, 3, 6, 7, 8, usize::MAX] {
        assert_eq!(pages(&chat, None, n).await, log, "pages of {n}");
    }
    let nothing = page(&chat, None, 0).await.must("the log can be read", &CLAUSE);
    assert_eq!((nothing.exchanges, nothing.earlier.is_some()), (vec![], true));
}

/// A page has the requested number of exchanges, even if the store itself pages by size.
pub async fn large_exchanges_come_in_one_page(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = Vec::new();
    for _ in 0..8 {
        let large = Message::user("0123456789".repeat(100_000));
        log.push(chat.add(Exchange::new(ExchangeId::generate(), [large])).await);
    }
    let last = chat.store.conversation(&chat.id).last(7).await.must("the log can be read", &CLAUSE);
    assert_eq!(last, log[1..]);
}

/// A conversation that does not exist has one empty page. A revision of it is refused with `Gone`.
pub async fn an_absent_conversation_has_no_pages(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    assert_eq!(pages(&chat, None, 3).await, []);
    assert_gone(page(&chat, Some(Revision::new(Incarnation::random(), 3)), 3).await);
    chat.assert_absent().await;
}

/// The pages from one revision on stay the same while exchanges are appended.
pub async fn appends_do_not_move_the_pages(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let newest = page(&chat, None, 2).await.must("the log can be read", &CLAUSE);
    assert_eq!(newest.exchanges, log[4..]);
    chat.add_turns(3).await;
    assert_eq!(pages(&chat, newest.earlier, 2).await, log[..4]);
}

/// A revision of a deleted log is refused with `Gone`, even after the conversation was created again.
pub async fn a_page_of_a_deleted_log_is_gone(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DELETION;
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let newest = page(&chat, None, 2).await.must("the log can be read", &CLAUSE);
    chat.delete().await;
    assert_gone(page(&chat, newest.earlier, 2).await);
    let again = chat.add_turns(4).await;
    assert_gone(page(&chat, newest.earlier, 2).await);
    assert_eq!(pages(&chat, None, 3).await, again);
}

/// A revision after the end of the log, where no exchange ever was, still leads back to the log.
pub async fn a_revision_beyond_the_end_leads_back_to_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    let beyond = Revision::new(chat.incarnation().await, 9);
    assert_eq!(pages(&chat, Some(beyond), 2).await, log);
}

/// A revision of a truncated log is refused with `Gone`, because positions belong to other exchanges.
pub async fn a_page_of_a_truncated_log_is_gone(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let log = chat.add_turns(6).await;
    let newest = page(chat, None, 2).await.must("the log can be read", &CLAUSE);
    edit.keep(3).await;
    assert_gone(page(chat, newest.earlier, 2).await);
    assert_eq!(pages(chat, None, 2).await, log[..3]);
}

/// Exchanges pruned between two pages are left out, and the last page reports that there are no more.
pub async fn pages_end_where_a_pruned_log_begins(fixture: &dyn Fixture) {
    for from in 0..6 {
        let prunable = Prunable::new(fixture).await;
        let chat = &prunable.chat;
        let log = chat.add_turns(6).await;
        let newest = page(chat, None, 2).await.must("the log can be read", &CLAUSE);
        prunable.keep(PruneTo::From(Seq::new(from))).await;
        let from = usize::try_from(from).unwrap_or_default();
        assert_eq!(pages(chat, newest.earlier, 3).await, log[from.min(4)..4], "pruned to {from}");
        assert_eq!(pages(chat, None, 2).await, log[from..], "pruned to {from}");
        let len = chat.store.conversation(&chat.id).len().await.must("the log can be read", &CLAUSE);
        assert_eq!(len, 6 - from as u64);
    }
}
