//! The pages of listings, in stores that list and erase.

use futures_util::future::join;
use tower_chat_history_core::{ConversationId, Cursor, Expect, Listed, Prefix, StoreError};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::LIST_ORDER;

/// Returns the ids of the entries.
fn ids(listed: &[Listed]) -> Vec<&ConversationId> {
    listed.iter().map(|entry| &entry.id).collect()
}

/// Conversations are in the order of the bytes of their ids, whatever the size of the pages.
pub async fn pages_are_in_the_order_of_ids(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    let expected: Vec<_> = chats.iter().map(|chat| &chat.id).collect();
    for limit in (1..=expected.len() + 1).chain([1_000_000, usize::MAX]) {
        assert_eq!(ids(&owned.list(&owned.under(&[]), limit).await), expected, "{limit} a page");
    }
}

/// A prefix contains whole parts only, and the conversation whose id has exactly its parts.
pub async fn a_prefix_contains_whole_parts(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIST_PARTS;
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    for parts in [&["acme"] as &[&str], &["acme", "a"], &["acme/a"], &["acm"], &["ac"], &["acme0"], &["acme", "a", "x"]]
    {
        let under = owned.under(parts);
        let expected: Vec<_> = chats.iter().map(|chat| &chat.id).filter(|id| under.contains(id)).collect();
        for limit in [1, 2, 3, 100] {
            assert_eq!(ids(&owned.list(&under, limit).await), expected, "under {under}, {limit} a page");
        }
    }
}

/// A listing continues after any cursor, also one that no listing returned. It contains nothing outside of its prefix.
pub async fn a_forged_cursor_leaves_the_prefix_never(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::CURSOR;
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    let absent: [&[&str]; 4] = [&["acme", "a", "a"], &["acme", "zzz"], &["acme", "%2F"], &["z"]];
    let mut cursors: Vec<ConversationId> = chats.iter().map(|chat| chat.id.clone()).collect();
    cursors.extend(absent.iter().map(|parts| owned.id(parts)));
    cursors.extend(["!", "~", "conformance"].iter().filter_map(|part| ConversationId::new([part]).ok()));
    for parts in [&["acme"] as &[&str], &["acme", "a"], &[]] {
        let under = owned.under(parts);
        for cursor in &cursors {
            let is_after = |id: &&ConversationId| under.contains(id) && id.as_str() > cursor.as_str();
            let expected: Vec<_> = chats.iter().map(|chat| &chat.id).filter(is_after).collect();
            for limit in [1, 4, 100] {
                let listed = owned.list_after(&under, Some(Cursor::after(cursor.clone())), limit).await;
                assert_eq!(ids(&listed), expected, "under {under} after {cursor}, {limit} a page");
            }
        }
    }
}

/// The prefix of all conversations contains all conversations. Others may use the same storage.
pub async fn all_conversations_are_listed(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIST_PARTS;
    let owned = Owned::new(fixture).await;
    let chats = owned.colliding().await;
    let expected: Vec<_> = chats.iter().map(|chat| &chat.id).collect();
    for limit in [1, 5] {
        let (mut found, mut after) = (Vec::new(), Some(Cursor::after(owned.id(&["!"]))));
        let end = owned.id(&["~"]);
        while let Some(cursor) = after.take() {
            let page = owned.store.list(&Prefix::all(), Some(&cursor), limit).await;
            let page = page.must("all conversations can be listed", &CLAUSE);
            after = further(Some(&cursor), page.next).filter(|next| next.last().as_str() < end.as_str());
            found.extend(page.conversations.into_iter().filter(|entry| owned.under(&[]).contains(&entry.id)));
        }
        assert_eq!(ids(&found), expected, "{limit} a page");
    }
    let first = owned.store.list(&Prefix::all(), None, 1).await.must("all conversations can be listed", &CLAUSE);
    assert!(first.conversations.len() <= 1 && first.next.is_some(), "{first:?}, of many conversations");
}

/// A limit of 0 counts as 1, so that a caller who follows the cursors finds everything.
pub async fn a_limit_of_zero_lists_one(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIST_ZERO;
    let owned = Owned::new(fixture).await;
    let (under, chats) = (owned.under(&["acme"]), owned.colliding().await);
    let expected: Vec<_> = chats.iter().map(|chat| &chat.id).filter(|id| under.contains(id)).collect();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = owned.store.list(&under, after.as_ref(), 0).await.must("0 is a legal limit", &CLAUSE);
        assert!(page.len() <= 1, "{} entries, of a limit of 0", page.len());
        found.extend(page.conversations);
        after = further(after.as_ref(), page.next);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(ids(&found), expected);
}

