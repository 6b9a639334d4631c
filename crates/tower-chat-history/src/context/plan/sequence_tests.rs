//! Properties of the successive prompts of one conversation.

use proptest::{prelude::*, sample::Index};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_core::{
    Citation, Cut, Cuts, Exchange, ExchangeId, Incarnation, LoadLimit, Message, Recalled, Recorded, Revision, Seq,
    Window, backend::WindowScan,
};

use super::{
    FitError, LoadedWindow, Plan, Recallable,
    fit_tests::{Policy, Rule, any_policy, any_turn, text},
};
use crate::context::{
    bridge::{UNDERSTOOD, constant_reply},
    view::{
        View,
        tests::{breaks_the_rules, calls},
    },
};

/// The reply of the model.
#[derive(Clone, Debug)]
enum Reply {
    Text(usize),
    Blank,
    Calls(Vec<&'static str>),
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Stored,
    /// The reply breaks off, and its text is stored.
    BrokenOff,
    /// No exchange is stored. The compaction that was planned for the call may be stored, with a summary.
    Dropped {
        compacted: bool,
    },
}

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, Reply, Fate),
    /// A call with the results of the open calls, or with those of all calls of the round, as from a caller that
    /// resends its list.
    Answer {
        all: bool,
        question: bool,
        reply: Reply,
        fate: Fate,
    },
    /// Stores this number of results without a call of the model.
    Store(Index),
    /// A call without input, if only the reply is missing.
    WithoutInput(Reply, Fate),
    /// Removes the end of the log.
    Truncate(Index),
}

fn any_step() -> impl Strategy<Value = Step> {
    let ids = || prop::sample::subsequence(vec!["x", "y", "z"], 1..=3);
    let reply = move || {
        prop_oneof![
            3 => (1usize..40).prop_map(Reply::Text),
            1 => Just(Reply::Blank),
            5 => ids().prop_map(Reply::Calls),
        ]
    };
    let fate = || {
        prop_oneof![
            4 => Just(Fate::Stored),
            2 => Just(Fate::BrokenOff),
            2 => any::<bool>().prop_map(|compacted| Fate::Dropped { compacted }),
        ]
    };
    prop_oneof![
        4 => (1usize..60, reply(), fate()).prop_map(|(size, reply, fate)| Step::Ask(size, reply, fate)),
        6 => (any::<bool>(), prop::bool::weighted(0.2), reply(), fate())
            .prop_map(|(all, question, reply, fate)| Step::Answer { all, question, reply, fate }),
        3 => any::<Index>().prop_map(Step::Store),
        3 => (reply(), fate()).prop_map(|(reply, fate)| Step::WithoutInput(reply, fate)),
        1 => any::<Index>().prop_map(Step::Truncate),
    ]
}

/// Returns the result of a call. It is the same each time it is sent.
fn result(asked: usize, id: &str) -> Message {
    Message::tool(id, text(1 + (asked * 7 + id.len() * 13 + usize::from(id.as_bytes()[0])) % 40))
}

/// A conversation, with its log as a store keeps it.
struct Conversation {
    policy: Policy,
    limit: LoadLimit,
    /// The tokens to reserve for recalled messages, if there are any.
    recall_reserve: Option<u64>,
    log: Vec<Recorded>,
    stored: Option<Cut>,
    /// The last prompt whose exchange was stored, and the cut under which it was planned.
    before: Option<(Cut, Vec<Message>)>,
    compared: usize,
}

impl Conversation {
    fn view(&self) -> View {
        let mut view = View::default();
        self.log.iter().for_each(|recorded| view.push_exchange(recorded));
        view
    }

    /// Returns the message with the newest calls if only results follow it: its index in the view, and the ids of its
    /// calls.
    fn round(&self) -> Option<(usize, Vec<String>)> {
        let view = self.view();
        let asked = view.messages().iter().rposition(|message| !message.is_tool_result())?;
        let calls = view.messages()[asked].tool_calls();
        (!calls.is_empty()).then(|| (asked, calls.iter().map(|call| call.id().to_owned()).collect()))
    }

    fn append(&mut self, exchange: Exchange) {
        self.log.push(Recorded::new(Seq::new(self.log.len() as u64), exchange));
    }

