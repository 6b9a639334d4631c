//! The three APIs: their requests, questions and results, and the replies of their providers.

use std::collections::HashSet;

use serde_json::{Value, json};
use tower_chat_history::{
    Message,
    dialect::{AnthropicMessages, CallId, ChatCompletions, Dialect, OpenAiResponses},
};
use tower_chat_history_test::{
    ChatProvider,
    messages::{MessagesProvider, Say},
    responses::{self, CallType, ResponsesProvider},
};

use super::case::{Api, Question, Results, Said, Setup};

const IMAGE: &str = "data:image/png;base64,AA==";
const PDF: &str = "data:application/pdf;base64,AA==";

impl Api {
    pub(super) fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::Chat => &ChatCompletions,
            Self::Messages => &AnthropicMessages,
            Self::Responses => &OpenAiResponses,
        }
    }

    pub(super) fn message(self, json: &Value) -> Message {
        Message::in_dialect(self.dialect(), json.to_string()).unwrap()
    }

    pub(super) fn question(self, form: Question, text: &str) -> Vec<Message> {
        let said = |role: &str| match self {
            Self::Chat | Self::Messages => json!({"role": role, "content": text}),
            Self::Responses => json!({"type": "message", "role": role, "content": text}),
        };
        let media = match (self, form) {
            // The format of Anthropic has system messages only at other places.
            (_, Question::Text) | (Self::Messages, Question::WithInstruction) => {
                return vec![self.message(&said("user"))];
            }
            (_, Question::WithInstruction) => {
                let instruction = json!({"type": "message", "role": "developer", "content": "Be brief."});
                let chat = json!({"role": "system", "content": "Be brief."});
                let instruction = if self == Self::Chat { chat } else { instruction };
                return vec![self.message(&said("user")), self.message(&instruction)];
            }
            (Self::Chat, Question::WithImage) => json!({"type": "image_url", "image_url": {"url": IMAGE}}),
            (Self::Chat, Question::WithFile) => {
                json!({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}})
            }
            (Self::Messages, Question::WithImage) => {
                json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}})
            }
            (Self::Messages, Question::WithFile) => {
                json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}})
            }
            (Self::Responses, Question::WithImage) => json!({"type": "input_image", "file_id": "file-1"}),
            (Self::Responses, Question::WithFile) => {
                json!({"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,AA=="})
            }
        };
        let text = json!({"type": if self == Self::Responses { "input_text" } else { "text" }, "text": text});
        vec![self.message(&json!({"role": "user", "content": [text, media]}))]
    }

    /// Returns the results of calls, with these texts.
    pub(super) fn results(self, calls: &[CallId], form: Results, texts: &[String]) -> Vec<Message> {
        let texts = texts.iter().map(|text| if matches!(form, Results::Empty) { "" } else { text });
        let calls = calls.iter().zip(texts);
        match self {
            Self::Chat => calls
                .map(|(call, text)| json!({"role": "tool", "tool_call_id": call.as_str(), "content": text}))
                .map(|result| self.message(&result))
                .collect(),
            Self::Messages => {
                let image =
                    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}});
                let result = |(call, text): (&CallId, &str)| {
                    let content = match form {
                        Results::WithImage => json!([{"type": "text", "text": text}, image]),
                        Results::Text | Results::Empty => json!(text),
                    };
                    json!({"type": "tool_result", "tool_use_id": call.as_str(), "content": content})
                };
                vec![self.message(&json!({"role": "user", "content": calls.map(result).collect::<Vec<_>>()}))]
            }
            Self::Responses => {
                let result = |(call, text): (&CallId, &str)| {
                    // The constant result has the form of the call's kind.
                    let abandoned = OpenAiResponses.abandoned(call);
                    let mut item: Value = serde_json::from_str(&abandoned).unwrap();
                    if item["output"].is_string() {
                        item["output"] = match form {
                            Results::WithImage => {
                                json!([{"type": "input_text", "text": text}, {"type": "input_image", "image_url": IMAGE}])
                            }
                            Results::Text | Results::Empty => json!(text),
                        };
                    }
                    self.message(&item)
                };
                calls.map(result).collect()
            }
        }
    }
}

/// The providers of the three APIs.
pub(super) struct Providers {
    chat: ChatProvider,
    thinks: bool,
    messages: MessagesProvider,
    responses: ResponsesProvider,
    /// The number of calls so far.
    calls: u64,
}

