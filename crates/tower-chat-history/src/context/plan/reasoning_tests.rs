//! Reasoning that a provider signs: whatever happens to a conversation, the provider refuses no prompt of it.

mod restarts;

use std::collections::BTreeMap;

use proptest::prelude::*;
use test_providers::signing::{Say, SigningDialect, SigningProvider};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{
    Cut, Cuts, Digest, Exchange, ExchangeId, Incarnation, Message, OpenCalls, Origin, Positions, PromptDigests,
    Recalled, Recorded, Revision, Role, Rounds, Seq, Space, Summary, Window,
};

use crate::context::{
    RequestInfo,
    bridge::{NO_REPLY, UNDERSTOOD, constant_reply},
    budget::{CallLimits, PromptTokens, Watermark, Watermarks},
    plan::{
        CallBudget, Conditions, FitBudget, FitError, History, LoadedWindow, Plan, PlanInput, SentPrompt,
        explain::{ExplainInput, NotKnown, explain},
        pinned, plan_prompt, provenance,
    },
};

/// Something that happens to a conversation.
#[derive(Clone, Debug)]
enum Step {
    /// A question, and a reply of these elements. A question while calls are open abandons them.
    Ask(Vec<Reply>),
    /// The results of all open calls, with or without a text, and a reply.
    Answer(Vec<Reply>, bool),
    /// A question that is planned before the exchange of another caller is stored, and stored after it.
    Overtaken(Vec<Reply>),
    /// A turn opens, another caller stores a compaction, and the turn continues.
    CutWhileOpen,
    /// A compaction of another process, with or without a summary.
    Cut(bool),
    /// The log loses its last exchanges.
    Truncate(u64),
    /// The caller changes its instructions.
    Head(u8),
    /// Another provider is called.
    Provider(bool),
    /// The next question has recalled messages.
    Recall,
}

#[derive(Clone, Debug)]
enum Reply {
    Text,
    Thought,
    ThoughtAndText,
    Calls(u8),
    Plan,
    Sealed,
    Compaction,
    Unknown,
}

fn any_reply() -> impl Strategy<Value = Vec<Reply>> {
    let element = prop_oneof![
        1 => Just(Reply::Text),
        3 => Just(Reply::Thought),
        1 => Just(Reply::ThoughtAndText),
        3 => (1u8..4).prop_map(Reply::Calls),
        1 => Just(Reply::Plan),
        1 => Just(Reply::Sealed),
        1 => Just(Reply::Compaction),
        1 => Just(Reply::Unknown),
    ];
    prop::collection::vec(element, 1..5)
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_reply().prop_map(Step::Ask),
        12 => (any_reply(), any::<bool>()).prop_map(|(reply, says)| Step::Answer(reply, says)),
        1 => any_reply().prop_map(Step::Overtaken),
        2 => Just(Step::CutWhileOpen),
        2 => any::<bool>().prop_map(Step::Cut),
        1 => (1u64..4).prop_map(Step::Truncate),
        1 => (0u8..3).prop_map(Step::Head),
        1 => any::<bool>().prop_map(Step::Provider),
        1 => Just(Step::Recall),
    ]
}

struct World {
    log: Vec<Recorded>,
    incarnation: Incarnation,
    stored: Option<Cuts>,
    request: RequestInfo,
    origin: Origin,
    providers: [SigningProvider; 2],
    second: bool,
    limit: u64,
    recalls: bool,
    /// The opening of the current turn, if nothing since then changes what its reasoning was made under.
    calm_since: Option<Seq>,
    /// The number of cuts that were stored since then. The last two are known.
    cuts: u32,
    /// The last prompt, its cut, and its beginning, if nothing but questions and answers happened after it.
    last: Option<(Vec<Message>, Positions, Seq)>,
    /// The prompts of the exchanges in the log.
    prompts: BTreeMap<Seq, Vec<Message>>,
}

fn user(text: &str) -> Message {
    Message::compose(&SigningDialect, &Role::User, text).unwrap()
}

impl World {
    fn new(limit: u64) -> Self {
        Self {
            log: Vec::new(),
            incarnation: Incarnation::random(),
            stored: None,
            request: RequestInfo::new(),
            origin: Origin::unknown().provider("one"),
            providers: ["one", "two"].map(SigningProvider::new),
            second: false,
            limit,
            recalls: false,
            calm_since: None,
            cuts: 0,
            last: None,
            prompts: BTreeMap::new(),
        }
    }

