//! The providers behind the proxy.

use examples::{HttpClient, client};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use tower::{ServiceBuilder, util::BoxCloneSyncService};
use tower_chat_history::{BoxError, http::HistoryBody};
use tower_chat_history_test::{MockServer, Replies, rules};

/// Headers that belong to one connection, and not to the message. `Connection` can name others.
const OF_CONNECTION: [HeaderName; 11] = [
    header::CONNECTION,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Returns the status with which the proxy itself refuses a request. It opens no tunnels. The provider's path must be
/// the one that the layer has seen, and a client resolves the segments `.` and `..`, also after a backslash.
pub(crate) fn refused<B>(request: &Request<B>) -> Option<StatusCode> {
    let is_dots = |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    match *request.method() {
        Method::CONNECT | Method::TRACE => Some(StatusCode::METHOD_NOT_ALLOWED),
        _ if request.uri().path().split(['/', '\\']).any(is_dots) => Some(StatusCode::BAD_REQUEST),
        _ => None,
    }
}

/// The providers behind the proxy.
pub(crate) struct Upstream {
    /// One line for the user about the providers.
    pub(crate) about: String,
    openai: Provider,
    anthropic: Provider,
    /// The mock server. It answers until it is dropped.
    mock: Option<MockServer>,
}

#[derive(Clone)]
struct Provider {
    /// The URL before the path of a request.
    base: String,
    /// The header of the key, and its value.
    key: Option<(HeaderName, HeaderValue)>,
}

impl Upstream {
    pub(crate) async fn from_env() -> Result<Self, BoxError> {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (openai, anthropic) = (var("OPENAI_API_KEY"), var("ANTHROPIC_API_KEY"));
        if openai.is_none() && anthropic.is_none() {
            let mock = MockServer::start(Replies::rules(rules::remembering())).await?;
            let provider = Provider { base: format!("http://{}", mock.address()), key: None };
            let about = "No key is set: using a mock model that answers by simple rules.".to_owned();
            return Ok(Self { about, openai: provider.clone(), anthropic: provider, mock: Some(mock) });
        }
        let bearer = openai.map(|key| (header::AUTHORIZATION, format!("Bearer {key}")));
        let api_key = anthropic.map(|key| (HeaderName::from_static("x-api-key"), key));
        // The path of a request begins with `/v1`, so a base URL ends before it.
        let base = |name: &str, default: &str| {
            let base = var(name).unwrap_or_else(|| default.to_owned());
            base.trim_end_matches('/').trim_end_matches("/v1").to_owned()
        };
        let openai = Provider::new(base("OPENAI_BASE_URL", "https://api.openai.com"), bearer)?;
        let anthropic = Provider::new(base("ANTHROPIC_BASE_URL", "https://api.anthropic.com"), api_key)?;
        Ok(Self { about: format!("Using {} and {}.", openai.base, anthropic.base), openai, anthropic, mock: None })
    }

    /// Returns the client that the layer wraps.
    pub(crate) fn client(&self) -> Result<HttpClient, BoxError> {
        let (openai, anthropic) = (self.openai.clone(), self.anthropic.clone());
        let directed = move |request: Request<HistoryBody>| {
            // Also `/messages/count_tokens`, but not `/threads/{id}/messages` of OpenAI.
            let has = |name: &str| request.uri().path().split('/').any(|segment| segment == name);
            let is_anthropic = has("messages") && !has("threads");
            if is_anthropic { anthropic.direct(request) } else { openai.direct(request) }
        };
        let service = ServiceBuilder::new()
            .map_response(|mut response: http::Response<_>| {
                strip(response.headers_mut());
                response
            })
            .filter(directed)
            .service(client(self.mock.is_some())?);
        Ok(BoxCloneSyncService::new(service))
    }

    /// Stops the mock server, if there is one.
    pub(crate) async fn shutdown(self) {
        if let Some(mock) = self.mock {
            mock.shutdown().await;
        }
    }
}

impl Provider {
    fn new(base: String, key: Option<(HeaderName, String)>) -> Result<Self, BoxError> {
        let url: Uri = base.parse().map_err(|error| format!("the base URL {base}: {error}"))?;
        if url.scheme().is_none() || url.query().is_some() {
            return Err(format!("the base URL {base} must have a scheme, such as https://, and no query").into());
        }
        let key = key.map(|(name, key)| Ok::<_, BoxError>((name, HeaderValue::try_from(key)?))).transpose()?;
        Ok(Self { base, key })
    }

    /// Sets the address of the provider, and its key if the request has none.
    fn direct(&self, mut request: Request<HistoryBody>) -> Result<Request<HistoryBody>, BoxError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = format!("{}{path}", self.base).parse::<Uri>()?;
        *request.version_mut() = Version::HTTP_11;
        strip(request.headers_mut());
        if let Some((name, value)) = &self.key {
            request.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        Ok(request)
    }
}

/// Removes the headers that belong to one connection.
fn strip(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|names| names.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|names| names.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    for name in named.into_iter().chain(OF_CONNECTION) {
        headers.remove(name);
    }
}
