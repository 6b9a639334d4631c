//! Every path of a call, with marks in everything that is said.

use std::{sync::Arc, time::Duration};

use async_openai::types::chat::ChatCompletionStreamOptions;
use futures_util::{FutureExt as _, StreamExt as _, future};
use serde_json::{Value, json};
use tests::{Asked, Chat, Door, Storage};
use tower_chat_history::{
    ContextBudget, ContextOptions, HistoryOptions, InConversation, Message, Policies, TurnInput,
    budget::{KeepTurn, TrimTurn, Trimmer},
    policy::{OnConflict, OnInterruption, OnLoadFailure, OnOpenTurn, QueueLimits},
    store::Usage,
    summary::{Summaries, SummarizeWhen, Summarizer},
    telemetry::Telemetry,
    tokens::TokenCounter,
};
use tower_chat_history_openai::summarizer;
use tower_chat_history_test::{ApiFailure, Fault, MockLlm, Op, Replies, Reply};

use crate::{
    chats::drain,
    content::{asked, conversation, exchange, question},
};

/// Calls at one door, with that telemetry.
pub(crate) struct Paths<'a> {
    storage: &'a Storage,
    door: Door,
    telemetry: &'a Telemetry,
}

fn said() -> Reply {
    Reply::text("mark-reply").chunk_chars(3).field("reasoning_content", "mark-reasoning")
}

