//! Trimming a list of 10,000 messages to 4,000 tokens.
//!
//! The messages have token counts, as loaded messages do. In `exact_new_messages`, they have none, so they are counted.
//! The environment variable `CORPUS` can name a file with one text per line. Without it, all texts are equal.
//! `peers/trim.py` sets the variable, and measures LangChain's `trim_messages` with the same messages.
//!
//! Run it with `cargo bench -p benches --bench trim`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{env, fs, hint::black_box, sync::Arc, time::Duration};

use benches::text;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use tower_chat_history::{
    Exchange, ExchangeId, Message,
    store::TokenCounts,
    tokens::{LangChainEstimate, MessageCount, TokenCounter, tokens_of},
    trim::{Speaker, Trim, fit_messages, trim_messages},
};
use tower_chat_history_openai::tokens::Tiktoken;

const MESSAGES: usize = 10_000;
const TOKENS: u64 = 4_000;

fn texts() -> Vec<String> {
    match env::var_os("CORPUS") {
        Some(file) => fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect(),
        None => vec![text()],
    }
}

/// Returns a system message, then questions and answers, with a question at the end.
fn messages() -> Vec<Message> {
    let texts = texts();
    let mut messages = vec![Message::system("You are helpful.")];
    for number in 0..MESSAGES - 1 {
        let text = &texts[number % texts.len()];
        messages.push(if number % 2 == 0 { Message::user(text) } else { Message::assistant(text) });
    }
    messages
}

/// Returns the messages as a store does, with their token counts.
fn loaded(counter: &Tiktoken) -> Vec<Message> {
    let name = Arc::clone(counter.name().unwrap());
    let mut exchange = Exchange::new(ExchangeId::generate(), messages());
    let counts = exchange.messages.iter().map(|message| tokens_of(counter, message)).collect();
    exchange.tokens = Some(TokenCounts { counter: name, counts });
    Exchange::decode(&exchange.encode().unwrap()).unwrap().messages
}

fn trim(criterion: &mut Criterion) {
    let exact = Tiktoken::o200k();
    let messages = loaded(&exact);

    // The options that LangChain's documentation recommends for chat models.
    let last = Trim::last(TOKENS).start_on([Speaker::User]).include_system();
    assert!((20..200).contains(&trim_messages(&messages, &last, &exact).len()));

    let mut group = criterion.benchmark_group("trim");
    group.bench_function("exact", |b| b.iter(|| black_box(trim_messages(&messages, &last, &exact))));

    let approximate = LangChainEstimate::new();
    group.bench_function("approximate", |b| b.iter(|| black_box(trim_messages(&messages, &last, &approximate))));

    let newest = Trim::last(60).start_on([Speaker::User]).include_system();
    let count = MessageCount::new();
    group.bench_function("messages", |b| b.iter(|| black_box(trim_messages(&messages, &newest, &count))));

    // Only the kept messages are counted.
    group.bench_function("exact_new_messages", |b| {
        b.iter_batched_ref(self::messages, |messages| trim_messages(messages, &last, &exact), BatchSize::LargeInput);
    });
    group.bench_function("fit", |b| b.iter(|| black_box(fit_messages(&messages, TOKENS, &exact).unwrap())));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1_500));
    targets = trim
}
criterion_main!(benches);
