//! Turns: the calls that a case makes, and which of them must be accepted.

use tower_chat_history::{
    CallOptions, ExchangeId, Message, Role, TurnInput,
    policy::{OnConflict, OnOpenTurn},
};

use super::{
    super::{
        Ingredient,
        outcome::{Checked, holds},
        words::message,
    },
    Case, Policy, Slow, Talk,
    log::Positions,
};

/// The expected result of beginning a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The call must be accepted, if it fits.
    Accepted,
    /// The call must be refused: it answers a call that is not open, or its id is in the log.
    Refused(&'static str),
    /// Both are right: the documentation does not define it, or other calls interfere.
    Either,
}

/// A call of the case.
#[derive(Clone, Debug)]
pub(super) struct PlannedCall {
    pub(super) engine: usize,
    pub(super) input: Vec<Message>,
    pub(super) transcript: Vec<Message>,
    pub(super) exchange: ExchangeId,
    pub(super) instead: Option<Vec<Message>>,
    pub(super) dont_store: bool,
    pub(super) expected: Expected,
    pub(super) answers: bool,
}

impl PlannedCall {
    fn input(&self, talk: &Talk) -> TurnInput {
        let mut options = CallOptions::new();
        if self.dont_store {
            options = options.dont_store();
        }
        if let Some(instead) = &self.instead {
            options = options.store_instead(instead.clone());
        }
        let input = TurnInput::new(talk.log.id.clone(), self.input.clone());
        let mut input = input.transcript(self.transcript.clone()).exchange(self.exchange.clone()).options(options);
        input.request.model = Some("m".to_owned());
        input
    }
}

impl Case {
    /// Makes some call and usually ends it.
    pub(super) async fn turn(&mut self, talk: usize) -> Checked {
        let planned_call = self.planned_call(talk);
        self.call(talk, planned_call).await
    }

    /// Asks a plain question.
    pub(super) async fn ask(&mut self, talk: usize) -> Checked {
        let planned_call = self.question(talk);
        self.call(talk, planned_call).await
    }

    fn question(&mut self, talk: usize) -> PlannedCall {
        let engine = self.rng.index(self.engines.len());
        let rejects = self.policies[self.engines[engine].1].setup.on_open_turn == OnOpenTurn::Reject;
        let open = self.talks[talk].log.open();
        let expected = match open {
            // An interrupted turn may count as open.
            Some(open) if open.is_empty() => Expected::Accepted,
            _ if rejects => Expected::Either,
            _ => Expected::Accepted,
        };
        PlannedCall {
            engine,
            input: vec![self.words.user()],
            transcript: Vec::new(),
            exchange: self.exchange_id(),
            instead: None,
            dont_store: false,
            expected,
            answers: false,
        }
    }

    fn planned_call(&mut self, talk: usize) -> PlannedCall {
        let open = self.talks[talk].log.open();
        let mut planned_call = self.question(talk);
        let has_open = open.as_ref().is_none_or(|open| !open.is_empty());
        match self.rng.below(12) {
            0..6 if has_open => {
                planned_call.answers = true;
                planned_call.expected = if open.is_some() { Expected::Accepted } else { Expected::Either };
                planned_call.input = open.iter().flatten().rev().map(|id| self.words.result(id)).collect();
                if planned_call.input.is_empty() {
                    planned_call.input = vec![Message::tool("x", "r")];
                }
                if self.rng.once_in(4) {
                    planned_call.input.push(self.words.user());
                }
            }
            6 => {
                planned_call.answers = true;
                planned_call.input = vec![Message::tool("nobody's", "r")];
                planned_call.expected = Expected::Refused("input");
            }
            7 => {
                // A complete tool round by the caller itself.
                let round = message(&serde_json::json!({"role": "assistant", "content": null,
                    "tool_calls": [super::super::words::call("own", "{}")]}));
                planned_call.input.extend([round, Message::tool("own", "r"), self.words.user()]);
            }
            8 if !self.talks[talk].log.entries.is_empty() => {
                let entries = &self.talks[talk].log.entries;
                let known = self.rng.pick(entries);
                if !known.incomplete {
                    planned_call.exchange = known.id.clone();
                    planned_call.expected = Expected::Refused("already_recorded");
                }
            }
            9 => planned_call.dont_store = true,
            10 => planned_call.instead = Some(vec![self.words.user()]),
            _ => {}
        }
        let Talk { log, slow, .. } = &self.talks[talk];
        if planned_call.expected == Expected::Accepted && !slow.is_empty() && self.rng.once_in(3) {
            // Another replica repeats a call that still runs.
            planned_call.exchange = self.rng.pick(slow).planned_call.exchange.clone();
            if log.has(&planned_call.exchange) {
                planned_call.expected = Expected::Refused("already_recorded");
            }
        }
        if planned_call.expected == Expected::Accepted && self.rng.once_in(3) {
            planned_call.transcript = self.transcript(talk);
        }
        planned_call
    }