    fn window(&self) -> LoadedWindow {
        let from = self.stored.as_ref().map_or(Seq::FIRST, |cut| cut.window_start);
        let mut scan = WindowScan::new(self.limit);
        for recorded in self.log.iter().rev().take_while(|recorded| recorded.seq >= from) {
            let Recorded { seq, exchange, .. } = recorded;
            let messages = exchange.messages.len();
            let offered = scan.offer(*seq, exchange.opens_turn(), messages, exchange.bytes(), exchange.media_bytes());
            if offered.is_break() {
                break;
            }
        }
        let start = scan.start().unwrap_or(from);
        let exchanges = self.log.iter().filter(|recorded| recorded.seq >= start).cloned().collect();
        let revision = Revision::new(Incarnation::random(), self.log.len() as u64);
        let window = Window::new(revision, None, exchanges, scan.is_truncated());
        LoadedWindow { cuts: self.stored.clone().map(Cuts::new), ..LoadedWindow::read(window).unwrap() }
    }

    fn store(&mut self, cut: Cut) -> Result<(), TestCaseError> {
        let opens_turn = |seq: Seq| self.log.iter().any(|found| found.seq == seq && found.exchange.opens_turn());
        prop_assert_eq!(cut.check(self.stored.as_ref(), self.log.len() as u64, opens_turn), Ok(()));
        self.stored = Some(cut);
        Ok(())
    }

    fn call(&mut self, input: Vec<Message>, reply: &Reply, fate: Fate) -> Result<(), TestCaseError> {
        let plan = match self.policy.plan(&self.window(), self.limit, &input, true, self.recall_reserve) {
            Ok(plan) => plan,
            Err(FitError::DoesNotFit(_)) => return Ok(()),
            Err(FitError::Input(error)) => return Err(TestCaseError::fail(format!("refused: {error}"))),
        };
        let mut prompt = plan.fit.window.clone();
        let recalled = self.recalled(&plan)?;
        if let Some(recalled) = &recalled {
            prompt.push(recalled.message.clone());
            prompt.extend(constant_reply(&recalled.message, UNDERSTOOD));
        }
        // A repeated call may have another input.
        let before_input = prompt.len();
        prompt.extend(input.iter().cloned());
        prop_assert_eq!(breaks_the_rules(&prompt), None);
        if let Fate::Dropped { compacted } = fate {
            let stored = |cut: &Cut| cut.window_start.get() < self.log.len() as u64;
            if let Some(cut) = plan.fit.cut.filter(|cut| compacted && stored(cut)) {
                self.store(cut)?;
            }
            return Ok(());
        }
        let cut = plan.fit.cut.clone().or(self.stored.clone()).unwrap_or_default();
        if let Some((_, before)) = self.before.take().filter(|(under, _)| *under == cut && !plan.fit.for_this_call) {
            prop_assert!(prompt.starts_with(&before), "{:?}: {:?} is no prefix of {:?}", cut, before, prompt);
            self.compared += 1;
        }
        let mut messages = input;
        messages.push(match (reply, fate) {
            (Reply::Text(size), Fate::Stored) => Message::assistant(text(*size)),
            (Reply::Blank, Fate::Stored) => Message::assistant(""),
            (Reply::Calls(ids), Fate::Stored) => calls(ids),
            _ => Message::assistant("Let me"),
        });
        let mut exchange = Exchange::new(ExchangeId::generate(), messages);
        (exchange.continues, exchange.incomplete) = (plan.continues, fate == Fate::BrokenOff);
        exchange.recalled = recalled;
        self.append(exchange);
        if let Some(cut) = plan.fit.cut {
            self.store(cut)?;
        }
        // If the reply is missing, other results for the same calls may be sent next. They are not part of the prefix.
        if (fate == Fate::BrokenOff || matches!(reply, Reply::Blank)) && plan.continues.is_some() {
            prompt.truncate(before_input);
            let results = prompt.iter().rev().take_while(|message| message.is_tool_result()).count();
            prompt.truncate(prompt.len() - results);
        }
        self.before = Some((cut, prompt)).filter(|_| !plan.fit.for_this_call);
        Ok(())
    }

