//! Reads of the log itself, from the beginning and from the end.

use super::support::*;

/// Reading a log that does not exist returns an absent page, and reading it back returns an empty one. A revision of it
/// is refused with `Gone`.
pub async fn an_absent_log_is_an_absent_page(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for (from, limit) in [(0, 10), (0, 0), (5, 1), (u64::MAX, MANY)] {
        assert_eq!(chat.read(from, limit).await, Page::absent());
    }
    assert_eq!(pages_back(&chat, None, 3).await, []);
    assert_gone(page_back(&chat, Some(Revision::new(Incarnation::random(), 3)), 3).await);
    chat.assert_absent().await;
}

/// A page has at most `limit` exchanges and at least one, in order, and says whether there are more. With a limit of 0,
/// and after the end, it is empty, but has the revision.
pub async fn pages_are_in_order_and_bounded(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(7).await;
    let revision = chat.revision().await;
    for from in (0..9).chain([i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX]) {
        for limit in [0, 1, 2, 6, 7, 8, MANY] {
            let page = chat.read(from, limit).await;
            let start = from.min(7) as usize;
            let end = start + page.exchanges.len();
            assert!(
                end - start <= limit && (end > start || limit == 0 || start == 7),
                "from {from}, {limit}: {page:?}"
            );
            assert_eq!(page, Page::new(revision, log[start..end].to_vec(), end < 7), "from {from}, limit {limit}");
        }
    }
}

/// Reads ignore windows: a compaction changes neither the log nor the revision.
pub async fn reading_ignores_windows(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let before = chat.read(0, 100).await;
    chat.cut(NONE, summary_to(3, "before")).await;
    assert_eq!(chat.read(0, 100).await, before);
    assert_eq!(chat.log().await, log);
}

async fn page_back(chat: &Chat, from: Option<Revision>, n: usize) -> Result<PageBack, StoreError> {
    chat.conversation().read_back(from, n).await
}

/// Reads all pages of this size back from a revision, as one log.
async fn pages_back(chat: &Chat, mut from: Option<Revision>, n: usize) -> Vec<Recorded> {
    let mut log = Vec::new();
    loop {
        let mut page = page_back(chat, from, n).await.unwrap();
        assert!(page.exchanges.len() <= n, "a page has at most {n} exchanges: {page:?}");
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
    for n in [0, 1, 2, 5, 6, MANY] {
        assert_eq!(chat.conversation().last(n).await.unwrap(), log[5 - n.min(5)..], "the last {n}");
    }
}

/// The length of a log comes from its revision, and is 0 for an absent one.
pub async fn a_log_is_counted_without_reading_it(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let conversation = chat.conversation();
    for len in 0..4 {
        assert_eq!(conversation.len().await.unwrap(), len);
        assert_eq!(conversation.is_empty().await.unwrap(), len == 0);
        let revision = conversation.revision().await.unwrap();
        assert_eq!(revision.map_or(0, |revision| revision.next().get()), len);
        chat.add(turn_of("next")).await;
    }
}

/// The newest turn is returned whole, without any exchange of the turn before it.
pub async fn the_newest_turn_is_returned_alone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    assert_eq!(chat.conversation().newest_turn().await.unwrap(), []);
    chat.add_turns(2).await;
    for continuations in [0, 1] {
        let turn = chat.add_call(continuations).await;
        assert_eq!(chat.conversation().newest_turn().await.unwrap(), turn);
    }
}

/// The pages from the end to the beginning contain every exchange exactly once. A revision after the end of the log,
/// where no exchange ever was, still leads back to it.
pub async fn pages_back_make_the_whole_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(5).await;
    log.extend(chat.add_call(1).await);
    let beyond = Revision::new(chat.incarnation().await, 13);
    for n in [1, 2, 3, 6, 7, 8, MANY] {
        assert_eq!(pages_back(&chat, None, n).await, log, "pages of {n}");
        assert_eq!(pages_back(&chat, Some(beyond), n).await, log, "pages of {n}");
    }
    let nothing = page_back(&chat, None, 0).await.unwrap();
    assert_eq!((nothing.exchanges, nothing.earlier.is_some()), (vec![], true));
}

/// A page has the requested number of exchanges, even if the store itself pages by size.
pub async fn large_exchanges_come_in_one_page(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let text = "0123456789".repeat(100_000);
    let log = chat.add_all((0..8).map(|_| exchange_of([Message::user(&*text)]))).await;
    assert_eq!(chat.conversation().last(7).await.unwrap(), log[1..]);
}

/// The pages from one revision on stay the same while exchanges are appended.
pub async fn appends_do_not_move_the_pages(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let newest = page_back(&chat, None, 2).await.unwrap();
    assert_eq!(newest.exchanges, log[4..]);
    chat.add_turns(3).await;
    assert_eq!(pages_back(&chat, newest.earlier, 2).await, log[..4]);
}

/// A revision of a deleted log is refused with `Gone`, even after the conversation was created again.
pub async fn a_page_of_a_deleted_log_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let newest = page_back(&chat, None, 2).await.unwrap();
    chat.delete().await;
    assert_gone(page_back(&chat, newest.earlier, 2).await);
    let again = chat.add_turns(4).await;
    assert_gone(page_back(&chat, newest.earlier, 2).await);
    assert_eq!(pages_back(&chat, None, 3).await, again);
}

/// A revision of a truncated log is refused with `Gone`, because positions belong to other exchanges.
pub async fn a_page_of_a_truncated_log_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let newest = page_back(&chat, None, 2).await.unwrap();
    chat.shorten_to(3).await;
    assert_gone(page_back(&chat, newest.earlier, 2).await);
    assert_eq!(pages_back(&chat, None, 2).await, log[..3]);
}

/// Exchanges pruned between two pages are left out, and the last page reports that there are no more.
pub async fn pages_end_where_a_pruned_log_begins(fixture: &dyn Fixture) {
    for from in 0..6_usize {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(6).await;
        let newest = page_back(&chat, None, 2).await.unwrap();
        chat.prune(PruneTo::From(Seq::new(from as u64))).await;
        assert_eq!(pages_back(&chat, newest.earlier, 3).await, log[from.min(4)..4], "pruned to {from}");
        assert_eq!(pages_back(&chat, None, 2).await, log[from..], "pruned to {from}");
        assert_eq!(chat.conversation().len().await.unwrap(), 6 - from as u64);
    }
}
