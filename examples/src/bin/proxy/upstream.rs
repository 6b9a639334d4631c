//! The providers behind the proxy.

use examples::{HttpClient, client};
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use tower::{ServiceBuilder, util::BoxCloneSyncService};
use tower_chat_history::BoxError;
use tower_chat_history_http::HistoryBody;
use tower_chat_history_test::{MockServer, Replies, rules};

/// Headers that belong to one connection, and not to the message.
const OF_CONNECTION: [header::HeaderName; 5] =
    [header::CONNECTION, header::HOST, header::TE, header::TRANSFER_ENCODING, header::UPGRADE];

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
    key: Option<(header::HeaderName, HeaderValue)>,
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
        let api_key = anthropic.map(|key| (header::HeaderName::from_static("x-api-key"), key));
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
    fn new(base: String, key: Option<(header::HeaderName, String)>) -> Result<Self, BoxError> {
        let key = key.map(|(name, key)| Ok::<_, BoxError>((name, HeaderValue::try_from(key)?))).transpose()?;
        Ok(Self { base, key })
    }

    /// Sets the address of the provider, and its key if the request has none.
    fn direct(&self, mut request: Request<HistoryBody>) -> Result<Request<HistoryBody>, BoxError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = format!("{}{path}", self.base).parse::<Uri>()?;
        strip(request.headers_mut());
        if let Some((name, value)) = &self.key {
            request.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        Ok(request)
    }
}

fn strip(headers: &mut HeaderMap) {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}