    fn cut(&self) -> Cut {
        self.stored.as_ref().map(|cuts| cuts.cut.clone()).unwrap_or_default()
    }

    fn window(&self, cut: Cut) -> LoadedWindow {
        let exchanges = self.log.iter().filter(|recorded| recorded.seq >= cut.window_start).cloned().collect();
        let replaced = self.stored.as_ref().and_then(|cuts| cuts.replaced.as_deref().cloned());
        let cuts = Some(Cuts::new(cut).replacing(replaced));
        let revision = Revision::new(self.incarnation, self.log.len() as u64);
        LoadedWindow { cuts, ..LoadedWindow::read(Window::new(revision, None, exchanges, false)).unwrap() }
    }

    fn open(&self) -> OpenCalls {
        let mut rounds = Rounds::default();
        self.log.iter().for_each(|recorded| rounds.push_exchange(recorded));
        rounds.open().clone()
    }

    /// Plans a call. Returns `None` if no prompt fits.
    fn plan(&self, input: &[Message]) -> Option<(Plan, bool)> {
        let mut window = self.window(self.cut());
        let cut = pinned(&window, input, &self.request);
        let is_pinned = cut.is_some();
        if let Some(cut) = cut {
            window = self.window(cut);
        }
        let summary = window.cut().and_then(|cut| cut.summary.as_ref());
        let summary = summary.map(|summary| user(&summary.text));
        let cost = |message: &Message| message.bytes() as u64;
        let sum = |messages: &[Message]| messages.iter().map(cost).sum();
        let (context, ratio) = (self.limit, 1.0);
        let limits = CallLimits { context, prompt: context, reserve: 0, least_reply: None, ratio };
        let sizes = PromptTokens { input: sum(input), ..PromptTokens::default() };
        let budget = FitBudget {
            call: CallBudget { limits, sizes },
            watermarks: Watermarks::new(Watermark::Percent(90), Watermark::Percent(50)).unwrap(),
            clear: None,
            trimmer: None,
            stores: !is_pinned,
            cost: &cost,
        };
        let reply_to_summary = summary.as_ref().and_then(|summary| constant_reply(summary, UNDERSTOOD));
        let summary_tokens = summary.iter().chain(&reply_to_summary).map(cost).sum();
        let planned = plan_prompt(&PlanInput {
            summary: summary.as_ref(),
            summary_tokens,
            conditions: self.conditions(),
            budget: Some(budget),
            ..PlanInput::new(History::Window(&window), input)
        });
        match planned {
            Ok(plan) => Some((plan, is_pinned)),
            Err(FitError::DoesNotFit(_)) => None,
            Err(FitError::Input(error)) => panic!("{error}"),
        }
    }

