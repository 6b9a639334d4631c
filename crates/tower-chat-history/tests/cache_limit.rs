//! The cache keeps its limit on memory, even if windows are tiny. The test compares the limit with the bytes
//! that the allocator hands out.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::alloc::System;

use async_trait::async_trait;
use cap::Cap;
use tower_chat_history::{
    CachedStore, ConversationId, Exchange, ExchangeId, HistoryStore, Message, StoreError,
    store::{
        Append, Appended, Compact, CompactOutcome, CompactionVersion, Cut, Cuts, Expect, Incarnation, Load, Loaded,
        Page, Profile, Recorded, Revision, Seq, Summary, Window,
    },
};

/// Counts the bytes that are allocated.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const LIMIT: usize = 4 << 20;

const INCARNATION: Incarnation = Incarnation::from_bytes([7; 16]);

/// Returns a window made for the number in the conversation's id. Stores nothing.
#[derive(Debug)]
struct WindowPerId(fn(usize) -> Window);

#[async_trait]
impl HistoryStore for WindowPerId {
    fn system(&self) -> &'static str {
        "window-per-id"
    }

    async fn load(&self, id: &ConversationId, _: Load) -> Result<Loaded, StoreError> {
        Ok(Loaded::Window((self.0)(id.as_str().parse().unwrap())))
    }

    async fn append(&self, _: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let Expect::Exactly(before) = append.expect else { panic!("{:?}", append.expect) };
        let seq = Seq::new(before.len());
        Ok(Appended::stored(Revision::new(INCARNATION, before.len() + 1), seq, None))
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
    Window::new(Revision::new(INCARNATION, exchanges.len() as u64), None, exchanges, false)
}

fn empty(_: usize) -> Window {
    window_of(Vec::new())
}

/// Returns a window of that many exchanges with one tiny message each.
fn tiny(len: u64) -> Window {
    window_of((0..len).map(|seq| Recorded::new(Seq::new(seq), exchange([Message::user("x")]))).collect())
}

fn long(_: usize) -> Window {
    window_of(vec![Recorded::new(Seq::FIRST, exchange([Message::user("x".repeat(5_000))]))])
}

const NAMES: [&str; 6] = ["default", "a", "b", "c", "d", "e"];

/// The use of a conversation after it was loaded.
#[derive(Clone, Copy)]
enum Use {
    Nothing,
    /// It is also loaded under other profiles.
    Profiles,
    /// This many exchanges are appended.
    Append(u64),
    /// A compaction removes everything from its window.
    Compact,
}

/// A kind of windows: its name, the windows, and their use.
type Kind = (&'static str, fn(usize) -> Window, Use);

const KINDS: &[Kind] = &[
    ("empty windows", empty, Use::Nothing),
    ("empty windows of several profiles", empty, Use::Profiles),
    ("a message of a letter", |_| tiny(1), Use::Nothing),
    ("a message of a letter, under several profiles", |_| tiny(1), Use::Profiles),
    ("an exchange without messages", |_| window_of(vec![Recorded::new(Seq::FIRST, exchange([]))]), Use::Nothing),
    (
        "lists with room for more",
        |_| {
            let mut exchanges = Vec::with_capacity(1_000);
            exchanges.push(Recorded::new(Seq::FIRST, exchange([])));
            window_of(exchanges)
        },
        Use::Nothing,
    ),
    (
        "a short summary",
        |_| {
            let mut cut = Cut::default();
            cut.set_summary(Summary::new("s"), Seq::FIRST);
            Window::new(
                Revision::new(INCARNATION, 1),
                Some(compact(cut).stored_as(CompactionVersion::new(1))),
                vec![],
                false,
            )
        },
        Use::Nothing,
    ),
    ("windows that grow by one exchange", |_| tiny(1), Use::Append(1)),
    ("windows that grow by some exchanges", |_| tiny(4), Use::Append(5)),
    ("windows that are compacted to nothing", |_| tiny(20), Use::Compact),
    ("long messages", long, Use::Nothing),
    // The tables do not shrink when few large windows replace many small ones.
    ("tiny windows, and then long messages", |n| if n < 9_500 { empty(n) } else { long(n) }, Use::Nothing),
];

fn compact(cut: Cut) -> Compact {
    Cuts::new(cut).compact(Profile::default(), CompactionVersion::NONE).unwrap()
}

fn id(number: usize) -> ConversationId {
    ConversationId::new([number.to_string()]).unwrap()
}

async fn touch(cache: &CachedStore<WindowPerId>, id: &ConversationId, after_load: Use) {
    let Loaded::Window(window) = cache.load(id, Load::new()).await.unwrap() else { panic!("no window") };
    match after_load {
        Use::Nothing => {}
        Use::Profiles => {
            for name in NAMES {
                cache.load(id, Load::new().profile(Profile::new(name).unwrap())).await.unwrap();
            }
        }
        Use::Append(more) => {
            let before = window.revision.len();
            for len in before..before + more {
                let expect = Expect::Exactly(Revision::new(INCARNATION, len));
                cache.append(id, Append::new(expect, exchange([Message::user("y")]))).await.unwrap();
            }
        }
        Use::Compact => {
            let cut = Cut::window_from(Seq::new(window.revision.len()));
            cache.compact(id, INCARNATION, compact(cut)).await.unwrap();
        }
    }
}

/// Only one test, because another one would allocate at the same time.
#[tokio::test]
async fn the_heap_stays_within_the_limit_for_windows_of_any_size() {
    for (name, make, after_load) in KINDS {
        let before = ALLOCATOR.allocated();
        let heap = || ALLOCATOR.allocated().saturating_sub(before);
        let cache = CachedStore::with_limit(WindowPerId(*make), LIMIT);
        let mut most = 0;
        for n in 0..12_000 {
            // Some conversations are read again, so that they stay in the cache longer than others.
            touch(&cache, &id(n), *after_load).await;
            touch(&cache, &id(n / 2), Use::Nothing).await;
            if n % 64 == 0 {
                most = most.max(heap());
            }
        }
        let share = |bytes: f64| bytes / LIMIT as f64;
        eprintln!("{name}: {:.2} of the limit, {:.2} used", share(most as f64), share(cache.used() as f64));
        assert!(most <= LIMIT, "{name}: {most} bytes for a limit of {LIMIT}");
        assert!(most >= LIMIT / 4, "{name}: {most} bytes, and the cache says that {} are used", cache.used());
        assert!(cache.used() <= LIMIT, "{name}");
        cache.clear();
        assert_eq!(cache.used(), 0, "{name}");
    }
}
