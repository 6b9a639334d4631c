//! The text of a streamed response, as it arrives.

use bytes::Buf as _;
use futures_util::{Stream, StreamExt as _, stream};
use http::Response;
use http_body_util::{BodyExt as _, BodyStream};
use serde_json::Value;
use tower_chat_history::{BoxError, http::HistoryBody};

use super::HttpApi;

/// Returns the pieces of text in a streamed response.
///
/// # Errors
///
/// Fails if the status is an error. The text has the provider's answer.
pub async fn texts(
    api: HttpApi,
    response: Response<HistoryBody>,
) -> Result<impl Stream<Item = Result<String, BoxError>> + Send + 'static, BoxError> {
    let status = response.status();
    if !status.is_success() {
        let body = response.into_body().collect().await?.to_bytes();
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
    }
    let frames = BodyStream::new(response.into_body());
    let pieces = stream::unfold((frames, Vec::new()), move |(mut frames, mut buffer)| async move {
        loop {
            if let Some(event) = next_event(&mut buffer) {
                match api.text(&event) {
                    Ok(Some(text)) => return Some((Ok(text), (frames, buffer))),
                    Ok(None) => continue,
                    Err(error) => return Some((Err(error), (frames, buffer))),
                }
            }
            match frames.next().await? {
                Ok(frame) => {
                    if let Ok(mut data) = frame.into_data() {
                        buffer.extend_from_slice(&data.copy_to_bytes(data.remaining()));
                    }
                }
                Err(error) => return Some((Err(error), (frames, buffer))),
            }
        }
    });
    Ok(pieces)
}

/// Removes the first whole event, and returns its data. Both APIs end each event with an empty line.
fn next_event(buffer: &mut Vec<u8>) -> Option<Value> {
    let end = buffer.windows(2).position(|two| two == b"\n\n")? + 2;
    let event: Vec<u8> = buffer.drain(..end).collect();
    let event = String::from_utf8_lossy(&event);
    let data = event.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or("null");
    Some(serde_json::from_str(data).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_when_they_are_whole() {
        let mut buffer = b": ping\n\nevent: a\ndata: {\"type\":\"a\"}\n\ndata: {\"ty".to_vec();
        assert_eq!(next_event(&mut buffer), Some(Value::Null));
        assert_eq!(next_event(&mut buffer).unwrap()["type"], "a");
        assert_eq!(next_event(&mut buffer), None);
        buffer.extend_from_slice(b"pe\":\"b\"}\n\n");
        assert_eq!(next_event(&mut buffer).unwrap()["type"], "b");
        assert!(buffer.is_empty());
    }

    #[test]
    fn an_error_event_is_an_error() {
        for (api, event) in [
            (HttpApi::Messages, r#"{"type":"error","error":{"message":"Overloaded"}}"#),
            (HttpApi::Responses, r#"{"type":"error","message":"Overloaded"}"#),
            (HttpApi::Responses, r#"{"type":"response.failed","response":{"error":{"message":"Overloaded"}}}"#),
        ] {
            let error = api.text(&serde_json::from_str(event).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), "the provider reports: Overloaded");
        }
    }
}
