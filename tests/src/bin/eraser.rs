//! A process that erases everything under a prefix, for tests that kill it. Its arguments are the address of a store
//! and the prefix. It reads a line before each page, and prints a line for each page that is erased.

#![allow(clippy::unwrap_used)] // A failed setup fails the test.

use std::io::{Write as _, stdin, stdout};

use tests::Storage;
use tower_chat_history::store::{Erase as _, Prefix};

/// The number of conversations of a page. It is small, so that an erasure can be killed at many places.
const PAGE: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, under] = arguments.as_slice() else { panic!("expected an address and a prefix") };
    let store = Storage::open_address(address).await.store;
    let under: Prefix = under.parse().unwrap();
    store.bar(&under).await.unwrap();
    let mut after = None;
    for admitted in stdin().lines() {
        admitted.unwrap();
        after = store.erase(&under, after.as_ref(), PAGE).await.unwrap().next;
        println!("page");
        stdout().flush().unwrap();
        if after.is_none() {
            break;
        }
    }
}