    fn conditions(&self) -> Conditions<'_> {
        Conditions {
            request: &self.request,
            head: self.request.digest(),
            origin: &self.origin,
            ..Conditions::unknown()
        }
    }

    fn call(&mut self, input: Vec<Message>, script: &[Reply], overtaken: bool) -> Result<(), TestCaseError> {
        let Some((planned, is_pinned)) = self.plan(&input) else { return Ok(()) };
        let opens = planned.continues.is_none();
        let recalled = (opens && std::mem::take(&mut self.recalls)).then(|| {
            let mut recalled = Recalled::new("", vec![]);
            recalled.message = user("earlier: ...");
            recalled
        });
        let mut sent = planned.fit.window.clone();
        if let Some(recalled) = &recalled {
            sent.push(recalled.message.clone());
            sent.extend(constant_reply(&recalled.message, UNDERSTOOD));
        }
        sent.extend(input.iter().cloned());
        let under = planned.fit.sent_under;
        let from = planned.fit.recallable_before;
        if let Some((last, ..)) = self.last.take().filter(|(_, last, begin)| (*last, *begin) == (under, from)) {
            prop_assert!(sent.starts_with(&last), "the prompt begins with the one before");
        }
        self.check_kept(&planned, &sent)?;
        if opens {
            self.calm_since = Some(Seq::new(self.log.len() as u64)).filter(|_| !overtaken);
            self.cuts = 0;
        }
        let says: Vec<Say> = script.iter().enumerate().flat_map(|(at, reply)| says(at, reply)).collect();
        let reply = self.providers[usize::from(self.second)].reply(self.request.digest(), &sent, &says);
        let reply = reply.map_err(|refusal| TestCaseError::fail(format!("refused: {refusal:?}")))?;
        let begins_anew = reply.iter().any(|message| message.index().restarts);
        self.last = (!begins_anew).then(|| (sent.clone(), under, from));
        let next = Seq::new(self.log.len() as u64);
        if overtaken {
            self.last = None;
            self.append(Exchange::new(ExchangeId::generate(), [user("another caller's")]));
        }
        let messages: Vec<Message> = input.into_iter().chain(reply.iter().cloned()).collect();
        let prompt = SentPrompt { messages: &sent, under, next: Some(next), tokens: None };
        let mut exchange = Exchange::new(ExchangeId::generate(), messages).with_reply_len(reply.len());
        let provenance = provenance(self.conditions(), prompt);
        (exchange.continues, exchange.recalled, exchange.provenance) = (planned.continues, recalled, Some(provenance));
        self.prompts.insert(Seq::new(self.log.len() as u64), sent);
        self.append(exchange);
        if let Some(cut) = planned.fit.cut.filter(|_| !overtaken) {
            prop_assert!(!is_pinned);
            self.store(cut)?;
        }
        Ok(())
    }

    /// Checks that each prompt can be made again from the log, unless its summary was replaced.
    fn check_explained(&self) -> Result<(), TestCaseError> {
        let stored = self.stored.as_ref().map(|cuts| [Some(&cuts.cut), cuts.replaced.as_deref()]);
        let stored = stored.into_iter().flatten().flatten();
        let summaries: BTreeMap<Seq, Message> =
            stored.filter_map(|cut| cut.summary.as_ref().map(|summary| (cut.covers_to, user(&summary.text)))).collect();
        for (seq, sent) in &self.prompts {
            let explained = &self.log[usize::try_from(seq.get()).unwrap()];
            let provenance = explained.exchange.provenance.as_ref().unwrap();
            let (from, to) = (provenance.cut.window_start, provenance.made_at.unwrap());
            let window = self.log.iter().filter(|recorded| (from..to).contains(&recorded.seq)).cloned();
            let rows = explain(&ExplainInput {
                explained,
                exchanges: &window.collect::<Vec<_>>(),
                translated: &[],
                first: Seq::FIRST,
                summary: summaries.get(&provenance.cut.covers_to),
                compat: Conditions::unknown().compat,
                clear: None,
                cost: &|message| message.bytes() as u64,
            });
            match rows {
                Ok(rows) => {
                    let made = rows.into_iter().filter_map(|row| Some(row.sent?.message));
                    prop_assert_eq!(&made.collect::<Vec<_>>(), sent, "the prompt of {}", seq);
                }
                Err(NotKnown::SummaryGone { .. }) => {}
                Err(reason) => return Err(TestCaseError::fail(format!("the prompt of {seq}: {reason}"))),
            }
        }
        Ok(())
    }

    /// Checks that a prompt hides no exchange that its first compaction does not stand for, and that an open turn keeps
    /// its reasoning.
    fn check_kept(&self, planned: &Plan, sent: &[Message]) -> Result<(), TestCaseError> {
        for compaction in sent.iter().filter(|message| message.index().restarts) {
            let has = |recorded: &&Recorded| recorded.exchange.reply().contains(compaction);
            let made = self.log.iter().filter(has);
            let lacks_none = |recorded: &Recorded| {
                recorded.exchange.provenance.as_ref().is_some_and(|provenance| provenance.made_at == Some(recorded.seq))
            };
            prop_assert!(made.clone().count() == 0 || made.clone().any(lacks_none), "an exchange is hidden");
        }
        let Some(from) = self.calm_since.filter(|_| planned.continues.is_some() && self.cuts <= 1) else {
            return Ok(());
        };
        let turn = self.log.iter().filter(|recorded| recorded.seq >= from);
        for made in turn.flat_map(|recorded| recorded.exchange.reply()).filter(|made| made.bound().to_prefix) {
            prop_assert!(sent.contains(made), "an open turn keeps its reasoning");
        }
        Ok(())
    }

    fn append(&mut self, exchange: Exchange) {
        self.log.push(Recorded::new(Seq::new(self.log.len() as u64), exchange));
    }

    fn store(&mut self, cut: Cut) -> Result<(), TestCaseError> {
        let replaced = self.cut();
        self.cuts += 1;
        let opens = |seq: Seq| self.log[usize::try_from(seq.get()).unwrap()].exchange.opens_turn();
        prop_assert_eq!(cut.check(Some(&replaced), self.log.len() as u64, opens), Ok(()));
        self.stored = Some(Cuts::new(cut).replacing(Some(replaced)));
        Ok(())
    }

    /// Stores a compaction that another process made: its window starts at the last opening.
    fn cut_elsewhere(&mut self, summarizes: bool) -> Result<(), TestCaseError> {
        let Some(opening) = self.log.iter().rfind(|recorded| recorded.exchange.opens_turn()) else { return Ok(()) };
        let mut cut = self.cut();
        cut.window_start = cut.window_start.max(opening.seq);
        cut.rounds_start = cut.rounds_start.max(cut.window_start);
        if summarizes && cut.window_start > cut.covers_to {
            cut.set_summary(Summary::new(format!("of {}", cut.window_start)), cut.window_start);
        }
        self.last = None;
        self.store(cut)
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Ask(script) => self.call(vec![user("and?")], script, false),
            Step::Answer(script, says) => {
                let open = self.open();
                if open.is_empty() {
                    return Ok(());
                }
                let json = SigningDialect::results(open.ids().map(|id| (id, "r")), says.then_some("so?"));
                self.call(vec![Message::in_dialect(&SigningDialect, json).unwrap()], script, false)
            }
            Step::Overtaken(script) => self.call(vec![user("slow")], script, true),
            Step::CutWhileOpen => {
                self.step(&Step::Ask(vec![Reply::Thought, Reply::Calls(2)]))?;
                self.cut_elsewhere(true)?;
                self.step(&Step::Answer(vec![Reply::Thought, Reply::Text], false))
            }
            Step::Cut(summarizes) => self.cut_elsewhere(*summarizes),
            Step::Truncate(exchanges) => {
                let len = (self.log.len() as u64).saturating_sub(*exchanges);
                self.log.truncate(usize::try_from(len).unwrap());
                self.prompts.retain(|seq, _| seq.get() < len);
                self.stored = self.stored.take().and_then(|cuts| cuts.truncated_to(len));
                (self.incarnation, self.last, self.calm_since) = (Incarnation::random(), None, None);
                Ok(())
            }
            Step::Head(head) => {
                self.request.tools = Some(head.to_string());
                (self.last, self.calm_since) = (None, None);
                Ok(())
            }
            Step::Provider(second) => {
                self.second = *second;
                self.origin = Origin::unknown().provider(if *second { "two" } else { "one" });
                (self.last, self.calm_since) = (None, None);
                Ok(())
            }
            Step::Recall => {
                self.recalls = true;
                Ok(())
            }
        }
    }
}

