//! The formats of the APIs over HTTP, and a transport that answers in them.

use std::{convert::Infallible, hint::black_box};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, ServiceExt as _, util::BoxCloneSyncService};
use tower_chat_history::{
    ChatHistory, ChatHistoryLayer, ConversationId, HistoryStore as _, MemoryStore, Message,
    adapt::extract::FromExtensions,
    dialect::{AnthropicMessages, ChatCompletions, Dialect, OpenAiResponses},
    http::{HistoryBody, HttpHistory},
    store::{Provenance, Seq},
};

use crate::{conversation, text, turn};

/// A format.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// Its name.
    pub name: &'static str,
    dialect: &'static dyn Dialect,
    path: &'static str,
    /// The name of the list of messages.
    list: &'static str,
}

/// All formats.
pub const APIS: [Api; 3] = [
    Api { name: "chat", dialect: &ChatCompletions, path: "/v1/chat/completions", list: "messages" },
    Api { name: "messages", dialect: &AnthropicMessages, path: "/v1/messages", list: "messages" },
    Api { name: "responses", dialect: &OpenAiResponses, path: "/v1/responses", list: "input" },
];

impl Api {
    /// Returns a question and an answer.
    #[must_use]
    pub fn turn(self) -> [Message; 2] {
        let text = text();
        let answer = match self.name {
            "chat" => return turn(&text),
            "messages" => format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}]}}"#),
            _ => format!(
                r#"{{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{{"type":"output_text","text":"{text}","annotations":[]}}]}}"#
            ),
        };
        let question = format!(r#"{{"role":"user","content":"{text}"}}"#);
        [question, answer].map(|json| Message::in_dialect(self.dialect, json).unwrap())
    }

    /// Returns the body of a request with these messages.
    #[must_use]
    pub fn body(self, messages: &[Message]) -> String {
        let messages: Vec<&str> = messages.iter().map(Message::json).collect();
        format!(r#"{{"model":"gpt-4o","max_tokens":1000,"{}":[{}]}}"#, self.list, messages.join(","))
    }

    /// Returns the body of the response.
    #[must_use]
    pub fn answer(self) -> String {
        let [_, answer] = self.turn();
        let answer = answer.json();
        match self.name {
            "chat" => format!(
                r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-4o","choices":[{{"index":0,"message":{answer},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":3400,"completion_tokens":56,"total_tokens":3456}}}}"#
            ),
            "messages" => format!(
                r#"{{"id":"msg_1","type":"message","model":"claude","stop_reason":"end_turn","usage":{{"input_tokens":3400,"output_tokens":56}},{}"#,
                &answer[1..]
            ),
            _ => format!(
                r#"{{"id":"resp_1","object":"response","status":"completed","model":"gpt-5","output":[{answer}],"usage":{{"input_tokens":3400,"output_tokens":56}}}}"#
            ),
        }
    }
}

/// A boxed transport, whose futures are boxed too.
pub type Transport = BoxCloneSyncService<Request<HistoryBody>, Response<Full<Bytes>>, Infallible>;

/// Returns a transport in the same process, which reads the whole body of the request.
#[must_use]
pub fn transport(api: Api) -> Transport {
    let answer = Bytes::from(api.answer());
    BoxCloneSyncService::new(tower::service_fn(move |request: Request<HistoryBody>| {
        let answer = answer.clone();
        async move {
            black_box(request.into_body().collect().await.unwrap().to_bytes());
            let response = Response::builder().header("content-type", "application/json");
            Ok(response.body(Full::from(answer)).unwrap())
        }
    }))
}

/// Returns a request with this body.
#[must_use]
pub fn asked(api: Api, body: Bytes) -> Request<Full<Bytes>> {
    Request::post(format!("https://llm.test{}", api.path)).body(Full::from(body)).unwrap()
}

/// A transport with the layer.
pub type Layered = ChatHistory<Transport, HttpHistory<FromExtensions>>;

/// Returns a transport with the layer over this store.
#[must_use]
pub fn layer(store: MemoryStore, api: Api) -> Layered {
    ChatHistoryLayer::new(store, HttpHistory::new().extract_by(FromExtensions::new())).layer(transport(api))
}

/// Returns a request with a question in this conversation.
#[must_use]
pub fn asked_in(id: &ConversationId, api: Api, body: &Bytes) -> Request<Full<Bytes>> {
    let mut request = asked(api, body.clone());
    request.extensions_mut().insert(id.clone());
    request
}

/// Returns the provenance that the layer stores with a turn. Replies of the Responses API have one, because their ids
/// are bound to their origin.
pub async fn provenance(api: Api) -> Option<Provenance> {
    let store = MemoryStore::new();
    let id = conversation(0);
    let body = Bytes::from(api.body(&api.turn()[..1]));
    layer(store.clone(), api).oneshot(asked_in(&id, api, &body)).await.unwrap();
    let page = store.read(&id, Seq::FIRST, 1).await.unwrap();
    page.exchanges[0].exchange.provenance.clone()
}
