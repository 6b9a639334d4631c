//! The cost of encryption: a turn with a window of 60 messages over an SQLite file.
//!
//! The contestants alternate in one run, and the median time of each is printed:
//!
//! - `plain`: the layer over the store;
//! - `encrypted`: the layer over an `EncryptedStore`;
//! - `plain, cached` and `encrypted, cached`: the same with a `CachedStore` around it.
//!
//! Run it with `cargo bench -p benches --bench encryption`. The databases are on the disk of the target directory.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{hint::black_box, path::Path};

use benches::{
    Llm, WINDOW,
    contest::{Circle, Contestant, paired, timed},
    conversation, fill_all, llm, question,
};
use tokio::runtime::Runtime;
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    CachedStore, ChatHistory, ChatHistoryLayer, HistoryStore, InConversation,
    encryption::{EncryptedStore, KeyRing, Keys, MemoryVault, Secret},
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore, Synchronous};

const CONVERSATIONS: usize = 500;

/// The size of a cache in bytes, enough for the windows of all conversations.
const CACHE_BYTES: usize = 256 << 20;

type Chat = ChatHistory<Llm, OpenAi>;

fn layer(store: impl HistoryStore) -> Chat {
    ChatHistoryLayer::new(store, OpenAi::new()).layer(llm())
}

fn open(runtime: &Runtime, path: &Path, synchronous: Synchronous) -> SqliteStore {
    runtime.block_on(SqliteOptions::new().synchronous(synchronous).open(path)).unwrap()
}

/// Returns a contestant whose run is one turn. The contestants of one database use different conversations.
fn contestant<'a>(name: &str, runtime: &'a Runtime, store: impl HistoryStore, half: usize) -> Contestant<'a> {
    let chat = layer(store);
    let circle = Circle::new(half * CONVERSATIONS / 2, CONVERSATIONS / 2);

    // The first use of a conversation fills the caches.
    runtime.block_on(timed(CONVERSATIONS as u64 / 2, || turn(&chat, &circle)));
    Contestant::new(name, move || runtime.block_on(timed(1, || turn(&chat, &circle))))
}

async fn turn(chat: &Chat, circle: &Circle) {
    let call = InConversation::new(conversation(circle.next()), question());
    black_box(chat.clone().oneshot(call).await.unwrap());
}

fn encrypted(store: SqliteStore, keys: &Keys) -> EncryptedStore<SqliteStore> {
    EncryptedStore::new(store, keys.clone())
}

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let plain = directory.path().join("plain.db");
    let sealed = directory.path().join("sealed.db");
    let runtime = Runtime::new().unwrap();
    let keys = Keys::new(KeyRing::new("bench", Secret::random().unwrap()), MemoryVault::new(), 2);

    runtime.block_on(async {
        let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&plain).await.unwrap();
        fill_all(&store, 0..CONVERSATIONS, WINDOW / 2).await;
        store.close().await.unwrap();

        let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&sealed).await.unwrap();
        let store = encrypted(store, &keys);
        fill_all(&store, 0..CONVERSATIONS, WINDOW / 2).await;
        store.into_inner().close().await.unwrap();
    });

    for (name, synchronous) in [("NORMAL", Synchronous::Normal), ("FULL", Synchronous::Full)] {
        if !is_selected(name) {
            continue;
        }
        let plain = open(&runtime, &plain, synchronous);
        let sealed = open(&runtime, &sealed, synchronous);
        let _guard = runtime.enter();

        let cached_plain = CachedStore::with_limit(plain.clone(), CACHE_BYTES);
        let cached_sealed = CachedStore::with_limit(encrypted(sealed.clone(), &keys), CACHE_BYTES);

        let contest = vec![
            contestant("plain", &runtime, plain, 0),
            contestant("encrypted", &runtime, encrypted(sealed, &keys), 0),
            contestant("plain, cached", &runtime, cached_plain, 1),
            contestant("encrypted, cached", &runtime, cached_sealed, 1),
        ];
        paired(&format!("turn/{name}"), 1_000, contest);
    }
}