fn says(at: usize, reply: &Reply) -> Vec<Say> {
    match reply {
        Reply::Text => vec![Say::Text("so".into())],
        Reply::Thought => vec![Say::Thought(format!("hm {at}"))],
        Reply::ThoughtAndText => vec![Say::ThoughtAndText("hm".into(), "so".into())],
        // The same id in both spaces.
        Reply::Calls(calls) => {
            (0..*calls).map(|n| Say::Call { space: Space(n % 2), id: format!("c{}", n / 2) }).collect()
        }
        Reply::Plan => vec![Say::Plan("first".into())],
        Reply::Sealed => vec![Say::Sealed("x".into())],
        Reply::Compaction => vec![Say::Compaction("x".into())],
        Reply::Unknown => vec![Say::Unknown],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_000), ..ProptestConfig::default() })]

    /// Invariant: a provider that signs reasoning refuses no prompt. Between compactions, each prompt begins with the
    /// one before. Each prompt can be made again, unless its summary was replaced.
    #[test]
    fn a_provider_that_signs_reasoning_refuses_nothing(
        steps in prop::collection::vec(any_step(), 1..40),
        limit in 300u64..6_000,
    ) {
        let mut world = World::new(limit);
        for step in &steps {
            world.step(step)?;
        }
        world.check_explained()?;
    }
}

/// Returns the conversation after `turns` turns of a question, a tool round and an answer, each with signed reasoning.
fn talk(turns: usize, limit: u64) -> World {
    let mut world = World::new(limit);
    for _ in 0..turns {
        world.step(&Step::Ask(vec![Reply::Thought, Reply::Calls(2)])).unwrap();
        world.step(&Step::Answer(vec![Reply::Thought, Reply::Text], false)).unwrap();
    }
    world
}