    /// Returns the messages that are recalled for a call, if the plan has room for them. They cite the exchange before
    /// the prompt's start.
    fn recalled(&self, plan: &Plan) -> Result<Option<Recalled>, TestCaseError> {
        let Some(Recallable { before, room }) = plan.recallable else { return Ok(None) };
        let room = room.unwrap_or_default();
        prop_assert_eq!(plan.continues, None, "only an input that opens a turn gets recalled messages");
        let cited = before.get().checked_sub(1);
        prop_assert!(cited.is_some(), "there is something before the prompt's start");
        let sent = plan.fit.window.iter().map(|message| self.policy.cost(message)).sum::<u64>();
        prop_assert_eq!(sent, plan.fit.tokens);
        let budget = plan.budget.unwrap();
        let rest = budget.sizes.total() - budget.sizes.recalled;
        let limit = budget.limit();
        prop_assert!(room == 0 || rest + plan.fit.tokens + room <= limit, "{} + {} + {} > {}", rest, sent, room, limit);
        let citations: Vec<Citation> = cited.map(|seq| Citation::new(Seq::new(seq), 0..1)).into_iter().collect();
        let sizes = (0..self.recall_reserve.unwrap_or_default()).rev();
        let mut blocks = sizes.map(|size| Recalled::new(format!("R{}", text(size as usize)), citations.clone()));
        Ok(blocks.find(|recalled| self.policy.cost(&recalled.message) <= room))
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let open: Vec<String> = self.view().open().ids().map(|id| id.as_str().to_owned()).collect();
        match step {
            Step::Ask(size, reply, fate) => self.call(vec![Message::user(text(*size))], reply, *fate)?,
            Step::Answer { all, question, reply, fate } => {
                let Some((asked, ids)) = self.round() else { return Ok(()) };
                if open.is_empty() && !all {
                    return Ok(());
                }
                let ids = if *all { ids } else { open };
                let mut input: Vec<Message> = ids.iter().map(|id| result(asked, id)).collect();
                input.extend(question.then(|| Message::user("and?")));
                self.call(input.clone(), reply, *fate)?;
                if *fate == Fate::BrokenOff {
                    // The same call is accepted again.
                    self.call(input, reply, Fate::Dropped { compacted: false })?;
                }
            }
            Step::Store(many) => {
                let Some((asked, _)) = self.round().filter(|_| !open.is_empty()) else { return Ok(()) };
                let results = open.iter().take(1 + many.index(open.len())).map(|id| result(asked, id));
                let mut exchange = Exchange::new(ExchangeId::generate(), results);
                exchange.continues = self
                    .policy
                    .plan(
                        &self.window(),
                        self.limit,
                        &open.iter().map(|id| result(asked, id)).collect::<Vec<_>>(),
                        false,
                        None,
                    )
                    .ok()
                    .and_then(|plan| plan.continues);
                if exchange.continues.is_some() {
                    self.append(exchange);
                }
            }
            Step::WithoutInput(reply, fate) => {
                if self.view().awaits_reply() {
                    self.call(vec![], reply, *fate)?;
                    if *fate == Fate::BrokenOff {
                        self.call(vec![], reply, Fate::Dropped { compacted: false })?;
                    }
                }
            }
            Step::Truncate(at) => {
                let len = at.index(self.log.len() + 1);
                self.log.truncate(len);
                self.stored = self.stored.take().and_then(|cut| cut.truncated_to(len as u64));
                self.before = None;
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(3_000)))]

    /// Invariants 2, 10 and 13, and that open calls can be answered, in any conversation: with imported and recalled
    /// messages, calls that fail, replies that break off, calls that are repeated, results that are stored one by one,
    /// and a log whose end is removed.
    #[test]
    fn each_prompt_begins_with_the_one_before_and_open_calls_can_be_answered(
        imported in prop::collection::vec(any_turn(), 0..4),
        limit in prop_oneof![2 => Just(1_000), 1 => 4usize..33],
        policy in any_policy(),
        recall_reserve in prop::option::of(1u64..60),
        steps in prop::collection::vec(any_step(), 1..24),
    ) {
        let policy = policy.with_rule(Rule::Newest);
        let limit = LoadLimit::new(limit, 1 << 20).unwrap();
        let log = Recorded::log(imported.concat());
        let mut conversation =
            Conversation { policy, limit, recall_reserve, log, stored: None, before: None, compared: 0 };
        for step in &steps {
            conversation.step(step)?;
        }
    }
}
