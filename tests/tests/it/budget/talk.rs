//! Invariants 2, 3, 10 and 13 in random conversations.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
};

use proptest::prelude::*;
use tests::check;
use tokio::{sync::oneshot, task::JoinHandle};
use tower_chat_history::{
    BoxError, ConversationId, HistoryStoreExt as _, Message, dialect::CallId, store::Profile, view::View,
};

use super::{
    call_spec::{ALL_INTEGRATIONS, CallSpec, Integration, Mode, tool},
    checks::{Made, Positions, could_not_fit, prefixes_are_kept},
    model::Answer,
    policies::{Policy, any_policy},
    stack::{Stack, does_not_fit},
    steps::{Act, Step, any_logged, any_step, calls, text},
};

/// A call whose reply is held.
struct Slow {
    call: JoinHandle<Result<(), BoxError>>,
    release: oneshot::Sender<()>,
    made: Made,
    /// The number of its prompt.
    number: usize,
}

struct Talk {
    stack: Stack,
    id: ConversationId,
    integrations: Vec<Integration>,
    profiles: [Profile; 2],
    policies: [Policy; 2],
    slow: VecDeque<Slow>,
    /// The calls that are done, by the number of their prompt, with the compaction for which each prompt was
    /// made.
    done: BTreeMap<usize, (Made, Option<Positions>)>,
    seen: Seen,
}

/// Counts over all conversations.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    calls: usize,
    refused: usize,
    compacted: usize,
    for_one_call: usize,
    shrunk: usize,
    /// Prompts that begin with an earlier prompt.
    prefixes: usize,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.compacted += other.compacted;
        self.for_one_call += other.for_one_call;
        self.shrunk += other.shrunk;
        self.prefixes += other.prefixes;
    }
}

impl Talk {
    async fn begin(policies: [Policy; 2], log: Vec<Message>, integrations: Vec<Integration>) -> Self {
        let profiles = ["one", "two"].map(|name| Profile::new(name).unwrap());
        let stack = Stack::of(policies.iter().zip(&profiles).map(|(policy, profile)| policy.options(profile)));
        let id = ConversationId::new(["talk"]).unwrap();
        stack.store.conversation(&id).import(log).await.unwrap();
        Self {
            stack,
            id,
            integrations,
            profiles,
            policies,
            slow: VecDeque::new(),
            done: BTreeMap::new(),
            seen: Seen::default(),
        }
    }

    /// Returns the caller's part of a step.
    fn spec(&self, step: &Step, integration: Integration, log: &[Message]) -> CallSpec {
        let mut view = View::default();
        view.extend(log);
        let mut open: Vec<&str> = view.open().ids().map(CallId::as_str).collect();
        open.reverse();
        let mut input: Vec<Message> = open.iter().map(|id| Message::tool(*id, text(step.size))).collect();
        let supersedes = match step.act {
            Act::Ask | Act::AskWithRound => !std::mem::take(&mut input).is_empty(),
            Act::AskSlowly | Act::Answer { .. } | Act::AnswerSlowly | Act::Finish => false,
        };
        if step.act == Act::AskWithRound && integration.mode() == Mode::New {
            input.extend([Message::user("e"), calls(&["own"], 0), Message::tool("own", text(step.size))]);
        }
        if input.is_empty() || step.act == (Act::Answer { question: true }) || step.act == Act::AskWithRound {
            input.push(Message::user(text(step.size)));
        }
        let mut spec = CallSpec::new(self.id.clone(), input);
        if step.head > 0 {
            spec.head.push(Message::system(text(step.head)));
        }
        // If a caller resends a list that does not end with a reply, its end counts as new input.
        if integration.mode() == Mode::Transcript && log.last().is_some_and(|last| last.role().as_str() == "assistant")
        {
            spec.resent = log[step.from.index(log.len() + 1)..].to_vec();
        }
        spec.limit = step.limit;
        spec.tools = step.tools.then(|| tool("f", &text(9)));
        // An exchange that is not stored does not close the calls that its prompt closes.
        spec.dont_store = step.dont_store && !supersedes;
        spec
    }

