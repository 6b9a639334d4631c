//! What is shown, one scene after the other.

use std::{path::PathBuf, sync::Arc};

use tower_chat_history::{
    BoxError, ConversationId, HistoryOptions, OnConflict, QueueLimits, TurnReport,
    budget::{ClearResults, ContextBudget},
    summary::{Summaries, SummarizeWhen},
    telemetry::Telemetry,
};
use tower_chat_history_openai::summarizer;
use tower_chat_history_sqlite::SqliteStore;

use crate::{
    agent,
    chat::{Chat, told},
    model::{Models, Pace, SUMMARY_MODEL},
    request::Request,
};

/// A model with a small window, so that few questions fill it.
const WINDOW: u32 = 4_096;
const REPLY: u32 = 1_024;
/// No summary of the demo has more tokens.
const SUMMARY: u32 = 400;

/// More questions than the window takes.
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

/// Where the scenes play.
pub(crate) struct Stage {
    pub(crate) database: PathBuf,
    pub(crate) telemetry: Telemetry,
    pub(crate) pace: Pace,
    pub(crate) models: Models,
}

impl Stage {
    fn options(&self) -> HistoryOptions {
        let budget = ContextBudget::tokens(WINDOW).reply_reserve(REPLY);
        HistoryOptions::new().budget(budget).telemetry(self.telemetry.clone())
    }

    fn summaries(&self, when: SummarizeWhen) -> Summaries {
        let model = self.models.summarizing();
        Summaries::new(summarizer(model.unary(), SUMMARY_MODEL)).max_tokens(SUMMARY).when(when)
    }

    /// A process's worth of the service, on the database of all.
    async fn chat(&self, options: HistoryOptions) -> Result<Chat, BoxError> {
        Ok(Chat::new(SqliteStore::open(&self.database).await?, &self.models, options))
    }

    /// A conversation grows until it does not fit.
    pub(crate) async fn trims(&self) -> Result<(), BoxError> {
        println!("\nA conversation grows. Nothing is left out: see chat_history.messages.loaded on load.");
        let (chat, id) = (self.chat(self.options()).await?, conversation("trims")?);
        for question in QUESTIONS {
            let request = Request::post("/chat", "a conversation grows until it is trimmed");
            let report = chat.ask(&request, &id, question).await?;
            let trimmed = is_trimmed(&report);
            if trimmed {
                println!(
                    "\nIt has outgrown the window of {WINDOW} tokens. See trim: what was too much, what was left out;"
                );
                println!(
                    "and chat_history.prompt.cached_prefix_ratio on chat_history: what that does to the provider's cache."
                );
            }
            shown(request, 200, &told(&report));
            if trimmed {
                return Ok(());
            }
        }
        Err("the conversation was not trimmed".into())
    }

    /// Tool results are cleared before anything else goes.
    pub(crate) async fn clears(&self) -> Result<(), BoxError> {
        println!(
            "\nAn agent reads long results of its tool. Old ones are cleared: see chat_history.trim.strategy on the"
        );
        println!("last trim.");
        let options = self.options().clear_results(ClearResults::new().keep(1));
        let store = SqliteStore::open(&self.database).await?;
        let model = self.models.searching(&serde_json::to_string(&agent::tools())?);
        let chat = Chat::with_model(store, &model, &model, options);
        let request = Request::post("/agent", "old tool results are cleared");
        let question = "Compare the hotels of three towns.";
        let reports = agent::run(&chat, &request, &conversation("clears")?, question, self.pace).await?;
        let cleared = reports.iter().rev().find(|report| is_trimmed(report)).ok_or("no result was cleared")?;
        shown(request, 200, &format!("{} calls of the model; {}", reports.len(), told(cleared)));
        Ok(())
    }

    /// A summary is made after the reply, and nobody waits for it.
    pub(crate) async fn summarizes(&self) -> Result<(), BoxError> {
        println!(
            "\nA conversation comes near to its window: what will leave it is summarized. See summarize behind save"
        );
        println!("in the last of these traces: nobody waits for it.");
        let when = SummarizeWhen::AfterReply { percent: 95 };
        let (tell, told_of) = std::sync::mpsc::channel();
        let summaries = self.summaries(when).on_summary(move |report| {
            // Whoever listens has left if the scene has failed.
            let _ = tell.send((report.messages, report.replaced_tokens, report.tokens.unwrap_or_default()));
        });
        let (chat, id) = (self.chat(self.options().summaries(summaries)).await?, conversation("summarizes")?);
        for question in QUESTIONS {
            let request = Request::post("/chat", "a summary is made in the background");
            let report = chat.ask(&request, &id, question).await?;
            chat.rests().await?;
            let Ok((messages, before, after)) = told_of.try_recv() else {
                shown(request, 200, &told(&report));
                continue;
            };
            let summary = format!("then a summary of {messages} messages: {before} → {after} tokens");
            shown(request, 200, &format!("{}; {summary}", told(&report)));
            return Ok(());
        }
        Err("no summary was made".into())
    }

