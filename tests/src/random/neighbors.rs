//! Runs one conversation twice: alone, and next to hostile ones in the same engine. The results must be
//! equal.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::json;
use tokio::runtime::Builder;
use tower_chat_history::{
    BoxError, ContextBudget, ContextOptions, ConversationId, Engine, HistoryOptions, HistoryStore as _, MemoryStore,
    Message, Reply, Summaries, TurnInput,
    budget::{ClearResults, Watermark, Watermarks},
    store::{Cuts, Load, Loaded, Usage},
    summary::{SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
    tokens::{ByteEstimate, REPLY_PRIMING, TokenCounter as _},
};

use super::{
    Checked, Figures, Ingredient, Ingredients,
    outcome::{Violation, holds},
    rules::shorten,
    words::{call, message},
};
use crate::rng::SeededRng;

/// Runs one case.
pub(super) fn run(seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    let mut figures = Figures::default();
    let hostile = ingredients.has(Ingredient::HostileUsage);
    let alone = live(seed, hostile, false, &mut figures)?;
    let among = live(seed, hostile, true, &mut figures)?;
    for (step, (one, other)) in alone.iter().zip(&among).enumerate() {
        holds(one == other, "other conversations do not affect a conversation", || {
            format!("step {step}: alone {}, next to others {}", one.shown(), other.shown())
        })?;
    }
    figures.add("calls compared", alone.len() as u64);
    Ok(figures)
}

/// The result of one call.
#[derive(Debug, PartialEq)]
struct Step {
    outcome: String,
    prompt: Vec<Message>,
    /// The start of the window, the start of rounds, the position before which results are cleared, and the
    /// end of the summarized part.
    cut: Option<[u64; 4]>,
}

impl Step {
    fn shown(&self) -> String {
        let prompt = self.prompt.first().map(shorten).unwrap_or_default();
        let prompt: String = prompt.chars().take(60).collect();
        format!("{} with {} messages from {prompt:?} on, cut at {:?}", self.outcome, self.prompt.len(), self.cut)
    }
}

/// A summarizer whose summary depends only on its request.
#[derive(Debug)]
struct Digest;

#[async_trait]
impl Summarizer for Digest {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        let mut hasher = DefaultHasher::new();
        request.previous.hash(&mut hasher);
        request.messages.iter().for_each(|message| message.json().hash(&mut hasher));
        Ok(SummaryResponse::new(format!("{:x}", hasher.finish())))
    }
}

fn options(rng: &mut SeededRng, window: u32) -> HistoryOptions {
    let mut context = ContextOptions::new().budget(ContextBudget::tokens(window).reply_reserve(window / 20));
    if rng.once_in(3) {
        context = context.watermarks(Watermarks::new(Watermark::Percent(90), Watermark::Percent(50)).unwrap());
    }
    if rng.once_in(3) {
        context = context.clear_results(ClearResults::new().keep(1));
    }
    let mut options = HistoryOptions::new().context(context);
    if rng.once_in(2) {
        let when = if rng.once_in(2) { SummarizeWhen::BeforeCall } else { SummarizeWhen::AfterReply { percent: 70 } };
        options = options.summaries(Summaries::new(Digest).when(when).max_tokens(40).least_room(1));
    }
    options
}

