//! Every path of a call, with marks in all content.

use std::time::Duration;

use async_openai::types::chat::ChatCompletionStreamOptions;
use futures_util::{FutureExt as _, StreamExt as _, future};
use serde_json::{Value, json};
use test_providers::signing::{Say, SigningDialect, SigningProvider};
use tests::{CallKind, Chat, Storage, TypedCall};
use tower_chat_history::{
    ContextBudget, HistoryOptions, InConversation, Message, Policies, TurnInput,
    policy::{OnConflict, OnInterruption, OnLoadFailure, OnOpenTurn, QueueLimits},
    store::{Role, Usage},
    summary::{Summaries, SummarizeWhen, Summarizer},
    telemetry::Telemetry,
};
use tower_chat_history_openai::summarizer;
use tower_chat_history_test::{ApiFailure, Fault, MockLlm, Op, Replies, Reply};

use crate::{
    chats::drain,
    content::{conversation, exchange, marked_call, question},
};

/// Calls of one kind, with these telemetry options.
pub(crate) struct Paths<'a> {
    storage: &'a Storage,
    kind: CallKind,
    telemetry: &'a Telemetry,
}

fn marked_reply() -> Reply {
    Reply::text("mark-reply").chunk_chars(3).field("reasoning_content", "mark-reasoning")
}

