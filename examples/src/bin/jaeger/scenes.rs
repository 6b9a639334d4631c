//! The scenes of the demo.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tower_chat_history::{
    BoxError, ContextOptions, ConversationId, HistoryOptions, Policies, TurnReport,
    budget::{ClearResults, ContextBudget},
    policy::{OnConflict, QueueLimits},
    recall::{LogRecall, RecallOptions},
    summary::{Summaries, SummarizeWhen},
    telemetry::Telemetry,
};
use tower_chat_history_openai::summarizer;
use tower_chat_history_sqlite::SqliteStore;

use crate::{
    agent,
    chat::{Chat, Request, describe},
    model::{Models, Pace, SUMMARY_MODEL},
};

/// The context window, in tokens. It is small, so that a few questions fill it.
const WINDOW: u32 = 4_096;
const REPLY: u32 = 1_024;
/// The maximum size of a summary, in tokens.
const SUMMARY: u32 = 400;

/// More questions than fit into the window.
const QUESTIONS: [&str; 8] = [
    "We want to see the north of Norway in June. Where do we begin?",
    "How do we get from Oslo to Bodø without a plane?",
    "What is worth a walk on the Lofoten?",
    "Where do we sleep there?",
    "Do we need a car?",
    "What do we do if it rains?",
    "How many days do we need for Tromsø?",
    "What will all of it cost?",
];

/// A fact that leaves the window.
const DOG: &str = "My dog Rex comes along. What should I pack for him?";

/// The longest time of a search for earlier messages. The scene needs its result, however busy the machine is.
const MAX_SEARCH: Duration = Duration::from_secs(30);

/// The resources that all scenes share.
pub(crate) struct Stage {
    pub(crate) database: PathBuf,
    pub(crate) telemetry: Telemetry,
    pub(crate) pace: Pace,
    pub(crate) models: Models,
}

fn budget() -> ContextBudget {
    ContextBudget::tokens(WINDOW).reply_reserve(REPLY)
}

impl Stage {
    fn options(&self) -> HistoryOptions {
        HistoryOptions::new().context(budget()).telemetry(self.telemetry.clone())
    }

    fn summaries(&self, when: SummarizeWhen) -> Summaries {
        let model = self.models.summarizing();
        Summaries::new(summarizer(model.unary(), SUMMARY_MODEL)).max_tokens(SUMMARY).when(when)
    }

    /// Starts a process of the service. All processes use the same database.
    async fn chat(&self, options: HistoryOptions) -> Result<Chat, BoxError> {
        Ok(Chat::new(SqliteStore::open(&self.database).await?, &self.models, options))
    }

    /// Shows a conversation that grows until it no longer fits.
    pub(crate) async fn trims(&self) -> Result<(), BoxError> {
        announce("A conversation grows and still fits.", "Look at chat_history.messages.loaded on load.");

        let chat = self.chat(self.options()).await?;
        let id = conversation("trims")?;
        for question in QUESTIONS {
            let request = Request::post("/chat", "a conversation grows until it is trimmed");
            let report = chat.ask(&request, &id, question).await?;

            let trimmed = is_trimmed(&report);
            if trimmed {
                announce(
                    &format!("The conversation no longer fits into the context window of {WINDOW} tokens."),
                    "Look at trim for the tokens that were left out, and at chat_history.prompt.cached_prefix_ratio on\n\
                     chat_history for the effect on the provider's prefix cache.",
                );
            }
            show(request, 200, &describe(&report));
            if trimmed {
                return Ok(());
            }
        }
        Err("the conversation was not trimmed".into())
    }

    /// Shows that old tool results are cleared before messages are left out.
    pub(crate) async fn clears(&self) -> Result<(), BoxError> {
        announce(
            "An agent receives long tool results, and old ones are cleared.",
            "Look at chat_history.trim.strategy on the last trim.",
        );

        let options =
            self.options().context(ContextOptions::new().budget(budget()).clear_results(ClearResults::new().keep(1)));
        let store = SqliteStore::open(&self.database).await?;
        let model = self.models.searching(&serde_json::to_string(&agent::tools())?);
        let chat = Chat::with_model(store, &model, &model, options);

        let request = Request::post("/agent", "old tool results are cleared");
        let question = "Compare the hotels of three towns.";
        let reports = agent::run(&chat, &request, &conversation("clears")?, question, self.pace).await?;
        let cleared = reports.iter().rev().find(|report| is_trimmed(report)).ok_or("no tool result was cleared")?;
        show(request, 200, &format!("{} model calls; {}", reports.len(), describe(cleared)));
        Ok(())
    }

