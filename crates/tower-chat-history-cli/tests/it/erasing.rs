//! `erase` and `expire`.

use tower_chat_history_core::{
    Append, Citation, ConversationId, Exchange, ExchangeId, Expect, HistoryStore as _, HistoryStoreExt as _, Message,
    Recalled, Seq,
};
use tower_chat_history_sqlite::SqliteStore;

use crate::support::{Place, Ran};

#[test]
fn nothing_is_erased_without_yes() {
    let place = Place::filled();
    let ran = place.run(&["erase", "acme/user-1"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("This would erase acme/user-1: 2 conversations with 4 exchanges"), "{ran:?}");
    assert!(ran.err.contains("Add --yes"), "{ran:?}");
    assert_eq!(place.run(&["list", "--json"]).ok().lines().count(), 4);
}

#[test]
fn an_erasure_prints_its_receipt() {
    let place = Place::filled();
    let receipt = place.run(&["erase", "acme/user-1", "--yes"]).json();
    assert_eq!(receipt["under"], "acme/user-1");
    assert_eq!(receipt["removed"]["sqlite"]["exchanges"], 4);
    assert_eq!(receipt["remaining"]["sqlite"]["exchanges"], 0);
    assert!(receipt["started_at"].as_u64() <= receipt["ended_at"].as_u64());
    let left = place.run(&["list", "--json"]).ok();
    assert!(left.lines().count() == 2 && left.contains("acme/user-10") && left.contains("other/user-1"), "{left}");
    let again = place.run(&["erase", "acme/user-1", "--yes"]);
    assert!(again.err.contains("Nothing was stored"), "{again:?}");
    let again = again.json();
    assert_eq!(again["removed"]["sqlite"]["conversations"], 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_receipt_that_cannot_be_written_is_not_lost() {
    let place = Place::filled();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ran: Ran = place
        .command("chat.db", &["erase", "acme/user-1", "--yes"])
        .stdout(full)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap()
        .into();
    assert_eq!(ran.code, Some(1));
    let receipt = &ran.err[..=ran.err.rfind('}').unwrap()];
    let receipt: serde_json::Value = serde_json::from_str(receipt).unwrap();
    assert_eq!(receipt["removed"]["sqlite"]["exchanges"], 4);
}

#[test]
fn everything_is_erased_only_on_explicit_request() {
    let place = Place::filled();
    assert_eq!(place.run(&["erase", "--yes"]).code, Some(2));
    for args in [&["erase", "", "--yes"][..], &["expire", "", "--idle", "0d", "--yes"]] {
        let ran = place.run(args);
        assert!(ran.code == Some(2) && ran.err.contains("use --all"), "{ran:?}");
    }
    assert_eq!(place.run(&["list", "--json"]).ok().lines().count(), 4);
    let receipt = place.run(&["erase", "--all", "--yes"]).json();
    assert_eq!((&receipt["under"], &receipt["removed"]["sqlite"]["conversations"]), (&"".into(), &4.into()));
}

#[test]
fn a_scrubbed_file_has_nothing_of_what_was_erased() {
    let place = Place::filled();
    let has_secret = || {
        let file = |name| std::fs::read(place.path(name)).unwrap_or_default();
        let files = [file("chat.db"), file("chat.db-wal")].concat();
        files.windows(8).any(|bytes| bytes == b"question")
    };
    assert!(has_secret());
    let receipt = place.run(&["erase", "--all", "--yes", "--scrub"]);
    assert!(receipt.err.contains("left to you") && receipt.err.contains("backups"), "{receipt:?}");
    let receipt = receipt.json();
    assert!(!receipt["scrubbed"]["done"].as_array().unwrap().is_empty());
    assert!(!has_secret());
}

#[test]
fn quotes_of_an_erased_conversation_are_removed_on_request() {
    let place = Place::empty();
    let id = |text: &str| -> ConversationId { text.parse().unwrap() };
    place.append("acme/user-1/told", "t", 1, [Message::user("My dog is called Rex.")]);
    let quotes = |store: &SqliteStore, user: &str| {
        let (store, id) = (store.clone(), id(&format!("acme/{user}/asked")));
        async move { store.conversation(&id).exchanges().await.unwrap()[0].exchange.recalled.is_some() }
    };
    place.with_store(async |store| {
        for user in ["user-1", "user-2"] {
            let mut exchange = Exchange::new(ExchangeId::new("q").unwrap(), [Message::user("What is it called?")]);
            let cited = Citation::new(Seq::FIRST, 0..1).of(id(&format!("acme/{user}/told")));
            exchange.recalled = Some(Recalled::new("Rex", vec![cited]));
            let asked = id(&format!("acme/{user}/asked"));
            store.append(&asked, Append::new(Expect::Absent, exchange)).await.unwrap();
        }
    });
    place.run(&["erase", "acme/user-1/told", "--yes"]).json();
    place.with_store(async |store| assert!(quotes(store, "user-1").await, "an erasure leaves them"));
    let ran = place.run(&["erase", "acme/user-1/told", "--yes", "--quotes-under", "acme/user-1"]);
    assert!(ran.err.contains("Removed quotes from 1 of 1 conversation."), "{ran:?}");
    assert_eq!(ran.json()["under"], "acme/user-1/told");
    place.with_store(async |store| {
        assert_eq!((quotes(store, "user-1").await, quotes(store, "user-2").await), (false, true));
    });
}

#[test]
fn old_conversations_expire() {
    let place = Place::filled();
    place.append("acme/user-1/new", "n", now(), []);
    let dry = place.run(&["expire", "acme", "--idle", "30d", "--dry-run"]).json();
    assert_eq!(dry["idle_seconds"], 30 * 24 * 60 * 60);
    assert_eq!((&dry["due"], &dry["examined"], &dry["removed"]), (&3.into(), &4.into(), &serde_json::json!({})));
    assert_eq!(place.run(&["list", "--json"]).ok().lines().count(), 5);
    let receipt = place.run(&["expire", "acme", "--older-than", "30d", "--yes"]).json();
    assert_eq!(receipt["removed"]["sqlite"]["conversations"], 3);
    let left = place.run(&["list", "--json"]).ok();
    assert!(left.lines().count() == 2 && left.contains("acme/user-1/new"), "{left}");
}

fn now() -> u64 {
    tower_chat_history_core::Timestamp::now().as_unix_millis()
}
