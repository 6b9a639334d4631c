//! Turns: the calls that a case makes, which of them must be accepted, and what must be sent and stored.

use std::ops::Range;

use tower_chat_history::{
    CallOptions, ExchangeId, HistoryError, Message, OnConflict, OnOpenTurn, Outcome, Reply, Role, SaveError,
    StoreError, Turn, TurnInput, TurnReport, Usage,
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

/// The expected result of beginning a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
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
    engine: usize,
    input: Vec<Message>,
    transcript: Vec<Message>,
    exchange: ExchangeId,
    instead: Option<Vec<Message>>,
    dont_store: bool,
    expected: Expected,
    answers: bool,
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
                let plain = *one.role() == Role::Assistant && one.tool_calls().is_empty() && !one.is_blank_reply();
                if plain && one.json() == Message::assistant(one.text()).json() {
                    *one = Message::assistant(one.text().trim());
                }
            }
        }
        resent
    }

    async fn call(&mut self, talk: usize, planned_call: PlannedCall) -> Checked {
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

    async fn positions(&mut self, talk: usize, policy: usize) -> Checked<Positions> {
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

    /// Checks that a refusal is right.
    fn refused(&self, talk: usize, planned_call: &PlannedCall, error: &HistoryError) -> Checked {
        let policy = &self.policies[self.engines[planned_call.engine].1];
        let is_right = match (error, planned_call.expected) {
            (HistoryError::DoesNotFit(_), _) => return self.cannot_fit(talk, planned_call, policy, error),
            (HistoryError::AlreadyRecorded(_), Expected::Refused("already_recorded"))
            | (HistoryError::Input(_), Expected::Refused("input") | Expected::Either)
            | (HistoryError::Transcript(_), Expected::Either) => true,
            // The stored replacement must answer the open calls exactly if the input does.
            (HistoryError::Input(_), Expected::Accepted) => planned_call.instead.is_some() && planned_call.answers,
            _ => false,
        };
        holds(is_right, "no call is refused without a reason", || {
            let input: Vec<String> = planned_call.input.iter().map(shorten).collect();
            let Log { entries, .. } = &self.talks[talk].log;
            let log: Vec<String> =
                entries.iter().skip(entries.len().saturating_sub(8)).map(ToString::to_string).collect();
            format!(
                "{error}; expected {:?}; open {:?}; resent {}; input {input:?}; the log ends with {}",
                planned_call.expected,
                self.talks[talk].log.open(),
                planned_call.transcript.len(),
                log.join(" | ")
            )
        })
    }

    /// Checks a call that was refused for its size. Messages that may be left out are no reason to refuse it,
    /// nor is a correction factor larger than the reports of its own conversation allow.
    fn cannot_fit(&self, talk: usize, planned_call: &PlannedCall, policy: &Policy, error: &HistoryError) -> Checked {
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
        let turn = if planned_call.answers { opened } else { entries.len() };
        let needed = entries[turn..].iter().flat_map(|entry| &entry.messages).chain(&planned_call.input);
        // The results that stand in for missing ones also have a size.
        let spare = if planned_call.answers { 20 * u64::try_from(entries.len() - turn).unwrap_or_default() } else { 0 };
        let needed = tokens(needed) + spare;
        holds(needed * 3 / 2 + 4 > u64::from(limit), "a call that fits is not refused", || {
            let from = turn.saturating_sub(3).min(entries.len());
            let log: Vec<String> = entries[from..].iter().map(ToString::to_string).collect();
            format!("{needed} of {limit} tokens: {error}; the log from {from} on: {}", log.join(" | "))
        })
    }

    /// Checks the prompt of a turn.
    fn check_sent(&mut self, turn: &Turn, planned_call: &PlannedCall, policy: usize) -> Checked {
        holds(turn.input() == planned_call.input, "the input is sent as it is", || {
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
        let Slow { turn, planned_call, edits, appends, summaries } = begun;
        let window = turn.window().to_vec();
        let breaks_off = self.ingredients.has(Ingredient::Partials) && sequential.is_some() && self.rng.once_in(10);
        let reply = self.reply(&turn, breaks_off);
        let policy = self.engines[planned_call.engine].1;
        let stored_message = reply.message.clone();
        let reported = turn.commit(reply).await;
        let between = self.talks[talk].edits != edits || self.talks[talk].appends != appends;
        let report = match reported {
            Ok(report) => report,
            Err(failed) => {
                let refused =
                    matches!(failed.reason(), SaveError::Store(StoreError::Gone | StoreError::Conflict { .. }));
                holds(refused && between, "a reply is stored", || failed.reason().to_string())?;
                return self.settle(talk).await;
            }
        };
        self.outcome(talk, &planned_call, &report, stored_message, between)?;
        self.settle(talk).await?;
        self.check_made(talk, policy, &summaries, &report)?;
        self.check_prefix(talk, &planned_call, policy, &report, window, sequential).await?;
        if breaks_off && report.revision().is_some() && !planned_call.dont_store {
            return self.repeat(talk, planned_call).await;
        }
        Ok(())
    }

    /// Repeats an interrupted call unchanged. The model must be called again.
    async fn repeat(&mut self, talk: usize, mut planned_call: PlannedCall) -> Checked {
        self.figures.count("interrupted calls repeated");
        if planned_call.expected == Expected::Either {
            return Ok(());
        }
        for message in planned_call.input.iter().chain(planned_call.instead.iter().flatten()) {
            let facts = marks(&message.text());
            self.policies.iter().for_each(|policy| policy.notes.repeats(&facts));
            self.talks[talk].log.excuse(facts);
        }
        planned_call.expected = Expected::Accepted;
        planned_call.engine = self.rng.index(self.engines.len());
        let rejects = self.policies[self.engines[planned_call.engine].1].setup.on_open_turn == OnOpenTurn::Reject;
        if rejects && !planned_call.answers {
            planned_call.expected = Expected::Either;
        }
        Box::pin(self.call(talk, planned_call)).await
    }

    fn reply(&mut self, turn: &Turn, breaks_off: bool) -> Reply {
        let message = match self.rng.below(3) {
            _ if breaks_off => Message::assistant(self.words.text()),
            0 => self.words.calls(),
            _ => self.words.reply(),
        };
        let mut reply = Reply::new(message);
        reply.incomplete = breaks_off;
        let honest = tokens(turn.context());
        let hostile = self.ingredients.has(Ingredient::HostileUsage);
        reply.usage = match self.rng.below(5) {
            0 if hostile => Some(Usage::new(u64::MAX, u64::MAX)),
            1 if hostile => Some(Usage::new(1_000_000_000_000, 1)),
            2 if hostile => Some(Usage::new(0, 0)),
            3 => Some(Usage::new(honest, 1)),
            _ => None,
        };
        reply
    }

    /// Checks the reported outcome of an exchange, and adds the exchange to the expected log.
    fn outcome(
        &mut self,
        talk: usize,
        planned_call: &PlannedCall,
        report: &TurnReport,
        reply: Option<Message>,
        between: bool,
    ) -> Checked {
        self.figures.count(report.outcome.kind());
        let log = &mut self.talks[talk].log;
        match &report.outcome {
            Outcome::NotStored(_) => {
                holds(planned_call.dont_store, "a reply is stored", || report.outcome.kind().to_owned())
            }
            Outcome::Duplicate { .. } => {
                let known = log.entries.iter().any(|entry| entry.id == planned_call.exchange);
                holds(between && known, "only another call's exchange is a duplicate", || {
                    planned_call.exchange.to_string()
                })
            }
            Outcome::Stored { seq, incomplete, .. } => {
                holds(!planned_call.dont_store, "an exchange that must not be stored is not stored", String::new)?;
                let first = seq.get() == 0 && between;
                holds(seq.get() == log.next() || first, "positions have no gap", || {
                    format!("{seq} after {}", log.next())
                })?;
                let mut messages = planned_call.instead.clone().unwrap_or_else(|| planned_call.input.clone());
                messages.extend(reply);
                let entry = Entry {
                    seq: seq.get(),
                    id: report.exchange.clone(),
                    messages,
                    incomplete: *incomplete,
                    opens: !planned_call.answers,
                };
                holds(
                    *incomplete || entry.id == planned_call.exchange,
                    "an exchange has the id that its caller gave",
                    String::new,
                )?;
                holds(
                    !incomplete || entry.id != planned_call.exchange,
                    "a partial reply leaves the id free",
                    String::new,
                )?;
                log.push(entry);
                self.talks[talk].appends += 1;
                Ok(())
            }
            other => Err(Violation::new("a reply is stored", other.kind())),
        }
    }

    /// Checks that a summary that was made for this turn, and paid for, is stored with its exchange, or a
    /// newer one is.
    fn check_made(&self, talk: usize, policy: usize, made: &Range<usize>, report: &TurnReport) -> Checked {
        let log = &self.talks[talk].log;
        let reported = self.policies[policy].reported.lock().unwrap();
        let reported: Vec<_> = reported[made.clone()].iter().filter(|one| one.conversation == log.id).collect();
        let ([made], Outcome::Stored { .. }) = (&*reported, &report.outcome) else { return Ok(()) };
        if made.outcome != "made" || !self.ingredients.has(Ingredient::LateContinuations) {
            return Ok(());
        }
        let covers_to = log.covers_to(policy);
        holds(covers_to >= made.to, "a summary that was paid for is stored", || {
            format!("it covers up to {}, the stored one up to {covers_to}", made.to)
        })
    }

    async fn check_prefix(
        &mut self,
        talk: usize,
        planned_call: &PlannedCall,
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
            before.filter(|before| plain && before.engine == planned_call.engine && before.positions == planned_under)
        {
            self.figures.count("prefixes compared");
            prefix::check(&before, &window)?;
        }
        // The next call is planned for this result only if nothing else was stored.
        let compacted = report.tokens.is_some_and(|tokens| tokens.compacted);
        // A summary that the call did not wait for may have been stored in place of the call's own
        // compaction.
        let only_this =
            now.version == planned_under.version + u64::from(compacted) && now.covers_to == planned_under.covers_to;
        let for_this_call =
            report.tokens.is_some_and(|tokens| tokens.for_this_call || tokens.trimming.left_out_summary);
        if only_this
            && !for_this_call
            && !report.truncated
            && report.summary.is_none()
            && planned_call.instead.is_none()
        {
            self.talks[talk].before = Some(Sent { engine: planned_call.engine, window, positions: now });
        }
        Ok(())
    }
}

fn tokens<'a>(messages: impl IntoIterator<Item = &'a Message>) -> u64 {
    let counter = ByteEstimate::new();
    messages.into_iter().map(|message| u64::from(counter.count_message(message))).sum::<u64>()
        + u64::from(REPLY_PRIMING)
}
