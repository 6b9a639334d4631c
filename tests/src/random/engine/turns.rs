//! Turns: what is asked, what has to be accepted, what is sent, and what is stored.

use std::ops::Range;

use tower_chat_history::{
    CallOptions, ExchangeId, HistoryError, Message, Reply, Role, SaveError, StoreError, Turn, TurnInput, TurnReport,
    policy::{OnConflict, OnOpenTurn},
    report::Outcome,
    store::Usage,
    tokens::{ByteEstimate, REPLY_PRIMING, TokenCounter as _},
};

use super::{
    super::{
        Ingredient,
        outcome::{Checked, Violation, holds},
        rules::{check_prompt, marks, shorten},
        words::message,
    },
    Case, Policy, Slow, Talk,
    log::{Entry, Log, Positions},
    prefix::{self, Sent},
};

/// What becomes of a call before the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// It has to be accepted, if it fits.
    Accepted,
    /// It has to be refused: it answers what is not open, or its id is in the log.
    Refused(&'static str),
    /// The documentation leaves it open, or other calls are in its way.
    Either,
}

/// A call as it is made.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    engine: usize,
    input: Vec<Message>,
    transcript: Vec<Message>,
    exchange: ExchangeId,
    instead: Option<Vec<Message>>,
    dont_store: bool,
    expected: Expected,
    answers: bool,
}

impl Asked {
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
    /// Some call, and mostly its end.
    pub(super) async fn turn(&mut self, talk: usize) -> Checked {
        let asked = self.asked(talk);
        self.call(talk, asked).await
    }

    /// A plain question.
    pub(super) async fn ask(&mut self, talk: usize) -> Checked {
        let asked = self.question(talk);
        self.call(talk, asked).await
    }

