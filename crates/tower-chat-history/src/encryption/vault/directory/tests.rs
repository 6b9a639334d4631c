use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::FutureExt as _;

use super::*;
use crate::encryption::master::WrappedKey;

fn key(byte: u8) -> DataKey {
    DataKey::new(KeyId::from_bytes([byte; 8]), WrappedKey::new("m", vec![byte]))
}

#[test]
fn a_key_that_is_not_durable_is_not_handed_out() {
    static FAILS: AtomicBool = AtomicBool::new(true);
    let directory = tempfile::tempdir().unwrap();
    let mut files = Files::open(directory.path().into()).unwrap();
    files.sync = |path| if FAILS.load(Ordering::Relaxed) { Err(ErrorKind::Other.into()) } else { sync(path) };
    let of = EntryId::from_bytes([1; 32]);
    let add = |byte| files.change(&of, |entry| entry.add_if(None, &key(byte)));
    // The file has its name already.
    assert!(add(1).unwrap_err().is_retryable());
    assert!(files.read(&of).unwrap_err().is_retryable());
    assert!(add(2).is_err(), "the key that it finds could be lost");
    FAILS.store(false, Ordering::Relaxed);
    assert!(!add(2).unwrap());
    assert_eq!(files.read(&of).unwrap().0, [key(1)]);
}

#[test]
fn a_lock_that_another_process_never_returns_is_an_error_that_may_go_away() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = Files::open(directory.path().into()).unwrap();
    files.lock_limit = Duration::ZERO;
    let of = EntryId::from_bytes([1; 32]);
    let held = files.lock().unwrap();
    assert!(files.change(&of, |entry| entry.add_if(None, &key(1))).unwrap_err().is_retryable());
    assert!(files.destroy(&of).unwrap_err().is_retryable());
    assert_eq!(files.read(&of).unwrap().0, [], "a reader does not need it");
    drop(held);
    assert!(files.change(&of, |entry| entry.add_if(None, &key(1))).unwrap());
}

#[tokio::test]
async fn a_read_waits_neither_for_a_change_that_waits_for_the_lock_nor_for_a_listing() {
    let directory = tempfile::tempdir().unwrap();
    let mut vault = DirectoryVault::open(directory.path()).unwrap();
    // This thread may be stalled while it has the lock.
    vault.files.lock_limit = Duration::from_secs(120);
    let of = EntryId::from_bytes([1; 32]);
    let key = key(1);
    let lock = vault.files.lock().unwrap();
    let mut change = pin!(vault.add_if(&of, None, &key));
    assert!(change.as_mut().now_or_never().is_none());
    let mut listing = pin!(vault.list(None, 10));
    assert!(listing.as_mut().now_or_never().is_none());
    assert_eq!(vault.read(&of).await.unwrap(), []);
    assert!(listing.as_mut().now_or_never().is_none(), "it is not on the thread of reads");
    drop(lock);
    assert!(change.await.unwrap());
    assert_eq!(listing.await.unwrap(), [of]);
    assert_eq!(vault.read(&of).await.unwrap(), std::slice::from_ref(&key));
}

#[test]
fn the_smallest_names_are_kept_in_any_order_and_no_more_of_them() {
    // All bytes, in an order that neither rises nor falls. Each is added twice.
    let names: Vec<_> = (0..=u8::MAX).map(|step| EntryId::from_bytes([step.wrapping_mul(101); 32])).collect();
    for limit in [0, 1, 10, 256, 300] {
        let mut smallest = Smallest::new(limit);
        for name in &names {
            smallest.add(*name);
            smallest.add(*name);
            assert!(smallest.names.len() <= limit);
        }
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.truncate(limit);
        assert_eq!(smallest.into_sorted(), sorted);
    }
}
