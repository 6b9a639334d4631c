//! The provider that made a reply.

use serde::{Deserialize, Serialize};

/// The provider that made a reply. A provider's sealed reasoning can be read only by the same provider, and with some
/// providers only on the same route or account.
///
/// The values are the application's own names, for example `anthropic`, `bedrock` and `team-a`. They are stored with
/// exchanges, so do not use secrets. `None` stands for an unknown value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Origin {
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The way to the provider: a gateway, a cloud, a region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The account, project or key, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The model that is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Origin {
    /// The origin of which nothing is known.
    pub const UNKNOWN: Self = Self { provider: None, route: None, account: None, model: None };

    /// Creates the origin of which nothing is known.
    #[must_use]
    pub const fn unknown() -> Self {
        Self::UNKNOWN
    }

    /// Sets the provider. The default is `None`.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.provider = Some(name.into());
        self
    }

    /// Sets the route. The default is `None`.
    #[must_use]
    pub fn route(mut self, name: impl Into<String>) -> Self {
        self.route = Some(name.into());
        self
    }

    /// Sets the account. The default is `None`.
    #[must_use]
    pub fn account(mut self, name: impl Into<String>) -> Self {
        self.account = Some(name.into());
        self
    }

    /// Sets the model. The default is `None`.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Returns `true` if nothing is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}
