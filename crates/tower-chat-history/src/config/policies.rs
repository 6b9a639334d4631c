//! Policies, as data.

use serde::Deserialize;
use tower_chat_history_core::config::ConfigError;

use super::number::{OrNone, millis, positive, size};
use crate::{
    options::Policies,
    policy::{
        DetachLimits, OnConflict, OnInterruption, OnLoadFailure, OnOpenTurn, OnOtherDialect, OnSaveFailure,
        OnTranscriptMismatch, QueueLimits,
    },
};

/// The settings of [`Policies`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PoliciesConfig {
    /// [`Policies::on_conflict`].
    pub on_conflict: Option<OnConflictConfig>,
    /// [`Policies::on_open_turn`].
    pub on_open_turn: Option<OnOpenTurnConfig>,
    /// [`Policies::on_transcript_mismatch`].
    pub on_transcript_mismatch: Option<OnTranscriptMismatchConfig>,
    /// [`Policies::on_other_dialect`].
    pub on_other_dialect: Option<OnOtherDialectConfig>,
    /// [`Policies::on_load_failure`].
    pub on_load_failure: Option<OnLoadFailureConfig>,
    /// [`Policies::on_save_failure`].
    pub on_save_failure: Option<OnSaveFailureConfig>,
    /// [`Policies::on_interruption`].
    pub on_interruption: Option<OnInterruptionConfig>,
    /// [`Policies::detach_limits`].
    pub detach_limits: DetachConfig,
}

/// The settings of [`OnConflict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnConflictConfig {
    /// [`OnConflict::Rebase`].
    Rebase,
    /// [`OnConflict::Reject`].
    Reject,
    /// [`OnConflict::Serialize`].
    Serialize(QueueConfig),
}

/// The settings of [`QueueLimits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct QueueConfig {
    /// [`QueueLimits::max_waiting`].
    pub max_waiting: Option<u64>,
    /// [`QueueLimits::timeout`].
    pub timeout_ms: Option<u64>,
}

/// The settings of [`DetachLimits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DetachConfig {
    /// [`DetachLimits::max_streams`].
    pub max_streams: Option<u64>,
    /// [`DetachLimits::max_per_conversation`].
    pub max_per_conversation: Option<u64>,
    /// [`DetachLimits::timeout`].
    pub timeout_ms: Option<OrNone>,
}

/// Creates the settings of a policy without values, under the names of its variants in lower case.
macro_rules! names {
    ($($config:ident for $policy:ident { $($variant:ident),+ })+) => {
        $(
            #[doc = concat!("The settings of [`", stringify!($policy), "`].")]
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
            #[serde(rename_all = "snake_case")]
            #[non_exhaustive]
            pub enum $config {
                $(
                    #[doc = concat!("[`", stringify!($policy), "::", stringify!($variant), "`].")]
                    $variant,
                )+
            }

            impl From<$config> for $policy {
                fn from(config: $config) -> Self {
                    match config {
                        $($config::$variant => Self::$variant,)+
                    }
                }
            }
        )+
    };
}

names! {
    OnOpenTurnConfig for OnOpenTurn { Supersede, Reject }
    OnTranscriptMismatchConfig for OnTranscriptMismatch { Fail, TrustLog }
    OnOtherDialectConfig for OnOtherDialect { Fail, Translate }
    OnLoadFailureConfig for OnLoadFailure { Fail, CallWithoutHistory }
    OnSaveFailureConfig for OnSaveFailure { Fail, Report }
    OnInterruptionConfig for OnInterruption { Discard, KeepText, Detach }
}

impl PoliciesConfig {
    /// Builds the policies.
    ///
    /// # Errors
    ///
    /// Returns an error if a limit or a timeout is 0.
    pub fn build(&self) -> Result<Policies, ConfigError> {
        let default = Policies::new();
        let on_conflict = match self.on_conflict {
            None => default.on_conflict,
            Some(OnConflictConfig::Rebase) => OnConflict::Rebase,
            Some(OnConflictConfig::Reject) => OnConflict::Reject,
            Some(OnConflictConfig::Serialize(queue)) => {
                OnConflict::Serialize(queue.build().map_err(|error| error.within("on_conflict.serialize"))?)
            }
        };
        Ok(Policies {
            on_conflict,
            on_open_turn: self.on_open_turn.map_or(default.on_open_turn, Into::into),
            on_transcript_mismatch: self.on_transcript_mismatch.map_or(default.on_transcript_mismatch, Into::into),
            on_other_dialect: self.on_other_dialect.map_or(default.on_other_dialect, Into::into),
            on_load_failure: self.on_load_failure.map_or(default.on_load_failure, Into::into),
            on_save_failure: self.on_save_failure.map_or(default.on_save_failure, Into::into),
            on_interruption: self.on_interruption.map_or(default.on_interruption, Into::into),
            detach_limits: self.detach_limits.build().map_err(|error| error.within("detach_limits"))?,
        })
    }
}

impl QueueConfig {
    fn build(self) -> Result<QueueLimits, ConfigError> {
        let mut limits = QueueLimits::default();
        if let Some(calls) = self.max_waiting {
            positive(calls, "max_waiting")?;
            limits.max_waiting = size(calls);
        }
        if let Some(timeout) = self.timeout_ms {
            limits.timeout = millis(timeout, "timeout_ms")?;
        }
        Ok(limits)
    }
}

impl DetachConfig {
    fn build(self) -> Result<DetachLimits, ConfigError> {
        let mut limits = DetachLimits::new();
        if let Some(streams) = self.max_streams {
            positive(streams, "max_streams")?;
            limits.max_streams = size(streams);
        }
        if let Some(streams) = self.max_per_conversation {
            positive(streams, "max_per_conversation")?;
            limits.max_per_conversation = size(streams);
        }
        if let Some(timeout) = self.timeout_ms {
            limits.timeout = timeout.millis("timeout_ms")?;
        }
        Ok(limits)
    }
}
