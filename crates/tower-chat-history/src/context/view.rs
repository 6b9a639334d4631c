//! The messages of a log in a form that obeys the chat rules, whatever the log holds.
//!
//! Providers refuse a prompt that has a tool result without its call, a call without its result, or a reply without
//! content. A log can have all of these, for example after an agent was canceled between call and result, after a
//! second request overtook the first, or if it was imported from another program. The log itself is never changed.
//!
//! The view reads the log once, from the first message to the last. Its only state is the newest round: the elements of
//! the last reply with calls, as long as only its results follow it. It reads the [index](Message::index) of messages,
//! so it works in all [dialects](tower_chat_history_core::Dialect).
//!
//! [`View`] is for programs that repair lists of messages. The planner has a fold of its own over the same
//! [`Rounds`], in `plan/fold.rs`, because it also needs the exchange and the round of each message. Its tests compare
//! the two.
//!
//! - A result that answers an open call of that round is sent. Any other result (late, repeated, orphaned) is left out.
//!   If its message has something else, such as other results or a text of the user, the rest is sent.
//! - A message that [closes](tower_chat_history_core::Closes) open calls first does so. Each gets a constant result
//!   which says that it was abandoned. In chat completions, all messages close calls, except results and blank replies.
//! - A message that [says nothing](Message::is_blank), such as a blank reply, is left out, because providers refuse it.
//!   It closes no calls.
//! - A message is sent in its [sendable](Message::sendable) form. In chat completions, this leaves out each entry of
//!   `tool_calls` that no result can answer (it has no id, or is not an object), and the list if no entry remains. Text
//!   in the same message stays. A result meant for such an entry is an orphan. The arguments of each call are an
//!   [object](tower_chat_history_core::ToolCall::arguments_object).
//! - The [recalled messages](tower_chat_history_core::Exchange::recalled) of an exchange are one message before its own
//!   messages, with a constant reply.
//! - A question does not follow another question, or a result, of an earlier exchange, or where a blank reply is left
//!   out or a call is abandoned: a constant reply stands before it. The messages of one input stay as they are.
//! - The view also has the messages before one that [stands for them](tower_chat_history_core::Index::restarts). A
//!   prompt leaves them out if its provider can read that message.
//!
//! If messages are added to a log, its new view therefore begins with the old one, byte for byte, and a provider's
//! prefix cache stays valid. The only exception is an exchange that a [repeated call](#repeated-calls) replaces. A fold
//! that looked ahead would change bytes that were already sent.
//!
//! ```
//! use tower_chat_history::{Message, view::View};
//!
//! let mut view = View::default();
//! view.push(&Message::user("Hi"));
//! view.push(&Message::tool("call-1", "the result of no call"));
//! view.push(&Message::assistant("Hello!"));
//! assert_eq!(view.messages(), [Message::user("Hi"), Message::assistant("Hello!")]);
//! ```
//!
//! # Repeated calls
//!
//! If a request with tool results is interrupted and sent again, the log has two exchanges that answer the same tool
//! calls. [`View::push_exchange`] detects this. The second exchange replaces the first one, which is left out of the
//! view. (The prompt of the second request did not contain it either.) An exchange is replaced if all conditions hold:
//!
//! - It has only tool results, or its reply to tool results [broke off](tower_chat_history_core::Exchange::incomplete).
//! - The next exchange answers the same calls again.
//! - The next exchange does not [continue](tower_chat_history_core::Exchange::continues) another one than that with
//!   these calls. Providers reuse ids, so a late answer to earlier calls can look like an answer to the newest ones.
//!
//! # Calls of the provider
//!
//! The result of a call that the provider executes itself can be in the reply after that of the call. Such a call is
//! sent as long as only replies and tool results follow it. Otherwise [`View::into_messages`] leaves it out. A result
//! without its call is left out, too. A message that was sent in one request can therefore change in the next one: if
//! the provider paused twice, and a question follows instead of the rest of the reply.
//!
//! # The beginning
//!
//! Some providers [refuse](tower_chat_history_core::Dialect::begins_with_user) a prompt that begins with a reply, or
//! with an instruction that a reply follows. A log begins with a reply if it was imported with a greeting of the
//! assistant, or if nothing is left of its first question: the question is empty, or a translation has no form for it.
//! [`View::into_messages`] then puts a constant message of the user before it.

pub use tower_chat_history_core::OpenCalls;
use tower_chat_history_core::{Exchange, Message, Placed, Recorded, Role, Rounds};

use crate::context::{
    bridge::{NO_REPLY, UNDERSTOOD, constant_reply, is_question, waits_for_reply},
    server_tools,
};

