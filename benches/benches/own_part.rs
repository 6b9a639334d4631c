//! The layer's own part of the time of a turn. Each turn is divided at the calls of its store: before the load, the
//! load, between load and append, the append, and after it. The layer's own work is in the first, the third and the
//! last part. So are the request and the model of the bench, which a turn without a layer has, too.
//!
//! A turn is one of the whole layer over a `CachedStore`, with a window of 60 to 80 messages, in one of 8 or of 1,000
//! conversations. Turns are made one after the other. Each number is the median in microseconds.
//!
//! Run it with `cargo bench -p benches --bench own_part`. To measure only some stores, name them: `-- memory redis`. A
//! server that is not installed is left out, and a line reports that.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::sync::Arc;

use benches::{
    WINDOW, fill_all,
    growth::{Base, CACHE_BYTES, STORES, Turns},
    watched::{PARTS, Watched},
};
use tokio::runtime::Runtime;
use tower_chat_history::{CachedStore, HistoryStore, MemoryStore};

const MEMORY: &str = "memory";
const CONVERSATIONS: [usize; 2] = [8, 1_000];
const TURNS: usize = 6_000;

/// Returns the median of each part, in microseconds, of turns over this store.
async fn medians(store: Arc<dyn HistoryStore>, conversations: usize) -> [f64; PARTS] {
    let cached = CachedStore::with_limit(store, CACHE_BYTES);
    let watched = Arc::new(Watched::new(Arc::new(cached)));
    let turns = Turns::among(Arc::clone(&watched) as Arc<dyn HistoryStore>, conversations);
    // The first turn of a conversation costs more: it fills the cache.
    for _ in 0..conversations {
        turns.make().await;
    }
    for _ in 0..TURNS {
        watched.turn(turns.make()).await;
    }
    watched.medians().map(|time| time.as_secs_f64() * 1e6)
}

fn main() {
    let Some(is_selected) = benches::selected() else { return };
    let runtime = Runtime::new().unwrap();
    println!("us: store, conversations, before the load, load, between load and append, append, after the append");
    for name in [MEMORY].into_iter().chain(STORES).filter(|name| is_selected(name)) {
        for conversations in CONVERSATIONS {
            let fill = async |store: &dyn HistoryStore| fill_all(store, 0..conversations, WINDOW / 2).await;
            let medians = runtime.block_on(async {
                if name == MEMORY {
                    let store = MemoryStore::new();
                    fill(&store).await;
                    return Some((medians(Arc::new(store), conversations).await, None));
                }
                // Dropping `base` ends the server.
                let mut base = Base::of(name, env!("CARGO_TARGET_TMPDIR"))?;
                let store = base.filled(fill).await;
                Some((medians(store, conversations).await, Some(base)))
            });
            let Some((medians, _)) = medians else { break };
            let medians: Vec<String> = medians.iter().map(|time| format!("{time:8.1}")).collect();
            println!("{name:14} {conversations:6} {}", medians.join(" "));
        }
    }
}