    /// Returns the messages that a caller resends if it keeps a list of them.
    fn transcript(&mut self, talk: usize) -> Vec<Message> {
        let log = &self.talks[talk].log;
        let from = self.rng.index(log.entries.len() + 1);
        let mut resent = log.transcript(from);
        if self.ingredients.has(Ingredient::TrimmedTranscripts) && self.rng.once_in(2) {
            for one in &mut resent {
                let plain = *one.role() == Role::Assistant && one.tool_calls().is_empty() && !one.is_blank();
                if plain && one.json() == Message::assistant(one.text()).json() {
                    *one = Message::assistant(one.text().trim());
                }
            }
        }
        resent
    }

    pub(super) async fn call(&mut self, talk: usize, planned_call: PlannedCall) -> Checked {
        let (engine, policy) = self.engines[planned_call.engine].clone();
        let input = planned_call.input(&self.talks[talk]);
        let planned_under = self.positions(talk, policy).await?;
        let reported = |random: &Self| random.policies[policy].reported.lock().unwrap().len();
        let before = reported(self);
        let turn = match engine.begin(input).await {
            Ok(turn) => turn,
            Err(error) => {
                self.figures.count("calls refused");
                self.refused(talk, &planned_call, &error)?;
                return self.settle(talk).await;
            }
        };
        let summaries = before..reported(self);
        self.figures.count("turns begun");
        let unexpected = matches!(planned_call.expected, Expected::Refused(_));
        holds(!unexpected, "a repeated or unasked call is refused", || format!("{:?}", planned_call.expected))?;
        self.check_sent(&turn, &planned_call, policy)?;
        let Talk { slow, edits, appends, .. } = &mut self.talks[talk];
        let (edits, appends) = (*edits, *appends);
        let overlaps =
            self.rng.once_in(8) && !matches!(self.policies[policy].setup.on_conflict, OnConflict::Serialize(_));
        if overlaps {
            slow.push(Slow { turn, planned_call, edits, appends, summaries });
            return Ok(());
        }
        let drops = if self.ingredients.has(Ingredient::DroppedQuestions) { 8 } else { 1_000 };
        if self.rng.once_in(drops) {
            drop(turn);
            self.figures.count("turns dropped");
            return self.settle(talk).await;
        }
        let begun = Slow { turn, planned_call, edits, appends, summaries };
        self.commit(talk, begun, Some(planned_under)).await
    }

    pub(super) async fn positions(&mut self, talk: usize, policy: usize) -> Checked<Positions> {
        let Policy { setup, notes, .. } = &self.policies[policy];
        self.talks[talk].log.positions(&self.base, policy, &setup.profile, notes).await
    }

    /// Ends or drops a turn that took long.
    pub(super) async fn finish_slow(&mut self, talk: usize) -> Checked {
        let at = self.rng.index(self.talks[talk].slow.len());
        let slow = self.talks[talk].slow.swap_remove(at);
        if self.rng.once_in(3) {
            drop(slow);
            return self.settle(talk).await;
        }
        self.commit(talk, slow, None).await
    }
}
