//! Which model answers: a provider, if there is a key for one, or the mock in this process.

use std::{env, io, sync::Arc};

use async_openai::{
    Client,
    config::{AzureConfig, Config, OpenAIConfig},
};
use tower_chat_history::summary::Summarizer;
use tower_chat_history_openai::{ChatService, summarizer};
use tower_chat_history_test::{MockServer, Replies};

use crate::{Counter, Extract};

/// A provider of chat completions.
pub struct Provider {
    /// Where the client connects and as whom.
    pub config: Arc<dyn Config>,
    /// The model to ask for.
    pub model: String,
    /// One line about it, for the user.
    pub about: String,
    /// Answers as long as it lives.
    mock: Option<MockServer>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("about", &self.about).finish_non_exhaustive()
    }
}

impl Provider {
    /// The provider that the environment names.
    ///
    /// - `OPENAI_API_KEY`: OpenAI, or whatever compatible provider `OPENAI_BASE_URL` points at;
    /// - with `AZURE_OPENAI_ENDPOINT` and `AZURE_OPENAI_DEPLOYMENT` as well (and `AZURE_OPENAI_API_VERSION`): Azure;
    /// - without a key: a mock model in this process.
    ///
    /// `model` is asked for, else `OPENAI_MODEL`, else `gpt-4o-mini`. The mock answers by `mock`, computed from nothing but the
    /// messages it receives.
    ///
    /// # Errors
    ///
    /// When the mock cannot listen on this machine, or Azure is named by halves.
    pub async fn from_env(model: Option<String>, mock: Replies) -> Result<Self, ProviderError> {
        let model = model.or_else(|| var("OPENAI_MODEL")).unwrap_or_else(|| "gpt-4o-mini".into());
        let Some(key) = var("OPENAI_API_KEY") else { return Self::mock(model, mock).await };
        let config: Arc<dyn Config> = match (var("AZURE_OPENAI_ENDPOINT"), var("AZURE_OPENAI_DEPLOYMENT")) {
            (Some(endpoint), Some(deployment)) => {
                let version = var("AZURE_OPENAI_API_VERSION").unwrap_or_else(|| "2024-10-21".into());
                let config = AzureConfig::new().with_api_base(endpoint).with_api_version(version);
                Arc::new(config.with_deployment_id(deployment).with_api_key(key))
            }
            (None, None) => Arc::new(OpenAIConfig::new().with_api_key(key)),
            (Some(_), None) => return Err(ProviderError::Azure("AZURE_OPENAI_DEPLOYMENT")),
            (None, Some(_)) => return Err(ProviderError::Azure("AZURE_OPENAI_ENDPOINT")),
        };
        let about = format!("Talking to {model} at {}.", config.api_base());
        Ok(Self { config, model, about, mock: None })
    }

    async fn mock(model: String, replies: Replies) -> Result<Self, ProviderError> {
        let server = MockServer::start(replies).await.map_err(ProviderError::Mock)?;
        let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("mock");
        let config: Arc<dyn Config> = Arc::new(config);
        let about = "No OPENAI_API_KEY: a mock model in this process answers by simple rules.".into();
        Ok(Self { config, model, about, mock: Some(server) })
    }

    /// A client without history, to put behind a layer.
    #[must_use]
    pub fn client(&self) -> Client<Arc<dyn Config>> {
        Client::with_config(Arc::clone(&self.config))
    }

    /// What makes summaries: the same model, or [extracts](Extract) where the model is the mock.
    #[must_use]
    pub fn summarizer(&self) -> Arc<dyn Summarizer> {
        if self.mock.is_some() {
            return Arc::new(Extract::new(Counter::O200k.make()));
        }
        Arc::new(summarizer(ChatService::new(self.client()), &*self.model))
    }

    /// Stops the mock, if there is one.
    pub async fn shutdown(self) {
        if let Some(mock) = self.mock {
            mock.shutdown().await;
        }
    }
}

/// A variable that is set and not empty.
fn var(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// There is no model to talk to.
#[derive(Debug)]
pub enum ProviderError {
    /// The mock cannot listen.
    Mock(io::Error),
    /// One of the two Azure variables is missing.
    Azure(&'static str),
}

impl std::fmt::Display for ProviderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mock(error) => write!(f, "the mock model cannot listen on this machine: {error}"),
            Self::Azure(missing) => write!(f, "for Azure, {missing} is needed too"),
        }
    }
}

impl std::error::Error for ProviderError {}
