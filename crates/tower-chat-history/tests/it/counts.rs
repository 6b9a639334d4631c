//! Token counts are stored with the exchange, so each message is counted once.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tower_chat_history::{
    ContextBudget, ContextOptions, Engine, Exchange, HistoryOptions, HistoryStore, HistoryStoreExt as _, MemoryStore,
    Message, Reply, TurnInput,
    store::{Cuts, Load, Loaded, Profile, Window},
    summary::{Summaries, SummarizeWhen},
    tokens::{CachedCounter, MessageCount, TokenCounter, tokens_of},
};

use crate::{
    summaries::support::{CollectedReports, Facts},
    support::id,
};

/// Records how often it is called.
#[derive(Clone, Debug)]
struct RecordingCounter {
    name: Arc<str>,
    count_calls: Arc<AtomicU32>,
}

impl RecordingCounter {
    fn new(name: &str) -> Self {
        Self { name: name.into(), count_calls: Arc::default() }
    }

    fn count_calls(&self) -> u32 {
        self.count_calls.load(Ordering::Relaxed)
    }
}

impl TokenCounter for RecordingCounter {
    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn count_text(&self, text: &str) -> u32 {
        self.count_calls.fetch_add(1, Ordering::Relaxed);
        u32::try_from(text.len()).unwrap()
    }
}

async fn turn(engine: &Engine, input: TurnInput, reply: &str) {
    let turn = engine.begin(input).await.unwrap();
    turn.commit(Reply::new(Message::assistant(reply))).await.unwrap();
}

fn ask(text: &str) -> TurnInput {
    TurnInput::new(id(), [Message::user(text)])
}