/// Runs the conversation. Its random decisions are the same with and without neighbors.
fn live(seed: u64, hostile: bool, has_neighbors: bool, figures: &mut Figures) -> Checked<Vec<Step>> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut rng = SeededRng::new(seed);
        let mut others = Others { rng: rng.fork(), made: 0 };
        let window = u32::try_from(rng.between(2_000, 20_000)).unwrap_or(2_000);
        let store = MemoryStore::new();
        let engine = Engine::with_options(store.clone(), options(&mut rng, window));
        // The provider reports the counted tokens, or up to a fifth more.
        let reports = if hostile { rng.between(100, 120) } else { 100 };
        let id = ConversationId::new(["it"]).unwrap();
        let mut open = false;
        let mut steps = Vec::new();
        for _ in 0..rng.between(5, 30) {
            for _ in 0..if has_neighbors { others.rng.below(6) } else { 0 } {
                others.call(&engine, window, hostile).await;
                figures.count("calls of neighbors");
            }
            let size = u64::from(window) * rng.between(1, 70) / 100;
            let text = "x".repeat(usize::try_from(size * 4).unwrap_or_default());
            let asked = if open { Message::tool("x", &text[..text.len() / 8]) } else { Message::user(text) };
            let calls = rng.once_in(4);
            let usage = rng.once_in(2);
            let mut input = TurnInput::new(id.clone(), [asked]);
            input.request.model = Some("m".to_owned());
            let (outcome, prompt) = match engine.begin(input).await {
                Err(error) => (error.kind().to_owned(), Vec::new()),
                Ok(turn) => {
                    let prompt = turn.context().to_vec();
                    let mut reply = Reply::new(if calls {
                        message(&json!({"role": "assistant", "content": null, "tool_calls": [call("x", "{}")]}))
                    } else {
                        Message::assistant("a".repeat(rng.index(400)))
                    });
                    reply.usage = usage.then(|| Usage::new(counted(&prompt) * reports / 100, 1));
                    let report = turn.commit(reply).await;
                    let report = report.map_err(|error| Violation::new("a reply is stored", error.to_string()))?;
                    open = calls;
                    (report.outcome.kind().to_owned(), prompt)
                }
            };
            let drained = engine.drain(Duration::from_secs(60)).await;
            drained.map_err(|error| Violation::new("drain ends", error.to_string()))?;
            steps.push(Step { outcome, prompt, cut: cut(&store, &id).await });
        }
        Ok(steps)
    })
}

async fn cut(store: &MemoryStore, id: &ConversationId) -> Option<[u64; 4]> {
    let Ok(Loaded::Window(window)) = store.load(id, Load::new()).await else { return None };
    let cut = Cuts::read(&window.compaction?).ok()?.cut;
    Some([cut.window_start.get(), cut.rounds_start.get(), cut.cleared_before.get(), cut.covers_to.get()])
}

fn counted(prompt: &[Message]) -> u64 {
    let counter = ByteEstimate::new();
    prompt.iter().map(|message| u64::from(counter.count_message(message))).sum::<u64>() + u64::from(REPLY_PRIMING)
}

/// The other conversations.
struct Others {
    rng: SeededRng,
    made: u64,
}

impl Others {
    async fn call(&mut self, engine: &Engine, window: u32, hostile: bool) {
        self.made += 1;
        let rng = &mut self.rng;
        let id = ConversationId::new(["others", &rng.below(20).to_string()]).unwrap();
        let size = usize::try_from(window).unwrap_or_default() * rng.index(60) / 100;
        let text = "y".repeat(size * 4);
        let asked = if hostile && rng.once_in(3) {
            message(
                &json!({"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}, {"type": "text", "text": text}]}),
            )
        } else {
            Message::user(text)
        };
        let mut input = TurnInput::new(id, [asked]);
        input.request.model = Some(match rng.below(6) {
            0 if hostile => format!("junk {}", self.made),
            1 if hostile => format!("junk {} {}", self.made, "m".repeat(10_000)),
            _ => "m".to_owned(),
        });
        let Ok(turn) = engine.begin(input).await else { return };
        let honest = counted(turn.context());
        let mut reply = Reply::new(Message::assistant("b"));
        reply.usage = Some(match rng.below(4) {
            0 if hostile => Usage::new(u64::MAX, u64::MAX),
            1 if hostile => Usage::new(1_000_000_000_000, 0),
            2 if hostile => Usage::new(honest * 50, 0),
            _ => Usage::new(honest, 1),
        });
        // The results of these calls are not checked.
        let _ = turn.commit(reply).await;
    }
}