/// Returns the prompt of a question, without the question.
fn prompt(world: &World) -> Vec<Message> {
    world.plan(&[user("and?")]).unwrap().0.fit.window
}

#[test]
fn a_prompt_begins_with_the_newest_compaction_of_the_provider() {
    let mut world = talk(3, u64::MAX / 4);
    for _ in 0..2 {
        world.step(&Step::Ask(vec![Reply::Thought, Reply::Compaction, Reply::Thought, Reply::Text])).unwrap();
        let window = prompt(&world);
        assert!(window[0].index().restarts, "{window:?}");
        // The reasoning after the compaction was made under the prompt before it.
        assert_eq!(window.len(), 2, "the compaction and the text");
    }
    for thoughts in 1..4 {
        world.step(&Step::Ask(vec![Reply::Thought, Reply::Text])).unwrap();
        let kept = prompt(&world).iter().filter(|message| message.bound().to_prefix).count();
        assert_eq!(kept, thoughts, "reasoning after the compaction is kept");
    }
    assert_eq!((prompt(&world).len(), world.log.len()), (2 + 3 * 3, 11), "the log has everything");
}

#[test]
fn another_provider_gets_the_messages_before_a_compaction() {
    let mut world = talk(1, u64::MAX / 4);
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    assert_eq!(prompt(&world).len(), 2);
    world.step(&Step::Provider(true)).unwrap();
    let window = prompt(&world);
    assert!(!window.iter().any(|message| message.bound().can_be_removed()));
    assert_eq!(window.len(), 1 + 2 + 1 + 1 + 1 + 1, "the question, the calls, the results, both texts, the question");
    world.step(&Step::Provider(false)).unwrap();
    assert_eq!(prompt(&world).len(), 2);
}

#[test]
fn a_compaction_between_calls_of_a_reply_keeps_the_calls_and_stays_without_them() {
    let mut world = talk(1, u64::MAX / 4);
    world.step(&Step::Ask(vec![Reply::Calls(1), Reply::Compaction, Reply::Text])).unwrap();
    world.step(&Step::Answer(vec![Reply::Text], false)).unwrap();
    let window = prompt(&world);
    assert!(!window[0].tool_calls().is_empty() && window[1].index().restarts);
    assert_eq!(window.len(), 5, "the call, the compaction, the text, the result, the text");
    let mut cut = world.cut();
    cut.rounds_start = Seq::new(world.log.len() as u64);
    world.store(cut).unwrap();
    let window = prompt(&world);
    assert!(window[0].index().restarts && window.len() == 2, "the round is left out: {window:?}");
}

#[test]
fn the_start_after_a_compaction_does_not_depend_on_the_rounds_that_are_left_out() {
    let mut world = talk(1, u64::MAX / 4);
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Calls(1), Reply::Compaction])).unwrap();
    world.step(&Step::Ask(vec![Reply::Text])).unwrap();
    let with_round = prompt(&world);
    let mut cut = world.cut();
    cut.rounds_start = Seq::new(world.log.len() as u64);
    world.store(cut).unwrap();
    let without_round = prompt(&world);
    assert_eq!(
        (with_round.len(), without_round.len()),
        (7, 4),
        "the call, its result and the reply to it are left out"
    );
    assert!(without_round.iter().take(2).all(|message| message.index().restarts), "{without_round:?}");
}

#[test]
fn a_compaction_of_the_provider_stands_for_the_summary() {
    let mut world = talk(2, u64::MAX / 4);
    world.cut_elsewhere(true).unwrap();
    assert_eq!(prompt(&world)[0].text(), "of 2");
    world.step(&Step::Ask(vec![Reply::Compaction, Reply::Text])).unwrap();
    let (plan, _) = world.plan(&[user("and?")]).unwrap();
    assert!(plan.fit.window[0].index().restarts && plan.fit.sent_under.covers_to == Seq::FIRST);
    assert_eq!(plan.fit.sent.first(), Some(&Seq::new(4)));
    assert_eq!(plan.fit.recallable_before, Seq::new(5), "everything before it can be recalled");
}

#[test]
fn all_reasoning_is_kept_if_nothing_changes() {
    let world = talk(10, u64::MAX / 4);
    let counts = world.providers[0].counts();
    assert_eq!((counts.missing, world.log.len()), (0, 20));
    assert!(counts.sent > 100);
}

