//! A conversation, with the prompts that were really sent.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use proptest::{
    prop_assert, prop_assert_eq,
    test_runner::{TestCaseError, TestCaseResult},
};
use tower_chat_history::{
    CallOptions, ConversationId, Engine, HistoryError, HistoryStore as _, HistoryStoreExt as _, MemoryStore, Message,
    Reply, Turn, TurnInput,
    engine::ToolResults,
    explain::{Explanation, Fate, NotKnown, Row, Subject, Why},
    refusal::Remedy,
    report::TurnOutcome,
    store::{Cuts, Derived, Load, Loaded, Origin, PruneTo, Seq},
};

use super::{
    api::{Api, Says, paused},
    case::{Case, Setup, Step},
};

/// The number of prompts and rows of each kind.
pub(super) type Figures = BTreeMap<String, u64>;

/// A prompt that was sent.
#[derive(Clone, Debug)]
struct Sent {
    messages: Vec<String>,
    /// True if another input was stored.
    instead: bool,
}

/// The state of a case.
pub(super) struct World {
    store: MemoryStore,
    engine: Engine,
    id: ConversationId,
    setup: Setup,
    head: u8,
    /// The API of the newest reply, and the ids of its calls without a result.
    open: (Api, Vec<String>),
    /// The prompts of the exchanges in the log.
    sent: BTreeMap<Seq, Sent>,
    /// True if provenances were erased.
    erased: bool,
    /// True if recalled messages may be missing.
    lost_recalled: bool,
    pub(super) figures: Figures,
}

fn number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Relaxed)
}

fn new_id() -> ConversationId {
    ConversationId::new(["explained", &number().to_string()]).unwrap()
}

fn failed(error: impl std::fmt::Display) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

impl World {
    pub(super) fn new(case: &Case) -> Self {
        let store = MemoryStore::new();
        Self {
            engine: Engine::with_options(store.clone(), case.setup.options()),
            store,
            id: new_id(),
            setup: case.setup.clone(),
            head: 0,
            open: (Api::Chat, Vec::new()),
            sent: BTreeMap::new(),
            erased: false,
            lost_recalled: false,
            figures: Figures::new(),
        }
    }

    pub(super) async fn run(&mut self, case: &Case) -> TestCaseResult {
        for step in &case.steps {
            self.step(step).await.map_err(|error| failed(format!("{step:?}: {error}")))?;
        }
        self.engine.drain(Duration::from_secs(60)).await.map_err(failed)?;
        self.check().await
    }

    async fn step(&mut self, step: &Step) -> TestCaseResult {
        match step {
            Step::Ask(api, size, says) => self.ask(*api, *size, *says, false).await,
            Step::BreaksOff(api) => self.ask(*api, 10, Says::Text(10), true).await,
            Step::Answer(size, asks, says) => {
                let Some(mut input) = self.results(*size) else { return Ok(()) };
                let api = self.open.0;
                input.extend(asks.then(|| api.question("and?")));
                self.call(api, input, *says, false).await
            }
            Step::Repeat(size) => {
                let Some(input) = self.results(*size) else { return Ok(()) };
                let (api, ids) = self.open.clone();
                self.call(api, input.clone(), Says::Text(9), true).await?;
                self.open = (api, ids);
                self.call(api, input, Says::Text(9), false).await
            }
            Step::StoreResult => {
                let (api, ids) = &mut self.open;
                if ids.is_empty() {
                    return Ok(());
                }
                let results = api.results(&[ids.remove(0)], "stored");
                let results = ToolResults::new(self.id.clone(), results);
                self.engine.store_results(results).await.map(|_| ()).map_err(failed)
            }
            Step::Overtaken(size) => self.overtaken(*size).await,
            Step::Together(api, says) => self.together(*api, *says).await,
            Step::Pause(continues) => self.pause(*continues).await,
            Step::Refused(api) => self.refused(*api).await,
            Step::StoreInstead(api) => {
                let options = CallOptions::new().store_instead([api.question("another")]);
                let input = self.input(*api, vec![api.question("with documents")]).options(options);
                self.call_with(*api, input, Says::Text(9), false).await
            }
            Step::Head(head) => {
                self.head = *head;
                Ok(())
            }
            Step::Truncate(exchanges) => self.truncate(*exchanges).await,
            Step::Prune(turns, erases) => self.prune(*turns, *erases).await,
            Step::Fork(exchanges) => self.fork(*exchanges).await,
        }
    }

    fn input(&self, api: Api, messages: Vec<Message>) -> TurnInput {
        let mut input = TurnInput::new(self.id.clone(), messages).dialect(api.dialect());
        input.request.tools = Some(self.head.to_string());
        input.request.origin = Origin::unknown().provider(api.provider());
        input.request.thinks_with_budget = self.setup.thinks && api == Api::Messages;
        input.request.may_drop_reasoning = self.setup.may_drop_reasoning;
        input
    }

    /// Returns results of all open calls, or `None` if there are none.
    fn results(&self, size: usize) -> Option<Vec<Message>> {
        let (api, ids) = &self.open;
        (!ids.is_empty()).then(|| api.results(ids, &"r".repeat(size)))
    }