    fn question(&mut self, talk: usize) -> Asked {
        let engine = self.chance.index(self.engines.len());
        let rejects = self.policies[self.engines[engine].1].setup.on_open_turn == OnOpenTurn::Reject;
        let open = self.talks[talk].log.open();
        let expected = match open {
            // A turn that broke off may count as open.
            Some(open) if open.is_empty() => Expected::Accepted,
            _ if rejects => Expected::Either,
            _ => Expected::Accepted,
        };
        Asked {
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

    fn asked(&mut self, talk: usize) -> Asked {
        let open = self.talks[talk].log.open();
        let mut asked = self.question(talk);
        let has_open = open.as_ref().is_none_or(|open| !open.is_empty());
        match self.chance.below(12) {
            0..6 if has_open => {
                asked.answers = true;
                asked.expected = if open.is_some() { Expected::Accepted } else { Expected::Either };
                asked.input = open.iter().flatten().rev().map(|id| self.words.result(id)).collect();
                if asked.input.is_empty() {
                    asked.input = vec![Message::tool("x", "r")];
                }
                if self.chance.once_in(4) {
                    asked.input.push(self.words.user());
                }
            }
            6 => {
                asked.answers = true;
                asked.input = vec![Message::tool("nobody's", "r")];
                asked.expected = Expected::Refused("input");
            }
            7 => {
                // A whole round of the caller's own.
                let round = message(&serde_json::json!({"role": "assistant", "content": null,
                    "tool_calls": [super::super::words::call("own", "{}")]}));
                asked.input.extend([round, Message::tool("own", "r"), self.words.user()]);
            }
            8 if !self.talks[talk].log.entries.is_empty() => {
                let entries = &self.talks[talk].log.entries;
                let known = self.chance.of(entries);
                if !known.incomplete {
                    asked.exchange = known.id.clone();
                    asked.expected = Expected::Refused("already_recorded");
                }
            }
            9 => asked.dont_store = true,
            10 => asked.instead = Some(vec![self.words.user()]),
            _ => {}
        }
        if asked.expected == Expected::Accepted && self.chance.once_in(3) {
            asked.transcript = self.transcript(talk);
        }
        asked
    }

    /// What a caller resends who keeps a list of messages.
    fn transcript(&mut self, talk: usize) -> Vec<Message> {
        let log = &self.talks[talk].log;
        let from = self.chance.index(log.entries.len() + 1);
        let mut resent = log.transcript(from);
        if self.ingredients.has(Ingredient::TrimmedTranscripts) && self.chance.once_in(2) {
            for one in &mut resent {
                let plain = *one.role() == Role::Assistant && one.tool_calls().is_empty() && !one.is_blank_reply();
                if plain && one.json() == Message::assistant(one.text()).json() {
                    *one = Message::assistant(one.text().trim());
                }
            }
        }
        resent
    }

    async fn call(&mut self, talk: usize, asked: Asked) -> Checked {
        let (engine, policy) = self.engines[asked.engine].clone();
        let input = asked.input(&self.talks[talk]);
        let planned_under = self.positions(talk, policy).await?;
        let told = |random: &Self| random.policies[policy].told.lock().unwrap().len();
        let before = told(self);
        let turn = match engine.begin(input).await {
            Ok(turn) => turn,
            Err(error) => {
                self.figures.count("calls refused");
                self.refused(talk, &asked, &error)?;
                return self.settle(talk).await;
            }
        };
        let summaries = before..told(self);
        self.figures.count("turns begun");
        let unexpected = matches!(asked.expected, Expected::Refused(_));
        holds(!unexpected, "what is repeated or answers nothing is refused", || format!("{:?}", asked.expected))?;
        self.check_sent(&turn, &asked, policy)?;
        let Talk { slow, edits, appends, .. } = &mut self.talks[talk];
        let (edits, appends) = (*edits, *appends);
        let overlaps =
            self.chance.once_in(8) && !matches!(self.policies[policy].setup.on_conflict, OnConflict::Serialize(_));
        if overlaps {
            slow.push(Slow { turn, asked, edits, appends, summaries });
            return Ok(());
        }
        let drops = if self.ingredients.has(Ingredient::DroppedQuestions) { 8 } else { 1_000 };
        if self.chance.once_in(drops) {
            drop(turn);
            self.figures.count("turns dropped");
            return self.settle(talk).await;
        }
        let begun = Slow { turn, asked, edits, appends, summaries };
        self.commit(talk, begun, Some(planned_under)).await
    }

    async fn positions(&mut self, talk: usize, policy: usize) -> Checked<Positions> {
        let Policy { setup, notes, .. } = &self.policies[policy];
        self.talks[talk].log.positions(&self.base, policy, &setup.profile, notes).await
    }

    /// A turn that took long ends, or is given up.
    pub(super) async fn finish_slow(&mut self, talk: usize) -> Checked {
        let at = self.chance.index(self.talks[talk].slow.len());
        let slow = self.talks[talk].slow.swap_remove(at);
        if self.chance.once_in(3) {
            drop(slow);
            return self.settle(talk).await;
        }
        self.commit(talk, slow, None).await
    }

    /// Returns whether a refusal is right.
    fn refused(&self, talk: usize, asked: &Asked, error: &HistoryError) -> Checked {
        let policy = &self.policies[self.engines[asked.engine].1];
        let is_right = match (error, asked.expected) {
            (HistoryError::DoesNotFit(_), _) => return self.cannot_fit(talk, asked, policy, error),
            (HistoryError::AlreadyRecorded(_), Expected::Refused("already_recorded"))
            | (HistoryError::Input(_), Expected::Refused("input") | Expected::Either)
            | (HistoryError::Transcript(_), Expected::Either) => true,
            // What is stored instead must answer exactly when the input does.
            (HistoryError::Input(_), Expected::Accepted) => asked.instead.is_some() && asked.answers,
            _ => false,
        };
        holds(is_right, "no call is refused without a reason", || {
            let input: Vec<String> = asked.input.iter().map(shorten).collect();
            let Log { entries, .. } = &self.talks[talk].log;
            let log: Vec<String> =
                entries.iter().skip(entries.len().saturating_sub(8)).map(ToString::to_string).collect();
            format!(
                "{error}; expected {:?}; open {:?}; resent {}; input {input:?}; the log ends with {}",
                asked.expected,
                self.talks[talk].log.open(),
                asked.transcript.len(),
                log.join(" | ")
            )
        })
    }

    /// Whether a call that is refused for its size could not be sent: it is not refused for what may be left out, nor for
    /// more than a correction that its own conversation's reports allow.
    fn cannot_fit(&self, talk: usize, asked: &Asked, policy: &Policy, error: &HistoryError) -> Checked {
        if policy.setup.counter_panics {
            return Ok(());
        }
        let Some(limit) = policy.setup.limit else {
            return Err(Violation::new("without a limit everything fits", error.to_string()));
        };
        let entries = &self.talks[talk].log.entries;
        let calls = |entry: &Entry| entry.messages.iter().any(|message| !message.tool_calls().is_empty());
        let called = entries.iter().rposition(calls).map_or(0, |at| at + 1);
        let opened = entries[..called].iter().rposition(Entry::asks).unwrap_or(0);
        let turn = if asked.answers { opened } else { entries.len() };
        let needed = entries[turn..].iter().flat_map(|entry| &entry.messages).chain(&asked.input);
        // Results that stand in for others have a size as well.
        let spare = if asked.answers { 20 * u64::try_from(entries.len() - turn).unwrap_or_default() } else { 0 };
        let needed = tokens(needed) + spare;
        holds(needed * 3 / 2 + 4 > u64::from(limit), "a call that fits is not refused", || {
            let from = turn.saturating_sub(3).min(entries.len());
            let log: Vec<String> = entries[from..].iter().map(ToString::to_string).collect();
            format!("{needed} of {limit} tokens: {error}; the log from {from} on: {}", log.join(" | "))
        })
    }

    /// What the model gets.
    fn check_sent(&mut self, turn: &Turn, asked: &Asked, policy: usize) -> Checked {
        holds(turn.input() == asked.input, "the input is sent as it is", || {
            format!("{} messages", turn.input().len())
        })?;
        check_prompt(turn.context())?;
        let setup = &self.policies[policy].setup;
        if let Some(limit) = setup.limit.filter(|_| !setup.counter_panics) {
            let sent = tokens(turn.context());
            holds(sent <= u64::from(limit), "a prompt is within the budget", || format!("{sent} of {limit} tokens"))?;
        }
        Ok(())
    }

    async fn commit(&mut self, talk: usize, begun: Slow, sequential: Option<Positions>) -> Checked {
        let Slow { turn, asked, edits, appends, summaries } = begun;
        let window = turn.window().to_vec();
        let breaks_off = self.ingredients.has(Ingredient::Partials) && sequential.is_some() && self.chance.once_in(10);
        let reply = self.reply(&turn, breaks_off);
        let policy = self.engines[asked.engine].1;
        let stored_message = reply.message.clone();
        let told = turn.commit(reply).await;
        let between = self.talks[talk].edits != edits || self.talks[talk].appends != appends;
        let report = match told {
            Ok(report) => report,
            Err(failed) => {
                let refused =
                    matches!(failed.reason(), SaveError::Store(StoreError::Gone | StoreError::Conflict { .. }));
                holds(refused && between, "a reply is stored", || failed.reason().to_string())?;
                return self.settle(talk).await;
            }
        };
        self.outcome(talk, &asked, &report, stored_message, between)?;
        self.settle(talk).await?;
        self.check_made(talk, policy, &summaries, &report)?;
        self.check_prefix(talk, &asked, policy, &report, window, sequential).await?;
        if breaks_off && report.revision().is_some() && !asked.dont_store {
            return self.repeat(talk, asked).await;
        }
        Ok(())
    }

    /// A call that broke off is made again, as it was: the model is asked again.
    async fn repeat(&mut self, talk: usize, mut asked: Asked) -> Checked {
        self.figures.count("interrupted calls repeated");
        if asked.expected == Expected::Either {
            return Ok(());
        }
        for message in asked.input.iter().chain(asked.instead.iter().flatten()) {
            let facts = marks(&message.text());
            self.policies.iter().for_each(|policy| policy.notes.repeats(&facts));
            self.talks[talk].log.excuse(facts);
        }
        asked.expected = Expected::Accepted;
        asked.engine = self.chance.index(self.engines.len());
        let rejects = self.policies[self.engines[asked.engine].1].setup.on_open_turn == OnOpenTurn::Reject;
        if rejects && !asked.answers {
            asked.expected = Expected::Either;
        }
        Box::pin(self.call(talk, asked)).await
    }

    fn reply(&mut self, turn: &Turn, breaks_off: bool) -> Reply {
        let message = match self.chance.below(3) {
            _ if breaks_off => Message::assistant(self.words.text()),
            0 => self.words.calls(),
            _ => self.words.reply(),
        };
        let mut reply = Reply::new(message);
        reply.incomplete = breaks_off;
        let honest = tokens(turn.context());
        let hostile = self.ingredients.has(Ingredient::HostileUsage);
        reply.usage = match self.chance.below(5) {
            0 if hostile => Some(Usage::new(u64::MAX, u64::MAX)),
            1 if hostile => Some(Usage::new(1_000_000_000_000, 1)),
            2 if hostile => Some(Usage::new(0, 0)),
            3 => Some(Usage::new(honest, 1)),
            _ => None,
        };
        reply
    }

    /// Returns whether what is told is what has to become of the exchange, which the test's log then has too.
    fn outcome(
        &mut self,
        talk: usize,
        asked: &Asked,
        report: &TurnReport,
        reply: Option<Message>,
        between: bool,
    ) -> Checked {
        self.figures.count(report.outcome.kind());
        let log = &mut self.talks[talk].log;
        match &report.outcome {
            Outcome::NotStored(_) => holds(asked.dont_store, "a reply is stored", || report.outcome.kind().to_owned()),
            Outcome::Duplicate { .. } => {
                let known = log.entries.iter().any(|entry| entry.id == asked.exchange);
                holds(between && known, "only another call's exchange is a duplicate", || asked.exchange.to_string())
            }
            Outcome::Stored { seq, incomplete, .. } => {
                holds(!asked.dont_store, "what is not to be stored is not", String::new)?;
                let first = seq.get() == 0 && between;
                holds(seq.get() == log.next() || first, "positions have no gap", || {
                    format!("{seq} after {}", log.next())
                })?;
                let mut messages = asked.instead.clone().unwrap_or_else(|| asked.input.clone());
                messages.extend(reply);
                let entry = Entry {
                    seq: seq.get(),
                    id: report.exchange.clone(),
                    messages,
                    incomplete: *incomplete,
                    opens: !asked.answers,
                };
                holds(*incomplete || entry.id == asked.exchange, "an exchange has its caller's id", String::new)?;
                holds(!incomplete || entry.id != asked.exchange, "a partial reply leaves the id free", String::new)?;
                log.push(entry);
                self.talks[talk].appends += 1;
                Ok(())
            }
            other => Err(Violation::new("a reply is stored", other.kind())),
        }
    }

    /// A summary that was paid for, and made for this turn, is stored with its exchange, or another one is.
    fn check_made(&self, talk: usize, policy: usize, made: &Range<usize>, report: &TurnReport) -> Checked {
        let log = &self.talks[talk].log;
        let told = self.policies[policy].told.lock().unwrap();
        let told: Vec<_> = told[made.clone()].iter().filter(|one| one.conversation == log.id).collect();
        let ([made], Outcome::Stored { .. }) = (&*told, &report.outcome) else { return Ok(()) };
        if made.outcome != "made" || !self.ingredients.has(Ingredient::LateContinuations) {
            return Ok(());
        }
        let covers_to = log.covers_to(policy);
        holds(covers_to >= made.to, "a summary that was paid for is stored", || {
            format!("it covers what is before {}, and the stored one what is before {covers_to}", made.to)
        })
    }

    async fn check_prefix(
        &mut self,
        talk: usize,
        asked: &Asked,
        policy: usize,
        report: &TurnReport,
        window: Vec<Message>,
        sequential: Option<Positions>,
    ) -> Checked {
        let now = self.positions(talk, policy).await?;
        let setup = &self.policies[policy].setup;
        let stored = matches!(report.outcome, Outcome::Stored { incomplete: false, .. });
        let exempt = setup.has_trimmer || setup.counter_panics || setup.retention.is_some();
        let Some(planned_under) = sequential.filter(|_| stored && !exempt) else {
            self.talks[talk].before = None;
            return Ok(());
        };
        let plain = prefix::is_plain(report);
        let before = self.talks[talk].before.take();
        if let Some(before) =
            before.filter(|before| plain && before.engine == asked.engine && before.positions == planned_under)
        {
            self.figures.count("prefixes compared");
            prefix::check(&before, &window)?;
        }
        // What this call stored, and nothing else, is what the next one is planned under.
        let compacted = report.tokens.is_some_and(|tokens| tokens.compacted);
        // A summary that the call did not wait for to its end may have been stored in place of the call's own compaction.
        let only_this =
            now.version == planned_under.version + u64::from(compacted) && now.covers_to == planned_under.covers_to;
        let for_this_call =
            report.tokens.is_some_and(|tokens| tokens.for_this_call || tokens.trimming.left_out_summary);
        if only_this && !for_this_call && !report.truncated && report.summary.is_none() && asked.instead.is_none() {
            self.talks[talk].before = Some(Sent { engine: asked.engine, window, positions: now });
        }
        Ok(())
    }
}

fn tokens<'a>(messages: impl IntoIterator<Item = &'a Message>) -> u64 {
    let counter = ByteEstimate::new();
    messages.into_iter().map(|message| u64::from(counter.count_message(message))).sum::<u64>()
        + u64::from(REPLY_PRIMING)
}
