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

use std::{hint::black_box, path::Path, sync::Arc, time::Duration};

use benches::{
    Llm, WINDOW,
    contest::{Circle, paired, timed},
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

/// Returns a function that measures one turn. The contestants of one database use different conversations.
fn turns(runtime: &Runtime, chat: Chat, half: usize) -> impl FnMut() -> Duration + '_ {
    let circle = Arc::new(Circle::new(half * CONVERSATIONS / 2, CONVERSATIONS / 2));
    let turn = move || {
        let (chat, circle) = (chat.clone(), Arc::clone(&circle));
        async move {
            let call = InConversation::new(conversation(circle.next()), question());
            black_box(chat.oneshot(call).await.unwrap());
        }
    };
    // The first use of a conversation fills the caches.
    runtime.block_on(timed(CONVERSATIONS as u64 / 2, &turn));
    move || runtime.block_on(timed(1, &turn))
}

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (plain, sealed) = (directory.path().join("plain.db"), directory.path().join("sealed.db"));
    let runtime = Runtime::new().unwrap();
    let keys = Keys::new(KeyRing::new("bench", Secret::random().unwrap()), MemoryVault::new(), 2);
    let encrypted = |store| EncryptedStore::new(store, keys.clone());
    runtime.block_on(async {
        let options = || SqliteOptions::new().synchronous(Synchronous::Normal);
        let store = options().open(&plain).await.unwrap();
        fill_all(&store, 0..CONVERSATIONS, WINDOW / 2).await;
        store.close().await.unwrap();
        let store = encrypted(options().open(&sealed).await.unwrap());
        fill_all(&store, 0..CONVERSATIONS, WINDOW / 2).await;
        store.into_inner().close().await.unwrap();
    });
    for (name, synchronous) in [("NORMAL", Synchronous::Normal), ("FULL", Synchronous::Full)] {
        if !is_selected(name) {
            continue;
        }
        let (plain, sealed) = (open(&runtime, &plain, synchronous), open(&runtime, &sealed, synchronous));
        let _guard = runtime.enter();
        let cached_plain = CachedStore::with_limit(plain.clone(), CACHE_BYTES);
        let cached_sealed = CachedStore::with_limit(encrypted(sealed.clone()), CACHE_BYTES);
        paired(
            &format!("turn/{name}"),
            1_000,
            &mut [
                ("plain", &mut turns(&runtime, layer(plain), 0)),
                ("encrypted", &mut turns(&runtime, layer(encrypted(sealed)), 0)),
                ("plain, cached", &mut turns(&runtime, layer(cached_plain), 1)),
                ("encrypted, cached", &mut turns(&runtime, layer(cached_sealed), 1)),
            ],
        );
    }
}
