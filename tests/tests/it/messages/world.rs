//! A conversation between callers, engines, a store and a provider of the Messages API.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use proptest::{prop_assert, test_runner::TestCaseError};
use serde_json::{Value, json};
use tests::FullStore;
use tower_chat_history::{
    ConversationId, Engine, HistoryError, HistoryStoreExt as _, Message, Reply, SaveError, StoreError, Turn, TurnInput,
    dialect::{AnthropicMessages, CallId, Digest},
    engine::ToolResults,
    report::TurnOutcome,
    store::{Cuts, Derived, Load, Loaded, Origin, Positions, Profile, PruneTo, Recorded, Seq, Summary, Usage},
};
use tower_chat_history_core::Rounds;
use tower_chat_history_test::messages::{MessagesProvider, Say, ThinkingCounts};

use super::case::{Block, Case, Question, Results, Script, Step};
use crate::signing::setup::Setup;

pub(super) type Checked<T = ()> = Result<T, TestCaseError>;

/// The numbers of things that happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) requests: u64,
    /// The number of requests with the results of calls.
    pub(super) with_calls: u64,
    /// The number of requests that were compared with the one before.
    pub(super) compared: u64,
    pub(super) too_large: u64,
    /// The number of requests after which the provider executes a call of an earlier reply.
    pub(super) resumed: u64,
    pub(super) thinking: ThinkingCounts,
}

impl Figures {
    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.with_calls += other.with_calls;
        self.compared += other.compared;
        self.too_large += other.too_large;
        self.resumed += other.resumed;
        self.thinking.sent += other.thinking.sent;
        self.thinking.missing += other.thinking.missing;
    }
}

/// The state of a case.
pub(super) struct World {
    stores: [Arc<dyn FullStore>; 2],
    setups: [Setup; 2],
    engines: [Engine; 2],
    origins: [Origin; 2],
    providers: HashMap<String, MessagesProvider>,
    id: ConversationId,
    head: u8,
    slow: Option<Sent>,
    before: Option<Before>,
    breaks_rule: bool,
    figures: Figures,
}

/// A prompt that was sent.
struct Sent {
    turn: Turn,
    prompt: Before,
    reply: Reply,
}

/// The messages of a request, and the conditions under which the next one begins with them.
struct Before {
    context: Vec<Message>,
    cut: Option<Positions>,
    head: Digest,
    origin: Origin,
}

fn message(json: &Value) -> Message {
    Message::in_dialect(&AnthropicMessages, json.to_string()).unwrap()
}

fn user(content: &Value) -> Message {
    message(&json!({"role": "user", "content": content}))
}

/// Returns a number that no other call returns.
fn number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Relaxed)
}

fn new_id() -> ConversationId {
    ConversationId::new(["messages", &number().to_string()]).unwrap()
}

fn failed(error: impl std::fmt::Display) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

fn question(form: Question) -> Vec<Message> {
    let said = format!("and {}?", number());
    let text = json!({"type": "text", "text": said});
    match form {
        Question::Text => vec![user(&json!(said))],
        Question::Blocks => vec![user(&json!([text, {"type": "image", "source": {"type": "url", "url": "u"}}]))],
        Question::Two => vec![user(&json!(said)), user(&json!([text]))],
        Question::Marked => {
            vec![user(&json!([{"type": "text", "text": said, "cache_control": {"type": "ephemeral"}}]))]
        }
        Question::WithSystem => vec![user(&json!([text])), message(&json!({"role": "system", "content": "Be brief."}))],
    }
}

fn results(form: Results, calls: &[CallId]) -> Vec<Message> {
    // Large enough to be cleared.
    let content = "r".repeat(40);
    let result = |call: &CallId| json!({"type": "tool_result", "tool_use_id": call.as_str(), "content": content});
    let mut all: Vec<Value> = calls.iter().map(result).collect();
    match form {
        Results::Together => vec![user(&json!(all))],
        Results::WithText => {
            all.push(json!({"type": "text", "text": "so?"}));
            vec![user(&json!(all))]
        }
        Results::Apart => all.iter().map(|result| user(&json!([result]))).collect(),
        Results::Empty => {
            all[0]["content"] = json!([]);
            vec![user(&json!(all))]
        }
    }
}