/// The messages of a log in a form that obeys the chat rules. See the [module docs](self).
#[derive(Clone, Debug, Default)]
pub struct View {
    messages: Vec<Message>,
    rounds: Rounds,
    /// The indexes of the constant replies before questions. The rounds do not count them.
    bridges: Vec<usize>,
    /// The constant reply that a question needs before it, if the last message waits for a reply.
    missing: Option<&'static str>,
}

impl View {
    /// Adds the log's next message. An element that must be [followed](tower_chat_history_core::Bound) by the next one
    /// of its reply is left out: add both with [`extend`](Extend::extend) or [`push_exchange`](Self::push_exchange).
    pub fn push(&mut self, message: &Message) {
        self.push_before(message, &[]);
    }

    /// Adds the log's next message. `rest` has the messages after it in the same exchange.
    fn push_before(&mut self, message: &Message, rest: &[Message]) {
        let is_reply = message.is_reply();
        let Placed::Sent { message, closed } = self.rounds.push(message, rest) else {
            if is_reply {
                self.missing.get_or_insert(NO_REPLY);
            }
            return;
        };

        if !closed.is_empty() {
            self.messages.extend(closed.abandoned());
            self.missing = Some(NO_REPLY);
        }
        if let Some(text) = self.missing.take().filter(|_| is_question(&message)) {
            self.push_bridge(text);
        }
        self.messages.push(message);
    }

    /// Adds the constant reply with this text, if the last message waits for one.
    fn push_bridge(&mut self, text: &'static str) {
        let last = self.messages.last().filter(|last| waits_for_reply(last));
        if let Some(reply) = last.and_then(|last| constant_reply(last, text)) {
            self.bridges.push(self.messages.len());
            self.messages.push(reply);
        }
    }

    /// Removes all messages after the first ones, which are this many without the constant replies.
    fn truncate(&mut self, messages: usize) {
        let mut len = messages;
        for bridge in &self.bridges {
            if *bridge >= len {
                break;
            }
            len += 1;
        }
        self.messages.truncate(len);
        self.bridges.retain(|bridge| *bridge < len);
    }

    /// Adds the log's next exchange, with its [recalled messages](tower_chat_history_core::Exchange::recalled) before
    /// it. It may [replace](self#repeated-calls) the exchange before it.
    pub fn push_exchange(&mut self, recorded: &Recorded) {
        let Exchange { recalled, messages, .. } = &*recorded.exchange;
        let begun = self.rounds.begin(recorded);
        if let Some(back_to) = begun.back_to {
            self.truncate(back_to);
        }

        self.missing = Some(NO_REPLY);
        if let Some(recalled) = recalled.as_ref().filter(|recalled| !recalled.message.is_blank()) {
            self.push(&recalled.message);
            self.missing = Some(UNDERSTOOD);
        }
        for (after, message) in (1..).zip(messages) {
            self.push_before(message, &messages[after..]);
        }
        self.rounds.end(begun);
    }

    /// Answers every open call with the constant result. The next message would do the same, unless it is a tool
    /// result.
    pub fn close(&mut self) {
        let closed = self.rounds.close();
        if !closed.is_empty() {
            self.messages.extend(closed.abandoned());
            self.missing = Some(NO_REPLY);
        }
    }

    /// Returns the messages so far. Open calls have no result in them yet, and neither have calls that the provider
    /// [executes itself](#calls-of-the-provider).
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the calls of the last assistant message that have no result yet.
    #[must_use]
    pub const fn open(&self) -> &OpenCalls {
        self.rounds.open()
    }

    /// Returns `true` if all calls of the newest round have their results and the model has not replied to them. A
    /// request then needs no input.
    #[must_use]
    pub fn awaits_reply(&self) -> bool {
        self.rounds.awaits_reply()
    }

    /// Returns the messages so far, and consumes the view. Calls that the provider executes itself are left out if they
    /// have no result. If the provider refuses a prompt that begins with a reply, such a view
    /// [begins](self#the-beginning) with a constant message of the user.
    #[must_use]
    pub fn into_messages(self) -> Vec<Message> {
        let messages = server_tools::settled(self.messages, false);
        let opening = opening_before(messages.first());
        opening.into_iter().chain(messages).collect()
    }
}

impl<'a> Extend<&'a Message> for View {
    fn extend<I: IntoIterator<Item = &'a Message>>(&mut self, messages: I) {
        let messages: Vec<Message> = messages.into_iter().cloned().collect();
        for (after, message) in (1..).zip(&messages) {
            self.push_before(message, &messages[after..]);
        }
    }
}

/// The text of the message that is sent first.
pub(crate) const NO_TEXT: &str = "(no text)";

