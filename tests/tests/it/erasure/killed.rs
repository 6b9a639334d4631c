//! Erasures that are killed.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Command, Stdio},
    time::Duration,
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

/// A person has this many conversations, which take longer to erase than a process to start.
const CONVERSATIONS: usize = 300;

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
    let (mut killed, mut interrupted) = (0, 0);
    while killed < kills {
        for number in 0..CONVERSATIONS {
            let id = format!("{erased}/{number}").parse().unwrap();
            if storage
                .store
                .list(&prefix(&format!("{erased}/{number}")), None, 1)
                .await
                .unwrap()
                .conversations
                .is_empty()
            {
                store(&storage, &id, "secret", Timestamp::now()).await;
            }
        }
        // Several erasures are killed before one is completed.
        for _ in 0..4.min(kills - killed) {
            let mut eraser = Command::new(env!("CARGO_BIN_EXE_eraser"));
            let mut eraser = eraser.args([&address, &erased]).stdout(Stdio::piped()).spawn().unwrap();
            let (mut line, mut rest) = (String::new(), String::new());
            let mut output = BufReader::new(eraser.stdout.take().unwrap());
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "begins\n");
            std::thread::sleep(Duration::from_micros(rng.below(20_000)));
            eraser.kill().unwrap();
            eraser.wait().unwrap();
            output.read_to_string(&mut rest).unwrap();
            killed += 1;
            // An erasure that was done has printed its receipt.
            interrupted += usize::from(rest.is_empty());
        }
        let receipt = storage.store.erase_all(&prefix(&erased)).await.unwrap();
        assert!(receipt.is_complete(), "{receipt:?}");
    }
    // The output of a test that succeeds is shown with `--nocapture`.
    println!("{interrupted} of {killed} erasures were interrupted");
    assert!(interrupted > 0, "all erasures were done before they were killed");
    assert!(storage.store.count(&prefix(&erased)).await.unwrap().total().is_nothing());
    assert_eq!(read_all(&storage, &prefix(&kept)).await, before, "nothing else was touched");
}
