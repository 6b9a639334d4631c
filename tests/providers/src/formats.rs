//! The three formats of requests and responses, for tests that must hold in each of them.

#![allow(clippy::unwrap_used)] // It writes what it reads.

use serde_json::{Value, json};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Chat completions.
    Chat,
    /// Anthropic's Messages API.
    Messages,
    /// OpenAI's Responses API.
    Responses,
}

impl Api {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Messages, Self::Responses];

    /// Returns the path of requests.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
        }
    }

    /// Returns the name of the list of messages.
    #[must_use]
    pub const fn list(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "messages",
            Self::Responses => "input",
        }
    }

    /// Returns the same name, as JSON may spell it, too.
    #[must_use]
    pub const fn escaped_list(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => r"mess\u0061ges",
            Self::Responses => r"\u0069nput",
        }
    }

    /// Returns a message of the user. It is the same in all formats.
    #[must_use]
    pub fn user(text: &str) -> String {
        json!({"role": "user", "content": text}).to_string()
    }

    /// Returns the body of a request with these messages.
    #[must_use]
    pub fn body(self, messages: &[&str], streams: bool) -> String {
        let list = self.list();
        format!(r#"{{"model":"m","max_tokens":9,"{list}":[{}],"stream":{streams}}}"#, messages.join(","))
    }

    /// Returns the message of a reply with this text.
    #[must_use]
    pub fn said(self, text: &str) -> String {
        let text = Value::from(text);
        match self {
            Self::Chat => format!(r#"{{"role":"assistant","content":{text}}}"#),
            Self::Messages => format!(r#"{{"role":"assistant","content":[{{"type":"text","text":{text}}}]}}"#),
            Self::Responses => {
                let part = format!(r#"{{"type":"output_text","text":{text},"annotations":[]}}"#);
                format!(r#"{{"type":"message","id":"msg_1","role":"assistant","content":[{part}]}}"#)
            }
        }
    }

    /// Returns the message of a reply with a call of this id.
    #[must_use]
    pub fn call(self, id: &str) -> String {
        match self {
            Self::Chat => {
                let function = r#""type":"function","function":{"name":"f","arguments":"{}"}"#;
                format!(r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}",{function}}}]}}"#)
            }
            Self::Messages => {
                let call = format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}"#);
                format!(r#"{{"role":"assistant","content":[{call}]}}"#)
            }
            Self::Responses => format!(r#"{{"type":"function_call","call_id":"{id}","name":"f","arguments":"{{}}"}}"#),
        }
    }

    /// Returns the message, or the items, of a reply with sealed reasoning and a call of this id.
    #[must_use]
    pub fn reasoned_call(self, id: &str) -> String {
        let call = self.call(id);
        match self {
            Self::Chat => {
                let block = r#"{"type":"thinking","thinking":"hm","signature":"c2VjcmV0"}"#;
                call.replacen(r#""tool_calls""#, &format!(r#""thinking_blocks":[{block}],"tool_calls""#), 1)
            }
            Self::Messages => {
                let block = r#"{"type":"thinking","thinking":"hm","signature":"c2VjcmV0"}"#;
                call.replacen('[', &format!("[{block},"), 1)
            }
            Self::Responses => {
                format!(r#"{{"type":"reasoning","id":"rs_{id}","summary":[],"encrypted_content":"c2VjcmV0"}},{call}"#)
            }
        }
    }

    /// Returns the message with the result of a call.
    #[must_use]
    pub fn result(self, id: &str, text: &str) -> String {
        match self {
            Self::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
            Self::Messages => {
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
                json!({"role": "user", "content": [result]})
            }
            Self::Responses => json!({"type": "function_call_output", "call_id": id, "output": text}),
        }
        .to_string()
    }

    /// Returns the finish reason of a reply with calls.
    #[must_use]
    pub const fn stop_for_calls(self) -> &'static str {
        match self {
            Self::Chat => "tool_calls",
            Self::Messages => "tool_use",
            Self::Responses => "completed",
        }
    }

    /// Returns the finish reason of a complete reply.
    #[must_use]
    pub const fn stop(self) -> &'static str {
        match self {
            Self::Chat => "stop",
            Self::Messages => "end_turn",
            Self::Responses => "completed",
        }
    }

    /// Returns the whole response with this message.
    #[must_use]
    pub fn whole(self, message: &str, reason: &str) -> String {
        match self {
            Self::Chat => {
                format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"{reason}"}}]}}"#)
            }
            Self::Messages => {
                let content = message.split_once(r#""content":"#).unwrap().1.strip_suffix('}').unwrap();
                let usage = r#"{"input_tokens":3,"output_tokens":1}"#;
                let content = format!(r#""content":{content},"stop_reason":"{reason}","usage":{usage}"#);
                format!(r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m",{content}}}"#)
            }
            Self::Responses if reason == "completed" => {
                format!(r#"{{"object":"response","status":"completed","output":[{message}]}}"#)
            }
            Self::Responses => {
                let details = format!(r#""incomplete_details":{{"reason":"{reason}"}}"#);
                format!(r#"{{"object":"response","status":"incomplete",{details},"output":[{message}]}}"#)
            }
        }
    }

    /// Returns the events of a stream that says these pieces. The last one is that after which clients stop reading.
    #[must_use]
    pub fn events(self, pieces: &[&str]) -> Vec<String> {
        self.events_to(pieces, self.stop())
    }

    /// Returns the events of a stream that ends with this reason.
    #[must_use]
    pub fn events_to(self, pieces: &[&str], reason: &str) -> Vec<String> {
        let text = pieces.concat();
        match self {
            Self::Chat => {
                let choice = |delta: Value, reason: Value| {
                    event("", &json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))
                };
                let deltas = pieces.iter().map(|piece| choice(json!({"content": piece}), Value::Null));
                deltas.chain([choice(json!({}), reason.into()), "data: [DONE]\n\n".into()]).collect()
            }
            Self::Messages => {
                let message = json!({"role": "assistant", "content": [], "usage": {"input_tokens": 3}});
                let mut events = vec![json!({"type": "message_start", "message": message})];
                for piece in pieces {
                    let delta = json!({"type": "text_delta", "text": piece});
                    events.push(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
                }
                events.push(json!({"type": "content_block_stop", "index": 0}));
                events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}}));
                events.push(json!({"type": "message_stop"}));
                let mut events: Vec<String> = events.iter().map(typed).collect();
                // The members of a block keep their order.
                let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
                events.insert(1, format!("event: content_block_start\ndata: {start}\n\n"));
                events
            }
            Self::Responses => {
                let item = self.said(&text);
                let mut events = vec![typed(&json!({"type": "response.created", "response": {"output": []}}))];
                for piece in pieces {
                    events
                        .push(typed(&json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece})));
                }
                let done = "response.output_item.done";
                events.push(format!(
                    "event: {done}\ndata: {{\"type\":\"{done}\",\"output_index\":0,\"item\":{item}}}\n\n"
                ));
                let end = if reason == "completed" { "response.completed" } else { "response.incomplete" };
                let whole = self.whole(&item, reason);
                events.push(format!("event: {end}\ndata: {{\"type\":\"{end}\",\"response\":{whole}}}\n\n"));
                events
            }
        }
    }

    /// Returns the event of an error within a stream.
    #[must_use]
    pub fn error_event(self) -> String {
        let error = json!({"type": "overloaded_error", "message": "busy"});
        match self {
            Self::Chat => event("", &json!({"error": error})),
            Self::Messages => typed(&json!({"type": "error", "error": error})),
            Self::Responses => typed(&json!({"type": "error", "code": "server_error", "message": "busy"})),
        }
    }
}

/// Returns an event that is named after its type.
fn typed(data: &Value) -> String {
    event(data["type"].as_str().unwrap(), data)
}

fn event(name: &str, data: &Value) -> String {
    let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
    format!("{name}data: {data}\n\n")
}