impl Providers {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            chat: if setup.deepseek { ChatProvider::DeepSeek } else { ChatProvider::OpenAi },
            thinks: setup.thinks,
            messages: MessagesProvider::new("acme"),
            responses: ResponsesProvider::new("acme"),
            calls: 0,
        }
    }

    /// Sends a prompt. Returns the elements of the reply, or the refusal with the body.
    pub(super) fn call(
        &mut self,
        api: Api,
        prompt: &[Message],
        script: &[Said],
        text: &str,
    ) -> Result<Vec<Message>, String> {
        let prompt: Vec<&str> = prompt.iter().map(Message::json).collect();
        let prompt = prompt.join(",");
        let made = match api {
            Api::Chat => {
                let body = format!(r#"{{"model":"m","messages":[{prompt}]}}"#);
                self.chat.check(&body).map_err(|refusal| format!("{refusal}\n{body}"))?;
                vec![self.chat_reply(script, text)]
            }
            Api::Messages => {
                let thinking = if self.thinks { r#","thinking":{"type":"enabled","budget_tokens":1024}"# } else { "" };
                let body = format!(r#"{{"model":"claude","max_tokens":9,"messages":[{prompt}]{thinking}}}"#);
                let says = self.says(script, text);
                let made = self.messages.reply(&body, &says).map_err(|refusal| format!("{refusal}\n{body}"))?;
                let made: Value = serde_json::from_str(&made.body()).unwrap();
                vec![json!({"role": "assistant", "content": made["content"]}).to_string()]
            }
            Api::Responses => {
                let body = format!(r#"{{"model":"gpt-5.5","store":false,"input":[{prompt}]}}"#);
                let made = self.responses.reply(&body, &outputs(script, text));
                made.map_err(|refusal| format!("{refusal}\n{body}"))?.output
            }
        };
        Ok(made.into_iter().map(|json| Message::in_dialect(api.dialect(), json).unwrap()).collect())
    }

    fn chat_reply(&self, script: &[Said], text: &str) -> String {
        // OpenAI's ids have at most 64 characters and are unique in a reply. Those of others are not.
        let of_openai = self.chat == ChatProvider::OpenAi;
        let mut used = HashSet::new();
        let call = |(at, (kind, id)): (usize, (usize, &str))| {
            let long = format!("call_{}", "0".repeat((20 * (kind % 5)).min(if of_openai { 55 } else { 80 })));
            let id = if kind % 3 < 2 { id.to_owned() } else { long };
            let id = if used.insert(id.clone()) || !of_openai { id } else { format!("{id}_{at}") };
            match kind % 3 {
                0 => json!({"id": id, "type": "custom", "custom": {"name": "g", "input": "a"}}),
                1 => {
                    json!({"id": id, "type": "function", "function": {"name": "mcp.look", "arguments": "{\"a\""}})
                }
                _ => json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}}),
            }
        };
        let calls =
            script.iter().filter_map(|said| if let Said::Call(kind, id) = said { Some((*kind, *id)) } else { None });
        let calls: Vec<Value> = calls.enumerate().map(call).collect();
        let says = script.iter().any(|said| matches!(said, Said::Text)) || calls.is_empty();
        let mut reply = json!({"role": "assistant", "content": if says { json!(text) } else { json!(null) }});
        if !calls.is_empty() {
            reply["tool_calls"] = json!(calls);
        }
        if self.chat == ChatProvider::DeepSeek {
            reply["reasoning_content"] = json!("hm");
        }
        if script.iter().any(|said| matches!(said, Said::Refusal)) {
            reply["refusal"] = json!("No.");
        }
        reply.to_string()
    }

    fn says(&mut self, script: &[Said], text: &str) -> Vec<Say> {
        let mut says = Vec::new();
        if self.thinks {
            says.push(Say::Thinking("hm".into()));
        }
        for said in script {
            self.calls += 1;
            says.push(match said {
                Said::Thinking => Say::Thinking(String::new()),
                Said::Text => Say::Text(text.to_owned()),
                // Ids are unique.
                Said::Call(kind, _) if kind % 2 == 0 => {
                    Say::call(format!("toolu_{:020}", self.calls), "look", json!({}))
                }
                Said::Call(..) => Say::call(format!("t{}", self.calls), "look", json!({})),
                Said::Search => Say::Search(format!("srvtoolu_{}", self.calls)),
                Said::Compaction => Say::Compaction("so far".into()),
                Said::Refusal => Say::Block(json!({"type": "later", "level": 1.5})),
            });
        }
        says
    }
}

fn outputs(script: &[Said], text: &str) -> Vec<responses::Say> {
    let output = |said: &Said| match said {
        Said::Thinking => responses::Say::reasoning(),
        Said::Text => responses::Say::Message { text: text.to_owned(), phase: Some("commentary") },
        Said::Call(kind, id) => responses::Say::Call {
            // Functions and custom tools in most cases, with the same ids.
            kind: CallType::ALL[if *kind < 8 { kind % 2 } else { kind % 8 }],
            id: (*id).to_owned(),
            name: "look".into(),
            arguments: "{}".into(),
        },
        Said::Search => responses::Say::WebSearch,
        Said::Compaction => responses::Say::Compaction,
        Said::Refusal => responses::Say::Refusal("No.".into()),
    };
    script.iter().map(output).collect()
}
