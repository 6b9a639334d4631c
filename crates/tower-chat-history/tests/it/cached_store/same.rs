//! A load through any replica returns what the store returns, after any sequence of calls.

use proptest::prelude::*;
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, ExchangeId, HistoryStore, HistoryStoreExt as _, MemoryStore, Message,
    store::{
        Append, Compact, Compaction, CompactionVersion, Cut, Cuts, Derived, Expect, Fork, ForkTo, KnownState, Load,
        LoadLimit, Loaded, Profile, Prune, PruneTo, Seq, Summary, Truncate, Window,
    },
};

#[derive(Clone, Debug)]
enum Step {
    Append {
        opens: bool,
        messages: usize,
        cut: Option<CompactionStep>,
    },
    Compact(CompactionStep),
    Truncate {
        back: u64,
    },
    Prune {
        turns: usize,
        derived: Derived,
    },
    /// Another process puts a copy of the beginning in the place of the conversation.
    Fork {
        back: u64,
    },
    Delete,
    Load(LoadStep),
}

/// A compaction: its profile, the distance of its window's start from the log's end, and whether it names the
/// stored version.
#[derive(Clone, Debug)]
struct CompactionStep {
    profile: usize,
    back: u64,
    names_stored: bool,
}

#[derive(Clone, Debug)]
struct LoadStep {
    profile: usize,
    limit: usize,
    known: bool,
}

fn profiles() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0), 1 => Just(1)]
}

fn compaction_steps() -> impl Strategy<Value = CompactionStep> {
    (profiles(), 0..6_u64, prop::bool::weighted(0.9)).prop_map(|(profile, back, names_stored)| CompactionStep {
        profile,
        back,
        names_stored,
    })
}

/// Each step runs on one of two replicas, or directly on the store.
fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let append = (prop::bool::weighted(0.7), 1..5_usize, prop::option::weighted(0.3, compaction_steps()))
        .prop_map(|(opens, messages, cut)| Step::Append { opens, messages, cut });
    let load_step = (profiles(), prop::sample::select(vec![6, 1_000]), prop::bool::weighted(0.2));
    let load = load_step.prop_map(|(profile, limit, known)| Step::Load(LoadStep { profile, limit, known }));
    let step = prop_oneof![
        8 => append,
        12 => load,
        2 => compaction_steps().prop_map(Step::Compact),
        1 => (0..4_u64).prop_map(|back| Step::Truncate { back }),
        1 => (1..5_usize, any::<bool>()).prop_map(|(turns, remove)| Step::Prune {
            turns,
            derived: if remove { Derived::Erase } else { Derived::Keep },
        }),
        1 => (0..4_u64).prop_map(|back| Step::Fork { back }),
        1 => Just(Step::Delete),
    ];
    let replica = prop_oneof![6 => Just(0), 2 => Just(1), 1 => Just(2)];
    prop::collection::vec((replica, step), 1..80)
}

fn profile(number: usize) -> Profile {
    Profile::new(["small", "large"][number]).unwrap()
}

/// The current log, read without a cache.
struct CurrentLog {
    window: Option<Window>,
    openings: Vec<Seq>,
}

async fn current_log(store: &MemoryStore, id: &ConversationId, number: usize) -> CurrentLog {
    let Loaded::Window(window) = store.load(id, Load::new().profile(profile(number))).await.unwrap() else {
        return CurrentLog { window: None, openings: Vec::new() };
    };
    let log = store.conversation(id).exchanges().await.unwrap();
    let openings = log.iter().filter(|recorded| recorded.exchange.opens_turn()).map(|recorded| recorded.seq);
    CurrentLog { openings: openings.collect(), window: Some(window) }
}

/// Returns a compaction that the log may accept, if there is one.
async fn compact(store: &MemoryStore, id: &ConversationId, compaction_step: &CompactionStep) -> Option<Compact> {
    let current = current_log(store, id, compaction_step.profile).await;
    let stored = current.window.as_ref()?.compaction.as_ref();
    let at = current.openings.len().checked_sub(1 + usize::try_from(compaction_step.back).unwrap())?;
    let start = current.openings[at].max(stored.map_or(Seq::FIRST, |stored| stored.window_start));
    let mut cut = Cut::window_from(start);
    if start > Seq::FIRST {
        cut.set_summary(Summary::new("a summary"), start);
    }
    let version = stored.map_or(CompactionVersion::NONE, |stored| stored.version);
    let replaces = if compaction_step.names_stored { version } else { CompactionVersion::new(77) };
    Some(Cuts::new(cut).compact(profile(compaction_step.profile), replaces).unwrap())
}