    async fn ask(&mut self, api: Api, size: usize, says: Says, breaks_off: bool) -> TestCaseResult {
        let number = number();
        let question = api.question(&format!("q{number} fact-{} {}", number % 7, "q".repeat(size)));
        self.call(api, vec![question], says, breaks_off).await
    }

    async fn call(&mut self, api: Api, input: Vec<Message>, says: Says, breaks_off: bool) -> TestCaseResult {
        self.call_with(api, self.input(api, input), says, breaks_off).await
    }

    async fn call_with(&mut self, api: Api, input: TurnInput, says: Says, breaks_off: bool) -> TestCaseResult {
        match self.begin(input).await? {
            Some(turn) => self.reply(turn, api, says, breaks_off).await,
            None => Ok(()),
        }
    }

    /// Begins a turn. Returns `None` if its prompt does not fit.
    async fn begin(&mut self, input: TurnInput) -> Result<Option<Turn>, TestCaseError> {
        match self.engine.begin(input).await {
            Ok(turn) => Ok(Some(turn)),
            Err(HistoryError::DoesNotFit(_)) => {
                self.count("does not fit");
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn reply(&mut self, turn: Turn, api: Api, says: Says, breaks_off: bool) -> TestCaseResult {
        let (messages, ids) = api.reply(says, number());
        let mut reply = Reply::of(messages);
        reply.incomplete = breaks_off;
        self.commit(turn, reply).await?;
        self.open = (api, if breaks_off { Vec::new() } else { ids });
        Ok(())
    }

    async fn commit(&mut self, turn: Turn, reply: Reply) -> TestCaseResult {
        let messages: Vec<String> = turn.context().iter().map(|message| message.json().to_owned()).collect();
        let instead = messages.iter().any(|message| message.contains("with documents"));
        let report = turn.commit(reply).await.map_err(|unsaved| failed(unsaved.reason()))?;
        let TurnOutcome::Stored { seq, .. } = report.outcome else { return Err(failed(report.outcome.kind())) };
        self.sent.insert(seq, Sent { messages, instead });
        Ok(())
    }

    async fn together(&mut self, api: Api, says: Says) -> TestCaseResult {
        let [first, second] = ["one", "two"].map(|text| self.input(api, vec![api.question(text)]));
        let (Some(first), Some(second)) = (self.begin(first).await?, self.begin(second).await?) else { return Ok(()) };
        self.reply(second, api, says, false).await?;
        self.reply(first, api, Says::Text(5), false).await
    }

    async fn overtaken(&mut self, size: usize) -> TestCaseResult {
        let (api, Some(results)) = (self.open.0, self.results(size)) else { return Ok(()) };
        let Some(turn) = self.begin(self.input(api, results)).await? else { return Ok(()) };
        self.ask(api, 10, Says::Text(10), false).await?;
        self.reply(turn, api, Says::Text(10), false).await
    }

    async fn pause(&mut self, continues: bool) -> TestCaseResult {
        let api = Api::Messages;
        let [call, rest] = paused(number());
        let input = self.input(api, vec![api.question("search")]);
        let Some(turn) = self.begin(input).await? else { return Ok(()) };
        let mut reply = Reply::new(call);
        reply.finish_reason = Some("pause_turn".into());
        self.commit(turn, reply).await?;
        self.open.1.clear();
        if !continues {
            return Ok(());
        }
        let input = self.input(api, Vec::new());
        match self.begin(input).await? {
            Some(turn) => self.commit(turn, Reply::new(rest)).await,
            None => Ok(()),
        }
    }

    async fn refused(&mut self, api: Api) -> TestCaseResult {
        let input = self.input(api, vec![api.question("once more")]);
        let Some(mut turn) = self.begin(input).await? else { return Ok(()) };
        if turn.remedy(&Remedy::WithoutEncrypted, "400").await {
            self.count("repaired");
        }
        self.reply(turn, api, Says::Text(9), false).await
    }

    async fn truncate(&mut self, exchanges: u64) -> TestCaseResult {
        let conversation = self.store.conversation(&self.id);
        let len = conversation.revision().await.map_err(failed)?.map_or(0, |revision| revision.next().get());
        let from = Seq::new(len.saturating_sub(exchanges));
        if len == 0 || from == Seq::FIRST {
            return Ok(());
        }
        conversation.truncate(from).await.map_err(failed)?;
        self.sent.retain(|seq, _| *seq < from);
        self.open.1.clear();
        Ok(())
    }

    async fn prune(&mut self, turns: usize, erases: bool) -> TestCaseResult {
        let derived = if erases { Derived::Erase } else { Derived::Keep };
        let conversation = self.store.conversation(&self.id);
        let pruned = conversation.prune(PruneTo::LastTurns(turns), derived).await.map_err(failed)?;
        let Some(pruned) = pruned else { return Ok(()) };
        let first = pruned.revision.first();
        self.sent.retain(|seq, _| *seq >= first);
        self.erased |= erases && first > Seq::FIRST;
        Ok(())
    }

    /// Checks the prompts of the conversation, and continues in a copy of it.
    async fn fork(&mut self, exchanges: u64) -> TestCaseResult {
        self.check().await?;
        let conversation = self.store.conversation(&self.id);
        let Some(revision) = conversation.revision().await.map_err(failed)? else { return Ok(()) };
        let at = Seq::new(revision.next().get().saturating_sub(exchanges));
        let copy = new_id();
        if conversation.fork(at, &copy).await.map_err(failed)? == 0 {
            return Ok(());
        }
        self.id = copy;
        self.sent.retain(|seq, _| *seq < at);
        self.lost_recalled |= revision.first() > Seq::FIRST;
        self.open.1.clear();
        Ok(())
    }

    /// Checks that each prompt is explained as it was sent, or that it cannot be known.
    async fn check(&mut self) -> TestCaseResult {
        let revision = self.store.conversation(&self.id).revision().await.map_err(failed)?;
        let summaries = self.summaries().await?;
        for (seq, sent) in self.sent.clone() {
            let explained = self.engine.explain(&self.id, seq).await.map_err(failed)?;
            let explained = explained.ok_or_else(|| failed(format!("{seq} is not found")))?;
            match &explained.prompt {
                Ok(rows) => {
                    let made: Vec<&str> = explained.sent().map(Message::json).collect();
                    prop_assert_eq!(made, sent.messages, "the prompt of {}", seq);
                    self.check_rows(&explained, rows)?;
                    self.count("known");
                }
                Err(reason) => {
                    let first = revision.map_or(Seq::FIRST, |revision| revision.first());
                    let kind = match reason {
                        NotKnown::NoProvenance if self.erased => "unknown: erased",
                        NotKnown::SummaryGone { covers_to } if !summaries.contains(covers_to) => {
                            "unknown: summary gone"
                        }
                        NotKnown::Pruned { .. } if first > Seq::FIRST => "unknown: pruned",
                        NotKnown::Differs if sent.instead => "unknown: another input was stored",
                        NotKnown::Differs if self.lost_recalled => "unknown: recalled messages were lost",
                        _ => return Err(failed(format!("the prompt of {seq}: {reason}; {sent:#?}"))),
                    };
                    self.count(kind);
                }
            }
        }
        Ok(())
    }

    /// Returns the ends of the summaries that are stored.
    async fn summaries(&self) -> Result<Vec<Seq>, TestCaseError> {
        let Loaded::Window(window) = self.store.load(&self.id, Load::new()).await.map_err(failed)? else {
            return Ok(Vec::new());
        };
        let Some(compaction) = window.compaction else { return Ok(Vec::new()) };
        let cuts = Cuts::read(&compaction).map_err(failed)?;
        let cuts = std::iter::once(&cuts.cut).chain(cuts.replaced.as_deref());
        Ok(cuts.filter_map(|cut| cut.summary.as_ref().map(|_| cut.covers_to)).collect())
    }

    /// Checks that each message of the window has one row, in order, and that the rows say the same as their messages.
    fn check_rows(&mut self, explained: &Explanation, rows: &[Row]) -> TestCaseResult {
        let provenance = explained.exchange.exchange.provenance.as_ref().unwrap();
        let logged = rows.iter().filter_map(|row| match row.subject {
            Subject::Logged { seq, index, .. } => Some((seq, index)),
            _ => None,
        });
        let logged: Vec<(Seq, usize)> = logged.collect();
        prop_assert!(logged.is_sorted_by(|one, next| one < next), "{logged:?}");
        let mut next = logged.first().map_or(Seq::FIRST, |(seq, _)| *seq);
        for of_exchange in logged.chunk_by(|one, other| one.0 == other.0) {
            let (seq, last) = of_exchange[of_exchange.len() - 1];
            prop_assert_eq!((seq, of_exchange.len()), (next, last + 1), "no message is missing");
            next = seq.next();
        }
        prop_assert!(logged.is_empty() || Some(next) == provenance.made_at, "{next} {provenance:?}");

        for row in rows {
            let [stored, sent] = [&row.stored, &row.sent].map(|side| side.as_ref().map(|side| &side.message));
            let is_right = match row.fate {
                Fate::Sent => sent.is_some() && (stored.is_none() || stored == sent),
                Fate::InPart | Fate::Cleared => sent.is_some() && stored.is_some() && stored != sent,
                Fate::LeftOut(Why::BeforeWindow | Why::Later) => sent.is_none() && stored.is_none(),
                Fate::LeftOut(_) => sent.is_none() && stored.is_some(),
                _ => false,
            };
            prop_assert!(is_right, "{row:?}");
            self.count(&format!("row {:?}", row.fate));
            if matches!(row.subject, Subject::Logged { translated: true, .. }) {
                self.count("subject Logged, translated");
            }
            let subject = format!("{:?}", row.subject);
            self.count(&format!("subject {}", subject.split(' ').next().unwrap_or_default()));
        }
        Ok(())
    }

    fn count(&mut self, kind: &str) {
        *self.figures.entry(kind.to_owned()).or_default() += 1;
    }
}
