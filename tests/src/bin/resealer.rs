//! A process that replaces the key of a prefix and seals everything under it again, for tests that kill it. Its
//! arguments are the address of a store, the directory of a vault, and the prefix. After its first line, it reads a
//! line before each step, and prints a line for each step.

#![allow(clippy::unwrap_used)] // A failed setup fails the test.

use std::io::Write as _;

use tests::{MASTER_KEY, Storage};
use tower_chat_history::store::{Prefix, Profile};
use tower_chat_history_encryption::{DirectoryVault, EncryptedStore, KeyRing, Keys};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, vault, under] = arguments.as_slice() else { panic!("expected an address, a vault and a prefix") };
    let under: Prefix = under.parse().unwrap();
    let vault = DirectoryVault::open(vault).unwrap();
    let parts = under.as_id().unwrap().parts().count();
    let keys = Keys::new(KeyRing::parse(MASTER_KEY).unwrap(), vault, parts);
    let store = EncryptedStore::new(Storage::open_address(address).await.plain().await, keys);
    say("begins");
    wait();
    assert!(store.keys().rotate(&under).await.unwrap());
    say("rotated");
    let mut after = None;
    loop {
        wait();
        let run = store.reseal(&under, &[Profile::default()], after.as_ref(), 1).await.unwrap();
        assert_eq!(run.failed, 0, "{:?}", run.first_failure);
        say("page");
        after = run.next;
        if after.is_none() {
            break;
        }
    }
    say("done");
}

/// Waits for a line, which admits a step. Without one, the process ends.
fn wait() {
    if std::io::stdin().read_line(&mut String::new()).unwrap() == 0 {
        std::process::exit(1);
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}