#[test]
fn a_changed_head_leaves_out_reasoning_until_it_returns() {
    let mut world = talk(3, u64::MAX / 4);
    world.request.tools = Some("another".into());
    let (plan, _) = world.plan(&[user("and?")]).unwrap();
    assert_eq!((plan.fit.reasoning.left_out, plan.fit.reasoning.head_changed), (6, true));
    world.request.tools = None;
    let (plan, _) = world.plan(&[user("and?")]).unwrap();
    assert_eq!((plan.fit.reasoning.left_out, plan.fit.reasoning.head_changed), (0, false));
}

#[test]
fn an_open_turn_continues_under_the_cut_that_it_began_with() {
    let mut world = talk(4, u64::MAX / 4);
    world.step(&Step::Ask(vec![Reply::Thought, Reply::Calls(1)])).unwrap();
    let before = world.providers[0].counts();
    world.cut_elsewhere(true).unwrap();
    world.step(&Step::Answer(vec![Reply::Thought, Reply::Text], false)).unwrap();
    assert_eq!(world.providers[0].counts().missing, before.missing, "the turn keeps its reasoning");
    let (plan, is_pinned) = world.plan(&[user("and?")]).unwrap();
    assert!(!is_pinned && plan.fit.window.len() < 8, "the next turn has the new cut");
}

#[test]
fn reasoning_that_is_left_out_for_one_call_only_is_reported_as_such() {
    let world = talk(2, 3_000);
    let mut left_out = 0;
    for bytes in (0..12_000).step_by(100) {
        let Some((plan, _)) = world.plan(&[user(&"x".repeat(bytes))]) else { continue };
        if plan.fit.reasoning.left_out > 0 && plan.fit.cut.is_none() {
            assert!(plan.fit.for_this_call, "an input of {bytes} bytes");
            left_out += 1;
        }
    }
    assert!(left_out > 0);
}

#[test]
fn a_turn_with_bound_reasoning_that_is_too_large_is_an_error_that_says_so() {
    let mut world = World::new(900);
    world.step(&Step::Ask(vec![Reply::Thought, Reply::Calls(1)])).unwrap();
    for _ in 0..20 {
        world.step(&Step::Answer(vec![Reply::Thought, Reply::Calls(1)], false)).unwrap();
    }
    let json = SigningDialect::results(world.open().ids().map(|id| (id, "r")), None);
    let input = [Message::in_dialect(&SigningDialect, json).unwrap()];
    assert!(world.plan(&input).is_none());
    assert_eq!(world.request.digest(), RequestInfo::new().digest());
    assert_ne!(Digest::default(), RequestInfo::new().digest());
}

#[test]
fn the_constant_reply_in_place_of_a_round_does_not_leave_with_reasoning() {
    let mut world = World::new(300);
    world.step(&Step::Ask(vec![Reply::Calls(1), Reply::Thought])).unwrap();
    let calls = vec![Reply::Calls(2), Reply::Text, Reply::Thought, Reply::Calls(1)];
    world.step(&Step::Answer(calls, true)).unwrap();
    for step in [Step::Ask(vec![Reply::Text]), Step::Ask(vec![Reply::Text]), Step::Truncate(2)] {
        world.step(&step).unwrap();
    }
    world.step(&Step::Overtaken(vec![Reply::Calls(1)])).unwrap();
    let sent = world.prompts.last_key_value().unwrap().1;
    let texts: Vec<_> = sent.iter().map(Message::text).collect();
    assert_eq!(texts, ["and?", NO_REPLY, "so?", NO_REPLY, "slow"]);
    world.check_explained().unwrap();
}

#[test]
fn a_constant_reply_to_results_leaves_with_their_round() {
    let mut world = World::new(300);
    world.step(&Step::Ask(vec![Reply::Calls(2), Reply::Compaction])).unwrap();
    world.step(&Step::Answer(vec![Reply::Thought], false)).unwrap();
    world.step(&Step::Ask(vec![Reply::Thought, Reply::Unknown, Reply::Thought])).unwrap();
    let sent = world.prompts.last_key_value().unwrap().1;
    assert!(sent[0].index().restarts);
    assert_eq!(sent[1..], [user("and?")]);
    world.step(&Step::Ask(vec![Reply::Text])).unwrap();
    world.check_explained().unwrap();
}
