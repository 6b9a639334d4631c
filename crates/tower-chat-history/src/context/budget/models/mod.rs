//! The context windows of models.
//!
//! # Decisions
//!
//! - **Unknown models have no limit**, and the report says so. A guess would trim prompts that fit.

mod table;

use std::collections::BTreeMap;

#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

/// The limits of a model, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct ModelLimits {
    /// The context window: prompt and reply together.
    #[cfg_attr(feature = "config", serde(rename = "context_tokens", deserialize_with = "field::positive"))]
    pub context: u32,
    /// The largest prompt, if it is smaller than the context window.
    #[cfg_attr(
        feature = "config",
        serde(rename = "prompt_tokens", default, deserialize_with = "field::some_positive")
    )]
    pub input: Option<u32>,
    /// The longest reply.
    #[cfg_attr(feature = "config", serde(rename = "reply_tokens", default, deserialize_with = "field::some_positive"))]
    pub output: Option<u32>,
}

impl ModelLimits {
    /// Creates limits with a context window of this many tokens, prompt and reply together.
    #[must_use]
    pub const fn new(context: u32) -> Self {
        Self { context, input: None, output: None }
    }

    /// Sets the largest prompt. The default is the context window.
    #[must_use]
    pub const fn input(mut self, tokens: u32) -> Self {
        self.input = Some(tokens);
        self
    }

    /// Returns these limits for a context window of at most this size.
    pub(crate) fn at_most(self, tokens: u32) -> Self {
        Self { context: self.context.min(tokens), ..self }
    }

    /// Sets the longest reply. The default is the context window.
    #[must_use]
    pub const fn output(mut self, tokens: u32) -> Self {
        self.output = Some(tokens);
        self
    }
}

/// The limits of models, as the [docs](super#table-of-models) describe.
#[derive(Clone, Debug)]
pub(crate) struct ModelTable(BTreeMap<String, Entry>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    limits: ModelLimits,
    /// True if the entry was added by the program. It then also applies to names with any tag.
    added: bool,
}

impl ModelTable {
    /// Creates the table of the models that this version knows.
    pub(crate) fn new() -> Self {
        let all = table::ALL.into_iter().flatten();
        Self(all.map(|(name, limits)| (normalized(name), Entry { limits: *limits, added: false })).collect())
    }

    /// Adds a model, or replaces its limits.
    pub(crate) fn insert(&mut self, name: impl Into<String>, limits: ModelLimits) {
        self.0.insert(normalized(&name.into()), Entry { limits, added: true });
    }

    /// Returns the limits of a model: those of the longest name in the table with which the model's name begins.
    ///
    /// # Errors
    ///
    /// Returns an error if the model's name begins with none of the table's names.
    pub(crate) fn get(&self, model: &str) -> Result<ModelLimits, UnknownModel> {
        let found = normalized_names(model).find_map(|name| self.longest_prefix(&name));
        found.ok_or_else(|| UnknownModel { model: model.to_owned() })
    }

    /// Returns the largest context window of all models in the table, in tokens.
    #[cfg(feature = "config")]
    pub(crate) fn largest_context(&self) -> u32 {
        self.0.values().map(|entry| entry.limits.context).max().unwrap_or_default()
    }

    /// Returns the models that the program added, with their names in the form in which they are compared.
    #[cfg(feature = "config")]
    pub(super) fn added(&self) -> impl Iterator<Item = (&str, ModelLimits)> {
        self.0.iter().filter(|(_, entry)| entry.added).map(|(name, entry)| (name.as_str(), entry.limits))
    }

    fn longest_prefix(&self, name: &str) -> Option<ModelLimits> {
        // A prefix ends where a part of the name ends.
        let ends = name.char_indices().filter(|(_, c)| !c.is_ascii_alphanumeric()).map(|(end, _)| end);
        let known = ends.take(MAX_PARTS).chain([name.len()]).filter_map(|end| self.0.get(&name[..end]));
        let hosted = is_hosted(name);
        known.filter(|known| known.added || hosted).last().map(|known| known.limits)
    }
}

/// The largest number of parts of a name that are compared. The names in the table have far fewer.
const MAX_PARTS: usize = 32;

/// Returns the forms in which a model's name is looked up: the name itself, that of the model from which it was made,
/// and the name without its provider.
pub(crate) fn normalized_names(model: &str) -> impl Iterator<Item = String> {
    [model, base_model(model), without_provider(model)].into_iter().map(normalized)
}

/// Returns the form in which names are compared.
fn normalized(name: &str) -> String {
    let mut form = String::with_capacity(name.len());
    form.extend(name.chars().map(|letter| if letter == '.' { '-' } else { letter.to_ascii_lowercase() }));
    form
}

/// Returns the model from which a fine-tuned model was made, or the name itself.
fn base_model(model: &str) -> &str {
    let tuned = model.split_once("ft:").map(|(_, tuned)| tuned.split(':').next().unwrap_or(tuned));
    tuned.unwrap_or(model)
}

/// Returns the name without a path before it, and without a region and maker in the form of Amazon Bedrock
/// (`us.anthropic.`).
fn without_provider(model: &str) -> &str {
    let mut name = model.rsplit('/').next().unwrap_or(model);
    while let Some((maker, rest)) = name.split_once('.')
        && !maker.is_empty()
        && maker.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
    {
        name = rest;
    }
    name
}

