//! A call as each door takes it, and the request as it reached the model.

use std::collections::BTreeMap;

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::{Method, Request};
use serde_json::{json, value::RawValue};
use tower_chat_history::{
    ConversationId, ExchangeId, InConversation, Message, engine::InputMode, tokens::TokenCounter,
};
use tower_chat_history_openai::client::{CONVERSATION_ID, DONT_STORE, EXCHANGE_ID};

/// Which adapter, and whether its callers resend what they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Door {
    Typed(Mode),
    Client(Mode),
    Json(Mode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mode {
    New,
    Transcript,
}

pub(crate) const DOORS: [Door; 6] = [
    Door::Typed(Mode::New),
    Door::Typed(Mode::Transcript),
    Door::Client(Mode::New),
    Door::Client(Mode::Transcript),
    Door::Json(Mode::New),
    Door::Json(Mode::Transcript),
];

/// One of each kind, in which everything is new.
pub(crate) const ADAPTERS: [Door; 3] = [Door::Typed(Mode::New), Door::Client(Mode::New), Door::Json(Mode::New)];

impl Door {
    pub(crate) fn mode(self) -> Mode {
        let (Self::Typed(mode) | Self::Client(mode) | Self::Json(mode)) = self;
        mode
    }

    pub(crate) fn input_mode(self) -> InputMode {
        match self.mode() {
            Mode::New => InputMode::New,
            Mode::Transcript => InputMode::Transcript,
        }
    }
}

/// A call, whatever its door.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) conversation: ConversationId,
    pub(crate) exchange: ExchangeId,
    pub(crate) model: &'static str,
    pub(crate) head: Vec<Message>,
    pub(crate) resent: Vec<Message>,
    pub(crate) input: Vec<Message>,
    /// The limit of the reply, and the field in which it stands.
    pub(crate) limit: Option<(&'static str, u32)>,
    pub(crate) tools: Option<String>,
    pub(crate) response_format: Option<String>,
    pub(crate) dont_store: bool,
}

impl Asked {
    pub(crate) fn new(conversation: ConversationId, input: impl IntoIterator<Item = Message>) -> Self {
        Self {
            conversation,
            exchange: ExchangeId::generate(),
            model: "gpt-4o",
            head: Vec::new(),
            resent: Vec::new(),
            input: input.into_iter().collect(),
            limit: None,
            tools: None,
            response_format: None,
            dont_store: false,
        }
    }

    /// The request's JSON, in which messages are what they are to the byte.
    pub(crate) fn body(&self) -> String {
        let messages: Vec<&Message> = self.head.iter().chain(&self.resent).chain(&self.input).collect();
        let limit = self.limit.map_or_else(String::new, |(field, tokens)| format!(r#""{field}" : {tokens},"#));
        let field = |name: &str, json: &Option<String>| {
            json.as_ref().map_or_else(String::new, |json| format!(r#""{name}":{json},"#))
        };
        let schemas = field("tools", &self.tools) + &field("response_format", &self.response_format);
        let messages = serde_json::to_string(&messages).unwrap();
        format!(r#"{{"model":"{}",{limit}"messages":{messages},{schemas}"temperature":1.0}}"#, self.model)
    }

    /// As the doors take it that take an envelope.
    pub(crate) fn envelope<R>(&self, request: R) -> InConversation<R> {
        let call = InConversation::new(self.conversation.clone(), request).exchange(self.exchange.clone());
        if self.dont_store { call.dont_store() } else { call }
    }

    /// As the client's door takes it.
    pub(crate) fn http(&self) -> HttpRequestFactory {
        let asked = self.clone();
        HttpRequestFactory::new(move || {
            let mut request = Request::new(Method::POST, "http://llm.test/v1/chat/completions".parse().unwrap());
            let headers = request.headers_mut();
            headers.insert(CONVERSATION_ID, asked.conversation.to_string().parse().unwrap());
            headers.insert(EXCHANGE_ID, asked.exchange.to_string().parse().unwrap());
            if asked.dont_store {
                headers.insert(DONT_STORE, "true".parse().unwrap());
            }
            *request.body_mut() = Some(asked.body().into());
            async { Ok::<_, OpenAIError>(request) }
        })
    }
}

/// A request as it reached the model.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) body: String,
    pub(crate) messages: Vec<Message>,
    fields: BTreeMap<String, Box<RawValue>>,
}

impl Received {
    pub(crate) fn new(body: String) -> Self {
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&body).unwrap();
        let messages = serde_json::from_str(fields["messages"].get()).unwrap();
        Self { body, messages, fields }
    }

    pub(crate) fn number(&self, field: &str) -> Option<u32> {
        self.fields.get(field).and_then(|json| json.get().parse().ok())
    }

    /// What it costs by that counter, all of it.
    pub(crate) fn tokens(&self, counter: &dyn TokenCounter) -> u64 {
        let tools = self.fields.get("tools").filter(|tools| tools.get() != "null");
        let tools = tools.map_or(0, |tools| counter.count_text(tools.get()));
        let messages = self.messages.iter().map(|message| u64::from(counter.count_message(message)));
        u64::from(tower_chat_history::tokens::REPLY_PRIMING) + u64::from(tools) + messages.sum::<u64>()
    }

    /// What stands before the input, byte for byte.
    pub(crate) fn prefix(&self, input: usize) -> Vec<String> {
        let before = &self.messages[..self.messages.len() - input];
        before.iter().map(|message| message.json().to_owned()).collect()
    }
}

/// A function, as a tool of a request.
pub(crate) fn tool(name: &str, description: &str) -> String {
    let parameters = json!({"type": "object"});
    let function = json!({"name": name, "description": description, "parameters": parameters});
    json!([{"type": "function", "function": function}]).to_string()
}
