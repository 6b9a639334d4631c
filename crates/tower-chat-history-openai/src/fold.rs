//! Folding a stream's deltas into the reply.

use std::collections::BTreeSet;

use async_openai::types::chat::{
    ChatChoiceStream, ChatCompletionMessageToolCallChunk, ChatCompletionStreamResponseDelta,
    CreateChatCompletionStreamResponse, FunctionCallStream,
};
use serde::Serialize;
use tower_chat_history::{
    Message, Reply, Usage,
    adapt::{Flow, FoldReply},
};

use crate::from_typed;

/// Collects the first choice: its text, refusal and tool calls, which arrive in pieces and, when parallel, interleaved.
#[derive(Debug)]
pub(crate) struct ReplyFold {
    /// How many choices must end.
    choices: usize,
    ended: BTreeSet<u32>,
    content: Option<String>,
    refusal: Option<String>,
    /// By index, and in the order of arrival where a provider gives all the same index.
    calls: Vec<(u32, Call)>,
    function_call: Option<Function>,
    model: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
}

#[derive(Debug, Default, Serialize)]
struct Call {
    id: String,
    r#type: &'static str,
    function: Function,
}

#[derive(Debug, Default, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

/// The reply in the form that an unary response has.
#[derive(Serialize)]
struct Assistant<'a> {
    role: &'static str,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<&'a Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<&'a Function>,
}

impl ReplyFold {
    pub(crate) const fn new(choices: usize) -> Self {
        Self {
            choices,
            ended: BTreeSet::new(),
            content: None,
            refusal: None,
            calls: Vec::new(),
            function_call: None,
            model: None,
            finish_reason: None,
            usage: None,
        }
    }

    fn push_choice(&mut self, choice: &ChatChoiceStream) {
        if choice.index == 0 {
            self.push_delta(&choice.delta);
        }
        if let Some(reason) = &choice.finish_reason {
            self.ended.insert(choice.index);
            if choice.index == 0 {
                self.finish_reason = from_typed::finish_reason(reason);
            }
        }
    }

    #[allow(deprecated)] // `function_call` is old, but some providers still stream it.
    fn push_delta(&mut self, delta: &ChatCompletionStreamResponseDelta) {
        append(&mut self.content, delta.content.as_deref());
        append(&mut self.refusal, delta.refusal.as_deref());
        for chunk in delta.tool_calls.iter().flatten() {
            self.push_call(chunk);
        }
        if let Some(piece) = &delta.function_call {
            self.function_call.get_or_insert_default().push(piece);
        }
    }