/// Returns `false` if the name is that of a local server. Ollama's names have a tag (`gpt-oss:20b`). Two hosted
/// services also use tags: a tag of OpenRouter is the name of a variant, and a tag of Amazon Bedrock is a number.
fn is_hosted(name: &str) -> bool {
    let Some((_, tag)) = name.split_once(':') else { return true };
    let variants = ["beta", "exacto", "extended", "floor", "free", "nitro", "online", "thinking"];
    variants.contains(&tag) || (!tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Default for ModelTable {
    fn default() -> Self {
        Self::new()
    }
}

/// A model that is not in the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown context window of model {model:?}: set it with ContextBudget::tokens, or set ContextBudget::unknown")]
pub struct UnknownModel {
    model: String,
}

impl UnknownModel {
    /// Returns the name of the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_providers_and_fine_tuned_models_are_found() {
        let table = ModelTable::new();
        for (name, context) in [
            ("gpt-4o", 128_000),
            ("gpt-4o-2024-08-06", 128_000),
            ("gpt-4", 8_192),
            ("gpt-4-0613", 8_192),
            ("gpt-4.1-mini", 1_047_576),
            ("gpt-4-turbo-2024-04-09", 128_000),
            ("gpt-5-mini", 400_000),
            ("gpt-5.1", 400_000),
            ("gpt-5-chat-latest", 128_000),
            ("openai/gpt-4o-mini", 128_000),
            ("ft:gpt-3.5-turbo-0125:acme::id", 16_385),
            ("ft:gpt-3.5-turbo:acme/b:c", 16_385),
            ("openai/ft:gpt-4o:acme", 128_000),
            ("gpt-35-turbo", 16_385),
            ("gpt-4-vision-preview", 128_000),
            ("gpt-5.1-chat-latest", 128_000),
            ("o1", 200_000),
            ("o3-mini", 200_000),
        ] {
            assert_eq!(table.get(name).map(|limits| limits.context), Ok(context), "{name}");
        }
        for unknown in ["", "gpt", "o10", "gpt-4100", "claude", "llama-3", "/", ".", "us.anthropic.", "a.b.c", "gpt-7"]
        {
            assert!(table.get(unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn makers_regions_dates_and_variants_are_ignored() {
        let table = ModelTable::new();
        for (name, context) in [
            ("anthropic/claude-sonnet-4.5", 200_000),
            ("claude-sonnet-4-5-20250929", 200_000),
            ("claude-sonnet-4-5@20250929", 200_000),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
            ("arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-opus-4-6-v1", 1_000_000),
            ("us-gov.amazon.nova-pro-v1:0", 300_000),
            ("meta.llama3-1-70b-instruct-v1:0", 128_000),
            ("models/gemini-2.5-pro", 1_048_576),
            ("publishers/google/models/gemini-2.5-flash-lite", 1_048_576),
            ("gemini-2.5-flash-image", 32_768),
            ("openrouter/openai/gpt-oss-20b:free", 131_072),
            ("x-ai/grok-4.5", 500_000),
            ("grok-4-0709", 256_000),
            ("moonshotai/Kimi-K2-Thinking", 262_144),
            ("z-ai/glm-4.6", 204_800),
            ("MiniMax-M2.5-highspeed", 204_800),
            ("meta-llama/Llama-3.3-70B-Instruct", 128_000),
            ("gpt-5.4-mini-2026-03-17", 400_000),
            ("gpt-5.6-luna", 1_050_000),
            ("GPT-4o", 128_000),
        ] {
            assert_eq!(table.get(name).map(|limits| limits.context), Ok(context), "{name}");
        }
    }

    #[test]
    fn models_of_local_servers_are_unknown() {
        for name in
            ["qwen3:0.6b", "gpt-oss:20b", "gpt-oss:latest", "deepseek-r1:7b", "mistral-nemo", "llama3.1:8b", "gemma3"]
        {
            assert!(ModelTable::new().get(name).is_err(), "{name}");
        }
        let mut table = ModelTable::new();
        table.insert("gpt-oss:20b", ModelLimits::new(4_096));
        table.insert("Qwen3", ModelLimits::new(8_192));
        assert_eq!(table.get("gpt-oss:20b").unwrap().context, 4_096);
        assert_eq!(table.get("qwen3:0.6b").unwrap().context, 8_192, "an added model has any tag");
    }

    #[test]
    fn every_model_of_the_table_is_found_and_has_valid_limits() {
        let table = ModelTable::new();
        for (name, limits) in table::ALL.into_iter().flatten() {
            assert_eq!(table.get(name), Ok(*limits), "{name}");
            let ModelLimits { context, input, output } = *limits;
            assert!(input.unwrap_or(1) <= context && output.unwrap_or(1) <= context && context >= 4_096, "{name}");
        }
        let names: usize = table::ALL.into_iter().map(<[_]>::len).sum();
        assert_eq!(table.0.len(), names, "no name occurs twice");
    }

    #[test]
    fn very_long_names_are_looked_up_quickly() {
        let late = "a".repeat(1_000_000) + &"-b".repeat(MAX_PARTS);
        for name in ["gpt-".repeat(250_000), "a.".repeat(500_000), "/".repeat(1_000_000), "ft:".repeat(300_000), late] {
            assert!(ModelTable::new().get(&name).is_err());
        }
    }

    #[test]
    fn an_added_model_is_found() {
        let mut table = ModelTable::new();
        table.insert("acme/large", ModelLimits::new(1));
        table.insert("gpt-4o-mini", ModelLimits::new(2));
        assert_eq!(table.get("acme/large-2").unwrap().context, 1);
        assert_eq!((table.get("gpt-4o-mini").unwrap().context, table.get("gpt-4o").unwrap().context), (2, 128_000));
    }
}
