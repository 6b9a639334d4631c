//! `MemoryStore` keeps its limit on memory. The test compares the limit with the bytes that the allocator hands
//! out.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{alloc::System, sync::Arc};

use cap::Cap;
use tower_chat_history::{
    ConversationId, Exchange, ExchangeId, HistoryStore, HistoryStoreExt as _, MemoryStore, Message, StoreError,
    store::{Append, CompactionVersion, Cut, Cuts, Expect, Profile, Seq, Summary, TokenCounts},
};
use tower_chat_history_core::{Labels, LabelsVersion, List as _};

/// Counts the bytes that are allocated.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const LIMIT: usize = 4 << 20;

/// Returns the id of the conversation with this number.
fn id(number: usize) -> ConversationId {
    ConversationId::new(["acme", "user", &number.to_string()]).unwrap()
}

/// A kind of content: returns the nth append.
type Kind = fn(usize) -> (ConversationId, Append);

fn exchange(messages: impl IntoIterator<Item = Message>) -> Append {
    Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages))
}

fn short() -> [Message; 2] {
    [Message::user("Hi"), Message::assistant("Hello!")]
}

/// The kind of content with labels.
const LABELED: &str = "labels";

const KINDS: &[(&str, Kind)] = &[
    ("short messages, one exchange a conversation", |n| (id(n), exchange(short()))),
    ("short messages, one conversation", |_| (id(0), exchange(short()))),
    ("no messages", |n| (id(n % 7), exchange([]))),
    ("long messages", |n| (id(n % 100), exchange([Message::user("x".repeat(20_000))]))),
    ("tool calls", |n| {
        let call = |n| format!(r#"{{"id":"call-{n}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#);
        let calls = (0..20).map(call).collect::<Vec<_>>().join(",");
        let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{calls}]}}"#);
        (id(n % 10), exchange([Message::from_json(json).unwrap(), Message::tool("call-1", "42")]))
    }),
    ("large fields that are no messages", |n| {
        let mut append = exchange(short());
        let exchange = Arc::make_mut(&mut append.exchange);
        exchange.model = Some("m".repeat(1_000));
        exchange.finish_reason = Some("stop".into());
        exchange.tokens = Some(TokenCounts { counter: "c".repeat(100).into(), counts: vec![1, 2] });
        exchange.share_counts();
        (id(n), append)
    }),
    ("names and ids that are copied out of messages", |n| {
        let (name, id_of_call) = ("n".repeat(1_000), "i".repeat(1_000));
        let json = format!(r#"{{"role":"{name}","name":"{name}","tool_call_id":"{id_of_call}","content":""}}"#);
        (id(n % 10), exchange([Message::from_json(json).unwrap()]))
    }),
    ("small compactions of other profiles", |n| {
        let mut cut = Cut::default();
        cut.set_summary(Summary::new("s"), Seq::FIRST);
        let profile = Profile::new(format!("profile-{n}")).unwrap();
        let append = exchange([Message::user("x")]);
        (id(n % 3), append.compact(Cuts::new(cut).compact(profile, CompactionVersion::NONE).unwrap()))
    }),
    (LABELED, |n| (id(n), exchange([]))),
    ("large summaries", |n| {
        let mut cut = Cut::default();
        let mut summary = Summary::new("s".repeat(10_000));
        summary.model = Some("a model".into());
        cut.set_summary(summary, Seq::FIRST);
        let profile = Profile::new(format!("profile-{n}")).unwrap();
        (id(n % 3), exchange([]).compact(Cuts::new(cut).compact(profile, CompactionVersion::NONE).unwrap()))
    }),
];

/// Appends until the store is full, and returns the number of appends. Each conversation gets this many labels.
async fn fill(store: &MemoryStore, kind: Kind, labels: usize) -> usize {
    for n in 0.. {
        let (id, append) = kind(n);
        let appended = match store.append(&id, append).await {
            Ok(appended) => appended,
            Err(StoreError::Full { .. }) => return n,
            Err(other) => panic!("{other:?}"),
        };
        if labels > 0 {
            let labels = Labels::new((0..labels).map(|label| (format!("label-{label}"), "x"))).unwrap();
            let incarnation = appended.revision.incarnation();
            match store.set_labels(&id, incarnation, LabelsVersion::NONE, labels).await {
                Ok(_) => {}
                Err(StoreError::Full { .. }) => return n + 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    unreachable!()
}

/// Only one test, because another one would allocate at the same time.
#[tokio::test]
async fn the_heap_stays_within_the_limit_and_removals_free_memory() {
    for (name, kind) in KINDS {
        let before = ALLOCATOR.allocated();
        let heap = || ALLOCATOR.allocated().saturating_sub(before);
        let store = MemoryStore::with_limit(LIMIT);
        let labels = if *name == LABELED { 16 } else { 0 };
        let appends = fill(&store, *kind, labels).await;
        let full = heap();
        eprintln!("{name}: {appends} appends, {:.2} of the limit", full as f64 / LIMIT as f64);
        assert!(full <= LIMIT + LIMIT / 4, "{name}: {full} bytes for a limit of {LIMIT}");
        assert!(full >= LIMIT / 3, "{name}: {full} bytes, and the store says that {LIMIT} are used");

        // Every kind of removal frees memory: only the remaining exchanges take memory.
        for n in 0..appends.min(200_000) {
            let id = kind(n).0;
            let conversation = store.conversation(&id);
            match n % 2 {
                0 => drop(conversation.truncate(Seq::new(1)).await.unwrap()),
                _ => drop(conversation.keep_last_turns(1).await.unwrap()),
            }
        }
        let left = heap();
        assert!(left <= store.used() + store.used() / 4 + LIMIT / 20, "{name}: {left} bytes for {}", store.used());
        for n in 0..appends {
            store.delete(&kind(n).0).await.unwrap();
        }
        assert_eq!(store.used(), 0, "{name}");
        // Only remembered deletions are left.
        assert!(heap() <= LIMIT / 20 + LIMIT / 16, "{name}: {} bytes of an empty store", heap());
        // An emptied store has room for as much as a new one.
        let again = fill(&store, *kind, labels).await;
        assert!(again.abs_diff(appends) <= appends / 100 + 1, "{name}: {again} appends after {appends}");
        assert!(heap() <= LIMIT + LIMIT / 4, "{name}");
    }
}
