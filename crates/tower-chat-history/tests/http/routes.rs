//! Routes of one dialect with several wires.

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::Full;
use tower_chat_history::{
    HistoryOptions, Message, Reply,
    adapt::FoldReply,
    dialect::Dialect,
    engine::{InputMode, RequestInfo},
    http::{CONVERSATION_ID, CallError, ChatWire, Event, HttpHistory, OpenedBody, Refusal, Routes, Wire},
};

use super::support::{ASK, EVENTS, History, JSON, REPLY, WHOLE, answer, events, id, text};

/// Chat completions of a gateway whose whole responses are bare messages.
#[derive(Debug)]
struct Bare;

impl Wire for Bare {
    fn dialect(&self) -> &'static dyn Dialect {
        ChatWire::new().dialect()
    }

    fn provider(&self, _: &Uri) -> &'static str {
        "bare"
    }

    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
        ChatWire::new().open(body, mode, few_shot_messages).map(|mut opened| {
            opened.info = RequestInfo::new();
            opened
        })
    }

    fn reply(&self, body: &[u8]) -> Reply {
        Reply::new(Message::from_json(std::str::from_utf8(body).unwrap()).unwrap())
    }

    fn fold(&self, choices: usize) -> Box<dyn FoldReply<Event>> {
        ChatWire::new().fold(choices)
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        ChatWire::new().refusal(refusal)
    }
}

fn on(path: &'static str) -> impl Fn(&Method, &Uri) -> bool + Send + Sync {
    move |_, uri| uri.path() == path
}

#[tokio::test]
async fn a_response_is_read_by_the_wire_of_its_request() {
    static CHAT: ChatWire = ChatWire::new();
    let routes = Routes::none().route(on("/chat"), &CHAT).route(on("/bare"), &Bare);
    let history = History::of(HttpHistory::new().routes(routes), HistoryOptions::new());
    for (path, kind, body) in [
        ("/chat", JSON, WHOLE.to_owned()),
        ("/bare", JSON, REPLY.to_owned()),
        ("/bare", EVENTS, events(&["a0"])),
        ("/chat", JSON, WHOLE.to_owned()),
    ] {
        let request = Request::post(path).header(CONVERSATION_ID, id().as_str());
        let request = request.body(Full::<Bytes>::from(ASK)).unwrap();
        let (_, response) = history.call(request, answer(kind, body.clone())).await;
        assert_eq!(text(response.unwrap()).await, body);
    }
    let replies: Vec<String> = history.log().await.into_iter().skip(1).step_by(2).collect();
    assert_eq!(replies, [REPLY, REPLY, r#"{"role":"assistant","content":"a0"}"#, REPLY]);
}
