//! The cost of the layer with the memory store, for a window of 60 messages of 250 bytes: with the client's types
//! (`layer`), in long conversations (`flat`), and over HTTP requests (`http`, `http_flat`).
//!
//! `bare` is the boxed mock model alone. The cost of the layer is the time of `store` minus the time of `bare`.
//! `store_code` is the same with texts that JSON escapes, and `dont_store` appends nothing. `window_by_hand` is a lower
//! bound for any kind of history: a caller that has 60 messages in the client's types, and copies them for each call.
//! `engine` has neither a service nor the client's types.
//!
//! Over HTTP, the transport is in the same process. It reads the whole body of the request, and answers with a text of
//! 250 bytes. `bare` is the transport alone. The cost of the layer is the time of `layer` minus the time of `bare`. The
//! cost of the typed integration is the time of `typed` minus the time of `typed_bare`. `client_by_hand` is a caller
//! that keeps the window as JSON, and copies it into each body.
//!
//! Run it with `cargo bench -p benches --bench layer`. To measure only a group, name it: `-- http`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use async_openai::types::chat::CreateChatCompletionRequest;
use benches::{
    FixedWindow, Llm, WINDOW,
    api::{APIS, Api, asked, asked_in, provenance, transport},
    code, llm, question, request, text, turn,
};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use http_body_util::{BodyExt as _, Full};
use tokio::runtime::{Builder, Runtime};
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    ChatHistory, ChatHistoryLayer, Engine, InConversation, Message, Reply, TurnInput, http::HistoryBody,
};
use tower_chat_history_openai::OpenAi;

/// A turn is a question and its answer.
const TURNS: usize = WINDOW / 2;

fn runtime() -> Runtime {
    // By default every store call has a timeout, which needs the timer.
    Builder::new_current_thread().enable_time().build().unwrap()
}

async fn bare(calls: u64, request: CreateChatCompletionRequest) -> Duration {
    let mut llm = llm();
    let start = Instant::now();
    for _ in 0..calls {
        black_box(llm.ready().await.unwrap().call(request.clone()).await.unwrap());
    }
    start.elapsed()
}

async fn unstored(calls: u64) -> Duration {
    let kept = FixedWindow::of_turn(TURNS, turn(&text())).await;
    let question = question();
    let mut chat: ChatHistory<Llm, OpenAi> = ChatHistoryLayer::new(kept.store.clone(), OpenAi::new()).layer(llm());
    let start = Instant::now();
    for _ in 0..calls {
        let call = InConversation::new(kept.id.clone(), question.clone()).dont_store();
        black_box(chat.ready().await.unwrap().call(call).await.unwrap());
    }
    start.elapsed()
}

async fn stored(calls: u64, turns: usize, text: String) -> Duration {
    let mut kept = FixedWindow::of_turn(turns, turn(&text)).await;
    let question = question();
    let mut chat: ChatHistory<Llm, OpenAi> = ChatHistoryLayer::new(kept.store.clone(), OpenAi::new()).layer(llm());
    let mut taken = Duration::ZERO;
    for _ in 0..calls {
        let start = Instant::now();
        let call = InConversation::new(kept.id.clone(), question.clone());
        black_box(chat.ready().await.unwrap().call(call).await.unwrap());
        taken += start.elapsed();

        kept.restore().await;
    }
    taken
}

/// Measures the engine and the store, without a service and without the client's types.
async fn engine(calls: u64, turns: usize) -> Duration {
    let mut kept = FixedWindow::of_turn(turns, turn(&text())).await;
    let engine = Engine::new(kept.store.clone());
    let [question, answer] = kept.turn();
    let mut taken = Duration::ZERO;
    for _ in 0..calls {
        let start = Instant::now();
        let turn = engine.begin(TurnInput::new(kept.id.clone(), [question.clone()])).await.unwrap();
        black_box(turn.context());
        black_box(turn.commit(Reply::new(answer.clone())).await.unwrap());
        taken += start.elapsed();

        kept.restore().await;
    }
    taken
}

/// Sends a body of one question over the transport.
async fn bare_transport(calls: u64, api: Api) -> Duration {
    let mut client = transport(api);
    let body = Bytes::from(api.body(&api.turn()[..1]));
    let start = Instant::now();
    for _ in 0..calls {
        let request = asked(api, body.clone()).map(HistoryBody::new);
        let response = client.ready().await.unwrap().call(request).await.unwrap();
        black_box(response.into_body().collect().await.unwrap().to_bytes());
    }
    start.elapsed()
}

