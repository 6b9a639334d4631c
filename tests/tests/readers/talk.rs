//! A caller, the layer, and a server whose model reads prompts as a reader does.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ContextOptions, HistoryOptions, MemoryStore, Policies,
    budget::Watermarks,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory},
    policy::OnInterruption,
    recall::{LogRecall, RecallOptions},
    summary::{Summaries, SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};

use super::{
    kinds::{Conversation, Memory, Step},
    reader::{Reader, Readers},
};

/// The course of a conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) questions: usize,
    /// The words of the reader, for each request that it has refused.
    pub(crate) refused_on_the_wire: Vec<String>,
    /// The response or the error, for each question that got no reply.
    pub(crate) refused_at_the_caller: Vec<String>,
    /// The last questions have all been refused.
    pub(crate) is_dead: bool,
}

/// The number of refused questions in a row at the end of a conversation that is dead.
const DEAD: usize = 3;

/// Has a conversation through the layer.
pub(crate) async fn talk(readers: &Readers, reader: &Reader, conversation: Conversation) -> Outcome {
    let server = Arc::new(Server {
        readers: readers.clone(),
        reader: reader.name.clone(),
        step: Mutex::default(),
        refused: Mutex::default(),
    });
    let store = MemoryStore::new();
    let options = options(conversation.memory, &store);
    let layer = ChatHistoryLayer::with_options(store, HttpHistory::new(), options);
    let chat = layer.layer(service_fn({
        let server = Arc::clone(&server);
        move |request| answer(Arc::clone(&server), request)
    }));

    let mut outcome = Outcome::default();
    let mut refused_in_a_row = 0;
    for step in conversation.steps {
        // Nobody sends the results of calls that the model has not made.
        if step.input[0]["role"] == "tool" && refused_in_a_row > 0 {
            continue;
        }
        let mut messages: Vec<_> = conversation.head.iter().cloned().collect();
        messages.extend(step.input.iter().cloned());
        let mut body = json!({"model": "m", "messages": messages, "stream": step.breaks_off});
        if !conversation.tools.is_null() {
            body["tools"] = conversation.tools.clone();
        }
        *server.step.lock().unwrap() = Some(step);

        let request = Request::post("/v1/chat/completions").header(CONVERSATION_ID, "readers");
        let response = chat.clone().oneshot(request.body(body.to_string()).unwrap()).await;
        outcome.questions += 1;
        match reply(response).await {
            Ok(()) => refused_in_a_row = 0,
            Err(words) => {
                outcome.refused_at_the_caller.push(words);
                refused_in_a_row += 1;
            }
        }
    }
    outcome.is_dead = refused_in_a_row >= DEAD;
    outcome.refused_on_the_wire = std::mem::take(&mut *server.refused.lock().unwrap());
    outcome
}

/// Reads a response to its end.
async fn reply(response: Result<Response<HistoryBody>, BoxError>) -> Result<(), String> {
    let (head, body) = response.map_err(|error| error.to_string())?.into_parts();
    let read = body.collect().await;
    if head.status.is_success() {
        // Some replies break off.
        return Ok(());
    }
    Err(String::from_utf8_lossy(&read.unwrap().to_bytes()).into_owned())
}

fn options(memory: Memory, store: &MemoryStore) -> HistoryOptions {
    let policies = Policies::new().on_interruption(OnInterruption::KeepText);
    let mut options = HistoryOptions::new().policies(policies);
    if memory == Memory::Whole {
        return options;
    }

    options = options.context(ContextOptions::new().watermarks(Watermarks::last_turns(4)));
    if memory != Memory::Recall {
        options = options.summaries(Summaries::new(Minutes).when(SummarizeWhen::BeforeCall));
    }
    if memory != Memory::Summary {
        // A busy machine may need longer than the default limit.
        let recall = RecallOptions::new(LogRecall::new(store.clone())).timeout(std::time::Duration::from_secs(60));
        options = options.recall(recall);
    }
    options
}

/// A summarizer that needs no model.
#[derive(Debug)]
struct Minutes;

#[async_trait]
impl Summarizer for Minutes {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        Ok(SummaryResponse::new(format!("The user asked where things are, in {} messages.", request.messages.len())))
    }
}

struct Server {
    readers: Readers,
    reader: String,
    /// The present step of the caller.
    step: Mutex<Option<Step>>,
    /// The words of all refusals.
    refused: Mutex<Vec<String>>,
}

async fn answer(
    server: Arc<Server>,
    request: Request<HistoryBody>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    let body: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let step = server.step.lock().unwrap().clone().unwrap();
    if !step.elsewhere
        && let Err(words) = server.readers.read(&server.reader, &body["messages"], &body["tools"])
    {
        let error = json!({"message": words, "type": "BadRequestError", "param": null, "code": 400});
        server.refused.lock().unwrap().push(words);
        let body = Full::from(json!({ "error": error }).to_string());
        return Ok(response(400, "application/json", body.map_err(Into::into).boxed_unsync()));
    }

    if step.breaks_off {
        let chunk = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "The beginning"}}]});
        let frame = Frame::data(Bytes::from(format!("data: {chunk}\n\n")));
        let frames = stream::iter([Ok(frame), Err("the connection was reset".into())]);
        return Ok(response(200, "text/event-stream", StreamBody::new(frames).boxed_unsync()));
    }
    let choice = json!({"index": 0, "message": step.reply, "finish_reason": step.finish_reason});
    let body = Full::from(json!({"model": "m", "choices": [choice]}).to_string());
    Ok(response(200, "application/json", body.map_err(Into::into).boxed_unsync()))
}

fn response<B>(status: u16, kind: &str, body: B) -> Response<B> {
    Response::builder().status(status).header("content-type", kind).body(body).unwrap()
}
