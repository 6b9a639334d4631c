//! Many callers at once, over an unreliable store, with few permits for the model. Each caller may leave at
//! any await.

mod caller;
mod store;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio::{runtime::Builder, sync::Semaphore, task::JoinSet, time::Instant};
use tower::{ServiceBuilder, ServiceExt as _, limit::GlobalConcurrencyLimitLayer, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ContextBudget, ConversationId, Engine, HistoryOptions, HistoryStoreExt as _,
    InConversation, MemoryStore, Policies, Summaries,
    adapt::Json,
    policy::{OnConflict, OnInterruption, QueueLimits},
    summary::{SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};

use self::{
    caller::{Patience, drop_checked, wait},
    store::{FlakyStore, SLOW, flaky_store},
};
use super::{
    Checked, Figures, Ingredient, Ingredients,
    outcome::{Violation, holds},
};
use crate::rng::SeededRng;

/// The longest time of the model, for a response or for one piece of it.
const MODEL: Duration = Duration::from_millis(100);
/// The longest wait of a call that has its conversation for itself: a few turns of others that hold the
/// permits.
const FAIR: Duration = Duration::from_secs(8);
/// The time for which a caller keeps a stream open without reading it.
const KEPT: Duration = Duration::from_secs(25);

/// Runs one case.
pub(super) fn run(seed: u64, ingredients: &Ingredients) -> Checked<Figures> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let case = Arc::new(Case::new(&mut SeededRng::new(seed), ingredients));
        let mut tasks = JoinSet::new();
        let mut rng = SeededRng::new(seed ^ 0x5eed);
        for number in 0..rng.between(6, 40) {
            let (case, rng) = (Arc::clone(&case), rng.fork());
            tasks.spawn(async move { case.caller(number, rng).await });
        }
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                ended.map_err(|error| Violation::new("no call panics", error.to_string()))??;
            }
            Ok(())
        };
        let ended = tokio::time::timeout(Duration::from_secs(900), all).await;
        ended.map_err(|_| Violation::new("no call hangs", "some call did not end"))??;
        case.end().await
    })
}

/// The report of one turn.
#[derive(Debug)]
struct ReportedTurn {
    conversation: ConversationId,
    exchange: String,
    kind: &'static str,
    error: Option<&'static str>,
}

struct Case {
    engine: Engine,
    store: MemoryStore,
    flaky: FlakyStore,
    permits: Arc<Semaphore>,
    many: usize,
    rejects: bool,
    held: bool,
    /// The replies that the model finished in unary calls: the conversation and the text.
    answered: Mutex<Vec<(ConversationId, String)>>,
    /// The replies of streams that were read to their end.
    read: Mutex<Vec<(ConversationId, String)>>,
    reported: Arc<Mutex<Vec<ReportedTurn>>>,
    texts: AtomicU64,
    figures: Mutex<Figures>,
}

/// A summarizer that needs a permit, like the model.
#[derive(Debug)]
struct PermitSummarizer(Arc<Semaphore>);

#[async_trait]
impl Summarizer for PermitSummarizer {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        let _permit = self.0.acquire().await?;
        tokio::time::sleep(MODEL / 2).await;
        Ok(SummaryResponse::new("s"))
    }
}

