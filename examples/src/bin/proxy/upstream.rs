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
    match *request.method() {
        Method::CONNECT | Method::TRACE => Some(StatusCode::METHOD_NOT_ALLOWED),
        _ if request.uri().path().split(['/', '\\']).any(is_dots) => Some(StatusCode::BAD_REQUEST),
        _ => None,
    }
}

fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
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
        let openai = var("OPENAI_API_KEY");
        let anthropic = var("ANTHROPIC_API_KEY");
        if openai.is_none() && anthropic.is_none() {
            return Self::mock().await;
        }

        let bearer = openai.map(|key| (header::AUTHORIZATION, format!("Bearer {key}")));
        let api_key = anthropic.map(|key| (HeaderName::from_static("x-api-key"), key));
        let openai = Provider::new(base_url("OPENAI_BASE_URL", "https://api.openai.com"), bearer)?;
        let anthropic = Provider::new(base_url("ANTHROPIC_BASE_URL", "https://api.anthropic.com"), api_key)?;
        Ok(Self { about: format!("Using {} and {}.", openai.base, anthropic.base), openai, anthropic, mock: None })
    }

    async fn mock() -> Result<Self, BoxError> {
        let mock = MockServer::start(Replies::rules(rules::remembering())).await?;
        let provider = Provider { base: format!("http://{}", mock.address()), key: None };
        let about = "No key is set: using a mock model that answers by simple rules.".to_owned();
        Ok(Self { about, openai: provider.clone(), anthropic: provider, mock: Some(mock) })
    }

    /// Returns the client that the layer wraps.
    pub(crate) fn client(&self) -> Result<HttpClient, BoxError> {
        let openai = self.openai.clone();
        let anthropic = self.anthropic.clone();
        let service = ServiceBuilder::new()
            .map_response(|mut response: http::Response<_>| {
                strip(response.headers_mut());
                response
            })
            .filter(
                move |request: Request<HistoryBody>| {
                    if is_anthropic(request.uri()) { anthropic.direct(request) } else { openai.direct(request) }
                },
            )
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

/// Returns the value of a variable that is set and not empty.
fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns a base URL without `/v1`, because the path of a request begins with it.
fn base_url(name: &str, default: &str) -> String {
    let url = var(name).unwrap_or_else(|| default.to_owned());
    url.trim_end_matches('/').trim_end_matches("/v1").to_owned()
}

/// Returns `true` for the paths of Anthropic's API: also `/messages/count_tokens`, but not `/threads/{id}/messages`,
/// which is OpenAI's.
fn is_anthropic(url: &Uri) -> bool {
    let segments: Vec<&str> = url.path().split('/').collect();
    segments.contains(&"messages") && !segments.contains(&"threads")
}

impl Provider {
    fn new(base: String, key: Option<(HeaderName, String)>) -> Result<Self, BoxError> {
        let url: Uri = base.parse().map_err(|error| format!("the base URL {base}: {error}"))?;
        if url.scheme().is_none() || url.query().is_some() {
            return Err(format!("the base URL {base} must have a scheme, such as https://, and no query").into());
        }

        let key = match key {
            Some((name, key)) => Some((name, HeaderValue::try_from(key)?)),
            None => None,
        };
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
    let mut names = OF_CONNECTION.to_vec();
    for value in headers.get_all(header::CONNECTION) {
        let listed = value.to_str().unwrap_or_default().split(',');
        names.extend(listed.filter_map(|name| name.trim().parse::<HeaderName>().ok()));
    }

    for name in names {
        headers.remove(name);
    }
}
