//! An HTTP client as a tower service.

use http::{Request, Response};
use tower::{service_fn, util::BoxCloneSyncService};
use tower_chat_history::{BoxError, http::HistoryBody};

/// A client for the inside of a history layer.
pub type HttpClient = BoxCloneSyncService<Request<HistoryBody>, Response<reqwest::Body>, BoxError>;

/// Creates a client of reqwest. A local server is called without a proxy.
///
/// # Errors
///
/// Fails if the system's certificates cannot be read.
pub fn client(is_local: bool) -> Result<HttpClient, BoxError> {
    let builder = reqwest::Client::builder();
    let client = if is_local { builder.no_proxy() } else { builder }.build()?;
    Ok(BoxCloneSyncService::new(service_fn(move |request: Request<HistoryBody>| {
        let client = client.clone();
        async move {
            let request = reqwest::Request::try_from(request.map(reqwest::Body::wrap))?;
            Ok::<_, BoxError>(Response::from(client.execute(request).await?))
        }
    })))
}
