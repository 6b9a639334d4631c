//! Reads of the log itself.

use tower_chat_history_core::{CompactionVersion, Page, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::READ;

async fn read(chat: &Chat, from: u64, limit: usize) -> Page {
    chat.store.read(&chat.id, Seq::new(from), limit).await.must("the log can be read", &CLAUSE)
}

/// Reading a log that does not exist returns an absent page.
pub async fn an_absent_log_is_an_absent_page(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for (from, limit) in [(0, 10), (0, 0), (5, 1), (u64::MAX, usize::MAX)] {
        assert_eq!(read(&chat, from, limit).await, Page::absent());
    }
}

/// A page has at most `limit` exchanges and at least one, in order, and says whether there are more.
pub async fn pages_are_in_order_and_bounded(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(7).await;
    for from in 0..7_usize {
        for limit in [1, 2, 6, 7, 8, usize::MAX] {
            let page = read(&chat, from as u64, limit).await;
            let end = from + page.exchanges.len();
            assert!(end > from && end - from <= limit, "from {from}, limit {limit}: {} exchanges", end - from);
            assert_eq!(page.exchanges, log[from..end], "from {from}, limit {limit}");
            assert_eq!(page.more, end < 7, "from {from}, limit {limit}");
            assert_eq!(page.revision, Some(chat.revision().await));
        }
    }
}

/// The pages together are the whole log, whatever their size.
pub async fn pages_make_the_whole_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(10).await;
    for limit in [1, 3, 10, 11] {
        let (mut read_back, mut more) = (Vec::new(), true);
        while more {
            let page = read(&chat, read_back.len() as u64, limit).await;
            assert!(!page.exchanges.is_empty(), "an empty page of a log that goes on");
            read_back.extend(page.exchanges);
            more = page.more;
        }
        assert_eq!(read_back, log, "limit {limit}");
    }
}

/// After the end, a page is empty and the last one, but has the revision.
pub async fn beyond_the_end_is_an_empty_page(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let revision = chat.revision().await;
    for from in [2, 3, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        for limit in [0, 1, usize::MAX] {
            assert_eq!(
                read(&chat, from, limit).await,
                Page::new(revision, vec![], false),
                "from {from}, limit {limit}"
            );
        }
    }
}

/// With a limit of 0, a page has no exchange, but the revision and whether the log continues.
pub async fn a_limit_of_zero_brings_the_revision(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let revision = chat.revision().await;
    assert_eq!(read(&chat, 0, 0).await, Page::new(revision, vec![], true));
    assert_eq!(read(&chat, 1, 0).await, Page::new(revision, vec![], true));
}

/// Reads ignore windows: a compaction changes neither the log nor the revision.
pub async fn reading_ignores_windows(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let before = read(&chat, 0, 100).await;
    chat.cut(CompactionVersion::NONE, summary_to(3, "before")).await;
    assert_eq!(read(&chat, 0, 100).await, before);
    assert_eq!(chat.log().await, log);
}
