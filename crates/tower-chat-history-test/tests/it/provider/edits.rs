//! Random edits of conversations with signed thinking: they are refused exactly if the rules say so.

use proptest::prelude::*;
use serde_json::{Value, json};
use tower_chat_history_test::{ChatProvider, Reply};

use super::{Chat, claude::BOTH, result, user};

/// A turn: the number of calls and thoughts of each round, and the thoughts of the last reply.
#[derive(Clone, Debug)]
struct Turn {
    rounds: Vec<(usize, usize)>,
    thoughts: usize,
}

/// A change of a conversation. Numbers are positions, modulo the number of candidates.
#[derive(Clone, Debug)]
enum Edit {
    DropThinking(usize),
    DropThought(usize),
    SwapThinking(usize, usize),
    ChangeThought(usize),
    ChangeText(usize),
    ChangeTools,
    Mark(usize),
    DropFirstTurn,
}

/// A message whose thinking is apart.
#[derive(Clone, Debug)]
struct Item {
    message: Value,
    marked: bool,
    thoughts: Vec<Thought>,
}

/// A thought, with the prompt that it was made under.
#[derive(Clone, Debug)]
struct Thought {
    /// Its number in the conversation.
    number: usize,
    entry: Value,
    changed: bool,
    /// The messages before it, without thinking.
    before: Vec<Value>,
}

struct Conversation {
    field: &'static str,
    items: Vec<Item>,
    other_tools: bool,
}

fn script(turns: &[Turn], open: bool) -> (Vec<Reply>, usize) {
    let mut replies = Vec::new();
    let mut calls = 0;
    let with = |reply: Reply, thoughts: usize| {
        (0..thoughts).fold(reply, |reply, at| if at % 3 == 1 { reply.redacted_thinking() } else { reply.thinking("t") })
    };
    for (at, turn) in turns.iter().enumerate() {
        for (count, thoughts) in &turn.rounds {
            let ids = calls..calls + count;
            calls += count;
            replies.push(with(Reply::calls(ids.map(|id| (format!("call_{id}"), "look", "{}"))), *thoughts));
        }
        if !(open && at + 1 == turns.len()) {
            replies.push(with(Reply::text(format!("a{at}")), turn.thoughts));
        }
    }
    (replies, calls)
}

/// Runs a conversation. If `open`, it ends with the results of the last round, and else with a question.
async fn run(provider: ChatProvider, field: &'static str, turns: &[Turn], open: bool) -> Conversation {
    let (replies, _) = script(turns, open);
    let mut chat = Chat::start(provider, replies).await;
    chat.fields["tools"] = tools(false);
    chat.messages.push(json!({ "role": "system", "content": "s" }));
    for (at, turn) in turns.iter().enumerate() {
        chat.messages.push(user(&format!("u{at}")));
        for _ in 0..=turn.rounds.len() {
            if chat.server.replies().left() == Some(0) {
                break;
            }
            let next = chat.messages.pop().unwrap();
            let reply = chat.say(next).await;
            let calls = reply["tool_calls"].as_array().cloned().unwrap_or_default();
            chat.messages.extend(calls.iter().map(|call| result(call["id"].as_str().unwrap())));
        }
    }
    if chat.messages.last().unwrap()["role"] != "tool" {
        chat.messages.push(user("more?"));
    }
    assert_eq!(chat.server.replies().left(), Some(0));
    let mut number = 0;
    let mut before = vec![tools(false)];
    let items = chat.messages.into_iter().map(|mut message| {
        let entries = message.as_object_mut().unwrap().remove(field);
        let entries = entries.into_iter().flat_map(|entries| entries.as_array().unwrap().clone());
        let thought = |entry| {
            number += 1;
            Thought { number, entry, changed: false, before: before.clone() }
        };
        let thoughts = entries.map(thought).collect();
        before.push(message.clone());
        Item { message, marked: false, thoughts }
    });
    Conversation { field, items: items.collect(), other_tools: false }
}

fn tools(other: bool) -> Value {
    json!([{ "type": "function", "function": { "name": if other { "other" } else { "look" } } }])
}

