//! Rounds to which the model has not replied before the next question.
//!
//! The calls of such a round have their results: those that are stored, or the constant ones. Anthropic's models that
//! think with a budget refuse these results if no thinking is before the calls (as of November 2026): another provider
//! made them, or the thinking had to be left out. They accept calls without thinking in earlier turns, so a constant
//! reply ends the turn of the round.
//!
//! The reply depends only on the log and on [a condition of the request](RequestInfo::thinks_with_budget). It has the
//! round of the results, so that a cut that leaves these out leaves it out, too.

use tower_chat_history_core::{Message, Recorded, Role, Seq};

use super::item::Item;
use crate::context::request::RequestInfo;

/// The constant reply.
const ABANDONED: &str = "[no reply: this turn was abandoned]";

/// Adds a reply after each round that a question follows, if the request needs it. If `opens_turn`, a question follows
/// the items.
pub(super) fn end_rounds(items: &mut Vec<Item>, exchanges: &[Recorded], opens_turn: bool, request: &RequestInfo) {
    if !request.thinks_with_budget {
        return;
    }
    let opens = |seq: Seq| {
        let at = exchanges.binary_search_by_key(&seq, |recorded| recorded.seq);
        at.is_ok_and(|at| exchanges[at].exchange.opens_turn())
    };
    let mut ended = Vec::with_capacity(items.len() + 1);
    // The last reply, and the reply that is missing after its results.
    let (mut replied, mut missing): (Option<Seq>, Option<Item>) = (None, None);
    for item in items.drain(..) {
        if item.message.is_reply() {
            (replied, missing) = (Some(item.seq), None);
        } else if !item.message.answers().is_empty() {
            missing = reply_to(&item);
        } else if replied.is_some_and(|replied| replied < item.seq) && opens(item.seq) {
            ended.extend(missing.take());
        }
        ended.push(item);
    }
    ended.extend(missing.filter(|_| opens_turn));
    *items = ended;
}

/// Returns the constant reply to results. A dialect reads what it writes. If it does not, there is no reply.
fn reply_to(results: &Item) -> Option<Item> {
    let message = Message::compose(results.message.dialect()?, &Role::Assistant, ABANDONED).ok()?;
    Some(Item { round: results.round, ..Item::new(message, results.seq) })
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{AnthropicMessages, Exchange, ExchangeId};

    use super::*;
    use crate::context::plan::fold::Folded;

    const ASKED: [&str; 2] = [
        r#"{"role":"user","content":"q"}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}"#,
    ];
    const RESULT: &str = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#;
    const TEXT: &str = r#"{"role":"user","content":"and?"}"#;
    const SAID: &str = r#"{"role":"assistant","content":"a"}"#;

    /// Returns the roles of the items: `u` for a question, `r` for results, `a` for a reply, `-` for the constant one.
    fn items(log: &[(&[&str], Option<u64>)], opens_turn: bool, thinks: bool) -> (String, Vec<Item>) {
        let recorded = |(seq, (messages, continues)): (u64, &(&[&str], Option<u64>))| {
            let messages = messages.iter().map(|json| Message::in_dialect(&AnthropicMessages, *json).unwrap());
            let mut exchange = Exchange::new(ExchangeId::generate(), messages);
            exchange.continues = continues.map(Seq::new);
            Recorded::new(Seq::new(seq), exchange)
        };
        let log: Vec<Recorded> = (0..).zip(log).map(recorded).collect();
        let mut folded = Folded::of(&log, Seq::FIRST, Seq::FIRST);
        if opens_turn {
            folded.close();
        }
        let mut request = RequestInfo::new();
        request.thinks_with_budget = thinks;
        let mut items = folded.into_items(!opens_turn);
        end_rounds(&mut items, &log, opens_turn, &request);
        let kind = |item: &Item| match &item.message {
            message if message.json().contains(ABANDONED) => '-',
            message if message.is_reply() => 'a',
            message if !message.answers().is_empty() => 'r',
            _ => 'u',
        };
        (items.iter().map(kind).collect(), items)
    }

    #[test]
    fn a_question_after_a_round_without_a_reply_is_after_a_constant_reply() {
        let kinds = |log: &[(&[&str], Option<u64>)], opens_turn| items(log, opens_turn, true).0;
        let asked: (&[&str], Option<u64>) = (&ASKED, None);
        assert_eq!(kinds(&[asked], true), "uar-", "abandoned by the input");
        assert_eq!(kinds(&[asked], false), "ua", "answered by the input");
        assert_eq!(kinds(&[asked, (&[TEXT, SAID], None)], true), "uar-ua", "abandoned in the log");
        let stored: (&[&str], Option<u64>) = (&[RESULT], Some(0));
        assert_eq!(kinds(&[asked, stored], true), "uar-", "stored without a reply");
        assert_eq!(kinds(&[asked, stored], false), "uar", "the input continues it");
        assert_eq!(kinds(&[asked, stored, (&[TEXT, SAID], None)], true), "uar-ua");
        // Everything of a turn is one prompt's input.
        assert_eq!(kinds(&[asked, (&[RESULT, TEXT, SAID], Some(0))], true), "uarua");
        let imported = [ASKED[0], ASKED[1], RESULT, TEXT, SAID];
        assert_eq!(kinds(&[(&imported, None)], true), "uarua");
        assert_eq!(kinds(&[asked, (&[RESULT, SAID], Some(0)), (&[TEXT, SAID], None)], true), "uaraua");
    }

    #[test]
    fn a_request_without_a_budget_needs_no_constant_reply() {
        assert_eq!(items(&[(&ASKED, None)], true, false).0, "uar");
    }

    #[test]
    fn a_cut_leaves_out_the_constant_reply_with_its_round() {
        let (kinds, items) = items(&[(&ASKED, None), (&[TEXT, SAID], None)], true, true);
        let kept = |window: u64, rounds: u64| -> String {
            let kept = |item: &Item| item.is_kept(Seq::new(window), Seq::new(rounds));
            kinds.chars().zip(&items).filter(|(_, item)| kept(item)).map(|(kind, _)| kind).collect()
        };
        assert_eq!([kept(0, 0), kept(0, 2), kept(1, 1)], ["uar-ua", "uua", "ua"]);
    }
}