    /// Shows a summary that is made after the reply, so that no call waits for it.
    pub(crate) async fn summarizes(&self) -> Result<(), BoxError> {
        announce(
            "A conversation approaches the context window, and its oldest messages are summarized.",
            "Look at summarize in the last of these traces: it starts after save, so no call waits for it.",
        );

        let when = SummarizeWhen::AfterReply { percent: 95 };
        let (sender, receiver) = std::sync::mpsc::channel();
        let summaries = self.summaries(when).on_summary(move |report| {
            // The receiver is gone if the scene has failed.
            let _ = sender.send((report.messages, report.replaced_tokens, report.tokens.unwrap_or_default()));
        });

        let chat = self.chat(self.options().summaries(summaries)).await?;
        let id = conversation("summarizes")?;
        for question in QUESTIONS {
            let request = Request::post("/chat", "a summary is made in the background");
            let report = chat.ask(&request, &id, question).await?;
            chat.wait_for_summaries().await?;

            let Ok((messages, before, after)) = receiver.try_recv() else {
                show(request, 200, &describe(&report));
                continue;
            };
            let summary = format!("then a summary of {messages} messages, from {before} to {after} tokens");
            show(request, 200, &format!("{}; {summary}", describe(&report)));
            return Ok(());
        }
        Err("no summary was made".into())
    }

    /// Shows that earlier messages are shown to the model again when a question needs them.
    pub(crate) async fn recalls(&self) -> Result<(), BoxError> {
        announce(
            "A question is about something that has left the window, and the model is shown it again.",
            "Look at recall in the last trace, and at chat_history.prompt.cached_prefix_ratio on chat_history.",
        );

        let store = SqliteStore::open(&self.database).await?;
        let recall = RecallOptions::new(LogRecall::new(store.clone())).timeout(MAX_SEARCH);
        let chat = Chat::new(store, &self.models, self.options().recall(recall));
        let id = conversation("recalls")?;

        let mut has_left = false;
        for question in [DOG].into_iter().chain(QUESTIONS) {
            let request = Request::post("/chat", "a conversation grows until its beginning has left the window");
            let report = chat.ask(&request, &id, question).await?;
            show(request, 200, &describe(&report));
            has_left = is_trimmed(&report);
            if has_left {
                break;
            }
        }

        let request = Request::post("/chat", "an earlier message is shown again");
        let report = chat.ask(&request, &id, "What is the name of my dog?").await?;
        show(request, 200, &describe(&report));
        let is_shown = report.recall.as_ref().is_some_and(|recall| recall.messages > 0);
        if has_left && is_shown { Ok(()) } else { Err("nothing was recalled".into()) }
    }

