//! Invariants 2, 3, 10 and 13 of random conversations.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
};

use proptest::prelude::*;
use tests::check;
use tokio::{sync::oneshot, task::JoinHandle};
use tower_chat_history::{BoxError, ConversationId, HistoryStoreExt as _, Message, store::Profile, view::View};

use super::{
    asked::{Asked, DOORS, Door, Mode, tool},
    checks::{Made, Positions, could_not_fit, prefixes_are_kept},
    model::Answer,
    policies::{Policy, any_policy},
    stack::{Stack, does_not_fit},
    steps::{Act, Step, any_logged, any_step, calls, text},
};

/// A call whose reply has not come.
struct Slow {
    call: JoinHandle<Result<(), BoxError>>,
    release: oneshot::Sender<()>,
    made: Made,
    /// The place of its prompt among all.
    number: usize,
}

struct Talk {
    stack: Stack,
    id: ConversationId,
    doors: Vec<Door>,
    profiles: [Profile; 2],
    policies: [Policy; 2],
    slow: VecDeque<Slow>,
    /// The calls that are done, in the order in which they began, and under which compaction each of them was made.
    done: BTreeMap<usize, (Made, Option<Positions>)>,
    seen: Seen,
}

/// What came up in all conversations.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    calls: usize,
    refused: usize,
    compacted: usize,
    for_one_call: usize,
    shrunk: usize,
    /// Prompts that began with one that was sent before.
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
    async fn begin(policies: [Policy; 2], log: Vec<Message>, doors: Vec<Door>) -> Self {
        let profiles = ["one", "two"].map(|name| Profile::new(name).unwrap());
        let stack = Stack::of(policies.iter().zip(&profiles).map(|(policy, profile)| policy.options(profile)));
        let id = ConversationId::new(["talk"]).unwrap();
        stack.store.conversation(&id).import(log).await.unwrap();
        Self {
            stack,
            id,
            doors,
            profiles,
            policies,
            slow: VecDeque::new(),
            done: BTreeMap::new(),
            seen: Seen::default(),
        }
    }

    /// What the caller sends.
    fn asked(&self, step: &Step, door: Door, log: &[Message]) -> Asked {
        let mut view = View::default();
        view.extend(log);
        let mut open: Vec<&str> = view.open().ids().collect();
        open.reverse();
        let mut input: Vec<Message> = open.iter().map(|id| Message::tool(*id, text(step.size))).collect();
        let supersedes = match step.act {
            Act::Ask | Act::AskWithRound => !std::mem::take(&mut input).is_empty(),
            Act::AskSlowly | Act::Answer { .. } | Act::AnswerSlowly | Act::Finish => false,
        };
        if step.act == Act::AskWithRound && door.mode() == Mode::New {
            input.extend([Message::user("e"), calls(&["own"], 0), Message::tool("own", text(step.size))]);
        }
        if input.is_empty() || step.act == (Act::Answer { question: true }) || step.act == Act::AskWithRound {
            input.push(Message::user(text(step.size)));
        }
        let mut asked = Asked::new(self.id.clone(), input);
        if step.head > 0 {
            asked.head.push(Message::system(text(step.head)));
        }
        // Who resends a list that does not end with a reply would send its end as new.
        if door.mode() == Mode::Transcript && log.last().is_some_and(|last| last.role().as_str() == "assistant") {
            asked.resent = log[step.from.index(log.len() + 1)..].to_vec();
        }
        asked.limit = step.limit;
        asked.tools = step.tools.then(|| tool("f", &text(9)));
        // What is not stored leaves the calls open that its prompt has closed.
        asked.dont_store = step.dont_store && !supersedes;
        asked
    }

    async fn step(&mut self, step: Step) {
        if step.act == Act::Finish {
            return self.finish_oldest().await;
        }
        let log = self.stack.log(&self.id).await;
        let (profile, door) = (step.profile, *step.door.get(&self.doors));
        let asked = self.asked(&step, door, &log);
        let base = self.stack.compaction(&self.id, &self.profiles[profile]).await;
        let (release, held) = oneshot::channel();
        let mut answer = Answer::new(step.say.message());
        answer.held = Some(held);
        // By the caller's count of what it sends: the window's is not known yet. The model only has to say something.
        let counter = self.policies[profile].counter(door);
        answer.prompt_tokens = step.charged.map(|percent| {
            let own: u32 = asked.head.iter().chain(&log).chain(&asked.input).map(|m| counter.count_message(m)).sum();
            u64::from(own) * percent / 100
        });
        self.stack.model.answers(answer);
        let reached = self.stack.model.calls() + 1;
        let mut call = tokio::spawn(self.stack.call(profile, door, &asked));
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
            could_not_fit(&does_not_fit(&ended.unwrap_err()), door, &asked, &self.policies[profile], &log);
            return;
        }
        let received = self.stack.model.last();
        let made = Made { profile, door, asked, received, base };
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

    /// The model answers, and the exchange is stored.
    async fn finish(&mut self, Slow { call, release, made, number }: Slow) {
        let (policy, profile) = (&self.policies[made.profile], &self.profiles[made.profile]);
        let before = self.stack.compaction(&self.id, profile).await;
        drop(release);
        call.await.unwrap().unwrap();
        let report = self.stack.report(&made.asked.exchange).unwrap();
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
async fn invariants_2_3_10_and_13_hold_of_any_conversation_within_any_budget() {
    let log = prop::collection::vec(any_logged(), 0..14);
    let steps = prop::collection::vec(any_step(), 1..24);
    let seen = Mutex::new(Seen::default());
    let doors = prop::sample::subsequence(DOORS.to_vec(), 1..=3);
    let cases = ([any_policy(), any_policy()], log, doors, steps);
    check(512, cases, async |(policies, log, doors, steps): ([Policy; 2], Vec<_>, Vec<_>, Vec<_>)| {
        let mut talk = Talk::begin(policies, log, doors).await;
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
