//! Erasure of all conversations under a prefix.

use tower_chat_history_core::{
    Compact, CompactionVersion, ConversationId, Cursor, Cut, Expect, Labels, LabelsVersion, Load, Prefix, Profile,
    Recorded, Removed, Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::ERASE_ONLY;

/// The prefixes of this group, by their parts.
const PREFIXES: [&[&str]; 5] = [&["acme"], &["acme", "a"], &["acme/a"], &["acme-2"], &["acme", "none"]];

/// Returns the logs of these conversations.
async fn logs(chats: &[Chat]) -> Vec<Vec<Recorded>> {
    let mut logs = Vec::new();
    for chat in chats {
        logs.push(chat.log().await);
    }
    logs
}

/// Asserts that the conversations under the prefix are absent, and that the others have these logs.
async fn assert_erased(chats: &[Chat], logs: &[Vec<Recorded>], under: &Prefix) {
    for (chat, log) in chats.iter().zip(logs) {
        if under.contains(&chat.id) {
            chat.assert_absent().await;
        } else {
            assert_eq!(chat.log().await, *log, "of {}, after the erasure of {under}", chat.id);
        }
    }
}

/// All conversations under the prefix are erased, and no others, whatever the size of the pages.
pub async fn a_prefix_is_erased_and_nothing_else(fixture: &dyn Fixture) {
    for parts in PREFIXES {
        for limit in [1, 2, 100, usize::MAX] {
            let owned = Owned::new(fixture).await;
            let under = owned.under(parts);
            let chats = owned.colliding().await;
            let logs = logs(&chats).await;
            owned.bar(&under).await;
            owned.erase(&under, limit).await;
            assert_erased(&chats, &logs, &under).await;
            for owned in [&owned, &owned.reopened(fixture).await] {
                owned.assert_nothing(&under).await;
                let left: Vec<_> = owned.list(&owned.under(&[]), 100).await.into_iter().map(|entry| entry.id).collect();
                let others = chats.iter().map(|chat| &chat.id).filter(|id| !under.contains(id));
                assert_eq!(left.iter().collect::<Vec<_>>(), others.collect::<Vec<_>>());
            }
        }
    }
}

/// A page erases the first conversations of a listing, and the next page continues at its cursor. A store that consists
/// of several stores may also have erased some after the cursor.
pub async fn pages_are_erased_in_order(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ERASE_PAGE;
    let owned = Owned::new(fixture).await;
    let (under, chats) = (owned.under(&[]), owned.colliding().await);
    let mut left: Vec<ConversationId> = chats.into_iter().map(|chat| chat.id).collect();
    let mut after = None;
    loop {
        let page = owned.store.erase(&under, after.as_ref(), 4).await.must("a prefix can be erased", &CLAUSE);
        let (erased, stores) = (page.removed.total().conversations as usize, page.removed.iter().count());
        assert!(erased <= 4.max(stores), "{erased} conversations, of {} and a limit of 4", left.len());
        let listed: Vec<_> = owned.list(&under, 100).await.into_iter().map(|entry| entry.id).collect();
        assert_eq!(left.len() - listed.len(), erased, "the number of erased conversations");
        if stores == 1 {
            assert_eq!(listed, left[erased..]);
        }
        left = listed;
        after = further(after.as_ref(), page.next);
        let Some(after) = &after else { break };
        assert!(
            left.iter().all(|id| id.as_str() > after.last().as_str()),
            "{left:?} after a page that ends at {after:?}"
        );
    }
    assert_eq!(left.len(), 0);
}

/// An erasure from a cursor on spares what is before it.
pub async fn a_cursor_spares_what_is_before_it(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ERASE_PAGE;
    let owned = Owned::new(fixture).await;
    let (under, chats) = (owned.under(&["acme"]), owned.colliding().await);
    let cursor = Cursor::after(owned.id(&["acme", "a"]));
    for _ in 0..chats.len() {
        owned.store.erase(&under, Some(&cursor), 1).await.must("a prefix can be erased", &CLAUSE);
    }
    let is_left = |id: &&ConversationId| !under.contains(id) || id.as_str() <= cursor.last().as_str();
    let expected: Vec<_> = chats.iter().map(|chat| &chat.id).filter(is_left).collect();
    let left: Vec<_> = owned.list(&owned.under(&[]), 100).await.into_iter().map(|entry| entry.id).collect();
    assert_eq!(left.iter().collect::<Vec<_>>(), expected);
}

/// A limit of 0 counts as 1, so that a caller who follows the cursors erases everything.
pub async fn a_limit_of_zero_erases_one(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ERASE_ZERO;
    let owned = Owned::new(fixture).await;
    let (under, chats) = (owned.under(&[]), owned.colliding().await);
    let (mut erased, mut after) = (0, None);
    loop {
        let page = owned.store.erase(&under, after.as_ref(), 0).await.must("0 is a legal limit", &CLAUSE);
        erased += page.removed.total().conversations;
        after = further(after.as_ref(), page.next);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(erased, chats.len() as u64);
    assert_eq!(owned.list(&under, 100).await, []);
}

/// An erasure that stopped after some pages is repeated from the beginning. So is one that found nothing.
pub async fn an_erasure_is_repeated(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ERASE_AGAIN;
    let owned = Owned::new(fixture).await;
    let (under, chats) = (owned.under(&["acme"]), owned.colliding().await);
    let logs = logs(&chats).await;
    let mut removed = Removed::default();
    for _ in 0..2 {
        let page = owned.store.erase(&under, None, 1).await.must("a prefix can be erased", &clause::ERASE_PAGE);
        removed += page.removed.total();
    }
    removed += owned.reopened(fixture).await.erase(&under, 2).await;
    let erased = chats.iter().zip(&logs).filter(|(chat, _)| under.contains(&chat.id));
    assert_eq!(removed, numbers_of(erased.map(|(_, log)| log.as_slice())));
    assert_eq!(owned.erase(&under, 2).await, Removed::default());
    assert_erased(&chats, &logs, &under).await;
}

/// A conversation is erased whole: its log, compactions, exchange ids and labels.
pub async fn nothing_of_a_conversation_returns(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ERASE_WHOLE;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let first = turn_of("first");
    chat.add(first.clone()).await;
    chat.add_turns(3).await;
    chat.cut(CompactionVersion::NONE, summary_to(2, "a secret")).await;
    owned.label(&chat, LabelsVersion::NONE, &labels([("title", "a secret")])).await;
    let before = chat.revision().await;
    owned.erase(&owned.under(&["acme"]), 10).await;
    chat.assert_absent().await;
    let log = [chat.add(first).await];
    let window = chat.window(Load::new()).await;
    assert_eq!((window.compaction, window.exchanges.as_slice()), (None, log.as_slice()));
    assert_ne!(window.revision.incarnation(), before.incarnation());
    let entry = owned.entry(&chat).await;
    assert_eq!((entry.labels, entry.labels_version), (Labels::default(), LabelsVersion::NONE));
}

/// Calls that name an incarnation are refused after the erasure.
pub async fn calls_in_flight_are_gone(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::IN_FLIGHT;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    chat.add_turns(2).await;
    let revision = chat.revision().await;
    let incarnation = revision.incarnation();
    owned.erase(&owned.under(&["acme"]), 10).await;
    for is_there in [false, true] {
        assert_gone(chat.append(Expect::AnyIn(incarnation), turn_of("late")).await);
        assert_gone(chat.append(Expect::Exactly(revision), turn_of("late")).await);
        let compact = Compact::new(Profile::default(), CompactionVersion::NONE, Cut::window_from(Seq::new(1)));
        assert_gone(chat.store.compact(&chat.id, incarnation, compact).await);
        let late = labels([("title", "late")]);
        assert_gone(owned.store.set_labels(&chat.id, incarnation, LabelsVersion::NONE, late).await);
        if is_there {
            assert_eq!(chat.log().await.len(), 1);
        } else {
            chat.assert_absent().await;
            chat.add_turns(1).await;
        }
    }
}

/// A conversation that is created after the erasure is a new one, and a new erasure erases it.
pub async fn a_later_conversation_is_legal(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let (under, chat) = (owned.under(&["acme"]), owned.chat(&["acme", "a"]));
    chat.add_turns(2).await;
    for _ in 0..2 {
        owned.bar(&under).await;
        owned.erase(&under, 10).await;
        let log = [chat.add(turn_of("anew")).await];
        assert_eq!((log[0].seq, chat.log().await.as_slice()), (Seq::FIRST, log.as_slice()));
        let other = owned.chat(&["acme", "b"]);
        must_land(async || landed(other.append_since(other.epoch().await, Expect::Absent, turn_of("x")).await)).await;
        assert_eq!(owned.list(&under, 10).await.len(), 2);
    }
    owned.erase(&under, 10).await;
    owned.assert_nothing(&under).await;
}

/// After a scrub, everything that was not erased is still there.
pub async fn a_scrub_leaves_conversations_in_place(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let (under, chats) = (owned.under(&["acme"]), owned.colliding().await);
    let logs = logs(&chats).await;
    owned.erase(&under, 10).await;
    let scrubbed = owned.store.scrub().await.must("a store can be scrubbed", &clause::ERASED);
    let texts: Vec<_> = scrubbed.done.iter().chain(&scrubbed.left).collect();
    assert!(texts.iter().all(|text| !text.is_empty()), "{scrubbed:?}");
    assert_erased(&chats, &logs, &under).await;
    chats[0].add_turns(1).await;
}

/// Erased conversations are not there after the storage is opened again.
pub async fn erasures_persist(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DURABLE;
    let owned = Owned::new(fixture).await;
    let (under, all) = (owned.under(&["acme"]), owned.under(&[]));
    owned.colliding().await;
    owned.erase(&under, 3).await;
    let left = owned.list(&all, 100).await;
    drop(owned);
    let owned = Owned::new(fixture).await;
    owned.assert_nothing(&under).await;
    assert_eq!(owned.list(&all, 100).await, left);
}
