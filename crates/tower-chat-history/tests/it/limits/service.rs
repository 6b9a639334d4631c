//! Limits in the layer: readiness and streams.

use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower_chat_history::{BoxError, InConversation};

use super::*;
use crate::support::{Piece, Pieces, Request, streaming, unary};

fn ask(id: &str, text: &str) -> InConversation<Request> {
    InConversation::new(self::id(id), vec![Message::user(text)])
}

fn options() -> HistoryOptions {
    HistoryOptions::new().limits(Limits::new().max_message_bytes(100).max_exchanges(1))
}

fn kind(error: &BoxError) -> LimitKind {
    let Some(HistoryError::Limit(exceeded)) = error.downcast_ref() else { panic!("{error}") };
    exceeded.kind
}

/// The inner service lets one call through. A refused call does not use this up.
#[tokio::test]
async fn a_refused_call_leaves_the_inner_service_to_others() {
    let (mut chat, mut llm) = unary(MemoryStore::new(), options());
    llm.allow(0);
    assert_pending!(chat.poll_ready());
    llm.allow(1);
    for _ in 0..3 {
        assert_ready_ok!(chat.poll_ready());
        let refused = chat.call(ask("hostile/1", &"u".repeat(100))).await.unwrap_err();
        assert_eq!(kind(&refused), LimitKind::MessageBytes);
        assert!(llm.next_request().now_or_never().is_none());
    }
    assert_ready_ok!(chat.poll_ready());
    let mut other = task::spawn(chat.call(ask("modest/1", "u0")));
    assert_pending!(other.poll());
    let (request, answer) = llm.next_request().await.unwrap();
    assert_eq!(texts(&request), ["u0"]);
    answer.send_response(Message::assistant("a0"));
    other.await.unwrap();
    assert_pending!(chat.poll_ready());
}

#[tokio::test]
async fn a_stream_that_has_begun_is_stored_beyond_a_limit() {
    let store = MemoryStore::new();
    let (mut chat, mut llm) = streaming(store.clone(), options());
    let mut streams = Vec::new();
    for text in ["u0", "u1"] {
        assert_ready_ok!(chat.poll_ready());
        let mut call = task::spawn(chat.call(ask("tenant/1", text)));
        assert!(call.poll().is_pending());
        let pieces: Pieces = stream::iter([Ok(Piece::Text("a")), Ok(Piece::Finish)]).boxed();
        llm.next_request().await.unwrap().1.send_response(pieces);
        streams.push(call.await.unwrap());
    }
    for stream in streams {
        assert_eq!(stream.collect::<Vec<_>>().await, [Ok(Piece::Text("a")), Ok(Piece::Finish)]);
    }
    let stored = store.conversation(&id("tenant/1")).messages().await.unwrap();
    assert_eq!(texts(&stored), ["u0", "a", "u1", "a"]);
    assert_ready_ok!(chat.poll_ready());
    let refused = chat.call(ask("tenant/1", "u2")).await.err().unwrap();
    assert_eq!(kind(&refused), LimitKind::Exchanges);
}
