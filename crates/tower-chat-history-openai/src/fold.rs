//! Folding a stream of typed chunks into a reply.

use async_openai::types::chat::{
    ChatChoiceStream, ChatCompletionMessageToolCallChunk, ChatCompletionStreamAudio, CompletionUsage,
    CreateChatCompletionStreamResponse, FinishReason, FunctionCallStream, Role,
};
use serde::Serialize;
use tower_chat_history::{
    Reply,
    adapt::{Flow, FoldReply, completion::ChunkFold},
};

/// The fold that all adapters share, with typed chunks as its input.
#[derive(Debug)]
pub(crate) struct TypedFold(ChunkFold);

impl TypedFold {
    pub(crate) fn new(choices: usize) -> Self {
        Self(ChunkFold::new(choices))
    }
}

impl FoldReply<CreateChatCompletionStreamResponse> for TypedFold {
    fn push(&mut self, chunk: &CreateChatCompletionStreamResponse) -> Flow {
        self.0.push_value(&Chunk::of(chunk));
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    fn reply(&self) -> Reply {
        self.0.reply()
    }

    fn partial(&self) -> Option<Reply> {
        self.0.partial()
    }
}

/// The fields of a chunk that are stored. async-openai's types serialize a missing field as null. This type leaves it
/// out.
#[derive(Serialize)]
struct Chunk<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a CompletionUsage>,
    choices: Vec<Choice<'a>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    delta: Delta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a FinishReason>,
}

#[derive(Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<&'a FunctionCallStream>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio: Option<&'a ChatCompletionStreamAudio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<&'a [ChatCompletionMessageToolCallChunk]>,
}

impl<'a> Chunk<'a> {
    fn of(chunk: &'a CreateChatCompletionStreamResponse) -> Self {
        let choices = chunk.choices.iter().map(Choice::of).collect();
        Self { model: &chunk.model, usage: chunk.usage.as_ref(), choices }
    }
}

impl<'a> Choice<'a> {
    #[allow(deprecated)] // `function_call` is old, but some providers still stream it.
    fn of(choice: &'a ChatChoiceStream) -> Self {
        let delta = &choice.delta;
        Self {
            index: choice.index,
            delta: Delta {
                role: delta.role.as_ref(),
                content: delta.content.as_deref(),
                refusal: delta.refusal.as_deref(),
                function_call: delta.function_call.as_ref(),
                audio: delta.audio.as_ref(),
                tool_calls: delta.tool_calls.as_deref(),
            },
            finish_reason: choice.finish_reason.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tower_chat_history::store::Usage;

    use super::*;

    fn folded(choices: usize, chunks: &[Value]) -> TypedFold {
        let mut fold = TypedFold::new(choices);
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
        assert_eq!(reply.message().unwrap().json(), r#"{"role":"assistant","content":"Hello"}"#);
        assert_eq!((reply.finish_reason.as_deref(), reply.usage), (Some("length"), Some(Usage::new(5, 2))));
    }

    #[test]
    fn parallel_calls_are_joined_by_index() {
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
        let message = fold.reply().message().cloned().unwrap();
        let calls: Vec<_> = message.tool_calls().iter().map(|c| (c.id(), c.name(), c.arguments())).collect();
        assert_eq!(calls, [("x", "f", "{\"a\":1}"), ("y", "g", "{}")]);
        assert!(message.json().contains(r#""content":null"#));
    }

    #[test]
    fn calls_with_the_same_index_are_distinguished_by_id() {
        let call = |id: &str, arguments: &str| {
            let call = json!({"index": 0, "id": id, "function": {"name": "f", "arguments": arguments}});
            delta(0, &json!({"tool_calls": [call]}))
        };
        let fold = folded(1, &[call("x", "1"), call("y", "{"), call("", "}"), call("y", "."), stop(0, "tool_calls")]);
        let message = fold.reply().message().cloned().unwrap();
        let calls: Vec<_> = message.tool_calls().iter().map(|c| (c.id(), c.arguments())).collect();
        assert_eq!(calls, [("x", "1"), ("y", "{}.")]);
    }

    #[test]
    fn a_refusal_is_a_reply() {
        let reply = folded(1, &[delta(0, &json!({"refusal": "No."})), stop(0, "stop")]).reply();
        assert_eq!(reply.message().unwrap().json(), r#"{"role":"assistant","content":null,"refusal":"No."}"#);
    }

    #[test]
    fn several_choices_are_complete_together_and_the_first_is_kept() {
        let chunks =
            [delta(1, &json!({"content": "b"})), stop(1, "stop"), delta(0, &json!({"content": "a"})), stop(0, "stop")];
        assert!(!folded(2, &chunks[..3]).is_complete());
        let fold = folded(2, &chunks);
        assert!(fold.is_complete());
        assert_eq!(fold.reply().message().unwrap().text(), "a");
    }

    #[test]
    fn a_partial_reply_has_text_and_no_incomplete_calls() {
        let call =
            delta(0, &json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{"}}]}));
        assert_eq!(folded(1, std::slice::from_ref(&call)).partial(), None);
        let partial = folded(1, &[delta(0, &json!({"content": "Let me"})), call]).partial().unwrap();
        assert!(partial.incomplete);
        assert_eq!(partial.message().unwrap().json(), r#"{"role":"assistant","content":"Let me"}"#);
    }
}