fn called() -> Reply {
    said().with_calls([("mark-call-id", "f", r#"{"x":"mark-arguments"}"#)])
}

fn result() -> Value {
    json!({"role": "tool", "tool_call_id": "mark-call-id", "content": "mark-result"})
}

fn failure() -> ApiFailure {
    let mark = "mark-provider-error";
    ApiFailure::new(500, mark).kind(mark).code(mark).param(mark)
}

/// A small model that gives that reply, in place of what was said.
fn small(reply: Reply) -> impl Summarizer {
    summarizer(MockLlm::rules(move |_| reply.clone()).unary(), "small")
}

fn summaries(summarizer: impl Summarizer, when: SummarizeWhen) -> Summaries {
    Summaries::new(summarizer).when(when).max_tokens(60).chunk_tokens(400)
}

impl<'a> Paths<'a> {
    pub(crate) const fn new(storage: &'a Storage, door: Door, telemetry: &'a Telemetry) -> Self {
        Self { storage, door, telemetry }
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
        self.what_else_there_is().await;
    }

    fn chat(&self, replies: impl Into<Replies>, options: HistoryOptions) -> Chat {
        Chat::with_options(self.storage, replies, options.telemetry(self.telemetry.clone()))
    }

    /// Returns whether it was answered. What it comes to is waited for.
    async fn call(&self, chat: &Chat, call: Asked) -> bool {
        let answered = chat.call(self.door, call).await.is_ok();
        drain(chat).await;
        answered
    }

    /// A tool call, its result, and a summary of that.
    pub(crate) async fn a_conversation(&self) {
        let summaries = summaries(small(Reply::text("mark-summary")), SummarizeWhen::BeforeEveryCall);
        let chat = self.chat([called(), said(), said()], HistoryOptions::new().summaries(summaries));
        let id = conversation();
        for (number, input) in [question(200), result(), question(1)].into_iter().enumerate() {
            let call = asked(&id, &input).exchange(exchange(&number.to_string()));
            assert!(self.call(&chat, call).await, "{number}");
        }
        let last = chat.llm.prompts_json().pop().unwrap().to_string();
        assert!(last.contains("mark-summary") && !last.contains("mark-result"), "{last}");
    }

    async fn before_the_model_is_called(&self) {
        let (chat, id) = (self.chat([called()], HistoryOptions::new()), conversation());
        assert!(self.call(&chat, asked(&id, &question(1)).exchange(exchange("once"))).await);
        assert!(!self.call(&chat, asked(&id, &question(1)).exchange(exchange("once"))).await);
        let other = json!({"role": "tool", "tool_call_id": "mark-call-id-2", "content": "mark-result"});
        assert!(!self.call(&chat, asked(&id, &other)).await);
        assert!(!self.call(&chat, asked(&conversation(), &result())).await);
        let reject = self.chat([], HistoryOptions::new().policies(Policies::new().on_open_turn(OnOpenTurn::Reject)));
        assert!(!self.call(&reject, asked(&id, &question(1))).await);
        for fault in [Fault::Unavailable, Fault::Backend, Fault::Corrupt] {
            self.storage.store.fail(Op::Load, 1, fault);
            assert!(!self.call(&chat, asked(&id, &question(1))).await);
            let without =
                HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
            self.storage.store.fail(Op::Load, 1, fault);
            assert!(self.call(&self.chat([said()], without), asked(&id, &question(1))).await);
        }
        self.storage.store.delay(Op::Load, Duration::from_secs(11));
        assert!(!self.call(&chat, asked(&id, &question(1))).await);
        self.storage.store.mend();
    }

    async fn the_model_fails(&self) {
        let replies = [
            Reply::error(failure()),
            said().finish("mark-provider-error"),
            said().abort_after(2),
            said().error_after(2, failure()),
            said().end_after(2),
            said().passing_error_after(2, failure()),
            Reply::refusal("mark-reply"),
            Reply::no_choices(),
        ];
        for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
            let chat =
                self.chat(replies.clone(), HistoryOptions::new().policies(Policies::new().on_interruption(policy)));
            let id = conversation();
            for number in 0..replies.len() {
                let call = asked(&id, &question(1)).exchange(exchange(&number.to_string()));
                self.call(&chat, call).await;
            }
            assert_eq!(chat.llm.requests().len(), replies.len());
        }
    }

    async fn the_caller_leaves(&self) {
        for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
            let chat =
                self.chat([said(), said()], HistoryOptions::new().policies(Policies::new().on_interruption(policy)));
            let stream = chat.stream(asked(&conversation(), &question(1))).await.unwrap();
            drop(stream.take(2).collect::<Vec<_>>().await);
            drain(&chat).await;
            let held = chat.hold_reply();
            tokio::select! {
                biased;
                _ = chat.call(self.door, asked(&conversation(), &question(1))) => panic!("the answer is held"),
                () = chat.reached(2) => {}
            }
            drop(held);
            drain(&chat).await;
        }
    }

    async fn the_save_fails(&self) {
        for fault in [Fault::Unavailable, Fault::Backend, Fault::Conflict, Fault::Gone, Fault::Corrupt] {
            self.storage.store.fail(Op::Append, 3, fault);
            let chat = self.chat([said()], HistoryOptions::new());
            let answered = self.call(&chat, asked(&conversation(), &question(1)).exchange(exchange("save"))).await;
            assert_eq!(answered, self.door == Door::Stream);
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
                let chat =
                    self.chat([said(), said()], HistoryOptions::new().policies(Policies::new().on_conflict(policy)));
                let id = conversation();
                let held = chat.hold_reply();
                let call = |name: &str| asked(&id, &question(1)).exchange(exchange(name));
                let second = async {
                    chat.reached(1).await;
                    let calling = chat.call(self.door, call(exchanges[1]));
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
            let (chat, id) = (self.chat(Replies::rules(|_| said()), options), conversation());
            for _ in 0..20 {
                assert!(self.call(&chat, asked(&id, &question(20))).await);
            }
            assert!(!self.call(&chat, asked(&id, &question(900))).await);
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
            let chat =
                self.chat(Replies::rules(|_| said()), HistoryOptions::new().context(budget).summaries(summaries));
            let id = conversation();
            for _ in 0..12 {
                assert!(self.call(&chat, asked(&id, &question(20))).await);
            }
        }
    }

    async fn something_panics(&self) {
        let hook = HistoryOptions::new().on_turn(|_| panic!("mark-panic"));
        let budget = ContextBudget::tokens(600).reply_reserve(100);
        let trimmer =
            HistoryOptions::new().context(ContextOptions::new().budget(budget.clone()).trimmer(Panics::default()));
        let counter =
            HistoryOptions::new().context(ContextOptions::new().budget(budget).token_counter(Panics::default()));
        for options in [hook, trimmer, counter] {
            let (chat, id) = (self.chat(Replies::rules(|_| said()), options), conversation());
            for _ in 0..12 {
                assert!(self.call(&chat, asked(&id, &question(20))).await);
            }
        }
        let chat = self.chat([Reply::panic("mark-panic")], HistoryOptions::new());
        let call = self.call(&chat, asked(&conversation(), &question(1)));
        assert!(std::panic::AssertUnwindSafe(call).catch_unwind().await.is_err());
        drain(&chat).await;
    }

    /// Calls that are superseded, messages that are no chat's, replies that are made smaller, tokens from a cache.
    async fn what_else_there_is(&self) {
        let budget = ContextBudget::tokens(1_000).shrink_reply_to(50).calibrate(false);
        let mut usage = Usage::new(100, 10);
        usage.cached_input_tokens = Some(50);
        let chat = self.chat([called(), said(), said().usage(usage)], HistoryOptions::new().context(budget));
        let id = conversation();
        let video = json!({"role": "user", "content": [{"type": "video", "video": "mark-user", "text": 1}]});
        let turn = TurnInput::new(id.clone(), [Message::from_serialize(&video).unwrap()]);
        let turn = chat.engine().begin(turn).await.unwrap();
        turn.commit(tower_chat_history::Reply::new(Message::assistant("mark-reply"))).await.unwrap();
        for _ in 0..2 {
            assert!(self.call(&chat, asked(&id, &question(1))).await);
        }
        let (_, mut request) = asked(&id, &question(300)).into_parts();
        (request.temperature, request.top_p, request.n) = (Some(0.7), Some(1.0), Some(2));
        request.max_completion_tokens = Some(900);
        request.stream_options =
            Some(ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None });
        assert!(self.call(&chat, InConversation::new(id, request)).await);
    }
}

/// Panics when it is asked.
#[derive(Debug, Default)]
struct Panics(Option<Arc<str>>);

impl Trimmer for Panics {
    fn trim(&self, _: &[TrimTurn<'_>], _: u64) -> Vec<KeepTurn> {
        panic!("mark-panic")
    }
}

impl TokenCounter for Panics {
    fn name(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }

    fn count_text(&self, _: &str) -> u32 {
        panic!("mark-panic")
    }
}
