//! Conversations with similar ids stay separate.

use super::support::*;

/// Fills a conversation under each id. Asserts that each has only its own exchanges and compaction, also while the
/// others are deleted one after the other.
async fn stay_apart(fixture: &dyn Fixture, ids: Vec<ConversationId>) {
    let store = Chat::new(fixture).await;
    let chats: Vec<Chat> = ids.into_iter().map(|id| store.with_id(id)).collect();
    let mut filled = Vec::new();
    for chat in &chats {
        chat.assert_absent().await;
        let log = chat.add_all([turn_of(chat.id.as_str()), turn_of("second")]).await;
        let compaction = chat.cut(NONE, summary_to(1, chat.id.as_str())).await;
        filled.push((log, compaction));
    }

    for (deleted, last) in chats.iter().enumerate() {
        for (chat, (log, compaction)) in chats.iter().zip(&filled).skip(deleted) {
            assert_eq!(chat.log().await, *log, "{}", chat.id);
            let window = chat.now().await;
            assert_eq!(window.compaction.as_ref(), Some(compaction), "{}", chat.id);
            assert_eq!(window.exchanges, log[1..], "{}", chat.id);
        }
        last.delete().await;
        last.assert_absent().await;
    }
}

/// Does the same with ids that have these parts below the same unused ones.
async fn parts_stay_apart(fixture: &dyn Fixture, parts: &[&[&str]]) {
    let base = unused_id();
    stay_apart(fixture, parts.iter().map(|parts| below(&base, parts)).collect()).await;
}

/// Does the same with ids that differ in one part.
async fn endings_stay_apart(fixture: &dyn Fixture, endings: &[&str]) {
    let base = unused_id();
    stay_apart(fixture, endings.iter().map(|ending| below(&base, &[ending])).collect()).await;
}

/// A delimiter within a part makes a different id than two parts.
pub async fn delimiters_make_other_ids(fixture: &dyn Fixture) {
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
    parts_stay_apart(fixture, &parts).await;
}

/// The same letters split differently are different conversations. So are ids that are prefixes of each other, by whole
/// parts or within a part.
pub async fn parts_split_differently_are_other_ids(fixture: &dyn Fixture) {
    let split: [&[&str]; 6] = [&["abc"], &["a", "bc"], &["ab", "c"], &["a", "b", "c"], &["abc", "-"], &["-", "abc"]];
    parts_stay_apart(fixture, &split).await;
    let prefixes: [&[&str]; 6] = [&[], &["a"], &["a", "b"], &["ab"], &["a", "b", "c"], &["a", "bc"]];
    parts_stay_apart(fixture, &prefixes).await;
}

/// Letters are compared byte by byte: composed and decomposed letters differ, and so do letters that look alike, upper
/// case, lower case and white space.
pub async fn similar_letters_make_other_ids(fixture: &dyn Fixture) {
    let unicode = ["é", "e\u{301}", "e", "É", "\u{212b}", "Å", "ﬁ", "fi", "а", "a\u{200b}", "a"];
    endings_stay_apart(fixture, &unicode).await;
    let case = ["user", "User", "USER", "user ", " user", "user\n", "usér", "%75ser"];
    endings_stay_apart(fixture, &case).await;
}

/// Wildcards and characters with a meaning in queries, paths and patterns are ordinary characters.
pub async fn wildcards_are_ordinary_characters(fixture: &dyn Fixture) {
    let endings =
        ["a_b", "a%b", "a*b", "a?b", "axb", "[a]b", "a\\b", "a'b", "a\"b", "a;b", ".", "..", "~", "a.b", "{a}b"];
    endings_stay_apart(fixture, &endings).await;
}

/// Ids of the maximum length that differ only in their last byte stay separate, and so do those with the maximum number
/// of parts.
pub async fn the_longest_ids_stay_apart(fixture: &dyn Fixture) {
    let base = unused_id();
    let room = ConversationId::MAX_LEN - base.as_str().len() - 1;
    let shorter = "x".repeat(room - 1);
    let longest = ["a", "b", "x"].map(|end| format!("{shorter}{end}"));
    endings_stay_apart(fixture, &[&longest[0], &longest[1], &longest[2], &shorter]).await;

    let most = ConversationId::MAX_PARTS - base.parts().count();
    let full = vec!["p"; most];
    parts_stay_apart(fixture, &[&full, &full[1..], &[&"p".repeat(most)]]).await;
}