/// Returns what is right of the window's compaction for a log that ends before this position.
fn kept(window: &Window, end: Seq) -> Option<Compact> {
    let stored: &Compaction = window.compaction.as_ref()?;
    let cuts = Cuts::read(stored).unwrap().truncated_to(end.get())?;
    Some(cuts.compact(profile(0), stored.version).unwrap())
}

async fn run(steps: Vec<(usize, Step)>) {
    let (inner_store, id) = (MemoryStore::new(), ConversationId::new(["a"]).unwrap());
    let replicas = [CachedStore::new(inner_store.clone()), CachedStore::new(inner_store.clone())];
    for (by, step) in steps {
        // The third one has a cache that is always empty.
        let store = replicas.get(by).cloned().unwrap_or_else(|| CachedStore::new(inner_store.clone()));
        let window = current_log(&inner_store, &id, 0).await.window;
        match step {
            Step::Append { opens, messages, cut } => {
                let mut exchange = Exchange::new(ExchangeId::generate(), vec![Message::user("Hi"); messages]);
                if let Some(last) = window.as_ref().and_then(|window| window.exchanges.last()).filter(|_| !opens) {
                    exchange = exchange.continuing(last.seq);
                }
                let mut append = Append::new(Expect::AnyOrCreate, exchange);
                if let Some(compaction_step) = cut {
                    append.compact = compact(&inner_store, &id, &compaction_step).await;
                }
                store.append(&id, append).await.unwrap();
            }
            Step::Compact(compaction_step) => {
                if let (Some(compact), Some(window)) = (compact(&inner_store, &id, &compaction_step).await, window) {
                    store.compact(&id, window.revision.incarnation(), compact).await.unwrap();
                }
            }
            Step::Truncate { back } => {
                if let Some(window) = window {
                    let from = Seq::new(window.revision.version().saturating_sub(back));
                    store.truncate(&id, window.revision, from, kept(&window, from)).await.unwrap();
                }
            }
            Step::Prune { turns, derived } => {
                if let Some(window) = window {
                    store.prune(&id, window.revision.incarnation(), PruneTo::LastTurns(turns), derived).await.unwrap();
                }
            }
            Step::Fork { back } => {
                if let Some(window) = window {
                    let before = Seq::new(window.revision.version().saturating_sub(back));
                    let copy = ConversationId::new(["b"]).unwrap();
                    let to = ForkTo::new(copy.clone(), before);
                    let forked = store.fork(&id, window.revision.incarnation(), to).await.unwrap();
                    inner_store.delete(&id).await.unwrap();
                    if let Some(revision) = forked.revision {
                        let to = ForkTo::new(id.clone(), before).compact(kept(&window, before));
                        inner_store.fork(&copy, revision.incarnation(), to).await.unwrap();
                        store.delete(&copy).await.unwrap();
                    }
                }
            }
            Step::Delete => store.delete(&id).await.unwrap(),
            Step::Load(load_step) => {
                let mut load = Load::new().profile(profile(load_step.profile));
                load = load.limit(LoadLimit::new(load_step.limit, 1 << 20).unwrap());
                load.known = current_log(&inner_store, &id, load_step.profile)
                    .await
                    .window
                    .filter(|_| load_step.known)
                    .map(|current| current.known());
                assert_eq!(store.load(&id, load.clone()).await.unwrap(), inner_store.load(&id, load).await.unwrap());
            }
        }
    }
}

proptest! {
    #[test]
    fn a_load_through_any_replica_equals_a_load_from_the_store(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}

/// A caller that knows only an earlier state gets the whole window.
#[tokio::test]
async fn a_caller_with_an_outdated_known_state_gets_the_window() {
    let (inner_store, id) = (MemoryStore::new(), ConversationId::new(["a"]).unwrap());
    let store = CachedStore::new(inner_store.clone());
    let append = || Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), [Message::user("Hi")]));
    store.append(&id, append()).await.unwrap();
    let Loaded::Window(first) = store.load(&id, Load::new()).await.unwrap() else { panic!("no window") };
    let known: KnownState = first.known();
    assert_eq!(store.load(&id, Load::new().known(known.clone())).await.unwrap(), Loaded::Unchanged);
    store.append(&id, append()).await.unwrap();
    let Loaded::Window(second) = store.load(&id, Load::new().known(known.clone())).await.unwrap() else {
        panic!("it changed")
    };
    assert_eq!(second.exchanges.len(), 2);
    // And a caller that knows a newer state than this cache.
    inner_store.append(&id, append()).await.unwrap();
    let Loaded::Window(third) = inner_store.load(&id, Load::new()).await.unwrap() else { panic!("no window") };
    assert_eq!(store.load(&id, Load::new().known(third.known())).await.unwrap(), Loaded::Unchanged);
}
