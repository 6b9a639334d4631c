//! The end of a turn: the reply, its outcome, and what must be stored and cached.

use std::ops::Range;

use tower_chat_history::{
    Message, Reply, SaveError, StoreError, Turn, TurnReport,
    policy::OnOpenTurn,
    report::TurnOutcome,
    store::{Recalled, Usage},
};

use super::{
    super::{
        Ingredient,
        outcome::{Checked, Violation, holds},
        rules::marks,
    },
    Case, Slow,
    log::{Entry, Positions},
    plan_checks::tokens,
    prefix::{self, Sent},
    turns::{Expected, PlannedCall},
};
use crate::{UNDERSTOOD, short};

impl Case {
    pub(super) async fn commit(&mut self, talk: usize, begun: Slow, sequential: Option<Positions>) -> Checked {
        let Slow { turn, planned_call, edits, appends, summaries } = begun;
        let window = turn.window().to_vec();
        let interrupted = self.ingredients.has(Ingredient::Partials) && sequential.is_some() && self.rng.once_in(10);
        let reply = self.reply(&turn, interrupted);
        let policy = self.engines[planned_call.engine].1;
        let stored_message = reply.message().cloned();
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
        let recalled = self.recalled(talk, policy, &report, &window).await?;
        self.outcome(talk, &planned_call, &report, stored_message, recalled, between)?;
        self.settle(talk).await?;
        self.check_made(talk, policy, &summaries, &report)?;
        self.check_prefix(talk, &planned_call, policy, &report, window, sequential).await?;
        if interrupted && report.revision().is_some() && !planned_call.dont_store {
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

    fn reply(&mut self, turn: &Turn, interrupted: bool) -> Reply {
        let message = match self.rng.below(3) {
            _ if interrupted => Message::assistant(self.words.text()),
            0 => self.words.calls(),
            _ => self.words.reply(),
        };
        let mut reply = Reply::new(message);
        reply.incomplete = interrupted;
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

    /// Checks that the recalled messages of a stored exchange are those that were sent, and returns them.
    async fn recalled(
        &mut self,
        talk: usize,
        policy: usize,
        report: &TurnReport,
        window: &[Message],
    ) -> Checked<Option<Recalled>> {
        let TurnOutcome::Stored { seq, .. } = report.outcome else { return Ok(None) };
        let (log, setup) = (&self.talks[talk].log, &self.policies[policy].setup);
        let page = self.base.store().read(&log.id, seq, 1).await;
        let page = page.map_err(|error| Violation::new("an exchange can be read", error.to_string()))?;
        let stored = page.exchanges.first().filter(|recorded| recorded.seq == seq);
        let recalled = stored.and_then(|recorded| recorded.exchange.recalled.clone());
        let Some(recall) = &setup.recall else {
            return holds(recalled.is_none(), "nothing is recalled without recall", || format!("{recalled:?}"))
                .map(|()| None);
        };
        recall.check(report, recalled.as_ref(), log)?;
        if let Some(recalled) = &recalled {
            self.figures.count("turns with recalled messages");
            let is_sent = match window {
                [.., shown, reply] => *shown == recalled.message && short(reply) == UNDERSTOOD,
                _ => false,
            };
            holds(is_sent, "recalled messages are stored as they were sent", || format!("{recalled:?}"))?;
        }
        Ok(recalled)
    }

    /// Checks the reported outcome of an exchange, and adds the exchange to the expected log.
    fn outcome(
        &mut self,
        talk: usize,
        planned_call: &PlannedCall,
        report: &TurnReport,
        reply: Option<Message>,
        recalled: Option<Recalled>,
        between: bool,
    ) -> Checked {
        self.figures.count(report.outcome.kind());
        let log = &mut self.talks[talk].log;
        match &report.outcome {
            TurnOutcome::NotStored(_) => {
                holds(planned_call.dont_store, "a reply is stored", || report.outcome.kind().to_owned())
            }
            TurnOutcome::Duplicate { .. } => {
                holds(between && log.has(&planned_call.exchange), "only another call's exchange is a duplicate", || {
                    planned_call.exchange.to_string()
                })
            }
            TurnOutcome::Stored { seq, incomplete, .. } => {
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
                    recalled,
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
        let ([made], TurnOutcome::Stored { .. }) = (&*reported, &report.outcome) else { return Ok(()) };
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
        let stored = matches!(report.outcome, TurnOutcome::Stored { incomplete: false, .. });
        let exempt = setup.has_trimmer || setup.retention.is_some();
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
