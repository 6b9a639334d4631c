//! The model provider: a real one if there is an API key, otherwise a mock model in this process.

use std::{env, io, sync::Arc};

use async_openai::{
    Client,
    config::{AzureConfig, Config, OpenAIConfig},
};
use tower_chat_history::summary::Summarizer;
use tower_chat_history_openai::{ChatService, summarizer};
use tower_chat_history_test::{MockServer, Replies};

use crate::{cli::Counter, extract::Extract};

/// A provider of chat completions.
pub struct Provider {
    /// The configuration of clients: the address and the credentials.
    pub config: Arc<dyn Config>,
    /// The name of the model.
    pub model: String,
    /// One line for the user about the provider.
    pub about: String,
    /// The mock server. It answers until it is dropped.
    mock: Option<MockServer>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("about", &self.about).finish_non_exhaustive()
    }
}

impl Provider {
    /// Creates a provider from environment variables:
    ///
    /// - `OPENAI_API_KEY`: OpenAI, or the compatible provider at `OPENAI_BASE_URL`;
    /// - `OPENAI_API_KEY` with `AZURE_OPENAI_ENDPOINT` and `AZURE_OPENAI_DEPLOYMENT` (and optionally
    ///   `AZURE_OPENAI_API_VERSION`): Azure;
    /// - no `OPENAI_API_KEY`: a mock model in this process.
    ///
    /// The model's name is `model`, or else `OPENAI_MODEL`, or else `gpt-4o-mini`. `mock` has the replies of the mock
    /// model.
    ///
    /// # Errors
    ///
    /// Fails if the mock server cannot listen on this machine, or if one of the two Azure variables is missing.
    pub async fn from_env(model: Option<String>, mock: Replies) -> Result<Self, ProviderError> {
        let model = model.or_else(|| var("OPENAI_MODEL")).unwrap_or_else(|| "gpt-4o-mini".into());
        let Some(key) = var("OPENAI_API_KEY") else { return Self::mock(model, mock).await };

        let config: Arc<dyn Config> = match (var("AZURE_OPENAI_ENDPOINT"), var("AZURE_OPENAI_DEPLOYMENT")) {
            (Some(endpoint), Some(deployment)) => {
                let version = var("AZURE_OPENAI_API_VERSION").unwrap_or_else(|| "2024-10-21".into());
                let config = AzureConfig::new().with_api_base(endpoint).with_api_version(version);
                Arc::new(config.with_deployment_id(deployment).with_api_key(key))
            }
            (None, None) => {
                let base = var("OPENAI_BASE_URL").unwrap_or_else(|| "https://api.openai.com/v1".into());
                Arc::new(OpenAIConfig::new().with_api_base(base).with_api_key(key))
            }
            (Some(_), None) => return Err(ProviderError::Azure("AZURE_OPENAI_DEPLOYMENT")),
            (None, Some(_)) => return Err(ProviderError::Azure("AZURE_OPENAI_ENDPOINT")),
        };

        let about = format!("Using {model} at {}.", config.api_base());
        Ok(Self { config, model, about, mock: None })
    }

    async fn mock(model: String, replies: Replies) -> Result<Self, ProviderError> {
        let server = MockServer::start(replies).await.map_err(ProviderError::Mock)?;
        let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("mock");
        let about = "OPENAI_API_KEY is not set: using a mock model that answers by simple rules.".into();
        Ok(Self { config: Arc::new(config), model, about, mock: Some(server) })
    }

    /// Returns a client without history, for the inside of a layer.
    #[must_use]
    pub fn client(&self) -> Client<Arc<dyn Config>> {
        Client::with_config(Arc::clone(&self.config))
    }

    /// Returns a summarizer. It calls the provider's model. For the mock model, it is [`Extract`].
    #[must_use]
    pub fn summarizer(&self) -> Arc<dyn Summarizer> {
        if self.mock.is_some() {
            return Arc::new(Extract::new(Counter::O200k.make()));
        }
        Arc::new(summarizer(ChatService::new(self.client()), &*self.model))
    }

    /// Stops the mock server, if there is one.
    pub async fn shutdown(self) {
        if let Some(mock) = self.mock {
            mock.shutdown().await;
        }
    }
}

/// Returns the value of a variable that is set and not empty.
pub(crate) fn var(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// An error of [`Provider::from_env`].
#[derive(Debug)]
pub enum ProviderError {
    /// The mock server cannot listen.
    Mock(io::Error),
    /// One of the two Azure variables is missing.
    Azure(&'static str),
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mock(error) => write!(f, "the mock model server cannot listen: {error}"),
            Self::Azure(missing) => write!(f, "Azure also requires the environment variable {missing}"),
        }
    }
}

impl std::error::Error for ProviderError {}
