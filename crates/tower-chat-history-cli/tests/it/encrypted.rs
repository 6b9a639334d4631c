//! Conversations that are encrypted at rest, of which the program has no keys.

use std::sync::Arc;

use tower_chat_history_core::{
    Append, Compact, CompactionVersion, Exchange, ExchangeId, Expect, HistoryStore as _, Labels, Message, Profile,
    Recalled, Sealed, Seq,
};

use crate::support::Place;

/// The text of something that is encrypted.
fn ciphertext() -> String {
    "AQ-_".repeat(300)
}

/// Returns a place with an encrypted conversation, with encrypted recalled messages, labels and compaction.
fn encrypted() -> Place {
    let place = Place::filled();
    let mut exchange = Exchange::new(ExchangeId::new("sealed").unwrap(), Vec::<Message>::new());
    exchange.sealed = Some(Sealed::new(ciphertext(), 2, 1_000, 0).unwrap());
    exchange.recalled = Some(Recalled::new(ciphertext(), Vec::new()));
    let append = Append::new(Expect::AnyOrCreate, exchange);
    let ciphertext_of_summary = Some(Arc::from(ciphertext().as_bytes()));
    let state = Arc::from(&br#"{"v":1,"cut":[]}"#[..]);
    let compact = Compact::new(Profile::default(), CompactionVersion::NONE, Seq::FIRST, state, ciphertext_of_summary);
    let append = append.compact(compact);
    place.with_store(async |store| store.append(&"acme/sealed".parse().unwrap(), append).await.unwrap());
    place.set_labels("acme/sealed", Labels::sealed(ciphertext()).unwrap());
    place
}

#[test]
fn a_check_names_encrypted_content_as_not_checked() {
    let ran = encrypted().run(&["verify"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.err.contains("1 exchange is encrypted, and the content was not checked."), "{ran:?}");
}

#[test]
fn encrypted_content_is_named_and_not_shown() {
    let place = encrypted();
    for args in [&["show", "acme/sealed"][..], &["show", "acme/sealed", "--long"]] {
        let shown = place.run(args).ok();
        let (head, exchange) = shown.split_once("\n\n").unwrap();
        assert_eq!(head.lines().next_back(), Some("(encrypted labels)"), "{shown}");
        let rest = exchange.split_once('\n').unwrap().1;
        assert_eq!(rest, "recalled\n  (encrypted)\n(encrypted: 2 messages, 1.0 kB)\n", "{shown}");
    }
}

#[test]
fn a_prompt_of_encrypted_messages_cannot_be_explained() {
    for args in [&["explain", "acme/sealed"][..], &["explain", "acme/sealed", "0"]] {
        let ran = encrypted().run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        assert!(ran.err.contains("exchange 0 is encrypted"), "{ran:?}");
    }
}

#[test]
fn encrypted_labels_are_named_and_not_listed() {
    let list = encrypted().run(&["list", "acme/sealed"]).ok();
    assert!(list.ends_with("acme/sealed  (encrypted labels)\n"), "{list}");
}

#[test]
fn a_label_of_the_users_own_that_is_named_sealed_is_shown() {
    let place = Place::filled();
    for value in ["letters", &"sealed letters, ".repeat(20)] {
        let shown = value.split(' ').next().unwrap();
        place.set_labels("acme/user-10", Labels::new([("sealed", value)]).unwrap());
        assert!(place.run(&["list", "acme/user-10"]).ok().contains(&format!("  sealed={shown}")));
        assert!(place.run(&["show", "acme/user-10"]).ok().contains(&format!("\nsealed: {shown}")));
    }
}