impl Case {
    fn new(rng: &mut SeededRng, ingredients: &Ingredients) -> Self {
        let held = ingredients.has(Ingredient::HeldPermits);
        let many = 1 + rng.index(3);
        let permits = Arc::new(Semaphore::new(many));
        let store = MemoryStore::new();
        let flaky = flaky_store(store.clone(), rng.fork(), ingredients);
        let reported: Arc<Mutex<Vec<ReportedTurn>>> = Arc::default();
        let hook = Arc::clone(&reported);
        let conflict = match rng.below(3) {
            0 if held => OnConflict::Serialize(QueueLimits::new(50, Duration::from_secs(400))),
            1 => OnConflict::Reject,
            _ => OnConflict::Rebase,
        };
        let interruption = match rng.below(3) {
            0 => OnInterruption::KeepText,
            1 => OnInterruption::Detach,
            _ => OnInterruption::Discard,
        };
        let mut options = HistoryOptions::new()
            .policies(Policies::new().on_conflict(conflict).on_interruption(interruption))
            .store_timeout(Duration::from_secs(60))
            .on_turn(move |report| {
                hook.lock().unwrap().push(ReportedTurn {
                    conversation: report.conversation.clone(),
                    exchange: report.exchange.to_string(),
                    kind: report.outcome.kind(),
                    error: report.save_error().map(tower_chat_history::SaveError::kind),
                });
            });
        if rng.once_in(2) {
            let when = match rng.below(3) {
                0 => SummarizeWhen::BeforeCall,
                1 => SummarizeWhen::BeforeEveryCall,
                _ => SummarizeWhen::AfterReply { percent: 50 },
            };
            let summaries =
                Summaries::new(PermitSummarizer(Arc::clone(&permits))).when(when).max_tokens(10).least_room(1);
            options = options.context(ContextBudget::tokens(300).reply_reserve(20)).summaries(summaries);
        }
        Self {
            engine: Engine::with_options(flaky.clone(), options),
            store,
            flaky,
            permits,
            many,
            rejects: conflict == OnConflict::Reject,
            held,
            answered: Mutex::default(),
            read: Mutex::default(),
            reported,
            texts: AtomicU64::new(0),
            figures: Mutex::default(),
        }
    }

    fn count(&self, name: &str) {
        self.figures.lock().unwrap().count(name);
    }

    fn call(id: &ConversationId) -> InConversation<Value> {
        let text = "word ".repeat(10);
        InConversation::new(id.clone(), json!({"model": "m", "messages": [{"role": "user", "content": text}]}))
    }

    async fn caller(self: Arc<Self>, number: u64, mut rng: SeededRng) -> Checked {
        tokio::time::sleep(rng.duration(Duration::from_secs(2))).await;
        let panicked = |what: &'static str| Violation::new("dropping a call does not panic", what);
        // A conversation for this caller alone, or one that several callers share.
        let own = rng.once_in(3);
        let id = match rng.below(3) {
            _ if own => format!("own{number}"),
            0 => format!("{SLOW}{}", rng.below(2)),
            _ => format!("shared{}", rng.below(3)),
        };
        let id = ConversationId::new([&id]).unwrap();
        let begun = Instant::now();
        if rng.once_in(2) {
            let patience = if own { Patience::Stays } else { Patience::any(&mut rng) };
            let ended = wait(patience, Arc::clone(&self).unary(&id, rng.fork())).await.map_err(panicked)?;
            self.count(if ended.is_some() { "unary calls answered" } else { "unary calls abandoned" });
            if own {
                self.count("waits measured");
                holds(begun.elapsed() < FAIR, "a conversation does not delay another one", || {
                    format!("{:?}", begun.elapsed())
                })?;
            }
            return Ok(());
        }
        let patience = Patience::any(&mut rng);
        let ended = wait(patience, Arc::clone(&self).stream(&id, rng.fork())).await.map_err(panicked)?;
        let Some(Ok((text, mut items))) = ended else {
            self.count("streams abandoned or refused");
            return Ok(());
        };
        let reads = rng.below(8);
        for _ in 0..reads {
            if items.next().await.is_none() {
                self.count("streams read");
                self.read.lock().unwrap().push((id, text));
                return Ok(());
            }
        }
        if self.held && rng.once_in(2) {
            tokio::time::sleep(KEPT).await;
        }
        self.count("streams interrupted");
        drop_checked(items).map_err(panicked)
    }