fn marked_tool_call() -> Reply {
    marked_reply().with_calls([("mark-call-id", "f", r#"{"x":"mark-arguments"}"#)])
}

fn result() -> Value {
    json!({"role": "tool", "tool_call_id": "mark-call-id", "content": "mark-result"})
}

fn failure() -> ApiFailure {
    let mark = "mark-provider-error";
    ApiFailure::new(500, mark).kind(mark).code(mark).param(mark)
}

/// A small model that gives this reply as the summary.
fn small(reply: Reply) -> impl Summarizer {
    summarizer(MockLlm::rules(move |_| reply.clone()).unary(), "small")
}

fn summaries(summarizer: impl Summarizer, when: SummarizeWhen) -> Summaries {
    Summaries::new(summarizer).when(when).max_tokens(60).chunk_tokens(400)
}

impl<'a> Paths<'a> {
    pub(crate) const fn new(storage: &'a Storage, kind: CallKind, telemetry: &'a Telemetry) -> Self {
        Self { storage, kind, telemetry }
    }

    pub(crate) async fn all(&self) {
        self.a_conversation().await;
        self.before_the_model_is_called().await;
        self.the_model_fails().await;
        self.the_caller_leaves().await;
        self.the_save_fails().await;
        self.two_at_once().await;
        self.too_much().await;
        self.summaries_fail().await;
        self.something_panics().await;
        self.rare_paths().await;
        self.another_dialect().await;
        self.messages_are_recalled().await;
    }

    pub(crate) fn chat(&self, replies: impl Into<Replies>, options: HistoryOptions) -> Chat {
        Chat::with_options(self.storage, replies, options.telemetry(self.telemetry.clone()))
    }

    /// Returns true if the call succeeded. Waits for everything that it leaves running.
    pub(crate) async fn call(&self, chat: &Chat, call: TypedCall) -> bool {
        let answered = chat.call(self.kind, call).await.is_ok();
        drain(chat).await;
        answered
    }

    /// A tool call, its result, and a summary of both.
    pub(crate) async fn a_conversation(&self) {
        let summaries = summaries(small(Reply::text("mark-summary")), SummarizeWhen::BeforeEveryCall);
        let chat =
            self.chat([marked_tool_call(), marked_reply(), marked_reply()], HistoryOptions::new().summaries(summaries));
        let id = conversation();
        for (number, input) in [question(200), result(), question(1)].into_iter().enumerate() {
            let call = marked_call(&id, &input).exchange(exchange(&number.to_string()));
            assert!(self.call(&chat, call).await, "{number}");
        }
        let last = chat.llm.prompts_json().pop().unwrap().to_string();
        assert!(last.contains("mark-summary") && !last.contains("mark-result"), "{last}");
    }

    async fn before_the_model_is_called(&self) {
        let (chat, id) = (self.chat([marked_tool_call()], HistoryOptions::new()), conversation());
        assert!(self.call(&chat, marked_call(&id, &question(1)).exchange(exchange("once"))).await);
        assert!(!self.call(&chat, marked_call(&id, &question(1)).exchange(exchange("once"))).await);
        let other = json!({"role": "tool", "tool_call_id": "mark-call-id-2", "content": "mark-result"});
        assert!(!self.call(&chat, marked_call(&id, &other)).await);
        assert!(!self.call(&chat, marked_call(&conversation(), &result())).await);
        let reject = self.chat([], HistoryOptions::new().policies(Policies::new().on_open_turn(OnOpenTurn::Reject)));
        assert!(!self.call(&reject, marked_call(&id, &question(1))).await);
        for fault in [Fault::Unavailable, Fault::Backend, Fault::Corrupt] {
            self.storage.store.fail(Op::Load, 1, fault);
            assert!(!self.call(&chat, marked_call(&id, &question(1))).await);
            let without =
                HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
            self.storage.store.fail(Op::Load, 1, fault);
            assert!(self.call(&self.chat([marked_reply()], without), marked_call(&id, &question(1))).await);
        }
        self.storage.store.delay(Op::Load, Duration::from_secs(11));
        assert!(!self.call(&chat, marked_call(&id, &question(1))).await);
        self.storage.store.mend();
    }

    async fn the_model_fails(&self) {
        let replies = [
            Reply::error(failure()),
            marked_reply().finish("mark-provider-error"),
            marked_reply().abort_after(2),
            marked_reply().error_after(2, failure()),
            marked_reply().end_after(2),
            marked_reply().passing_error_after(2, failure()),
            Reply::refusal("mark-reply"),
            Reply::no_choices(),
        ];
        for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
            let chat =
                self.chat(replies.clone(), HistoryOptions::new().policies(Policies::new().on_interruption(policy)));
            let id = conversation();
            for number in 0..replies.len() {
                let call = marked_call(&id, &question(1)).exchange(exchange(&number.to_string()));
                self.call(&chat, call).await;
            }
            assert_eq!(chat.llm.requests().len(), replies.len());
        }
    }

    async fn the_caller_leaves(&self) {
        for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
            let chat = self.chat(
                [marked_reply(), marked_reply()],
                HistoryOptions::new().policies(Policies::new().on_interruption(policy)),
            );
            let stream = chat.stream(marked_call(&conversation(), &question(1))).await.unwrap();
            drop(stream.take(2).collect::<Vec<_>>().await);
            drain(&chat).await;
            let held = chat.hold_reply();
            tokio::select! {
                biased;
                _ = chat.call(self.kind, marked_call(&conversation(), &question(1))) => panic!("the answer is held"),
                () = chat.reached(2) => {}
            }
            drop(held);
            drain(&chat).await;
        }
    }

    async fn the_save_fails(&self) {
        for fault in [Fault::Unavailable, Fault::Backend, Fault::Conflict, Fault::Gone, Fault::Corrupt] {
            self.storage.store.fail(Op::Append, 3, fault);
            let chat = self.chat([marked_reply()], HistoryOptions::new());
            let answered =
                self.call(&chat, marked_call(&conversation(), &question(1)).exchange(exchange("save"))).await;
            assert_eq!(answered, self.kind == CallKind::Stream);
            self.storage.store.mend();
        }
    }

    async fn two_at_once(&self) {
        for policy in [
            OnConflict::Rebase,
            OnConflict::Reject,
            OnConflict::Serialize(QueueLimits::new(8, Duration::from_secs(10))),
            OnConflict::Serialize(QueueLimits::new(0, Duration::from_secs(10))),
        ] {
            for exchanges in [["a", "b"], ["a", "a"]] {
                let chat = self.chat(
                    [marked_reply(), marked_reply()],
                    HistoryOptions::new().policies(Policies::new().on_conflict(policy)),
                );
                let id = conversation();
                let held = chat.hold_reply();
                let call = |name: &str| marked_call(&id, &question(1)).exchange(exchange(name));
                let second = async {
                    chat.reached(1).await;
                    let calling = chat.call(self.kind, call(exchanges[1]));
                    let release = async {
                        tokio::task::yield_now().await;
                        drop(held);
                    };
                    drop(future::join(calling, release).await);
                };
                future::join(self.call(&chat, call(exchanges[0])), second).await;
                drain(&chat).await;
            }
        }
    }

    async fn too_much(&self) {
        let budget = || HistoryOptions::new().context(ContextBudget::tokens(600).reply_reserve(100));
        let after = || Some(summaries(small(Reply::text("mark-summary")), SummarizeWhen::AfterReply { percent: 60 }));
        for summaries in [None, after()] {
            let options = summaries.into_iter().fold(budget(), HistoryOptions::summaries);
            let (chat, id) = (self.chat(Replies::rules(|_| marked_reply()), options), conversation());
            for _ in 0..20 {
                assert!(self.call(&chat, marked_call(&id, &question(20))).await);
            }
            assert!(!self.call(&chat, marked_call(&id, &question(900))).await);
        }
    }

    async fn summaries_fail(&self) {
        for reply in [
            Reply::error(failure()),
            Reply::text(""),
            Reply::text("mark-summary ".repeat(500)),
            Reply::panic("mark-panic"),
        ] {
            let summaries = summaries(small(reply), SummarizeWhen::BeforeCall);
            let budget = ContextBudget::tokens(600).reply_reserve(100);
            let chat = self
                .chat(Replies::rules(|_| marked_reply()), HistoryOptions::new().context(budget).summaries(summaries));
            let id = conversation();
            for _ in 0..12 {
                assert!(self.call(&chat, marked_call(&id, &question(20))).await);
            }
        }
    }

    async fn something_panics(&self) {
        let hook = HistoryOptions::new().on_turn(|_| panic!("mark-panic"));
        let (chat, id) = (self.chat(Replies::rules(|_| marked_reply()), hook), conversation());
        for _ in 0..12 {
            assert!(self.call(&chat, marked_call(&id, &question(20))).await);
        }
        let chat = self.chat([Reply::panic("mark-panic")], HistoryOptions::new());
        let call = self.call(&chat, marked_call(&conversation(), &question(1)));
        assert!(std::panic::AssertUnwindSafe(call).catch_unwind().await.is_err());
        drain(&chat).await;
    }

    /// Superseded calls, messages that are not valid in a chat, lower reply limits, tokens from a cache.
    async fn rare_paths(&self) {
        let budget = ContextBudget::tokens(1_000).shrink_reply_to(50).calibrate(false);
        let mut usage = Usage::new(100, 10);
        usage.cached_input_tokens = Some(50);
        let chat = self.chat(
            [marked_tool_call(), marked_reply(), marked_reply().usage(usage)],
            HistoryOptions::new().context(budget),
        );
        let id = conversation();
        let video = json!({"role": "user", "content": [{"type": "video", "video": "mark-user", "text": 1}]});
        let turn = TurnInput::new(id.clone(), [Message::from_serialize(&video).unwrap()]);
        let turn = chat.engine().begin(turn).await.unwrap();
        turn.commit(tower_chat_history::Reply::new(Message::assistant("mark-reply"))).await.unwrap();
        for _ in 0..2 {
            assert!(self.call(&chat, marked_call(&id, &question(1))).await);
        }
        self.reasoning_under_another_head(&chat).await;
        let (_, mut request) = marked_call(&id, &question(300)).into_parts();
        (request.temperature, request.top_p, request.n) = (Some(0.7), Some(1.0), Some(2));
        request.max_completion_tokens = Some(900);
        request.stream_options =
            Some(ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None });
        assert!(self.call(&chat, InConversation::new(id, request)).await);
    }

    /// Signed reasoning that is left out, because the tools changed.
    async fn reasoning_under_another_head(&self, chat: &Chat) {
        let (id, mut provider) = (conversation(), SigningProvider::new("one"));
        for tools in ["first", "second"] {
            let question = Message::compose(&SigningDialect, &Role::User, "mark-user").unwrap();
            let mut input = TurnInput::new(id.clone(), [question]);
            input.request.tools = Some(tools.to_owned());
            let head = input.request.digest();
            let turn = chat.engine().begin(input).await.unwrap();
            let reply = provider.reply(head, turn.context(), &[Say::ThoughtAndText("mark-reply".into(), "so".into())]);
            turn.commit(tower_chat_history::Reply::of(reply.unwrap())).await.unwrap();
        }
    }
}