/// Returns the message that must be sent before the first message of a prompt. Usually there is none.
pub(crate) fn opening_before(first: Option<&Message>) -> Option<Message> {
    let first = first.filter(|first| first.is_reply() || server_tools::needs_reply(first))?;
    let dialect = first.dialect().filter(|dialect| dialect.begins_with_user())?;
    Message::compose(dialect, &Role::User, NO_TEXT).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use tower_chat_history_core::{AnthropicMessages, ChatCompletions, Dialect, ExchangeId, Recalled, Seq};
    use tower_chat_history_test::check_chat_rules;

    use super::*;

    const ABANDONED: &str = "[no result: this call was abandoned]";

    pub(crate) fn calls(ids: &[&str]) -> Message {
        let calls: Vec<String> = ids
            .iter()
            .map(|id| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#))
            .collect();
        let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","));
        Message::from_json(json).unwrap()
    }

    pub(crate) fn breaks_the_rules(messages: &[Message]) -> Option<String> {
        check_chat_rules(messages).err().filter(|_| !messages.is_empty()).map(|violation| violation.to_string())
    }

    fn view<'a>(log: impl IntoIterator<Item = &'a Message>) -> View {
        let mut view = View::default();
        view.extend(log);
        view
    }

    /// Any message of any log: orphans, late and repeated results, reused ids, blank replies, empty call lists.
    pub(crate) fn any_message() -> impl Strategy<Value = Message> {
        let id = prop::sample::select(vec!["x", "y", "z"]);
        prop_oneof![
            Just(Message::user("u")),
            Just(Message::assistant("a")),
            Just(Message::assistant("")),
            Just(Message::system("s")),
            Just(Message::from_json(r#"{"role":"assistant","content":"e","tool_calls":[]}"#).unwrap()),
            prop::collection::vec(id.clone(), 1..4).prop_map(|ids| calls(&ids)),
            id.prop_map(|id| Message::tool(id, "r")),
            any_odd_calls(),
        ]
    }

    /// Messages with calls of which some or all cannot be answered, with and without text, and results without a call's
    /// id.
    fn any_odd_calls() -> impl Strategy<Value = Message> {
        let entry = prop::sample::select(vec![
            "null",
            "{}",
            r#"{"type":"function"}"#,
            r#"{"id":"","function":{"name":"f","arguments":""}}"#,
            r#"{"id":7,"function":{"name":"f","arguments":""}}"#,
            r#"{"id":null,"function":{"name":"f","arguments":""}}"#,
            r#"{"function":{"name":"f","arguments":""}}"#,
            r#"{"id":"x","type":"function","function":{"name":"f","arguments":""}}"#,
        ]);
        let calls = (prop::collection::vec(entry, 1..4), prop::sample::select(vec!["null", "\"t\""])).prop_map(
            |(entries, content)| {
                format!(r#"{{"role":"assistant","content":{content},"tool_calls":[{}]}}"#, entries.join(","))
            },
        );
        let list = Just(r#"{"role":"assistant","content":"t","tool_calls":"odd"}"#.to_owned());
        let result = prop::sample::select(vec!["null", "7", "\"\""])
            .prop_map(|id| format!(r#"{{"role":"tool","content":"r","tool_call_id":{id}}}"#));
        prop_oneof![4 => calls, 1 => list, 2 => result].prop_map(|json| Message::from_json(json).unwrap())
    }

    #[test]
    fn an_unanswered_call_gets_a_constant_result() {
        let log = [Message::user("u0"), calls(&["x", "y"]), Message::tool("y", "r"), Message::user("u1")];
        let (result, reply) = (Message::tool("x", ABANDONED), Message::assistant(NO_REPLY));
        let expected = [log[0].clone(), log[1].clone(), log[2].clone(), result, reply, log[3].clone()];
        assert_eq!(view(&log).messages(), expected);
    }

    #[test]
    fn late_repeated_and_orphaned_results_are_left_out() {
        let log = [
            Message::tool("x", "orphan"),
            calls(&["x"]),
            Message::tool("x", "r"),
            Message::tool("x", "again"),
            Message::assistant("a"),
            Message::tool("x", "late"),
        ];
        assert_eq!(view(&log).messages(), [log[1].clone(), log[2].clone(), log[4].clone()]);
    }

    #[test]
    fn each_of_two_calls_with_the_same_id_needs_a_result() {
        let log = [calls(&["x", "x"]), Message::tool("x", "1"), Message::user("u")];
        let (result, reply) = (Message::tool("x", ABANDONED), Message::assistant(NO_REPLY));
        let expected = [log[0].clone(), log[1].clone(), result, reply, log[2].clone()];
        assert_eq!(view(&log).messages(), expected);
    }

    #[test]
    fn reused_ids_belong_to_the_nearest_call() {
        let log = [calls(&["x"]), Message::tool("x", "1"), calls(&["x"]), Message::tool("x", "2")];
        assert_eq!(view(&log).messages(), log);
    }

    #[test]
    fn a_constant_reply_takes_the_place_of_a_blank_one_before_a_question() {
        let (one, two, blank) = (Message::user("1"), Message::user("2"), Message::assistant(""));
        let reply = Message::assistant(NO_REPLY);
        let log = [one.clone(), blank.clone(), two.clone()];
        assert_eq!(view(&log).messages(), [one.clone(), reply.clone(), two.clone()]);
        let log = [one.clone(), blank.clone(), Message::assistant("a"), two.clone()];
        assert_eq!(view(&log).messages(), [one.clone(), log[2].clone(), two.clone()]);
        let log = [one.clone(), two.clone()];
        assert_eq!(view(&log).messages(), log, "what a caller sends stays");
        let log = [one, calls(&["x"]), Message::tool("x", "r"), blank, two];
        let expected = [log[0].clone(), log[1].clone(), log[2].clone(), reply, log[4].clone()];
        assert_eq!(view(&log).messages(), expected);
    }

    #[test]
    fn a_question_of_the_next_exchange_follows_a_constant_reply_if_the_last_one_has_none() {
        let mut recorded = [vec![Message::user("1")], vec![Message::user("2"), Message::user("3")]]
            .map(|messages| Exchange::new(ExchangeId::generate(), messages));
        recorded[1].recalled = Some(Recalled::new("recalled", Vec::new()));
        let mut view = View::default();
        for (seq, exchange) in (0..).zip(recorded) {
            view.push_exchange(&Recorded::new(Seq::new(seq), exchange));
        }
        let texts: Vec<String> = view.messages().iter().map(|message| message.text().into_owned()).collect();
        assert_eq!(texts, ["1", NO_REPLY, "recalled", UNDERSTOOD, "2", "3"]);
    }

    fn in_dialect(dialect: &'static dyn Dialect, messages: &[&str]) -> Vec<String> {
        let messages: Vec<Message> = messages.iter().map(|json| Message::in_dialect(dialect, *json).unwrap()).collect();
        view(&messages).into_messages().iter().map(|message| message.json().to_owned()).collect()
    }

    #[test]
    fn a_view_that_begins_with_a_reply_gets_a_message_before_it_where_the_provider_requires_one() {
        const GREETING: &str = r#"{"role":"assistant","content":"Hello!"}"#;
        const SYSTEM: &str = r#"{"role":"system","content":"Be brief."}"#;
        const QUESTION: &str = r#"{"role":"user","content":"Hi"}"#;
        const OPENING: &str = r#"{"role":"user","content":"(no text)"}"#;
        const BLANK: &str = r#"{"role":"user","content":" "}"#;
        assert_eq!(in_dialect(&AnthropicMessages, &[GREETING, QUESTION]), [OPENING, GREETING, QUESTION]);
        assert_eq!(in_dialect(&AnthropicMessages, &[BLANK, GREETING]), [OPENING, GREETING], "the question is left out");
        assert_eq!(in_dialect(&AnthropicMessages, &[SYSTEM, GREETING]), [OPENING, SYSTEM, GREETING]);
        assert_eq!(in_dialect(&AnthropicMessages, &[QUESTION, GREETING]), [QUESTION, GREETING]);
        assert_eq!(in_dialect(&ChatCompletions, &[GREETING, QUESTION]), [GREETING, QUESTION]);
        assert!(in_dialect(&AnthropicMessages, &[]).is_empty());
    }

    proptest! {
        /// Invariant 2: valid for any log.
        #[test]
        fn the_view_of_any_log_obeys_the_chat_rules(log in prop::collection::vec(any_message(), 0..24)) {
            let mut view = view(&log);
            view.close();
            prop_assert_eq!(breaks_the_rules(view.messages()), None);
        }

        /// Invariant 2: view(log + x) = view(log) + f(state, x).
        #[test]
        fn the_view_of_a_longer_log_begins_with_the_view_of_the_shorter(log in prop::collection::vec(any_message(), 0..24), cut in 0usize..24) {
            let cut = cut.min(log.len());
            let shorter = view(&log[..cut]);
            let longer = view(&log);
            prop_assert!(longer.messages().starts_with(shorter.messages()));
            let mut rest = shorter.clone();
            rest.extend(&log[cut..]);
            prop_assert_eq!(longer.messages(), rest.messages());
        }

        #[test]
        fn a_valid_log_is_its_own_view(turns in prop::collection::vec(0usize..3, 0..6)) {
            let mut log = vec![];
            for rounds in turns {
                log.push(Message::user("u"));
                for _ in 0..rounds {
                    log.extend([calls(&["x", "y"]), Message::tool("y", "r"), Message::tool("x", "r")]);
                }
                log.push(Message::assistant("a"));
            }
            prop_assert_eq!(view(&log).into_messages(), log);
        }
    }
}
