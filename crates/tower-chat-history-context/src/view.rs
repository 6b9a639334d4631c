//! What of a log is sent: a fold from left to right that obeys the chat rules, whatever the log holds.
//!
//! Providers refuse a prompt in which a tool result stands without its call, a call without its result, or a reply that
//! says nothing. Logs hold all of these: an agent is cancelled between call and result, a second request overtakes the
//! first, a log is imported from elsewhere. The log is never changed for it. The view is a fold whose only state is the
//! newest round: the last assistant message with calls, as long as nothing but its results stands after it.
//!
//! - a tool result that answers one of its open calls passes; any other (late, repeated, orphaned) is left out;
//! - any other message first closes the open calls, each with a constant result that says it was abandoned;
//! - a reply that says nothing is left out;
//! - an entry of `tool_calls` that no result can answer (without an id, or no object) is left out, and with the last
//!   one the list. Text beside it stays, and a result that was meant for it is an orphan.
//!
//! So the view of a longer log begins with the view of the shorter one, byte for byte, and what a provider has cached of
//! a prompt stays valid. A repair that looks at the whole log would change bytes that were already sent.
//!
//! ```
//! use tower_chat_history_context::{Message, View};
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
//! A log is pushed exchange by exchange ([`View::push_exchange`]). Then one thing more is seen: an exchange whose reply
//! [broke off](Exchange::incomplete) after tool results, or one that has nothing but tool results, *gives way* to the
//! next exchange if that one answers the same calls again. This is what an interrupted call and its repetition leave in
//! the log. The prompt of the repetition had the round without the first attempt, and so has the view. If anything else
//! comes next, the text and the results stay.

use tower_chat_history_core::{Exchange, Message, Role, Seq};

/// The result that stands in for one that never came. Constant, so that it never changes a prompt already sent.
const ABANDONED: &str = "[no result: this call was abandoned]";

/// The messages to send for a log, built from left to right. See the [module docs](self).
#[derive(Clone, Debug, Default)]
pub struct View {
    messages: Vec<Message>,
    open: OpenCalls,
    newest: Newest,
}

/// What stands at the end of a view.
#[derive(Clone, Debug, Default)]
enum Newest {
    /// Nothing that can still change.
    #[default]
    Settled,
    /// A round: the message at this index has calls, and nothing but results of them stands after it.
    Round { asked: usize },
    /// A round, and an exchange after it that continues it and whose reply broke off.
    Partial { asked: usize, before: Mark, continues: Option<Seq> },
}

/// A view to go back to.
#[derive(Clone, Debug)]
struct Mark {
    messages: usize,
    open: OpenCalls,
}

impl View {
    /// Takes the log's next message.
    pub fn push(&mut self, message: &Message) {
        if message.is_blank_reply() {
            return;
        }
        if message.is_tool_result() {
            if self.open.answer(message) {
                self.messages.push(message.clone());
            }
            return;
        }
        self.close();
        self.open = OpenCalls::of(message);
        self.newest = if self.open.is_empty() { Newest::Settled } else { Newest::Round { asked: self.messages.len() } };
        self.messages.push(message.sendable().into_owned());
    }

    /// Takes the log's next exchange. What stands before it may [give way](self#repeated-calls) to it.
    pub fn push_exchange(&mut self, exchange: &Exchange) {
        self.push_exchange_with(exchange, |_, _| {});
    }

    /// The same; after each message, `pushed` is told how many messages there were before it. They may be fewer than
    /// there were when this was called.
    pub(crate) fn push_exchange_with(&mut self, exchange: &Exchange, mut pushed: impl FnMut(&Self, usize)) {
        self.make_way(&exchange.messages, |continues| {
            exchange.messages.first().is_some_and(|first| *first.role() == Role::Assistant)
                && continues.is_some_and(|seq| exchange.continues == Some(seq))
        });
        let partial = self.partial_of(exchange);
        for message in &exchange.messages {
            let before = self.messages.len();
            self.push(message);
            pushed(self, before);
        }
        if let (Newest::Settled, Some(partial)) = (&self.newest, partial) {
            self.newest = partial;
        }
    }

    /// Makes way for a call's input, if it repeats an attempt.
    pub(crate) fn make_way_for(&mut self, input: &[Message]) {
        self.make_way(input, |_| input.is_empty());
    }

    /// Goes back to before the attempt that the next messages repeat, if they do. `asks_again` tells whether they
    /// repeat a call that had no input, of an exchange that continues the given one.
    fn make_way(&mut self, next: &[Message], asks_again: impl Fn(Option<Seq>) -> bool) {
        let (asked, partial) = match &self.newest {
            Newest::Settled => return,
            Newest::Round { asked } => (*asked, None),
            Newest::Partial { asked, before, continues } => (*asked, Some((before, *continues))),
        };
        let results = next.iter().take_while(|message| message.is_tool_result()).count();
        let results = &next[..results];
        let mark = if results.is_empty() {
            partial
                .filter(|(before, continues)| before.open.is_empty() && asks_again(*continues))
                .map(|(before, _)| before.clone())
        } else if self.open.are_answered_by(results) {
            None
        } else {
            // An attempt is repeated whole: what it answered is answered again.
            let repeats = |open: &OpenCalls| open.len() == results.len() && open.are_answered_by(results);
            let before = partial.map(|(before, _)| before).filter(|before| repeats(&before.open)).cloned();
            before.or_else(|| {
                let open = self.messages.get(asked).map(OpenCalls::of)?;
                repeats(&open).then_some(Mark { messages: asked + 1, open })
            })
        };
        if let Some(mark) = mark {
            self.messages.truncate(mark.messages);
            self.open = mark.open;
            self.newest = Newest::Round { asked };
        }
    }