/// Returns the calls of the provider that have no result in these messages.
fn open_searches(context: &[Message]) -> Vec<CallId> {
    let mut open: Vec<CallId> = Vec::new();
    for index in context.iter().map(Message::index) {
        open.retain(|call| !index.server_results.contains(call));
        open.extend(index.server_calls.iter().cloned());
    }
    open
}

fn says(script: &Script, open: Vec<CallId>) -> Vec<Say> {
    let mut says: Vec<Say> = script.compacts.then(|| Say::Compaction("so far".into())).into_iter().collect();
    says.extend(open.into_iter().filter(|_| script.finds).map(|call| Say::Found(call.as_str().to_owned())));
    for block in &script.blocks {
        match block {
            Block::Thinking => says.push(Say::Thinking(format!("hm {}", number()))),
            Block::Redacted => says.push(Say::Redacted),
            // No two replies have the same texts and blocks, because the provider knows the thinking of a reply by what
            // else it says.
            Block::Text("so") => says.push(Say::Text(format!("so {}", number()))),
            Block::Text(text) => says.push(Say::Text((*text).to_owned())),
            Block::Calls(many) => {
                says.extend((0..*many).map(|_| Say::call(format!("toolu_{}", number()), "look", json!({}))));
            }
            Block::Search => says.push(Say::Search(format!("srvtoolu_{}", number()))),
            Block::OpenSearch => says.push(Say::OpenSearch(format!("srvtoolu_{}", number()))),
            Block::Unknown => says.push(Say::Block(json!({"type": "later", "level": 1.5, "number": number()}))),
        }
    }
    if script.pauses {
        // Another provider knows only by the last block that the reply is paused.
        says.extend([Say::OpenSearch(format!("srvtoolu_{}", number())), Say::Pause]);
    }
    says
}

/// Returns the JSON of messages with only the newest marks for the cache. A client sends at most four.
fn with_few_marks(context: &[Message]) -> Vec<String> {
    let mut left = AnthropicMessages::MAX_CACHE_MARKS;
    let newest_first = context.iter().rev().map(|message| {
        let marks = AnthropicMessages::cache_marks(message);
        let without = AnthropicMessages::without_cache_marks(message).filter(|_| marks > left);
        left = left.saturating_sub(marks);
        without.unwrap_or_else(|| message.json().to_owned())
    });
    let mut messages: Vec<String> = newest_first.collect();
    messages.reverse();
    messages
}

impl World {
    pub(super) fn new(case: &Case, stores: [Arc<dyn FullStore>; 2], breaks_rule: bool) -> Self {
        let origins = [Origin::unknown().provider("one"), Origin::unknown().provider("one")];
        let engine = |at: usize| case.setups[at].engine(Arc::clone(&stores[at]), origins[at].clone());
        Self {
            engines: [engine(0), engine(1)],
            stores,
            setups: case.setups.clone(),
            origins,
            providers: HashMap::new(),
            id: new_id(),
            head: 0,
            slow: None,
            before: None,
            breaks_rule,
            figures: Figures::default(),
        }
    }

    pub(super) async fn run(&mut self, case: &Case) -> Checked {
        for (engine, step) in &case.steps {
            self.step(*engine, step).await?;
        }
        Ok(())
    }

