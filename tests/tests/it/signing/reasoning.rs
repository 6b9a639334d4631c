//! The reasoning in a prompt, compared with all reasoning that the provider would have accepted there.

use std::collections::HashMap;

use tower_chat_history::{
    Message,
    store::{Origin, Recorded, Seq},
};
use tower_chat_history_core::Digest;

use super::figures::Figures;

/// Numbers of messages with reasoning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reasoning {
    /// Those that are sent.
    kept: u64,
    /// Those that are sent without their reasoning.
    left_out: u64,
    /// Those of `left_out` whose reasoning would have been accepted.
    pub(super) valid: u64,
    /// Those of the turn that continues.
    kept_in_turn: u64,
    /// Those of the turn that continues, sent without their reasoning or not at all.
    pub(super) left_out_in_turn: u64,
}

impl Reasoning {
    /// Compares a prompt with the log before its input. The stored cut leaves out the reasoning before `from`.
    pub(super) fn of(
        log: &[Recorded],
        context: &[Message],
        head: Digest,
        origin: &Origin,
        continues: bool,
        from: Seq,
    ) -> Self {
        let mut reasoning = Self { kept: context.iter().filter(has_reasoning).count() as u64, ..Self::default() };
        let mut places = HashMap::from([(head, 0)]);
        let mut digest = head;
        for (at, message) in (1..).zip(context) {
            digest = digest.then(message.digest());
            places.insert(digest, at);
        }
        for Recorded { seq, exchange, .. } in log {
            let reply = exchange.reply();
            let all = reply.iter().filter(has_reasoning).count() as u64;
            let rest: Vec<Message> = reply.iter().filter_map(rest).collect();
            if all == 0 || rest.is_empty() {
                continue;
            }
            let is_sent = context.windows(reply.len()).any(|window| window == reply);
            let without = !is_sent && context.windows(rest.len()).any(|window| window == rest);
            reasoning.left_out += if without { all } else { 0 };
            let Some(provenance) = &exchange.provenance else { continue };
            if *seq >= from
                && provenance.origin == *origin
                && let Some(at) = places.get(&provenance.digests.prompt)
                && !context[*at..].starts_with(reply)
                && context[*at..].starts_with(&rest)
                && log.iter().filter(|other| begins_alike(other, &rest)).count() == 1
            {
                reasoning.valid += all;
            }
        }
        let opening = log.iter().rposition(|recorded| recorded.exchange.opens_turn());
        for Recorded { exchange, .. } in &log[opening.filter(|_| continues).unwrap_or(log.len())..] {
            let all = exchange.reply().iter().filter(has_reasoning);
            let (kept, left_out): (Vec<_>, Vec<_>) = all.partition(|message| context.contains(message));
            reasoning.kept_in_turn += kept.len() as u64;
            reasoning.left_out_in_turn += left_out.len() as u64;
        }
        reasoning
    }

    pub(super) fn count(self, figures: &Figures) {
        figures.count("reasoning kept", self.kept);
        figures.count("reasoning left out", self.left_out);
        figures.count("reasoning kept in its turn", self.kept_in_turn);
        figures.count("reasoning left out in its turn", self.left_out_in_turn);
    }
}

fn has_reasoning(message: &&Message) -> bool {
    message.bound().to_prefix
}

/// Returns `true` if the reply of an exchange may be the one that was sent as these messages. Ids of calls are reused,
/// so two replies to the same prompt can be equal except for their reasoning.
fn begins_alike(recorded: &Recorded, sent: &[Message]) -> bool {
    let mut rest = recorded.exchange.reply().iter().filter_map(rest);
    rest.next().as_ref() == sent.first()
}

/// Returns a message as it is sent without its reasoning.
fn rest(message: &Message) -> Option<Message> {
    if message.bound().can_be_removed() { message.unbound().cloned() } else { Some(message.clone()) }
}