    /// What to go on with after this exchange, if its reply broke off and it continues the newest round.
    fn partial_of(&self, exchange: &Exchange) -> Option<Newest> {
        let Newest::Round { asked } = self.newest else { return None };
        let first = exchange.messages.first().filter(|_| exchange.incomplete)?;
        let continues = if self.open.is_empty() {
            *first.role() == Role::Assistant
        } else {
            self.open.are_answered_by(std::slice::from_ref(first))
        };
        let before = Mark { messages: self.messages.len(), open: self.open.clone() };
        continues.then_some(Newest::Partial { asked, before, continues: exchange.continues })
    }

    /// Gives every open call its constant result, as the next message that is no tool result would.
    pub fn close(&mut self) {
        if !self.open.is_empty() {
            self.newest = Newest::Settled;
        }
        let abandoned = self.open.0.drain(..).map(|id| Message::tool(id, ABANDONED));
        self.messages.extend(abandoned);
    }

    /// The messages so far. Open calls are still unanswered in it.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The calls of the last assistant message that have no result yet.
    #[must_use]
    pub const fn open(&self) -> &OpenCalls {
        &self.open
    }

    /// Whether all calls of the newest round have their results and the model has said nothing after them: its reply is
    /// what is missing. A call then needs no input.
    #[must_use]
    pub const fn awaits_reply(&self) -> bool {
        matches!(self.newest, Newest::Round { .. }) && self.open.is_empty()
    }

    /// The messages so far.
    #[must_use]
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }
}

impl<'a> Extend<&'a Message> for View {
    fn extend<I: IntoIterator<Item = &'a Message>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

/// The calls of one assistant message that have no result yet, in order.
///
/// Providers reuse call ids, so ids are looked up here and never in the whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCalls(Vec<Box<str>>);

impl OpenCalls {
    /// The calls that a message opens. Each waits for a result of its own, also where two have the same id.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        Self(message.tool_calls().iter().map(|call| call.id().into()).collect())
    }

    /// Whether a tool message answers one of them; that one is then no longer open.
    pub fn answer(&mut self, result: &Message) -> bool {
        let answered = self.0.iter().position(|id| Some(&**id) == result.tool_call_id());
        answered.map(|position| self.0.remove(position)).is_some()
    }

    /// Whether each of these tool messages would answer one of them, one after the other.
    #[must_use]
    pub fn are_answered_by(&self, results: &[Message]) -> bool {
        let mut answered = vec![false; self.0.len()];
        results.iter().all(|result| {
            let mut calls = self.0.iter().zip(&mut answered);
            let call = calls.find(|(id, answered)| !**answered && Some(&***id) == result.tool_call_id());
            call.map(|(_, answered)| *answered = true).is_some()
        })
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Their ids.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|id| &**id)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use tower_chat_history_test::check_chat_rules;

    use super::*;

    pub(crate) fn calls(ids: &[&str]) -> Message {
        let calls: Vec<String> = ids
            .iter()
            .map(|id| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{"}}}}"#))
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

    /// Any log: orphans, late and repeated results, reused ids, blank replies, empty call lists.
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

    /// Calls of which some, or all, cannot be answered, with or without text; and results without a call's id.
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
        let expected = [log[0].clone(), log[1].clone(), log[2].clone(), Message::tool("x", ABANDONED), log[3].clone()];
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
    fn calls_of_one_message_with_the_same_id_wait_for_a_result_each() {
        let log = [calls(&["x", "x"]), Message::tool("x", "1"), Message::user("u")];
        let expected = [log[0].clone(), log[1].clone(), Message::tool("x", ABANDONED), log[2].clone()];
        assert_eq!(view(&log).messages(), expected);
    }

    #[test]
    fn reused_ids_belong_to_the_nearest_call() {
        let log = [calls(&["x"]), Message::tool("x", "1"), calls(&["x"]), Message::tool("x", "2")];
        assert_eq!(view(&log).messages(), log);
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
            let (shorter, longer) = (view(&log[..cut]), view(&log));
            prop_assert!(longer.messages().starts_with(shorter.messages()));
            let mut rest = View { open: shorter.open().clone(), ..View::default() };
            rest.extend(&log[cut..]);
            prop_assert_eq!(&longer.messages()[shorter.messages().len()..], rest.messages());
        }

        #[test]
        fn what_is_valid_passes_unchanged(turns in prop::collection::vec(0usize..3, 0..6)) {
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
