//! The cost of the layer over HTTP requests with the memory store, beside the bare transport and beside the typed
//! integration, for a window of 60 messages of 250 bytes.
//!
//! The transport is in the same process. It reads the whole body of the request, and answers with a text of 250 bytes.
//! `bare` is the transport alone. The cost of the layer is the time of `layer` minus the time of `bare`. The cost of
//! the typed integration is the time of `typed` minus the time of `typed_bare`. `client_by_hand` is a lower bound for
//! any kind of history over HTTP: a caller that keeps the window as JSON, and copies it into each body.
//!
//! Run it with `cargo bench -p benches --bench http`.
#![allow(clippy::unwrap_used)] // Benches may panic.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use benches::{
    FixedWindow, WINDOW,
    api::{APIS, Api, asked, asked_in, layer, provenance, transport},
    llm, question, text, turn,
};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use tokio::runtime::{Builder, Runtime};
use tower::{Layer as _, Service as _, ServiceExt};
use tower_chat_history::{ChatHistoryLayer, InConversation, Message, http::HistoryBody};
use tower_chat_history_openai::OpenAi;

/// A turn is a question and its answer.
const TURNS: usize = WINDOW / 2;

fn runtime() -> Runtime {
    // By default every store call has a timeout, which needs the timer.
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Sends a body of one question over the transport.
async fn bare(calls: u64, api: Api) -> Duration {
    let (mut client, body) = (transport(api), Bytes::from(api.body(&api.turn()[..1])));
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
async fn layered(calls: u64, api: Api, turns: usize) -> Duration {
    let mut kept = FixedWindow::of_turn_made(turns, api.turn(), provenance(api).await).await;
    let body = Bytes::from(api.body(&kept.turn()[..1]));
    let mut chat = layer(kept.store.clone(), api);
    let mut taken = Duration::ZERO;
    for _ in 0..calls {
        let request = asked_in(&kept.id, api, &body);
        let start = Instant::now();
        let chat = ServiceExt::<Request<Full<Bytes>>>::ready(&mut chat).await.unwrap();
        let response = chat.call(request).await.unwrap();
        black_box(response.into_body().collect().await.unwrap().to_bytes());
        taken += start.elapsed();
        kept.restore().await;
    }
    taken
}

async fn typed_bare(calls: u64) -> Duration {
    let (mut llm, request) = (llm(), question());
    let start = Instant::now();
    for _ in 0..calls {
        black_box(llm.ready().await.unwrap().call(request.clone()).await.unwrap());
    }
    start.elapsed()
}

async fn typed(calls: u64, turns: usize) -> Duration {
    let (mut kept, question) = (FixedWindow::of_turn(turns, turn(&text())).await, question());
    let mut chat = ChatHistoryLayer::new(kept.store.clone(), OpenAi::new()).layer(llm());
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

fn http(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("http");
    group.bench_function("typed_bare", |b| b.to_async(&runtime).iter_custom(typed_bare));
    group.bench_function("typed", |b| b.to_async(&runtime).iter_custom(|calls| typed(calls, TURNS)));
    for api in APIS {
        let id = |kind| BenchmarkId::new(kind, api.name);
        group.bench_function(id("bare"), |b| b.to_async(&runtime).iter_custom(|calls| bare(calls, api)));
        group.bench_function(id("client_by_hand"), |b| b.to_async(&runtime).iter_custom(|calls| by_hand(calls, api)));
        group.bench_function(id("layer"), |b| b.to_async(&runtime).iter_custom(|calls| layered(calls, api, TURNS)));
    }
    group.finish();
}

/// Measures conversations of 100 and 10,000 messages, each with a window of 60 messages.
fn flat(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("http_flat");
    for messages in [100, 10_000] {
        for api in APIS {
            group.bench_with_input(BenchmarkId::new(api.name, messages), &messages, |b, messages| {
                b.to_async(&runtime).iter_custom(|calls| layered(calls, api, messages / 2));
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
    targets = http, flat
}
criterion_main!(benches);