    pub(super) async fn end(&mut self) {
        self.slow = None;
        for engine in &self.engines {
            engine.drain(Duration::from_secs(60)).await.unwrap();
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let mut figures = self.figures;
        for provider in self.providers.values() {
            figures.thinking.sent += provider.counts().sent;
            figures.thinking.missing += provider.counts().missing;
        }
        figures
    }

    async fn log(&self) -> Checked<Vec<Recorded>> {
        self.stores[0].conversation(&self.id).exchanges().await.map_err(failed)
    }

    async fn rounds(&self) -> Checked<Rounds> {
        let mut rounds = Rounds::default();
        self.log().await?.iter().for_each(|recorded| rounds.push_exchange(recorded));
        Ok(rounds)
    }

    async fn open(&self) -> Checked<Vec<CallId>> {
        Ok(self.rounds().await?.open().ids().cloned().collect())
    }

    async fn step(&mut self, engine: usize, step: &Step) -> Checked {
        match step {
            Step::Ask(form, script) => {
                // The API takes a system message only before a reply, so the reply must say something.
                let mut script = script.clone();
                if matches!(form, Question::WithSystem) {
                    script.blocks.push(Block::Text("so"));
                }
                self.call(engine, question(*form), &script).await
            }
            Step::Answer(form, script) => {
                let open = self.open().await?;
                if open.is_empty() { Ok(()) } else { self.call(engine, results(*form, &open), script).await }
            }
            Step::StoreResults => {
                let open = self.open().await?;
                if open.is_empty() {
                    return Ok(());
                }
                let stored = ToolResults::new(self.id.clone(), results(Results::Together, &open));
                self.engines[engine].store_results(stored).await.map_err(failed)?;
                self.before = None;
                Ok(())
            }
            Step::Continue(script) => {
                let rounds = self.rounds().await?;
                let awaits = rounds.ends_with_round() && rounds.open().is_empty();
                if awaits { self.call(engine, Vec::new(), script).await } else { Ok(()) }
            }
            Step::Slow(script, answers) => {
                if self.slow.is_none() && !self.setups.iter().any(Setup::queues) {
                    let open = self.open().await?;
                    let answers = *answers && !open.is_empty();
                    let input = if answers { results(Results::Together, &open) } else { question(Question::Text) };
                    self.slow = self.send(engine, input, script).await?;
                }
                Ok(())
            }
            Step::Arrive => {
                let Some(sent) = self.slow.take() else { return Ok(()) };
                self.before = None;
                self.arrive(sent, false).await
            }
            Step::CompactWhileOpen(summarizes) => {
                let asks = Script::of([Block::Thinking, Block::Calls(2)]);
                self.call(engine, question(Question::Text), &asks).await?;
                self.compact_elsewhere(*summarizes).await?;
                let answers = Script::of([Block::Thinking, Block::Text("so")]);
                Box::pin(self.step(engine, &Step::Answer(Results::Together, answers))).await
            }
            Step::Wait => {
                for engine in &self.engines {
                    engine.drain(Duration::from_secs(60)).await.map_err(failed)?;
                }
                Ok(())
            }
            edit => {
                self.before = None;
                self.edit(engine, edit).await
            }
        }
    }

    async fn edit(&mut self, engine: usize, edit: &Step) -> Checked {
        let conversation = self.stores[engine].conversation(&self.id);
        match edit {
            Step::Truncate(exchanges) => {
                let next = conversation.revision().await.map_err(failed)?.map_or(0, |revision| revision.next().get());
                conversation.truncate(Seq::new(next.saturating_sub(*exchanges))).await.map_err(failed)?;
            }
            Step::Prune(turns) => {
                conversation.prune(PruneTo::LastTurns(*turns), Derived::Keep).await.map_err(failed)?;
            }
            Step::Fork => {
                let copy = new_id();
                conversation.fork(Seq::new(u64::MAX), &copy).await.map_err(failed)?;
                self.id = copy;
            }
            Step::Import => {
                let call = format!("toolu_{}", number());
                let asked = json!([{"type": "thinking", "thinking": "hm", "signature": "00"}, {"type": "text", "text": ""},
                    {"type": "tool_use", "id": call, "name": "f", "input": {}}, {"type": "tool_use", "name": "g", "input": {}}]);
                let result = json!({"type": "tool_result", "tool_use_id": call, "content": [{"type": "text", "text": ""}], "is_error": true});
                let answered =
                    json!([{"type": "text", "text": "late"}, result, {"type": "tool_result", "content": "1"}]);
                let replied = json!([{"type": "text", "text": "so"}, {"type": "redacted_thinking", "data": "00"}]);
                let reply = |content: &Value| message(&json!({"role": "assistant", "content": content}));
                let messages = [question(Question::Text).remove(0), reply(&asked), user(&answered), reply(&replied)];
                conversation.import(messages).await.map_err(failed)?;
            }
            Step::Head(head) => self.head = *head,
            Step::Origin(which) => {
                let one = Origin::unknown().provider("one");
                let (origin, engines) = match which {
                    0 => (one, 0..2),
                    1 => (one.route("b"), 0..2),
                    2 => (Origin::unknown().provider("two"), 0..2),
                    _ => (Origin::unknown().provider("two"), engine..engine + 1),
                };
                for at in engines {
                    self.engines[at].drain(Duration::from_secs(60)).await.map_err(failed)?;
                    self.engines[at] = self.setups[at].engine(Arc::clone(&self.stores[at]), origin.clone());
                    self.origins[at] = origin.clone();
                }
            }
            other => return Err(failed(format!("not an edit: {other:?}"))),
        }
        Ok(())
    }

    async fn call(&mut self, engine: usize, input: Vec<Message>, script: &Script) -> Checked {
        match self.send(engine, input, script).await? {
            Some(sent) => self.arrive(sent, true).await,
            None => Ok(()),
        }
    }

    /// Sends a request. Returns `None` if no prompt fits.
    async fn send(&mut self, engine: usize, input: Vec<Message>, script: &Script) -> Checked<Option<Sent>> {
        let answers = input.first().is_none_or(|first| !first.answers().is_empty());
        let mut input = TurnInput::new(self.id.clone(), input).dialect(&AnthropicMessages);
        let system = format!("Instructions {}", self.head);
        let tools = json!([{"name": "look", "input_schema": {"type": "object"}, "description": system}]);
        input.request.head = vec![message(&json!({"role": "system", "content": system}))];
        input.request.tools = Some(tools.to_string());
        let (head, origin) = (input.request.digest(), self.origins[engine].clone());
        let turn = match self.engines[engine].begin(input).await {
            Ok(turn) => turn,
            Err(HistoryError::DoesNotFit(_)) => {
                self.figures.too_large += 1;
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        let mut context = turn.context().to_vec();
        if self.breaks_rule {
            self.restore_thinking(&mut context).await?;
        }
        let messages = with_few_marks(&context);
        let body = format!(
            r#"{{"model":"claude-opus-5-5","max_tokens":64,"thinking":{{"type":"adaptive"}},"system":{},"tools":{tools},"messages":[{}]}}"#,
            json!(system),
            messages.join(",")
        );
        let name = origin.provider.clone().unwrap_or_default();
        let provider =
            self.providers.entry(name.clone()).or_insert_with(|| MessagesProvider::new(name).with_block_type("later"));
        let open = open_searches(&context);
        self.figures.resumed += u64::from(!open.is_empty());
        let response = provider.reply(&body, &says(script, open));
        let response = response.map_err(|refusal| failed(format!("refused: {refusal}\n{body}")))?;
        let response: Value = serde_json::from_str(&response.body()).map_err(failed)?;
        let mut content = response["content"].clone();
        if let (Some(blocks), Some(arrived)) = (content.as_array_mut(), script.interrupted) {
            blocks.truncate(arrived);
        }
        let mut reply = Reply::of([message(&json!({"role": "assistant", "content": content}))]);
        reply.finish_reason = response["stop_reason"].as_str().map(str::to_owned);
        if script.interrupted.is_some() {
            (reply.incomplete, reply.finish_reason) = (true, None);
        }
        self.figures.requests += 1;
        self.figures.with_calls += u64::from(answers);
        let prompt = Before { context, cut: None, head, origin };
        Ok(Some(Sent { turn, prompt, reply }))
    }

    /// Replaces each message that was sent without its thinking by the one of the log.
    async fn restore_thinking(&self, context: &mut [Message]) -> Checked {
        for recorded in self.log().await? {
            for reply in recorded.exchange.reply() {
                let (Some(unbound), whole) = (reply.unbound(), reply.sendable()) else { continue };
                if let Some(sent) = context.iter_mut().find(|sent| *sent == unbound) {
                    *sent = whole.into_owned();
                }
            }
        }
        Ok(())
    }

    /// Stores a reply, and compares the prompt with the one before.
    async fn arrive(&mut self, sent: Sent, in_order: bool) -> Checked {
        let Sent { turn, mut prompt, mut reply } = sent;
        let interrupted = reply.incomplete;
        let bytes: usize = prompt.context.iter().map(Message::bytes).sum();
        reply.usage = Some(Usage::new(bytes as u64 / 3, 1));
        let before = self.before.take();
        let report = match turn.commit(reply).await {
            Ok(report) => report,
            Err(unsaved) => {
                let overtaken =
                    matches!(unsaved.reason(), SaveError::Store(StoreError::Conflict { .. } | StoreError::Gone));
                prop_assert!(overtaken && !in_order, "{}", unsaved.reason());
                return Ok(());
            }
        };
        let by_trimmer = report.tokens.is_some_and(|tokens| tokens.trimming.by_trimmer);
        let TurnOutcome::Stored { seq, .. } = report.outcome else { return Ok(()) };
        if !in_order || report.truncated || by_trimmer || self.breaks_rule {
            return Ok(());
        }
        let picked = self.stores[0].conversation(&self.id).last(2).await.map_err(failed)?;
        let stored = picked.iter().find(|recorded| recorded.seq == seq);
        prompt.cut = stored.and_then(|recorded| recorded.exchange.provenance.as_ref()).map(|it| it.cut);
        // A call of the provider that waits for its result is left out after a question.
        let waits = |before: &Before| !open_searches(&before.context).is_empty();
        if let Some(before) = before.filter(|before| before.cut.is_some() && !waits(before)) {
            let same = (before.cut, before.head, &before.origin) == (prompt.cut, prompt.head, &prompt.origin);
            let is_same = same && self.setups[0] == self.setups[1];
            prop_assert!(
                !is_same || prompt.context.starts_with(&before.context),
                "under one cut, a prompt begins with the prompt before"
            );
            self.figures.compared += u64::from(is_same);
        }
        self.before = Some(prompt).filter(|_| !interrupted);
        Ok(())
    }

    /// Stores a compaction that another process made: its window starts at the last opening.
    async fn compact_elsewhere(&self, summarizes: bool) -> Checked {
        let loaded = self.stores[1].load(&self.id, Load::new()).await.map_err(failed)?;
        let Loaded::Window(window) = loaded else { return Ok(()) };
        let Some(opening) = window.exchanges.iter().rfind(|recorded| recorded.exchange.opens_turn()) else {
            return Ok(());
        };
        let previous = window.compaction.as_ref().map(Cuts::read).transpose().map_err(failed)?.map(|cuts| cuts.cut);
        let mut cut = previous.clone().unwrap_or_default();
        cut.window_start = cut.window_start.max(opening.seq);
        cut.rounds_start = cut.rounds_start.max(cut.window_start);
        if summarizes && cut.window_start > cut.covers_to {
            cut.set_summary(Summary::new(format!("up to {}", cut.window_start)), cut.window_start);
        }
        let cuts = Cuts::new(cut).replacing(previous);
        let compact = cuts.compact(Profile::default(), window.compaction_version()).map_err(failed)?;
        self.stores[1].compact(&self.id, window.revision.incarnation(), compact).await.map_err(failed)?;
        Ok(())
    }
}
