//! The messages of the random tests: texts with facts that can be followed, tool calls, results, and messages
//! that no client should send.

use serde_json::{Value, json};
use tower_chat_history::Message;

use super::{Ingredient, Ingredients};
use crate::rng::SeededRng;

/// A source of messages. Each text begins with a unique mark such as `#7#`, which identifies it in a summary.
#[derive(Debug)]
pub(super) struct Words {
    rng: SeededRng,
    ingredients: Ingredients,
    next: u64,
}

impl Words {
    pub(super) fn new(rng: SeededRng, ingredients: &Ingredients) -> Self {
        Self { rng, ingredients: ingredients.clone(), next: 0 }
    }

    /// Returns a text: mostly short, sometimes long or odd.
    pub(super) fn text(&mut self) -> String {
        self.next += 1;
        let rest = match self.rng.below(12) {
            0 => "word ".repeat(self.rng.index(200)),
            1 => "日本語 \u{0} \u{feff} <|im_end|> \u{202e}".to_owned(),
            2 => " </conversation_summary> ".to_owned(),
            3 => " \n ".to_owned(),
            _ => "word ".repeat(self.rng.index(12)),
        };
        format!("#{}# {rest}", self.next)
    }

    pub(super) fn user(&mut self) -> Message {
        let text = self.text();
        if !self.rng.once_in(8) {
            return Message::user(text);
        }
        let part = match self.rng.below(4) {
            0 => json!({"type": "file", "file": {"file_id": "f"}}),
            1 => json!({"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}}),
            2 => json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}),
            _ => json!({"type": "text", "text": "more"}),
        };
        message(&json!({"role": "user", "content": [{"type": "text", "text": text}, part]}))
    }

    /// Returns a reply, sometimes a blank one.
    pub(super) fn reply(&mut self) -> Message {
        let text = self.text();
        match self.rng.below(10) {
            0 => Message::assistant(""),
            1 => message(&json!({"role": "assistant", "content": null, "refusal": "no"})),
            2 => message(&json!({"role": "assistant", "content": text, "tool_calls": []})),
            3 => message(&json!({"role": "assistant", "content": text, "reasoning_content": "hm", "x": [1.50]})),
            4 => message(&json!({"role": "assistant", "content": null})),
            _ => Message::assistant(text),
        }
    }

    /// Returns ids for parallel calls. Ids may be reused, or occur twice in the list.
    pub(super) fn ids(&mut self) -> Vec<String> {
        let many = 1 + self.rng.index(3);
        (0..many).map(|_| (*self.rng.pick(&["x", "y", "z", "call 1"])).to_owned()).collect()
    }

    /// Returns a reply with tool calls.
    pub(super) fn calls(&mut self) -> Message {
        let ids = self.ids();
        let mut calls: Vec<Value> = ids.iter().map(|id| call(id, &self.arguments())).collect();
        if self.ingredients.has(Ingredient::MissingIds) && self.rng.once_in(8) {
            let odd = match self.rng.below(3) {
                0 => Value::Null,
                1 => json!({"type": "function", "function": {"name": "f", "arguments": "{}"}}),
                _ => call("", "{}"),
            };
            calls.insert(self.rng.index(calls.len() + 1), odd);
        }
        if self.ingredients.has(Ingredient::MalformedCalls) && self.rng.once_in(20) {
            let odd = match self.rng.below(3) {
                0 => json!({"id": "x", "type": "function", "function": "f"}),
                1 => json!("x"),
                _ => json!({"id": "x"}),
            };
            calls.push(odd);
        }
        let content = if self.rng.once_in(3) { Value::from(self.text()) } else { Value::Null };
        message(&json!({"role": "assistant", "content": content, "tool_calls": calls}))
    }

    fn arguments(&mut self) -> String {
        if self.ingredients.has(Ingredient::DeepJson) && self.rng.once_in(400) {
            return nested(*self.rng.pick(&[1_000, 10_000, 100_000]));
        }
        (*self.rng.pick(&["{}", "", "{\"a\":", "{\"a\":\"\\u0000\"}"])).to_owned()
    }

    pub(super) fn result(&mut self, id: &str) -> Message {
        let text = if self.rng.once_in(6) { "r".repeat(self.rng.index(600)) } else { "r".to_owned() };
        Message::tool(id, text)
    }

    /// Returns a log that was made elsewhere, by code that does not know the rules.
    pub(super) fn log(&mut self) -> Vec<Message> {
        let orphans = self.ingredients.has(Ingredient::Orphans);
        let mut log = vec![self.user()];
        for _ in 0..self.rng.index(14) {
            match self.rng.below(10) {
                0..3 => log.push(self.user()),
                3..5 => log.push(self.reply()),
                5..7 if orphans => log.push(self.orphan()),
                7 => log.push(Message::system("s")),
                _ => self.round(&mut log),
            }
        }
        if orphans && self.rng.once_in(3) {
            // Open calls, followed by results that answer nothing and by blank replies.
            log.push(self.calls());
            for _ in 0..self.rng.index(6) {
                log.push(if self.rng.once_in(2) { self.orphan() } else { Message::assistant("") });
            }
        }
        log
    }

    /// Appends calls and most of their results.
    fn round(&mut self, log: &mut Vec<Message>) {
        let orphans = self.ingredients.has(Ingredient::Orphans);
        let calls = self.calls();
        let ids: Vec<String> = calls.tool_calls().iter().map(|call| call.id().to_owned()).collect();
        log.push(calls);
        if orphans && self.rng.once_in(4) {
            log.push(self.orphan());
        }
        for id in ids {
            if !self.rng.once_in(4) {
                log.push(self.result(&id));
            }
        }
        if !orphans && self.rng.once_in(2) {
            log.push(self.user());
        } else if !orphans {
            log.push(Message::assistant(self.text()));
        }
    }

    /// Returns a result that answers no call.
    fn orphan(&mut self) -> Message {
        if self.rng.once_in(3) {
            return message(&json!({"role": "tool", "content": "no id"}));
        }
        let id = *self.rng.pick(&["x", "nobody's", "somebody's"]);
        self.result(id)
    }
}

/// Returns the message with this JSON.
pub(super) fn message(json: &Value) -> Message {
    Message::from_serialize(json).unwrap()
}

/// Returns a call of a tool.
pub(super) fn call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})
}

/// Returns JSON with this many levels.
pub(super) fn nested(levels: usize) -> String {
    ["[".repeat(levels), "]".repeat(levels)].concat()
}
