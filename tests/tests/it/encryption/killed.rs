//! Rotations and passes that are killed.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use tests::{MASTER_KEY, Storage, over_every_store, rng::SeededRng};
use tower_chat_history::{
    HistoryStore as _,
    store::{Load, Loaded, Prefix, Profile, Timestamp},
};
use tower_chat_history_encryption::{DirectoryVault, EncryptedStore, KeyRing, Keys};

use crate::erasure::world::{Content, contents, prefix, store};

over_every_store! {
    #[tokio::test]
    a_pass_that_was_killed_loses_nothing_and_is_completed_by_a_repeat,
}

/// The variable `KILLS` sets another number.
const KILLS: usize = 4;

/// The conversations of a person.
const CONVERSATIONS: u64 = 12;

/// The number of kills before a pass is completed.
const KILLS_EACH: usize = 4;

fn keys(vault: &Path, of: &Prefix) -> Keys {
    let parts = of.as_id().unwrap().parts().count();
    Keys::new(KeyRing::parse(MASTER_KEY).unwrap(), DirectoryVault::open(vault).unwrap(), parts)
}

/// Reads everything of two people as another process would, with keys from the vault.
async fn read(storage: &Storage, vault: &Path, people: &[Prefix; 2]) -> Vec<(String, Content, Option<String>)> {
    let storage = storage.with_keys(keys(vault, &people[0])).await;
    let mut read = Vec::new();
    for person in people {
        for (id, content) in contents(&storage, person).await {
            let Loaded::Window(window) = storage.store.load(&id.parse().unwrap(), Load::new()).await.unwrap() else {
                panic!("{id} is not there")
            };
            let summary = window.compaction.and_then(|compaction| compaction.cut.summary);
            read.push((id, content, summary.map(|summary| summary.text)));
        }
    }
    read
}

async fn a_pass_that_was_killed_loses_nothing_and_is_completed_by_a_repeat(storage: Storage) {
    let Some(address) = storage.address() else { return };
    let kills = std::env::var("KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let vault = tempfile::tempdir().unwrap();
    let vault = vault.path();
    let root = storage.conversation();
    let people = ["ann", "ben"].map(|person| prefix(&format!("{root}/{person}")));
    let writer = storage.with_keys(keys(vault, &people[0])).await;
    for person in &people {
        for number in 0..CONVERSATIONS {
            store(&writer, &format!("{person}/{number}").parse().unwrap(), "secret", Timestamp::now()).await;
        }
    }
    let before = read(&storage, vault, &people).await;
    assert_eq!(before.len() as u64, 2 * CONVERSATIONS);
    let mut rng = SeededRng::new(1);
    let mut killed = 0;
    while killed < kills {
        for _ in 0..KILLS_EACH.min(kills - killed) {
            let mut resealer = Command::new(env!("CARGO_BIN_EXE_resealer"));
            let resealer = resealer.args([&address, vault.to_str().unwrap(), people[0].as_str()]);
            let mut resealer = resealer.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            // The first line is before the rotation. It is killed during the step after these lines, or when it waits
            // for another one.
            let lines = 1 + rng.below(CONVERSATIONS) as usize;
            let mut input = resealer.stdin.take().unwrap();
            input.write_all("\n".repeat(lines).as_bytes()).unwrap();
            let mut output = BufReader::new(resealer.stdout.take().unwrap()).lines();
            for _ in 0..lines {
                output.next().unwrap().unwrap();
            }
            resealer.kill().unwrap();
            resealer.wait().unwrap();
            killed += 1;
            assert!(output.all(|line| line.unwrap() != "done"), "it was interrupted");
            assert_eq!(read(&storage, vault, &people).await, before, "everything opens");
        }
        let sealed = EncryptedStore::new(storage.plain().await, keys(vault, &people[0]));
        let pass = async || {
            let run = sealed.reseal(&people[0], &[Profile::default()], None, usize::MAX).await.unwrap();
            assert_eq!((run.failed, run.next.is_none()), (0, true), "{:?}", run.first_failure);
            run.items
        };
        assert!(sealed.keys().rotate(&people[0]).await.unwrap());
        assert!(pass().await > 0);
        assert_eq!(pass().await, 0, "everything has the newest key");
        assert_eq!(read(&storage, vault, &people).await, before, "everything opens");
    }
}