/// Returns the exchanges as a database store does: new messages at each load.
async fn reloaded(store: &impl HistoryStore) -> Vec<Exchange> {
    let exchanges = store.conversation(&id()).exchanges().await.unwrap();
    exchanges.iter().map(|recorded| Exchange::decode(&recorded.exchange.encode().unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn an_exchange_is_stored_with_its_counts() {
    let (store, counter) = (MemoryStore::new(), RecordingCounter::new("watched"));
    let engine = Engine::with_options(
        store.clone(),
        HistoryOptions::new().context(ContextOptions::new().token_counter(counter.clone())),
    );
    turn(&engine, ask("four"), "eleven long").await;
    turn(&engine, ask("five"), "").await;

    let log = reloaded(&store).await;
    let counts: Vec<_> = log.iter().map(|exchange| exchange.tokens.clone().unwrap()).collect();
    assert!(counts.iter().all(|counts| &*counts.counter == "watched"));
    assert_eq!(counts.iter().map(|counts| counts.counts.as_slice()).collect::<Vec<_>>(), [[8, 15], [8, 4]]);

    // Loaded messages have their counts and are not counted again.
    assert_eq!(counter.count_calls(), 4);
    let messages = log.iter().flat_map(|exchange| &exchange.messages);
    assert_eq!(messages.map(|message| tokens_of(&counter, message)).sum::<u32>(), 35);
    assert_eq!(counter.count_calls(), 4);
}

#[tokio::test]
async fn counts_of_a_second_counter_are_cached_between_loads() {
    let store = MemoryStore::new();
    turn(&Engine::new(store.clone()), ask("four"), "a").await;
    let second = RecordingCounter::new("second");
    let cached = CachedCounter::new(second.clone());
    for _ in 0..3 {
        for message in reloaded(&store).await.iter().flat_map(|exchange| &exchange.messages) {
            assert_eq!(cached.count_message(message), 4 + u32::try_from(message.text().len()).unwrap());
        }
    }
    assert_eq!(second.count_calls(), 2);
}

#[tokio::test]
async fn the_counter_of_the_options_precedes_the_calls_counter() {
    let store = MemoryStore::new();
    turn(&Engine::new(store.clone()), ask("four"), "a").await;
    let mut input = ask("four");
    input.counter = Some(Arc::new(RecordingCounter::new("of the call")));
    turn(&Engine::new(store.clone()), input.clone(), "a").await;
    let options =
        HistoryOptions::new().context(ContextOptions::new().token_counter(RecordingCounter::new("of the options")));
    turn(&Engine::with_options(store.clone(), options), input, "a").await;

    let names = reloaded(&store).await.into_iter().map(|exchange| exchange.tokens.unwrap().counter.to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["utf8-bytes", "of the call", "of the options"]);
}

#[tokio::test]
async fn without_a_counter_the_name_of_the_model_decides() {
    for (model, expected) in [
        (Some("claude-opus-5-5"), "anthropic-estimate"),
        (Some("anthropic/claude-sonnet-4.5"), "anthropic-older-estimate"),
        (Some("gemini-3-pro"), "gemini-estimate"),
        (Some("mistral-large-latest"), "mistral-estimate"),
        (Some("gpt-5"), "utf8-bytes"),
        (Some("acme-1"), "utf8-bytes"),
        (None, "utf8-bytes"),
    ] {
        let (store, mut input) = (MemoryStore::new(), ask("four"));
        input.request.model = model.map(str::to_owned);
        turn(&Engine::new(store.clone()), input, "a").await;
        assert_eq!(&*reloaded(&store).await[0].tokens.as_ref().unwrap().counter, expected, "{model:?}");
    }
}

#[tokio::test]
async fn counts_without_a_name_are_not_stored() {
    let store = MemoryStore::new();
    let options = HistoryOptions::new().context(ContextOptions::new().token_counter(MessageCount::new()));
    turn(&Engine::with_options(store.clone(), options), ask("four"), "a").await;
    assert_eq!(reloaded(&store).await[0].tokens, None);
}

async fn window(store: &impl HistoryStore) -> Window {
    let Loaded::Window(window) = store.load(&id(), Load::new()).await.unwrap() else { panic!("it exists") };
    window
}

/// Makes turns until this number of summaries has been made.
async fn make_summaries(engine: &Engine, facts: &Facts, number: usize) {
    for _ in 0..200 {
        if facts.calls() == number {
            return;
        }
        turn(engine, ask(&"u".repeat(100)), "ok").await;
    }
    panic!("{} summaries were made", facts.calls());
}

#[tokio::test(start_paused = true)]
async fn the_size_of_a_summary_that_another_counter_stored_is_not_used() {
    let (store, facts, collected) = (MemoryStore::new(), Facts::new(), CollectedReports::default());
    let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::BeforeCall).on_summary(collected.hook());
    let counter = RecordingCounter::new("watched");
    let context = ContextOptions::new().token_counter(counter).budget(ContextBudget::tokens(4_000));
    let engine = Engine::with_options(store.clone(), HistoryOptions::new().context(context).summaries(summaries));
    make_summaries(&engine, &facts, 1).await;
    let stored = window(&store).await;
    let compaction = stored.compaction.unwrap();
    let mut cut = Cuts::read(&compaction).unwrap().cut;
    cut.summary.as_mut().unwrap().tokens = Some(1_000_000);
    let compact = Cuts::new(cut).compact(Profile::default(), compaction.version).unwrap();
    store.compact(&id(), stored.revision.incarnation(), compact).await.unwrap();
    make_summaries(&engine, &facts, 2).await;
    let replaced: Vec<u64> = collected.all().iter().map(|report| report.replaced_tokens).collect();
    assert_eq!(replaced.len(), 2);
    assert!(replaced.iter().all(|tokens| *tokens < 10_000), "{replaced:?}");
}

#[tokio::test(start_paused = true)]
async fn the_count_of_a_summary_is_stored_with_it() {
    let (store, counter, facts) = (MemoryStore::new(), RecordingCounter::new("watched"), Facts::new());
    let summaries = Summaries::new(facts.clone()).when(SummarizeWhen::BeforeCall);
    let context = ContextOptions::new().token_counter(counter).budget(ContextBudget::tokens(4_000));
    let engine = Engine::with_options(store.clone(), HistoryOptions::new().context(context).summaries(summaries));
    make_summaries(&engine, &facts, 1).await;
    let cuts = Cuts::read(&window(&store).await.compaction.unwrap()).unwrap();
    let summary = cuts.cut.summary.unwrap();
    assert_eq!(summary.tokens, Some(u32::try_from(summary.text.len()).unwrap()), "{}", summary.text);
}