/// Large listings are complete.
pub async fn hundreds_of_conversations_are_listed(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let mut expected = Vec::new();
    for n in 0..250 {
        let chat = owned.chat(&["acme", &format!("{}", n * 7919 % 250)]);
        chat.append(Expect::Absent, turn_of("x")).await.must("nothing is there yet", &CLAUSE);
        expected.push(chat.id);
    }
    expected.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    for limit in [99, 100, 101, 1000] {
        let listed = owned.list(&owned.under(&["acme"]), limit).await;
        assert_eq!(ids(&listed), expected.iter().collect::<Vec<_>>(), "{limit} a page");
    }
}

/// Changes by others between two pages, before and after the cursor, neither hide nor repeat a
/// conversation.
pub async fn a_listing_stays_right_between_changes(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIST_ONCE;
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let of = |kind: &str, n: usize| owned.chat(&["acme", &format!("{n:02}-{kind}")]);
    for limit in [1, 2, 3, 7] {
        let stable: Vec<Chat> = (0..12).map(|n| of("stable", n)).collect();
        for chat in &stable {
            chat.add_turns(1).await;
        }
        for n in 0..12 {
            of("deleted", n).add_turns(1).await;
        }
        let (mut listed, mut after, mut step) = (Vec::new(), None, 0);
        loop {
            let page = owned.store.list(&under, after.as_ref(), limit).await.must("it can be listed", &clause::LIST);
            listed.extend(page.conversations.into_iter().map(|entry| entry.id));
            after = further(after.as_ref(), page.next);
            if after.is_none() {
                break;
            }
            // The changes are at the beginning, at the end, and at the cursor itself.
            for n in [step % 12, 11 - step % 12] {
                stable[n].add_turns(1).await;
                of("created", n).add_turns(1).await;
                of("deleted", n).delete().await;
            }
            if let Some(last) = listed.last().filter(|last| !last.as_str().contains("stable")) {
                owned.store.delete(last).await.must("a conversation can be deleted", &clause::DELETED);
            }
            step += 1;
        }
        assert!(listed.windows(2).all(|two| two[0].as_str() < two[1].as_str()), "{listed:?}");
        let found: Vec<_> = listed.iter().filter(|id| id.as_str().contains("stable")).collect();
        assert_eq!(found, stable.iter().map(|chat| &chat.id).collect::<Vec<_>>(), "{limit} a page");
        owned.erase(&under, 100).await;
    }
}

/// The same holds for changes at the same time as a page. Each entry is a state that the conversation had.
pub async fn a_listing_stays_right_during_changes(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIST_CURRENT;
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let under = owned.under(&["acme"]);
    let stable: Vec<Chat> = (0..6).map(|n| other.chat(&["acme", &format!("{n}-stable")])).collect();
    for chat in &stable {
        chat.add_turns(1).await;
    }
    let changing = async {
        for n in 0..24 {
            let changed = other.chat(&["acme", &format!("{}-changed", n % 6)]);
            match changed.append(Expect::Absent, turn_of("x")).await {
                Ok(_) => {}
                Err(StoreError::Conflict { .. }) => changed.delete().await,
                Err(error) => unexpected!("the append to be stored, or the refusal `Conflict`", error),
            }
            stable[n % 6].add_turns(1).await;
            pause().await;
        }
    };
    let listing = async {
        for limit in (1..=4).cycle().take(12) {
            let listed = owned.list(&under, limit).await;
            let found: Vec<_> = listed.iter().filter(|entry| entry.id.as_str().ends_with("stable")).collect();
            assert_eq!(found.len(), 6, "of {limit} a page");
            for entry in listed {
                let is_stable = entry.id.as_str().ends_with("stable");
                let exchange = turn_of(if is_stable { "turn 0" } else { "x" });
                let len = entry.revision.len();
                assert_eq!(entry.bytes, len * exchange.bytes() as u64, "of {len} exchanges");
            }
            pause().await;
        }
    };
    join(changing, listing).await;
}
