//! The contract of vaults.

use tower_chat_history::encryption::{
    DataKey, DirectoryVault, EntryId, KeyError, KeyId, MemoryVault, Vault, WrappedKey,
};
use tower_chat_history_core::Prefix;

fn key(byte: u8) -> DataKey {
    DataKey::new(KeyId::from_bytes([byte; 8]), WrappedKey::new("m", vec![byte; 72]))
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn entry(text: &str) -> EntryId {
    EntryId::of(&prefix(text))
}

/// Lists the entries in pages of this size.
async fn listed(vault: &dyn Vault, limit: usize) -> Vec<EntryId> {
    let mut all = Vec::new();
    loop {
        let page = vault.list(all.last(), limit).await.unwrap();
        if page.is_empty() {
            return all;
        }
        assert!(page.len() <= limit);
        all.extend(page);
    }
}

async fn obeys_the_contract(vault: &dyn Vault) {
    let (of, other) = (entry("acme/anna"), entry("acme/ann"));
    assert_eq!(vault.read(&of).await.unwrap(), []);
    assert!(!vault.add_if(&of, Some(key(1).id), &key(2)).await.unwrap(), "there is no current key");
    assert!(vault.add_if(&of, None, &key(1)).await.unwrap());
    assert!(!vault.add_if(&of, None, &key(2)).await.unwrap(), "there is a current key");
    assert!(!vault.add_if(&of, Some(key(1).id), &key(1)).await.unwrap(), "an id is used once");
    assert!(vault.add_if(&of, Some(key(1).id), &key(2)).await.unwrap());
    assert!(vault.add_if(&other, None, &key(3)).await.unwrap());
    assert_eq!(vault.read(&of).await.unwrap(), [key(1), key(2)]);
    let mut both = [of, other];
    both.sort();
    for limit in [1, 2, 3] {
        assert_eq!(listed(vault, limit).await, both);
    }
    let again = DataKey::new(key(1).id, WrappedKey::new("n", vec![9]));
    assert!(!vault.replace(&of, &key(1), &key(4)).await.unwrap(), "the id stays");
    assert!(!vault.replace(&of, &again, &key(1)).await.unwrap(), "it is not stored");
    assert!(vault.replace(&of, &key(1), &again).await.unwrap());
    assert_eq!(vault.read(&of).await.unwrap(), [again.clone(), key(2)]);
    assert!(vault.destroy(&of).await.unwrap());
    assert!(!vault.destroy(&of).await.unwrap());
    assert!(!vault.replace(&of, &again, &key(1)).await.unwrap(), "a destroyed key does not come back");
    assert_eq!((vault.read(&of).await.unwrap(), vault.read(&other).await.unwrap()), (vec![], vec![key(3)]));
    assert_eq!(listed(vault, 2).await, [other]);
}

#[tokio::test]
async fn vaults_obey_their_contract() {
    let directory = tempfile::tempdir().unwrap();
    obeys_the_contract(&MemoryVault::new()).await;
    obeys_the_contract(&DirectoryVault::open(directory.path().join("new/vault")).unwrap()).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_directory_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/vault");
    DirectoryVault::open(&path).unwrap();
    for created in [path.parent().unwrap(), &path] {
        assert_eq!(created.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{created:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_first_keys_wins() {
    let directory = tempfile::tempdir().unwrap();
    let vaults: Vec<_> = (0..16).map(|_| DirectoryVault::open(directory.path()).unwrap()).collect();
    let tasks: Vec<_> = vaults
        .into_iter()
        .zip(0..)
        .map(|(vault, byte)| {
            tokio::spawn(async move {
                loop {
                    match vault.add_if(&entry("acme/anna"), None, &key(byte)).await {
                        // On a busy machine, the others may have the lock for longer than a call waits for it.
                        Err(error) if error.is_retryable() => {}
                        added => return added.unwrap(),
                    }
                }
            })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += usize::from(task.await.unwrap());
    }
    let vault = DirectoryVault::open(directory.path()).unwrap();
    assert_eq!((won, vault.read(&entry("acme/anna")).await.unwrap().len()), (1, 1));
}

#[tokio::test]
async fn names_of_files_do_not_show_prefixes_and_damage_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let vault = DirectoryVault::open(directory.path()).unwrap();
    vault.add_if(&entry("acme/anna"), None, &key(1)).await.unwrap();
    let names = || directory.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    assert!(names().all(|path| !path.to_string_lossy().contains("anna")));
    let path = names().find(|path| path.extension().is_some_and(|kind| kind == "json")).unwrap();
    for damaged in ["", "{}", r#"{"v":2,"keys":[]}"#] {
        std::fs::write(&path, damaged).unwrap();
        let error = vault.read(&entry("acme/anna")).await.unwrap_err();
        assert!(matches!(error, KeyError::DamagedVault), "{error:?}");
        assert!(vault.add_if(&entry("acme/anna"), None, &key(2)).await.is_err(), "damaged keys are not replaced");
    }
    assert!(vault.destroy(&entry("acme/anna")).await.unwrap(), "damaged keys can be destroyed");
}

#[tokio::test]
async fn a_destruction_removes_what_a_crash_has_left() {
    let directory = tempfile::tempdir().unwrap();
    let vault = DirectoryVault::open(directory.path()).unwrap();
    vault.add_if(&entry("acme/anna"), None, &key(1)).await.unwrap();
    let unfinished = directory.path().join("new");
    std::fs::write(&unfinished, "wrapped keys").unwrap();
    assert!(vault.destroy(&entry("acme/anna")).await.unwrap());
    assert!(!unfinished.exists());
    std::fs::write(&unfinished, "wrapped keys").unwrap();
    DirectoryVault::open(directory.path()).unwrap();
    assert!(!unfinished.exists());
}

#[tokio::test]
async fn a_prefix_with_another_number_of_parts_has_no_keys() {
    let keys = crate::support::keys(&MemoryVault::new());
    for (text, parts) in [("acme/anna/1", 3), ("acme", 1), ("", 0)] {
        for refused in [keys.destroy(&prefix(text)).await, keys.rotate(&prefix(text)).await] {
            assert!(
                matches!(refused, Err(KeyError::Prefix { parts: found, keyed: 2 }) if found == parts),
                "{refused:?}"
            );
        }
    }
    assert!(!keys.destroy(&prefix("acme/anna")).await.unwrap(), "it could have one");
}
