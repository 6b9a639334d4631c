//! Erasures that are killed.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use tests::{Storage, over_every_store, rng::SeededRng};
use tower_chat_history::store::{Erase as _, EraseExt as _, List as _, Timestamp};

use super::world::{prefix, read_all, store};

over_every_store! {
    #[tokio::test]
    an_erasure_that_was_killed_is_completed_by_a_repeat,
}

/// The variable `KILLS` sets another number.
const KILLS: usize = 4;

/// The conversations of a person.
const CONVERSATIONS: usize = 300;

/// The number of conversations that the program `eraser` erases at a time.
const PAGE: usize = 20;

/// The number of erasures that are killed before one is completed.
const KILLS_EACH: usize = 4;

async fn an_erasure_that_was_killed_is_completed_by_a_repeat(storage: Storage) {
    let Some(address) = storage.address() else { return };
    let kills = std::env::var("KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let root = storage.conversation();
    let [erased, kept] = ["erased", "erased-2"].map(|person| format!("{root}/{person}"));
    for number in 0..20 {
        let id = format!("{kept}/{number}").parse().unwrap();
        store(&storage, &id, "kept", Timestamp::now()).await;
    }
    let before = read_all(&storage, &prefix(&kept)).await;
    let mut rng = SeededRng::new(1);
    let mut killed = 0;
    while killed < kills {
        for number in 0..CONVERSATIONS {
            let id = format!("{erased}/{number}").parse().unwrap();
            store(&storage, &id, "secret", Timestamp::now()).await;
        }
        for left in (1..=KILLS_EACH.min(kills - killed)).rev() {
            let stored = stored(&storage, &erased).await;
            // Each kill leaves some pages for the next one. The first page may only complete the one before it.
            let pages = 2 + rng.below((stored / PAGE / (left + 2)).max(1) as u64) as usize;
            let mut eraser = Command::new(env!("CARGO_BIN_EXE_eraser"));
            let eraser = eraser.args([&address, &erased]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut eraser = eraser.spawn().unwrap();
            // It is killed during the last admitted page, or when it waits for another one.
            let mut input = eraser.stdin.take().unwrap();
            input.write_all("\n".repeat(pages + 1).as_bytes()).unwrap();
            let mut output = BufReader::new(eraser.stdout.take().unwrap()).lines();
            for _ in 0..pages {
                assert_eq!(output.next().unwrap().unwrap(), "page");
            }
            eraser.kill().unwrap();
            eraser.wait().unwrap();
            killed += 1;
            let remaining = self::stored(&storage, &erased).await;
            assert!(0 < remaining && remaining < stored, "{remaining} of {stored}");
        }
        let receipt = storage.store.erase_all(&prefix(&erased)).await.unwrap();
        assert!(receipt.is_complete(), "{receipt:?}");
        assert_eq!(stored(&storage, &erased).await, 0);
    }
    assert!(storage.store.count(&prefix(&erased)).await.unwrap().total().is_nothing());
    assert_eq!(read_all(&storage, &prefix(&kept)).await, before, "nothing else was touched");
}

/// Returns the number of conversations of a person.
async fn stored(storage: &Storage, person: &str) -> usize {
    let (mut number, mut after) = (0, None);
    loop {
        let page = storage.store.list(&prefix(person), after.as_ref(), CONVERSATIONS).await.unwrap();
        number += page.conversations.len();
        after = page.next;
        if after.is_none() {
            return number;
        }
    }
}
