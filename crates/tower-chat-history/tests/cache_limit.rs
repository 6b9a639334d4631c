//! The limit of the cache is one of memory, also where windows are tiny: what the allocator hands out is compared with
//! it.
#![allow(clippy::unwrap_used)] // A test may.

use std::alloc::System;

use async_trait::async_trait;
use cap::Cap;
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, ExchangeId, HistoryStore, Message, StoreError,
    store::{
        Append, Appended, Compact, CompactOutcome, Compaction, CompactionVersion, Cut, Expect, Incarnation, Load,
        Loaded, Page, Profile, Recorded, Revision, Seq, Summary, Window,
    },
};

/// Counts the bytes that are allocated.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const LIMIT: usize = 4 << 20;

const LIFE: Incarnation = Incarnation::from_bytes([7; 16]);

/// Answers each load with a window that it makes for the conversation of that number, and keeps nothing.
#[derive(Debug)]
struct Made(fn(usize) -> Window);

#[async_trait]
impl HistoryStore for Made {
    fn system(&self) -> &'static str {
        "made"
    }

    async fn load(&self, id: &ConversationId, _: Load) -> Result<Loaded, StoreError> {
        Ok(Loaded::Window((self.0)(id.as_str().parse().unwrap())))
    }

    async fn append(&self, _: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let Expect::Exactly(before) = append.expect else { panic!("{:?}", append.expect) };
        let seq = Seq::new(before.len());
        Ok(Appended::stored(Revision::new(LIFE, before.len() + 1), seq, None))
    }

    async fn compact(&self, _: &ConversationId, _: Incarnation, _: Compact) -> Result<CompactOutcome, StoreError> {
        Ok(CompactOutcome::Stored(CompactionVersion::new(1)))
    }

    async fn read(&self, _: &ConversationId, _: Seq, _: usize) -> Result<Page, StoreError> {
        unreachable!()
    }

    async fn delete(&self, _: &ConversationId) -> Result<(), StoreError> {
        Ok(())
    }
}

fn exchange(messages: impl IntoIterator<Item = Message>) -> Exchange {
    Exchange::new(ExchangeId::generate(), messages)
}

fn window_of(exchanges: Vec<Recorded>) -> Window {
    Window::new(Revision::new(LIFE, exchanges.len() as u64), None, exchanges, false)
}

fn empty(_: usize) -> Window {
    window_of(Vec::new())
}

/// That many exchanges of a tiny message.
fn tiny(len: u64) -> Window {
    window_of((0..len).map(|seq| Recorded::new(Seq::new(seq), exchange([Message::user("x")]))).collect())
}

fn long(_: usize) -> Window {
    window_of(vec![Recorded::new(Seq::FIRST, exchange([Message::user("x".repeat(5_000))]))])
}

const NAMES: [&str; 6] = ["default", "a", "b", "c", "d", "e"];

/// The use of a conversation once it was loaded.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// It is loaded under other profiles too.
    Profiles,
    /// That many exchanges are appended.
    Append(u64),
    /// All of it is left out of the window.
    Compact,
}

/// Windows, and what is done with them.
type Kind = (&'static str, fn(usize) -> Window, Then);

const KINDS: &[Kind] = &[
    ("empty windows", empty, Then::Nothing),
    ("empty windows of several profiles", empty, Then::Profiles),
    ("a message of a letter", |_| tiny(1), Then::Nothing),
    ("a message of a letter, under several profiles", |_| tiny(1), Then::Profiles),
    ("an exchange without messages", |_| window_of(vec![Recorded::new(Seq::FIRST, exchange([]))]), Then::Nothing),
    (
        "lists with room for more",
        |_| {
            let mut exchanges = Vec::with_capacity(1_000);
            exchanges.push(Recorded::new(Seq::FIRST, exchange([])));
            window_of(exchanges)
        },
        Then::Nothing,
    ),
    (
        "a short summary",
        |_| {
            let mut cut = Cut::default();
            cut.summary = Some(Summary::new("s", Seq::FIRST));
            Window::new(Revision::new(LIFE, 1), Some(Compaction::new(CompactionVersion::new(1), cut)), vec![], false)
        },
        Then::Nothing,
    ),
    ("windows that grow by one exchange", |_| tiny(1), Then::Append(1)),
    ("windows that grow by some exchanges", |_| tiny(4), Then::Append(5)),
    ("windows that are compacted to nothing", |_| tiny(20), Then::Compact),
    ("long messages", long, Then::Nothing),
    // The tables do not shrink when few large windows take the place of many small ones.
    ("tiny windows, and then long messages", |n| if n < 9_500 { empty(n) } else { long(n) }, Then::Nothing),
];

fn id(number: usize) -> ConversationId {
    ConversationId::new([number.to_string()]).unwrap()
}

async fn touch(cache: &CachedStore<Made>, id: &ConversationId, then: Then) {
    let Loaded::Window(window) = cache.load(id, Load::new()).await.unwrap() else { panic!("no window") };
    match then {
        Then::Nothing => {}
        Then::Profiles => {
            for name in NAMES {
                cache.load(id, Load::new().profile(Profile::new(name).unwrap())).await.unwrap();
            }
        }
        Then::Append(more) => {
            let before = window.revision.len();
            for len in before..before + more {
                let expect = Expect::Exactly(Revision::new(LIFE, len));
                cache.append(id, Append::new(expect, exchange([Message::user("y")]))).await.unwrap();
            }
        }
        Then::Compact => {
            let cut = Cut::window_from(Seq::new(window.revision.len()));
            let compact = Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut };
            cache.compact(id, LIFE, compact).await.unwrap();
        }
    }
}

/// One test: others would allocate at the same time.
#[tokio::test]
async fn the_heap_is_within_the_limit_however_small_the_windows_are() {
    for (name, make, then) in KINDS {
        let before = ALLOCATOR.allocated();
        let heap = || ALLOCATOR.allocated().saturating_sub(before);
        let cache = CachedStore::with_limit(Made(*make), LIMIT);
        let mut most = 0;
        for n in 0..12_000 {
            // Some are read again, so that they stay for longer than others.
            touch(&cache, &id(n), *then).await;
            touch(&cache, &id(n / 2), Then::Nothing).await;
            if n % 64 == 0 {
                most = most.max(heap());
            }
        }
        let share = |bytes: f64| bytes / LIMIT as f64;
        eprintln!("{name}: {:.2} of the limit, {:.2} used", share(most as f64), share(cache.used() as f64));
        assert!(most <= LIMIT, "{name}: {most} bytes for a limit of {LIMIT}");
        assert!(most >= LIMIT / 4, "{name}: {most} bytes, and the cache says that {} are used", cache.used());
        assert!(cache.used() <= LIMIT as u64, "{name}");
        cache.clear();
        assert_eq!(cache.used(), 0, "{name}");
    }
}
