//! Conversations with similar ids stay separate.

use tower_chat_history_core::{CompactionVersion, ConversationId, Load};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::IDS;

/// Fills a conversation under each id. Asserts that each has only its own exchange and compaction, also while the
/// others are deleted one after the other.
async fn stay_apart(fixture: &dyn Fixture, ids: Vec<ConversationId>) {
    let store = Chat::new(fixture).await;
    let chats: Vec<Chat> = ids.into_iter().map(|id| store.with_id(id)).collect();
    let mut filled = Vec::new();
    for chat in &chats {
        chat.assert_absent().await;
        let log = [chat.add(turn_of(chat.id.as_str())).await, chat.add(turn_of("second")).await];
        filled.push((log, chat.cut(CompactionVersion::NONE, summary_to(1, chat.id.as_str())).await));
    }
    for (deleted, last) in chats.iter().enumerate() {
        for (chat, (log, compaction)) in chats.iter().zip(&filled).skip(deleted) {
            assert_eq!(chat.log().await, log, "{}", chat.id);
            let window = chat.window(Load::new()).await;
            assert_eq!(window.compaction.as_ref(), Some(compaction), "{}", chat.id);
            assert_eq!(window.exchanges, log[1..], "{}", chat.id);
        }
        last.delete().await;
        last.assert_absent().await;
    }
}

/// Returns ids that differ in their last part, below the same unused parts.
fn ending_with(parts: &[&str]) -> Vec<ConversationId> {
    let base = unused_id([]);
    parts.iter().map(|part| below(&base, &[part])).collect()
}

fn below(base: &ConversationId, parts: &[&str]) -> ConversationId {
    let base: Vec<_> = base.parts().collect();
    let parts = base.iter().map(AsRef::as_ref).chain(parts.iter().copied());
    ConversationId::new(parts).expect("the parts are legal")
}

/// A delimiter within a part makes a different id than two parts.
pub async fn delimiters_make_other_ids(fixture: &dyn Fixture) {
    let base = unused_id([]);
    let parts: [&[&str]; 10] = [
        &["a", "b", "c"],
        &["a/b", "c"],
        &["a", "b/c"],
        &["a/b/c"],
        &["a%2Fb", "c"],
        &["a:b:c"],
        &["a:b", "c"],
        &["a|b", "c"],
        &["a\u{0}b", "c"],
        &["ab", "c"],
    ];
    stay_apart(fixture, parts.iter().map(|parts| below(&base, parts)).collect()).await;
}

/// The same letters split differently are different conversations.
pub async fn parts_split_differently_are_other_ids(fixture: &dyn Fixture) {
    let base = unused_id([]);
    let parts: [&[&str]; 6] = [&["abc"], &["a", "bc"], &["ab", "c"], &["a", "b", "c"], &["abc", "-"], &["-", "abc"]];
    stay_apart(fixture, parts.iter().map(|parts| below(&base, parts)).collect()).await;
}

/// Unicode is compared byte by byte: composed and decomposed letters differ, and so do letters that look alike.
pub async fn unicode_forms_are_other_ids(fixture: &dyn Fixture) {
    stay_apart(fixture, ending_with(&["é", "e\u{301}", "e", "É", "\u{212b}", "Å", "ﬁ", "fi", "а", "a\u{200b}", "a"]))
        .await;
}

/// Upper case, lower case and white space make different ids.
pub async fn case_and_white_space_make_other_ids(fixture: &dyn Fixture) {
    stay_apart(fixture, ending_with(&["user", "User", "USER", "user ", " user", "user\n", "usér", "%75ser"])).await;
}

/// Ids that are prefixes of each other are different conversations, by whole parts or within a part.
pub async fn prefixes_are_other_ids(fixture: &dyn Fixture) {
    let base = unused_id([]);
    let mut ids = vec![base.clone()];
    ids.extend(
        [&["a"] as &[&str], &["a", "b"], &["ab"], &["a", "b", "c"], &["a", "bc"]].map(|parts| below(&base, parts)),
    );
    stay_apart(fixture, ids).await;
}

/// Wildcards and characters with a meaning in queries, paths and patterns are ordinary characters.
pub async fn wildcards_are_ordinary_characters(fixture: &dyn Fixture) {
    let parts =
        ["a_b", "a%b", "a*b", "a?b", "axb", "[a]b", "a\\b", "a'b", "a\"b", "a;b", ".", "..", "~", "a.b", "{a}b"];
    stay_apart(fixture, ending_with(&parts)).await;
}

/// Ids of the maximum length that differ only in their last byte stay separate.
pub async fn the_longest_ids_stay_apart(fixture: &dyn Fixture) {
    let base = unused_id([]);
    let room = ConversationId::MAX_LEN - base.as_str().len() - 1;
    let longest = |end: &str| below(&base, &[&format!("{}{end}", "x".repeat(room - end.len()))]);
    let ids = vec![longest("a"), longest("b"), longest(""), below(&base, &[&"x".repeat(room - 1)])];
    debug_assert!(ids[..3].iter().all(|id| id.as_str().len() == ConversationId::MAX_LEN));
    stay_apart(fixture, ids).await;
}

/// Ids with the maximum number of parts stay separate.
pub async fn the_most_parts_stay_apart(fixture: &dyn Fixture) {
    let base = unused_id([]);
    let most = ConversationId::MAX_PARTS - base.parts().count();
    let (full, one_less) = (vec!["p"; most], vec!["p"; most - 1]);
    stay_apart(fixture, vec![below(&base, &full), below(&base, &one_less), below(&base, &[&"p".repeat(most)])]).await;
}
