//! Invariant 12: no text of a conversation is in what is exported and logged, nor in what values and errors show of themselves.
//! (Ids, keys and every other path: `content.rs`.)

use std::{fmt::Write as _, path::Path, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use rusqlite::Connection;
use serde_json::{Value, json};
use tests::{BOTH_DOORS, Chat, Door, Storage, TypedRequest, not_saved, over_every_store};
use tower::Layer as _;
use tower_chat_history::{
    BoxError, CallOptions, ContextOptions, ConversationId, Exchange, ExchangeId, HistoryOptions, HistoryStore as _,
    HistoryStoreExt as _, InConversation, Message, Policies, TurnInput,
    adapt::{AdaptRequest as _, Draft as _, Opened, Prompt},
    budget::Watermarks,
    policy::{DetachLimits, OnInterruption, OnLoadFailure, OnOpenTurn},
    store::{Append, Compact, Compaction, CompactionVersion, Cut, Expect, Load, Profile, Recorded, Seq, Summary},
    summary::{Summaries, SummarizeWhen, Summarized, Summarizer, SummaryRequest},
    view::View,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::{ApiFailure, Fault, Op, Reply};

use crate::{
    shown::{SECRET, Shown},
    trace::traced,
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    invariant_12_no_text_is_logged_or_shown_when_all_goes_well,
    invariant_12_no_text_is_logged_or_shown_when_something_fails,
    invariant_12_no_text_is_shown_of_a_damaged_file,
}

/// A request whose head and input have the secret wherever text can be.
fn asked(input: &[Value]) -> TypedRequest {
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

fn said() -> Reply {
    Reply::text(SECRET).chunk_chars(3).field("reasoning_content", SECRET)
}

fn called() -> Reply {
    said().with_calls([("x", "f", SECRET)])
}

/// A call at that door, and everything that is shown of it.
async fn call(shown: &Shown, chat: &Chat, door: Door, call: tests::Asked) {
    let (call, report) = call.with_report();
    shown.debug(&call);
    shown.debug(&report);
    let error: Option<BoxError> = match door {
        Door::Unary => chat.unary(call).await.err(),
        Door::Stream => match chat.stream(call).await {
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
            shown.error(not_saved(error).reason());
        }
    }
}

async fn invariant_12_no_text_is_logged_or_shown_when_all_goes_well(storage: Storage) {
    let shown = Shown::default();
    let ((), trace) = traced(all_goes_well(&shown, &storage)).await;
    shown.exported(&trace);
    shown.is_quiet();
}

async fn all_goes_well(shown: &Shown, storage: &Storage) {
    for door in BOTH_DOORS {
        let replies = [called(), said(), called(), said(), Reply::refusal(SECRET), Reply::empty(), said()];
        let (chat, id) = (Chat::new(storage, replies), storage.conversation());
        // A tool round, calls that are superseded, and later turns.
        for input in [question(), result(), question(), question(), question(), question(), question()] {
            let exchange = ExchangeId::generate();
            call(shown, &chat, door, InConversation::new(id.clone(), asked(&input)).exchange(exchange)).await;
        }
        assert_eq!(chat.llm.requests().len(), 7);
        values(shown, storage, &chat, &id).await;
    }
}

/// Everything public that holds messages, and what holds that.
async fn values(shown: &Shown, storage: &Storage, chat: &Chat, id: &ConversationId) {
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
    cut.summary = Some(Summary::new(SECRET, Seq::new(1)));
    shown.debug(&Compaction::new(CompactionVersion::new(1), cut.clone()));
    let compact = Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut };
    shown.debug(&Append::new(Expect::AnyOrCreate, exchange).compact(compact));

    // The way of a request through the adapter.
    let instead = || [Message::user(SECRET)];
    let (options, _report) = CallOptions::new().store_instead(instead()).with_report();
    shown.debug(&options);
    shown.debug(&TurnInput::new(id.clone(), instead()).options(options));
    let call = InConversation::new(id.clone(), asked(&question())).store_instead(instead()).few_shot_messages(1);
    shown.debug(&call);
    shown.debug(&call.into_parts().0);
    let stateless = || InConversation::stateless(asked(&question()));
    shown.debug(&stateless());
    let other = OpenAi::new().open(stateless()).await.unwrap();
    shown.debug(&other);
    let opened = OpenAi::new().open(InConversation::new(id.clone(), asked(&question()))).await.unwrap();
    shown.debug(&opened);
    let Opened::Turn(input, draft) = opened else { panic!("it is one") };
    shown.debug(&draft);
    shown.debug(&draft.complete(Prompt::new(&messages[..2])).unwrap());
    let turn = chat.engine().begin(input).await.unwrap();
    shown.debug(&turn);
    shown.debug(&turn.context());
    let reply = tower_chat_history::Reply::new(Message::assistant(SECRET));
    shown.debug(&reply);
    shown.debug(&turn.commit(reply).await.unwrap());

    chat.llm.replies().push(said());
    let call = chat.layer().layer(chat.llm.unary());
    let call = tower::Service::call(&mut { call }, InConversation::new(id.clone(), asked(&question())));
    shown.debug(&call);
    call.await.unwrap();
}

/// A summarizer that repeats what it was given, as summary or as error.
#[derive(Debug)]
struct Quotes {
    fails: bool,
}

#[async_trait]
impl Summarizer for Quotes {
    async fn summarize(&self, _: SummaryRequest) -> Result<Summarized, BoxError> {
        if self.fails { Err(SECRET.into()) } else { Ok(Summarized::new(SECRET)) }
    }
}

async fn invariant_12_no_text_is_logged_or_shown_when_something_fails(storage: Storage) {
    let shown = Shown::default();
    let ((), trace) = traced(something_fails(&shown, &storage)).await;
    let logged = trace.spans.iter().map(|span| span.events.len()).sum::<usize>();
    assert!(logged > 9, "the events were seen: {logged}");
    shown.exported(&trace);
    refused(&shown);
    shown.is_quiet();
}

async fn something_fails(shown: &Shown, storage: &Storage) {
    for door in BOTH_DOORS {
        let id = storage.conversation();
        let ask = |input: &[Value]| InConversation::new(id.clone(), asked(input));
        let exchange = ExchangeId::new("e-1").unwrap();
        let calm = Chat::new(storage, [called()]);
        call(shown, &calm, door, ask(&question()).exchange(exchange.clone())).await;

        // Before the model is called.
        call(shown, &calm, door, ask(&[])).await;
        call(shown, &calm, door, ask(&[result(), result()].concat())).await;
        call(shown, &calm, door, ask(&[question(), result()].concat())).await;
        call(shown, &calm, door, ask(&question()).exchange(exchange)).await;
        let reject = HistoryOptions::new().policies(Policies::new().on_open_turn(OnOpenTurn::Reject));
        call(shown, &Chat::with_options(storage, [], reject), door, ask(&question())).await;
        for fault in [Fault::Unavailable, Fault::Backend, Fault::Corrupt] {
            storage.store.fail(Op::Load, 1, fault);
            call(shown, &calm, door, ask(&question())).await;
        }
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        let anyway = HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
        call(shown, &Chat::with_options(storage, [said()], anyway), door, ask(&question())).await;
        storage.store.delay(Op::Load, Duration::from_secs(11));
        call(shown, &calm, door, ask(&question())).await;
        storage.store.mend();

        // The model fails.
        let failure = || ApiFailure::new(400, SECRET);
        let replies = [
            Reply::error(failure()),
            said().finish(SECRET),
            said().abort_after(2),
            said().error_after(2, failure()),
            said().end_after(2),
        ];
        for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
            let chat = Chat::with_options(
                storage,
                replies.clone(),
                HistoryOptions::new().policies(Policies::new().on_interruption(policy)),
            );
            for _ in &replies {
                call(shown, &chat, door, ask(&question())).await;
            }
        }

        // A stream stalls, and nobody reads on one whose caller has left.
        let stalls = HistoryOptions::new().stream_idle_timeout(Duration::from_secs(1));
        let slow = said().chunk_delay(Duration::from_secs(2));
        call(shown, &Chat::with_options(storage, [slow], stalls), door, ask(&question())).await;
        let limits = DetachLimits::new().max_streams(0);
        let alone = HistoryOptions::new()
            .policies(Policies::new().on_interruption(OnInterruption::Detach).detach_limits(limits));
        drop(Chat::with_options(storage, [said()], alone).stream(ask(&question())).await.unwrap());

        // A summary fails: by the summarizer, whose error quotes what it was given, or by the store.
        for fault in [None, Some(Op::Read), Some(Op::Compact)] {
            let summaries = Summaries::new(Quotes { fails: fault.is_none() }).when(SummarizeWhen::BeforeCall);
            let options = HistoryOptions::new()
                .context(ContextOptions::new().watermarks(Watermarks::last_turns(1)))
                .summaries(summaries);
            let (chat, id) = (Chat::with_options(storage, vec![said(); 4], options), storage.conversation());
            if let Some(op) = fault {
                storage.store.fail(op, usize::MAX, Fault::Backend);
            }
            for _ in 0..4 {
                call(shown, &chat, door, InConversation::new(id.clone(), asked(&question()))).await;
            }
            storage.store.mend();
        }

        // The exchange cannot be stored.
        for fault in [Fault::Unavailable, Fault::Backend, Fault::Conflict, Fault::Gone, Fault::Corrupt] {
            storage.store.fail(Op::Append, 3, fault);
            call(shown, &Chat::new(storage, [said()]), door, ask(&question())).await;
            storage.store.mend();
        }
        storage.store.delay(Op::Append, Duration::from_secs(11));
        call(shown, &Chat::new(storage, [said()]), door, ask(&question())).await;
        storage.store.mend();
    }
}

/// Texts that are nothing that the library takes.
fn refused(shown: &Shown) {
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

async fn invariant_12_no_text_is_shown_of_a_damaged_file(storage: Storage) {
    let Some(file) = storage.file() else { return };
    let shown = Shown::default();
    let ((), trace) = traced(damaged(&shown, &storage, &file)).await;
    shown.exported(&trace);
    shown.is_quiet();
}

async fn damaged(shown: &Shown, storage: &Storage, file: &Path) {
    for body in [
        format!("{{{SECRET}"),
        format!(r#"{{"v":9,"id":"{SECRET}"}}"#),
        format!(r#"{{"v":1,"id":"{SECRET}","at":"{SECRET}","messages":[{{"role":"{SECRET}"}}]}}"#),
    ] {
        let (chat, id) = (Chat::new(storage, [said()]), storage.conversation());
        call(shown, &chat, Door::Unary, InConversation::new(id.clone(), asked(&question()))).await;
        Connection::open(file).unwrap().execute("UPDATE exchange SET body = ?1", [body]).unwrap();
        for door in BOTH_DOORS {
            call(shown, &chat, door, InConversation::new(id.clone(), asked(&question()))).await;
        }
        shown.error(&storage.store.read(&id, Seq::FIRST, 9).await.unwrap_err());
        storage.store.delete(&id).await.unwrap();
    }
}
