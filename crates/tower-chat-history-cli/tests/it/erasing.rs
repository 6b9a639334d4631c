//! `erase` and `expire`.

use crate::support::Place;

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
    let again = place.run(&["erase", "acme/user-1", "--yes"]).json();
    assert_eq!(again["removed"]["sqlite"]["conversations"], 0);
}

#[test]
fn everything_is_erased_only_on_explicit_request() {
    let place = Place::filled();
    assert_eq!(place.run(&["erase", "--yes"]).code, Some(2));
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
fn old_conversations_expire() {
    let place = Place::filled();
    place.append("acme/user-1/new", "n", now(), []);
    let dry = place.run(&["expire", "acme", "--idle", "30d", "--dry-run"]).json();
    assert_eq!(dry["idle_seconds"], 30 * 24 * 60 * 60);
    assert_eq!((&dry["due"], &dry["examined"], &dry["removed"]), (&3.into(), &4.into(), &serde_json::json!({})));
    assert_eq!(place.run(&["list", "--json"]).ok().lines().count(), 5);
    let receipt = place.run(&["expire", "acme", "--older-than", "30d"]).json();
    assert_eq!(receipt["removed"]["sqlite"]["conversations"], 3);
    let left = place.run(&["list", "--json"]).ok();
    assert!(left.lines().count() == 2 && left.contains("acme/user-1/new"), "{left}");
}

fn now() -> u64 {
    tower_chat_history_core::Timestamp::now().as_unix_millis()
}