impl Conversation {
    fn edit(&mut self, edit: &Edit) {
        let thinking: Vec<usize> = (0..self.items.len()).filter(|at| !self.items[*at].thoughts.is_empty()).collect();
        let replies: Vec<usize> =
            (0..self.items.len()).filter(|at| self.items[*at].message["role"] == "assistant").collect();
        let pick = |from: &[usize], at: usize| from.get(at % from.len().max(1)).copied();
        let length = self.items.len();
        match *edit {
            Edit::DropThinking(at) => {
                pick(&thinking, at).into_iter().for_each(|at| self.items[at].thoughts.clear());
            }
            Edit::DropThought(at) => {
                if let Some(item) = pick(&thinking, at) {
                    let thoughts = &mut self.items[item].thoughts;
                    thoughts.remove(at % thoughts.len());
                }
            }
            Edit::SwapThinking(a, b) => {
                if let (Some(a), Some(b)) = (pick(&replies, a), pick(&replies, b)) {
                    let moved = std::mem::take(&mut self.items[a].thoughts);
                    let moved = std::mem::replace(&mut self.items[b].thoughts, moved);
                    self.items[a].thoughts.extend(moved);
                }
            }
            Edit::ChangeThought(at) => {
                if let Some(item) = pick(&thinking, at) {
                    let thoughts = &mut self.items[item].thoughts;
                    let index = at % thoughts.len();
                    let name =
                        ["data", "text", "thinking"].into_iter().find(|name| thoughts[index].entry[name].is_string());
                    thoughts[index].entry[name.unwrap()] = format!("changed {at}").into();
                    thoughts[index].changed = true;
                }
            }
            Edit::ChangeText(at) => self.items[at % length].message["content"] = format!("changed {at}").into(),
            Edit::ChangeTools => self.other_tools = true,
            Edit::Mark(at) => self.items[at % length].marked = true,
            Edit::DropFirstTurn => {
                let users: Vec<usize> = (0..length).filter(|at| self.items[*at].message["role"] == "user").collect();
                if let [first, second, ..] = users[..] {
                    self.items.drain(first..second);
                }
            }
        }
    }

    /// Returns the body of the request.
    fn body(&self) -> String {
        let message = |item: &Item| {
            let mut message = item.message.clone();
            if item.marked && message["content"].is_string() {
                let mark = json!({ "type": "ephemeral" });
                let text = message["content"].take();
                message["content"] = json!([{ "type": "text", "text": text, "cache_control": mark }]);
            }
            if !item.thoughts.is_empty() {
                message[self.field] = item.thoughts.iter().map(|thought| thought.entry.clone()).collect();
            }
            message
        };
        let messages: Vec<Value> = self.items.iter().map(message).collect();
        json!({ "model": "m", "tools": tools(self.other_tools), "messages": messages }).to_string()
    }

    /// Returns whether the rules allow the request.
    fn is_allowed(&self) -> bool {
        let mut before = vec![tools(self.other_tools)];
        let mut last = None;
        for item in &self.items {
            for thought in &item.thoughts {
                let follows = last.is_none_or(|last| last + 1 == thought.number);
                if thought.changed || thought.before != before || !follows {
                    return false;
                }
                last = Some(thought.number);
            }
            before.push(item.message.clone());
        }
        let is_result = |item: &&Item| item.message["role"] == "tool";
        let results = self.items.iter().rev().take_while(is_result).count();
        results == 0 || !self.items[self.items.len() - results - 1].thoughts.is_empty()
    }
}

fn turn() -> impl Strategy<Value = Turn> {
    let rounds = prop::collection::vec((1..3_usize, 0..4_usize), 0..3);
    (rounds, 0..3_usize).prop_map(|(rounds, thoughts)| Turn { rounds, thoughts })
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = || 0..64_usize;
    prop_oneof![
        3 => at().prop_map(Edit::DropThinking),
        2 => at().prop_map(Edit::DropThought),
        2 => (at(), at()).prop_map(|(a, b)| Edit::SwapThinking(a, b)),
        1 => at().prop_map(Edit::ChangeThought),
        1 => at().prop_map(Edit::ChangeText),
        1 => Just(Edit::ChangeTools),
        3 => at().prop_map(Edit::Mark),
        1 => Just(Edit::DropFirstTurn),
    ]
}

proptest! {
    #[test]
    fn edits_are_refused_exactly_if_the_rules_say_so(
        turns in prop::collection::vec(turn(), 1..4),
        edits in prop::collection::vec(edit(), 0..4),
        open: bool,
        which in 0..2_usize,
    ) {
        let (provider, field) = BOTH[which];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut conversation = runtime.block_on(run(provider, field, &turns, open));
        for edit in &edits {
            conversation.edit(edit);
        }
        let checked = provider.check(&conversation.body());
        prop_assert_eq!(checked.is_ok(), conversation.is_allowed(), "{:?} {}", checked, conversation.body());
    }
}
