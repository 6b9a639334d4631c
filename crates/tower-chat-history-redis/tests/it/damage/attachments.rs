//! Damaged attachments. They can be derived again, so those that lost a key are absent, and the log is not affected.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Attach, ConversationId, Derived, HistoryStore, HistoryStoreExt, PruneTo, Seq, StoreError,
};

use super::{assert_no_secret, setup};
use crate::support::{PARTS, TestServer, attach, attached, attachment, key, name, say, texts, window};

pub(super) fn tests() -> Vec<Trial> {
    trials![
        attachments_that_lost_a_key_are_absent_and_can_be_stored_again,
        attachments_that_lost_an_element_are_absent,
        attachments_that_lost_a_key_are_removed,
        damaged_attachments_are_reported_without_quoting_them,
        attachments_without_a_conversation_are_corrupt,
        attachments_of_a_damaged_log_are_not_read,
    ]
}

const KEYS: [&str; 2] = [":attached", ":bodies"];

/// Adds two attachments.
async fn attaching() -> (TestServer, ConversationId) {
    let (test, id) = setup().await;
    attach(&test.store, &id, &[attachment("a", 0, b"secret zero"), attachment("a", 2, b"secret two")]).await;
    (test, id)
}

async fn assert_absent_and_mended(test: &TestServer, id: &ConversationId, what: &str) {
    assert_eq!(attached(&test.store, id, "a").await, [], "{what}");
    assert_eq!(texts(&test.store, id).await, ["one", "two", "three"], "{what}");
    assert_eq!(say(&test.store, id, "four").await.seq, Seq::new(3), "{what}");
    let put = [attachment("a", 0, b"new"), attachment("a", 1, b"one")];
    attach(&test.store, id, &put).await;
    assert_eq!(attached(&test.store, id, "a").await, put, "{what}");
}

async fn attachments_that_lost_a_key_are_absent_and_can_be_stored_again() {
    for part in KEYS {
        let (mut test, id) = attaching().await;
        assert_eq!(test.run::<u64>(&["DEL", &key(&id, part)]), 1);
        assert_absent_and_mended(&test, &id, part).await;
        let (mut test, id) = attaching().await;
        test.run::<()>(&["SET", &key(&id, part), "secret"]);
        assert_absent_and_mended(&test, &id, part).await;
    }
    let (mut test, id) = attaching().await;
    for part in KEYS {
        test.run::<()>(&["DEL", &key(&id, part)]);
    }
    assert_absent_and_mended(&test, &id, "both").await;
}

async fn attachments_that_lost_an_element_are_absent() {
    let (mut test, id) = attaching().await;
    test.run::<()>(&["HDEL", &key(&id, ":bodies"), "a 0000000000000000"]);
    assert_absent_and_mended(&test, &id, "a body").await;
    let (mut test, id) = attaching().await;
    test.run::<()>(&["ZREMRANGEBYRANK", &key(&id, ":attached"), "0", "0"]);
    assert_absent_and_mended(&test, &id, "a member").await;
    // A conversation that has no attachments.
    let (mut test, id) = setup().await;
    test.run::<()>(&["HSET", &key(&id, ":bodies"), "a 0000000000000000", "secret"]);
    assert_absent_and_mended(&test, &id, "an unknown body").await;
}

/// A truncation and an erasure also remove data that no member names any more.
async fn attachments_that_lost_a_key_are_removed() {
    for erases in [false, true] {
        for part in KEYS {
            let (mut test, id) = attaching().await;
            test.run::<()>(&["DEL", &key(&id, part)]);
            let store = test.store.clone();
            let conversation = store.conversation(&id);
            if erases {
                conversation.prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
            } else {
                conversation.truncate(Seq::new(2)).await.unwrap();
            }
            for part in KEYS {
                assert!(!test.run::<bool>(&["EXISTS", &key(&id, part)]), "{part} is left");
            }
        }
    }
    // A member that cannot be read may describe anything.
    let (mut test, id) = attaching().await;
    test.run::<()>(&["ZADD", &key(&id, ":attached"), "0", "secret"]);
    test.run::<()>(&["ZREMRANGEBYRANK", &key(&id, ":attached"), "1", "1"]);
    test.store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
    assert!(!test.run::<bool>(&["EXISTS", &key(&id, ":attached")]));
}

async fn damaged_attachments_are_reported_without_quoting_them() {
    let (member, field) = ("a 000000000000000000000000000000010000000b", "a 0000000000000000");
    for other in [
        "a secret",
        // The size, the range, and the form of the digits.
        "a 000000000000000000000000000000010000000c",
        "a 00000000000000000000000000000001000secret",
        "a 000000000000000000000000000000000000000b",
        "a 000000000000000000000000000000990000000b",
        "a 0000000000000000000000000000000A0000000b",
    ] {
        let (mut test, id) = attaching().await;
        assert_eq!(test.run::<u64>(&["ZREM", &key(&id, ":attached"), member]), 1);
        test.run::<()>(&["ZADD", &key(&id, ":attached"), "0", other]);
        assert_damaged(&test, &id, other).await;
    }
    for body in ["", "secret", "secret and more"] {
        let (mut test, id) = attaching().await;
        test.run::<()>(&["HSET", &key(&id, ":bodies"), field, body]);
        assert_damaged(&test, &id, body).await;
    }
    let (mut test, id) = attaching().await;
    test.run::<()>(&["HDEL", &key(&id, ":bodies"), field]);
    test.run::<()>(&["HSET", &key(&id, ":bodies"), "other", "secret"]);
    assert_damaged(&test, &id, "another body").await;
}

async fn assert_damaged(test: &TestServer, id: &ConversationId, what: &str) {
    let error = test.store.attachments(id, &[name("a")], usize::MAX).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { .. }), "{what}: {error:?}");
    assert_no_secret(&error);
    assert_eq!(texts(&test.store, id).await, ["one", "two", "three"], "{what}");
}

async fn attachments_without_a_conversation_are_corrupt() {
    let (mut test, id) = attaching().await;
    for part in PARTS {
        test.run::<()>(&["DEL", &key(&id, part)]);
    }
    super::assert_corrupt(&test, &id).await;
    assert_eq!(attached(&test.store, &id, "a").await, [], "the deletion removed them");
}

async fn attachments_of_a_damaged_log_are_not_read() {
    let (mut test, id) = attaching().await;
    let incarnation = window(&test.store, &id).await.revision.incarnation();
    test.run::<()>(&["DEL", &key(&id, ":log")]);
    for error in [
        test.store.attachments(&id, &[name("a")], 9).await.unwrap_err(),
        test.store.pick(&id, &[Seq::FIRST]).await.unwrap_err(),
        test.store.attach(&id, incarnation, &[], &[attachment("a", 1, b"x")]).await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Corrupt { .. }), "{error:?}");
    }
    test.store.delete(&id).await.unwrap();
}
