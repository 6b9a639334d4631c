//! The names of the model's errors in spans.

use std::{borrow::Cow, error::Error};

use async_openai::error::{ApiErrorResponse, OpenAIError};
use tower::timeout::error::Elapsed;
use tower_chat_history::{
    HistoryError, SaveError, error,
    refusal::{ErrorFields, Remedy},
    store::MessageError,
};

use crate::carry::CannotCarry;

/// The name for a response that is not a chat completion.
const INVALID_RESPONSE: &str = "invalid_response";

/// Returns a constant name or the HTTP status code. It never contains text of the provider, not even the provider's own
/// name of the error.
pub(crate) fn error_type(error: &(dyn Error + 'static)) -> Cow<'static, str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<HistoryError>() || error.is::<SaveError>() {
            return error::error_type(error);
        }
        if error.is::<CannotCarry>() {
            return "cannot_carry".into();
        }
        // In adapters, only reading a response fails with this error.
        if error.is::<MessageError>() {
            return INVALID_RESPONSE.into();
        }
        if let Some(error) = error.downcast_ref::<OpenAIError>() {
            return of_client(error);
        }
        if let Some(error) = error.downcast_ref::<reqwest::Error>() {
            return of_transport(error);
        }
        if error.is::<Elapsed>() {
            return "timeout".into();
        }
        next = error.source();
    }
    "_OTHER".into()
}

/// Returns the remedy for a refusal.
pub(crate) fn remedy_of(error: &(dyn Error + 'static)) -> Option<Remedy> {
    let mut next = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<OpenAIError>() {
            Some(OpenAIError::ApiError(ApiErrorResponse { status_code, api_error })) => {
                let code = api_error.code.as_deref();
                let kind = api_error.r#type.as_deref();
                let fields = ErrorFields { code, kind, message: &api_error.message };
                return Remedy::of_error(Some(status_code.as_u16()), &fields);
            }
            // The content of the error is the body: not every server has OpenAI's form of errors.
            Some(OpenAIError::JSONDeserialize(_, body)) => return Remedy::of_body(None, body.as_bytes()),
            // The variant is transparent, so the boxed error itself is not among the sources.
            #[cfg(feature = "client")]
            Some(OpenAIError::Boxed(error)) => return remedy_of(error.as_ref()),
            _ => next = error.source(),
        }
    }
    None
}

fn of_client(error: &OpenAIError) -> Cow<'static, str> {
    match error {
        OpenAIError::ApiError(answer) => answer.status_code.as_str().to_owned().into(),
        OpenAIError::Reqwest(error) => of_transport(error),
        OpenAIError::JSONDeserialize(..) => INVALID_RESPONSE.into(),
        OpenAIError::StreamError(_) => "stream".into(),
        OpenAIError::InvalidArgument(_) => "invalid_request".into(),
        // The variant is transparent, so the boxed error itself is not among the sources.
        #[cfg(feature = "client")]
        OpenAIError::Boxed(error) => error_type(error.as_ref()),
        // This is a wildcard because features of async-openai add variants. Any crate of a build can enable them.
        _ => error.source().map_or_else(|| "_OTHER".into(), error_type),
    }
}