/// Sends bodies that are made of the JSON of the window and of the question.
async fn by_hand(calls: u64, api: Api) -> Duration {
    let [question, answer] = api.turn();
    let mut messages: Vec<Message> = (0..TURNS).flat_map(|_| [question.clone(), answer.clone()]).collect();
    messages.push(question);

    let mut client = transport(api);
    let start = Instant::now();
    for _ in 0..calls {
        let request = asked(api, Bytes::from(api.body(&messages))).map(HistoryBody::new);
        let response = client.ready().await.unwrap().call(request).await.unwrap();
        black_box(response.into_body().collect().await.unwrap().to_bytes());
    }
    start.elapsed()
}

/// Makes calls in a conversation with this many turns, of which the window has 60 messages. The turns have the
/// provenance that the layer would have stored, so that the prompts are those of a conversation with one provider.
async fn over_http(calls: u64, api: Api, turns: usize) -> Duration {
    let mut kept = FixedWindow::of_turn_made(turns, api.turn(), provenance(api).await).await;
    let body = Bytes::from(api.body(&kept.turn()[..1]));
    let mut chat = benches::api::layer(kept.store.clone(), api);
    let mut taken = Duration::ZERO;
    for _ in 0..calls {
        let request = asked_in(&kept.id, api, &body);
        let start = Instant::now();
        let chat = tower::ServiceExt::<http::Request<Full<Bytes>>>::ready(&mut chat).await.unwrap();
        let response = chat.call(request).await.unwrap();
        black_box(response.into_body().collect().await.unwrap().to_bytes());
        taken += start.elapsed();

        kept.restore().await;
    }
    taken
}

fn layer(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("layer");

    let short = question();
    group.bench_function("bare", |b| b.to_async(&runtime).iter_custom(|calls| bare(calls, short.clone())));

    let mut messages: Vec<Message> = (0..TURNS).flat_map(|_| turn(&text())).collect();
    messages.push(Message::user(text()));
    let whole = request(&messages);
    group.bench_function("window_by_hand", |b| b.to_async(&runtime).iter_custom(|calls| bare(calls, whole.clone())));

    group.bench_function("dont_store", |b| b.to_async(&runtime).iter_custom(unstored));
    group.bench_function("store", |b| b.to_async(&runtime).iter_custom(|calls| stored(calls, TURNS, text())));
    group.bench_function("store_code", |b| b.to_async(&runtime).iter_custom(|calls| stored(calls, TURNS, code())));
    group.finish();
}

/// Measures conversations of 100 to 100,000 messages, each with a window of 60 messages.
fn flat(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("flat");
    for messages in [100, 10_000, 100_000] {
        group.bench_with_input(BenchmarkId::new("engine", messages), &messages, |b, messages| {
            b.to_async(&runtime).iter_custom(|calls| engine(calls, messages / 2));
        });
        group.bench_with_input(BenchmarkId::new("layer", messages), &messages, |b, messages| {
            b.to_async(&runtime).iter_custom(|calls| stored(calls, messages / 2, text()));
        });
    }
    group.finish();
}

/// Measures HTTP requests of each API, beside the typed integration.
fn http(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("http");
    let short = question();
    group.bench_function("typed_bare", |b| b.to_async(&runtime).iter_custom(|calls| bare(calls, short.clone())));
    group.bench_function("typed", |b| b.to_async(&runtime).iter_custom(|calls| stored(calls, TURNS, text())));

    for api in APIS {
        group.bench_function(BenchmarkId::new("bare", api.name), |b| {
            b.to_async(&runtime).iter_custom(|calls| bare_transport(calls, api));
        });
        group.bench_function(BenchmarkId::new("client_by_hand", api.name), |b| {
            b.to_async(&runtime).iter_custom(|calls| by_hand(calls, api));
        });
        group.bench_function(BenchmarkId::new("layer", api.name), |b| {
            b.to_async(&runtime).iter_custom(|calls| over_http(calls, api, TURNS));
        });
    }
    group.finish();
}

/// Measures conversations of 100 and 10,000 messages over HTTP, each with a window of 60 messages.
fn http_flat(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("http_flat");
    for messages in [100, 10_000] {
        for api in APIS {
            group.bench_with_input(BenchmarkId::new(api.name, messages), &messages, |b, messages| {
                b.to_async(&runtime).iter_custom(|calls| over_http(calls, api, messages / 2));
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1_500));
    targets = layer, flat, http, http_flat
}
criterion_main!(benches);