    async fn step(&mut self, step: Step) {
        if step.act == Act::Finish {
            return self.finish_oldest().await;
        }
        let log = self.stack.log(&self.id).await;
        let (profile, integration) = (step.profile, *step.integration.get(&self.integrations));
        let spec = self.spec(&step, integration, &log);
        let base = self.stack.compaction(&self.id, &self.profiles[profile]).await;
        let (release, held) = oneshot::channel();
        let mut answer = Answer::new(step.say.message());
        answer.held = Some(held);
        // An estimate from the messages of the caller: the window is not known yet. Any number would do.
        let counter = self.policies[profile].counter(integration);
        answer.prompt_tokens = step.charged.map(|percent| {
            let own: u32 = spec.head.iter().chain(&log).chain(&spec.input).map(|m| counter.count_message(m)).sum();
            u64::from(own) * percent / 100
        });
        self.stack.model.answers(answer);
        let reached = self.stack.model.calls() + 1;
        let mut call = tokio::spawn(self.stack.call(profile, integration, &spec));
        let ended = loop {
            if self.stack.model.calls() == reached {
                break None;
            }
            tokio::select! {
                biased;
                ended = &mut call => break Some(ended.unwrap()),
                () = tokio::task::yield_now() => {}
            }
        };
        if let Some(ended) = ended {
            assert_eq!(self.stack.model.calls(), reached - 1, "the model was not called");
            self.stack.model.forget_answers();
            self.seen.refused += 1;
            could_not_fit(&does_not_fit(&ended.unwrap_err()), integration, &spec, &self.policies[profile], &log);
            return;
        }
        let received = self.stack.model.last();
        let made = Made { profile, integration, spec, received, base };
        let number = self.done.len() + self.slow.len();
        let call = Slow { call, release, made, number };
        match step.act {
            Act::AskSlowly | Act::AnswerSlowly => self.slow.push_back(call),
            _ => self.finish(call).await,
        }
    }

    async fn finish_oldest(&mut self) {
        if let Some(call) = self.slow.pop_front() {
            self.finish(call).await;
        }
    }

    /// Releases the reply, and waits until the exchange is stored.
    async fn finish(&mut self, Slow { call, release, made, number }: Slow) {
        let (policy, profile) = (&self.policies[made.profile], &self.profiles[made.profile]);
        let before = self.stack.compaction(&self.id, profile).await;
        drop(release);
        call.await.unwrap().unwrap();
        let report = self.stack.report(&made.spec.exchange).unwrap();
        made.is_valid_and_fits(policy, &report);
        let tokens = report.tokens.unwrap();
        self.seen.calls += 1;
        self.seen.compacted += usize::from(tokens.compacted);
        self.seen.for_one_call += usize::from(tokens.for_this_call);
        self.seen.shrunk += usize::from(tokens.reply_limit.is_some());
        let after = self.stack.compaction(&self.id, profile).await;
        let compacted = made.compacted(&report, before.as_ref(), after.as_ref());
        self.done.insert(number, (made, compacted));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariants_2_3_10_and_13_hold_in_any_conversation_within_any_budget() {
    let log = prop::collection::vec(any_logged(), 0..14);
    let steps = prop::collection::vec(any_step(), 1..24);
    let seen = Mutex::new(Seen::default());
    let integrations = prop::sample::subsequence(ALL_INTEGRATIONS.to_vec(), 1..=3);
    let cases = ([any_policy(), any_policy()], log, integrations, steps);
    check(256, cases, async |(policies, log, integrations, steps): ([Policy; 2], Vec<_>, Vec<_>, Vec<_>)| {
        let mut talk = Talk::begin(policies, log, integrations).await;
        for step in steps {
            talk.step(step).await;
        }
        while !talk.slow.is_empty() {
            talk.finish_oldest().await;
        }
        talk.seen.prefixes = prefixes_are_kept(talk.done.values().map(|(made, compacted)| (made, *compacted)));
        seen.lock().unwrap().add(talk.seen);
    });
    let Seen { calls, refused, compacted, for_one_call, shrunk, prefixes } = *seen.lock().unwrap();
    let often = [calls / 3, refused, compacted, for_one_call, shrunk, prefixes];
    assert!(calls < 512 || often.iter().all(|often| often * 50 > calls), "{often:?} of {calls}");
}