fn of_transport(error: &reqwest::Error) -> Cow<'static, str> {
    if let Some(status) = error.status() {
        return status.as_str().to_owned().into();
    }
    let name = if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        "connect"
    } else if error.is_body() || error.is_decode() {
        // reqwest reports a body that breaks off as one that cannot be decoded.
        "body"
    } else if error.is_builder() {
        "invalid_request"
    } else if error.is_redirect() {
        "redirect"
    } else if error.is_request() {
        "request"
    } else {
        "_OTHER"
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use std::{fmt, time::Duration};

    use async_openai::error::{ApiError, ApiErrorResponse, StreamError};
    use reqwest::{Body, Client, Response, StatusCode};
    use tokio::net::TcpListener;
    use tower::{Service as _, ServiceExt as _};
    use tower_chat_history::BoxError;

    use super::*;

    const SECRET: &str = "my aunt's diagnosis";

    /// An error that wraps another one, like the errors of layers.
    #[derive(Debug)]
    struct Wrapper(BoxError);

    impl fmt::Display for Wrapper {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(SECRET)
        }
    }

    impl Error for Wrapper {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }

    fn refused(status: StatusCode) -> OpenAIError {
        let secret = || Some(SECRET.to_owned());
        let api_error =
            ApiError { message: SECRET.into(), r#type: secret(), param: secret(), code: secret(), misalignment: None };
        OpenAIError::ApiError(ApiErrorResponse { status_code: status, api_error })
    }

    #[test]
    fn errors_have_constant_names_or_the_status() {
        let unreadable = serde_json::from_str::<u8>(&format!("\"{SECRET}\"")).unwrap_err();
        for (error, name) in [
            (refused(StatusCode::TOO_MANY_REQUESTS), "429"),
            (refused(StatusCode::from_u16(529).unwrap()), "529"),
            (OpenAIError::JSONDeserialize(unreadable, SECRET.into()), "invalid_response"),
            (OpenAIError::StreamError(Box::new(StreamError::EventStream(SECRET.into()))), "stream"),
            (OpenAIError::InvalidArgument(SECRET.into()), "invalid_request"),
            (OpenAIError::FileReadError(SECRET.into()), "_OTHER"),
        ] {
            assert_eq!(error_type(&error), name);
            assert_eq!(error_type(&Wrapper(error.into())), name, "wrapped in another error");
        }
        assert_eq!(error_type(&Wrapper(SECRET.into())), "_OTHER");
    }

    #[test]
    fn errors_of_the_main_crate_keep_their_names() {
        let error = HistoryError::QueueFull { max_waiting: 8 };
        let name = error.kind();
        assert_eq!(error_type(&Wrapper(error.into())), name);
    }

    #[cfg(feature = "client")]
    #[test]
    fn a_boxed_error_has_the_name_of_its_content() {
        let boxed = |error: BoxError| OpenAIError::Boxed(error);
        assert_eq!(error_type(&boxed(refused(StatusCode::BAD_GATEWAY).into())), "502");
        assert_eq!(error_type(&boxed(Wrapper(boxed(Elapsed::new().into()).into()).into())), "timeout");
        assert_eq!(error_type(&boxed(SECRET.into())), "_OTHER");
    }

    #[tokio::test(start_paused = true)]
    async fn the_error_of_a_timeout_layer_is_a_timeout() {
        let never = tower::service_fn(|()| std::future::pending::<Result<(), OpenAIError>>());
        let mut limited = tower::timeout::Timeout::new(never, Duration::from_secs(1));
        let error = limited.ready().await.unwrap().call(()).await.unwrap_err();
        assert_eq!(error_type(&*error), "timeout");
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_the_transport_have_names() {
        let name = |error: reqwest::Error| {
            let named = error_type(&error);
            assert_eq!(error_type(&OpenAIError::Reqwest(error)), named);
            named
        };
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/{SECRET}", silent.local_addr().unwrap());
        let client = Client::builder().no_proxy().build().unwrap();
        let late = client.get(&url).timeout(Duration::from_secs(1)).send().await.unwrap_err();
        assert_eq!(name(late), "timeout");
        drop(silent);
        assert_eq!(name(client.get(&url).send().await.unwrap_err()), "connect");
        assert_eq!(name(client.get(SECRET).send().await.unwrap_err()), "invalid_request");

        let refused = http::Response::builder().status(404).body(SECRET).unwrap();
        assert_eq!(name(Response::from(refused).error_for_status().unwrap_err()), "404");
        let broken = futures_util::stream::iter([Ok(SECRET), Err(SECRET)]);
        let broken = Response::from(http::Response::new(Body::wrap_stream(broken)));
        assert_eq!(name(broken.bytes().await.unwrap_err()), "body");
    }
}
