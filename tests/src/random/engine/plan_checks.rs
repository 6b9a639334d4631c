//! Checks of a planned turn: its refusal, or its prompt.

use tower_chat_history::{
    HistoryError, Message, Turn,
    tokens::{ByteEstimate, REPLY_PRIMING, TokenCounter as _},
};

use super::{
    super::{
        outcome::{Checked, Violation, holds},
        rules::{check_prompt, shorten},
    },
    Case, Policy,
    log::{Entry, Log},
    turns::{Expected, PlannedCall},
};

impl Case {
    /// Checks that a refusal is right.
    pub(super) fn refused(&self, talk: usize, planned_call: &PlannedCall, error: &HistoryError) -> Checked {
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
    pub(super) fn check_sent(&mut self, turn: &Turn, planned_call: &PlannedCall, policy: usize) -> Checked {
        holds(turn.input() == planned_call.input, "the input is sent as it is", || {
            format!("{} messages", turn.input().len())
        })?;
        check_prompt(turn.context())?;
        let setup = &self.policies[policy].setup;
        if let Some(limit) = setup.limit {
            let sent = tokens(turn.context());
            holds(sent <= u64::from(limit), "a prompt is within the budget", || format!("{sent} of {limit} tokens"))?;
        }
        Ok(())
    }
}

/// Returns the estimated tokens of a prompt with these messages.
pub(super) fn tokens<'a>(messages: impl IntoIterator<Item = &'a Message>) -> u64 {
    let counter = ByteEstimate::new();
    messages.into_iter().map(|message| u64::from(counter.count_message(message))).sum::<u64>()
        + u64::from(REPLY_PRIMING)
}
