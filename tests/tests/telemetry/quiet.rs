//! Invariant 12: no text of a conversation is exported or logged, or shown by values and errors.
//! (`content.rs` covers ids, keys and all other paths.)

use std::{fmt::Write as _, path::Path, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use rusqlite::Connection;
use serde_json::{Value, json};
use tests::{BOTH_KINDS, CallKind, Chat, Storage, TypedRequest, over_every_store, unsaved};
use tower::Layer as _;
use tower_chat_history::{
    BoxError, CallOptions, ContextOptions, ConversationId, Exchange, ExchangeId, HistoryOptions, HistoryStore as _,
    HistoryStoreExt as _, InConversation, Message, Policies, TurnInput,
    adapt::{AdaptRequest as _, Draft as _, OpenedRequest, Prompt},
    budget::Watermarks,
    policy::{DetachLimits, OnInterruption, OnLoadFailure, OnOpenTurn},
    store::{Append, CompactionVersion, Cut, Cuts, Expect, Load, Profile, Recorded, Seq, Summary},
    summary::{Summaries, SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
    view::View,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::{ApiFailure, Fault, Op, Reply};

use crate::{
    shown::{SECRET, ShownTexts},
    trace::traced,
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    invariant_12_no_text_is_logged_or_shown_by_successful_calls,
    invariant_12_no_text_is_logged_or_shown_by_failed_calls,
    invariant_12_no_text_of_a_damaged_file_is_shown,
}

/// Returns a request whose head and input have the secret wherever text can be.
fn secret_request(input: &[Value]) -> TypedRequest {
    let head = [json!({"role": "developer", "content": SECRET, "name": SECRET})];
    let messages: Vec<_> = head.iter().chain(input).collect();
    serde_json::from_value(json!({
        "model": "mock", "messages": messages, "user": SECRET, "metadata": {"m": SECRET},
        "tools": [{"type": "function", "function": {"name": "f", "description": SECRET}}],
    }))
    .unwrap()
}

fn question() -> Vec<Value> {
    vec![json!({"role": "user", "content": [{"type": "text", "text": SECRET}], "name": SECRET})]
}

fn result() -> Vec<Value> {
    vec![json!({"role": "tool", "tool_call_id": "x", "content": SECRET})]
}

fn secret_reply() -> Reply {
    Reply::text(SECRET).chunk_chars(3).field("reasoning_content", SECRET)
}

fn secret_tool_call() -> Reply {
    secret_reply().with_calls([("x", "f", SECRET)])
}

/// Makes a call of this kind, and collects everything that shows it.
async fn call(shown: &ShownTexts, chat: &Chat, kind: CallKind, call: tests::TypedCall) {
    let (call, report) = call.with_report();
    shown.debug(&call);
    shown.debug(&report);
    let error: Option<BoxError> = match kind {
        CallKind::Unary => chat.unary(call).await.err(),
        CallKind::Stream => match chat.stream(call).await {
            Err(error) => Some(error),
            Ok(stream) => {
                stream.for_each(|_| std::future::ready(())).await;
                None
            }
        },
    };
    if let Some(report) = report.await {
        shown.debug(&report);
        if let Some(error) = report.save_error() {
            shown.error(error);
        }
    }
    if let Some(error) = error {
        shown.error(&*error);
        if error.is::<tower_chat_history::Unsaved<tests::Response>>() {
            shown.error(unsaved(error).reason());
        }
    }
}

async fn invariant_12_no_text_is_logged_or_shown_by_successful_calls(storage: Storage) {
    let shown = ShownTexts::default();
    let ((), trace) = traced(calls_succeed(&shown, &storage)).await;
    shown.exported(&trace);
    shown.assert_no_secret();
}

async fn calls_succeed(shown: &ShownTexts, storage: &Storage) {
    for kind in BOTH_KINDS {
        let replies = [
            secret_tool_call(),
            secret_reply(),
            secret_tool_call(),
            secret_reply(),
            Reply::refusal(SECRET),
            Reply::empty(),
            secret_reply(),
        ];
        let (chat, id) = (Chat::new(storage, replies), storage.conversation());
        // A tool round, superseded calls, and later turns.
        for input in [question(), result(), question(), question(), question(), question(), question()] {
            let exchange = ExchangeId::generate();
            call(shown, &chat, kind, InConversation::new(id.clone(), secret_request(&input)).exchange(exchange)).await;
        }
        assert_eq!(chat.llm.requests().len(), 7);
        values(shown, storage, &chat, &id).await;
    }
}

/// Collects every public value that has messages, directly or indirectly.
async fn values(shown: &ShownTexts, storage: &Storage, chat: &Chat, id: &ConversationId) {
    let service = chat.layer().layer(chat.llm.unary());
    shown.debug(&service);
    shown.debug(&chat.layer());
    shown.debug(chat.engine());
    shown.debug(&chat.llm);
    shown.debug(&storage.store.conversation(id));

    let messages = storage.store.conversation(id).messages().await.unwrap();
    for message in &messages {
        shown.debug(message);
        shown.debug(&message.content());
        shown.debug(&message.tool_calls());
    }
    let mut view = View::default();
    view.extend(&messages);
    shown.debug(&view);
    shown.debug(view.open());
    shown.debug(&storage.store.load(id, Load::new()).await.unwrap());
    shown.debug(&storage.store.read(id, Seq::FIRST, 9).await.unwrap());

    let exchange = Exchange::new(ExchangeId::generate(), messages.clone());
    shown.debug(&Recorded::new(Seq::FIRST, exchange.clone()));
    let mut cut = Cut::window_from(Seq::new(1));
    cut.set_summary(Summary::new(SECRET), Seq::new(1));
    let cuts = Cuts::new(cut);
    let compact = cuts.compact(Profile::default(), CompactionVersion::NONE).unwrap();
    shown.debug(&cuts);
    shown.debug(&compact.stored_as(CompactionVersion::new(1)));
    shown.debug(&Append::new(Expect::AnyOrCreate, exchange).compact(compact));

    // A request on its way through the adapter.
    let instead = || [Message::user(SECRET)];
    let (options, _report) = CallOptions::new().store_instead(instead()).with_report();
    shown.debug(&options);
    shown.debug(&TurnInput::new(id.clone(), instead()).options(options));
    let call =
        InConversation::new(id.clone(), secret_request(&question())).store_instead(instead()).few_shot_messages(1);
    shown.debug(&call);
    shown.debug(&call.into_parts().0);
    let stateless = || InConversation::stateless(secret_request(&question()));
    shown.debug(&stateless());
    let other = OpenAi::new().open(stateless()).await.unwrap();
    shown.debug(&other);
    let opened = OpenAi::new().open(InConversation::new(id.clone(), secret_request(&question()))).await.unwrap();
    shown.debug(&opened);
    let OpenedRequest::Turn(input, draft) = opened else { panic!("not a turn") };
    shown.debug(&draft);
    shown.debug(&draft.complete(Prompt::new(&messages[..2])).unwrap());
    let turn = chat.engine().begin(input).await.unwrap();
    shown.debug(&turn);
    shown.debug(&turn.context());
    let reply = tower_chat_history::Reply::new(Message::assistant(SECRET));
    shown.debug(&reply);
    shown.debug(&turn.commit(reply).await.unwrap());

    chat.llm.replies().push(secret_reply());
    let mut service = chat.layer().layer(chat.llm.unary());
    tower::Service::call(&mut service, InConversation::new(id.clone(), secret_request(&question()))).await.unwrap();
}

/// A summarizer that returns the text of the conversation, as the summary or as an error.
#[derive(Debug)]
struct QuotingSummarizer {
    fails: bool,
}

#[async_trait]
impl Summarizer for QuotingSummarizer {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        if self.fails { Err(SECRET.into()) } else { Ok(SummaryResponse::new(SECRET)) }
    }
}

async fn invariant_12_no_text_is_logged_or_shown_by_failed_calls(storage: Storage) {
    let shown = ShownTexts::default();
    let ((), trace) = traced(calls_fail(&shown, &storage)).await;
    let logged = trace.spans.iter().map(|span| span.events.len()).sum::<usize>();
    assert!(logged > 9, "events were logged: {logged}");
    shown.exported(&trace);
    refused(&shown);
    shown.assert_no_secret();
}

async fn calls_fail(shown: &ShownTexts, storage: &Storage) {
    for kind in BOTH_KINDS {
        let id = storage.conversation();
        let ask = |input: &[Value]| InConversation::new(id.clone(), secret_request(input));
        let exchange = ExchangeId::new("e-1").unwrap();
        let calm = Chat::new(storage, [secret_tool_call()]);
        call(shown, &calm, kind, ask(&question()).exchange(exchange.clone())).await;

        // Before the model is called.
        call(shown, &calm, kind, ask(&[])).await;
        call(shown, &calm, kind, ask(&[result(), result()].concat())).await;
        call(shown, &calm, kind, ask(&[question(), result()].concat())).await;
        call(shown, &calm, kind, ask(&question()).exchange(exchange)).await;
        let reject = HistoryOptions::new().policies(Policies::new().on_open_turn(OnOpenTurn::Reject));
        call(shown, &Chat::with_options(storage, [], reject), kind, ask(&question())).await;
        for fault in [Fault::Unavailable, Fault::Backend, Fault::Corrupt] {
            storage.store.fail(Op::Load, 1, fault);
            call(shown, &calm, kind, ask(&question())).await;
        }
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        let anyway = HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
        call(shown, &Chat::with_options(storage, [secret_reply()], anyway), kind, ask(&question())).await;
        storage.store.delay(Op::Load, Duration::from_secs(11));
        call(shown, &calm, kind, ask(&question())).await;
        storage.store.mend();

        // The model fails.
        let failure = || ApiFailure::new(400, SECRET);
        let replies = [
            Reply::error(failure()),
            secret_reply().finish(SECRET),
            secret_reply().abort_after(2),
            secret_reply().error_after(2, failure()),
            secret_reply().end_after(2),
        ];
        for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
            let chat = Chat::with_options(
                storage,
                replies.clone(),
                HistoryOptions::new().policies(Policies::new().on_interruption(policy)),
            );
            for _ in &replies {
                call(shown, &chat, kind, ask(&question())).await;
            }
        }

        // A stream stalls, and one without a caller exceeds the limit of detached streams.
        let stalls = HistoryOptions::new().stream_idle_timeout(Duration::from_secs(1));
        let slow = secret_reply().chunk_delay(Duration::from_secs(2));
        call(shown, &Chat::with_options(storage, [slow], stalls), kind, ask(&question())).await;
        let limits = DetachLimits::new().max_streams(0);
        let alone = HistoryOptions::new()
            .policies(Policies::new().on_interruption(OnInterruption::Detach).detach_limits(limits));
        drop(Chat::with_options(storage, [secret_reply()], alone).stream(ask(&question())).await.unwrap());

        // A summary fails because of the summarizer, whose error quotes the text, or because of the store.
        for fault in [None, Some(Op::Read), Some(Op::Compact)] {
            let summaries =
                Summaries::new(QuotingSummarizer { fails: fault.is_none() }).when(SummarizeWhen::BeforeCall);
            let options = HistoryOptions::new()
                .context(ContextOptions::new().watermarks(Watermarks::last_turns(1)))
                .summaries(summaries);
            let (chat, id) = (Chat::with_options(storage, vec![secret_reply(); 4], options), storage.conversation());
            if let Some(op) = fault {
                storage.store.fail(op, usize::MAX, Fault::Backend);
            }
            for _ in 0..4 {
                call(shown, &chat, kind, InConversation::new(id.clone(), secret_request(&question()))).await;
            }
            storage.store.mend();
        }

        // The exchange cannot be stored.
        for fault in [Fault::Unavailable, Fault::Backend, Fault::Conflict, Fault::Gone, Fault::Corrupt] {
            storage.store.fail(Op::Append, 3, fault);
            call(shown, &Chat::new(storage, [secret_reply()]), kind, ask(&question())).await;
            storage.store.mend();
        }
        storage.store.delay(Op::Append, Duration::from_secs(11));
        call(shown, &Chat::new(storage, [secret_reply()]), kind, ask(&question())).await;
        storage.store.mend();
    }
}

/// Collects the errors for texts that the library does not accept.
fn refused(shown: &ShownTexts) {
    for json in [
        format!("{{\"role\":\"user\",\"content\":\"{SECRET}"),
        format!("{{\"role\":[\"{SECRET}\"]}}"),
        format!("{{\"content\":\"{SECRET}\"}}"),
        format!("\"{SECRET}\""),
    ] {
        shown.error(&Message::from_json(json.as_str()).unwrap_err());
        shown.error(&Exchange::decode(&json).unwrap_err());
    }
    let mut record = String::from("{\"v\":1,\"id\":");
    write!(record, "\"{SECRET} \",\"messages\":[]}}").unwrap();
    shown.error(&Exchange::decode(&record).unwrap_err());
    shown.error(&ExchangeId::new(format!("{SECRET} ")).unwrap_err());
    shown.error(&format!("{SECRET} ").parse::<ConversationId>().unwrap_err());
}

async fn invariant_12_no_text_of_a_damaged_file_is_shown(storage: Storage) {
    let Some(file) = storage.file() else { return };
    let shown = ShownTexts::default();
    let ((), trace) = traced(damaged(&shown, &storage, &file)).await;
    shown.exported(&trace);
    shown.assert_no_secret();
}

async fn damaged(shown: &ShownTexts, storage: &Storage, file: &Path) {
    for body in [
        format!("{{{SECRET}"),
        format!(r#"{{"v":9,"id":"{SECRET}"}}"#),
        format!(r#"{{"v":1,"id":"{SECRET}","at":"{SECRET}","messages":[{{"role":"{SECRET}"}}]}}"#),
    ] {
        let (chat, id) = (Chat::new(storage, [secret_reply()]), storage.conversation());
        call(shown, &chat, CallKind::Unary, InConversation::new(id.clone(), secret_request(&question()))).await;
        Connection::open(file).unwrap().execute("UPDATE exchange SET body = ?1", [body]).unwrap();
        for kind in BOTH_KINDS {
            call(shown, &chat, kind, InConversation::new(id.clone(), secret_request(&question()))).await;
        }
        shown.error(&storage.store.read(&id, Seq::FIRST, 9).await.unwrap_err());
        storage.store.delete(&id).await.unwrap();
    }
}
