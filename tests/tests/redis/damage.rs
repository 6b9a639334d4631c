//! Keys that the server evicted, or that somebody else wrote to: never a wrong history.

use libtest_mimic::Trial;
use tests::servers::test;
use tower_chat_history_core::{
    Compact, CompactionVersion, ConversationId, Cut, HistoryStore, HistoryStoreExt, Load, Loaded, Profile, Seq,
    StoreError,
};

use crate::support::{PARTS, Place, append, conversation, key, say, texts, window};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("damage::a_conversation_that_lacks_a_key_is_corrupt", lacks_a_key),
        test("damage::a_conversation_that_lacks_an_exchange_is_corrupt", lacks_an_exchange),
        test("damage::a_key_of_another_kind_is_corrupt", another_kind),
        test("damage::a_record_that_is_none_is_named", no_record),
        test("damage::a_damaged_compaction_is_reported_without_quoting_it", damaged_compaction),
        test("damage::an_index_entry_that_is_none_is_named", no_entry),
        test("damage::a_truncation_removes_what_cannot_be_read", truncated),
    ]
}

/// Two conversations of three exchanges.
async fn place() -> (Place, ConversationId) {
    let place = Place::new().await;
    for name in ["damaged", "whole"] {
        for text in ["one", "two", "three"] {
            say(&place.store, &conversation(name), text).await;
        }
    }
    (place, conversation("damaged"))
}

fn is_quiet(error: &StoreError) {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("secret"), "{shown}");
        next = error.source();
    }
}

/// Asserts that every call but the deletion finds the conversation corrupt, and that a deletion mends it.
async fn is_corrupt(place: &Place, id: &ConversationId) {
    let store = &place.store;
    let incarnation = window(store, &conversation("whole")).await.revision.incarnation();
    let compact =
        Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut: Cut::window_from(Seq::new(1)) };
    for error in [
        store.load(id, Load::new()).await.unwrap_err(),
        store.append(id, append("four")).await.unwrap_err(),
        store.read(id, Seq::FIRST, 9).await.unwrap_err(),
        store.compact(id, incarnation, compact).await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Corrupt { conversation, .. } if conversation == id), "{error:?}");
        is_quiet(&error);
    }
    store.delete(id).await.unwrap();
    assert_eq!(store.load(id, Load::new()).await.unwrap(), Loaded::Absent);
    assert_eq!(say(store, id, "anew").await.seq, Seq::FIRST);
    assert_eq!(texts(store, &conversation("whole")).await, ["one", "two", "three"]);
}

async fn lacks_a_key() {
    for part in PARTS {
        let (mut place, id) = place().await;
        assert_eq!(place.run::<u64>(&["DEL", &key(&id, part)]), 1);
        is_corrupt(&place, &id).await;
    }
    // All but one.
    for part in PARTS {
        let (mut place, id) = place().await;
        for other in PARTS.into_iter().filter(|other| *other != part) {
            assert_eq!(place.run::<u64>(&["DEL", &key(&id, other)]), 1);
        }
        is_corrupt(&place, &id).await;
    }
}

async fn lacks_an_exchange() {
    for (part, pop) in [(":log", "LPOP"), (":log", "RPOP"), (":index", "LPOP"), (":index", "RPOP")] {
        let (mut place, id) = place().await;
        place.run::<Vec<u8>>(&[pop, &key(&id, part)]);
        is_corrupt(&place, &id).await;
    }
}

async fn another_kind() {
    for part in PARTS {
        let (mut place, id) = place().await;
        place.run::<()>(&["SET", &key(&id, part), "secret"]);
        is_corrupt(&place, &id).await;
    }
    for field in ["n", "f", "b", "x", "k"] {
        let (mut place, id) = place().await;
        place.run::<()>(&["HSET", &key(&id, ""), field, "secret"]);
        is_corrupt(&place, &id).await;
    }
}

async fn no_record() {
    for damage in ["{secret", "", r#"{"v":9}"#] {
        let (mut place, id) = place().await;
        place.run::<()>(&["LSET", &key(&id, ":log"), "1", damage]);
        for error in [
            place.store.load(&id, Load::new()).await.unwrap_err(),
            place.store.conversation(&id).messages().await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Corrupt { seq, .. } if seq == Seq::new(1)), "{error:?}");
            is_quiet(&error);
        }
        assert_eq!(place.store.read(&id, Seq::new(2), 9).await.unwrap().exchanges.len(), 1);
        assert_eq!(say(&place.store, &id, "four").await.seq, Seq::new(3), "the log goes on");
    }
}

async fn damaged_compaction() {
    let legal = "1 1 1 1 0 ab";
    for (positions, record) in [
        (legal, r#""secret""#),
        (legal, r#"{"v":9,"secret":1}"#),
        ("secret", r#"{"v":1,"window_start":1,"rounds_start":1,"cleared_before":1}"#),
        (legal, r#"{"v":1,"window_start":2,"rounds_start":1,"cleared_before":1}"#),
    ] {
        let (mut place, id) = place().await;
        place.run::<()>(&["HSET", &key(&id, ""), "v:default", positions, "c:default", record]);
        let error = place.store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{error:?}");
        is_quiet(&error);
        assert_eq!(place.store.conversation(&id).messages().await.unwrap().len(), 6);
        assert_eq!(say(&place.store, &id, "four").await.seq, Seq::new(3));
        let other = Load::new().profile(Profile::new("other").unwrap());
        assert!(matches!(place.store.load(&id, other).await.unwrap(), Loaded::Window(_)));
    }
}

async fn truncated() {
    let (mut place, id) = place().await;
    let cut = r#"{"v":1,"window_start":1,"rounds_start":1,"cleared_before":1}"#;
    place.run::<()>(&["HSET", &key(&id, ""), "v:default", "1 1 1 1 0 ab", "c:default", "secret"]);
    place.run::<()>(&["HSET", &key(&id, ""), "v:half", "1 1 1 1 0 ab"]);
    place.run::<()>(&["HSET", &key(&id, ""), "c:other", "secret"]);
    place.run::<()>(&["HSET", &key(&id, ""), "v:right", "1 1 1 1 0 ab", "c:right", cut]);
    assert_eq!(place.store.conversation(&id).truncate(Seq::new(2)).await.unwrap().removed, 1);
    let mut fields: Vec<String> = place.run(&["HKEYS", &key(&id, "")]);
    fields.retain(|field| field.contains(':'));
    fields.sort();
    assert_eq!(fields, ["c:right", "v:right"]);
    assert_eq!(texts(&place.store, &id).await, ["one", "two"]);
}

async fn no_entry() {
    for entry in ["", "secret"] {
        let (mut place, id) = place().await;
        place.run::<()>(&["LSET", &key(&id, ":index"), "2", entry]);
        for error in [
            place.store.load(&id, Load::new()).await.unwrap_err(),
            place.store.append(&id, append("four")).await.unwrap_err(),
            place.store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Corrupt { seq, .. } if seq == Seq::new(2)), "{error:?}");
            is_quiet(&error);
        }
    }
}