    /// A call waits: for the call ahead of it, and for a summary.
    pub(crate) async fn waits(&self) -> Result<(), BoxError> {
        println!(
            "\nTwo calls at once. The second one waits for the first (wait), and then for a summary, as otherwise its"
        );
        println!("prompt would not fit: load and trim come twice.");
        let options = self.options().on_conflict(OnConflict::Serialize(QueueLimits::default()));
        let options = options.summaries(self.summaries(SummarizeWhen::BeforeCall));
        let (chat, id) = (self.chat(options).await?, conversation("waits")?);
        let mut questions = QUESTIONS.into_iter();
        for question in questions.by_ref().take(3) {
            let request = Request::post("/chat", "a conversation grows");
            let report = chat.ask(&request, &id, question).await?;
            shown(request, 200, &told(&report));
        }
        let (Some(first), Some(second)) = (questions.next(), questions.next()) else {
            return Err("too few questions".into());
        };
        let ahead = chat.stream(Request::post("/chat/stream", "a call is ahead of another one"), &id, first).await?;
        let request = Request::post("/chat", "a call waits for the one ahead, and for a summary");
        let (ahead, report) = tokio::join!(ahead.read(), chat.ask(&request, &id, second));
        let ((ahead, before), report) = (ahead?, report?);
        shown(ahead, 200, &told(&before));
        shown(request, 200, &told(&report));
        report.summary.is_some().then_some(()).ok_or_else(|| "the call did not wait for a summary".into())
    }

    /// Streams: one that is read to its end, one that is not, and a call that fails.
    pub(crate) async fn streams(&self) -> Result<(), BoxError> {
        let (chat, id) = (self.chat(self.options()).await?, conversation("streams")?);
        println!("\nA streamed reply. See chat: it ends with the last chunk, and gen_ai.response.time_to_first_chunk.");
        let stream = chat.stream(Request::post("/chat/stream", "a streamed reply"), &id, QUESTIONS[0]).await?;
        let (request, report) = stream.read().await?;
        shown(request, 200, &told(&report));

        println!(
            "\nThe caller leaves while the reply is streamed: chat_history.outcome is interrupted. There is no save."
        );
        let stream = chat.stream(Request::post("/chat/stream", "the caller leaves"), &id, QUESTIONS[1]).await?;
        let (request, report) = stream.leave().await?;
        shown(request, 200, &told(&report));

        println!("\nThe model fails: error.type on chat and chat_history, and nothing is stored.");
        let (store, model) = (SqliteStore::open(&self.database).await?, self.models.failing());
        let chat = Chat::with_model(store, &model, &model, self.options());
        let request = Request::post("/chat", "the model fails");
        let Err(error) = chat.ask(&request, &id, QUESTIONS[1]).await else {
            return Err("the model did not fail".into());
        };
        shown(request, 502, &error.to_string());
        Ok(())
    }

    /// Two processes answer in one conversation at once.
    pub(crate) async fn conflicts(&self) -> Result<(), BoxError> {
        println!(
            "\nTwo processes, one conversation. The one that is slower finds another exchange there, and its own is put"
        );
        println!("behind it: see chat_history.save.conflict on save in the second trace.");
        let report = self.conflict(OnConflict::Rebase, "rebases", "another process was faster: rebased").await?;
        report.revision().ok_or("the exchange was not rebased")?;

        println!("\nThe same, with OnConflict::Reject: it is not stored, and the turn has failed.");
        let report = self.conflict(OnConflict::Reject, "rejects", "another process was faster: rejected").await?;
        report.save_error().map(|_| ()).ok_or_else(|| "the exchange was not rejected".into())
    }

    async fn conflict(&self, policy: OnConflict, name: &str, shows: &'static str) -> Result<Arc<TurnReport>, BoxError> {
        let (slow, fast) = (self.chat(self.options().on_conflict(policy)).await?, self.chat(self.options()).await?);
        let id = conversation(name)?;
        let stream = slow.stream(Request::post("/chat/stream", shows), &id, QUESTIONS[0]).await?;
        let request = Request::post("/chat", "is faster than another process");
        // The other one answers whole while this one's stream is not read on.
        let faster = fast.ask(&request, &id, QUESTIONS[1]).await?;
        shown(request, 200, &told(&faster));
        let (request, report) = stream.read().await?;
        shown(request, 200, &told(&report));
        Ok(report)
    }
}

fn conversation(name: &str) -> Result<ConversationId, BoxError> {
    Ok(ConversationId::new(["demo", "user-42", name])?)
}

fn is_trimmed(report: &TurnReport) -> bool {
    report.tokens.is_some_and(|tokens| tokens.trimming.is_needed())
}

/// Ends a request with that status, and prints it.
fn shown(request: Request, status: u16, what: &str) {
    println!("  {}  {what}", request.ends(status));
}
