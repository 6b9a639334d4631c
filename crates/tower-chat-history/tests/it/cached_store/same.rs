//! Whatever is done through whichever replica: a load says what the store says.

use proptest::prelude::*;
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, ExchangeId, HistoryStore, HistoryStoreExt as _, MemoryStore, Message,
    store::{
        Append, Compact, CompactionVersion, Cut, Derived, Expect, KnownState, Load, LoadLimit, Loaded, Profile, Prune,
        PruneTo, Seq, Summary, Truncate,
    },
};

#[derive(Clone, Debug)]
enum Step {
    Append { opens: bool, messages: usize, cut: Option<Wish> },
    Compact(Wish),
    Truncate { back: u64 },
    Prune { turns: usize, traces: Derived },
    Delete,
    Load(Asked),
}

/// A compaction: of which profile, how far back from the log's end its window is to start, whether it names the stored version.
#[derive(Clone, Debug)]
struct Wish {
    profile: usize,
    back: u64,
    current: bool,
}

#[derive(Clone, Debug)]
struct Asked {
    profile: usize,
    limit: usize,
    known: bool,
}

fn profiles() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0), 1 => Just(1)]
}

fn wishes() -> impl Strategy<Value = Wish> {
    (profiles(), 0..6_u64, prop::bool::weighted(0.9)).prop_map(|(profile, back, current)| Wish {
        profile,
        back,
        current,
    })
}

/// Each step is done by one of two replicas, or past both.
fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let append = (prop::bool::weighted(0.7), 1..5_usize, prop::option::weighted(0.3, wishes()))
        .prop_map(|(opens, messages, cut)| Step::Append { opens, messages, cut });
    let asked = (profiles(), prop::sample::select(vec![6, 1_000]), prop::bool::weighted(0.2));
    let load = asked.prop_map(|(profile, limit, known)| Step::Load(Asked { profile, limit, known }));
    let step = prop_oneof![
        8 => append,
        12 => load,
        2 => wishes().prop_map(Step::Compact),
        1 => (0..4_u64).prop_map(|back| Step::Truncate { back }),
        1 => (1..5_usize, any::<bool>()).prop_map(|(turns, remove)| Step::Prune {
            turns,
            traces: if remove { Derived::Erase } else { Derived::Keep },
        }),
        1 => Just(Step::Delete),
    ];
    let replica = prop_oneof![6 => Just(0), 2 => Just(1), 1 => Just(2)];
    prop::collection::vec((replica, step), 1..80)
}

fn profile(number: usize) -> Profile {
    Profile::new(["small", "large"][number]).unwrap()
}

/// The log as it is, looked at past every cache.
struct Now {
    window: Option<tower_chat_history::store::Window>,
    openings: Vec<Seq>,
}

async fn now(store: &MemoryStore, id: &ConversationId, number: usize) -> Now {
    let Loaded::Window(window) = store.load(id, Load::new().profile(profile(number))).await.unwrap() else {
        return Now { window: None, openings: Vec::new() };
    };
    let log = store.conversation(id).exchanges().await.unwrap();
    let openings = log.iter().filter(|recorded| recorded.exchange.opens_turn()).map(|recorded| recorded.seq);
    Now { openings: openings.collect(), window: Some(window) }
}

/// A compaction that the log may accept, if there is one.
async fn compact(store: &MemoryStore, id: &ConversationId, wish: &Wish) -> Option<Compact> {
    let now = now(store, id, wish.profile).await;
    let stored = now.window.as_ref()?.compaction.clone().unwrap_or_default();
    let at = now.openings.len().checked_sub(1 + usize::try_from(wish.back).unwrap())?;
    let start = now.openings[at].max(stored.cut.window_start);
    let mut cut = Cut::window_from(start);
    cut.summary = (start > Seq::FIRST).then(|| Summary::new("what was said", start));
    let replaces = if wish.current { stored.version } else { CompactionVersion::new(77) };
    Some(Compact { profile: profile(wish.profile), replaces, cut })
}

async fn run(steps: Vec<(usize, Step)>) {
    let (behind, id) = (MemoryStore::new(), ConversationId::new(["a"]).unwrap());
    let replicas = [CachedStore::new(behind.clone()), CachedStore::new(behind.clone())];
    for (by, step) in steps {
        // The third one has a cache that is always empty.
        let store = replicas.get(by).cloned().unwrap_or_else(|| CachedStore::new(behind.clone()));
        let window = now(&behind, &id, 0).await.window;
        match step {
            Step::Append { opens, messages, cut } => {
                let mut exchange = Exchange::new(ExchangeId::generate(), vec![Message::user("Hi"); messages]);
                if let Some(last) = window.as_ref().and_then(|window| window.exchanges.last()).filter(|_| !opens) {
                    exchange = exchange.continuing(last.seq);
                }
                let mut append = Append::new(Expect::AnyOrCreate, exchange);
                if let Some(wish) = cut {
                    append.compact = compact(&behind, &id, &wish).await;
                }
                store.append(&id, append).await.unwrap();
            }
            Step::Compact(wish) => {
                if let (Some(compact), Some(window)) = (compact(&behind, &id, &wish).await, window) {
                    store.compact(&id, window.revision.incarnation(), compact).await.unwrap();
                }
            }
            Step::Truncate { back } => {
                if let Some(window) = window {
                    let from = Seq::new(window.revision.version().saturating_sub(back));
                    store.truncate(&id, window.revision, from).await.unwrap();
                }
            }
            Step::Prune { turns, traces } => {
                if let Some(window) = window {
                    store.prune(&id, window.revision.incarnation(), PruneTo::LastTurns(turns), traces).await.unwrap();
                }
            }
            Step::Delete => store.delete(&id).await.unwrap(),
            Step::Load(asked) => {
                let mut load = Load::new().profile(profile(asked.profile));
                load = load.limit(LoadLimit::new(asked.limit, 1 << 20).unwrap());
                load.known =
                    now(&behind, &id, asked.profile).await.window.filter(|_| asked.known).map(|now| now.known());
                assert_eq!(store.load(&id, load.clone()).await.unwrap(), behind.load(&id, load).await.unwrap());
            }
        }
    }
}

proptest! {
    #[test]
    fn a_load_through_any_replica_says_what_the_store_says(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}

/// What is known of an earlier state is as good as nothing.
#[tokio::test]
async fn a_caller_that_knows_what_is_past_gets_the_window() {
    let (behind, id) = (MemoryStore::new(), ConversationId::new(["a"]).unwrap());
    let store = CachedStore::new(behind.clone());
    let append = || Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), [Message::user("Hi")]));
    store.append(&id, append()).await.unwrap();
    let Loaded::Window(first) = store.load(&id, Load::new()).await.unwrap() else { panic!("it is there") };
    let known: KnownState = first.known();
    assert_eq!(store.load(&id, Load::new().known(known.clone())).await.unwrap(), Loaded::Unchanged);
    store.append(&id, append()).await.unwrap();
    let Loaded::Window(second) = store.load(&id, Load::new().known(known.clone())).await.unwrap() else {
        panic!("it changed")
    };
    assert_eq!(second.exchanges.len(), 2);
    // And one who knows more than is kept here.
    behind.append(&id, append()).await.unwrap();
    let Loaded::Window(third) = behind.load(&id, Load::new()).await.unwrap() else { panic!("it is there") };
    assert_eq!(store.load(&id, Load::new().known(third.known())).await.unwrap(), Loaded::Unchanged);
}