    fn unary(self: Arc<Self>, id: &ConversationId, mut rng: SeededRng) -> BoxFuture<'static, Result<Value, BoxError>> {
        let (case, id, call) = (Arc::clone(&self), id.clone(), Self::call(id));
        let model = service_fn(move |_: Value| {
            let (case, id, time) = (Arc::clone(&case), id.clone(), rng.duration(MODEL));
            async move {
                tokio::time::sleep(time).await;
                let text = format!("a{}", case.texts.fetch_add(1, Relaxed));
                case.answered.lock().unwrap().push((id, text.clone()));
                Ok::<_, BoxError>(answer(&text))
            }
        });
        let service = ServiceBuilder::new()
            .layer(ChatHistoryLayer::from_engine(self.engine.clone(), Json::new()))
            .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&self.permits)))
            .service(model);
        service.oneshot(call).boxed()
    }

    fn stream(
        self: Arc<Self>,
        id: &ConversationId,
        mut rng: SeededRng,
    ) -> BoxFuture<'static, Result<(String, Items), BoxError>> {
        let call = Self::call(id);
        let text = format!("a{}", self.texts.fetch_add(1, Relaxed));
        let said = text.clone();
        let model = service_fn(move |_: Value| {
            let pieces = [said.as_str(), "", "", "", ""].map(str::to_owned);
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
            let usage = json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
            let deltas =
                pieces.into_iter().map(|piece| json!({"choices": [{"index": 0, "delta": {"content": piece}}]}));
            let items: Vec<(Duration, Value)> =
                deltas.chain([end, usage]).map(|item| (rng.duration(MODEL), item)).collect();
            let items = stream::iter(items).then(|(time, item)| async move {
                tokio::time::sleep(time).await;
                Ok::<_, BoxError>(item)
            });
            async move { Ok::<Items, BoxError>(items.boxed()) }
        });
        let service = ServiceBuilder::new()
            .layer(ChatHistoryLayer::from_engine(self.engine.clone(), Json::new()))
            .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&self.permits)))
            .service(model);
        service.oneshot(call).map(|reported| reported.map(|items| (text, items))).boxed()
    }

    /// Checks that no save is pending, all permits are free, and all reports were true.
    async fn end(self: &Arc<Self>) -> Checked<Figures> {
        let drained = self.engine.drain(Duration::from_secs(600)).await;
        drained.map_err(|error| Violation::new("drain ends", error.to_string()))?;
        holds(self.engine.pending_saves() == 0, "no save is pending after a drain", String::new)?;
        let free = self.permits.available_permits();
        holds(free == self.many, "all permits come back", || format!("{free} of {}", self.many))?;
        let reported = std::mem::take(&mut *self.reported.lock().unwrap());
        let mut stored: BTreeMap<ConversationId, Vec<(String, String)>> = BTreeMap::new();
        let answered = std::mem::take(&mut *self.answered.lock().unwrap());
        let read = std::mem::take(&mut *self.read.lock().unwrap());
        let all = reported
            .iter()
            .map(|reported| &reported.conversation)
            .chain(answered.iter().chain(&read).map(|(id, _)| id));
        for id in all {
            if !stored.contains_key(id) {
                stored.insert(id.clone(), self.log(id).await);
            }
        }
        for one in &reported {
            self.check(one, &stored[&one.conversation])?;
        }
        for (id, text) in answered.iter().chain(&read) {
            let times = stored[id].iter().filter(|(_, reply)| reply == text).count();
            let lost = times == 0
                && !self.rejects
                && !reported
                    .iter()
                    .any(|reported| reported.conversation == *id && self.flaky.disturb.panicked(&reported.exchange));
            holds(!lost && times < 2, "every complete reply is stored once", || {
                format!("{text} of {id}: {times} times")
            })?;
        }
        let mut figures = std::mem::take(&mut *self.figures.lock().unwrap());
        reported.iter().for_each(|reported| figures.count(reported.kind));
        Ok(figures)
    }

    /// Returns the exchanges of a conversation, as pairs of id and reply.
    async fn log(&self, id: &ConversationId) -> Vec<(String, String)> {
        let exchanges = self.store.conversation(id).exchanges().await.unwrap();
        let reply =
            |exchange: &tower_chat_history::Exchange| exchange.messages.last().map(|last| last.text().into_owned());
        exchanges.iter().map(|one| (one.exchange.id.to_string(), reply(&one.exchange).unwrap_or_default())).collect()
    }

    /// Checks that the log agrees with a report.
    fn check(&self, reported: &ReportedTurn, log: &[(String, String)]) -> Checked {
        let is_there = log.iter().any(|(id, _)| *id == reported.exchange);
        let right = match reported.kind {
            "stored" | "stored_incomplete" => is_there,
            // All ids are generated, so that no other call can have recorded one.
            "duplicate" => false,
            "failed" => {
                self.flaky.disturb.panicked(&reported.exchange)
                    || self.rejects && reported.error == Some("conflict") && !is_there
            }
            _ => !is_there,
        };
        holds(right, "a report agrees with the log", || {
            format!("{} ({:?}), in the log: {is_there}", reported.kind, reported.error)
        })
    }
}

type Items = BoxStream<'static, Result<Value, BoxError>>;

fn answer(text: &str) -> Value {
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
}