    /// Shows a call that waits for an earlier call, and then for a summary.
    pub(crate) async fn waits(&self) -> Result<(), BoxError> {
        announce(
            "Two calls at once. The second waits for the first, and then for a summary, because its prompt does not fit.",
            "Look at wait and summarize in the last trace. After the summary, load and trim run again.",
        );

        let options =
            self.options().policies(Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default())));
        let options = options.summaries(self.summaries(SummarizeWhen::BeforeCall));
        let chat = self.chat(options).await?;
        let id = conversation("waits")?;

        let mut questions = QUESTIONS.into_iter();
        for question in questions.by_ref().take(3) {
            let request = Request::post("/chat", "a conversation grows");
            let report = chat.ask(&request, &id, question).await?;
            show(request, 200, &describe(&report));
        }

        let (Some(first), Some(second)) = (questions.next(), questions.next()) else {
            return Err("there are too few questions".into());
        };

        let earlier = chat.stream(Request::post("/chat/stream", "another call waits for this one"), &id, first).await?;
        let request = Request::post("/chat", "a call waits for an earlier one, and for a summary");
        // The second call begins to wait before the stream is read.
        let (report, earlier) = tokio::join!(chat.ask(&request, &id, second), earlier.read());
        let (earlier, earlier_report) = earlier?;
        let report = report?;
        show(earlier, 200, &describe(&earlier_report));
        show(request, 200, &describe(&report));
        if report.summary.is_some() { Ok(()) } else { Err("the call did not wait for a summary".into()) }
    }

    /// Shows a stream that is read to its end, a stream that is dropped, and a call that fails.
    pub(crate) async fn streams(&self) -> Result<(), BoxError> {
        let chat = self.chat(self.options()).await?;
        let id = conversation("streams")?;

        announce(
            "A streamed reply.",
            "Look at chat: it ends with the last chunk and has gen_ai.response.time_to_first_chunk.",
        );
        let stream = chat.stream(Request::post("/chat/stream", "a streamed reply"), &id, QUESTIONS[0]).await?;
        let (request, report) = stream.read().await?;
        show(request, 200, &describe(&report));

        announce(
            "The caller disconnects during a stream.",
            "Look at chat_history.outcome on chat_history: it is interrupted, and there is no save.",
        );
        let stream = chat.stream(Request::post("/chat/stream", "the caller disconnects"), &id, QUESTIONS[1]).await?;
        let (request, report) = stream.abandon().await?;
        show(request, 200, &describe(&report));

        announce("The model fails, and nothing is stored.", "Look at error.type on chat and chat_history.");
        let store = SqliteStore::open(&self.database).await?;
        let model = self.models.failing();
        let chat = Chat::with_model(store, &model, &model, self.options());
        let request = Request::post("/chat", "the model fails");
        let Err(error) = chat.ask(&request, &id, QUESTIONS[1]).await else {
            return Err("the model did not fail".into());
        };
        show(request, 502, &error.to_string());
        Ok(())
    }

    /// Shows two processes that answer in one conversation at the same time.
    pub(crate) async fn conflicts(&self) -> Result<(), BoxError> {
        announce(
            "Two processes in one conversation. The slower process appends its exchange after that of the faster one.",
            "Look at chat_history.save.conflict on save in the second trace.",
        );
        let report = self.conflict(OnConflict::Rebase, "rebases", "another process was faster: rebased").await?;
        report.revision().ok_or("the exchange was not rebased")?;

        announce(
            "The same with OnConflict::Reject. The exchange of the slower process is not stored, and its turn fails.",
            "Look at chat_history.save.conflict and error.type on save in the second trace.",
        );
        let report = self.conflict(OnConflict::Reject, "rejects", "another process was faster: rejected").await?;
        if report.save_error().is_some() { Ok(()) } else { Err("the exchange was not rejected".into()) }
    }

    async fn conflict(&self, policy: OnConflict, name: &str, shows: &'static str) -> Result<Arc<TurnReport>, BoxError> {
        let slow = self.chat(self.options().policies(Policies::new().on_conflict(policy))).await?;
        let fast = self.chat(self.options()).await?;
        let id = conversation(name)?;

        let stream = slow.stream(Request::post("/chat/stream", shows), &id, QUESTIONS[0]).await?;
        let request = Request::post("/chat", "this process is faster than another one");
        // The other process completes its turn before this stream is read to its end.
        let faster = fast.ask(&request, &id, QUESTIONS[1]).await?;
        show(request, 200, &describe(&faster));

        let (request, report) = stream.read().await?;
        show(request, 200, &describe(&report));
        Ok(report)
    }
}

fn conversation(name: &str) -> Result<ConversationId, BoxError> {
    Ok(ConversationId::new(["demo", "user-42", name])?)
}

fn is_trimmed(report: &TurnReport) -> bool {
    report.tokens.is_some_and(|tokens| tokens.trimming.is_needed())
}

/// Prints an introduction to a scene.
fn announce(scene: &str, look_at: &str) {
    println!("\n{scene}\n{look_at}");
}

/// Ends a request with this status and prints a line about it.
fn show(request: Request, status: u16, result: &str) {
    println!("  {}  {result}", request.end(status));
}