    fn push_call(&mut self, chunk: &ChatCompletionMessageToolCallChunk) {
        let id = chunk.id.as_deref().unwrap_or_default();
        // Some compatible providers number every parallel call 0: another id is then another call.
        let same = |(index, call): &(u32, Call)| {
            *index == chunk.index && (id.is_empty() || call.id.is_empty() || call.id == id)
        };
        let at = self.calls.iter().rposition(same).unwrap_or_else(|| {
            let at = self.calls.partition_point(|(index, _)| *index <= chunk.index);
            self.calls.insert(at, (chunk.index, Call { r#type: "function", ..Call::default() }));
            at
        });
        let (_, call) = &mut self.calls[at];
        if !id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if let Some(piece) = &chunk.function {
            call.function.push(piece);
        }
    }

    fn message(&self, with_calls: bool) -> Option<Message> {
        let reply = Assistant {
            role: "assistant",
            content: self.content.as_deref(),
            refusal: self.refusal.as_deref(),
            tool_calls: self.calls.iter().map(|(_, call)| call).filter(|_| with_calls).collect(),
            function_call: self.function_call.as_ref().filter(|_| with_calls),
        };
        Message::from_serialize(&reply).ok()
    }

    fn with_message(&self, message: Option<Message>) -> Reply {
        let mut reply = Reply::default();
        reply.message = message;
        reply.model.clone_from(&self.model);
        reply.finish_reason.clone_from(&self.finish_reason);
        reply.usage = self.usage;
        reply
    }
}

impl Function {
    fn push(&mut self, piece: &FunctionCallStream) {
        // Some providers repeat the name in every piece, none sends it in parts.
        if let Some(name) = piece.name.as_ref().filter(|name| !name.is_empty()) {
            self.name.clone_from(name);
        }
        self.arguments.push_str(piece.arguments.as_deref().unwrap_or_default());
    }
}

fn append(text: &mut Option<String>, piece: Option<&str>) {
    if let Some(piece) = piece {
        text.get_or_insert_default().push_str(piece);
    }
}

impl FoldReply<CreateChatCompletionStreamResponse> for ReplyFold {
    fn push(&mut self, chunk: &CreateChatCompletionStreamResponse) -> Flow {
        if self.model.is_none() && !chunk.model.is_empty() {
            self.model = Some(chunk.model.clone());
        }
        if let Some(usage) = &chunk.usage {
            self.usage = Some(from_typed::usage(usage));
        }
        for choice in &chunk.choices {
            self.push_choice(choice);
        }
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        self.ended.len() >= self.choices.max(1)
    }

    fn is_whole(&self) -> bool {
        self.ended.contains(&0)
    }

    fn reply(&self) -> Reply {
        self.with_message(self.message(true))
    }

    fn partial(&self) -> Option<Reply> {
        let said = [&self.content, &self.refusal].into_iter().flatten().any(|text| !text.is_empty());
        let mut reply = said.then(|| self.with_message(self.message(false)))?;
        reply.incomplete = true;
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn folded(choices: usize, chunks: &[Value]) -> ReplyFold {
        let mut fold = ReplyFold::new(choices);
        for chunk in chunks {
            let mut full =
                json!({"id": "c", "created": 0, "model": "m", "object": "chat.completion.chunk", "choices": []});
            full.as_object_mut().unwrap().extend(chunk.as_object().unwrap().clone());
            fold.push(&serde_json::from_value(full).unwrap());
        }
        fold
    }

    fn delta(index: u32, delta: &Value) -> Value {
        json!({"choices": [{"index": index, "delta": delta}]})
    }

    fn stop(index: u32, reason: &str) -> Value {
        json!({"choices": [{"index": index, "delta": {}, "finish_reason": reason}]})
    }

    #[test]
    fn text_is_complete_at_its_finish_reason_and_usage_still_comes() {
        let chunks = [
            delta(0, &json!({"role": "assistant", "content": ""})),
            delta(0, &json!({"content": "Hel"})),
            delta(0, &json!({"content": "lo"})),
            stop(0, "length"),
            json!({"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}),
        ];
        assert!(!folded(1, &chunks[..3]).is_complete());
        assert!(folded(1, &chunks[..4]).is_complete());
        let reply = folded(1, &chunks).reply();
        assert_eq!(reply.message.unwrap().json(), r#"{"role":"assistant","content":"Hello"}"#);
        assert_eq!((reply.finish_reason.as_deref(), reply.usage), (Some("length"), Some(Usage::new(5, 2))));
    }

    #[test]
    fn parallel_calls_are_put_together_by_index() {
        let call = |index: u32, call: Value| {
            let mut call = call;
            call["index"] = index.into();
            delta(0, &json!({"tool_calls": [call]}))
        };
        let fold = folded(
            1,
            &[
                call(0, json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": ""}})),
                call(1, json!({"id": "y", "type": "function", "function": {"name": "g", "arguments": "{"}})),
                call(0, json!({"function": {"arguments": "{\"a\":"}})),
                call(1, json!({"function": {"arguments": "}"}})),
                call(0, json!({"id": "", "function": {"name": "", "arguments": "1}"}})),
                stop(0, "tool_calls"),
            ],
        );
        let message = fold.reply().message.unwrap();
        let calls: Vec<_> = message.tool_calls().iter().map(|c| (c.id(), c.name(), c.arguments())).collect();
        assert_eq!(calls, [("x", "f", "{\"a\":1}"), ("y", "g", "{}")]);
        assert!(message.json().contains(r#""content":null"#));
    }

    #[test]
    fn calls_that_share_an_index_are_told_apart_by_id() {
        let call = |id: &str, arguments: &str| {
            let call = json!({"index": 0, "id": id, "function": {"name": "f", "arguments": arguments}});
            delta(0, &json!({"tool_calls": [call]}))
        };
        let fold = folded(1, &[call("x", "1"), call("y", "{"), call("", "}"), call("y", "."), stop(0, "tool_calls")]);
        let message = fold.reply().message.unwrap();
        let calls: Vec<_> = message.tool_calls().iter().map(|c| (c.id(), c.arguments())).collect();
        assert_eq!(calls, [("x", "1"), ("y", "{}.")]);
    }

    #[test]
    fn a_refusal_is_a_reply() {
        let reply = folded(1, &[delta(0, &json!({"refusal": "No."})), stop(0, "stop")]).reply();
        assert_eq!(reply.message.unwrap().json(), r#"{"role":"assistant","content":null,"refusal":"No."}"#);
    }

    #[test]
    fn several_choices_are_complete_together_and_the_first_is_kept() {
        let chunks =
            [delta(1, &json!({"content": "b"})), stop(1, "stop"), delta(0, &json!({"content": "a"})), stop(0, "stop")];
        assert!(!folded(2, &chunks[..3]).is_complete());
        let fold = folded(2, &chunks);
        assert!(fold.is_complete());
        assert_eq!(fold.reply().message.unwrap().text(), "a");
    }

    #[test]
    fn a_partial_reply_has_text_and_no_half_calls() {
        let call =
            delta(0, &json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{"}}]}));
        assert_eq!(folded(1, std::slice::from_ref(&call)).partial(), None);
        let partial = folded(1, &[delta(0, &json!({"content": "Let me"})), call]).partial().unwrap();
        assert!(partial.incomplete);
        assert_eq!(partial.message.unwrap().json(), r#"{"role":"assistant","content":"Let me"}"#);
    }
}
